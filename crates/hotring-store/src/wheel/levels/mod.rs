//! A hierarchical timing wheel (Varghese and Lauck, SOSP 1987, scheme 7): entries of one word each, in 8
//! levels of 64 slots, by the millisecond in which they fire.
//!
//! # Picture
//! ```text
//!   time   |..........| l7 | l6 | l5 | l4 | l3 | l2 | l1 | l0 |     8 groups of 6 bits
//!
//!   level 0   64 slots of 1 ms         those due in the present 64 ms
//!   level 1   64 slots of 64 ms        those due in the present 4,096 ms, but not in this 64
//!   ...
//!   level 7   64 slots of 2^42 ms      those due in the present 2^48 ms (8,900 years)
//!
//!   entry  | 16 bits of its time | 48 bits of its hash |
//! ```
//! An entry is on the level of the highest group in which its time differs from the present time. When the present time
//! reaches a slot above level 0, the slot's entries move down, each to its new level. Entries move only then, so each
//! moves at most once per level.
//!
//! # The precision of an entry
//!
//! The slot determines the groups from its level on, and the entry's 16 bits the groups below: exactly up to level 2,
//! which is up to 4 minutes ahead. Above that the 16 bits are the highest ones and the time is rounded down, on level 4
//! (12 days) to 256 ms. So an entry may fire early by a small fraction of its time, but never late. The caller then
//! looks at the item and enters it again.
//!
//! # Invariants
//! * **W1** An entry on level L differs from `elapsed` in the group L of its time, which is later, and in no group
//!   above.
//! * **W2** An entry that was entered for a time t fires at the first step to a time from max(t, elapsed + 1) on, or
//!   before; but one for a time beyond this 2^48 ms fires at their end.
//! * **W3** The rest of the current slot is in `open`, on the level where the slot was.

use std::mem::size_of;

use super::chunks::Chunks;

/// Bits of a group.
const BITS: u32 = 6;
/// Slots of a level.
const SLOTS: usize = 1 << BITS;
/// Number of groups, and of levels.
const LEVELS: usize = 8;
/// Number of times that the levels distinguish.
const SPAN: u64 = 1 << (BITS * LEVELS as u32);
/// Bits of a hash.
const HASH_BITS: u32 = 48;
const HASH_MASK: u64 = (1 << HASH_BITS) - 1;
/// Bits of its time that an entry stores.
const TIME_BITS: u32 = 64 - HASH_BITS;

/// A timing wheel.
pub(super) struct Wheel {
    /// The present time of the wheel: everything due until then has been taken.
    elapsed: u64,
    levels: [Level; LEVELS],
    open: Chunks,
    open_level: usize,
    len: usize,
}

#[derive(Default)]
struct Level {
    /// Bit s: slot s has entries.
    occupied: u64,
    /// Empty before the first entry, then all slots.
    slots: Vec<Chunks>,
}

/// The result of one step of a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// An entry with this hash is due.
    Due(u64),
    /// Entries have moved.
    Moved,
    /// There is nothing to do before [`Wheel::until`].
    Done,
}

impl Wheel {
    pub(super) fn new(now: u64) -> Wheel {
        Wheel {
            elapsed: now,
            levels: Default::default(),
            open: Chunks::default(),
            open_level: 0,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn elapsed(&self) -> u64 {
        self.elapsed
    }

    /// Heap memory in bytes.
    pub(super) fn bytes(&self) -> usize {
        let slots = self.levels.iter().flat_map(|level| &level.slots);
        slots.map(|slot| size_of::<Chunks>() + slot.bytes()).sum::<usize>() + self.open.bytes()
    }

    /// Enters a hash, to fire at the time `due`.
    pub(super) fn enter(&mut self, hash: u64, due: u64, now: u64) {
        if self.len == 0 {
            // An empty wheel can advance to the present at once.
            self.elapsed = self.elapsed.max(now);
        }
        self.place(hash, due);
        self.len += 1;
    }

    fn place(&mut self, hash: u64, due: u64) {
        // At the end of the span no later time is left, so `max` applies again.
        let end = self.elapsed | (SPAN - 1);
        let due = due.max(self.elapsed + 1).min(end).max(self.elapsed + 1);
        let differs = (due ^ self.elapsed) & (SPAN - 1);
        let level = (63 - differs.max(1).leading_zeros()) / BITS;
        let below = due & ((1 << (BITS * level)) - 1);
        let word = (below >> dropped(level)) << HASH_BITS | (hash & HASH_MASK);
        let slot = (due >> (BITS * level)) as usize % SLOTS;
        let level = &mut self.levels[level as usize];
        if level.slots.is_empty() {
            level.slots.resize_with(SLOTS, Chunks::default);
        }
        level.occupied |= 1 << slot;
        level.slots[slot].push(word);
    }

    /// The time before which there is nothing to do; None if there are no entries.
    pub(super) fn until(&self) -> Option<u64> {
        if self.open.is_empty() {
            self.next().map(|(_, _, start)| start)
        } else {
            Some(self.elapsed)
        }
    }

    /// Takes one step towards the time `now`: a small amount of work.
    pub(super) fn step(&mut self, now: u64) -> Step {
        if let Some(word) = self.open.pop() {
            return self.take(word, now);
        }
        match self.next() {
            Some((level, slot, start)) if start <= now => {
                self.elapsed = start;
                let level_of = &mut self.levels[level];
                level_of.occupied &= !(1 << slot);
                self.open = std::mem::take(&mut level_of.slots[slot]);
                self.open_level = level;
                Step::Moved
            }
            _ => {
                self.elapsed = self.elapsed.max(now);
                Step::Done
            }
        }
    }

    /// Handles an entry whose slot has come: it is due, or moves down.
    fn take(&mut self, word: u64, now: u64) -> Step {
        let hash = word & HASH_MASK;
        // The slot begins at `elapsed`, with zeros in the groups below.
        let due = self.elapsed + ((word >> HASH_BITS) << dropped(self.open_level as u32));
        if due <= now {
            self.len -= 1;
            return Step::Due(hash);
        }
        self.place(hash, due);
        Step::Moved
    }

    /// The next slot with entries: its level, its number, and its begin.
    fn next(&self) -> Option<(usize, usize, u64)> {
        // All entries of a level are due before those of higher levels (W1).
        let level = self.levels.iter().position(|level| level.occupied != 0)?;
        let slot = self.levels[level].occupied.trailing_zeros() as usize;
        let shift = BITS * level as u32;
        let above = self.elapsed >> shift >> BITS << BITS;
        let mut start = (above | slot as u64) << shift;
        if start <= self.elapsed {
            // Only at the end of the span: the slot is in the next one.
            start += SPAN;
        }
        Some((level, slot, start))
    }
}

/// Number of low bits of a time that an entry on this level does not store.
fn dropped(level: u32) -> u32 {
    (BITS * level).saturating_sub(TIME_BITS)
}

#[cfg(test)]
mod tests;
