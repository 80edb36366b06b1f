//! How `maxmemory` is divided between the parts of a server.

use hotring_store::EvictionPolicy;

use super::Config;

/// Free memory between items counts for the limit at once up to one part in this many of it. The process may exceed
/// the limit by this part, and a chunk.
pub const WASTE_COUNTED: u64 = 32;
/// Under policies that evict, the spare memory may be larger for moments: one part in this many.
const SPARE_PARTS: u64 = 16;

/// Below this limit more free memory between items is allowed: each class of items has begun a piece of
/// memory, and together those would be most of the limit.
pub const SMALL: u64 = 24 << 20;
const SMALL_SPARE: u64 = 8 << 20;

/// Bytes that may be held beyond `maxmemory` because they lie free between items.
pub(crate) fn spare(config: &Config) -> u64 {
    let max = config.memory_max as u64;
    match config.eviction.policy {
        _ if max == 0 => u64::MAX,
        _ if max < SMALL => SMALL_SPARE,
        // Beyond it a chunk may be begun.
        EvictionPolicy::NoEviction => max / WASTE_COUNTED / 2,
        _ => max / SPARE_PARTS,
    }
}

/// The share of `maxmemory` for the scripts of all threads, and the same again for the table of CLIENT TRACKING.
pub(crate) fn part_of(memory_max: usize) -> usize {
    if memory_max == 0 { usize::MAX } else { (memory_max / 8).max(1 << 20) }
}

/// The share for messages that wait to be fetched. It is smaller: they come quickly, and in many pieces.
pub(crate) fn messages_of(memory_max: usize) -> usize {
    part_of(memory_max) / 2
}
