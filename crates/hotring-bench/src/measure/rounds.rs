//! Rounds of a measurement: the compared targets take turns, so that drift of the machine hits all of them.
//!
//! Each turn's operations are drawn before the clock starts, and no two turns have the same ones. Turns are
//! repeated until the entrants have settled, then the first measured round begins.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use indicatif::ProgressBar;

use super::settle::{Settled, Settling};
use crate::machine;
use crate::report::Spread;
use crate::targets::{Mode, Tally, Target};
use crate::workload::feed::{Feed, Turn};
use crate::workload::operations::{Op, Stream};
use crate::workload::streams::Streams;

/// A participant of each round.
#[derive(Clone, Copy)]
pub struct Entrant<'a> {
    /// The target.
    pub target: &'a dyn Target,
    /// The mode of lookups.
    pub mode: Mode,
    /// The work of each thread.
    pub source: &'a Feed<'a>,
}

/// The numbers of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Measured rounds.
    pub measured: usize,
    /// Minimum number of warm-up rounds.
    pub warmup: usize,
    /// Maximum number of warm-up rounds; warm-up ends earlier once visits per lookup are stable.
    pub warmup_max: usize,
}

/// The rounds of one entrant.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Million operations a second, one for each round.
    pub mops: Vec<f64>,
    /// Items visited per lookup over the measured rounds, if the target counts them.
    pub visits: Option<f64>,
    /// The warm-up before the measured rounds.
    pub settled: Settled,
}

impl Samples {
    /// The median and the spread of the rates.
    pub fn spread(&self) -> Spread {
        Spread::of(&self.mops)
    }

    /// This rate as a multiple of the other, round by round.
    pub fn ratio(&self, other: &Samples) -> Spread {
        let ratios: Vec<f64> = self.mops.iter().zip(&other.mops).map(|(a, b)| a / b).collect();
        Spread::of(&ratios)
    }
}

impl Rounds {
    /// The total number of measured turns.
    pub fn turns(&self, entrants: usize) -> u64 {
        (self.measured * entrants) as u64
    }

    /// Runs all rounds; the bar moves with each turn. The results have the order of `entrants`.
    pub fn measure(&self, entrants: &[Entrant<'_>], bar: &ProgressBar) -> Result<Vec<Samples>> {
        let settled = self.settle(entrants, bar)?;
        let start = |settled| Samples { settled, ..Samples::default() };
        let mut samples: Vec<Samples> = settled.into_iter().map(start).collect();
        let mut counted = vec![(0, 0); entrants.len()];
        for round in 0..self.measured {
            let drawn = draw(entrants, MEASURED + round as u64)?;
            for turn in 0..entrants.len() {
                // Each round begins with another entrant, so that none always follows the same one.
                let at = (round + turn) % entrants.len();
                let (mops, more) = entrants[at].take(&drawn)?;
                bar.inc(1);
                samples[at].mops.push(mops);
                let (lookups, visits) = more.unwrap_or_default();
                counted[at].0 += lookups;
                counted[at].1 += visits;
            }
        }
        for (sample, (lookups, visits)) in samples.iter_mut().zip(counted) {
            sample.visits = (lookups > 0).then(|| visits as f64 / lookups as f64);
        }
        Ok(samples)
    }

    /// Runs all entrants until each has settled.
    pub fn settle(&self, entrants: &[Entrant<'_>], bar: &ProgressBar) -> Result<Vec<Settled>> {
        let new = |entrant: &Entrant<'_>| Settling::new(entrant.source.keys());
        let mut all: Vec<Settling> = entrants.iter().map(new).collect();
        for round in 0..self.warmup.max(self.warmup_max) {
            let wants = |settling: &Settling| round < self.warmup || !settling.so_far.is_stable;
            if !all.iter().any(wants) {
                break;
            }
            let drawn = draw(entrants, round as u64)?;
            for (entrant, settling) in entrants.iter().zip(&mut all) {
                if wants(settling) {
                    bar.inc_length(1);
                    let start = Instant::now();
                    let (_, counted) = entrant.take(&drawn)?;
                    let ops = drawn_for(&drawn, entrant).timed.ops() as u64;
                    settling.note(ops, start.elapsed(), counted);
                    bar.inc(1);
                }
            }
        }
        Ok(all.into_iter().map(|settling| settling.so_far).collect())
    }
}

/// The first measured draw. Warm-up turns use smaller numbers.
const MEASURED: u64 = 1 << 32;

/// A round's operations, once for each source.
type Drawn<'a> = Vec<(&'a Feed<'a>, Turn)>;

fn draw<'a>(entrants: &[Entrant<'a>], turn: u64) -> Result<Drawn<'a>> {
    let mut drawn: Drawn<'a> = Vec::new();
    for Entrant { source, .. } in entrants {
        if !drawn.iter().any(|(known, _)| std::ptr::eq(*known, *source)) {
            drawn.push((source, source.turn(turn)?));
        }
    }
    Ok(drawn)
}

fn drawn_for<'a>(drawn: &'a Drawn<'_>, entrant: &Entrant<'_>) -> &'a Turn {
    let own = drawn.iter().find(|(source, _)| std::ptr::eq(*source, entrant.source));
    &own.expect("a turn was drawn from each entrant's source").1
}

impl Entrant<'_> {
    /// Runs one turn. Returns the rate over all threads, from the first start to the last end, and if the target
    /// counts them, the sampled lookups and their visits.
    fn take(&self, drawn: &Drawn<'_>) -> Result<(f64, Option<(u64, u64)>)> {
        let Turn { lead, timed } = drawn_for(drawn, self);
        let before = self.target.visits();
        let mops = self.run(lead, timed)?;
        let counted = before.zip(self.target.visits());
        Ok((mops, counted.map(|(before, after)| (after.0 - before.0, after.1 - before.1))))
    }

    fn run(&self, lead: &Streams, timed: &Streams) -> Result<f64> {
        let keys = self.target.keys();
        let (leads, streams) = (lead.of_keys(keys), timed.of_keys(keys));
        let barrier = Barrier::new(streams.len());
        let work = |core: usize, lead: &[Op], ops: &[Op]| {
            let pinned = machine::pin(core);
            let stream = Stream::of(ops);
            let mut worker = self.target.worker();
            // The other targets have filled the caches since the last turn.
            worker.run(Stream::of(lead), self.mode);
            barrier.wait();
            let start = Instant::now();
            let tally = worker.run(stream, self.mode);
            let end = Instant::now();
            pinned.map(|()| (start, end, tally))
        };
        let work = &work;
        let results: Vec<Result<(Instant, Instant, Tally)>> = std::thread::scope(|scope| {
            let threads = leads.iter().zip(streams).enumerate();
            let handles: Vec<_> = threads
                .map(|(core, (lead, ops))| scope.spawn(move || work(core, lead, ops)))
                .collect();
            handles.into_iter().map(|h| h.join().expect("a measuring thread panicked")).collect()
        });
        let results = results.into_iter().collect::<Result<Vec<_>>>()?;
        let mut tally = Tally::default();
        results.iter().for_each(|result| tally.add(result.2));
        check(self.target, &tally, timed.present)?;
        streams.iter().for_each(|ops| self.target.worker().undo(ops));
        let start = results.iter().map(|result| result.0).min();
        let end = results.iter().map(|result| result.1).max();
        let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
        Ok(timed.ops() as f64 / elapsed.as_secs_f64() / 1e6)
    }
}

/// Fails if a target loses keys, invents them or mixes up their values: such a target must not get a figure.
pub fn check(target: &dyn Target, tally: &Tally, present: bool) -> Result<()> {
    let name = target.name();
    let absent = if present { tally.missed } else { tally.found };
    let wrong = absent + tally.wrong;
    ensure!(wrong == 0, "{name}: {wrong} reads with a wrong answer (keys present: {present})");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Mutex;

    use super::*;
    use crate::targets::{Plan, TargetName, Worker};
    use crate::workload::operations::{Keys, Workload};
    use crate::workload::skew::Skew;
    use crate::workload::streams::Draw;

    const KEYS: u64 = 1_000;

    /// Records its operations, and reports half as many visited items each time.
    #[derive(Default)]
    struct Recorder {
        runs: Mutex<Vec<Vec<u64>>>,
    }

    impl Target for Recorder {
        fn name(&self) -> &str {
            "recorder"
        }

        fn keys(&self) -> Keys {
            Keys::Dense
        }

        fn load(&self, _: u64, _: &ProgressBar) {}

        fn worker(&self) -> Box<dyn Worker + '_> {
            Box::new(self)
        }

        fn visits(&self) -> Option<(u64, u64)> {
            let turns = self.runs.lock().unwrap().len() as i32 / 2;
            Some((
                1_000_000 * turns as u64,
                (0..turns).map(|n| 1_000_000 + (4e6 / 2_f64.powi(n)) as u64).sum(),
            ))
        }

        fn index_bytes(&self) -> Option<u64> {
            None
        }
    }

    impl Worker for &Recorder {
        fn run(&mut self, stream: Stream<'_>, _: Mode) -> Tally {
            let ops = stream.ops;
            self.runs.lock().unwrap().push(ops.iter().map(|op| op.key()).collect());
            Tally { found: ops.len() as u64, ..Tally::default() }
        }

        fn time(&mut self, _: &[Op], _: &mut dyn FnMut(u64)) -> Tally {
            unreachable!("nothing is timed one by one")
        }

        fn settle(&mut self) {}

        fn undo(&mut self, _: &[Op]) {}
    }

    fn source() -> Feed<'static> {
        let (workload, skew) = (Workload::C, Skew::Zipf(0.9));
        let draw =
            Draw { workload, skew, keys: KEYS, threads: 1, ops: 500, seed: 1, hot_set: 0, turn: 0 };
        draw.into()
    }

    /// If rounds replayed one stream, or its beginning as the warm-up, a strategy that remembers the
    /// last accesses would be measured by its memory.
    #[test]
    fn no_turn_repeats_another() {
        let (recorder, source) = (Recorder::default(), source());
        let entrant = Entrant { target: &recorder, mode: Mode::Scalar, source: &source };
        let rounds = Rounds { measured: 3, warmup: 1, warmup_max: 50 };
        let samples = rounds.measure(&[entrant], &ProgressBar::hidden()).unwrap();
        let runs = recorder.runs.into_inner().unwrap();
        assert_eq!(runs.len() as u64, 2 * (samples[0].settled.turns + 3), "a lead and a turn each");
        let distinct: HashSet<&Vec<u64>> = runs.iter().collect();
        assert_eq!(distinct.len(), runs.len());
        for pair in runs.chunks(2) {
            let tail = &pair[1][pair[1].len() - pair[0].len()..];
            assert_ne!(pair[0], tail, "the lead is a part of what is timed");
        }
    }

    #[test]
    fn warming_up_ends_when_visits_are_stable_or_at_its_limit() {
        let turns = |warmup, warmup_max| {
            let (recorder, source) = (Recorder::default(), source());
            let entrant = Entrant { target: &recorder, mode: Mode::Scalar, source: &source };
            let rounds = Rounds { measured: 1, warmup, warmup_max };
            let samples = rounds.measure(&[entrant], &ProgressBar::hidden()).unwrap();
            (samples[0].settled.turns, samples[0].settled.is_stable)
        };
        let (settled, is_stable) = turns(1, 500);
        // Visits halve with each turn: 5, 3, 2, ... are not stable, 1.03 and 1.00 are.
        assert!((8..=64).contains(&settled) && is_stable, "{settled}");
        assert_eq!(turns(1, 4), (4, false));
        assert_eq!(turns(100, 0), (100, true));
        assert_eq!(turns(0, 0), (0, false));
    }

    /// With one stream for all rounds, HotRing-s would never finish its sampling, and would visit more
    /// items than HotRing-r, which only has to remember the stream.
    #[test]
    fn the_ring_that_samples_visits_fewer_items_than_the_one_that_guesses() {
        use hotring_index::{Config, Strategy};
        let keys = 1 << 15;
        let ring = |strategy| {
            let config = Config { strategy, ..Config::default() };
            let plan = Plan { hints: 1, config, ..Plan::new(TargetName::Hotring, keys) };
            let target = plan.with_items_per_slot(keys, 16.0).build().unwrap();
            target.load(keys, &ProgressBar::hidden());
            target
        };
        let rings = [Strategy::Random, Strategy::Sampling].map(ring);
        let (workload, skew) = (Workload::C, Skew::Zipf(1.22));
        let draw =
            Draw { workload, skew, keys, threads: 1, ops: keys, seed: 1, hot_set: 0, turn: 0 };
        let source = Feed::from(draw);
        let mode = Mode::Scalar;
        let entrants = [0, 1].map(|at| Entrant { target: &*rings[at], mode, source: &source });
        let rounds = Rounds { measured: 4, warmup: 1, warmup_max: 40 };
        let samples = rounds.measure(&entrants, &ProgressBar::hidden()).unwrap();
        let [random, sampling] = [0, 1].map(|at| samples[at].visits.unwrap());
        assert!(
            sampling < random,
            "sampling {sampling:.2}, random {random:.2} visits: {samples:?}"
        );
    }
}
