//! Beats by which a thread shows that it is not stuck (`hotring-server`'s `tasks/watchdog.rs`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::host::clock;

/// Time between two beats.
pub const BEAT: Duration = Duration::from_millis(100);

/// One thread's beats.
#[derive(Debug, Default)]
pub struct Beats {
    /// Milliseconds from the server's start to the last one; 0 before the first, and behind the last.
    last: AtomicU64,
    /// The log says that there are none.
    pub is_told: AtomicBool,
}

impl Beats {
    /// The thread goes round.
    pub fn beat(&self, started: Instant) {
        // ORDERING: Relaxed, a figure that is compared with a time.
        self.last.store(since(started).max(1), Ordering::Relaxed);
    }

    /// The thread has ended.
    pub fn end(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// How long ago the last one was.
    pub fn age(&self, started: Instant) -> Duration {
        // ORDERING: Relaxed, as in `beat`.
        match self.last.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            last => Duration::from_millis(since(started).saturating_sub(last)),
        }
    }
}

fn since(started: Instant) -> u64 {
    clock::monotonic().duration_since(started).as_millis() as u64
}
