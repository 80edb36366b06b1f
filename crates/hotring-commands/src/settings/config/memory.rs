//! The division of `maxmemory` between the parts of a server.

use hotring_store::EvictionPolicy;

use super::Config;

/// Free memory between items counts towards the limit at once, up to the limit divided by this number. The process may
/// exceed the limit by that part plus one chunk.
pub const WASTE_COUNTED: u64 = 32;
/// Under policies that evict, the spare memory may briefly be larger: the limit divided by this number.
const SPARE_PARTS: u64 = 16;

/// Below this limit, more free memory between items is allowed: each size class has begun a piece of memory, and
/// together these pieces would be most of the limit.
pub const SMALL: u64 = 24 << 20;
const SMALL_SPARE: u64 = 8 << 20;

/// The number of free bytes between items that may be held beyond `maxmemory`.
pub(crate) fn spare(config: &Config) -> u64 {
    let max = config.memory_max as u64;
    match config.eviction.policy {
        _ if max == 0 => u64::MAX,
        _ if max < SMALL => SMALL_SPARE,
        // Half, because one more chunk may be begun beyond the limit.
        EvictionPolicy::NoEviction => max / WASTE_COUNTED / 2,
        _ => max / SPARE_PARTS,
    }
}

/// The share of `maxmemory` for the scripts of all threads. The table of CLIENT TRACKING gets a share of the same size.
pub(crate) fn part_of(memory_max: usize) -> usize {
    if memory_max == 0 { usize::MAX } else { (memory_max / 8).max(1 << 20) }
}

/// The share of `maxmemory` for messages that wait to be sent. The share is smaller because such messages arrive
/// quickly, and in many pieces.
pub(crate) fn messages_of(memory_max: usize) -> usize {
    part_of(memory_max) / 2
}
