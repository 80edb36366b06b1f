//! When the ticks were that date accesses under an LRU policy, for OBJECT IDLETIME.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks come round: one that is 256 ticks ago looks like now. No age that is said is more than this.
const AGE_MAX: u8 = 191;

/// The Unix milliseconds at which each tick was seen first.
pub struct Ages {
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
    pub fn note(&self, tick: u8, now: u64) {
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

    /// How many ticks ago an access was that is this long ago: no more than that, and no more than are known of.
    pub(crate) fn age(&self, milliseconds: u64, now: u64) -> u8 {
        let is_known = |age: &u8| match self.since(*age, now) {
            0 => *age == 0,
            since => since <= milliseconds,
        };
        (0..=AGE_MAX).rev().find(is_known).unwrap_or(0)
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
        let told = [0, 3_999, 4_000, 6_999, 7_000, u64::MAX].map(|ms| ages.age(ms, 9_000));
        assert_eq!(told, [0, 0, 3, 3, 4, 4], "the last age that is certain");
    }
}
