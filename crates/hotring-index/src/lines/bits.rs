//! The layout of a lane's word: its bits and their meaning. Nothing here accesses memory.
//!
//! The high bits of a word are the *quotient* of its key's hash, as many as the number of lines leaves over
//! (`HASH_BITS - s` for `2^s` lines). The low bits are control bits:
//!
//! | bits | s = 6 to 15 | s = 16 | s = 20 | s = 24 |
//! | --- | --- | --- | --- | --- |
//! | 0 LIVE, 1 FROZEN, 2-5 PROBE | lanes 1 to 3 | all lanes | all lanes | all lanes |
//! | 6 LOCK, 7-10 REACH, 11 ACTIVE | lane 0, which has no item | lane 0 | lane 0 | lane 0 |
//! | 12-13 HEAT | none | all lanes | all lanes | all lanes |
//! | 14 SPREAD | lane 0 | lane 0 | lane 0 | lane 0 |
//! | free in lane 0 | all others | 15 | 15-19 | 15-23 |
//! | free in lanes 1 to 3 | none | 6-11, 14-15 | 6-11, 14-19 | 6-11, 14-23 |
//!
//! In a table of fewer than 65,536 lines, lane 0 has the control bits and the other three lanes have items: there a
//! quotient may begin at bit 6. Byte strings would need free bits in all four lanes for expiry and eviction. In a
//! table of 65,536 lines, lane 0 has only one: such a table would need more lines, or fewer control bits in lane 0.

/// Bits of a hash, and of a word. Under loom a lane is one word for both halves, and hashes are shorter, so that even
/// the smallest table has space for its control bits.
#[cfg(not(loom))]
pub(super) const HASH_BITS: u32 = 64;
#[cfg(not(loom))]
pub(super) const WORD_BITS: u32 = 64;
#[cfg(loom)]
pub(super) const HASH_BITS: u32 = 16;
#[cfg(loom)]
pub(super) const WORD_BITS: u32 = 32;

/// The highest hash.
pub(super) const HASH_MAX: u64 = u64::MAX >> (64 - HASH_BITS);

/// The lane holds an item.
pub(super) const LIVE: u64 = 1;
/// The item is being moved: it must not change, and its lane must not be used again.
pub(super) const FROZEN: u64 = 1 << 1;

const PROBE_SHIFT: u32 = 2;
/// The number of the item's line in its home's sequence; 0 is the home line itself.
pub(super) const PROBE: u64 = 15 << PROBE_SHIFT;

/// Lane 0 only: a thread inserts keys of this home, or moves the home.
pub(super) const LOCK: u64 = 1 << 6;

const REACH_SHIFT: u32 = 7;
/// Lane 0 only: the highest PROBE that a key of this home may have.
pub(super) const REACH: u64 = 15 << REACH_SHIFT;

/// Lane 0 only: the keys of this home are in this table. If the bit is clear they are in the next table. Memory that
/// was given back to the system reads as zeros, which means the same.
pub(super) const ACTIVE: u64 = 1 << 11;

/// The heat of an item, 0 to 3. Only in tables in which all lanes hold items.
pub(super) const HEAT: u64 = 3 << 12;

/// Lane 0 only: an item of this home may have moved outward, so that REACH must not become 0 again.
pub(super) const SPREAD: u64 = 1 << 14;

/// The bits of lane 0 that belong to the line and not to the item.
pub(super) const LINE: u64 = LOCK | REACH | ACTIVE | SPREAD;

/// The highest PROBE of a lane.
pub(super) const PROBE_MAX: u64 = if cfg!(loom) { 1 } else { 14 };
/// The REACH of a home that has keys in the stash.
pub(super) const STASHED: u64 = 15;

/// The least exponent of a table: its words have space for the control bits of an item.
pub(super) const EXPONENT_MIN: u32 = if cfg!(loom) { 1 } else { 6 };
/// From this exponent on, lane 0 holds an item as well.
pub(super) const EXPONENT_FULL: u32 = if cfg!(loom) { 2 } else { 16 };

/// The PROBE bits for a number.
#[inline(always)]
pub(super) const fn probe(number: u64) -> u64 {
    number << PROBE_SHIFT
}

/// The number in the PROBE bits.
#[inline(always)]
pub(super) const fn probe_of(word: u64) -> u64 {
    (word & PROBE) >> PROBE_SHIFT
}

/// The number in the REACH bits.
#[inline(always)]
pub(super) const fn reach_of(control: u64) -> u64 {
    (control & REACH) >> REACH_SHIFT
}

/// A control word with other REACH bits.
#[inline(always)]
pub(super) const fn with_reach(control: u64, reach: u64) -> u64 {
    control & !REACH | reach << REACH_SHIFT
}
