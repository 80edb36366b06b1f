//! Lookups: first the hints of the key's line, then a walk (FAST'20 section 3.1).
//!
//! A lookup ends at the first of these that answers:
//!
//! 1. a hint with the key's tag that leads to the key's live item: a hit, after two cache lines;
//! 2. a complete line without a hint for the key: a miss, after one cache line (I8);
//! 3. the walk from the bucket's anchor, which ends at the live item or at the first node beyond the key.
//!
//! The paper's three conditions for a miss become one, because an anchor bounds every arc: the first
//! node that is not before the target ends the search (P2).

use crate::core::hooks::sometimes;
use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::core::word::{CANDIDATE, COMPLETE, Hint, Link, MARK, Next, REPL};
use crate::engine::{FastLookup, Hit, KeyGoal};
use crate::ring::Ring;
use crate::ring::search::{Goal, parent};
use crate::ring::table::{HintAt, Matches, Slot};
use crate::session::Pinned;
use std::cmp;

/// One lookup of an unsplit bucket in this many splits it; a power of two. The other lookups read the parent's
/// line, which costs one more cache line; a split costs about ten times as much.
const READS_PER_SPLIT: u64 = match () {
    // Under a checker runs may differ only in their schedules.
    () if cfg!(loom) => 1,
    () if cfg!(shuttle) => 2,
    () => 8,
};

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// The live item with this key. Counts as an access.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        if H == 1 {
            return self.lookup_from_head(goal);
        }
        let (hit, visits) = match self.fast_lookup(goal) {
            FastLookup::Hit(hit) => (Some(hit), 1),
            FastLookup::Miss => (None, 0),
            FastLookup::Unknown => return self.reborrow().slow_lookup(goal),
        };
        self.access(goal.hash, hit, visits);
        hit
    }

    /// The fast path: the first hint with the tag is the key's, or no hint of a complete line has the
    /// tag. Counts no access.
    #[inline(always)]
    pub(crate) fn fast_lookup(&self, goal: KeyGoal<'_, K>) -> FastLookup {
        let table = &self.engine.table;
        let slot = table.slot(goal.hash & table.mask());
        // Before the hints: a line that answers for a miss must be complete before and after.
        // ORDERING: Acquire pairs with the CASes that link into this arc.
        let control = Next(slot.anchor.load(Ordering::Acquire));
        let judge = |position: Option<HintAt<H>>| {
            let Some(position) = position else {
                let is_miss = control.is(COMPLETE) && self.is_complete(slot);
                return if is_miss { FastLookup::Miss } else { FastLookup::Unknown };
            };
            // ORDERING: Acquire pairs with the AcqRel CAS (or Release store) that put the hint.
            let hint = Hint(slot.hint_at(position).load(Ordering::Acquire));
            let Some(item) = self.hinted(hint) else { return FastLookup::Unknown };
            // ORDERING: Acquire pairs with the CAS that linked or marked the item. For a hit this load is
            // the linearization point.
            let word = Next(item.next().load(Ordering::Acquire));
            let is_hit = !word.is(MARK) && self.has_key(item, goal);
            if is_hit { FastLookup::Hit(Hit { item, word }) } else { FastLookup::Unknown }
        };
        // Two copies of `judge`: the code after the match is shorter without a branch before it.
        if table.is_wide() {
            judge(slot.first_match(goal.hash, true))
        } else {
            judge(slot.first_match(goal.hash, false))
        }
    }

    /// The second check of a line that was complete before its hints were read (I8, I9).
    #[inline(always)]
    pub(crate) fn is_complete(&self, slot: &Slot<H>) -> bool {
        // ORDERING: Relaxed, nothing is read through it. The loads of the hints were Acquire, so this one
        // comes after them.
        let is_complete = self.confirms_complete(Next(slot.anchor.load(Ordering::Relaxed)));
        sometimes!(is_complete => LineMiss);
        sometimes!(!is_complete => LineChanged);
        is_complete
    }

    /// The slow path: all hints with the tag, then a walk.
    #[inline(never)]
    pub(crate) fn slow_lookup(&mut self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let (bucket, serves) = self.bucket_to_read(goal.hash);
        let slot = self.engine.table.slot(bucket);
        // Before the hints, as in `fast_lookup`.
        // ORDERING: Acquire pairs with the CASes that link into this arc.
        let control = Next(slot.anchor.load(Ordering::Acquire));
        let (mut certain, mut stale, mut visits) = (serves, None, 0);
        let tag = Hint::tag_of(goal.hash);
        for k in slot.matches(tag) {
            // ORDERING: Acquire pairs with the AcqRel CAS (or Release store) that put the hint.
            let hint = Hint(slot.hints[k].load(Ordering::Acquire));
            // The hint has changed since it matched: its item was displaced or replaced, and may be the key's.
            certain &= hint.has_tag(tag);
            let Some(item) = self.hinted(hint) else {
                if self.is_reserved(hint) {
                    // The item of the reservation may already be linked.
                    sometimes!(ReservedMet);
                    certain = false;
                }
                continue;
            };
            visits += 1;
            // ORDERING: Acquire pairs with the CAS that linked or marked the item. For a hit this load
            // is the linearization point.
            let word = Next(item.next().load(Ordering::Acquire));
            if !self.shared.kind.is(item, goal.hash, goal.key) {
                continue;
            }
            if !word.is(MARK) {
                let hit = Hit { item, word };
                self.access(goal.hash, Some(hit), visits);
                return Some(hit);
            }
            // Never walk on from a dead hint: its successor may be freed already (P3).
            certain = false;
            if self.is_replaced(word) {
                // The key has a newer item, which must get this word (I8).
                sometimes!(StaleHint);
                stale = Some((k, hint));
            } else {
                self.clear_word(bucket, k, hint, item);
            }
        }
        if certain && control.is(COMPLETE) && self.is_complete(slot) {
            self.access(goal.hash, None, visits);
            return None;
        }
        // Most items on the walk are hinted: prefetch them together.
        self.prefetch_hinted(bucket);
        // ORDERING: Acquire, as for every step of a walk.
        let word = Next(slot.anchor.load(Ordering::Acquire));
        let (hit, walked) = self.walk(goal, word);
        if let Some((k, hint)) = stale {
            self.mend_stale(bucket, k, hint, hit.map(|hit| hit.item));
        }
        if hit.is_none() && control.is(CANDIDATE) && self.engine.completes {
            // So that the next miss need not walk.
            self.try_complete(bucket);
        }
        self.access(goal.hash, hit, visits + walked);
        hit
    }

    /// The walk of readers. It passes dead items, changes nothing and never restarts.
    #[inline(always)]
    pub(crate) fn walk(&self, goal: KeyGoal<'_, K>, mut word: Next) -> (Option<Hit>, u32) {
        let mut visits = 0;
        loop {
            let link = word.link();
            if link.is_anchor() {
                if link == Link::END || goal.cmp_anchor(link.slot()).is_gt() {
                    return (None, visits);
                }
                // ORDERING: Acquire pairs with the CAS that linked the successor.
                word = Next(self.next(link).load(Ordering::Acquire));
                continue;
            }
            visits += 1;
            let item = self.item(link);
            let order = goal.cmp_item(&self.shared.kind, item);
            if order.is_gt() {
                return (None, visits);
            }
            // ORDERING: Acquire, as above; for a hit the linearization point.
            word = Next(item.next().load(Ordering::Acquire));
            if word.is(MARK) {
                sometimes!(DeadPassed);
            } else if order.is_eq() {
                return (Some(Hit { item, word }), visits);
            }
        }
    }

    /// As `bucket`, for a lookup, which splits only occasionally: if all lookups split after a doubling, their
    /// rate would collapse meanwhile. Also returns whether the bucket's line, if complete, answers for the key
    /// (I8).
    fn bucket_to_read(&mut self, hash: u64) -> (u64, bool) {
        let mask = self.engine.table.mask();
        let home = hash & mask;
        let mut index = home;
        while index != 0 {
            // ORDERING: Acquire, as in `bucket`.
            let word = Next(self.engine.table.slot(index).anchor.load(Ordering::Acquire));
            if self.is_start(word) {
                break;
            }
            if self.local.random() >> 32 & (READS_PER_SPLIT - 1) == 0 {
                index = self.bucket_or_parent(index);
                break;
            }
            index = parent(index);
        }
        (index, self.serves(index, home, mask))
    }

    /// One head per bucket, as in the paper: start at the hot item if it is not beyond the goal.
    #[inline(always)]
    fn lookup_from_head(&mut self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let bucket = self.bucket(goal.hash);
        let slot = self.engine.table.slot(bucket);
        // ORDERING: Acquire pairs with the CAS that installed the hint.
        let hint = Hint(slot.hints[0].load(Ordering::Acquire));
        let mut start = None;
        let mut visits = 0;
        if let Some(item) = self.hinted(hint) {
            visits = 1;
            // ORDERING: Acquire, the linearization point of a hit.
            let word = Next(item.next().load(Ordering::Acquire));
            if word.is(MARK) {
                if !word.is(REPL) {
                    self.clear_word(bucket, 0, hint, item);
                }
                start = self.start_at_dead(&goal, item, word);
            } else {
                match goal.cmp_item(&self.shared.kind, item) {
                    cmp::Ordering::Equal => {
                        let hit = Hit { item, word };
                        self.access(goal.hash, Some(hit), visits);
                        return Some(hit);
                    }
                    cmp::Ordering::Less => start = Some(word),
                    cmp::Ordering::Greater => {}
                }
            }
        }
        // ORDERING: Acquire, as for every step of a walk.
        let word = start.unwrap_or_else(|| Next(slot.anchor.load(Ordering::Acquire)));
        let (hit, walked) = self.walk(goal, word);
        self.access(goal.hash, hit, visits + walked);
        hit
    }

    /// The live item with this key, if a hint leads to it. Writers try this first. Counts no access.
    #[inline]
    pub(crate) fn probe(&self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let slot = self.engine.table.slot(goal.hash & self.engine.table.mask());
        let some = if H == 1 { Matches::FIRST } else { slot.matches(Hint::tag_of(goal.hash)) };
        for k in some {
            // ORDERING: Acquire pairs with the CAS (or Release store) that put the hint.
            let hint = Hint(slot.hints[k].load(Ordering::Acquire));
            let Some(item) = self.hinted(hint) else { continue };
            // ORDERING: Acquire, as in `try_hint`.
            let word = Next(item.next().load(Ordering::Acquire));
            if !word.is(MARK) && self.shared.kind.is(item, goal.hash, goal.key) {
                return Some(Hit { item, word });
            }
        }
        None
    }
}
