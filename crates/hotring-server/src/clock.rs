//! The only reader of time in the project: everything else gets the time as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time since 1970; zero if the machine's clock is set before that.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Unix time in milliseconds, the unit of every expiry.
#[inline]
pub(crate) fn unix_ms() -> u64 {
    since_epoch().as_millis() as u64
}

/// Unix time as seconds and the microseconds within the second, for TIME.
pub(crate) fn unix_parts() -> (u64, u32) {
    let now = since_epoch();
    (now.as_secs(), now.subsec_micros())
}

/// A point in time that never goes back, for uptimes and deadlines.
pub(crate) fn monotonic() -> Instant {
    Instant::now()
}
