//! The part of each I/O thread's state that others read.

use std::sync::atomic::AtomicUsize;

use crate::observe::beats::Beats;
use crate::observe::counters::Counters;
use crate::state::hot_keys::HotKeys;
use crate::state::memcached::Counts as MemcachedCounts;

/// One I/O thread as others see it.
#[derive(Debug, Default)]
pub struct ThreadShared {
    /// Its counters.
    pub counters: Counters,
    /// Its counters of memcached's protocol.
    pub memcached: MemcachedCounts,
    /// Its number of connections, by which new connections are balanced.
    pub connections: AtomicUsize,
    /// Its heartbeat, for the watchdog.
    pub beats: Beats,
    /// The keys that its requests name most often.
    pub hot_keys: HotKeys,
}
