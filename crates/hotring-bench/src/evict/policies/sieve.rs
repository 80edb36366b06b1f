//! SIEVE (Zhang and others, NSDI 2024): a hand moves from old to new items and evicts unvisited ones; visited
//! ones stay in their position.

use crate::evict::lists::Lists;
use crate::evict::policy::{Policy, Setting};

pub struct Sieve {
    items: usize,
    queue: Lists<1>,
    visited: Vec<bool>,
    /// The next item under the hand; None for the oldest one.
    hand: Option<u32>,
}

impl Sieve {
    pub fn new(setting: &Setting) -> Self {
        let keys = setting.trace.distinct();
        let (queue, visited) = (Lists::new(keys), vec![false; keys]);
        Sieve { items: setting.items, queue, visited, hand: None }
    }

    fn evict(&mut self) {
        while let Some(at) = self.hand.or(self.queue.oldest(0)) {
            self.hand = self.queue.newer(at);
            if !std::mem::take(&mut self.visited[at as usize]) {
                self.queue.remove(at);
                return;
            }
        }
    }
}

impl Policy for Sieve {
    fn access(&mut self, key: u32) -> bool {
        if self.queue.list_of(key).is_some() {
            self.visited[key as usize] = true;
            return true;
        }
        if self.queue.len(0) == self.items {
            self.evict();
        }
        self.queue.push(0, key);
        false
    }
}
