//! Rounds: what is compared takes turns, so that drift of the machine hits all of it.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use indicatif::ProgressBar;

use crate::machine;
use crate::report::Spread;
use crate::targets::{Mode, Tally, Target};
use crate::workload::operations::{Kind, Op};
use crate::workload::streams::Streams;

/// The part of a stream that is run before the clock starts: one in so many operations.
const BEFORE: usize = 4;

/// What takes a turn in each round.
#[derive(Clone, Copy)]
pub struct Entrant<'a> {
    /// Who is at it.
    pub target: &'a dyn Target,
    /// How lookups are made.
    pub mode: Mode,
    /// What each thread does.
    pub streams: &'a Streams,
}

/// How often.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Measured rounds.
    pub measured: usize,
    /// Rounds before those.
    pub warmup: usize,
}

/// What the rounds of one entrant gave.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Million operations a second, one for each round.
    pub mops: Vec<f64>,
    /// Items visited per lookup over the measured rounds, where the target counts them.
    pub visits: Option<f64>,
}

impl Samples {
    /// The rates' median and how far they lie apart.
    pub fn spread(&self) -> Spread {
        Spread::of(&self.mops)
    }

    /// This rate as a multiple of the other one, round by round.
    pub fn ratio(&self, other: &Samples) -> Spread {
        let ratios: Vec<f64> = self.mops.iter().zip(&other.mops).map(|(a, b)| a / b).collect();
        Spread::of(&ratios)
    }
}

impl Rounds {
    /// How many turns are taken in all.
    pub fn turns(&self, entrants: usize) -> u64 {
        ((self.warmup + self.measured) * entrants) as u64
    }

    /// Runs all rounds; the bar moves with each turn. The result has the order of `entrants`.
    pub fn measure(&self, entrants: &[Entrant<'_>], bar: &ProgressBar) -> Result<Vec<Samples>> {
        let mut samples = vec![Samples::default(); entrants.len()];
        let mut counted = vec![(0, 0); entrants.len()];
        for round in 0..self.warmup + self.measured {
            for turn in 0..entrants.len() {
                // Another one begins each round, so that none always follows the same one.
                let at = (round + turn) % entrants.len();
                let target = entrants[at].target;
                let before = target.visits();
                let mops = entrants[at].run()?;
                bar.inc(1);
                if round < self.warmup {
                    continue;
                }
                samples[at].mops.push(mops);
                if let (Some(before), Some(after)) = (before, target.visits()) {
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
}

impl Entrant<'_> {
    /// One turn: the rate over all threads, from the common start to the last end.
    fn run(&self) -> Result<f64> {
        let streams = self.streams.of_keys(self.target.keys());
        let barrier = Barrier::new(streams.len());
        let work = |core: usize, ops: &[Op]| {
            let pinned = machine::pin(core);
            let mut worker = self.target.worker();
            // The others have had the caches since the last turn.
            worker.run(before(ops), self.mode);
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
        check(self.target, &tally, self.streams.present)?;
        streams.iter().for_each(|ops| self.target.worker().undo(ops));
        let start = results.iter().map(|result| result.0).min();
        let end = results.iter().map(|result| result.1).max();
        let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
        Ok(self.streams.ops() as f64 / elapsed.as_secs_f64() / 1e6)
    }
}

/// What a turn does before the clock starts: the last part of a stream, as long as nothing is inserted
/// by it.
fn before(ops: &[Op]) -> &[Op] {
    let start = ops.len() - ops.len() / BEFORE;
    let inserts = ops[start..].iter().rposition(|op| op.kind() == Kind::Insert);
    &ops[inserts.map_or(start, |at| start + at + 1)..]
}

/// A target that loses keys, invents them or mixes up their values must not get a figure.
pub fn check(target: &dyn Target, tally: &Tally, present: bool) -> Result<()> {
    let name = target.name();
    let absent = if present { tally.missed } else { tally.found };
    let wrong = absent + tally.wrong;
    ensure!(wrong == 0, "{name}: {wrong} reads with a wrong answer (keys present: {present})");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_inserted_before_the_clock_starts() {
        let keys = |ops: &[Op]| before(ops).iter().map(|op| op.key()).collect::<Vec<u64>>();
        let mut ops: Vec<Op> = (0..16).map(|key| Op::new(Kind::Read, key)).collect();
        assert_eq!(keys(&ops), [12, 13, 14, 15]);
        ops[13] = Op::new(Kind::Insert, 13);
        assert_eq!(keys(&ops), [14, 15]);
        ops[15] = Op::new(Kind::Insert, 15);
        assert!(before(&ops).is_empty() && before(&[]).is_empty());
    }
}
