//! The steps that change the chain: link a new item, replace one, mark one dead.
//!
//! Each is one CAS on one word. FAST'20 section 3.3 asks for an Occupied bit that is set and later
//! cleared, which makes others wait for a thread that stops in between; here a dead item's own
//! word carries the mark (Harris 2001), and everybody can finish what another has begun.

use crate::core::config::Strategy;
use crate::core::hooks::{lost, sometimes, wrong};
use crate::core::item::{Item, Kind};
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{HINTED, Hint, Link, MADE_WITH, MARK, Next, REPL};
use crate::engine::RESIZE_INTERVAL;
use crate::ring::Ring;
use crate::ring::hint::VOTES_NEW;
use crate::ring::lazy::LEFT;
use crate::ring::search::{Found, Goal};
use crate::session::Pinned;

/// Dead versions that writers of a hinted item may leave in the chain before one cleans up.
const DEBT_MAX: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

/// Buckets that are seen to in advance after this many inserts of a session: after a doubling, which
/// some four inserts for each bucket bring about, all are before a quarter of the next ones.
const AHEAD_OF_INSERTS: u64 = RESIZE_INTERVAL as u64 / 2;

/// A word of a line that an insert has reserved before linking its item.
#[derive(Default)]
pub struct Reservation(Option<usize>);

impl<'s, K: Kind, const H: usize> Pinned<'s, K, Ring<H>> {
    /// Links a private item before `found.at`. False: another session changed the place; the caller finds
    /// again and comes back with the same reservation.
    pub(crate) fn link(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        found: &Found<'s>,
        item: Item,
        reservation: &mut Reservation,
    ) -> bool {
        // 1. A complete line must cover the item before readers can be asked for it (I8).
        self.reserve_or_make_incomplete(goal.hash(), bucket, reservation);
        let claimed = if reservation.0.is_some() { HINTED } else { 0 };
        let made = item_flags(item) & MADE_WITH;
        // ORDERING: Relaxed, private until the CAS below.
        item.next().store(Next(made | claimed).with(found.at).0, Ordering::Relaxed);
        // 2. From this CAS on the key is present.
        let before = self.with_control_of_now(bucket, found);
        let after = before.with(Link::item(item.address()));
        // ORDERING: Release publishes the item's fields to Acquire walks. Acquire because the word
        // may have returned to an older value: the deletion it went through must happen before us.
        let order = self.publishing();
        // ORDERING: as above.
        let cas = || found.pred.compare_exchange(before.0, after.0, order, Ordering::Relaxed);
        if lost!(LinkLost, cas()) {
            return false;
        }
        self.count_in(item);
        // 3. Its hint, if there is room for one.
        if let Some(k) = reservation.0.take() {
            let word = Hint::new(Hint::tag_of(goal.hash()), item.address(), VOTES_NEW);
            // ORDERING: Release publishes the item to readers of the hint. A plain store: a reserved
            // word is written by its owner only.
            self.engine.table.slot(bucket).hints[k].store(word.0, Ordering::Release);
            self.recheck(bucket, item);
        } else {
            self.crowd_in(bucket, goal.hash(), item);
        }
        wrong!(self, LinkFirst => self.hint_late(goal.hash(), bucket, item));
        self.consider_growth();
        true
    }

    /// Gives an item that is to be linked a free word of its line, so that a line with room stays
    /// complete; else the line is not complete any more.
    #[inline(always)]
    fn reserve_or_make_incomplete(&mut self, hash: u64, bucket: u64, kept: &mut Reservation) {
        if wrong!(self, LinkFirst) {
            return;
        }
        if kept.0.is_none() {
            kept.0 = self.reserve(hash, bucket);
        }
        if kept.0.is_none() && !wrong!(self, InsertKeepsComplete) {
            self.make_incomplete(bucket);
        }
    }

    /// The predecessor's word as it was found, but for the control bits of our own line, which we may
    /// have changed since: that must not fail our CAS.
    #[inline(always)]
    fn with_control_of_now(&self, bucket: u64, found: &Found<'s>) -> Next {
        if found.pred_link != Link::anchor(bucket) {
            return found.pred_word;
        }
        // ORDERING: Relaxed, the CAS validates it.
        let now = Next(found.pred.load(Ordering::Relaxed));
        if now.link() == found.pred_word.link() { now } else { found.pred_word }
    }

    fn reserve(&mut self, hash: u64, bucket: u64) -> Option<usize> {
        if self.shared.config.strategy != Strategy::Vote {
            return None;
        }
        let reserved = Hint::reserved(Hint::tag_of(hash)).0;
        let hints = &self.engine.table.slot(bucket).hints;
        let k = hints.iter().position(|word| {
            // ORDERING: Relaxed, the CAS validates it.
            let is_free = word.load(Ordering::Relaxed) == 0;
            // ORDERING: Acquire: who finds our item here, where another one was, must see that the line
            // is not complete any more, which was published when the word was emptied (I9).
            let cas = || word.compare_exchange(0, reserved, Ordering::Acquire, Ordering::Relaxed);
            is_free && cas().is_ok()
        })?;
        sometimes!(Reserved);
        Some(k)
    }

    /// The order of a compare-exchange that publishes an item (see `link`).
    #[inline(always)]
    pub(crate) fn publishing(&self) -> Ordering {
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
            // ORDERING: Release: who sees the word empty sees the item that came before ours.
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
        let (size, has_more) = match found {
            None => self.shared.kind.extent(old),
            Some(_) => (0, false),
        };
        // The write of a hinted item needs no predecessor: the dead version may wait for a walk.
        let lazy = found.is_none()
            && word.is(HINTED)
            && word.debt() < DEBT_MAX
            && !self.local.participant.is_refusing()
            && !has_more
            && self.may_leave(goal.hash(), size);
        let debt = if lazy { word.debt() + 1 } else { 0 };
        let flags = Next((item_flags(copy) & MADE_WITH) | (word.0 & HINTED)).with_debt(debt);
        // ORDERING: Relaxed, private until the CAS below.
        copy.next().store(flags.with(word.link()).0, Ordering::Relaxed);
        wrong!(self, ReplaceDrop => if let Some(found) = found {
            return self.drop_in(found, old, copy);
        });
        let dead = Next(word.0 | MARK | REPL).with(Link::item(copy.address()));
        let dead = if lazy { dead.with_debt(LEFT) } else { dead };
        // ORDERING: Release publishes the copy.
        let order =
            if wrong!(self, RelaxedPublish) { Ordering::Relaxed } else { Ordering::Release };
        // ORDERING: as above.
        let cas = || old.next().compare_exchange(word.0, dead.0, order, Ordering::Relaxed);
        if lost!(ReplaceLost, cas()) {
            return false;
        }
        self.count_replaced(old, copy);
        if word.is(HINTED) || self.moves_naively() {
            self.inherit(old, copy);
        }
        if lazy {
            sometimes!(LazyReplace);
            self.record().left_bytes.add(size as i64);
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
        let next = item.next();
        // ORDERING: Release: our reads of the item come before its death.
        let cas =
            || next.compare_exchange(found.word.0, dead, Ordering::Release, Ordering::Relaxed);
        if lost!(KillLost, cas()) {
            return false;
        }
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
        let (pred, word) = (found.pred, found.pred_word.0);
        // ORDERING: Release, as in `find`.
        let cas = || pred.compare_exchange(word, after.0, Ordering::Release, Ordering::Relaxed);
        if lost!(UnlinkLeft, cas()) {
            self.find(goal, bucket);
        } else {
            self.unlinked(dead);
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
            self.go_ahead(AHEAD_OF_INSERTS);
        }
    }
}

/// The flags that an item was made with; its word is otherwise not set yet.
fn item_flags(item: Item) -> u64 {
    let next: &AtomicU64 = item.next();
    // ORDERING: Relaxed, the item is private.
    next.load(Ordering::Relaxed)
}
