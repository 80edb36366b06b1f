//! Counters of one thread, written by that thread only and summed when somebody asks.
//!
//! A counter is an atomic only so that another thread may read it: the owner adds with a plain load
//! and store, which costs what an ordinary addition costs and shares no cache line.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread calls this: concurrent additions would be lost.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // ORDERING: Relaxed, statistics only; no other memory is read through this value.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value as it is now.
    pub(crate) fn value(&self) -> u64 {
        // ORDERING: Relaxed, statistics only.
        self.0.load(Ordering::Relaxed)
    }
}

/// What one thread counts. Aligned so that two threads' counters never share a cache line pair.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    /// Commands executed, failed ones included.
    pub commands: Counter,
    /// Commands that answered with an error.
    pub errors: Counter,
    /// Keys that a read found.
    pub keyspace_hits: Counter,
    /// Keys that a read did not find.
    pub keyspace_misses: Counter,
    /// Bytes received from clients.
    pub input_bytes: Counter,
    /// Bytes sent to clients.
    pub output_bytes: Counter,
    /// Read system calls that brought data.
    pub reads: Counter,
    /// Write system calls.
    pub writes: Counter,
    /// Connections closed because a request was too large.
    pub input_limit_closed: Counter,
    /// Connections closed because too much waited to be sent.
    pub output_limit_closed: Counter,
    /// Commands refused because removed memory waits for a stalled thread.
    pub rejected_stalled: Counter,
    /// Commands that met a damaged item.
    pub damaged_reads: Counter,
    /// Expired items that the background task removed. Not those that a command met and removed or
    /// replaced: the index does that without telling.
    pub expired_keys: Counter,
}
