//! Heartbeats by which a thread shows the watchdog (`hotring-server`'s `tasks/watchdog.rs`) that it is not stuck.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::host::clock;

/// Time between two beats.
pub const BEAT: Duration = Duration::from_millis(100);

/// One thread's beats.
#[derive(Debug, Default)]
pub struct Beats {
    /// Milliseconds from the server's start to the last beat; 0 before the first beat, while the thread sleeps because
    /// it has nothing to do, and after its end.
    last: AtomicU64,
    /// The server's log has reported that the thread is stuck.
    pub is_told: AtomicBool,
}

impl Beats {
    /// Records a beat: the thread's event loop is running.
    pub fn beat(&self, started: Instant) {
        // ORDERING: Relaxed, a figure that is compared with a time.
        self.last.store(since(started).max(1), Ordering::Relaxed);
    }

    /// Ends the beats, because the thread has ended or sleeps until there is work.
    pub fn end(&self) {
        self.last.store(0, Ordering::Relaxed);
    }

    /// The time since the last beat; zero if the thread has no beats.
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
