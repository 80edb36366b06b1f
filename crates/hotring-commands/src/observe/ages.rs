//! When the ticks were that date accesses under an LRU policy, for OBJECT IDLETIME.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ticks come round: one that is 256 ticks ago looks like now. No age that is said is more than this.
const AGE_MAX: u8 = 191;

/// By how many ticks the age grows with each doubling of a time beyond the first known tick.
const STEPS_A_DOUBLING: f64 = 4.0;

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

    /// The age in ticks of an access this many milliseconds ago, rounded down. Ticks before the first known
    /// one have no dates, so older accesses get ages that grow with the logarithm of the time beyond it: keys
    /// that a new server restores must stay in the order of their idle times.
    pub(crate) fn age(&self, milliseconds: u64, now: u64) -> u8 {
        let known = (0..=AGE_MAX).rev().filter_map(|age| Some((age, self.ended(age, now)?)));
        let mut known = known.peekable();
        let oldest = known.peek().map_or(0, |(age, _)| *age);
        let (age, ended) = known.find(|(_, ended)| *ended <= milliseconds).unwrap_or((0, 0));
        if age < oldest {
            return age;
        }
        let beyond = milliseconds - ended;
        let seconds = (1 + beyond / 1000) as f64;
        // At most 4 times 54, below 256.
        age.saturating_add((STEPS_A_DOUBLING * seconds.log2()) as u8).min(AGE_MAX)
    }

    /// How many milliseconds ago, at least, the tick ended that was `age` ticks ago.
    pub(crate) fn since(&self, age: u8, now: u64) -> u64 {
        (0..=age).rev().find_map(|age| self.ended(age, now)).unwrap_or(0)
    }

    /// How many milliseconds ago the tick ended that was `age` ticks ago; 0 for the present one, None if the
    /// server has not seen it.
    fn ended(&self, age: u8, now: u64) -> Option<u64> {
        if age == 0 {
            return Some(0);
        }
        // ORDERING: Relaxed, as in `note`.
        let last = self.last.load(Ordering::Relaxed) as u8;
        let next = usize::from(last.wrapping_sub(age).wrapping_add(1));
        // ORDERING: Relaxed, as in `note`.
        match self.begun[next].load(Ordering::Relaxed) {
            0 => None,
            begun => Some(now.saturating_sub(begun)),
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
        assert_eq!(ages.since(100, 9_000), 7_000, "before all that is known");
        let told = [0, 3_999, 4_000, 6_999, 7_000, u64::MAX].map(|ms| ages.age(ms, 9_000));
        assert_eq!(told, [0, 0, 3, 3, 4, AGE_MAX], "the last age that is certain, and older ones");
    }

    #[test]
    fn idle_times_before_the_first_tick_keep_their_order() {
        let ages = Ages::default();
        ages.note(0, 1_000);
        let idle = [0, 10, 100, 1_000, 10_000, 100_000, u64::MAX / 1000];
        let told = idle.map(|seconds| ages.age(seconds * 1000, 2_000));
        assert!(told.is_sorted_by(|younger, older| younger < older), "{told:?}");
        assert_eq!((told[0], told[6]), (0, AGE_MAX));
        assert_eq!(ages.since(told[5], 2_000), 0, "no tick of this server is that old");
        ages.note(1, 10_000);
        ages.note(3, 30_000);
        assert_eq!(ages.age(10_000, 31_000), 2, "a known age");
        let told = [21_000, 60_000, 600_000].map(|ms| ages.age(ms, 31_000));
        assert!(told[0] == 3 && told.is_sorted_by(|younger, older| younger < older), "{told:?}");
    }
}
