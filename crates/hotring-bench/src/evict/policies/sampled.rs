//! LRU and LFU as in Redis 7 (`evict.c`): samples of five random items, and a pool of the sixteen best candidates
//! so far, which keep the rank of their first sample.
//!
//! A trace has no clock. For LRU each access is one tick, which is finer than Redis's clock; for LFU a minute is
//! 60,000 accesses. The sample consists of single items, where Redis takes runs of its table.

use fastrand::Rng;

use crate::evict::policy::{Policy, Setting};

/// `maxmemory-samples`.
const SAMPLES: usize = 5;
const POOL: usize = 16;
/// `lfu-log-factor`, then the count of a new item.
const LOG_FACTOR: f64 = 10.0;
const COUNT_NEW: u8 = 5;
/// Accesses in a minute of `lfu-decay-time` 1: an item's count falls by one in each minute.
const ACCESSES_PER_MINUTE: u64 = 60_000;

/// The record of an item.
#[derive(Clone, Copy, Default)]
struct Item {
    /// The index in `keys` plus one; 0 if the item is absent.
    key_slot: usize,
    /// The last access, in accesses (LRU) or minutes (LFU).
    last: u64,
    count: u8,
}

pub struct Sampled {
    items: usize,
    is_lfu: bool,
    keys: Vec<u32>,
    records: Vec<Item>,
    /// Ranks and keys, the best candidate last.
    pool: Vec<(u64, u32)>,
    random: Rng,
    now: u64,
}

impl Sampled {
    pub fn lru(setting: &Setting) -> Self {
        Sampled {
            items: setting.items,
            is_lfu: false,
            keys: Vec::new(),
            records: vec![Item::default(); setting.trace.distinct()],
            pool: Vec::new(),
            random: Rng::with_seed(1),
            now: 0,
        }
    }

    pub fn lfu(setting: &Setting) -> Self {
        Sampled { is_lfu: true, ..Self::lru(setting) }
    }

    fn time(&self) -> u64 {
        if self.is_lfu { self.now / ACCESSES_PER_MINUTE } else { self.now }
    }

    /// The count minus its decay since the last access.
    fn count(&self, item: Item) -> u8 {
        let minutes = self.time() - item.last;
        item.count.saturating_sub(u8::try_from(minutes).unwrap_or(u8::MAX))
    }

    /// The rank of an item. The item of the highest rank is evicted first.
    fn rank(&self, key: u32) -> u64 {
        let item = self.records[key as usize];
        if self.is_lfu { u64::from(u8::MAX - self.count(item)) } else { self.now - item.last }
    }

    fn visit(&mut self, key: u32) {
        let mut item = self.records[key as usize];
        item.count = self.count(item);
        let above = f64::from(item.count.saturating_sub(COUNT_NEW));
        if item.count < u8::MAX && self.random.f64() < 1.0 / (above * LOG_FACTOR + 1.0) {
            item.count += 1;
        }
        item.last = self.time();
        self.records[key as usize] = item;
    }

    /// Puts sampled candidates into the pool, best last.
    fn sample(&mut self) {
        for _ in 0..SAMPLES {
            let key = self.keys[self.random.usize(..self.keys.len())];
            let rank = self.rank(key);
            if self.pool.iter().any(|&(_, known)| known == key) {
                continue;
            }
            let at = self.pool.partition_point(|&(known, _)| known < rank);
            if self.pool.len() < POOL {
                self.pool.insert(at, (rank, key));
            } else if at > 0 {
                self.pool.insert(at, (rank, key));
                self.pool.remove(0);
            }
        }
    }

    fn evict(&mut self) {
        loop {
            self.sample();
            while let Some((_, key)) = self.pool.pop() {
                let key_slot = std::mem::take(&mut self.records[key as usize].key_slot);
                if key_slot > 0 {
                    self.keys.swap_remove(key_slot - 1);
                    if let Some(&moved) = self.keys.get(key_slot - 1) {
                        self.records[moved as usize].key_slot = key_slot;
                    }
                    return;
                }
            }
        }
    }
}

impl Policy for Sampled {
    fn access(&mut self, key: u32) -> bool {
        self.now += 1;
        if self.records[key as usize].key_slot > 0 {
            self.visit(key);
            return true;
        }
        if self.keys.len() == self.items {
            self.evict();
        }
        self.keys.push(key);
        self.records[key as usize] =
            Item { key_slot: self.keys.len(), last: self.time(), count: COUNT_NEW };
        false
    }
}
