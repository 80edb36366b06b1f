//! Splits: how a bucket of a table that has doubled comes to its anchor and its hints.
//!
//! A bucket is split off by whoever writes to it first, or *ahead* of that: where FAST'20 (section
//! 3.4) has a thread that moves the whole table, sessions see to a few buckets each now and then.
//! No session waits for it. But as long as a bucket is not there, a lookup has another line to fetch and
//! is hard to predict, and the first miss of a line that could be complete has to walk.

use crate::core::config::Strategy;
use crate::core::hooks::{lost, sometimes, wrong};
use crate::core::item::Kind;
use crate::core::prefetch::prefetch_item;
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{BUSY, HINTED, Hint, Link, MARK, Next};
use crate::ring::Ring;
use crate::ring::hint::{VOTES_NEW, change_word};
use crate::ring::search::{AnchorGoal, parent};
use crate::session::Pinned;
use std::ops::Range;

/// Buckets whose memory is asked for before it is their turn.
const FETCHED: u64 = 3;

/// How far sessions have seen to the table ahead of its use. Below the number of slots: to buckets before
/// this one. From there on: to as many lines, whether they are complete. It is advice: what it passes
/// over is done on first use.
pub(crate) struct Ahead(AtomicU64);

impl Ahead {
    /// The first buckets are left to their use: there may be far more than items.
    pub(crate) fn new(slots: u64) -> Self {
        Self(AtomicU64::new(2 * slots))
    }

    /// Goes back to where a table of this many slots is when all its buckets are split: to be called when
    /// it has got more than that, or has no more than that again.
    pub(crate) fn restart(&self, slots: u64) {
        // ORDERING: Relaxed, it only says who does what; whether that may be done is seen there.
        if self.0.load(Ordering::Relaxed) > slots {
            // ORDERING: Relaxed, as above. What another session takes meanwhile is done twice, or on first use.
            self.0.store(slots, Ordering::Relaxed);
        }
    }

    /// Takes what there is to do from `from` up to `to`, unless another session has begun with it.
    fn take(&self, from: u64, to: u64) -> bool {
        // ORDERING: Relaxed, as in `restart`.
        self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Sees to at most `count` buckets or lines, if there are some that no session has seen to since the
    /// table doubled; whether there were.
    #[inline]
    pub(crate) fn go_ahead(&mut self, count: u64) -> bool {
        let slots = self.engine.table.mask() + 1;
        // ORDERING: Relaxed, as in `restart`.
        let from = self.engine.ahead.0.load(Ordering::Relaxed);
        from < 2 * slots
            && !self.engine.resizing.is_busy()
            && !cfg!(loom)
            && self.go_on_from(from, count, slots)
    }

    #[cold]
    fn go_on_from(&mut self, from: u64, count: u64, slots: u64) -> bool {
        let splits = from < slots;
        // Of a table that was enlarged for what is to come, nothing is touched before that comes.
        let waits = self.shared.items() < slots as i64 && !cfg!(shuttle);
        if splits && waits {
            return false;
        }
        let to = (from + count).min(if splits { slots } else { 2 * slots });
        if !self.engine.ahead.take(from, to) {
            return true;
        }
        if splits {
            self.fetching(from..to, parent, |p, bucket| {
                // ORDERING: Relaxed, the CAS of the splitting session validates.
                if p.engine.table.slot(bucket).anchor.load(Ordering::Relaxed) == 0 {
                    sometimes!(SplitAhead);
                    p.split(bucket);
                }
            });
        } else if self.engine.completes {
            let itself = |line| line;
            self.fetching(from - slots..to - slots, itself, |p, line| {
                if p.is_usable(line) {
                    p.refill(line);
                }
            });
        }
        true
    }

    /// Calls `see_to` for each number, for which it will want the items of the line that `line_of`
    /// gives. They are asked for some steps before.
    fn fetching(
        &mut self,
        range: Range<u64>,
        line_of: impl Fn(u64) -> u64,
        mut see_to: impl FnMut(&mut Self, u64),
    ) {
        let end = range.end;
        range.clone().take(FETCHED as usize).for_each(|at| self.fetch_hinted(line_of(at)));
        for at in range {
            if at + FETCHED < end {
                self.fetch_hinted(line_of(at + FETCHED));
            }
            see_to(self, at);
        }
    }

    /// Splits bucket `index` off its parent by linking its anchor (FAST'20 section 3.4, without
    /// its phases: one CAS, no copying, no session waits). False: another session is at it.
    #[cold]
    pub(crate) fn split(&mut self, index: u64) -> bool {
        let slot = self.engine.table.slot(index);
        let claim = Link::anchor(0).address() | BUSY;
        // ORDERING: Relaxed, chooses one initialiser; the linking CAS below publishes.
        if slot.anchor.compare_exchange(0, claim, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        let from = self.bucket_or_parent(parent(index));
        self.fetch_hinted(from);
        // Before the anchor is linked: the arc of `from` ends there at once, but its line serves all of
        // it until BUSY is cleared. A candidate that is old enough would become complete by its half.
        // One set later cannot while we are pinned.
        if !wrong!(self, SplitTrustsCandidate | SplitKeepsComplete) {
            self.make_incomplete(from);
        }
        let goal = AnchorGoal(index);
        loop {
            let found = self.find(&goal, from);
            // ORDERING: Relaxed, published by the CAS.
            slot.anchor.store(Next(BUSY).with(found.at).0, Ordering::Relaxed);
            let after = found.pred_word.with(Link::anchor(index));
            let (pred, word, order) = (found.pred, found.pred_word.0, self.publishing());
            // ORDERING: AcqRel, as for the link of an item.
            let cas = || pred.compare_exchange(word, after.0, order, Ordering::Relaxed);
            if !lost!(SplitLost, cas()) {
                break;
            }
        }
        // ORDERING: Release: whoever sees the slot usable sees its anchor linked (I7), and what lies
        // behind the anchor; pairs with the Acquire in `bucket`.
        let order = if wrong!(self, RelaxedBusy) { Ordering::Relaxed } else { Ordering::Release };
        slot.anchor.fetch_and(!BUSY, order);
        // All lines that served our keys: of several, if the parent was being split off, too. Only now:
        // whoever still chose one of them for one of our keys is pinned since before it can become
        // complete again.
        let mut ancestor = index;
        while ancestor != from {
            ancestor = parent(ancestor);
            if !wrong!(self, SplitKeepsComplete) {
                self.make_incomplete(ancestor);
            }
            self.hand_over(ancestor, index);
        }
        self.refill(from);
        self.refill(index);
        // ORDERING: Relaxed, statistics.
        self.engine.splits.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Asks for all items that a line hints, so that who is going to pass them waits once and not for
    /// each.
    #[inline]
    pub(crate) fn fetch_hinted(&self, bucket: u64) {
        for word in &self.engine.table.slot(bucket).hints {
            // ORDERING: Relaxed, a guess what is going to be wanted.
            prefetch_item::<K>(Hint(word.load(Ordering::Relaxed)).address());
        }
    }

    /// Moves the hints of the new bucket's items over, so that a doubling forgets no hot item.
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
            let mut words = self.engine.table.slot(to).hints.iter();
            let taken = words.any(|word| change_word(word, Hint::EMPTY, hint).is_ok());
            if taken {
                sometimes!(HandedOver);
                self.recheck(to, item);
            } else {
                sometimes!(NotHandedOver);
                self.release(item);
            }
        }
    }

    /// After a split: gives a half what the full line had no room for.
    pub(crate) fn refill(&mut self, bucket: u64) {
        if !self.engine.completes {
            self.fill_line(bucket);
        } else if !self.try_complete(bucket) {
            self.fill_line(bucket);
            self.try_complete(bucket);
        }
    }

    /// Gives the free words of a line to items of its arc that have none.
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
