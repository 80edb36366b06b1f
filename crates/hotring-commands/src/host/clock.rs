//! Wall-clock time and monotonic time. Most code gets the time as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall-clock time since 1970; zero if the machine's clock is set before that.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Unix time in milliseconds, the unit of every expiry.
#[inline]
pub fn unix_ms() -> u64 {
    since_epoch().as_millis() as u64
}

/// The time since a Unix millisecond; zero if it is in the future.
pub fn since(unix_ms: u64) -> Duration {
    since_epoch().saturating_sub(Duration::from_millis(unix_ms))
}

/// The time until a Unix millisecond; zero if it is in the past.
pub fn until(unix_ms: u64) -> Duration {
    Duration::from_millis(unix_ms).saturating_sub(since_epoch())
}

/// Unix time as seconds and the microseconds within the second, for TIME.
pub(crate) fn unix_parts() -> (u64, u32) {
    let now = since_epoch();
    (now.as_secs(), now.subsec_micros())
}

/// A point in time that never goes back, for uptimes and deadlines.
pub fn monotonic() -> Instant {
    Instant::now()
}
