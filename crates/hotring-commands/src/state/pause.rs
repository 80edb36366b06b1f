//! The state of CLIENT PAUSE.
//!
//! Threads notice a pause in the same way as new settings, before their next batch of requests: without a pause, the
//! check costs a request nothing. Waiting connections check again at the end of the pause, or when they are woken.

use std::sync::atomic::{AtomicU64, Ordering};

/// The requests that a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paused {
    /// Requests that may write.
    Writes,
    /// All requests.
    Everything,
}

/// The current pause in one word: twice the Unix millisecond of its end, plus 1 if all requests wait; 0 for no pause.
#[derive(Debug, Default)]
pub struct ClientPause(AtomicU64);

// ORDERING: Relaxed throughout: the word is the entire state.
impl ClientPause {
    /// Begins a pause. A pause that is in force must become neither shorter nor less strict.
    pub fn begin(&self, until: u64, paused: Paused, now: u64) {
        let merge = |before| {
            let (until_before, everything_before) = parts(before);
            let goes_on = until_before > now;
            let everything = paused == Paused::Everything || goes_on && everything_before;
            Some(until.max(until_before).min(u64::MAX >> 1) << 1 | u64::from(everything))
        };
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
    }

    /// Ends the pause.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Whether a pause is set, which may have run out.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Clears a pause that has run out; true if there was one.
    pub fn end_if_over(&self, now: u64) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let is_over = word != 0 && parts(word).0 <= now;
        is_over && self.0.compare_exchange(word, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The end of the pause, and the requests that wait; None without a pause.
    pub fn lasts(&self, now: u64) -> Option<(u64, Paused)> {
        let (until, everything) = parts(self.0.load(Ordering::Relaxed));
        let paused = if everything { Paused::Everything } else { Paused::Writes };
        (until > now).then_some((until, paused))
    }
}

fn parts(word: u64) -> (u64, bool) {
    (word >> 1, word & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_and_the_stricter_pause_holds() {
        use Paused::{Everything, Writes};
        let pause = ClientPause::default();
        assert_eq!((pause.lasts(0), pause.is_set(), pause.end_if_over(9)), (None, false, false));
        pause.begin(100, Everything, 0);
        pause.begin(50, Writes, 1);
        assert_eq!(pause.lasts(99), Some((100, Everything)));
        assert!(!pause.end_if_over(99) && pause.is_set());
        assert_eq!(pause.lasts(100), None);
        // A pause that has run out makes later ones no stricter.
        pause.begin(200, Writes, 100);
        assert_eq!(pause.lasts(100), Some((200, Writes)));
        pause.begin(u64::MAX, Everything, 100);
        assert_eq!(pause.lasts(200), Some((u64::MAX >> 1, Everything)));
        pause.end();
        assert_eq!(pause.lasts(100), None);
        pause.begin(7, Writes, 0);
        assert!(pause.end_if_over(7) && !pause.is_set());
    }
}
