//! Insert, replace and delete: each takes effect by one CAS on one word.
//!
//! FAST'20 section 3.3 uses an Occupied bit that is set and later cleared, so that other threads wait for a
//! thread that stops in between. Here the word of a dead item carries the mark (Harris 2001), and any
//! session can finish an operation that another has begun.

use crate::core::config::Strategy;
use crate::core::hooks::{Step, cas, order, sometimes, wrong};
use crate::core::item::{Item, Kind};
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{HINTED, Hint, Link, MADE_WITH, MARK, Next, REPL};
use crate::engine::{Hit, RESIZE_INTERVAL};
use crate::ring::Ring;
use crate::ring::hint::VOTES_NEW;
use crate::ring::lazy::LEFT;
use crate::ring::search::{Found, Goal};
use crate::ring::variants::Cause;
use crate::session::Pinned;

/// Dead versions that writers of a hinted item may leave in the chain before one unlinks them.
const DEBT_MAX: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

/// Buckets that a session splits eagerly after `RESIZE_INTERVAL` inserts. The next doubling follows after about
/// four inserts per bucket, so all buckets are split within a quarter of these inserts.
const EAGER_BUCKETS: u64 = RESIZE_INTERVAL as u64 / 2;

/// A word of a line that an insert has reserved before linking its item.
#[derive(Default)]
pub struct Reservation(Option<usize>);

impl<'s, K: Kind, const H: usize> Pinned<'s, K, Ring<H>> {
    /// Links a private item before `found.at`. False: another session changed the predecessor's word; the caller
    /// must search again, and keeps the reservation.
    pub(crate) fn link(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        found: &Found<'s>,
        item: Item,
        reservation: &mut Reservation,
    ) -> bool {
        // 1. A complete line must cover the item before readers can meet it (I8).
        self.reserve_or_make_incomplete(goal.hash(), bucket, reservation);
        let claimed = if reservation.0.is_some() { HINTED } else { 0 };
        let made = item_flags(item) & MADE_WITH;
        // ORDERING: Relaxed, private until the CAS below.
        item.next().store(Next(made | claimed).with(found.at).0, Ordering::Relaxed);
        // 2. From this CAS on the key is present.
        let before = self.with_current_control(bucket, found);
        let after = before.with(Link::item(item.address()));
        // ORDERING: Release publishes the item's fields to Acquire walks. Acquire because the word
        // may have returned to an older value: the deletion it went through must happen before us.
        if !cas(found.pred, before.0, after.0, self.link_order(), Step::LinkLost) {
            return false;
        }
        self.count_in(item);
        // 3. The hint, if the line has a word for it.
        if let Some(k) = reservation.0.take() {
            let word = Hint::new(Hint::tag_of(goal.hash()), item.address(), VOTES_NEW);
            // ORDERING: Release publishes the item to readers of the hint. A plain store: only its
            // owner writes a reserved word.
            self.engine.table.slot(bucket).hints[k].store(word.0, Ordering::Release);
            self.recheck(bucket, item);
        } else {
            self.crowd_in(bucket, goal.hash(), item);
        }
        wrong!(self, LinkFirst => self.hint_late(goal.hash(), bucket, item));
        self.consider_growth();
        true
    }

    /// Replaces the live item `old` with the private `copy`. `found` is the walk that led to `old`, if there was
    /// one. False: the word of `old` has changed, and nothing was replaced.
    pub(crate) fn replace(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        old: Hit,
        copy: Item,
        found: Option<&Found<'s>>,
    ) -> bool {
        let word = old.word;
        // 1. Without a walk the predecessor is unknown: may the dead version stay in the chain?
        let left = if found.is_none() { self.may_leave_dead(goal.hash(), old) } else { None };
        // 2. The copy takes over the successor, and the claim of a hinted item.
        let debt = if left.is_some() { word.debt() + 1 } else { 0 };
        let flags = Next((item_flags(copy) & MADE_WITH) | (word.0 & HINTED)).with_debt(debt);
        // ORDERING: Relaxed, private until the CAS below.
        copy.next().store(flags.with(word.link()).0, Ordering::Relaxed);
        wrong!(self, ReplaceDrop => if let Some(found) = found {
            return self.drop_in(found, old.item, copy);
        });
        // 3. This CAS is the replacement: the old item dies, and its successor is the copy.
        let dead = Next(word.0 | MARK | REPL).with(Link::item(copy.address()));
        let dead = if left.is_some() { dead.with_debt(LEFT) } else { dead };
        // ORDERING: Release publishes the copy.
        let order = order!(self, Ordering::Release, RelaxedPublish);
        if !cas(old.item.next(), word.0, dead.0, order, Step::ReplaceLost) {
            return false;
        }
        self.count_replaced(old.item, copy);
        // 4. The hint goes to the copy.
        if word.is(HINTED) || self.moves_naively() {
            self.inherit(old.item, copy);
        }
        // 5. The old item leaves the chain, now or later.
        if let Some(size) = left {
            sometimes!(LazyReplace);
            self.record().left_bytes.add(size as i64);
            wrong!(self, QueueTrustsItem | QueueRetires =>
                self.local.engine.lazy.remembered = old.item.address());
        } else if let Some(found) = found {
            self.unlink_found(goal, bucket, found, Link::item(copy.address()), old.item);
        } else {
            sometimes!(word.debt() >= DEBT_MAX => DebtPaid);
            self.find(goal, bucket);
        }
        true
    }

    /// Deletes the live item that `found` ended at. False: its word has changed, and nothing was deleted.
    pub(crate) fn kill(&mut self, goal: &impl Goal<K>, bucket: u64, found: &Found<'s>) -> bool {
        let item = self.item(found.at);
        // 1. From this CAS on the key is absent.
        let (word, dead) = (found.word.0, found.word.0 | MARK);
        // ORDERING: Release: our reads of the item come before its death.
        if !cas(item.next(), word, dead, Ordering::Release, Step::KillLost) {
            return false;
        }
        self.count_out(item);
        // 2. The item leaves the chain; its hint is cleared, and the second of the two retires it.
        self.unlink_found(goal, bucket, found, found.word.link(), item);
        self.consider_shrinking();
        true
    }

    /// Deletes an item that a scan has met, even if its word has changed since; a later walk unlinks the item.
    /// False: the item was already dead.
    pub(crate) fn kill_at(&mut self, hit: Hit) -> bool {
        let next = hit.item.next();
        let mut word = hit.word.0;
        while !Next(word).is(MARK) {
            let dead = word | MARK;
            // ORDERING: Release, as in `kill`. Relaxed on failure: the next try validates the word.
            match next.compare_exchange_weak(word, dead, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => {
                    self.count_out(hit.item);
                    self.consider_shrinking();
                    return true;
                }
                Err(now) => word = now,
            }
        }
        false
    }

    /// Unlinks the dead item at `found`, or starts a new walk that unlinks it.
    fn unlink_found(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        found: &Found<'s>,
        successor: Link,
        dead: Item,
    ) {
        let after = found.pred_word.with(successor);
        // ORDERING: Release, as in `find`.
        if cas(found.pred, found.pred_word.0, after.0, Ordering::Release, Step::UnlinkLeft) {
            self.unlinked(dead);
        } else {
            self.find(goal, bucket);
        }
    }

    /// The size of `old` in bytes, if its dead version may stay in the chain until a walk passes. Only a hinted
    /// item may stay: lookups reach its copy through the hint, without passing the dead version.
    fn may_leave_dead(&mut self, hash: u64, old: Hit) -> Option<usize> {
        let (size, has_more) = self.shared.kind.extent(old.item);
        let may = old.word.is(HINTED)
            && old.word.debt() < DEBT_MAX
            && !self.local.participant.is_refusing()
            && !has_more
            && self.may_leave(hash, size);
        may.then_some(size)
    }

    /// Reserves a free word of the line, so that a complete line stays complete. Without a free word the line
    /// becomes incomplete.
    #[inline(always)]
    fn reserve_or_make_incomplete(&mut self, hash: u64, bucket: u64, kept: &mut Reservation) {
        wrong!(self, LinkFirst => return;);
        if kept.0.is_none() {
            kept.0 = self.reserve(hash, bucket);
        }
        if kept.0.is_none() {
            self.make_incomplete(bucket, Cause::Insert);
        }
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
            // ORDERING: Acquire: a reader that finds our item in a word that held another item must see that
            // the line is not complete. The session that emptied the word published this (I9).
            let cas = || word.compare_exchange(0, reserved, Ordering::Acquire, Ordering::Relaxed);
            is_free && cas().is_ok()
        })?;
        sometimes!(Reserved);
        Some(k)
    }

    /// Gives back an unused reservation.
    pub(crate) fn unreserve(&mut self, bucket: u64, reservation: Reservation) {
        if let Some(k) = reservation.0 {
            sometimes!(Unreserved);
            // ORDERING: Release: a session that sees the word empty must see the item before ours.
            self.engine.table.slot(bucket).hints[k].store(0, Ordering::Release);
        }
    }

    /// The predecessor's word as found, but with the current control bits of our own line: this session's own
    /// change of these bits must not make the CAS fail.
    #[inline(always)]
    fn with_current_control(&self, bucket: u64, found: &Found<'s>) -> Next {
        if found.pred_link != Link::anchor(bucket) {
            return found.pred_word;
        }
        // ORDERING: Relaxed, the CAS validates it.
        let now = Next(found.pred.load(Ordering::Relaxed));
        if now.link() == found.pred_word.link() { now } else { found.pred_word }
    }

    /// The order of a CAS that links (see `link`).
    #[inline(always)]
    pub(super) fn link_order(&self) -> Ordering {
        // ORDERING: Release, the fault; AcqRel, as `link` says.
        wrong!(self, ReleaseLink => return Ordering::Release;);
        order!(self, Ordering::AcqRel, RelaxedPublish)
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
            self.growth_step(EAGER_BUCKETS);
        }
    }
}

/// The flags with which an item was made. The item must be private: its word has nothing else yet.
fn item_flags(item: Item) -> u64 {
    let next: &AtomicU64 = item.next();
    // ORDERING: Relaxed, the item is private.
    next.load(Ordering::Relaxed)
}
