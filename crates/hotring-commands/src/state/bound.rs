//! Memory of the process that none of its parts counts. `hotring-server`'s `tasks/bound.rs` measures it and keeps the
//! process within `maxmemory`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

/// The latest measurements.
#[derive(Default)]
pub struct Found {
    /// Bytes that no part of the process counts.
    pub unexplained: AtomicU64,
    /// Free bytes between counted items.
    pub waste: AtomicU64,
    pub thread: OnceLock<Thread>,
}

// ORDERING: Relaxed for both, figures.
impl Found {
    pub(crate) fn unexplained(&self) -> u64 {
        self.unexplained.load(Ordering::Relaxed)
    }

    pub(crate) fn waste(&self) -> u64 {
        self.waste.load(Ordering::Relaxed)
    }

    /// Makes the thread check whether the server stops.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
