//! Chooses the requests that are noted for the list of hot keys: about [`NOTES_PER_SECOND`] requests of each thread per
//! second, or all requests if there are fewer, regardless of pipeline length and the number of connections.
//!
//! Each request is chosen independently, and with the same probability as all other requests of that time, whatever
//! its command. The gaps between noted requests therefore have a geometric distribution. They are drawn one at a time,
//! so that a batch without a noted request costs one subtraction. The weight of a noted request is the number of
//! requests that it stands for. The probability follows the request rate. When the probability changes, the current gap
//! is drawn again; this causes no bias because the geometric distribution is memoryless.

use fastrand::Rng;

/// The list needs 2,000 notes a second for its bounds; this is more than two standard deviations above that. Each note
/// costs about 500 instructions.
pub(crate) const NOTES_PER_SECOND: f64 = 3_000.0;

/// The interval in milliseconds at which the request rate is measured.
const CHECK_MS: u64 = 125;
const CHECKS_PER_SECOND: usize = 8;
const NOTES_PER_CHECK: u32 = (NOTES_PER_SECOND / CHECKS_PER_SECOND as f64) as u32;

/// Within one interval, the probability halves after this many notes, and again after each further [`NOTES_PER_CHECK`].
/// This bounds the cost of a sudden rise in the request rate.
const NOTES_PER_CHECK_MAX: u32 = 4 * NOTES_PER_CHECK;

/// Chooses which requests of one thread are noted.
#[derive(Debug)]
pub(crate) struct Notes {
    /// The number of requests to skip before the next noted one.
    left: u64,
    /// The initial value of `left`.
    drawn: u64,
    /// One request in this many is noted, on average.
    one_of: f64,
    /// The last measurement of the rate, in Unix milliseconds.
    checked_at: u64,
    /// Requests since that measurement, up to the last note, and the number of notes.
    passed: u64,
    noted: u32,
    noted_max: u32,
    /// Requests of the last second, one count per interval.
    before: [u64; CHECKS_PER_SECOND],
}

impl Default for Notes {
    fn default() -> Self {
        Notes {
            left: 0,
            drawn: 0,
            one_of: 1.0,
            checked_at: 0,
            passed: 0,
            noted: 0,
            noted_max: NOTES_PER_CHECK_MAX,
            before: [0; CHECKS_PER_SECOND],
        }
    }
}

impl Notes {
    /// Begins a run of requests.
    #[inline]
    pub(crate) fn begin_run(&mut self, random: &mut Rng, now: u64) {
        // If the clock was set back, the difference wraps and exceeds the interval.
        if now.wrapping_sub(self.checked_at) >= CHECK_MS {
            self.check(random, now);
        }
    }

    /// Skips `len` requests and returns true if none of them must be noted.
    #[inline]
    pub(crate) fn pass(&mut self, len: usize) -> bool {
        match self.left.checked_sub(len as u64) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// The index of the first of the next `len` requests that must be noted, and its weight; None if there is none.
    pub(crate) fn next(&mut self, len: usize, random: &mut Rng) -> Option<(usize, f64)> {
        if self.pass(len) {
            return None;
        }
        let next = (self.left as usize, self.one_of);
        self.passed += self.drawn + 1;
        self.noted += 1;
        if self.noted == self.noted_max {
            self.noted_max += NOTES_PER_CHECK;
            self.one_of *= 2.0;
        }
        self.draw(random);
        Some(next)
    }

    /// Measures the request rate and sets the probability accordingly.
    #[cold]
    fn check(&mut self, random: &mut Rng, now: u64) {
        let passed = self.passed + self.drawn - self.left;
        let checks = (now.wrapping_sub(self.checked_at) / CHECK_MS).min(CHECKS_PER_SECOND as u64);
        for _ in 0..checks {
            self.before.rotate_right(1);
            self.before[0] = passed / checks;
        }
        let second: u64 = self.before.iter().sum();
        let latest = self.before[0] * CHECKS_PER_SECOND as u64;
        // The lower of the two rates: short bursts are noted completely if they are few requests per second, and all
        // requests are noted again soon after a peak.
        self.one_of = (second.min(latest) as f64 / NOTES_PER_SECOND).max(1.0);
        let since = now.wrapping_sub(self.checked_at) % CHECK_MS;
        (self.checked_at, self.passed) = (now - since, 0);
        (self.noted, self.noted_max) = (0, NOTES_PER_CHECK_MAX);
        self.draw(random);
    }

    fn draw(&mut self, random: &mut Rng) {
        // Uniform in (0, 1], because `ln` of 0 is infinite.
        let even = ((random.u64(..) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let missed = 1.0 - 1.0 / self.one_of;
        self.left = if missed > 0.0 { (even.ln() / missed.ln()) as u64 } else { 0 };
        self.drawn = self.left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;

    /// The notes of each second of runs that come at these milliseconds, and their weights.
    fn noted(runs: impl Iterator<Item = (u64, usize)>) -> Vec<(u32, f64)> {
        let (mut notes, mut random) = (Notes::default(), Rng::with_seed(7));
        let mut seconds = Vec::new();
        for (at, len) in runs {
            seconds.resize(seconds.len().max(at as usize / 1000 + 1), (0, 0.0));
            notes.begin_run(&mut random, NOW + at);
            let mut rest = len;
            while let Some((passed, weight)) = notes.next(rest, &mut random) {
                rest -= passed + 1;
                let (n, sum) = seconds.last_mut().expect("it has been made longer");
                (*n, *sum) = (*n + 1, *sum + weight);
            }
        }
        seconds
    }

    /// Runs of `len` requests at `rate` requests a second.
    fn even(rate: u64, len: usize, ms: std::ops::Range<u64>) -> impl Iterator<Item = (u64, usize)> {
        let runs = rate * (ms.end - ms.start) / 1000 / len as u64;
        (0..runs).map(move |run| (ms.start + run * len as u64 * 1000 / rate, len))
    }

    #[test]
    fn all_requests_are_noted_if_they_are_few_and_enough_of_many() {
        for len in [1, 16, 64] {
            for (n, weight) in &noted(even(1_920, len, 0..5_000))[..4] {
                assert!((1_850..2_000).contains(n) && *weight == f64::from(*n), "{n}, {weight}");
            }
            for rate in [32_000, 256_000] {
                for (n, weight) in &noted(even(rate, len, 0..6_000))[1..5] {
                    assert!((2_700..3_400).contains(n), "{n} of {rate} in {len}s");
                    assert!((weight / rate as f64 - 1.0).abs() < 0.1, "{weight} of {rate}");
                }
            }
        }
    }

    #[test]
    fn a_rush_costs_no_more_notes_than_it_should_and_after_it_all_are_noted() {
        let rush = even(512_000, 64, 0..2_000).chain(even(1_000, 1, 2_000..4_000));
        let seconds = noted(rush.map(|(at, len)| (at + 8_000, len)));
        assert!((3_000..12_000).contains(&seconds[8].0), "{seconds:?}");
        assert!((2_700..3_400).contains(&seconds[9].0), "{seconds:?}");
        assert!(seconds[10].0 > 800 && seconds[11] == (1_000, 1_000.0), "{seconds:?}");
        // The chance follows the rate, but the sums stay right all the time.
        let all: f64 = seconds.iter().map(|(_, weight)| weight).sum();
        assert!((all / 1_026_000.0 - 1.0).abs() < 0.05, "{all}");
    }

    #[test]
    fn of_requests_that_come_at_intervals_all_are_noted_if_they_are_few() {
        let bursts = (0..30).map(|i| (i * 333, 600));
        let all: u32 = noted(bursts).iter().map(|(n, _)| n).sum();
        assert_eq!(all, 30 * 600);
    }

    /// Each 257th run was noted once, and of a client that asks for 257 keys in turn always the same key.
    #[test]
    fn no_order_of_requests_is_met_in_the_same_place_each_time() {
        let (mut notes, mut random) = (Notes::default(), Rng::with_seed(7));
        notes.one_of = 100.0;
        let mut at = 0;
        let positions: Vec<usize> = (0..20_000)
            .map(|_| {
                (notes.noted, notes.noted_max) = (0, 2);
                at += notes.next(usize::MAX, &mut random).expect("it is endless").0 + 1;
                at
            })
            .collect();
        for period in (2..16).chain([64, 128, 255, 256, 257, 511, 512, 514, 1000]) {
            let mut met = vec![0; period];
            positions.iter().for_each(|position| met[position % period] += 1);
            // As far from even as by throws of dice: each count is within six standard deviations.
            let even = positions.len() as f64 / period as f64;
            let far = |n: &usize| (*n as f64 - even).abs() > 6.0 * even.sqrt();
            assert!(!met.iter().any(far), "every {period}: {met:?}");
        }
    }

    #[test]
    fn a_clock_that_is_put_back_stops_nothing() {
        let back = even(64_000, 16, 0..2_000);
        let (mut notes, mut random) = (Notes::default(), Rng::with_seed(7));
        notes.begin_run(&mut random, NOW + 3_600_000);
        let noted: usize = back
            .map(|(at, len)| {
                notes.begin_run(&mut random, NOW + at);
                let mut rest = len;
                std::iter::from_fn(|| {
                    let (passed, _) = notes.next(rest, &mut random)?;
                    rest -= passed + 1;
                    Some(())
                })
                .count()
            })
            .sum();
        assert!((4_000..15_000).contains(&noted), "{noted}");
    }
}
