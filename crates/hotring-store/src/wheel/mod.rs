//! The timing wheel: the expiry times of items, by hash.
//!
//! # Picture
//! ```text
//!   shards[hash % 16]   a mutex: the present wheel, and the previous one while it is being replaced
//!       ^ a write that gives an item an expiry enters its hash, once it has taken effect
//!       | the expirer takes due entries, finds the item by its hash, and removes it if it has expired
//! ```
//! An entry is a hash and a time ([`levels`]) and knows no item. If the item is removed, replaced or gets another
//! expiry, the entry stays. So a session that takes an entry must look at the present item of that hash.
//!
//! # Invariants
//! * **E1** Each item that expires at `e`, or whose hash has a field that does, has an entry that fires at `e` or
//!   before, or will have as soon as a running step of another session is over.
//! * **E2** The number of entries is bounded by `STALE_MIN`, twice the number of expiring items (and hashes with such
//!   fields, as counted by the last walk), a quarter of all items, and the entries made while a wheel is replaced.
//!
//! # Why no item is forgotten (E1)
//!
//! A write that gives an item the expiry `e` enters it afterwards, unless its decision saw an expiry that
//! is not later: for that there is an entry already (E1), or soon will be. The index carries a decision out
//! only if nothing has changed in between. The expirer looks at the item after taking its entry, and enters
//! it again at the time that the item has by then, or removes it by a decision of the same kind. A later
//! expiry set without an entry from then on is later than the one seen, which is entered.
//!
//! # How stale entries go (E2)
//!
//! A key that is set and removed again and again leaves entries whose times may be far away. If there are too many,
//! new wheels take all new entries, and a walk over all items enters the expiring ones. The previous wheels fire as
//! before until the walk is over, and then they are dropped. The walk visits an item that is present throughout, and
//! the storing session has entered any other; so E1 holds for the new wheels alone. An entry that fires early in an
//! old wheel is entered in the new one. The same is done if the clock has gone back by much, because a wheel cannot.
//!
//! # Wake-ups
//!
//! `wake_before` is a time: a session that makes an earlier entry must wake the expirer. The expirer sets it before it
//! asks the shards, one by one under their mutexes, for their next due times. So an entry is either seen by that
//! question or sees the new `wake_before`.

mod chunks;
mod levels;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{OnceLock, PoisonError};
use std::task::Waker;

use levels::{Step, Wheel};

use crate::expired::Expired;
use crate::gate::Lines;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// Shards, by the lowest bits of the hash.
pub(crate) const SHARDS: usize = 16;
/// This many entries of items that are gone are always allowed.
const STALE_MIN: u64 = 65_536;
/// A clock may go back by this many milliseconds, and entries wait for it.
const BACK_MAX: u64 = 1_000;
/// No time is later: the index has no later expiries.
const TIME_MAX: u64 = 1 << 62;

/// The wheels of one store.
pub(crate) struct Wheels {
    shards: [Lines<Mutex<Shard>>; SHARDS],
    /// See "Wake-ups".
    wake_before: AtomicU64,
    waker: OnceLock<Waker>,
    /// The shard that a step begins with, so that none comes last for ever.
    turn: AtomicU64,
    /// The position of the walk, if there is one.
    walk: Mutex<Option<u64>>,
    /// Hashes with fields that expire which the last walk has met, or the present one until now.
    with_fields: AtomicU64,
    /// Whether a hash ever had a field that expires.
    have_fields: AtomicBool,
    /// The removed entries.
    pub(crate) expired: Expired,
}

/// The wheels of the hashes with certain lowest bits.
pub(crate) struct Shard {
    present: Wheel,
    former: Option<Wheel>,
}

/// An entry that was taken, as it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Taken {
    pub(crate) hash: u64,
    is_former: bool,
}

/// Entries of all shards.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    /// When the next one is due at the earliest.
    pub(crate) next: Option<u64>,
    /// The time that they have come to.
    elapsed: u64,
}

impl Totals {
    /// Whether the entries are too many for these numbers of items and of those that expire, or the clock has gone
    /// back.
    pub(crate) fn is_worn(&self, counts: impl FnOnce() -> (u64, u64), now: u64) -> bool {
        if self.elapsed > now.saturating_add(BACK_MAX) {
            return true;
        }
        self.entries > STALE_MIN && {
            let (items, expiring) = counts();
            self.entries > STALE_MIN + 2 * expiring + items / 4
        }
    }
}

impl Wheels {
    pub(crate) fn new() -> Wheels {
        let shard = || Shard { present: Wheel::new(0), former: None };
        Wheels {
            shards: std::array::from_fn(|_| Lines(Mutex::new(shard()))),
            wake_before: AtomicU64::new(0),
            waker: OnceLock::new(),
            turn: AtomicU64::new(0),
            walk: Mutex::new(None),
            with_fields: AtomicU64::new(0),
            have_fields: AtomicBool::new(false),
            expired: Expired::new(),
        }
    }

    /// Enters that an item of this hash expires at `due`. Called when it does so already.
    pub(crate) fn enter(&self, hash: u64, due: u64, now: u64) {
        self.shard(hash as usize % SHARDS).present.enter(hash, due, now.min(TIME_MAX));
        // ORDERING: Relaxed; the shard's mutex orders it, see "Wake-ups".
        if due < self.wake_before.load(Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // ORDERING: Relaxed, as above: one thread wakes the expirer, and later ones need not.
        if self.wake_before.swap(0, Relaxed) > 0
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }

    /// Sets the waker; false if there is one.
    pub(crate) fn set_waker(&self, waker: Waker) -> bool {
        self.waker.set(waker).is_ok()
    }

    /// Enters an entry again that was taken too early.
    pub(crate) fn enter_again(&self, taken: Taken, due: u64, now: u64) {
        let mut shard = self.shard(taken.hash as usize % SHARDS);
        if !taken.is_former {
            shard.present.enter(taken.hash, due, now.min(TIME_MAX));
        } else if let Some(former) = &mut shard.former {
            former.enter(taken.hash, due, now.min(TIME_MAX));
        }
        // With the previous wheel gone the item has its entry in the present one.
    }

    /// The shard to begin with.
    pub(crate) fn turn(&self) -> usize {
        // ORDERING: Relaxed, any number will do.
        self.turn.fetch_add(1, Relaxed) as usize % SHARDS
    }

    /// Takes up to this number of steps in a shard and adds due entries to `taken`. Returns the number of
    /// steps, which is smaller if nothing is left to do.
    pub(crate) fn take(&self, shard: usize, now: u64, max: usize, taken: &mut Vec<Taken>) -> usize {
        let mut shard = self.shard(shard);
        let Shard { present, former } = &mut *shard;
        let mut steps = 0;
        for (wheel, is_former) in
            former.iter_mut().map(|former| (former, true)).chain([(present, false)])
        {
            while steps < max {
                match wheel.step(now.min(TIME_MAX)) {
                    Step::Due(hash) => taken.push(Taken { hash, is_former }),
                    Step::Moved => {}
                    Step::Done => break,
                }
                steps += 1;
            }
        }
        steps
    }

    /// The time of the next entry, and the number of entries. A session that enters an earlier one from now
    /// on wakes the expirer.
    pub(crate) fn totals(&self) -> Totals {
        // ORDERING: Relaxed; the mutexes order it, see "Wake-ups".
        self.wake_before.store(u64::MAX, Relaxed);
        let mut totals = Totals::default();
        for shard in 0..SHARDS {
            let shard = self.shard(shard);
            for wheel in shard.former.iter().chain([&shard.present]) {
                totals.entries += wheel.len() as u64;
                totals.next = [totals.next, wheel.until()].into_iter().flatten().min();
            }
            totals.elapsed = totals.elapsed.max(shard.present.elapsed());
        }
        // ORDERING: Relaxed, as above. A wake in between has been given.
        self.wake_before.store(totals.next.unwrap_or(u64::MAX), Relaxed);
        totals
    }

    /// Entries, and the bytes that they take.
    pub(crate) fn size(&self) -> (u64, u64) {
        let (mut entries, mut bytes) = (0, 0);
        for shard in 0..SHARDS {
            let shard = self.shard(shard);
            for wheel in shard.former.iter().chain([&shard.present]) {
                entries += wheel.len() as u64;
                bytes += wheel.bytes() as u64;
            }
        }
        (entries, bytes)
    }

    /// Begins to replace the wheels, unless that is under way.
    pub(crate) fn begin_walk(&self, now: u64) {
        let mut walk = self.lock_walk();
        if walk.is_some() {
            return;
        }
        for shard in 0..SHARDS {
            let mut shard = self.shard(shard);
            let former = std::mem::replace(&mut shard.present, Wheel::new(now.min(TIME_MAX)));
            shard.former = Some(former);
        }
        *walk = Some(0);
        // ORDERING: Relaxed, a number to compare others with.
        self.with_fields.store(0, Relaxed);
    }

    /// Enters that a part of an item of this hash expires at `due`.
    pub(crate) fn enter_part(&self, hash: u64, due: u64, now: u64) {
        // ORDERING: Relaxed; who must see it sees the part, by the item's own order or the gate's.
        if !self.have_fields.load(Relaxed) {
            self.have_fields.store(true, Relaxed);
        }
        self.enter(hash, due, now);
    }

    /// Whether a hash ever had a field that expires.
    pub(crate) fn have_fields(&self) -> bool {
        // ORDERING: Relaxed, as where it is set.
        self.have_fields.load(Relaxed)
    }

    /// Counts that the walk has met a hash with fields that expire.
    pub(crate) fn note_fields(&self) {
        // ORDERING: Relaxed, as where it begins.
        self.with_fields.fetch_add(1, Relaxed);
    }

    /// The numbers of items and of expiring ones, including hashes with expiring fields as counted by the
    /// last walk.
    pub(crate) fn with_fields(&self, (items, expiring): (u64, u64)) -> (u64, u64) {
        // ORDERING: Relaxed, as above.
        (items, expiring + self.with_fields.load(Relaxed))
    }

    /// Whether the wheels are being replaced.
    pub(crate) fn is_walking(&self) -> bool {
        self.lock_walk().is_some()
    }

    /// Has `go` do a part of the walk, from a cursor to the one that it returns, if there is a walk and no other
    /// session is at it. At the end the previous wheels go.
    pub(crate) fn walk(&self, go: impl FnOnce(u64) -> u64) {
        let Ok(mut walk) = self.walk.try_lock() else { return };
        let Some(cursor) = *walk else { return };
        let next = go(cursor);
        *walk = Some(next).filter(|next| *next != 0);
        if walk.is_none() {
            for shard in 0..SHARDS {
                let former = self.shard(shard).former.take();
                // Outside of the mutex.
                drop(former);
            }
        }
    }

    /// Removes all entries. Called by the holder of all stripes when there are no items. The result should
    /// be dropped when no session waits for that.
    #[must_use]
    pub(crate) fn clear(&self) -> [Shard; SHARDS] {
        std::array::from_fn(|shard| {
            let mut shard = self.shard(shard);
            let present = Wheel::new(shard.present.elapsed());
            std::mem::replace(&mut *shard, Shard { present, former: None })
        })
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Shard> {
        // Nothing within panics but for lack of memory, and an entry that is lost is one key that lives longer.
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_walk(&self) -> MutexGuard<'_, Option<u64>> {
        // A cursor is whole whatever panicked.
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hundreds of megabytes of entries were once freed by a clear while it held the store.
    #[test]
    fn who_forgets_all_frees_nothing() {
        let wheels = Wheels::new();
        (0..10_000).for_each(|hash| wheels.enter(hash, 1_000 + hash, 1));
        wheels.begin_walk(2);
        (0..500).for_each(|hash| wheels.enter(hash, 1_000 + hash, 2));
        let before = wheels.clear();
        assert_eq!(wheels.size().0, 0);
        let entries = |shard: &Shard| {
            shard.present.len() + shard.former.as_ref().map_or(0, |former| former.len())
        };
        assert_eq!(before.iter().map(entries).sum::<usize>(), 10_500);
    }
}
