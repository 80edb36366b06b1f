//! Histograms of durations, with bucket bounds that double.
//!
//! One thread writes a [`Histogram`], and all threads may read it. The sum over several threads is a [`Distribution`].

use std::time::Duration;

use crate::observe::counters::Counter;

/// The number of bounds. Times above the last bound (16.8 s) are counted in one more bucket.
pub const BOUNDS: usize = 28;

/// The bound of the first bucket in nanoseconds. Its doublings include 1 µs, 2 µs and so on, as in Redis's histograms.
const FIRST_NS: u64 = 125;

/// The upper bound of bucket `i` in nanoseconds. The bucket counts times up to this bound and above the previous one.
pub const fn bound_ns(i: usize) -> u64 {
    FIRST_NS << i
}

/// The histogram of one thread's times.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [Counter; BOUNDS + 1],
    sum_ns: Counter,
}

impl Histogram {
    /// Counts a time. Only the owning thread may call this.
    pub(crate) fn note(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket_of(ns)].add(1);
        self.sum_ns.add(ns);
    }
}

/// The index of the bucket of a time.
fn bucket_of(ns: u64) -> usize {
    let doublings = u64::BITS - (ns.saturating_sub(1) / FIRST_NS).leading_zeros();
    (doublings as usize).min(BOUNDS)
}

/// The sum of histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// The counts of the buckets: one for each bound, and one for longer times.
    pub counts: [u64; BOUNDS + 1],
    pub sum_ns: u64,
}

impl Distribution {
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, count) in self.counts.iter_mut().zip(&histogram.counts) {
            *sum += count.value();
        }
        self.sum_ns += histogram.sum_ns.value();
    }

    pub(crate) fn subtract(&mut self, base: &Distribution) {
        for (count, base) in self.counts.iter_mut().zip(&base.counts) {
            *count = count.saturating_sub(*base);
        }
        self.sum_ns = self.sum_ns.saturating_sub(base.sum_ns);
    }

    /// The number of noted times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The cumulative counts: for bounds in whole microseconds, the number of times up to the bound. Bounds that add no
    /// times are left out. The last bound includes all longer times.
    pub(crate) fn cumulated_us(&self) -> Vec<(u64, u64)> {
        let mut cumulated: Vec<(u64, u64)> = Vec::new();
        let mut sum = 0;
        for (i, count) in self.counts.iter().enumerate() {
            sum += count;
            let bound = bound_ns(i.min(BOUNDS - 1)).div_ceil(1_000);
            match cumulated.last_mut() {
                Some((last, below)) if *last == bound => *below = sum,
                Some((_, below)) if *below == sum => {}
                _ if sum > 0 => cumulated.push((bound, sum)),
                _ => {}
            }
        }
        cumulated
    }

    /// The average in microseconds; 0 without times.
    pub fn mean_us(&self) -> f64 {
        self.sum_ns as f64 / 1000.0 / self.count().max(1) as f64
    }

    /// The `q` quantile (0 to 1) in microseconds. Times between two bounds are assumed to be spread evenly.
    pub fn quantile_us(&self, q: f64) -> f64 {
        let rank = q * self.count() as f64;
        let mut below = 0;
        for (i, &count) in self.counts.iter().enumerate() {
            if count > 0 && (below + count) as f64 >= rank {
                let low = if i == 0 { 0 } else { bound_ns(i - 1) };
                // The times in the last bucket are only known to be longer than the last bound.
                let high = if i == BOUNDS { low } else { bound_ns(i) };
                let share = (rank - below as f64).max(0.0) / count as f64;
                return (low as f64 + share * (high - low) as f64) / 1000.0;
            }
            below += count;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_their_bound() {
        for (ns, at) in [(0, 0), (125, 0), (126, 1), (250, 1), (251, 2), (500, 2), (501, 3)] {
            assert_eq!(bucket_of(ns), at, "{ns} ns");
        }
        for i in 0..BOUNDS {
            assert_eq!((bucket_of(bound_ns(i)), bucket_of(bound_ns(i) + 1)), (i, i + 1));
        }
        assert_eq!(bucket_of(u64::MAX), BOUNDS);
        assert_eq!((bound_ns(3), bound_ns(13)), (1_000, 1_024_000));
    }

    #[test]
    fn noted_durations_fall_into_their_buckets() {
        let histogram = Histogram::default();
        (0..99).for_each(|_| histogram.note(Duration::from_nanos(1_500)));
        histogram.note(Duration::from_secs(100));
        let mut all = Distribution::default();
        all.add(&histogram);
        assert_eq!((all.count(), all.sum_ns), (100, 100_000_148_500));
        // Between 1 and 2 microseconds.
        let half = all.quantile_us(0.5);
        assert!((half - 1.505).abs() < 0.01, "{half}");
        assert_eq!(all.quantile_us(1.0), bound_ns(BOUNDS - 1) as f64 / 1000.0);
        let base = all.clone();
        histogram.note(Duration::from_nanos(100));
        all.add(&histogram);
        all.subtract(&base);
        all.subtract(&base);
        assert_eq!((all.count(), all.sum_ns), (1, 100));
        assert_eq!(Distribution::default().quantile_us(0.5), 0.0);
        assert_eq!(Distribution::default().cumulated_us(), []);
        let mut some = Distribution::default();
        let times = Histogram::default();
        for ns in [0, 125, 1_000, 1_001, 9_000, u64::MAX] {
            times.note(Duration::from_nanos(ns));
        }
        some.add(&times);
        let last = bound_ns(BOUNDS - 1).div_ceil(1_000);
        assert_eq!(some.cumulated_us(), [(1, 3), (2, 4), (16, 5), (last, 6)]);
    }
}
