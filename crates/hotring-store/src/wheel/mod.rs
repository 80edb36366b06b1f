//! The timing wheel of a database: the expiry times of items, by hash, so that expired items are found without a scan.
//!
//! # Picture
//! ```text
//!   shards[hash % 16]   a mutex: the present wheel, and the previous one while it is being replaced
//!       ^ a write that gives an item an expiry enters its hash, once it has taken effect
//!       | the expirer takes due entries, finds the item by its hash, and removes it if it has expired
//! ```
//! An entry is a hash and a time ([`levels`]), without a reference to an item. If the item is removed, replaced or gets
//! another expiry, the entry stays. So a session that takes an entry must look at the present item with that hash.
//!
//! # Invariants
//! * **E1** Each item that expires at `e`, or whose hash has a field that does, has an entry that fires at `e` or
//!   before, or will have as soon as a running step of another session is over.
//! * **E2** The number of entries is bounded by `STALE_MIN`, twice the number of expiring items (and hashes with such
//!   fields, as counted by the last walk), a quarter of all items, and the entries made while a wheel is replaced.
//!
//! # Why no item is forgotten (E1)
//!
//! A write that gives an item the expiry `e` enters it afterwards, unless its decision saw an expiry that is not later:
//! for that there is an entry already (E1), or soon will be. The index carries a decision out only if nothing has
//! changed in between. The expirer looks at the item after taking its entry, and enters it again with the item's
//! present expiry, or removes the item by a decision of the same kind. An expiry that is set without an entry from then
//! on is later than the expiry that was seen, which is entered.
//!
//! # Removal of stale entries (E2)
//!
//! A key that is set and removed again and again leaves entries whose times may be far ahead. If there are too many,
//! new wheels take all new entries, and a walk over all items enters the expiring ones. The previous wheels keep firing
//! until the walk has ended, and are dropped then. The walk visits every item that is present throughout, and the
//! storing session has entered any other; so E1 holds for the new wheels alone. An entry that fires early in an old
//! wheel is entered there again. The wheels are also replaced if the clock has gone back by much, because a wheel
//! cannot go back.
//!
//! # Wake-ups
//!
//! `wake_before` is a time: a session that makes an earlier entry must wake the expirer. The expirer sets it before it
//! asks the shards, one by one under their mutexes, for their next due times. So each new entry either is seen by the
//! expirer, or its session sees the new `wake_before`.

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

/// Number of shards, selected by the lowest bits of the hash.
pub(crate) const SHARDS: usize = 16;
/// Number of stale entries that is always allowed.
const STALE_MIN: u64 = 65_536;
/// Milliseconds by which a clock may go back without a replacement of the wheels; entries wait for it.
const BACK_MAX: u64 = 1_000;
/// The latest time; the index has no later expiries.
const TIME_MAX: u64 = 1 << 62;

/// The wheels of one database.
pub(crate) struct Wheels {
    shards: [Lines<Mutex<Shard>>; SHARDS],
    /// See "Wake-ups".
    wake_before: AtomicU64,
    waker: OnceLock<Waker>,
    /// The shard that the next step begins with, so that no shard is always last.
    turn: AtomicU64,
    /// The position of the walk, if there is one.
    walk: Mutex<Option<u64>>,
    /// Number of hashes with expiring fields that the walk has found: the last one, or the present one so far.
    with_fields: AtomicU64,
    /// Whether a hash ever had a field that expires.
    have_fields: AtomicBool,
    /// Removed keys that have not been reported.
    pub(crate) expired: Expired,
}

/// The present wheel of a shard, and the previous one while it is being replaced.
pub(crate) struct Shard {
    present: Wheel,
    former: Option<Wheel>,
}

/// A due entry that was taken from a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Taken {
    pub(crate) hash: u64,
    is_former: bool,
}

/// The state of all shards.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    /// A lower bound of the next due time.
    pub(crate) next: Option<u64>,
    /// The latest present time of the wheels.
    elapsed: u64,
}

impl Totals {
    /// Whether the wheels must be replaced: there are too many entries for these numbers of items and of expiring
    /// items, or the clock has gone back.
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

    /// Enters the expiry of an item with this hash. The write that gives it the expiry must have taken effect.
    pub(crate) fn enter(&self, hash: u64, due: u64, now: u64) {
        self.shard(hash as usize % SHARDS).present.enter(hash, due, now.min(TIME_MAX));
        // ORDERING: Relaxed; the shard's mutex orders it, see "Wake-ups".
        if due < self.wake_before.load(Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // ORDERING: Relaxed, as above; the swap lets only one thread wake the expirer.
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

    /// Enters an entry again whose item is not due yet.
    pub(crate) fn enter_again(&self, taken: Taken, due: u64, now: u64) {
        let mut shard = self.shard(taken.hash as usize % SHARDS);
        if !taken.is_former {
            shard.present.enter(taken.hash, due, now.min(TIME_MAX));
        } else if let Some(former) = &mut shard.former {
            former.enter(taken.hash, due, now.min(TIME_MAX));
        }
        // Without the previous wheel, the item has its entry in the present one.
    }

    /// The shard that a step begins with.
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

    /// The next due time, and the number of entries. A session that makes an earlier entry from now on wakes the
    /// expirer.
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
        // ORDERING: Relaxed, as above. A wake-up in between has been delivered.
        self.wake_before.store(totals.next.unwrap_or(u64::MAX), Relaxed);
        totals
    }

    /// Number of entries, and their memory in bytes.
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

    /// Begins to replace the wheels, unless a replacement is in progress.
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
        // ORDERING: Relaxed, a statistic.
        self.with_fields.store(0, Relaxed);
    }

    /// Replaces all entries by those that the walk will make, which begins now. The caller must hold all keys, so that
    /// every later write makes its own. The result should be dropped when no session waits.
    #[must_use]
    pub(crate) fn rebuild(&self, now: u64) -> [Shard; SHARDS] {
        let mut walk = self.lock_walk();
        *walk = Some(0);
        // ORDERING: Relaxed, a statistic.
        self.with_fields.store(0, Relaxed);
        let before = std::array::from_fn(|shard| {
            let fresh = Shard { present: Wheel::new(now.min(TIME_MAX)), former: None };
            std::mem::replace(&mut *self.shard(shard), fresh)
        });
        drop(walk);
        self.wake();
        before
    }

    /// Enters the expiry of a part of an item with this hash.
    pub(crate) fn enter_part(&self, hash: u64, due: u64, now: u64) {
        // ORDERING: Relaxed; a session that must see it has seen the part, through the item's own order or the gate's.
        if !self.have_fields.load(Relaxed) {
            self.have_fields.store(true, Relaxed);
        }
        self.enter(hash, due, now);
    }

    /// Whether a hash ever had a field that expires.
    pub(crate) fn have_fields(&self) -> bool {
        // ORDERING: Relaxed, as in `enter_part`.
        self.have_fields.load(Relaxed)
    }

    /// Counts a hash with expiring fields that the walk has found.
    pub(crate) fn note_fields(&self) {
        // ORDERING: Relaxed, as in `begin_walk`.
        self.with_fields.fetch_add(1, Relaxed);
    }

    /// The numbers of items and of expiring ones, including hashes with expiring fields as counted by the
    /// last walk.
    pub(crate) fn with_fields(&self, (items, expiring): (u64, u64)) -> (u64, u64) {
        // ORDERING: Relaxed, as above.
        (items, expiring + self.with_fields.load(Relaxed))
    }

    /// Whether a replacement of the wheels is in progress.
    pub(crate) fn is_walking(&self) -> bool {
        self.lock_walk().is_some()
    }

    /// Lets `go` do a part of the walk, from a cursor to the cursor that it returns, if there is a walk and no other
    /// session works on it. Drops the previous wheels at the end.
    pub(crate) fn walk(&self, go: impl FnOnce(u64) -> u64) {
        let Ok(mut walk) = self.walk.try_lock() else { return };
        let Some(cursor) = *walk else { return };
        let next = go(cursor);
        *walk = Some(next).filter(|next| *next != 0);
        if walk.is_none() {
            for shard in 0..SHARDS {
                let former = self.shard(shard).former.take();
                // Dropped outside of the mutex.
                drop(former);
            }
        }
    }

    /// Removes all entries. The caller must hold all keys, and there must be no items. The result should be dropped
    /// when no session waits.
    #[must_use]
    pub(crate) fn clear(&self) -> [Shard; SHARDS] {
        std::array::from_fn(|shard| {
            let mut shard = self.shard(shard);
            let present = Wheel::new(shard.present.elapsed());
            std::mem::replace(&mut *shard, Shard { present, former: None })
        })
    }

    fn shard(&self, shard: usize) -> MutexGuard<'_, Shard> {
        // Only a lack of memory can panic within the lock, and a lost entry only means that one key lives longer.
        self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_walk(&self) -> MutexGuard<'_, Option<u64>> {
        // A panic leaves a valid cursor.
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
