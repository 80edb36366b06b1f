//! The hot copy: the key and the value of a slot's hottest item, in the slot itself, so that a read
//! of it is over after one cache line.
//!
//! ```text
//!  word 0   word 1      words 2 to 5   word 6   word 7
//!  anchor | hot place | other hints  | key    | value       of the hot place's item, while VALID
//! ```
//!
//! The low bits of the hot place are votes, up to 3, or one of three states:
//!
//! ```text
//!  votes --fill--> FILLING --> VALID --end--> votes        (by who marks the item, before the mark)
//!                     '--end--> SPOILT --> votes           (by who fills)
//!                     '-- the item is dead --> votes
//! ```
//!
//! A copy is of a frozen value, so what changes the key's value is a replacement or a removal, which
//! marks the item.
//!
//! # Invariants
//!
//! * I10 Only who set FILLING writes the key and the value, and only that session leaves FILLING and
//!   SPOILT. Everybody else leaves a word in one of these states alone.
//! * I11 Who marks an item whose word has HOT has first taken its copy from VALID back to votes, or
//!   from FILLING to SPOILT.
//! * I12 VALID is entered once in the life of an item: HOT is set in FILLING, on an unmarked word that
//!   did not have it, and never cleared. So the word is never VALID for the same item twice.
//!
//! # Why a read is right
//!
//! It loads the hot place, the key, the value, and the hot place again. Equal and VALID both times is
//! VALID throughout (I12; the memory of an item that died meanwhile is not used again before the
//! reader's pin ends), so what it loaded was this item's (I10), and at the second look the item was
//! not marked: a marker whose CAS expects HOT had ended the copy before (I11), and one whose CAS does
//! not failed when HOT was set, before VALID. The read takes effect at the second look.
//!
//! Whoever ends a copy finds it. HOT was seen in the item's word, so the filler's load of the mask
//! happened before ours, and the copy is in the slot of the item's bucket or of one that it was split
//! from. A halving first ends the copies in upper slots, while none is made (`shrink`). A hint that is
//! handed over or moved in its line is not VALID any more, and cannot become so (I12); such an item is
//! replaced by an equal one if it is to be copied again.
//!
//! # Memory orders
//!
//! Key and value are stored with Release and loaded with Acquire: who sees a newer one sees FILLING,
//! too, at the second look.

use crate::arena::footprint;
use crate::engine::{Hit, KeyGoal};
use crate::item::{Item, Kind};
use crate::prefetch::prefetch;
use crate::rare::{sometimes, wrong};
use crate::ring::Ring;
use crate::ring::pipeline::{FLIGHTS_MAX, Walkers};
use crate::ring::table::Slot;
use crate::session::Pinned;
use crate::sync::{AtomicU64, Ordering, TallyU64};
use crate::u64s::{self, U64, join, load};
use crate::word::{
    COMPLETE, FILLING, HINTED, HOT, Hint, MARK, Next, SPOILT, VALID, VOTES_HOT, VOTES_MAX,
};
use std::hint::select_unpredictable;

/// Votes with which the item in the hot place is copied: one more than a new item has.
const VOTES_COPIED: u64 = if cfg!(any(loom, shuttle)) { 0 } else { 2 };
/// Votes with which an item elsewhere in the line may have the place of a copy.
const VOTES_RIVAL: u64 = if cfg!(any(loom, shuttle)) { 0 } else { VOTES_MAX };
/// How seldom a key that is written to may be copied.
const CHILL_MAX: u64 = if cfg!(any(loom, shuttle)) { 1 } else { 10 };
/// What a write that ends a copy adds to that.
const CHILL_ENDED: u64 = 2;
/// One in so many R-th reads makes it less. With these, a key is copied if fewer than about one in a
/// hundred of its accesses are writes, where a copy gains more than its end costs.
const THAW: u64 = 8;
/// Tries to set HOT while others change the item's successor.
const TRIES: usize = 4;

/// Counts of copies.
pub(crate) struct Copies {
    made: TallyU64,
    ended: TallyU64,
}

impl Copies {
    pub(crate) fn new() -> Self {
        Self { made: TallyU64::new(0), ended: TallyU64::new(0) }
    }

    pub(crate) fn counts(&self) -> (u64, u64) {
        // ORDERING: Relaxed, statistics.
        (self.made.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed))
    }
}

/// What its slot says of a key on the conveyor.
#[derive(Clone, Copy)]
enum Place<'e, const H: usize> {
    /// Look at this hint, which has the key's tag.
    Hint(&'e Slot<H>, &'e AtomicU64),
    /// The key is absent.
    Absent,
    /// Walk.
    Unknown,
}

impl<'s, const H: usize> Pinned<'s, U64, Ring<H>> {
    /// The value of a key, in a table with copies.
    #[inline(never)]
    pub(crate) fn get_beside_copy(&mut self, goal: KeyGoal<'_, U64>) -> Option<u64> {
        let slot = self.slot_of(goal.hash);
        // Before the hints: a complete line needs it first.
        // ORDERING: Acquire pairs with the CASes that link into this arc.
        let control = Next(slot.anchor.load(Ordering::Acquire));
        if let Some((hint, value)) = self.look_at_copy(slot, *goal.key) {
            self.local.countdown -= 1;
            if self.local.countdown == 0 {
                self.again().every_rth_copied(goal.hash, hint);
            }
            return Some(value);
        }
        let Some(place) = slot.first_match(goal.hash, self.engine.table.words()) else {
            if control.is(COMPLETE) && self.is_complete(slot) {
                self.access(goal.hash, None, 0);
                return None;
            }
            return self.lookup_in_full(goal).map(load);
        };
        let value = self.look(goal, slot, slot.hint_at(place));
        if value.is_some() { value } else { self.lookup_in_full(goal).map(load) }
    }

    /// The hot place and the value of its copy, if that is the key's.
    #[inline(always)]
    fn look_at_copy(&self, slot: &Slot<H>, of: u64) -> Option<(Hint, u64)> {
        let hot = &slot.hints[0];
        // ORDERING: Acquire pairs with the CAS that made the copy.
        let hint = Hint(hot.load(Ordering::Acquire));
        let [key, value] = slot.copy();
        // ORDERING: Acquire pairs with the Release of who fills: the second look comes after.
        if key.load(Ordering::Acquire) != of || hint.votes() != VALID {
            return None;
        }
        // ORDERING: Acquire, as above.
        let value = value.load(Ordering::Acquire);
        // ORDERING: Acquire: the second look, which comes after the loads above.
        let again = hot.load(Ordering::Acquire);
        if again != hint.0 && !wrong!(self, CopyUnconfirmed) {
            sometimes!(CopyChanged);
            return None;
        }
        sometimes!(CopyRead);
        Some((hint, value))
    }

    /// The value of a key, if it is that of a hint's item or of its copy. Without a branch between the
    /// two: which it is cannot be predicted, and a wrong guess would be noticed only when the line has
    /// come from memory.
    #[inline(always)]
    fn look(&mut self, goal: KeyGoal<'_, U64>, slot: &Slot<H>, word: &AtomicU64) -> Option<u64> {
        // ORDERING: Acquire pairs with the CAS (or Release store) that put the hint, or made the copy.
        let hint = Hint(word.load(Ordering::Acquire));
        let item = self.hinted(hint)?;
        let is_copy = is_copy(slot, word, hint);
        let (key, value) = key_and_value(is_copy, slot, item);
        // ORDERING: Acquire: of a copy, the second look, which comes after the loads above, as they
        // were Acquire. Of an item, the linearization point of a hit.
        let last = select_unpredictable(is_copy, word, item.next()).load(Ordering::Acquire);
        let changed = if wrong!(self, CopyUnconfirmed) { 0 } else { last ^ hint.0 };
        if is_copy && changed != 0 {
            sometimes!(CopyChanged);
        }
        if (key ^ goal.key) | select_unpredictable(is_copy, changed, last & MARK) != 0 {
            return None;
        }
        self.local.countdown -= 1;
        if self.local.countdown == 0 {
            if is_copy {
                self.again().every_rth_copied(goal.hash, hint);
            } else {
                let hit = Hit { item, word: Next(last) };
                self.again().every_rth(goal.hash, Some(hit), 1);
            }
        }
        if is_copy {
            sometimes!(CopyRead);
        }
        Some(select_unpredictable(is_copy, value, join(value, Next(last))))
    }

    /// A batch of lookups in a table with copies: a conveyor as in `pipeline`, but that no item is
    /// asked for where a copy will do.
    pub(crate) fn get_many_beside_copy(&mut self, keys: &[u64], out: &mut [Option<u64>]) {
        let goal = |kind: &U64, i: usize| KeyGoal { hash: kind.hash(&keys[i]), key: &keys[i] };
        let n = keys.len();
        let block = (self.shared.config.pipeline_depth / 2).max(1);
        let mut walkers = Walkers::default();
        let mut belt = [Place::<'s, H>::Unknown; FLIGHTS_MAX];
        for at in (0..n + 2 * block).step_by(block) {
            if let Some(from) = at.checked_sub(2 * block) {
                for key in from..n.min(from + block) {
                    let goal_of_key = goal(&self.shared.kind, key);
                    out[key] = match belt[key % FLIGHTS_MAX] {
                        Place::Hint(slot, word) => self.look(goal_of_key, slot, word),
                        Place::Absent => {
                            self.access(goal_of_key.hash, None, 0);
                            None
                        }
                        Place::Unknown => None,
                    };
                    let is_landed =
                        out[key].is_some() || matches!(belt[key % FLIGHTS_MAX], Place::Absent);
                    if !is_landed && walkers.push(key) {
                        self.fly_walkers(&mut walkers, &goal, &mut |i, hit| out[i] = hit.map(load));
                    }
                }
            }
            if let Some(from) = at.checked_sub(block) {
                for key in from..n.min(from + block) {
                    belt[key % FLIGHTS_MAX] = self.ask_for(goal(&self.shared.kind, key).hash);
                }
            }
            for key in keys.iter().take(at + block).skip(at) {
                let slot = self.slot_of(self.shared.kind.hash(key));
                prefetch(std::ptr::from_ref(slot).cast());
            }
        }
        self.fly_walkers(&mut walkers, &goal, &mut |i, hit| out[i] = hit.map(load));
    }

    /// Looks for the first hint with the key's tag, and asks for its item unless there is a copy.
    #[inline(always)]
    fn ask_for(&self, hash: u64) -> Place<'s, H> {
        let slot = self.slot_of(hash);
        // ORDERING: Acquire, before the hints, as in `get_beside_copy`.
        let control = Next(slot.anchor.load(Ordering::Acquire));
        let found = slot.first_match(hash, self.engine.table.words());
        let Some(word) = found.map(|at| slot.hint_at(at)) else {
            let is_absent = control.is(COMPLETE) && self.is_complete(slot);
            return if is_absent { Place::Absent } else { Place::Unknown };
        };
        // ORDERING: Relaxed, only to fetch it.
        let hint = Hint(word.load(Ordering::Relaxed));
        let item = std::ptr::without_provenance(hint.address() as usize);
        let here = std::ptr::from_ref(slot).cast();
        prefetch(select_unpredictable(is_copy(slot, word, hint), here, item));
        Place::Hint(slot, word)
    }
}

/// Whether a hint's item is to be read in its copy.
#[inline(always)]
fn is_copy<const H: usize>(slot: &Slot<H>, word: &AtomicU64, hint: Hint) -> bool {
    std::ptr::eq(word, &raw const slot.hints[0]) & (hint.votes() == VALID)
}

/// The key and the value word of an item or of a copy.
#[cfg(not(any(loom, shuttle)))]
#[inline(always)]
fn key_and_value<const H: usize>(is_copy: bool, slot: &Slot<H>, item: Item) -> (u64, u64) {
    let [key, value] = select_unpredictable(is_copy, slot.copy(), u64s::key_and_value(item));
    // ORDERING: Acquire pairs with the Release of who fills: the second look comes after.
    (key.load(Ordering::Acquire), value.load(Ordering::Acquire))
}

/// The same where the checker's atomics are no plain words.
#[cfg(any(loom, shuttle))]
fn key_and_value<const H: usize>(is_copy: bool, slot: &Slot<H>, item: Item) -> (u64, u64) {
    if is_copy {
        let [key, value] = slot.copy();
        // ORDERING: Acquire pairs with the Release of who fills.
        (key.load(Ordering::Acquire), value.load(Ordering::Acquire))
    } else {
        // ORDERING: Acquire pairs with the AcqRel of in-place writes.
        (*U64::key(item), u64s::value_of(item).load(Ordering::Acquire))
    }
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    #[inline(always)]
    pub(crate) fn has_copies(&self) -> bool {
        K::PAIRS && self.engine.table.copies()
    }

    /// Whether hint `k` is to be left alone (I10).
    #[inline]
    pub(crate) fn is_filled(&self, k: usize, hint: Hint) -> bool {
        let is = k == 0 && self.has_copies() && hint.is_filled() && !wrong!(self, CopyTaken);
        if is {
            sometimes!(FillingMet);
        }
        is
    }

    /// What a hint is in another word: its state was that of a copy that it does not take along.
    pub(crate) fn elsewhere(&self, hint: Hint) -> Hint {
        if self.has_copies() { hint.with_votes(hint.votes().min(VOTES_HOT)) } else { hint }
    }

    /// Ends the copy of an item that is going to be marked by a CAS from `word`. True: it had one.
    #[inline]
    pub(crate) fn end_copy(&mut self, item: Item, word: Next) -> bool {
        // Who has no claim is in no word.
        let may = self.has_copies() && word.is(HOT) && word.is(HINTED);
        may && !wrong!(self, CopyOutlives) && self.end_copy_of(item)
    }

    /// As `end_copy`, for an item that `copy` is going to replace.
    pub(crate) fn end_copy_for(&mut self, item: Item, word: Next, copy: Item) {
        if !self.has_copies() {
            return;
        }
        let ended = if self.end_copy(item, word) { CHILL_ENDED } else { 0 };
        let chill = (word.chill() + ended).min(CHILL_MAX);
        // ORDERING: Relaxed, private until it is published.
        let next = Next(copy.next().load(Ordering::Relaxed)).with_chill(chill);
        // ORDERING: Relaxed, as above.
        copy.next().store(next.0, Ordering::Relaxed);
    }

    #[inline(never)]
    pub(crate) fn end_copy_of(&mut self, item: Item) -> bool {
        loop {
            let Some((slot, k, hint)) = self.locate(item) else { return false };
            let after = match hint.votes() {
                VALID if k == 0 => hint.with_votes(0),
                FILLING if k == 0 && wrong!(self, CopyTaken) => hint.with_votes(0),
                FILLING if k == 0 => hint.with_votes(SPOILT),
                _ => return false,
            };
            let hot = &self.engine.table.slot(slot).hints[0];
            // ORDERING: AcqRel: comes before the mark, so that who still sees the copy VALID reads
            // before the mark.
            if hot.compare_exchange(hint.0, after.0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                sometimes!(CopyEnded);
                // ORDERING: Relaxed, statistics.
                self.engine.copies.ended.fetch_add(1, Ordering::Relaxed);
                return true;
            }
        }
    }

    /// Ends the copy of a slot that goes, in which no more are made.
    pub(crate) fn end_copy_in(&mut self, slot: u64) {
        if !self.has_copies() || wrong!(self, ShrinkKeepsCopies) {
            return;
        }
        let hot = &self.engine.table.slot(slot).hints[0];
        // ORDERING: Relaxed, the CAS validates it.
        let hint = Hint(hot.load(Ordering::Relaxed));
        debug_assert!(!hint.is_filled(), "its filler is gone since the grace period");
        if hint.votes() == VALID {
            let after = hint.with_votes(0).0;
            // ORDERING: AcqRel, as in `end_copy_of`. Lost: somebody else has ended it.
            let _ = hot.compare_exchange(hint.0, after, Ordering::AcqRel, Ordering::Relaxed);
            sometimes!(CopySwept);
        }
    }

    /// Notes a write in place, which speaks against a copy.
    #[inline(always)]
    pub(crate) fn access_written(&mut self, hash: u64, hit: Hit) {
        if H == 1 {
            return self.access(hash, Some(hit), 1);
        }
        self.local.countdown -= 1;
        if self.local.countdown == 0 {
            self.again().every_rth_written(hash, hit);
        }
    }

    #[cold]
    #[inline(never)]
    fn every_rth_written(&mut self, hash: u64, hit: Hit) {
        if self.has_copies() {
            self.chill(hit.item, |chill| (chill + 1).min(CHILL_MAX));
        }
        self.every_rth(hash, Some(hit), 1);
    }

    #[cold]
    fn chill(&mut self, item: Item, after: impl Fn(u64) -> u64) {
        // ORDERING: Relaxed, advice; the CAS keeps the rest of the word.
        let word = Next(item.next().load(Ordering::Relaxed));
        let after = word.with_chill(after(word.chill())).0;
        // ORDERING: Relaxed, as above: as a read-modify-write it passes on what others published.
        let _ = item.next().compare_exchange(word.0, after, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The R-th access was a read of a copy: it defends the hot place.
    #[cold]
    #[inline(never)]
    fn every_rth_copied(&mut self, hash: u64, hint: Hint) {
        let bucket = hash & self.engine.table.mask();
        let period = self.shared.config.period();
        self.local.countdown = self.around(period);
        self.local.participant.nudge(self.engine.resizing.is_busy(), period);
        self.record().lookups.add(1);
        if let Some(item) = self.hinted(hint)
            && self.one_in(THAW)
        {
            self.chill(item, |chill| chill.saturating_sub(1));
        }
        let rivals = self.engine.table.hints(bucket).iter().enumerate().skip(1);
        // ORDERING: Relaxed, votes; a CAS validates them.
        let rivals = rivals.map(|(k, word)| (k, Hint(word.load(Ordering::Relaxed))));
        let best = rivals.filter(|(_, hint)| hint.address() != 0).max_by_key(|(_, h)| h.votes());
        if let Some((k, hint)) = best
            && hint.votes() > 1
        {
            self.cast(bucket, k, hint, hint.votes() - 1);
        }
    }

    fn one_in(&mut self, n: u64) -> bool {
        n <= 1 || (self.local.random() >> 33).is_multiple_of(n)
    }

    /// As [`Strategy::Vote`](crate::Strategy::Vote) has it, but that the line's items contend for the
    /// hot place, and the item in it is copied once it has all votes that there are.
    pub(crate) fn vote_beside_copy(&mut self, bucket: u64, hash: u64, hit: Hit) {
        if !self.is_usable(bucket) {
            return;
        }
        let hints = self.engine.table.hints(bucket);
        // ORDERING: Acquire, we may release the item behind it.
        let load = |k: usize| Hint(hints[k].load(Ordering::Acquire));
        let hot = load(0);
        let Some(k) = (0..hints.len()).find(|&k| load(k).address() == hit.item.address()) else {
            return self.vote_for_newcomer(bucket, hash, hit);
        };
        let hint = load(k);
        if hint.address() != hit.item.address() {
            return;
        }
        match (k, hint.votes()) {
            (0, FILLING | SPOILT | VALID) => {}
            (0, votes) if votes + 1 < VOTES_COPIED => self.cast(bucket, 0, hint, votes + 1),
            (0, _) => self.consider_copy(bucket, hash, hint, hit.item),
            _ => self.contend(bucket, hash, k, hint, hot),
        }
    }

    /// An item without a word takes a vote from one of those that have one.
    fn vote_for_newcomer(&mut self, bucket: u64, hash: u64, hit: Hit) {
        let hints = self.engine.table.hints(bucket);
        // ORDERING: Relaxed, the CAS that takes the word validates it.
        let empty = hints.iter().position(|word| word.load(Ordering::Relaxed) == 0);
        let k = empty.unwrap_or_else(|| (self.local.random() >> 33) as usize % hints.len());
        // ORDERING: Acquire, we may release the item behind it.
        let hint = Hint(hints[k].load(Ordering::Acquire));
        if hint.is_reserved() || (k == 0 && hint.votes() > VOTES_HOT) {
            return;
        }
        if !hint.is_empty() && hint.votes() > 0 {
            return self.cast(bucket, k, hint, hint.votes() - 1);
        }
        let after = Hint::new(Hint::tag_of(hash), hit.item.address(), 1);
        self.heat(bucket, k, hint, hit.item, after);
    }

    /// The item of word `k` gets a vote, or the hot place if it has more than the item there; that of
    /// a copy if it has all.
    fn contend(&mut self, bucket: u64, hash: u64, k: usize, hint: Hint, hot: Hint) {
        let votes = hint.votes();
        let wins = match hot.votes() {
            FILLING | SPOILT => false,
            _ if hot.is_reserved() => false,
            VALID => votes >= VOTES_RIVAL,
            others => votes >= others,
        };
        if wins {
            self.take_hot_place(bucket, hash, k, hint, hot);
        } else if votes < VOTES_MAX {
            self.cast(bucket, k, hint, votes + 1);
        }
    }

    /// Exchanges the items of the hot place and of word `k`, which is reserved meanwhile. A copy that
    /// was there is over.
    fn take_hot_place(&mut self, bucket: u64, hash: u64, k: usize, hint: Hint, hot: Hint) {
        let (Some(item), was) = (self.hinted(hint), self.hinted(hot)) else { return };
        let hints = self.engine.table.hints(bucket);
        let tag = hint.tag();
        // ORDERING: AcqRel, the item's claim is ours from here on.
        let cas = |word: usize, old: Hint, new: Hint| {
            // ORDERING: AcqRel, as above; and publishes the item to readers of the hint.
            hints[word].compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if !cas(k, hint, Hint::reserved(tag)) {
            return;
        }
        // The other item is in no word for a while (I9).
        self.make_incomplete(bucket);
        let hint_hot = hint.with_votes(VOTES_COPIED);
        let taken = cas(0, hot, hint_hot);
        let back = if taken { self.elsewhere(hot) } else { hint };
        // ORDERING: Release, as in `link`: a reserved word is written by its owner only.
        hints[k].store(back.0, Ordering::Release);
        if taken {
            sometimes!(HotPlaceTaken);
            self.record().head_moves.add(1);
        } else {
            sometimes!(HotPlaceLost);
        }
        self.recheck(bucket, item);
        if taken {
            if let Some(was) = was {
                self.recheck(bucket, was);
            }
            self.consider_copy(bucket, hash, hint_hot, item);
        }
    }

    /// Copies the item of the hot place, unless it is written to now and then.
    fn consider_copy(&mut self, bucket: u64, hash: u64, hint: Hint, item: Item) {
        // ORDERING: Relaxed, advice; what follows validates it.
        let word = Next(item.next().load(Ordering::Relaxed));
        if !self.one_in(1 << word.chill().min(CHILL_MAX)) {
            if self.one_in(THAW) {
                self.chill(item, |chill| chill.saturating_sub(1));
            }
        } else if self.engine.resizing.forbids_completing() && !wrong!(self, ShrinkKeepsCopies) {
            // The slot may be about to go.
        } else if word.is(HOT) && !wrong!(self, CopyAgain) {
            self.renew(bucket, hash, item);
        } else {
            self.fill(bucket, hint, item);
        }
    }

    /// Makes the copy.
    fn fill(&mut self, bucket: u64, hint: Hint, item: Item) {
        let hot = &self.engine.table.slot(bucket).hints[0];
        let cas = |old: Hint, new: Hint| {
            // ORDERING: AcqRel: comes before the stores of key and value; VALID comes after them.
            hot.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let filling = hint.with_votes(FILLING);
        if !cas(hint, filling) {
            return;
        }
        if !wrong!(self, CopyUnfrozen) {
            self.shared.kind.freeze(item);
        }
        let Some((key, value)) = K::pair(item) else { return };
        let copy = self.engine.table.slot(bucket).copy();
        // ORDERING: Release: who sees it sees FILLING at the second look.
        copy[0].store(key, Ordering::Release);
        // ORDERING: Release, as above.
        copy[1].store(value, Ordering::Release);
        if self.announce(item) {
            if cas(filling, hint.with_votes(VALID)) {
                sometimes!(Copied);
                // ORDERING: Relaxed, statistics.
                self.engine.copies.made.fetch_add(1, Ordering::Relaxed);
                return;
            }
            sometimes!(CopySpoilt);
        } else {
            sometimes!(CopyTooLate);
        }
        let over = hint.with_votes(0);
        let _ = cas(filling, over) || cas(hint.with_votes(SPOILT), over);
        self.recheck(bucket, item);
    }

    /// Sets HOT on an item that is not dead.
    fn announce(&self, item: Item) -> bool {
        if wrong!(self, CopyUnannounced) {
            return true;
        }
        let next = item.next();
        // ORDERING: Relaxed, the CAS validates it.
        let mut word = Next(next.load(Ordering::Relaxed));
        for _ in 0..TRIES {
            if word.is(MARK) || (word.is(HOT) && !wrong!(self, CopyAgain)) {
                return false;
            }
            // ORDERING: AcqRel: who sees HOT sees FILLING, and where.
            match next.compare_exchange(word.0, word.0 | HOT, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = Next(now),
            }
        }
        false
    }

    /// Replaces an item that was copied already by an equal one, which may be copied.
    fn renew(&mut self, bucket: u64, hash: u64, item: Item) {
        let kind = &self.shared.kind;
        kind.freeze(item);
        // ORDERING: Acquire, the CAS that marks the item expects it.
        let word = Next(item.next().load(Ordering::Acquire));
        if word.is(MARK) {
            return;
        }
        let copy = kind.copy_of(item, |size| self.alloc(footprint(size)));
        let goal = KeyGoal { hash, key: K::key(item) };
        if self.replace(&goal, bucket, (item, word), copy, None) {
            sometimes!(CopyRenewed);
        } else {
            self.discard(copy);
        }
    }
}
