//! CLOCK: FIFO, except that an item visited since the last check goes to the end once more.

use crate::evict::lists::Lists;
use crate::evict::policy::{Policy, Setting};

pub struct Clock {
    items: usize,
    queue: Lists<1>,
    visited: Vec<bool>,
}

impl Clock {
    pub fn new(setting: &Setting) -> Self {
        let keys = setting.trace.distinct();
        Clock { items: setting.items, queue: Lists::new(keys), visited: vec![false; keys] }
    }
}

impl Policy for Clock {
    fn access(&mut self, key: u32) -> bool {
        if self.queue.list_of(key).is_some() {
            self.visited[key as usize] = true;
            return true;
        }
        if self.queue.len(0) == self.items {
            while let Some(oldest) = self.queue.pop(0) {
                if !std::mem::take(&mut self.visited[oldest as usize]) {
                    break;
                }
                self.queue.push(0, oldest);
            }
        }
        self.queue.push(0, key);
        false
    }
}
