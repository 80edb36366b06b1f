//! Batched lookups: many lookups are in flight at once, so that their cache misses overlap.
//!
//! Most keys take two cache lines: the slot, and the item under the hint with the key's tag. For these keys
//! a *conveyor* is fastest, which advances by one block of keys: the newest block prefetches its slots, the
//! previous block reads its slots and prefetches its items, and the block before that reads its items, each
//! in a short loop. The other keys, which must walk, are collected and run in turns: each is a small state machine
//! that prefetches its next cache line and yields to the others while the line is loading.

use crate::core::hooks::sometimes;
use crate::core::item::{Item, Kind};
use crate::core::prefetch::{prefetch, prefetch_item};
use crate::core::sync::Ordering;
use crate::core::word::{CANDIDATE, COMPLETE, Hint, Link, MARK, Next};
use crate::engine::{Batch, Hit, KeyGoal};
use crate::ring::Ring;
use crate::ring::search::parent;
use crate::ring::table::{HintAt, Slot};
use crate::session::Pinned;
use std::cmp;

/// The most lookups that can be in flight.
const IN_FLIGHT_MAX: usize = 64;

/// Stored instead of an item's address: the key is absent. Item addresses never have this bit.
const MISSED: u64 = 1;

/// Keys that the conveyor could not answer.
struct Walkers {
    keys: [usize; IN_FLIGHT_MAX],
    n: usize,
}

impl Default for Walkers {
    fn default() -> Self {
        Self { keys: [0; IN_FLIGHT_MAX], n: 0 }
    }
}

impl Walkers {
    /// Adds a key. True if the list is full afterwards.
    fn push(&mut self, key: usize) -> bool {
        self.keys[self.n] = key;
        self.n += 1;
        self.n == IN_FLIGHT_MAX
    }
}

#[derive(Clone, Copy)]
enum Phase {
    /// The slot has been prefetched.
    Line,
    /// The item under a hint has been prefetched.
    Hinted(Item),
    /// The item that this word leads to has been prefetched.
    Walk(Next),
}

#[derive(Clone, Copy)]
struct Pending {
    /// The number of the key in the batch.
    key: usize,
    hash: u64,
    visits: u32,
    phase: Phase,
}

enum Step {
    Continue(Phase),
    Done(Option<Hit>),
    /// A rare case: the plain lookup must handle it.
    Fallback,
}

impl<const H: usize> Batch for Ring<H> {
    #[inline(always)]
    fn pipeline<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
        mut done: impl FnMut(usize, Option<Hit>),
    ) where
        K::Key: 'k,
    {
        let mut walkers = Walkers::default();
        let block = if H == 1 { 0 } else { p.shared.config.pipeline_depth / 2 };
        if block == 0 {
            p.run_all(n, &goal, &mut |pinned: &mut Pinned<'_, K, Self>,
                                      key,
                                      goal,
                                      step,
                                      visits| {
                done(key, pinned.settle(goal, step, visits));
            });
            return;
        }
        let mut belt = [0; IN_FLIGHT_MAX];
        for at in (0..n + 2 * block).step_by(block) {
            if let Some(from) = at.checked_sub(2 * block) {
                for key in from..n.min(from + block) {
                    let address = belt[key % IN_FLIGHT_MAX];
                    let goal_of_key = goal(&p.shared.kind, key);
                    let is_done = p.look_at(goal_of_key, address, |hit| done(key, hit));
                    if !is_done && walkers.push(key) {
                        p.run_walkers(&mut walkers, &goal, &mut done);
                    }
                }
            }
            if let Some(from) = at.checked_sub(block) {
                let is_wide = p.engine.table.is_wide();
                for key in from..n.min(from + block) {
                    let hash = goal(&p.shared.kind, key).hash;
                    belt[key % IN_FLIGHT_MAX] = p.ask_for_item(hash, is_wide);
                }
            }
            for key in at..n.min(at + block) {
                let slot = p.slot_of(goal(&p.shared.kind, key).hash);
                prefetch(std::ptr::from_ref(slot).cast());
            }
        }
        p.run_walkers(&mut walkers, &goal, &mut done);
    }

    #[inline(always)]
    fn warm<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
    ) where
        K::Key: 'k,
    {
        debug_assert!(n <= IN_FLIGHT_MAX);
        for i in 0..n {
            prefetch(std::ptr::from_ref(p.slot_of(goal(&p.shared.kind, i).hash)).cast());
        }
        let mut walkers = Walkers::default();
        for i in 0..n {
            let hash = goal(&p.shared.kind, i).hash;
            match p.candidate(p.slot_of(hash), hash) {
                Some(item) => prefetch_item::<K>(item.address()),
                None => {
                    walkers.push(i);
                }
            }
        }
        let (keys, n) = (walkers.keys, walkers.n);
        p.run_all(n, &|kind, i| goal(kind, keys[i]), &mut |_, _, _, _, _| {});
    }
}

impl<'s, K: Kind, const H: usize> Pinned<'s, K, Ring<H>> {
    #[inline(always)]
    fn slot_of(&self, hash: u64) -> &'s Slot<H> {
        self.engine.table.slot(hash & self.engine.table.mask())
    }

    /// The item under the first hint with the hash's tag.
    #[inline(always)]
    fn candidate(&self, slot: &Slot<H>, hash: u64) -> Option<Item> {
        let is_wide = self.engine.table.is_wide();
        let position = if H == 1 { HintAt::of(0) } else { slot.first_match(hash, is_wide)? };
        // ORDERING: Acquire pairs with the CAS (or Release store) that put the hint.
        self.hinted(Hint(slot.hint_at(position).load(Ordering::Acquire)))
    }

    /// Prefetches the item under the first hint with the hash's tag. Returns the item's address, [`MISSED`] if a
    /// complete line proves that the key is absent, or 0 if neither is known.
    #[inline(always)]
    fn ask_for_item(&self, hash: u64, is_wide: bool) -> u64 {
        let index = hash & self.engine.table.mask();
        let slot = self.engine.table.slot(index);
        // Loaded before the hints: a line that answers for a miss must be complete before and after.
        // ORDERING: Acquire pairs with the CASes that link into this arc.
        let control = Next(slot.anchor.load(Ordering::Acquire));
        let Some(position) = slot.first_match(hash, is_wide) else {
            if control.is(COMPLETE) && self.is_complete(slot) {
                return MISSED;
            }
            self.ask_for_walk(index, control);
            return 0;
        };
        // ORDERING: Acquire pairs with the CAS (or Release store) that put the hint.
        let address = Hint(slot.hint_at(position).load(Ordering::Acquire)).address();
        prefetch_item::<K>(address);
        address
    }

    /// Prefetches the items that a walk to a key will pass: most are hinted.
    #[cold]
    #[inline(never)]
    fn ask_for_walk(&self, index: u64, control: Next) {
        if control.is_start() {
            self.prefetch_hinted(index);
        } else if index != 0 {
            // The bucket is not split off yet.
            prefetch(std::ptr::from_ref(self.engine.table.slot(parent(index))).cast());
        }
    }

    /// Finishes a key with the live item at `address`, or with [`MISSED`]. False if neither applies.
    #[inline(always)]
    fn look_at(
        &mut self,
        goal: KeyGoal<'_, K>,
        address: u64,
        done: impl FnOnce(Option<Hit>),
    ) -> bool {
        // The address was read from a hint under this very pin (P4).
        let Some(item) = self.hinted(Hint::new(0, address, 0)) else {
            if address == MISSED {
                self.access(goal.hash, None, 0);
                done(None);
            }
            return address == MISSED;
        };
        // ORDERING: Acquire pairs with the CAS that linked or marked the item. For a hit this load
        // is the linearization point.
        let word = Next(item.next().load(Ordering::Acquire));
        let hit = Hit { item, word };
        let is_live = !word.is(MARK) && self.shared.kind.is(item, goal.hash, goal.key);
        if is_live {
            self.access(goal.hash, Some(hit), 1);
            done(Some(hit));
        }
        is_live
    }

    #[inline(never)]
    fn run_walkers<'k>(
        &mut self,
        walkers: &mut Walkers,
        goal: &impl Fn(&K, usize) -> KeyGoal<'k, K>,
        done: &mut impl FnMut(usize, Option<Hit>),
    ) where
        K::Key: 'k,
    {
        let (keys, n) = (walkers.keys, walkers.n);
        if n == 0 {
            return;
        }
        walkers.n = 0;
        let goal = |kind: &K, i: usize| goal(kind, keys[i]);
        self.run_all(n, &goal, &mut |pinned: &mut Self, i, goal, step, visits| {
            done(keys[i], pinned.settle(goal, step, visits));
        });
    }

    fn settle(&mut self, goal: KeyGoal<'_, K>, step: Step, visits: u32) -> Option<Hit> {
        let Step::Done(hit) = step else {
            sometimes!(FellBack);
            return if H == 1 { self.lookup(goal) } else { self.slow_lookup(goal) };
        };
        self.access(goal.hash, hit, visits);
        if hit.is_none() && self.engine.completes {
            let index = goal.hash & self.engine.table.mask();
            // ORDERING: Relaxed, advice.
            if Next(self.engine.table.slot(index).anchor.load(Ordering::Relaxed)).is(CANDIDATE) {
                self.try_complete(index);
            }
        }
        hit
    }

    fn run_all<'k>(
        &mut self,
        n: usize,
        goal: &impl Fn(&K, usize) -> KeyGoal<'k, K>,
        done: &mut impl FnMut(&mut Self, usize, KeyGoal<'k, K>, Step, u32),
    ) where
        K::Key: 'k,
    {
        let depth = self.shared.config.pipeline_depth.min(n).min(IN_FLIGHT_MAX);
        let idle = Pending { key: 0, hash: 0, visits: 0, phase: Phase::Line };
        let mut pending = [idle; IN_FLIGHT_MAX];
        let mut started = 0;
        while started < depth {
            pending[started] = self.start_lookup(goal(&self.shared.kind, started).hash, started);
            started += 1;
        }
        let (mut in_flight, mut at) = (depth, 0);
        while in_flight > 0 {
            let lookup = &mut pending[at];
            let target = goal(&self.shared.kind, lookup.key);
            match self.step(target, lookup) {
                Step::Continue(phase) => lookup.phase = phase,
                ended => {
                    let (key, visits) = (lookup.key, lookup.visits);
                    if started < n {
                        let hash = goal(&self.shared.kind, started).hash;
                        pending[at] = self.start_lookup(hash, started);
                        started += 1;
                    } else {
                        in_flight -= 1;
                        pending[at] = pending[in_flight];
                    }
                    done(self, key, target, ended, visits);
                }
            }
            at += 1;
            if at >= in_flight {
                at = 0;
            }
        }
    }

    #[inline(always)]
    fn start_lookup(&self, hash: u64, key: usize) -> Pending {
        prefetch(std::ptr::from_ref(self.slot_of(hash)).cast());
        Pending { key, hash, visits: 0, phase: Phase::Line }
    }

    #[inline(always)]
    fn step(&self, goal: KeyGoal<'_, K>, lookup: &mut Pending) -> Step {
        match lookup.phase {
            Phase::Line => self.step_line(lookup.hash),
            Phase::Hinted(item) => self.step_hinted(goal, item, lookup),
            Phase::Walk(word) => self.step_walk(goal, word, lookup),
        }
    }

    #[inline(always)]
    fn step_line(&self, hash: u64) -> Step {
        if let Some(item) = self.candidate(self.slot_of(hash), hash) {
            prefetch_item::<K>(item.address());
            return Step::Continue(Phase::Hinted(item));
        }
        self.walk_from_anchor(hash)
    }

    #[inline(always)]
    fn walk_from_anchor(&self, hash: u64) -> Step {
        // ORDERING: Acquire pairs with the CASes that link into this arc.
        let control = Next(self.slot_of(hash).anchor.load(Ordering::Acquire));
        if !control.is_start() || control.is(COMPLETE) {
            return Step::Fallback;
        }
        self.onward(control)
    }

    /// Prefetches the item that `word` leads to.
    #[inline(always)]
    fn onward(&self, word: Next) -> Step {
        let link = word.link();
        if !link.is_anchor() {
            prefetch_item::<K>(link.address());
        }
        Step::Continue(Phase::Walk(word))
    }

    #[inline(always)]
    fn step_hinted(&self, goal: KeyGoal<'_, K>, item: Item, lookup: &mut Pending) -> Step {
        lookup.visits += 1;
        // ORDERING: Acquire pairs with the CAS that linked or marked the item. For a hit this load
        // is the linearization point.
        let word = Next(item.next().load(Ordering::Acquire));
        if !word.is(MARK) {
            if self.shared.kind.is(item, goal.hash, goal.key) {
                return Step::Done(Some(Hit { item, word }));
            }
            if H == 1 && goal_is_after(&self.shared.kind, goal, item) {
                return self.onward(word);
            }
        }
        if H > 1 {
            // Another key with the same tag, or a dead item.
            return Step::Fallback;
        }
        // The table may have doubled since `step_line`: check whether this slot is in use, too.
        self.walk_from_anchor(goal.hash)
    }

    #[inline(always)]
    fn step_walk(&self, goal: KeyGoal<'_, K>, mut word: Next, lookup: &mut Pending) -> Step {
        use crate::ring::search::Goal;
        while word.link().is_anchor() {
            let link = word.link();
            if link == Link::END || goal.cmp_anchor(link.slot()).is_gt() {
                return Step::Done(None);
            }
            // ORDERING: Acquire pairs with the CAS that linked the successor.
            word = Next(self.next(link).load(Ordering::Acquire));
        }
        lookup.visits += 1;
        let item = self.item(word.link());
        let order = goal.cmp_item(&self.shared.kind, item);
        if order.is_gt() {
            return Step::Done(None);
        }
        // ORDERING: Acquire, as above; for a hit the linearization point.
        let word = Next(item.next().load(Ordering::Acquire));
        if order.is_eq() && !word.is(MARK) {
            return Step::Done(Some(Hit { item, word }));
        }
        self.onward(word)
    }
}

fn goal_is_after<K: Kind>(kind: &K, goal: KeyGoal<'_, K>, item: Item) -> bool {
    use crate::ring::search::Goal;
    goal.cmp_item(kind, item) == cmp::Ordering::Less
}
