//! The limit of removed memory that waits for readers: when writes are refused, and who is to blame.
//!
//! A session that stays pinned keeps all that is removed after its pin (`reclaim/`). Nothing can
//! be done about that by force, so what is bounded is what the others add to it: once more than
//! `limbo_max` bytes wait, [`Session::admit`](crate::Session::admit) refuses until they are fewer.
//!
//! * *Limbo* is weighed at each collection, that is, once in 256 removals or 256 KiB of a session,
//!   and the result is put beside the epoch, where every pin looks anyway: `admit` costs one load.
//! * Above half of the limit a session hands what it cannot free to all, so that no session's writes
//!   wait for a session that has gone idle; and readers help to free.
//! * Over the limit `admit` collects first. It refuses only if that freed nothing, a pinned session
//!   forbids the epoch to move on, and limbo has grown by a sixteenth of the limit beyond the least
//!   that was weighed since it last moved. Without the last condition the ordinary short pins of
//!   others would be blamed while a large backlog (a store that was just cleared) is being worked off.
//!
//! Removals and reads are never refused: a removal moves bytes from the live ones to limbo, so the
//! sum of both does not grow. Hence the bound: while a session stays pinned, the others can raise
//! `Stats::bytes` beyond live data by at most `limbo_max`, and for each session 256 KiB and what two
//! operations take. Not counted are 24 bytes (up to 48 while a list grows) for each waiting item.
//!
//! How far the culprit's epoch is behind says nothing, since it is never more than one. What says
//! something is what has come to limbo since the epoch last moved: all of it came after that pin.

use crate::core::sync::{Ordering, TallyI64, TallyU64};
use std::fmt;

/// The default of `Config::limbo_max`: large enough for a reader that copies half a gigabyte while
/// others overwrite as much, small enough for the machines of today.
pub(crate) const LIMBO_MAX_DEFAULT: u64 = 1 << 30;
/// The part of the limit by which limbo has to grow under one pin before that pin is blamed.
const BLAMED_SHARE: u64 = 16;
/// Collections that a write over the limit pays for at most: a reader that has just ended lets the
/// epoch move three times, and then what waited for it can be freed.
pub(crate) const ADMIT_ROUNDS: usize = 4;
/// Longest name of a session, in bytes.
const NAME_LEN_MAX: usize = 32;

/// A session that stays pinned while removed memory piles up behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stalled {
    /// The name of the session that is pinned.
    pub session: String,
    /// Bytes that were removed after its pin and are kept since, at least.
    pub held_bytes: u64,
    /// Times that others found it in the way since then.
    pub refused_advances: u64,
    /// Bytes that wait for readers in all.
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

/// How much waits for readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Pressure {
    None,
    /// More than half of the limit.
    Half,
    /// More than the limit.
    Over,
}

/// Beside a [`Pressure`] and above all of them: the limit of all memory is reached.
const FULL: u64 = 4;

/// What all sessions see of the limits: a [`Pressure`], and `FULL`.
pub(crate) struct Shown(TallyU64);

impl Shown {
    pub(crate) fn new() -> Self {
        Self(TallyU64::new(0))
    }

    /// Shows what limbo has been weighed as.
    pub(crate) fn show_pressure(&self, pressure: Pressure) {
        self.show(!FULL, pressure as u64);
    }

    /// Shows whether the limit of all memory is reached.
    pub(crate) fn show_full(&self, is_full: bool) {
        self.show(FULL, if is_full { FULL } else { 0 });
    }

    fn show(&self, which: u64, bits: u64) {
        // ORDERING: Relaxed, advice, like the change below, which is rare: the line is everybody's.
        let seen = self.0.load(Ordering::Relaxed);
        if seen & which != bits {
            let new = seen & !which | bits;
            // One who changes the other bits at this moment may win: the next look sets it right.
            // ORDERING: Relaxed, as above.
            let _ = self.0.compare_exchange(seen, new, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Whether there was any reason to refuse what takes memory at the last looks.
    #[inline(always)]
    pub(crate) fn is_refusing(&self) -> bool {
        // ORDERING: Relaxed, advice. So for those below.
        self.0.load(Ordering::Relaxed) >= Pressure::Over as u64
    }

    /// Whether limbo was above its limit when it was weighed last.
    pub(crate) fn is_over_limit(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed) & !FULL == Pressure::Over as u64
    }

    /// Whether limbo was above half of its limit.
    pub(crate) fn is_pressed(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed) & !FULL != Pressure::None as u64
    }

    /// Whether memory is wanted for either reason.
    pub(crate) fn is_short(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.0.load(Ordering::Relaxed) != Pressure::None as u64
    }
}

/// The limit, and what there was since the epoch last moved on.
pub(crate) struct Limit {
    max: TallyU64,
    /// The least that was weighed since then: a backlog from before makes no room as it is freed.
    least: TallyI64,
    refused: TallyU64,
}

impl Limit {
    pub(crate) fn new(max: u64) -> Self {
        Self { max: TallyU64::new(max), least: TallyI64::new(0), refused: TallyU64::new(0) }
    }

    pub(crate) fn max(&self) -> u64 {
        // ORDERING: Relaxed, a number; no other memory is read through it. So for all below.
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

    /// The epoch has moved on while `limbo` bytes were waiting.
    pub(crate) fn moved(&self, limbo: i64) {
        // ORDERING: Relaxed, as in `max`.
        self.least.store(limbo, Ordering::Relaxed);
        // ORDERING: Relaxed, as in `max`.
        self.refused.store(0, Ordering::Relaxed);
    }

    /// `limbo` bytes are waiting.
    pub(crate) fn weighed(&self, limbo: i64) {
        // ORDERING: Relaxed, as in `max`; written only where it changes.
        if limbo < self.least.load(Ordering::Relaxed) {
            // ORDERING: Relaxed, as in `max`.
            self.least.fetch_min(limbo, Ordering::Relaxed);
        }
    }

    /// A pin has kept the epoch from moving on.
    pub(crate) fn refused(&self) {
        // ORDERING: Relaxed, as in `max`.
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The report on a pin that keeps the epoch from moving on while `limbo` bytes wait, if
    /// it is worth a word.
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

/// A name as it may stand in a line of a log: of bounded length, without control characters.
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
    fn a_pin_is_blamed_for_what_came_after_the_epoch_moved() {
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
