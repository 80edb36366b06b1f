//! Counters that all threads add to.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds, and returns the value before.
    pub(crate) fn add(&self, n: u64) -> u64 {
        // ORDERING: Relaxed, a number for people, and for clients a name.
        self.0.fetch_add(n, Ordering::Relaxed)
    }

    pub(crate) fn value(&self) -> u64 {
        // ORDERING: Relaxed, a number for people.
        self.0.load(Ordering::Relaxed)
    }
}
