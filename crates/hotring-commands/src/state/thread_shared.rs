//! The part of each I/O thread's state that other threads may read.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use crate::observe::beats::Beats;
use crate::observe::counters::Counters;
use crate::state::hot_keys::HotKeys;
use crate::state::memcached::Counts as MemcachedCounts;
use crate::state::slot_accesses::SlotAccesses;

/// The state of one I/O thread that other threads may read.
#[derive(Debug, Default)]
pub struct ThreadShared {
    /// The thread's counters.
    pub counters: Counters,
    /// The thread's counters of memcached's protocol.
    pub memcached: MemcachedCounts,
    /// The number of connections, by which the acceptor balances new connections.
    pub connections: AtomicUsize,
    /// The thread's heartbeat, for the watchdog.
    pub beats: Arc<Beats>,
    /// The keys that the thread's requests name most often.
    pub hot_keys: HotKeys,
    /// How often each slot is used, on a node of a cluster.
    pub(crate) slot_accesses: SlotAccesses,
}
