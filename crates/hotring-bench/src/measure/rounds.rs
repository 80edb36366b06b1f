//! Runs streams on pinned threads, round by round, one target after the other.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use indicatif::ProgressBar;

use crate::machine;
use crate::targets::{Mode, Tally, Target};
use crate::workload::operations::Op;
use crate::workload::streams::Streams;

/// What is measured in one block of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    /// How lookups are made.
    pub mode: Mode,
    /// Measured rounds.
    pub rounds: usize,
    /// Rounds before those.
    pub warmup: usize,
    /// What each thread does.
    pub streams: &'a Streams,
}

/// What the rounds of one target gave.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Million operations a second, one for each round.
    pub mops: Vec<f64>,
    /// Items visited per lookup over the measured rounds, where the target counts them.
    pub visits: Option<f64>,
}

impl Setting<'_> {
    /// Runs all rounds. The result has the order of `targets`.
    pub fn measure(&self, targets: &[&dyn Target], bar: &ProgressBar) -> Result<Vec<Samples>> {
        let mut samples = vec![Samples::default(); targets.len()];
        let mut counted = vec![(0, 0); targets.len()];
        for round in 0..self.warmup + self.rounds {
            for turn in 0..targets.len() {
                // Another target begins each round, so that none always follows the same one.
                let at = (round + turn) % targets.len();
                let before = targets[at].visits();
                let mops = self.round(targets[at])?;
                bar.inc(1);
                if round < self.warmup {
                    continue;
                }
                samples[at].mops.push(mops);
                if let (Some(before), Some(after)) = (before, targets[at].visits()) {
                    counted[at].0 += after.0 - before.0;
                    counted[at].1 += after.1 - before.1;
                }
            }
        }
        for (sample, (lookups, visits)) in samples.iter_mut().zip(counted) {
            sample.visits = (lookups > 0).then(|| visits as f64 / lookups as f64);
        }
        Ok(samples)
    }

    /// One round of one target: the rate over all threads, from the common start to the last end.
    fn round(&self, target: &dyn Target) -> Result<f64> {
        let streams = self.streams.of_keys(target.keys());
        let barrier = Barrier::new(streams.len());
        let work = |core: usize, ops: &[Op]| {
            let pinned = machine::pin(core);
            let mut worker = target.worker();
            barrier.wait();
            let start = Instant::now();
            let tally = worker.run(ops, self.mode);
            let end = Instant::now();
            pinned.map(|()| (start, end, tally))
        };
        let work = &work;
        let results: Vec<Result<(Instant, Instant, Tally)>> = std::thread::scope(|scope| {
            let threads = streams.iter().enumerate();
            let handles: Vec<_> =
                threads.map(|(core, ops)| scope.spawn(move || work(core, ops))).collect();
            handles.into_iter().map(|h| h.join().expect("a measuring thread panicked")).collect()
        });
        let results = results.into_iter().collect::<Result<Vec<_>>>()?;
        let mut tally = Tally::default();
        results.iter().for_each(|result| tally.add(result.2));
        check(target, &tally, self.streams.present)?;
        streams.iter().for_each(|ops| target.worker().undo(ops));
        let start = results.iter().map(|result| result.0).min();
        let end = results.iter().map(|result| result.1).max();
        let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
        Ok(self.streams.ops() as f64 / elapsed.as_secs_f64() / 1e6)
    }
}

/// A target that loses keys, invents them or mixes up their values must not get a figure.
pub fn check(target: &dyn Target, tally: &Tally, present: bool) -> Result<()> {
    let name = target.name();
    let absent = if present { tally.missed } else { tally.found };
    let wrong = absent + tally.wrong;
    ensure!(wrong == 0, "{name}: {wrong} reads with a wrong answer (keys present: {present})");
    Ok(())
}
