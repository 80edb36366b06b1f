//! The word of a lane: which bits it has, and what they mean. No memory is touched here.
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
//! A line of fewer than 65,536 has its control bits in lane 0 and items in the other three: a quotient may
//! begin at bit 6 there. Byte strings would have expiry and eviction in the free bits of lane 0 to 3, at least one at
//! s = 16: a table of them must have more lines, or lane 0 less.

/// Bits of a hash, and of a word. Under loom a lane is one word for both halves, and hashes are shorter, so that the
/// smallest of tables has its control bits.
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

/// The lane has an item.
pub(super) const LIVE: u64 = 1;
/// The item is being moved: it must not change, and its lane must not be used again.
pub(super) const FROZEN: u64 = 1 << 1;

const PROBE_SHIFT: u32 = 2;
/// Which line of its home's sequence the item is in; 0 is the home line itself.
pub(super) const PROBE: u64 = 15 << PROBE_SHIFT;

/// Of lane 0: a thread inserts keys of this home, or moves the home.
pub(super) const LOCK: u64 = 1 << 6;

const REACH_SHIFT: u32 = 7;
/// Of lane 0: the highest PROBE that a key of this home may have.
pub(super) const REACH: u64 = 15 << REACH_SHIFT;

/// Of lane 0: keys of this home are here. Without it they are in the next table. Memory that went back to the
/// system reads as zeros, which says the same.
pub(super) const ACTIVE: u64 = 1 << 11;

/// How hot an item is, 0 to 3. In tables whose lanes all have items.
pub(super) const HEAT: u64 = 3 << 12;

/// Of lane 0: an item of this home may have moved outward, so that REACH must not become 0 again.
pub(super) const SPREAD: u64 = 1 << 14;

/// The bits of lane 0 that belong to the line and not to the item.
pub(super) const LINE: u64 = LOCK | REACH | ACTIVE | SPREAD;

/// The highest PROBE of a lane.
pub(super) const PROBE_MAX: u64 = if cfg!(loom) { 1 } else { 14 };
/// The REACH of a home that has keys in the stash.
pub(super) const STASHED: u64 = 15;

/// The least exponent of a table: its words have room for the control bits of an item.
pub(super) const EXPONENT_MIN: u32 = if cfg!(loom) { 1 } else { 6 };
/// From this exponent on lane 0 has an item as well.
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
