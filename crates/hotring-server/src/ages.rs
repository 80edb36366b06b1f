//! When the ticks were that date accesses under an LRU policy, for OBJECT IDLETIME.

use std::sync::atomic::{AtomicU64, Ordering};

/// The Unix milliseconds at which each tick was seen first.
pub(crate) struct Ages {
    begun: [AtomicU64; 256],
    last: AtomicU64,
}

impl Default for Ages {
    fn default() -> Self {
        Ages { begun: std::array::from_fn(|_| AtomicU64::new(0)), last: AtomicU64::new(0) }
    }
}

impl Ages {
    /// Takes note of the tick that it is now.
    pub(crate) fn note(&self, tick: u8, now: u64) {
        // ORDERING: Relaxed, figures for people. So for all here.
        let last = self.last.load(Ordering::Relaxed);
        // Those that were passed over began by now, too.
        let passed = tick.wrapping_sub(last as u8);
        for back in 0..passed {
            // ORDERING: Relaxed, as above.
            self.begun[usize::from(tick.wrapping_sub(back))].store(now, Ordering::Relaxed);
        }
        // ORDERING: Relaxed, as above.
        self.last.store(tick.into(), Ordering::Relaxed);
    }

    /// How many milliseconds ago, at least, the tick ended that was `age` ticks ago.
    pub(crate) fn since(&self, age: u8, now: u64) -> u64 {
        if age == 0 {
            return 0;
        }
        // ORDERING: Relaxed, as in `note`.
        let last = self.last.load(Ordering::Relaxed) as u8;
        let next = usize::from(last.wrapping_sub(age).wrapping_add(1));
        // ORDERING: Relaxed, as in `note`.
        match self.begun[next].load(Ordering::Relaxed) {
            0 => 0,
            begun => now.saturating_sub(begun),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_was_before_the_next_tick_began() {
        let ages = Ages::default();
        ages.note(0, 1_000);
        ages.note(1, 2_000);
        ages.note(4, 5_000);
        assert_eq!(ages.since(0, 9_000), 0, "it may have been now");
        assert_eq!(ages.since(1, 9_000), 4_000, "tick 3 ended by 5,000");
        assert_eq!(ages.since(4, 9_000), 7_000, "tick 0 ended by 2,000");
        assert_eq!(ages.since(100, 9_000), 0, "not known");
    }
}
