//! Whether the harness is fit to measure: its oracle beside a bare loop over an array.
//!
//! The oracle is the limit that all others are compared with. What the harness adds to it (finding out
//! what an operation is, checking answers) would be added to all, and flatter the slow ones. So both
//! take turns on the same operations in each run that measures, and a run in which the oracle is more
//! than a tenth behind says so.

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::machine;
use crate::report::Spread;
use crate::targets::{Mode, Plan, Target, TargetName};
use crate::workload::feed::Feed;
use crate::workload::operations::{Keys, Op, Workload};
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;

/// The part of a bare loop's rate that the oracle has at least.
const FIT: f64 = 0.9;
/// Turns of both; the ratio is the median of those within a turn.
const TURNS: u64 = 9;
/// More keys than caches hold, and few enough to be loaded in a moment.
const KEYS: u64 = 1 << 22;
/// Of one turn.
const OPS: u64 = 1 << 21;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fitness {
    /// The oracle's rate as a part of the bare loop's.
    pub of_bare: f64,
    /// Whether that is enough.
    pub is_fit: bool,
}

impl Fitness {
    /// Of this harness, for a run with so many keys and operations a turn.
    pub fn measure(keys: u64, ops: u64) -> Result<Self> {
        let (keys, ops) = (keys.clamp(1, KEYS), ops.clamp(1, OPS));
        let oracle = Plan::new(TargetName::Oracle, keys).build()?;
        oracle.load(keys, &ProgressBar::hidden());
        Self::of(&*oracle, keys, ops)
    }

    /// Of a target that holds the keys numbered below `keys`.
    fn of(target: &dyn Target, keys: u64, ops: u64) -> Result<Self> {
        let (workload, skew) = (Workload::C, Skew::Uniform);
        let draw = Draw { workload, skew, keys, threads: 1, ops, seed: 1, hot_set: 0, turn: 0 };
        let feed = Feed::Drawn { draw, is_scattered: false };
        // As many bytes a key as the oracle has, in memory of the same kind.
        let cells: Vec<[u64; 2]> = (0..keys).map(|key| [1, key]).collect();
        let turn = |turn: u64| -> Result<f64> {
            let ops = feed.stream(turn, 0, Keys::Dense)?;
            let mut worker = target.worker();
            let mut times = [0.0; 2];
            for at in [turn % 2, (turn + 1) % 2] {
                let start = Instant::now();
                match at {
                    0 => drop(black_box(worker.run(&ops, Mode::Scalar))),
                    _ => drop(black_box(bare(&cells, &ops))),
                }
                times[at as usize] = start.elapsed().as_secs_f64();
            }
            Ok(times[1] / times[0])
        };
        let ratios = std::thread::scope(|scope| {
            let turns = scope.spawn(|| {
                machine::pin(0)?;
                (0..TURNS).map(turn).collect::<Result<Vec<f64>>>()
            });
            turns.join().expect("the measuring thread panicked")
        });
        Ok(Self::judge(Spread::of(&ratios.context("the oracle beside a bare loop")?).median))
    }

    fn judge(of_bare: f64) -> Self {
        Fitness { of_bare, is_fit: of_bare >= FIT }
    }

    /// Says it, loudly if it is bad.
    pub fn tell(&self) {
        println!("{self}");
        if !self.is_fit {
            eprintln!("{self}");
        }
    }
}

impl fmt::Display for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.of_bare;
        match self.is_fit {
            true => write!(f, "harness: its oracle has {percent:.0} % of a bare loop's rate"),
            false => write!(
                f,
                "UNFIT RUN: the harness's oracle has {percent:.0} % of a bare loop's rate, below {:.0} \
                 %. Do not use these figures: ratios to the oracle, and between fast targets, are \
                 flattered",
                100.0 * FIT
            ),
        }
    }
}

/// What a program would do that has only this to do. Never inlined, so that it is compiled alike
/// wherever it is called.
#[inline(never)]
fn bare(cells: &[[u64; 2]], ops: &[Op]) -> u64 {
    ops.iter().fold(0, |sum, op| sum ^ cells[op.key() as usize][1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{Engine, Session, named};

    /// An oracle that has something else to do with each lookup.
    struct Slow;

    impl Engine for Slow {
        type Session<'a> = &'a Slow;

        fn session(&self) -> Self::Session<'_> {
            self
        }
    }

    impl Session for &Slow {
        fn get(&mut self, key: u64) -> Option<u64> {
            (0..200).for_each(|n| {
                black_box(n);
            });
            Some(key)
        }

        fn put(&mut self, _: u64, _: u64) {}

        fn remove(&mut self, _: u64) {}
    }

    #[test]
    fn a_slow_oracle_makes_a_run_unfit_and_says_so() {
        let slow = named("slow", Slow);
        let fitness = Fitness::of(&*slow, 1 << 10, 1 << 12).unwrap();
        assert!(!fitness.is_fit && fitness.of_bare < 0.5, "{fitness:?}");
        assert!(fitness.to_string().starts_with("UNFIT RUN"), "{fitness}");
        assert!(Fitness::judge(0.91).is_fit && !Fitness::judge(0.89).is_fit);
        assert!(Fitness::judge(0.91).to_string().contains("91 % of a bare loop's rate"));
    }

    #[test]
    fn the_harness_has_an_oracle_to_be_held_to() {
        // Unoptimised code says nothing about the rate.
        let fitness = Fitness::measure(1 << 10, 1 << 10).unwrap();
        assert!(fitness.of_bare > 0.0 && fitness.of_bare.is_finite(), "{fitness:?}");
    }
}
