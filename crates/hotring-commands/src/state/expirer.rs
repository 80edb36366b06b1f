//! The shared state of the thread that removes expired keys (`hotring-server`'s `tasks/expire.rs`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use crate::observe::histogram::Histogram;

/// The state of the thread that other threads may read.
#[derive(Debug, Default)]
pub struct Expirer {
    pub thread: OnceLock<Thread>,
    /// The delays between expiry and removal of keys. Only the expirer's thread writes it.
    pub lag: Histogram,
    /// The longest delay in nanoseconds since the start or the last CONFIG RESETSTAT.
    lag_max: AtomicU64,
}

impl Expirer {
    /// Wakes the thread.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    pub fn note(&self, lag: Duration) {
        self.lag.note(lag);
        let nanoseconds = u64::try_from(lag.as_nanos()).unwrap_or(u64::MAX);
        // ORDERING: Relaxed, as every figure.
        self.lag_max.fetch_max(nanoseconds, Ordering::Relaxed);
    }

    pub fn lag_max(&self) -> Duration {
        // ORDERING: Relaxed, as above.
        Duration::from_nanos(self.lag_max.load(Ordering::Relaxed))
    }

    /// Resets the longest delay.
    pub(crate) fn reset(&self) {
        // ORDERING: Relaxed, as above.
        self.lag_max.store(0, Ordering::Relaxed);
    }
}
