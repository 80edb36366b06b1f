//! The shared part of each thread: what it counts, and what others look at.

use std::sync::atomic::AtomicUsize;

use crate::observe::beats::Beats;
use crate::observe::counters::Counters;
use crate::state::hot_keys::HotKeys;
use crate::state::memcached::Counts as MemcachedCounts;

/// One I/O thread as others see it.
#[derive(Debug, Default)]
pub struct ThreadShared {
    /// What it counts.
    pub counters: Counters,
    /// What it counts of memcached's protocol.
    pub memcached: MemcachedCounts,
    /// Connections that it serves, for choosing the least loaded one.
    pub connections: AtomicUsize,
    /// That it still goes round.
    pub beats: Beats,
    /// The keys that it is asked for most.
    pub hot_keys: HotKeys,
}
