//! S3-FIFO (Yang and others, SOSP 2023, algorithm 1): a small queue of a tenth of the items, a main queue, and a
//! queue of ghosts as long as the main queue.

use crate::evict::lists::Lists;
use crate::evict::policy::{Policy, Setting};

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
/// The maximum of an access count.
const COUNT_MAX: u8 = 3;

pub struct S3Fifo {
    items: usize,
    small_items: usize,
    queues: Lists<3>,
    /// Accesses since the key was inserted or last examined.
    counts: Vec<u8>,
}

impl S3Fifo {
    pub fn new(setting: &Setting) -> Self {
        let (items, keys) = (setting.items, setting.trace.distinct());
        let small_items = (items / 10).max(1);
        S3Fifo { items, small_items, queues: Lists::new(keys), counts: vec![0; keys] }
    }

    fn main_items(&self) -> usize {
        self.items - self.small_items
    }

    fn evict(&mut self) {
        if self.queues.len(SMALL) < self.small_items && self.queues.len(MAIN) > 0 {
            return self.evict_main();
        }
        while let Some(key) = self.queues.pop(SMALL) {
            if std::mem::take(&mut self.counts[key as usize]) <= 1 {
                self.queues.push(GHOST, key);
                if self.queues.len(GHOST) > self.main_items() {
                    self.queues.pop(GHOST);
                }
                return;
            }
            self.queues.push(MAIN, key);
            if self.queues.len(MAIN) > self.main_items() {
                return self.evict_main();
            }
        }
        self.evict_main();
    }

    fn evict_main(&mut self) {
        while let Some(key) = self.queues.pop(MAIN) {
            let count = &mut self.counts[key as usize];
            if *count == 0 {
                return;
            }
            *count -= 1;
            self.queues.push(MAIN, key);
        }
    }
}

impl Policy for S3Fifo {
    fn access(&mut self, key: u32) -> bool {
        let list = self.queues.list_of(key);
        if matches!(list, Some(SMALL | MAIN)) {
            let count = &mut self.counts[key as usize];
            *count = (*count + 1).min(COUNT_MAX);
            return true;
        }
        if self.queues.len(SMALL) + self.queues.len(MAIN) == self.items {
            self.evict();
        }
        self.queues.push(if list == Some(GHOST) { MAIN } else { SMALL }, key);
        self.counts[key as usize] = 0;
        false
    }
}
