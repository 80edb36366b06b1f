//! LRU and LFU as Redis 7 does them (`evict.c`): five items by chance, and a pool of the sixteen best candidates so
//! far, whose ranks are not looked at again.
//!
//! Redis measures time in seconds and minutes, which a trace does not tell. For LRU each access is a moment of
//! its own, which is finer than Redis's clock; for LFU 60,000 accesses are a minute. The sample is of single items,
//! where Redis takes runs of its table.

use fastrand::Rng;

use crate::evict::policy::{Policy, Setting};

/// `maxmemory-samples`.
const SAMPLES: usize = 5;
const POOL: usize = 16;
/// `lfu-log-factor`, and the count of a new item.
const LOG_FACTOR: f64 = 10.0;
const COUNT_NEW: u8 = 5;
/// With `lfu-decay-time` 1 an item loses one of its count in each.
const ACCESSES_A_MINUTE: u64 = 60_000;

/// The record of an item.
#[derive(Clone, Copy, Default)]
struct Item {
    /// Where it is among all, from 1 on; 0 if it is not there.
    place: usize,
    /// The last access, in accesses or minutes.
    last: u64,
    count: u8,
}

pub struct Sampled {
    items: usize,
    frequency: bool,
    keys: Vec<u32>,
    of: Vec<Item>,
    /// Ranks and keys, the best candidate last.
    pool: Vec<(u64, u32)>,
    random: Rng,
    now: u64,
}

impl Sampled {
    pub fn lru(setting: &Setting) -> Self {
        Sampled {
            items: setting.items,
            frequency: false,
            keys: Vec::new(),
            of: vec![Item::default(); setting.trace.distinct()],
            pool: Vec::new(),
            random: Rng::with_seed(1),
            now: 0,
        }
    }

    pub fn lfu(setting: &Setting) -> Self {
        Sampled { frequency: true, ..Self::lru(setting) }
    }

    fn time(&self) -> u64 {
        if self.frequency { self.now / ACCESSES_A_MINUTE } else { self.now }
    }

    /// The count minus its decay since then.
    fn count(&self, item: Item) -> u8 {
        let minutes = self.time() - item.last;
        item.count.saturating_sub(u8::try_from(minutes).unwrap_or(u8::MAX))
    }

    /// The higher, the sooner it goes.
    fn rank(&self, key: u32) -> u64 {
        let item = self.of[key as usize];
        if self.frequency { u64::from(u8::MAX - self.count(item)) } else { self.now - item.last }
    }

    fn visit(&mut self, key: u32) {
        let mut item = self.of[key as usize];
        item.count = self.count(item);
        let above = f64::from(item.count.saturating_sub(COUNT_NEW));
        if item.count < u8::MAX && self.random.f64() < 1.0 / (above * LOG_FACTOR + 1.0) {
            item.count += 1;
        }
        item.last = self.time();
        self.of[key as usize] = item;
    }

    /// Puts candidates into the pool, best last.
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
                let place = std::mem::take(&mut self.of[key as usize].place);
                if place > 0 {
                    self.keys.swap_remove(place - 1);
                    if let Some(&moved) = self.keys.get(place - 1) {
                        self.of[moved as usize].place = place;
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
        if self.of[key as usize].place > 0 {
            self.visit(key);
            return true;
        }
        if self.keys.len() == self.items {
            self.evict();
        }
        self.keys.push(key);
        self.of[key as usize] =
            Item { place: self.keys.len(), last: self.time(), count: COUNT_NEW };
        false
    }
}
