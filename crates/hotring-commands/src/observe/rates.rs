//! The growth rates of counters for every second of the last two minutes.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::observe::counters::Totals;

/// The number of samples, one per second.
const SAMPLES_MAX: usize = 121;

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    commands: u64,
    hits: u64,
    misses: u64,
    input_bytes: u64,
    output_bytes: u64,
}

/// The growth of the counters per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    pub commands: f64,
    pub hits: f64,
    pub misses: f64,
    pub input_bytes: f64,
    pub output_bytes: f64,
}

impl Rate {
    fn between(before: &Sample, after: &Sample) -> Self {
        let seconds = after.at.duration_since(before.at).as_secs_f64();
        let rate = |counter: fn(&Sample) -> u64| {
            let grown = counter(after).saturating_sub(counter(before)) as f64;
            if seconds > 0.0 { grown / seconds } else { 0.0 }
        };
        Rate {
            commands: rate(|s| s.commands),
            hits: rate(|s| s.hits),
            misses: rate(|s| s.misses),
            input_bytes: rate(|s| s.input_bytes),
            output_bytes: rate(|s| s.output_bytes),
        }
    }

    /// The share of lookups that found their key; None without lookups.
    pub fn hit_ratio(&self) -> Option<f64> {
        let lookups = self.hits + self.misses;
        (lookups > 0.0).then(|| self.hits / lookups)
    }
}

/// The last samples. The background task adds them, and any thread may read them.
#[derive(Debug, Default)]
pub struct Rates(Mutex<VecDeque<Sample>>);

impl Rates {
    /// Adds a sample of the counters at the time `at`.
    pub fn note(&self, at: Instant, totals: &Totals) {
        let sample = Sample {
            at,
            commands: totals.commands,
            hits: totals.keyspace_hits,
            misses: totals.keyspace_misses,
            input_bytes: totals.input_bytes,
            output_bytes: totals.output_bytes,
        };
        let mut samples = self.lock();
        samples.push_back(sample);
        if samples.len() > SAMPLES_MAX {
            samples.pop_front();
        }
    }

    /// The rate of the last second.
    pub fn last(&self) -> Rate {
        let samples = self.lock();
        match samples.len() {
            0 | 1 => Rate::default(),
            n => Rate::between(&samples[n - 2], &samples[n - 1]),
        }
    }

    /// The rates of all sampled seconds, oldest first.
    pub fn all(&self) -> Vec<Rate> {
        let samples = self.lock();
        let pairs = samples.iter().zip(samples.iter().skip(1));
        pairs.map(|(before, after)| Rate::between(before, after)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rates_are_the_growth_of_counters_and_old_ones_go() {
        let (rates, start) = (Rates::default(), Instant::now());
        assert_eq!(rates.last(), Rate::default());
        let totals = |commands, keyspace_hits| Totals {
            commands,
            keyspace_hits,
            keyspace_misses: commands / 4,
            ..Totals::default()
        };
        rates.note(start, &totals(0, 0));
        assert_eq!((rates.last(), rates.all().len()), (Rate::default(), 0));
        rates.note(start + Duration::from_secs(2), &totals(1000, 750));
        let last = rates.last();
        assert_eq!((last.commands, last.hits, last.misses), (500.0, 375.0, 125.0));
        assert_eq!(last.hit_ratio(), Some(0.75));
        // Twice at one time, and a counter that has gone back.
        rates.note(start + Duration::from_secs(2), &totals(2000, 750));
        rates.note(start + Duration::from_secs(3), &totals(1000, 750));
        assert_eq!(rates.all()[1..], [Rate::default(); 2]);
        assert_eq!(rates.last().hit_ratio(), None);
        (4..500).for_each(|i| rates.note(start + Duration::from_secs(i), &totals(i, 0)));
        assert_eq!(rates.all().len(), SAMPLES_MAX - 1);
    }
}
