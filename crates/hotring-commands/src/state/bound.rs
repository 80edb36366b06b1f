//! Memory of the process that no component accounts for. `hotring-server`'s `tasks/bound.rs` measures this memory and
//! keeps the process within `maxmemory`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

/// The latest measurements.
#[derive(Default)]
pub struct Found {
    /// Bytes that no component accounts for.
    pub unexplained: AtomicU64,
    /// Free bytes between counted items.
    pub waste: AtomicU64,
    /// Used memory at the first measurement.
    first: OnceLock<u64>,
    /// The highest used memory at any measurement.
    peak: AtomicU64,
    pub thread: OnceLock<Thread>,
}

// ORDERING: Relaxed for all, figures.
impl Found {
    pub(crate) fn unexplained(&self) -> u64 {
        self.unexplained.load(Ordering::Relaxed)
    }

    pub(crate) fn waste(&self) -> u64 {
        self.waste.load(Ordering::Relaxed)
    }

    /// Records the memory that is used now.
    pub fn note_used(&self, bytes: u64) {
        let _ = self.first.set(bytes);
        self.peak.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Records a measurement, and returns the first and the highest one.
    pub(crate) fn first_and_peak(&self, bytes: u64) -> (u64, u64) {
        self.note_used(bytes);
        let first = self.first.get().copied().unwrap_or(bytes);
        (first, self.peak.load(Ordering::Relaxed))
    }

    /// Makes the thread check whether the server stops.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
