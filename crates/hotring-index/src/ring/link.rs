//! The steps that change the chain: link a new item, replace one, mark one dead, split a bucket.
//!
//! Each is one CAS on one word. FAST'20 section 3.3 asks for an Occupied bit that is set and later
//! cleared, which makes others wait for a thread that stops in between; here a dead item's own
//! word carries the mark (Harris 2001), and everybody can finish what another has begun.

use crate::config::Strategy;
use crate::engine::RESIZE_INTERVAL;
use crate::item::{Item, Kind};
use crate::prefetch::prefetch_item;
use crate::rare::{lost, sometimes, wrong};
use crate::ring::Ring;
use crate::ring::hint::VOTES_NEW;
use crate::ring::search::{AnchorGoal, Found, Goal, parent};
use crate::session::Pinned;
use crate::sync::{AtomicU64, Ordering};
use crate::word::{BUSY, HINTED, Hint, Link, MARK, Next, REPL, SIGN};

/// Dead versions that writers of a hinted item may leave in the chain before one cleans up.
const DEBT_MAX: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };
/// Items of this size or more are unlinked at once, so that dead versions do not pile up.
const LAZY_SIZE_MAX: usize = 512;

/// A word of a line that an insert has reserved before linking its item.
#[derive(Default)]
pub struct Reservation(Option<usize>);

impl<'s, K: Kind, const H: usize> Pinned<'s, K, Ring<H>> {
    /// Links a private item before `found.at`. Gives it a free word of its line first, so that a
    /// line with room stays complete. On failure the caller finds anew and comes back with the
    /// same reservation.
    pub(crate) fn link(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        found: &Found<'s>,
        item: Item,
        reservation: &mut Reservation,
    ) -> bool {
        if reservation.0.is_none() && !wrong!(self, LinkFirst) {
            reservation.0 = self.reserve(goal.hash(), bucket);
        }
        if reservation.0.is_none() && !wrong!(self, InsertKeepsComplete | LinkFirst) {
            self.make_incomplete(bucket);
        }
        let mut pred_word = found.pred_word;
        if found.pred_link == Link::anchor(bucket) {
            // Our own change of the control bits must not fail our CAS.
            // ORDERING: Acquire, the CAS validates it.
            let now = Next(found.pred.load(Ordering::Acquire));
            if now.link() == pred_word.link() {
                pred_word = now;
            }
        }
        let sign = item_flags(item) & SIGN;
        let claimed = if reservation.0.is_some() { HINTED } else { 0 };
        // ORDERING: Relaxed, private until the CAS below.
        item.next().store(Next(sign | claimed).with(found.at).0, Ordering::Relaxed);
        let after = pred_word.with(Link::item(item.address()));
        // ORDERING: Release publishes the item's fields to Acquire walks. Acquire because the word
        // may have returned to an older value: the deletion it went through must happen before us.
        let order = self.publishing();
        let linked = !lost!(
            LinkLost,
            found.pred.compare_exchange(pred_word.0, after.0, order, Ordering::Relaxed)
        );
        if linked {
            self.count_in(item);
            if let Some(k) = reservation.0.take() {
                let word = Hint::new(Hint::tag_of(goal.hash()), item.address(), VOTES_NEW);
                // ORDERING: Release publishes the item to readers of the hint. A plain store: a
                // reserved word is written by its owner only.
                self.engine.table.slot(bucket).hints[k].store(word.0, Ordering::Release);
                self.recheck(bucket, item);
            }
            wrong!(self, LinkFirst => self.hint_late(goal.hash(), bucket, item));
            self.consider_growth();
        }
        linked
    }

    fn reserve(&mut self, hash: u64, bucket: u64) -> Option<usize> {
        if self.shared.config.strategy != Strategy::Vote {
            return None;
        }
        let reserved = Hint::reserved(Hint::tag_of(hash)).0;
        let hints = self.engine.table.hints(bucket);
        (0..hints.len()).find(|&k| {
            // ORDERING: Relaxed, validated by the CAS.
            hints[k].load(Ordering::Relaxed) == 0
                // ORDERING: AcqRel: readers that miss the reservation miss the item too.
                && hints[k]
                    .compare_exchange(0, reserved, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                && {
                    sometimes!(Reserved);
                    true
                }
        })
    }

    /// The order of a compare-exchange that publishes an item (see `link`).
    #[inline(always)]
    fn publishing(&self) -> Ordering {
        if wrong!(self, RelaxedPublish) {
            // ORDERING: the fault.
            return Ordering::Relaxed;
        }
        if wrong!(self, ReleaseLink) {
            // ORDERING: the fault.
            return Ordering::Release;
        }
        // ORDERING: AcqRel, as `link` says.
        Ordering::AcqRel
    }

    /// Gives back a reservation that no item came to use.
    pub(crate) fn unreserve(&mut self, bucket: u64, reservation: Reservation) {
        if let Some(k) = reservation.0 {
            sometimes!(Unreserved);
            // ORDERING: Release, as in `link`.
            self.engine.table.slot(bucket).hints[k].store(0, Ordering::Release);
        }
    }

    /// Replaces the live item `old` (whose word was `word`) by the private `copy`: old out and new
    /// in by one CAS. `found` is the walk that led there, if one did. False: nothing has happened.
    pub(crate) fn replace(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        (old, word): (Item, Next),
        copy: Item,
        found: Option<&Found<'s>>,
    ) -> bool {
        // The write of a hinted item needs no predecessor: the dead version may wait for a walk.
        let lazy = found.is_none()
            && word.is(HINTED)
            && word.debt() < DEBT_MAX
            && self.shared.kind.size(old) < LAZY_SIZE_MAX;
        let debt = if lazy { word.debt() + 1 } else { 0 };
        let flags = Next((item_flags(copy) & SIGN) | (word.0 & HINTED)).with_debt(debt);
        // ORDERING: Relaxed, private until the CAS below.
        copy.next().store(flags.with(word.link()).0, Ordering::Relaxed);
        wrong!(self, ReplaceDrop => if let Some(found) = found {
            return self.drop_in(found, old, copy);
        });
        let dead = Next(word.0 | MARK | REPL).with(Link::item(copy.address()));
        self.end_copy_for(old, word, copy);
        let order = self.publishing();
        // AcqRel: publishes the copy; our reads of the old item come before its death.
        if lost!(
            ReplaceLost,
            // ORDERING: as `publishing` says.
            old.next().compare_exchange(word.0, dead.0, order, Ordering::Relaxed)
        ) {
            return false;
        }
        wrong!(self, CopyOutlives => let _ = self.end_copy_of(old););
        self.count_replaced(old, copy);
        if word.is(HINTED) || self.moves_naively() {
            self.inherit(old, copy);
        }
        if lazy {
            sometimes!(LazyReplace);
        } else if found.is_none() && word.debt() >= DEBT_MAX {
            sometimes!(DebtPaid);
        }
        match found {
            Some(found) => self.unlink_one(goal, bucket, found, Link::item(copy.address()), old),
            None if lazy => {}
            None => drop(self.find(goal, bucket)),
        }
        true
    }

    /// Marks the live item that `found` ended at. False: its word has changed.
    pub(crate) fn kill(&mut self, goal: &impl Goal<K>, bucket: u64, found: &Found<'s>) -> bool {
        let item = self.item(found.at);
        let dead = found.word.0 | MARK;
        self.end_copy(item, found.word);
        // ORDERING: AcqRel: our reads of the item come before its death.
        let next = item.next();
        // ORDERING: AcqRel, as above.
        let cas = || next.compare_exchange(found.word.0, dead, Ordering::AcqRel, Ordering::Relaxed);
        if lost!(KillLost, cas()) {
            return false;
        }
        wrong!(self, CopyOutlives => let _ = self.end_copy_of(item););
        self.count_out(item);
        self.unlink_one(goal, bucket, found, found.word.link(), item);
        self.consider_shrinking();
        true
    }

    /// Takes the dead item at `found` out of the chain, or lets a new walk do it.
    fn unlink_one(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        found: &Found<'s>,
        successor: Link,
        dead: Item,
    ) {
        let after = found.pred_word.with(successor);
        // ORDERING: AcqRel, as in `find`.
        let (pred, word) = (found.pred, found.pred_word.0);
        // ORDERING: AcqRel, as in `find`.
        let cas = || pred.compare_exchange(word, after.0, Ordering::AcqRel, Ordering::Relaxed);
        if lost!(UnlinkLeft, cas()) {
            self.find(goal, bucket);
        } else {
            self.unlinked(dead);
        }
    }

    /// Splits bucket `index` off its parent by linking its anchor (FAST'20 section 3.4, without
    /// its phases: one CAS, no copying, nobody waits). False: somebody else is at it.
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
            // ORDERING: AcqRel, as for the link of an item.
            let (pred, word) = (found.pred, found.pred_word.0);
            let order = self.publishing();
            // ORDERING: AcqRel, as above.
            if !lost!(SplitLost, pred.compare_exchange(word, after.0, order, Ordering::Relaxed)) {
                break;
            }
        }
        // ORDERING: AcqRel: whoever sees the slot usable sees its anchor linked (I7).
        slot.anchor.fetch_and(!BUSY, Ordering::AcqRel);
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

    /// Asks for all items that a line hints, so that a split waits for memory once and not for each.
    fn fetch_hinted(&self, bucket: u64) {
        for word in &self.engine.table.slot(bucket).hints {
            // ORDERING: Relaxed, a guess what is going to be wanted.
            prefetch_item::<K>(Hint(word.load(Ordering::Relaxed)).address());
        }
    }

    /// Moves the hints of the new bucket's items over, so that a doubling forgets no hot item.
    fn hand_over(&mut self, from: u64, to: u64) {
        let mask = (1u64 << (64 - to.leading_zeros())) - 1;
        for (k, word) in self.engine.table.hints(from).iter().enumerate() {
            // ORDERING: Acquire, we read the item behind it.
            let hint = Hint(word.load(Ordering::Acquire));
            let Some(item) = self.hinted(hint) else { continue };
            if self.is_filled(k, hint) || self.shared.kind.item_hash(item) & mask != to {
                continue;
            }
            // ORDERING: AcqRel, the item's claim is ours from here on.
            if word.compare_exchange(hint.0, 0, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                continue;
            }
            let hint = self.elsewhere(hint);
            let taken = self.engine.table.hints(to).iter().any(|word| {
                // ORDERING: AcqRel publishes the item to readers of the hint.
                word.compare_exchange(0, hint.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            });
            if taken {
                sometimes!(HandedOver);
                self.recheck(to, item);
            } else {
                sometimes!(NotHandedOver);
                self.release(item);
            }
        }
    }

    /// Called once for each removal.
    pub(crate) fn consider_shrinking(&mut self) {
        self.local.removals += 1;
        if self.local.removals >= RESIZE_INTERVAL {
            self.local.removals = 0;
            self.shrink_if_due();
        }
    }

    fn consider_growth(&mut self) {
        self.local.inserts += 1;
        if self.local.inserts >= RESIZE_INTERVAL {
            self.local.inserts = 0;
            self.grow_if_due();
        }
    }
}

/// The flags that an item was made with; its word is otherwise not set yet.
fn item_flags(item: Item) -> u64 {
    let next: &AtomicU64 = item.next();
    // ORDERING: Relaxed, the item is private.
    next.load(Ordering::Relaxed)
}
