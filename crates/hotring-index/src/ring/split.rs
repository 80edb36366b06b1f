//! Splits: give a bucket of a doubled table its anchor and its hints.
//!
//! The first session that writes to a bucket splits it off, unless eager work has done so before. FAST'20
//! (section 3.4) has a thread that moves the entire table; here each session splits a few buckets at
//! intervals, and no session waits. Until a bucket is split, a lookup fetches a second line and is hard to
//! predict, and the first miss of a line that could be complete must walk.

use crate::core::config::Strategy;
use crate::core::hooks::{Step, cas, order, sometimes};
use crate::core::item::{Item, Kind};
use crate::core::prefetch::prefetch_item;
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{BUSY, HINTED, Hint, Link, MARK, Next};
use crate::ring::Ring;
use crate::ring::hint::{VOTES_NEW, change_word};
use crate::ring::search::{AnchorGoal, parent};
use crate::ring::variants::Cause;
use crate::session::Pinned;
use std::ops::Range;

/// Buckets whose items are prefetched before their turn.
const PREFETCH_DISTANCE: u64 = 3;

/// The progress of the eager work on the table. Below the number of slots it is a bucket number: all buckets
/// before this one are split. From the number of slots on, the excess is the number of lines checked for
/// completeness. Only advice: skipped buckets are split on first use.
pub(crate) struct EagerWork(AtomicU64);

impl EagerWork {
    /// The progress for a new table: no eager work. There may be far more initial buckets than items, so each is
    /// split on first use.
    pub(crate) fn new(slots: u64) -> Self {
        Self(AtomicU64::new(2 * slots))
    }

    /// Resets the progress to a table whose `slots` buckets are all split. Must be called when the table grows
    /// beyond `slots` slots, or returns to that size.
    pub(crate) fn restart(&self, slots: u64) {
        // ORDERING: Relaxed, it only divides the work; each step checks whether it may be done.
        if self.0.load(Ordering::Relaxed) > slots {
            // ORDERING: Relaxed, as above. If another session takes work meanwhile, that work is done twice, or
            // on first use.
            self.0.store(slots, Ordering::Relaxed);
        }
    }

    /// Takes the work from `from` up to `to`, unless another session has taken it.
    fn take(&self, from: u64, to: u64) -> bool {
        // ORDERING: Relaxed, as in `restart`.
        self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Splits bucket `index` off its parent by linking its anchor (FAST'20 section 3.4, but without phases: one
    /// CAS, no copying, no waiting). False: another session is splitting the bucket.
    #[cold]
    pub(crate) fn split(&mut self, index: u64) -> bool {
        // 1. BUSY makes this session the only one that splits the slot.
        let anchor = &self.engine.table.slot(index).anchor;
        let claim = Link::anchor(0).address() | BUSY;
        // ORDERING: Relaxed, chooses one initialiser; the linking CAS publishes.
        if anchor.compare_exchange(0, claim, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        let from = self.bucket_or_parent(parent(index));
        self.prefetch_hinted(from);
        // 2. Once the anchor is linked, the arc of `from` ends at it, but the line of `from` serves both arcs
        // until BUSY is cleared. An old enough candidate would become complete after a check of its half only.
        // A candidate that is set later cannot become complete while we are pinned.
        self.make_incomplete(from, Cause::SplitBegins);
        // 3. From this CAS on the bucket has an arc of its own.
        self.link_anchor(index, anchor, from);
        // 4. From here on walks may start at the anchor.
        // ORDERING: Release: a session that sees the slot usable must see its anchor linked (I7), and
        // the items behind it; pairs with the Acquire in `bucket`.
        anchor.fetch_and(!BUSY, order!(self, Ordering::Release, RelaxedBusy));
        // 5. The hints of the bucket's items move to its slot, from all lines that served the bucket: several, if
        // the parent was being split off, too. This must not happen earlier: a session that chose one of these
        // lines for one of our keys has been pinned since, so the line cannot become complete again before that
        // session unpins.
        let mut ancestor = index;
        while ancestor != from {
            ancestor = parent(ancestor);
            self.make_incomplete(ancestor, Cause::SplitEnds);
            self.hand_over(ancestor, index);
        }
        // 6. Both lines have free words now.
        self.refill(from);
        self.refill(index);
        // ORDERING: Relaxed, statistics.
        self.engine.splits.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Links the anchor of a claimed slot into the arc of `from`.
    fn link_anchor(&mut self, index: u64, anchor: &AtomicU64, from: u64) {
        loop {
            let found = self.find(&AnchorGoal(index), from);
            // ORDERING: Relaxed, published by the CAS.
            anchor.store(Next(BUSY).with(found.at).0, Ordering::Relaxed);
            let after = found.pred_word.with(Link::anchor(index));
            // ORDERING: AcqRel, as for the link of an item.
            let order = self.link_order();
            if cas(found.pred, found.pred_word.0, after.0, order, Step::SplitLost) {
                return;
            }
        }
    }

    /// Does eager work on at most `count` buckets or lines. False: there is none.
    #[inline]
    pub(crate) fn growth_step(&mut self, count: u64) -> bool {
        let slots = self.engine.table.mask() + 1;
        // ORDERING: Relaxed, as in `restart`.
        let from = self.engine.eager.0.load(Ordering::Relaxed);
        from < 2 * slots
            && !self.engine.resizing.is_busy()
            && !cfg!(loom)
            && self.growth_step_from(from, count, slots)
    }

    #[cold]
    fn growth_step_from(&mut self, from: u64, count: u64, slots: u64) -> bool {
        let splits = from < slots;
        // A table that was enlarged in advance is not touched before its items arrive.
        let waits = self.shared.items() < slots as i64 && !cfg!(shuttle);
        if splits && waits {
            return false;
        }
        let to = (from + count).min(if splits { slots } else { 2 * slots });
        if !self.engine.eager.take(from, to) {
            return true;
        }
        if splits {
            self.for_each_prefetched(from..to, parent, |p, bucket| {
                // ORDERING: Relaxed, the CAS of the splitting session validates.
                if p.engine.table.slot(bucket).anchor.load(Ordering::Relaxed) == 0 {
                    sometimes!(SplitEagerly);
                    p.split(bucket);
                }
            });
        } else if self.engine.completes {
            let itself = |line| line;
            self.for_each_prefetched(from - slots..to - slots, itself, |p, line| {
                if p.is_usable(line) {
                    p.refill(line);
                }
            });
        }
        true
    }

    /// Calls `visit` for each number of the range. Prefetches the hinted items of each number's line (`line_of`)
    /// a few steps in advance.
    fn for_each_prefetched(
        &mut self,
        range: Range<u64>,
        line_of: impl Fn(u64) -> u64,
        mut visit: impl FnMut(&mut Self, u64),
    ) {
        let end = range.end;
        let first = range.clone().take(PREFETCH_DISTANCE as usize);
        first.for_each(|at| self.prefetch_hinted(line_of(at)));
        for at in range {
            if at + PREFETCH_DISTANCE < end {
                self.prefetch_hinted(line_of(at + PREFETCH_DISTANCE));
            }
            visit(self, at);
        }
    }

    /// Prefetches all items that a line hints, so that their cache misses overlap.
    #[inline]
    pub(crate) fn prefetch_hinted(&self, bucket: u64) {
        // Under a checker each load is a step, and here none that matters.
        if cfg!(any(loom, shuttle)) {
            return;
        }
        for word in &self.engine.table.slot(bucket).hints {
            // ORDERING: Relaxed, only a prefetch.
            prefetch_item::<K>(Hint(word.load(Ordering::Relaxed)).address());
        }
    }

    /// Moves the hints of the new bucket's items from line `from` to line `to`, so that a doubling loses no hint
    /// of a hot item.
    fn hand_over(&mut self, from: u64, to: u64) {
        let mask = (1u64 << (64 - to.leading_zeros())) - 1;
        for word in &self.engine.table.slot(from).hints {
            // ORDERING: Acquire, we read the item behind it.
            let hint = Hint(word.load(Ordering::Acquire));
            let Some(item) = self.hinted(hint) else { continue };
            if self.shared.kind.item_hash(item) & mask != to {
                continue;
            }
            if change_word(word, hint, Hint::EMPTY).is_err() {
                continue;
            }
            self.take_over(to, hint, item);
        }
    }

    /// Puts a hint that was taken from another line into a free word, or releases its claim.
    fn take_over(&mut self, line: u64, hint: Hint, item: Item) {
        let mut words = self.engine.table.slot(line).hints.iter();
        if words.any(|word| change_word(word, Hint::EMPTY, hint).is_ok()) {
            sometimes!(HandedOver);
            self.recheck(line, item);
        } else {
            sometimes!(NotHandedOver);
            self.release(item);
        }
    }

    /// Called after a split: gives hints to items for which the full line had no word.
    pub(crate) fn refill(&mut self, bucket: u64) {
        if !self.engine.completes {
            self.fill_line(bucket);
        } else if !self.try_complete(bucket) {
            self.fill_line(bucket);
            self.try_complete(bucket);
        }
    }

    /// Gives the free words of a line to items of its arc that have no hint.
    fn fill_line(&mut self, bucket: u64) {
        if H == 1 || self.shared.config.strategy != Strategy::Vote {
            return;
        }
        let slot = self.engine.table.slot(bucket);
        let hints = &slot.hints;
        let mut free = 0..H;
        // ORDERING: Acquire, as for every step of a walk.
        let mut word = Next(slot.anchor.load(Ordering::Acquire));
        while !word.link().is_anchor() {
            let item = self.item(word.link());
            // ORDERING: Acquire, as above.
            word = Next(item.next().load(Ordering::Acquire));
            if word.is(MARK | HINTED) {
                continue;
            }
            // ORDERING: Relaxed, the CAS that takes the word validates it.
            let Some(k) = free.find(|&k| hints[k].load(Ordering::Relaxed) == 0) else { return };
            let tag = Hint::tag_of(self.shared.kind.item_hash(item));
            let hint = Hint::new(tag, item.address(), VOTES_NEW);
            sometimes!(LineFilled);
            self.move_hint(bucket, k, Hint::EMPTY, item, hint);
        }
    }
}
