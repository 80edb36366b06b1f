//! The stash: a sorted map behind a lock, for items that found no free lane in any line of their
//! sequence.
//!
//! At ordinary load the stash is empty. Of keys that collide, all but the first 60 go here, and so do items without a
//! free lane in a table that must not grow. The lock is held for one operation on the map, which may allocate.

use crate::core::sync::spin::SpinMutex;
use crate::core::sync::{Arc, Ordering, TallyU64};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Bytes that count for an item in a stash: nodes of the map have 11 items, and are at least half full.
pub(super) const STASHED_BYTES: u64 = 48;

/// The number of items in all stashes of an index.
pub(super) type Count = Arc<TallyU64>;

/// The stash of one table, keyed by position and by the value that a lane would hold for the item.
pub(super) struct Stash {
    items: SpinMutex<BTreeMap<(u64, u64), State>>,
    count: Count,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// Like FROZEN of a lane: the item is being moved and must not change.
    Frozen,
}

/// The outcome of a change in the stash.
pub(super) enum Change {
    Done,
    /// The item is being moved; try again.
    Frozen,
    /// There is no such item.
    Absent,
}

/// The item is being moved by another session.
pub(super) struct IsFrozen;

impl Stash {
    /// An empty stash, whose items are counted.
    pub(super) fn new(count: Count) -> Self {
        Self { items: SpinMutex::default(), count }
    }

    /// The first item at a position that `is_it` accepts, which is called under the lock.
    pub(super) fn find(&self, position: u64, mut is_it: impl FnMut(u64) -> bool) -> Option<u64> {
        let items = self.items.lock();
        let mut values = items.range((position, 0)..=(position, u64::MAX)).map(|(key, _)| key.1);
        values.find(|value| is_it(*value))
    }

    /// Must be called under the LOCK of the position's home.
    pub(super) fn insert(&self, position: u64, value: u64, is_frozen: bool) {
        let state = if is_frozen { State::Frozen } else { State::Free };
        let mut items = self.items.lock();
        if items.insert((position, value), state).is_none() {
            // ORDERING: Relaxed, a count. It is changed under the lock, so it never falls below 0.
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Must be called under the lock, after the removal of an item.
    fn count_out(&self) {
        // ORDERING: Relaxed, a count.
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Replaces `old` by `new`, or removes it.
    pub(super) fn change(&self, position: u64, old: u64, new: Option<u64>) -> Change {
        let mut items = self.items.lock();
        match items.get(&(position, old)) {
            None => return Change::Absent,
            Some(State::Frozen) => return Change::Frozen,
            Some(State::Free) => {}
        }
        items.remove(&(position, old));
        match new {
            Some(new) => _ = items.insert((position, new), State::Free),
            None => self.count_out(),
        }
        Change::Done
    }

    /// Freezes the items of these positions, and hands each to `see`, under the lock.
    pub(super) fn freeze(&self, positions: RangeInclusive<u64>, mut see: impl FnMut(u64, u64)) {
        for ((position, value), state) in self.items.lock().range_mut(range(positions)) {
            *state = State::Frozen;
            see(*position, *value);
        }
    }

    /// Freezes the first item of these positions; returns its position and value, or why it must not move: it is
    /// frozen already.
    pub(super) fn freeze_first(
        &self,
        positions: RangeInclusive<u64>,
    ) -> Option<Result<(u64, u64), IsFrozen>> {
        let mut items = self.items.lock();
        let (key, state) = items.range_mut(range(positions)).next()?;
        if *state == State::Frozen {
            return Some(Err(IsFrozen));
        }
        *state = State::Frozen;
        Some(Ok(*key))
    }

    /// Unfreezes a copy, which is the only one left.
    pub(super) fn thaw(&self, position: u64, value: u64) {
        self.items.lock().insert((position, value), State::Free);
    }

    /// Removes an item whose copy is elsewhere.
    pub(super) fn remove(&self, position: u64, value: u64) {
        let mut items = self.items.lock();
        if items.remove(&(position, value)).is_some() {
            self.count_out();
        }
    }

    /// Calls `see` with each item of these positions, under the lock.
    pub(super) fn each(&self, positions: RangeInclusive<u64>, mut see: impl FnMut(u64)) {
        self.items.lock().range(range(positions)).for_each(|(key, _)| see(key.1));
    }

    pub(super) fn len(&self) -> usize {
        self.items.lock().len()
    }
}

fn range(positions: RangeInclusive<u64>) -> RangeInclusive<(u64, u64)> {
    (*positions.start(), 0)..=(*positions.end(), u64::MAX)
}
