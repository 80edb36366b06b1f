//! Keys that found no free lane in any line of their home's sequence: a sorted map behind a lock.
//!
//! A table at ordinary load has none. A flood of keys with neighbouring hashes, chosen by a client that knows the
//! seed, puts all but the first 60 of a home here, which takes a lock and a logarithm instead of growth without end.
//!
//! The lock is held for one operation on the map, which may allocate. Operations on other homes do not notice.

use crate::core::sync::spin::SpinMutex;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The stash of one table, by hash.
#[derive(Default)]
pub(super) struct Stash {
    items: SpinMutex<BTreeMap<u64, Stashed>>,
}

/// A value in the stash.
#[derive(Clone, Copy)]
pub(super) struct Stashed {
    pub(super) value: u64,
    /// As FROZEN of a lane: it is being moved and must not change.
    pub(super) is_frozen: bool,
}

/// What a write in the stash came to.
pub(super) enum Change<R> {
    /// It was made.
    Done(R),
    /// The item is being moved; try again.
    Frozen,
    /// There is no such item.
    Absent,
}

/// What becomes of an item.
pub(super) enum Then {
    Keep,
    Write(u64),
    Remove,
}

impl Stash {
    pub(super) fn get(&self, hash: u64) -> Option<u64> {
        self.items.lock().get(&hash).map(|item| item.value)
    }

    /// Only under LOCK of the hash's home, which has no such item anywhere.
    pub(super) fn insert(&self, hash: u64, item: Stashed) {
        self.items.lock().insert(hash, item);
    }

    /// Changes an item if it is there and not frozen. `decide` gets its value.
    pub(super) fn change<R>(&self, hash: u64, decide: impl FnOnce(u64) -> (Then, R)) -> Change<R> {
        let mut items = self.items.lock();
        let Some(item) = items.get_mut(&hash) else { return Change::Absent };
        if item.is_frozen {
            return Change::Frozen;
        }
        let (then, result) = decide(item.value);
        match then {
            Then::Keep => {}
            Then::Write(value) => item.value = value,
            Then::Remove => _ = items.remove(&hash),
        }
        Change::Done(result)
    }

    /// Lets a copy change, now that it is the only one. False: it is not here.
    pub(super) fn thaw(&self, hash: u64) -> bool {
        let mut items = self.items.lock();
        let item = items.get_mut(&hash);
        item.map(|item| item.is_frozen = false).is_some()
    }

    /// Freezes the first item of these hashes; returns it as it was.
    pub(super) fn freeze(&self, hashes: RangeInclusive<u64>) -> Option<(u64, Stashed)> {
        let mut items = self.items.lock();
        let (hash, item) = items.range_mut(hashes).next()?;
        let before = *item;
        item.is_frozen = true;
        Some((*hash, before))
    }

    /// The first item of these hashes.
    pub(super) fn first(&self, hashes: RangeInclusive<u64>) -> Option<(u64, u64)> {
        let items = self.items.lock();
        items.range(hashes).next().map(|(hash, item)| (*hash, item.value))
    }

    /// Calls `see` with each item of these hashes, under the lock.
    pub(super) fn each(&self, hashes: RangeInclusive<u64>, mut see: impl FnMut(u64, u64)) {
        self.items.lock().range(hashes).for_each(|(hash, item)| see(*hash, item.value));
    }

    /// Removes an item, frozen or not.
    pub(super) fn remove(&self, hash: u64) {
        self.items.lock().remove(&hash);
    }

    pub(super) fn len(&self) -> usize {
        self.items.lock().len()
    }
}
