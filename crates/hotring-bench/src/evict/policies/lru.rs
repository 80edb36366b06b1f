//! Exact LRU: evicts the least recently used item.

use crate::evict::lists::Lists;
use crate::evict::policy::{Policy, Setting};

pub struct Lru {
    items: usize,
    queue: Lists<1>,
}

impl Lru {
    pub fn new(setting: &Setting) -> Self {
        Lru { items: setting.items, queue: Lists::new(setting.trace.distinct()) }
    }
}

impl Policy for Lru {
    fn access(&mut self, key: u32) -> bool {
        let hit = self.queue.list_of(key).is_some();
        if !hit && self.queue.len(0) == self.items {
            self.queue.pop(0);
        }
        self.queue.push(0, key);
        hit
    }
}
