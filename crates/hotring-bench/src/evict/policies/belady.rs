//! Belady's optimum: evicts the item whose next access is furthest in the future. It knows the trace in advance,
//! so no policy can have more hits.

use std::collections::BTreeSet;

use crate::evict::policy::{Policy, Setting};

/// The position of an access that never comes.
const NEVER: usize = usize::MAX;

pub struct Belady {
    items: usize,
    /// The position of the next access to the same key, for each access.
    next: Vec<usize>,
    /// The next access and the key of each item.
    order: BTreeSet<(usize, u32)>,
    now: usize,
}

impl Belady {
    pub fn new(setting: &Setting) -> Self {
        let mut seen = vec![NEVER; setting.trace.distinct()];
        let mut next = vec![NEVER; setting.trace.accesses().len()];
        for (access, &key) in setting.trace.accesses().iter().enumerate().rev() {
            next[access] = std::mem::replace(&mut seen[key as usize], access);
        }
        Belady { items: setting.items, next, order: BTreeSet::new(), now: 0 }
    }
}

impl Policy for Belady {
    fn access(&mut self, key: u32) -> bool {
        let hit = self.order.remove(&(self.now, key));
        if !hit && self.order.len() == self.items {
            self.order.pop_last();
        }
        self.order.insert((self.next[self.now], key));
        self.now += 1;
        hit
    }
}
