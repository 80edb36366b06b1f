//! FIFO: evicts the oldest item.

use crate::evict::lists::Lists;
use crate::evict::policy::{Policy, Setting};

pub struct Fifo {
    items: usize,
    queue: Lists<1>,
}

impl Fifo {
    pub fn new(setting: &Setting) -> Self {
        Fifo { items: setting.items, queue: Lists::new(setting.trace.distinct()) }
    }
}

impl Policy for Fifo {
    fn access(&mut self, key: u32) -> bool {
        if self.queue.list_of(key).is_some() {
            return true;
        }
        if self.queue.len(0) == self.items {
            self.queue.pop(0);
        }
        self.queue.push(0, key);
        false
    }
}
