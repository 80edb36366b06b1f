//! Maps the ticks that date accesses under an LRU policy to wall-clock time, for OBJECT IDLETIME.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum reported age in ticks. Ticks wrap around: a tick that is 256 ticks ago looks like the current one.
const AGE_MAX: u8 = 191;

/// The number of ticks by which the age grows for each doubling of the time before the first known tick.
const STEPS_PER_DOUBLING: f64 = 4.0;

/// The wall-clock times of ticks.
#[derive(Default)]
pub struct Ages(Mutex<Known>);

struct Known {
    /// The Unix milliseconds at which each tick was first seen; 0 if it was not.
    begun: [u64; 256],
    last: u8,
    /// The Unix milliseconds of the oldest access to a restored key.
    oldest: u64,
}

impl Default for Known {
    fn default() -> Self {
        Known { begun: [0; 256], last: 0, oldest: u64::MAX }
    }
}

impl Ages {
    /// Records the current tick.
    pub fn note(&self, tick: impl FnOnce() -> u8, now: u64) {
        let mut known = self.lock();
        // The tick must be read under the lock, so that ticks are recorded in order.
        known.note(tick(), now);
    }

    /// The age in ticks, rounded down, of an access to a restored key this many milliseconds ago. Ticks before the
    /// first known one have no dates. An older access therefore gets an age that grows with the logarithm of the time
    /// before that tick: keys that a new server restores must stay in the order of their idle times.
    pub(crate) fn age(&self, milliseconds: u64, now: u64) -> u8 {
        let mut known = self.lock();
        known.oldest = known.oldest.min(now.saturating_sub(milliseconds));
        known.age(milliseconds, now)
    }

    /// The minimum time in milliseconds since an access with this age.
    pub(crate) fn since(&self, age: u8, now: u64) -> u64 {
        self.lock().since(age, now)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn note(&mut self, tick: u8, now: u64) {
        // Ticks that were skipped have begun by now as well.
        let passed = tick.wrapping_sub(self.last);
        (0..passed).for_each(|back| self.begun[usize::from(tick.wrapping_sub(back))] = now);
        self.last = tick;
    }

    fn age(&self, milliseconds: u64, now: u64) -> u8 {
        let (oldest, _) = self.last_known(AGE_MAX, now);
        let known = (0..=oldest).rev().filter_map(|age| Some((age, self.ended(age, now)?)));
        let (age, ended) = { known }.find(|(_, ended)| *ended <= milliseconds).unwrap_or((0, 0));
        if age < oldest {
            return age;
        }
        let seconds = (milliseconds - ended) / 1000;
        // At most 4 times 54, below 256.
        let steps = (STEPS_PER_DOUBLING * (1.0 + seconds as f64).log2()) as u8;
        age.saturating_add(steps).min(AGE_MAX)
    }

    fn since(&self, age: u8, now: u64) -> u64 {
        let (known, ended) = self.last_known(age, now);
        if known == age {
            return ended;
        }
        // The inverse of `age` for times beyond the first tick.
        let seconds = (f64::from(age - known) / STEPS_PER_DOUBLING).exp2() - 1.0;
        let time = ended.saturating_add((seconds * 1000.0) as u64);
        // Limit the result: bits that another policy has left may look like any age.
        time.min(now.saturating_sub(self.oldest)).max(ended)
    }

    /// The oldest tick with a date, up to this age: its age in ticks, and the milliseconds since its end.
    fn last_known(&self, age: u8, now: u64) -> (u8, u64) {
        (0..=age).rev().find_map(|age| Some((age, self.ended(age, now)?))).unwrap_or((0, 0))
    }

    /// The milliseconds since the end of the tick that was `age` ticks ago; 0 for the current tick, None if the server
    /// has not seen it.
    fn ended(&self, age: u8, now: u64) -> Option<u64> {
        if age == 0 {
            return Some(0);
        }
        match self.begun[usize::from(self.last.wrapping_sub(age).wrapping_add(1))] {
            0 => None,
            begun => Some(now.saturating_sub(begun)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn an_access_was_before_the_next_tick_began() {
        let ages = Ages::default();
        ages.note(|| 0, 1_000);
        ages.note(|| 1, 2_000);
        ages.note(|| 4, 5_000);
        assert_eq!(ages.since(0, 9_000), 0, "it may have been now");
        assert_eq!(ages.since(1, 9_000), 4_000, "tick 3 ended by 5,000");
        assert_eq!(ages.since(4, 9_000), 7_000, "tick 0 ended by 2,000");
        assert_eq!(ages.since(100, 9_000), 7_000, "before all that is known");
        let found = [0, 3_999, 4_000, 6_999, 7_000, u64::MAX].map(|ms| ages.age(ms, 9_000));
        assert_eq!(found, [0, 0, 3, 3, 4, AGE_MAX], "the last age that is certain, and older ones");
    }

    #[test]
    fn idle_times_before_the_first_tick_keep_their_order() {
        let ages = Ages::default();
        ages.note(|| 0, 1_000);
        let idle = [0, 10, 100, 1_000, 10_000, 100_000, u64::MAX / 1000];
        let found = idle.map(|seconds| ages.age(seconds * 1000, 2_000));
        assert!(found.is_sorted_by(|younger, older| younger < older), "{found:?}");
        assert_eq!((found[0], found[6]), (0, AGE_MAX));
        ages.note(|| 1, 10_000);
        ages.note(|| 3, 30_000);
        assert_eq!(ages.age(10_000, 31_000), 2, "a known age");
        let found = [21_000, 60_000, 600_000].map(|ms| ages.age(ms, 31_000));
        assert!(found[0] == 3 && found.is_sorted_by(|younger, older| younger < older), "{found:?}");
    }

    #[test]
    fn restored_idle_times_are_shown_within_a_sixth() {
        const LONGEST: u64 = 160 * 86_400_000;
        let ages = Ages::default();
        ages.note(|| 0, NOW);
        let found = ages.since(191, NOW + 1_000);
        assert_eq!(found, 0, "nothing was restored: no such access is known");
        let is_near = |found, ms| found <= ms && found + 1_000 >= ms * 5 / 6;
        let check = |known, now| {
            for beyond in (0..42).map(|power| 3u64 << power).filter(|ms| *ms < LONGEST) {
                let ms = known + beyond;
                let found = ages.since(ages.age(ms, now), now);
                assert!(is_near(found, ms), "{found} of {ms}");
            }
        };
        check(0, NOW + 1_000);
        let restored = ages.age(600_000, NOW + 1_000);
        // As long as three quarters of a turn.
        ages.note(|| 1, NOW + 10_000);
        ages.note(|| 96, NOW + 900_000);
        check(990_000, NOW + 1_000_000);
        let found = ages.since(restored + 96, NOW + 1_000_000);
        assert!(is_near(found, 600_000 + 990_000), "the time since is added: {found}");
        let found = ages.since(255, NOW + 1_000_000);
        assert!(found <= 990_000 + LONGEST, "no more than was restored: {found}");
    }
}
