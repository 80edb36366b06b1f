//! What is known of the memory that the process takes beyond what its parts count; `hotring-server`'s `tasks/bound.rs`
//! keeps it within `maxmemory`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

/// What is found, for others to tell.
#[derive(Default)]
pub struct Found {
    /// Bytes that the process takes beyond what counts otherwise.
    pub unexplained: AtomicU64,
    /// Bytes free between items that count.
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

    /// Has the thread look whether the server stops.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}
