//! ARC (Megiddo and Modha, FAST 2003, figure 4), with the names of the paper.

use crate::evict::lists::Lists;
use crate::evict::policy::{Policy, Setting};

const T1: usize = 0;
const T2: usize = 1;
const B1: usize = 2;
const B2: usize = 3;

pub struct Arc {
    /// The paper's c: the capacity in items.
    items: usize,
    /// The paper's p: the target length of T1.
    target: f64,
    lists: Lists<4>,
}

impl Arc {
    pub fn new(setting: &Setting) -> Self {
        Arc { items: setting.items, target: 0.0, lists: Lists::new(setting.trace.distinct()) }
    }

    fn replace(&mut self, ghost_of_2: bool) {
        let len = self.lists.len(T1) as f64;
        let first = len > 0.0 && (len > self.target || (ghost_of_2 && len == self.target));
        // With T2 empty, T1 is the only list to evict from.
        let (from, to) = if first || self.lists.len(T2) == 0 { (T1, B1) } else { (T2, B2) };
        if let Some(key) = self.lists.pop(from) {
            self.lists.push(to, key);
        }
    }

    /// Adapts the target to a hit in `ghosts`, by a step that depends on the lengths of `ghosts` and `others`.
    fn adapt(&mut self, ghosts: usize, others: usize, sign: f64) {
        let step = (self.lists.len(others) as f64 / self.lists.len(ghosts) as f64).max(1.0);
        self.target = (self.target + sign * step).clamp(0.0, self.items as f64);
    }

    /// Makes space for a key that is in no list: the paper's case IV.
    fn make_room(&mut self) {
        let [t1, t2, b1, b2] = [T1, T2, B1, B2].map(|list| self.lists.len(list));
        if t1 + b1 == self.items {
            if t1 < self.items {
                self.lists.pop(B1);
                self.replace(false);
            } else {
                self.lists.pop(T1);
            }
        } else if t1 + t2 + b1 + b2 >= self.items {
            if t1 + t2 + b1 + b2 == 2 * self.items {
                self.lists.pop(B2);
            }
            if t1 + t2 == self.items {
                self.replace(false);
            }
        }
    }
}

impl Policy for Arc {
    fn access(&mut self, key: u32) -> bool {
        let list = self.lists.list_of(key);
        match list {
            Some(T1 | T2) => {}
            Some(B1) => {
                self.adapt(B1, B2, 1.0);
                self.replace(false);
            }
            Some(_) => {
                self.adapt(B2, B1, -1.0);
                self.replace(true);
            }
            None => self.make_room(),
        }
        self.lists.push(if list.is_some() { T2 } else { T1 }, key);
        matches!(list, Some(T1 | T2))
    }
}
