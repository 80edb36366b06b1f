//! Random: evicts any item with equal probability.

use fastrand::Rng;

use crate::evict::policy::{Policy, Setting};

pub struct Any {
    items: usize,
    keys: Vec<u32>,
    there: Vec<bool>,
    random: Rng,
}

impl Any {
    pub fn new(setting: &Setting) -> Self {
        let there = vec![false; setting.trace.distinct()];
        Any { items: setting.items, keys: Vec::new(), there, random: Rng::with_seed(1) }
    }
}

impl Policy for Any {
    fn access(&mut self, key: u32) -> bool {
        if std::mem::replace(&mut self.there[key as usize], true) {
            return true;
        }
        if self.keys.len() == self.items {
            let gone = self.keys.swap_remove(self.random.usize(..self.items));
            self.there[gone as usize] = false;
        }
        self.keys.push(key);
        false
    }
}
