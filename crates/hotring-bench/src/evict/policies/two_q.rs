//! 2Q, the full version (Johnson and Shasha, VLDB 1994): a FIFO of a quarter of the items, a list of ghosts for
//! half as many keys as items, and an LRU list of items that were requested again while they were ghosts.

use crate::evict::lists::Lists;
use crate::evict::policy::{Policy, Setting};

const IN: usize = 0;
const OUT: usize = 1;
const MAIN: usize = 2;

pub struct TwoQ {
    items: usize,
    lists: Lists<3>,
}

impl TwoQ {
    pub fn new(setting: &Setting) -> Self {
        TwoQ { items: setting.items, lists: Lists::new(setting.trace.distinct()) }
    }

    fn make_room(&mut self) {
        if self.lists.len(IN) + self.lists.len(MAIN) < self.items {
            return;
        }
        if self.lists.len(IN) <= self.items / 4 && self.lists.pop(MAIN).is_some() {
            return;
        }
        if let Some(key) = self.lists.pop(IN) {
            self.lists.push(OUT, key);
            if self.lists.len(OUT) > self.items / 2 {
                self.lists.pop(OUT);
            }
        }
    }
}

impl Policy for TwoQ {
    fn access(&mut self, key: u32) -> bool {
        let list = self.lists.list_of(key);
        match list {
            Some(MAIN) => self.lists.push(MAIN, key),
            Some(IN) => {}
            _ => {
                // A requested ghost must leave its list first: a full list must not drop a ghost to make space
                // for it.
                self.lists.remove(key);
                self.make_room();
                self.lists.push(if list == Some(OUT) { MAIN } else { IN }, key);
            }
        }
        matches!(list, Some(MAIN | IN))
    }
}
