//! The limit of removed memory that readers may still see (*limbo*): when writes are refused, and which
//! session is blamed.
//!
//! A pinned session keeps everything that is removed after its pin (`reclaim/`), and cannot be forced to
//! leave. So the growth caused by the other sessions is bounded instead: while more than `limbo_max` bytes
//! wait, [`Session::admit`](crate::Session::admit) refuses.
//!
//! * Limbo is weighed at each collection, that is, once per 256 removals or 256 KiB of a session. The
//!   result is published next to the epoch, which every pin reads anyway, so `admit` costs one load.
//! * Above half of the limit a session hands its unfreed items to all sessions, so that no write waits for
//!   a session that has gone idle; and readers help to free.
//! * Above the limit `admit` collects first. It refuses only if nothing was freed, a pinned session stops
//!   the epoch, and limbo has grown by a sixteenth of the limit since the epoch last moved. The last
//!   condition protects short pins from blame while a large backlog, such as a cleared store, is worked
//!   off.
//!
//! Removals and reads are never refused: a removal moves bytes from live to limbo, so the sum does not
//! grow. Hence the bound: while a session stays pinned, the others can raise `Stats::bytes` beyond live
//! data by at most `limbo_max`, and 256 KiB and two operations per session. The lists of waiting items, 24
//! bytes per item (up to 48 while a list grows), are not counted.
//!
//! The culprit's epoch is never more than one behind, so it does not tell how long the pin lasts. The bytes
//! added to limbo since the epoch last moved do: all of them came after that pin.

use crate::core::sync::{Ordering, TallyI64, TallyU64};
use std::fmt;

/// The default of `Config::limbo_max`: large enough for a reader that copies half a gigabyte while others
/// overwrite as much, small enough for an ordinary machine.
pub(crate) const LIMBO_MAX_DEFAULT: u64 = 1 << 30;
/// A pin is blamed once limbo has grown under it by the limit divided by this.
const BLAMED_SHARE: u64 = 16;
/// Most collections per write above the limit: after a reader ends, the epoch must move three times before
/// the items that waited for it are freed.
pub(crate) const ADMIT_ROUNDS: usize = 4;
/// Longest session name in bytes.
const NAME_LEN_MAX: usize = 32;

/// A session that stays pinned while removed memory accumulates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stalled {
    /// The name of the pinned session.
    pub session: String,
    /// Bytes removed since its pin and kept because of it, at least.
    pub held_bytes: u64,
    /// The number of advances of the epoch that it has prevented since then.
    pub refused_advances: u64,
    /// All removed bytes that readers may still see.
    pub limbo_bytes: u64,
    /// The limit for them.
    pub limbo_max: u64,
}

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes of removed items (limit {}) wait for session '{}', which has been inside of \
             one operation while {} of them were removed; writes go on when that operation ends, \
             reads and removals go on now",
            self.limbo_bytes, self.limbo_max, self.session, self.held_bytes
        )
    }
}

impl std::error::Error for Stalled {}

/// The level of limbo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Pressure {
    None,
    /// More than half of the limit.
    Half,
    /// More than the limit.
    Over,
}

/// A flag above all levels of [`Pressure`]: the memory limit is exceeded.
const FULL: u64 = 4;

/// The limits as published to all sessions: a [`Pressure`] and `FULL`.
pub(crate) struct Shown(TallyU64);

impl Shown {
    pub(crate) fn new() -> Self {
        Self(TallyU64::new(0))
    }

    /// Publishes the level of limbo.
    pub(crate) fn show_pressure(&self, pressure: Pressure) {
        self.show(!FULL, pressure as u64);
    }

    /// Publishes whether the memory limit is exceeded.
    pub(crate) fn show_full(&self, is_full: bool) {
        self.show(FULL, if is_full { FULL } else { 0 });
    }

    fn show(&self, which: u64, bits: u64) {
        // ORDERING: Relaxed, advice, as is the change below. Read first, because all sessions share the
        // line.
        let seen = self.0.load(Ordering::Relaxed);
        if seen & which != bits {
            let new = seen & !which | bits;
            // A concurrent change of the other bits may win; the next look corrects this.
            // ORDERING: Relaxed, as above.
            let _ = self.0.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether operations that take memory were refused at the last look.
    #[inline(always)]
    pub(crate) fn is_refusing(&self) -> bool {
        // ORDERING: Relaxed, advice. The same holds for the functions below.
        self.0.load(Ordering::Relaxed) >= Pressure::Over as u64
    }

    /// Whether limbo was above its limit when last weighed.
    pub(crate) fn is_over_limit(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed) & !FULL == Pressure::Over as u64
    }

    /// Whether limbo was above half of its limit when last weighed.
    pub(crate) fn is_pressed(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed) & !FULL != Pressure::None as u64
    }

    /// Whether memory is short for either reason.
    pub(crate) fn is_short(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed) != Pressure::None as u64
    }
}

/// The limit, and the history since the epoch last moved.
pub(crate) struct Limit {
    max: TallyU64,
    /// Least weight since the epoch last moved: freeing an older backlog must not hide new growth.
    least: TallyI64,
    refused: TallyU64,
}

impl Limit {
    pub(crate) fn new(max: u64) -> Self {
        Self { max: TallyU64::new(max), least: TallyI64::new(0), refused: TallyU64::new(0) }
    }

    pub(crate) fn max(&self) -> u64 {
        // ORDERING: Relaxed, a number; no other memory is read through it. The same holds for all below.
        self.max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max(&self, max: u64) {
        // ORDERING: Relaxed, as in `max`.
        self.max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn pressure(&self, limbo: i64) -> Pressure {
        let (limbo, max) = (limbo.max(0).cast_unsigned(), self.max());
        match () {
            () if limbo > max => Pressure::Over,
            () if limbo > max / 2 => Pressure::Half,
            () => Pressure::None,
        }
    }

    /// Notes that the epoch has moved while `limbo` bytes were waiting.
    pub(crate) fn moved(&self, limbo: i64) {
        // ORDERING: Relaxed, as in `max`.
        self.least.store(limbo, Ordering::Relaxed);
        // ORDERING: Relaxed, as in `max`.
        self.refused.store(0, Ordering::Relaxed);
    }

    /// Notes a weight of limbo.
    pub(crate) fn weighed(&self, limbo: i64) {
        // ORDERING: Relaxed, as in `max`. Written only if it changes, because all sessions share the line.
        if limbo < self.least.load(Ordering::Relaxed) {
            // ORDERING: Relaxed, as in `max`.
            self.least.fetch_min(limbo, Ordering::Relaxed);
        }
    }

    /// Notes that a pin has stopped the epoch.
    pub(crate) fn refused(&self) {
        // ORDERING: Relaxed, as in `max`.
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The report on the pin that stops the epoch while `limbo` bytes wait, if limbo has grown enough under
    /// it.
    pub(crate) fn blame(&self, limbo: i64, session: impl FnOnce() -> String) -> Option<Stalled> {
        // ORDERING: Relaxed, as in `max`.
        let held = limbo - self.least.load(Ordering::Relaxed);
        let (held_bytes, limbo_max) = (u64::try_from(held).ok()?, self.max());
        if held_bytes <= limbo_max.min(LIMBO_MAX_DEFAULT) / BLAMED_SHARE {
            return None;
        }
        Some(Stalled {
            session: session(),
            held_bytes,
            // ORDERING: Relaxed, as in `max`.
            refused_advances: self.refused.load(Ordering::Relaxed),
            limbo_bytes: limbo.max(0).cast_unsigned(),
            limbo_max,
        })
    }
}

/// A name fit for a log line: of bounded length and without control characters.
pub(crate) fn tidy_name(name: &str) -> String {
    let mut tidy = String::new();
    for c in name.chars().map(|c| if c.is_control() { '?' } else { c }) {
        if tidy.len() + c.len_utf8() > NAME_LEN_MAX {
            break;
        }
        tidy.push(c);
    }
    tidy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_blamed_for_memory_retired_after_the_epoch_moved() {
        let limit = Limit::new(1600);
        let blame = |limbo| limit.blame(limbo, || "a".to_string()).map(|s| s.held_bytes);
        assert_eq!(blame(100), None);
        assert_eq!(blame(101), Some(101));
        limit.moved(5000);
        assert_eq!(blame(4000), None, "a backlog that gets smaller is nobody's fault");
        assert_eq!(blame(5100), None);
        limit.refused();
        assert_eq!(blame(5101), Some(101));
        assert_eq!(limit.blame(6000, String::new).expect("more still").refused_advances, 1);
        limit.weighed(300);
        limit.weighed(350);
        assert_eq!(blame(400), None);
        assert_eq!(blame(401), Some(101), "what was freed meanwhile is no excuse");
    }

    #[test]
    fn pressure_has_three_levels() {
        let limit = Limit::new(100);
        let levels = [-5, 50, 51, 100, 101].map(|limbo| limit.pressure(limbo));
        use Pressure::{Half, None, Over};
        assert_eq!(levels, [None, None, Half, Half, Over]);
        limit.set_max(u64::MAX);
        assert_eq!(limit.pressure(i64::MAX), None);
    }

    #[test]
    fn both_limits_are_shown_side_by_side() {
        let shown = Shown::new();
        for is_full in [true, false, true] {
            shown.show_full(is_full);
            for pressure in [Pressure::Half, Pressure::Over, Pressure::None] {
                shown.show_pressure(pressure);
                assert_eq!(shown.is_over_limit(), pressure == Pressure::Over);
                assert_eq!(shown.is_pressed(), pressure != Pressure::None);
                assert_eq!(shown.is_short(), is_full || pressure != Pressure::None);
                assert_eq!(shown.is_refusing(), is_full || pressure == Pressure::Over);
            }
        }
    }

    #[test]
    fn names_are_short_and_printable() {
        assert_eq!(tidy_name("io-1\r\n"), "io-1??");
        assert_eq!(tidy_name(&"ä".repeat(40)), "ä".repeat(16));
        assert_eq!(tidy_name(&format!("x{}", "ä".repeat(40))), format!("x{}", "ä".repeat(15)));
    }
}
