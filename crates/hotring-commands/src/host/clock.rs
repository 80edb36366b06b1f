//! Wall-clock time, monotonic time and the time since the machine's boot. Most code gets the time as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

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

/// A clock that never goes back, and that also runs while the machine is suspended, unlike [`monotonic`]: for promises
/// to other machines, whose clocks run on meanwhile.
#[inline]
pub fn since_boot() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    // Elsewhere this one runs on, or nothing better is there.
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The kernel's uptime includes the time in suspend. Without any, `unshare --time --boottime 1000` tells the clocks
    /// apart.
    #[test]
    fn the_time_since_the_boot_includes_suspends() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let elapsed = since_boot().as_secs_f64() - uptime;
        assert!((-0.1..60.0).contains(&elapsed), "{elapsed} seconds after {uptime}");
    }
}
