//! The rate limit of the lines that scripts write to the server's log.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The rate limit of the lines that scripts write to the server's log, and the count of dropped lines.
#[derive(Debug, Default)]
pub struct Lines(Mutex<Second>);

#[derive(Debug, Default)]
struct Second {
    began: Option<Instant>,
    lines: u64,
    left_out: u64,
}

impl Lines {
    /// Some if another line is allowed, with at most `max` per second (0: no limit). The value is the number of lines
    /// that were dropped since the last allowed one.
    pub(crate) fn next(&self, now: Instant, max: u64) -> Option<u64> {
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |began: Instant| now.duration_since(began) >= Duration::from_secs(1);
        if second.began.is_none_or(is_over) {
            second.began = Some(now);
            second.lines = 0;
        }
        if max > 0 && second.lines >= max {
            second.left_out += 1;
            return None;
        }
        second.lines += 1;
        Some(std::mem::take(&mut second.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script once could fill the disk with lines of any length.
    #[test]
    fn the_rate_of_log_lines_is_limited() {
        let (lines, start) = (Lines::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let told: Vec<_> = (0..5).map(|i| lines.next(at(i), 2)).collect();
        assert_eq!(told, [Some(0), Some(0), None, None, None]);
        assert_eq!(lines.next(at(1000), 2), Some(3));
        assert_eq!(lines.next(at(1001), 2), Some(0));
        assert_eq!(lines.next(at(1002), 2), None);
        assert_eq!(lines.next(at(1002), 0), Some(1), "without a limit");
    }
}
