//! `heat`, the store's own policy, over a plain map in place of the store.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use hotring_store::evict::heat::{Heat, Items, Judged, Marks, VISITS_MAX, Verdict};

use crate::evict::policy::{Policy, Setting};
use crate::workload::mix::mix;

pub struct HeatCache {
    items: usize,
    heat: Heat,
    map: Map,
}

/// The items, found by key and by hash.
struct Map {
    marks: Vec<Option<Marks>>,
    /// Keys by their hash with its bits reversed, which is the order of the index.
    order: BTreeMap<u64, u32>,
}

impl HeatCache {
    pub fn new(setting: &Setting) -> Self {
        let map = Map { marks: vec![None; setting.trace.distinct()], order: BTreeMap::new() };
        HeatCache { items: setting.items, heat: Heat::new(), map }
    }
}

impl Policy for HeatCache {
    fn access(&mut self, key: u32) -> bool {
        if let Some(marks) = &mut self.map.marks[key as usize] {
            marks.visits = (marks.visits + 1).min(VISITS_MAX);
            return true;
        }
        if self.map.order.len() == self.items {
            let evicted = self.heat.evict(&mut self.map);
            assert!(evicted, "a full cache has an item");
        }
        // 48 bits, in which the keys of a trace do not collide.
        let hash = mix(u64::from(key) + 1) >> 16;
        let young = self.heat.entered(hash);
        self.map.marks[key as usize] = Some(Marks { visits: 0, young });
        self.map.order.insert(hash.reverse_bits(), key);
        false
    }
}

impl Map {
    /// Shows the item at a position of the order and carries out the verdict.
    fn show(&mut self, position: u64, key: u32, verdict: impl FnOnce(Marks) -> Verdict) -> Judged {
        let marks = self.marks[key as usize].as_mut().expect("each item in the order has marks");
        match verdict(*marks) {
            Verdict::Keep(kept) => {
                *marks = kept;
                Judged::Kept
            }
            Verdict::Evict => {
                self.marks[key as usize] = None;
                self.order.remove(&position);
                Judged::Evicted
            }
        }
    }
}

impl Items for Map {
    fn count(&self) -> usize {
        self.order.len()
    }

    fn judge(&mut self, hash: u64, verdict: impl FnMut(Marks) -> Verdict) -> Judged {
        let position = hash.reverse_bits();
        let key = self.order.get(&position).copied();
        key.map_or(Judged::Absent, |key| self.show(position, key, verdict))
    }

    fn judge_next(
        &mut self,
        hand: u64,
        steps: usize,
        mut verdict: impl FnMut(u64, Marks) -> Verdict,
    ) -> (u64, Judged) {
        let (mut from, mut judged) = (Included(hand), Judged::Absent);
        for _ in 0..steps {
            let Some((&position, &key)) = self.order.range((from, Unbounded)).next() else {
                return (0, judged);
            };
            judged = self.show(position, key, |marks| verdict(position.reverse_bits(), marks));
            if judged == Judged::Evicted {
                return (position + 1, judged);
            }
            from = Excluded(position);
        }
        let Excluded(position) = from else { return (hand, judged) };
        (position + 1, judged)
    }
}
