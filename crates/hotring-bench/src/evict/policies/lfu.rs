//! Exact LFU: evicts the item with the fewest accesses since its insertion, and among these the least recently
//! used one. The counts of evicted items are forgotten.

use std::collections::BTreeSet;

use crate::evict::policy::{Policy, Setting};

pub struct Lfu {
    items: usize,
    /// Accesses, the last access, and the key.
    order: BTreeSet<(u64, u64, u32)>,
    /// The accesses and the last access by key. Zero accesses: the key is absent.
    accesses: Vec<(u64, u64)>,
    now: u64,
}

impl Lfu {
    pub fn new(setting: &Setting) -> Self {
        let accesses = vec![(0, 0); setting.trace.distinct()];
        Lfu { items: setting.items, order: BTreeSet::new(), accesses, now: 0 }
    }
}

impl Policy for Lfu {
    fn access(&mut self, key: u32) -> bool {
        let (count, last) = self.accesses[key as usize];
        let hit = count > 0;
        if hit {
            self.order.remove(&(count, last, key));
        } else if self.order.len() == self.items {
            let (_, _, evicted) = self.order.pop_first().expect("a full cache has an item");
            self.accesses[evicted as usize] = (0, 0);
        }
        self.now += 1;
        self.accesses[key as usize] = (count + 1, self.now);
        self.order.insert((count + 1, self.now, key));
        hit
    }
}
