//! Finding: the line of hints, the walk of readers, and the helping walk of writers.
//!
//! FAST'20 section 3.1. The paper's three conditions for a miss become one, because an anchor
//! bounds every arc: the first node that is not before the target ends the search.

use crate::engine::{Hit, KeyGoal};
use crate::item::{Item, Kind};
use crate::rare::{lost, sometimes, wrong};
use crate::ring::Ring;
use crate::ring::table::{HintAt, Matches, Slot};
use crate::session::Pinned;
use crate::sync::{AtomicU64, Ordering};
use crate::word::{CANDIDATE, COMPLETE, Hint, Link, MARK, Next, REPL, ring_cmp};
use std::cmp;

/// A position in the ring's order.
pub(crate) trait Goal<K: Kind> {
    fn hash(&self) -> u64;
    /// Where an item stands relative to the goal.
    fn cmp_item(&self, kind: &K, item: Item) -> cmp::Ordering;
    /// Where a slot's anchor stands relative to the goal.
    fn cmp_anchor(&self, slot: u64) -> cmp::Ordering;
}

impl<K: Kind> Goal<K> for KeyGoal<'_, K> {
    #[inline(always)]
    fn hash(&self) -> u64 {
        self.hash
    }

    #[inline(always)]
    fn cmp_item(&self, kind: &K, item: Item) -> cmp::Ordering {
        self.order_of(kind, item)
    }

    #[inline(always)]
    fn cmp_anchor(&self, slot: u64) -> cmp::Ordering {
        // An anchor precedes the items that hash to its slot number.
        ring_cmp(slot, self.hash).then(cmp::Ordering::Less)
    }
}

/// The position of an anchor: before every item of its bucket. Also that of a scan's cursor.
pub(crate) struct AnchorGoal(pub(crate) u64);

impl<K: Kind> Goal<K> for AnchorGoal {
    fn hash(&self) -> u64 {
        self.0
    }

    fn cmp_item(&self, kind: &K, item: Item) -> cmp::Ordering {
        ring_cmp(kind.item_hash(item), self.0).then(cmp::Ordering::Greater)
    }

    fn cmp_anchor(&self, slot: u64) -> cmp::Ordering {
        ring_cmp(slot, self.0)
    }
}

/// Lookups of an unsplit bucket of which one splits it, a power of two. The others look at its
/// parent's line, which is one more line to fetch; a split is about ten times as much.
const READS_A_SPLIT: u64 = match () {
    // A schedule is all that may differ from run to run.
    () if cfg!(loom) => 1,
    () if cfg!(shuttle) => 2,
    () => 8,
};

/// What a writer's walk found.
pub struct Found<'s> {
    /// The `next` word of the last live node before the goal, and the value it had.
    pub(crate) pred: &'s AtomicU64,
    pub(crate) pred_link: Link,
    pub(crate) pred_word: Next,
    /// The first live node that is not before the goal.
    pub(crate) at: Link,
    /// That node's word, if it is an item.
    pub(crate) word: Next,
    /// Whether that node is the goal itself.
    pub(crate) exact: bool,
}

/// What the line of hints said about a key.
#[derive(Default)]
struct Line {
    /// The line does not answer for the key, or a word with its tag is reserved, or leads to a dead
    /// item of it.
    uncertain: bool,
    /// A word that holds a replaced item of the key.
    stale: Option<(usize, Hint)>,
    visits: u32,
}

impl<'s, K: Kind, const H: usize> Pinned<'s, K, Ring<H>> {
    /// The live item with this key: the read path. Counts as an access.
    #[inline(always)]
    pub(crate) fn lookup(&mut self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        if H == 1 {
            return self.lookup_from_head(goal);
        }
        match self.glance(goal) {
            Some(hit) => {
                self.access(goal.hash, hit, u32::from(hit.is_some()));
                hit
            }
            None => self.again().lookup_in_full(goal),
        }
    }

    /// The usual cases, kept free of everything else: the first hint with the tag is the key's, or no
    /// hint of a complete line has it. `None` if it is neither. Counts nothing.
    #[inline(always)]
    pub(crate) fn glance(&self, goal: KeyGoal<'_, K>) -> Option<Option<Hit>> {
        let table = &self.engine.table;
        let slot = table.slot(goal.hash & table.mask());
        // Before the hints: a complete line needs it first.
        // ORDERING: Acquire pairs with the CASes that link into this arc.
        let control = Next(slot.anchor.load(Ordering::Acquire));
        // Each way by itself: what they have in common is shorter without a choice before it.
        if table.is_wide() {
            self.glance_at(goal, slot, control, slot.first_match(goal.hash, true))
        } else {
            self.glance_at(goal, slot, control, slot.first_match(goal.hash, false))
        }
    }

    #[inline(always)]
    fn glance_at(
        &self,
        goal: KeyGoal<'_, K>,
        slot: &Slot<H>,
        control: Next,
        place: Option<HintAt<H>>,
    ) -> Option<Option<Hit>> {
        let Some(place) = place else {
            return (control.is(COMPLETE) && self.is_complete(slot)).then_some(None);
        };
        // ORDERING: Acquire pairs with the AcqRel CAS (or Release store) that put the hint.
        let item = self.hinted(Hint(slot.hint_at(place).load(Ordering::Acquire)))?;
        // ORDERING: Acquire pairs with the CAS that linked or marked the item. For a hit this load is
        // the linearization point.
        let word = Next(item.next().load(Ordering::Acquire));
        let same = self.shared.kind.is(item, goal.hash, goal.key) || wrong!(self, TrustTag);
        (!word.is(MARK) && same).then_some(Some(Hit { item, word }))
    }

    /// The second look at a line that was complete before its hints were read (I8, I9).
    #[inline(always)]
    pub(crate) fn is_complete(&self, slot: &Slot<H>) -> bool {
        // ORDERING: Relaxed, nothing is read through it. The loads of the hints were Acquire, so this one
        // comes after them.
        let again = Next(slot.anchor.load(Ordering::Relaxed));
        let is_complete = again.is(COMPLETE) || wrong!(self, NoSecondLook);
        if is_complete {
            sometimes!(LineMiss);
        } else {
            sometimes!(LineChanged);
        }
        is_complete
    }

    /// All hints with the tag, then a miss for certain, or a walk.
    #[inline(never)]
    pub(crate) fn lookup_in_full(&mut self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let (index, serves) = self.bucket_to_read(goal.hash);
        let slot = self.engine.table.slot(index);
        // Before the hints: a complete line needs it first.
        // ORDERING: Acquire pairs with the CASes that link into this arc.
        let control = Next(slot.anchor.load(Ordering::Acquire));
        let tag = Hint::tag_of(goal.hash);
        let mut line = Line { uncertain: !serves, ..Line::default() };
        for k in slot.matches(tag) {
            // ORDERING: Acquire pairs with the AcqRel CAS (or Release store) that put the hint.
            let hint = Hint(slot.hints[k].load(Ordering::Acquire));
            // A word that changed since is one whose item was displaced or replaced: look again
            // by walking.
            line.uncertain |= !hint.has_tag(tag);
            if let Some(hit) = self.try_hint(goal, index, k, hint, &mut line) {
                self.access(goal.hash, Some(hit), line.visits);
                return Some(hit);
            }
        }
        self.lookup_beyond_line(goal, index, control, line)
    }

    /// The live item with this key if a hint leads to it: where writers look first. Counts nothing.
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

    /// Follows one hint whose tag fits.
    fn try_hint(
        &mut self,
        goal: KeyGoal<'_, K>,
        index: u64,
        k: usize,
        hint: Hint,
        line: &mut Line,
    ) -> Option<Hit> {
        let Some(item) = self.hinted(hint) else {
            if hint.is_reserved() && !wrong!(self, ReservedMissed) {
                sometimes!(ReservedMet);
                line.uncertain = true;
            }
            return None;
        };
        line.visits += 1;
        // ORDERING: Acquire pairs with the CAS that linked or marked the item. For a hit this load
        // is the linearization point.
        let word = Next(item.next().load(Ordering::Acquire));
        if !self.shared.kind.is(item, goal.hash, goal.key) {
            return None;
        }
        if !word.is(MARK) {
            return Some(Hit { item, word });
        }
        // Never walk on from a dead hint: its successor may be freed already.
        line.uncertain = true;
        if word.is(REPL) && !wrong!(self, ClearReplaced) {
            sometimes!(StaleHint);
            line.stale = Some((k, hint));
        } else {
            sometimes!(DeadHint);
            self.clear_word(index, k, hint, item);
        }
        None
    }

    /// The key was not under a hint: a miss for certain, or a walk.
    fn lookup_beyond_line(
        &mut self,
        goal: KeyGoal<'_, K>,
        index: u64,
        control: Next,
        line: Line,
    ) -> Option<Hit> {
        let is_certain = control.is(COMPLETE) && !line.uncertain;
        if is_certain && self.is_complete(self.engine.table.slot(index)) {
            self.access(goal.hash, None, line.visits);
            return None;
        }
        // Most of what is passed is hinted: asked for at once, and not one after the other.
        self.fetch_hinted(index);
        // ORDERING: Acquire, as for every step of a walk.
        let word = Next(self.next(Link::anchor(index)).load(Ordering::Acquire));
        let (hit, visits) = self.walk(goal, word);
        if let Some((k, hint)) = line.stale {
            self.mend_stale(index, k, hint, hit.map(|hit| hit.item));
        }
        if hit.is_none() && control.is(CANDIDATE) && self.engine.completes {
            self.try_complete(index);
        }
        self.access(goal.hash, hit, line.visits + visits);
        hit
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
                    sometimes!(DeadHint);
                    self.clear_word(bucket, 0, hint, item);
                }
                wrong!(self, TrustDead | FollowDead => start = self.wrong_start(&goal, item, word));
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

    /// The walk of readers: passes dead items, changes nothing, never starts anew.
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

    /// The slot whose anchor is the nearest usable one before `hash`. Splits buckets on first use.
    #[inline(always)]
    pub(crate) fn bucket(&mut self, hash: u64) -> u64 {
        let index = hash & self.engine.table.mask();
        // ORDERING: Acquire pairs with the AcqRel that clears BUSY: a usable anchor is linked (I7).
        let word = Next(self.engine.table.slot(index).anchor.load(Ordering::Acquire));
        if word.is_start() || (word.0 != 0 && wrong!(self, NoBusy)) {
            index
        } else {
            self.bucket_or_parent(index)
        }
    }

    /// As `bucket`, for a lookup, which may do without a split, but not for ever: after a doubling
    /// all lookups would pay for one otherwise, and the rate would break down for that time. Also
    /// says whether the bucket's line, if complete, answers for the key (I8).
    fn bucket_to_read(&mut self, hash: u64) -> (u64, bool) {
        let mask = self.engine.table.mask();
        let home = hash & mask;
        let mut index = home;
        while index != 0 {
            // ORDERING: Acquire, as in `bucket`.
            let word = Next(self.engine.table.slot(index).anchor.load(Ordering::Acquire));
            if word.is_start() || (word.0 != 0 && wrong!(self, NoBusy)) {
                break;
            }
            if self.local.random() >> 32 & (READS_A_SPLIT - 1) == 0 {
                index = self.bucket_or_parent(index);
                break;
            }
            index = parent(index);
        }
        let serves = match () {
            () if wrong!(self, ServesAll) => true,
            () if wrong!(self, ServesChildren) => index == home || index == parent(home),
            () => serves(index, home, mask),
        };
        (index, serves)
    }

    /// The bucket, split off if it is new, or the nearest ancestor that can be used now.
    #[cold]
    pub(crate) fn bucket_or_parent(&mut self, mut index: u64) -> u64 {
        while index != 0 {
            // ORDERING: Acquire, as in `bucket`.
            let word = Next(self.engine.table.slot(index).anchor.load(Ordering::Acquire));
            if word.is_start() || (word.0 == 0 && self.split(index)) {
                return index;
            }
            sometimes!(SplitBusy);
            index = parent(index);
        }
        0
    }

    /// The walk of writers: unlinks what is dead on its way, starts anew when somebody interferes.
    pub(crate) fn find(&mut self, goal: &impl Goal<K>, bucket: u64) -> Found<'s> {
        self.find_from(goal, bucket, H == 1)
    }

    /// As `find`; `from_head` allows it to begin at the bucket's head and so to leave out a part.
    pub(crate) fn find_from(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        mut from_head: bool,
    ) -> Found<'s> {
        'start: loop {
            let (mut pred_link, mut pred_word) = self.start(goal, bucket, from_head);
            from_head = false;
            loop {
                let pred = self.next(pred_link);
                let (at, word) = self.skip_dead(pred_word.link());
                if at != pred_word.link() {
                    let after = pred_word.with(at);
                    let cas = |old: u64, new: u64| {
                        // ORDERING: Release passes on that `at` is initialised, which we have from the
                        // word of a skipped item; pairs with the Acquire of walks.
                        pred.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed)
                    };
                    if lost!(CutLost, cas(pred_word.0, after.0)) {
                        continue 'start;
                    }
                    self.unlinked_run(pred_word.link(), at);
                    pred_word = after;
                }
                let order = match at {
                    Link::END => cmp::Ordering::Greater,
                    _ if at.is_anchor() => goal.cmp_anchor(at.slot()),
                    _ => goal.cmp_item(&self.shared.kind, self.item(at)),
                };
                if order.is_ge() {
                    let exact = order.is_eq();
                    return Found { pred, pred_link, pred_word, at, word, exact };
                }
                (pred_link, pred_word) = (at, word);
            }
        }
    }

    /// A live node strictly before the goal, and its word.
    fn start(&mut self, goal: &impl Goal<K>, bucket: u64, from_head: bool) -> (Link, Next) {
        let slot = self.engine.table.slot(bucket);
        if from_head {
            // ORDERING: Acquire pairs with the CAS that installed the hint.
            let hint = Hint(slot.hints[0].load(Ordering::Acquire));
            if let Some(item) = self.hinted(hint) {
                // ORDERING: Acquire, as for every step of a walk.
                let word = Next(item.next().load(Ordering::Acquire));
                if word.is(MARK) {
                    if !word.is(REPL) {
                        sometimes!(DeadHint);
                        self.clear_word(bucket, 0, hint, item);
                    }
                } else if goal.cmp_item(&self.shared.kind, item).is_lt() {
                    return (Link::item(item.address()), word);
                }
            }
        }
        // ORDERING: Acquire, as above.
        (Link::anchor(bucket), Next(slot.anchor.load(Ordering::Acquire)))
    }

    /// The first node from `link` on that is not dead, and its word.
    #[inline]
    fn skip_dead(&self, mut link: Link) -> (Link, Next) {
        loop {
            if link == Link::END {
                return (link, Next(0));
            }
            // ORDERING: Acquire pairs with the CAS that linked or marked the node.
            let word = Next(self.next(link).load(Ordering::Acquire));
            if !word.is(MARK) {
                return (link, word);
            }
            link = word.link();
        }
    }

    /// Settles the fate of the dead items from `from` up to `to`, which our CAS took out.
    fn unlinked_run(&mut self, from: Link, to: Link) {
        let mut link = from;
        while link != to {
            let dead = link;
            // ORDERING: Relaxed, the successor of a dead node is frozen (I1) and was read before.
            link = Next(self.next(dead).load(Ordering::Relaxed)).link();
            if dead.is_anchor() {
                // Of a slot that goes; it has no memory of its own.
                sometimes!(AnchorCut);
                continue;
            }
            if link != to {
                sometimes!(RunCut);
            }
            self.unlinked(self.item(dead));
        }
    }
}

/// The bucket that a bucket was split from: its number without the top bit.
pub(crate) fn parent(index: u64) -> u64 {
    debug_assert!(index != 0, "bucket 0 has no parent");
    index & !(1 << (63 - index.leading_zeros()))
}

/// Whether the keys of bucket `home` lie between the anchor of `index` and the next one that a table
/// with this mask can have, `home`'s own aside: for the bucket itself, and for the one that it is
/// split from last. Any other ancestor may have buckets in between that are split off already.
fn serves(index: u64, home: u64, mask: u64) -> bool {
    index == home || (home > mask >> 1 && index == parent(home))
}
