//! A rate limit for one kind of line in the server's log.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Time between two lines of one kind, in milliseconds.
const INTERVAL_MS: u64 = 10_000;

/// Allows one line per interval, regardless of the number of threads that ask.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Unix milliseconds of the last line, 0 before the first.
    last: AtomicU64,
}

impl Throttle {
    /// Whether the caller must write the line now.
    pub(crate) fn allows(&self, now: u64) -> bool {
        // ORDERING: Relaxed, only decides which of several threads writes the line.
        let before = self.last.load(Relaxed);
        // The absolute difference, as the clock may be set back.
        let due = before == 0 || now.abs_diff(before) >= INTERVAL_MS;
        due && self.last.compare_exchange(before, now, Relaxed, Relaxed).is_ok()
    }
}
