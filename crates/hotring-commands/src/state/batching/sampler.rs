//! Chooses the runs whose requests are timed. Reading the clock twice for every GET would take a large part of its
//! time.
//!
//! The gaps between sampled runs are random, so that a periodic request pattern is not always sampled at the same
//! position. They are drawn one at a time: all other runs only decrement a counter.

use fastrand::Rng;

/// One in this many runs is sampled, on average.
pub(crate) const SAMPLED_RUN: u32 = 256;

/// Chooses which runs of one thread are sampled.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    /// The number of runs to skip before the next sampled run.
    left: u32,
}

impl Sampler {
    /// Begins a run; true if the run is sampled. The first run is.
    #[inline]
    pub(crate) fn begin_run(&mut self, random: &mut Rng) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                false
            }
            None => {
                self.draw(random);
                true
            }
        }
    }

    /// Draws the distance to the next sampled run: 1 to 511 runs, all equally likely.
    #[cold]
    fn draw(&mut self, random: &mut Rng) {
        let steps = u64::from(2 * SAMPLED_RUN - 1);
        self.left = u32::try_from(random.u64(..steps)).expect("it is below `steps`");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: usize = 1 << 20;

    fn sampled() -> Vec<usize> {
        let (mut sampler, mut random) = (Sampler::default(), Rng::with_seed(7));
        (0..RUNS).filter(|_| sampler.begin_run(&mut random)).collect()
    }

    #[test]
    fn the_first_run_and_then_a_share_of_runs_is_sampled() {
        let sampled = sampled();
        assert_eq!(sampled[0], 0);
        assert!(sampled.windows(2).all(|pair| pair[1] - pair[0] < 2 * SAMPLED_RUN as usize));
        let expected = RUNS / SAMPLED_RUN as usize;
        assert!(sampled.len().abs_diff(expected) < expected / 10, "{}", sampled.len());
    }

    /// Each 257th run was sampled once, and of a client that asks for 257 keys in turn always the same key.
    #[test]
    fn no_order_of_requests_is_met_in_the_same_place_each_time() {
        let sampled = sampled();
        for period in (2..16).chain([64, 128, 255, 256, 257, 511, 512, 514, 1000]) {
            let mut met = vec![0; period];
            sampled.iter().for_each(|run| met[run % period] += 1);
            // As far from even as by throws of dice: each count is within six standard deviations.
            let even = sampled.len() as f64 / period as f64;
            let far = |n: &usize| (*n as f64 - even).abs() > 6.0 * even.sqrt();
            assert!(!met.iter().any(far), "every {period}: {met:?}");
        }
    }
}
