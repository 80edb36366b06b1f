//! Whether the harness is fit to measure: compares its loop with bare loops over the same data.
//!
//! The harness adds work to each operation: it must add the answer to a sum, and notice if there is none. That work
//! flatters slow targets. So in each run that measures, the harness's loop and a bare loop take turns on the same
//! operations, over the direct array of the oracle and over a plain chained hash. Each run warns when the harness
//! is too far behind either bare loop.

use std::fmt;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::machine;
use crate::report::Spread;
use crate::targets::{Engine, Mode, Plan, Session, Target, TargetName, named};
use crate::workload::feed::Feed;
use crate::workload::operations::{Keys, Op, Stream, Workload};
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;

/// The least rate of the oracle, as a share of a bare loop's.
const FIT: f64 = 0.9;
/// The least rate of the chain, as a share of a bare loop's. Its code per lookup is much longer, and the harness
/// unrolls it.
const FIT_CHAIN: f64 = 0.75;
/// The number of turns. The ratio is the median of those within a turn.
const TURNS: u64 = 9;
/// More keys than caches hold, but few enough to load in a moment.
const KEYS: u64 = 1 << 22;
/// Operations of one turn.
const OPS: u64 = 1 << 21;

/// The result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fitness {
    /// The oracle's rate as a share of the rate of a bare loop over an array.
    pub of_bare: f64,
    /// The rate of a plain chained hash as a share of the rate of a bare loop over it.
    pub of_bare_chain: f64,
    /// Whether both rates are sufficient.
    pub is_fit: bool,
}

impl Fitness {
    /// Measures this harness, for a run with these numbers of keys and operations per turn.
    pub fn measure(keys: u64, ops: u64) -> Result<Self> {
        let (keys, ops) = (keys.clamp(1, KEYS), ops.clamp(1, OPS));
        let oracle = Plan::new(TargetName::Oracle, keys).build()?;
        oracle.load(keys, &ProgressBar::hidden());
        // As many bytes per key as in the oracle, in memory of the same kind.
        let cells: Vec<[u64; 2]> = (0..keys).map(|key| [1, key]).collect();
        let of_bare = ratio(&*oracle, |ops| bare(&cells, ops), keys, ops)?;
        drop((oracle, cells));
        let chain = Arc::new(Chain::of(keys));
        let target = named("chain", chain.clone());
        let of_bare_chain = ratio(&*target, |ops| bare_chain(&chain, ops), keys, ops)?;
        Ok(Self::judge(of_bare, of_bare_chain))
    }

    fn judge(of_bare: f64, of_bare_chain: f64) -> Self {
        Fitness { of_bare, of_bare_chain, is_fit: of_bare >= FIT && of_bare_chain >= FIT_CHAIN }
    }

    /// Prints the result, prominently if it is bad.
    pub fn print(&self) {
        println!("{self}");
        if !self.is_fit {
            eprintln!("{self}");
        }
    }
}

impl fmt::Display for Fitness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [oracle, chain] = [self.of_bare, self.of_bare_chain].map(|part| 100.0 * part);
        let verdict = if self.is_fit { "harness" } else { "UNFIT RUN" };
        write!(
            f,
            "{verdict}: the oracle has {oracle:.0} % of a bare loop's rate, a plain chain {chain:.0} %"
        )?;
        if !self.is_fit {
            write!(
                f,
                "; they must have {:.0} % and {:.0} %. Do not use these figures: ratios to the oracle, and between \
                 fast targets, are flattered",
                100.0 * FIT,
                100.0 * FIT_CHAIN
            )?;
        }
        Ok(())
    }
}

/// The rate of a target as a share of that of `bare`, which runs the same operations: the median over the turns.
fn ratio(
    target: &dyn Target,
    bare: impl Fn(&[Op]) -> u64 + Sync,
    keys: u64,
    ops: u64,
) -> Result<f64> {
    let (workload, skew) = (Workload::C, Skew::Uniform);
    let draw = Draw { workload, skew, keys, threads: 1, ops, seed: 1, hot_set: 0, turn: 0 };
    let feed = Feed::Drawn { draw, is_scattered: false };
    let turn = |turn: u64| -> Result<f64> {
        let ops = feed.stream(turn, 0, target.keys())?;
        let (mut worker, stream) = (target.worker(), Stream::of(&ops));
        let mut times = [0.0; 2];
        for at in [turn % 2, (turn + 1) % 2] {
            let start = Instant::now();
            match at {
                0 => drop(black_box(worker.run(stream, Mode::Scalar))),
                _ => drop(black_box(bare(&ops))),
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
    Ok(Spread::of(&ratios.context("cannot compare the harness with a bare loop")?).median)
}

/// The loop of a program without any other work. It must never be inlined, so that every caller runs the same
/// code.
#[inline(never)]
fn bare(cells: &[[u64; 2]], ops: &[Op]) -> u64 {
    ops.iter().fold(0, |sum, op| sum ^ cells[op.read_key() as usize][1])
}

/// The bare loop over a chained hash.
#[inline(never)]
fn bare_chain(chain: &Chain, ops: &[Op]) -> u64 {
    let chain = chain.view();
    ops.iter().fold(0, |sum, op| sum ^ chain.find(op.read_key()).unwrap_or_default())
}

/// A plain single-threaded chained hash with one key per bucket on average.
struct Chain {
    /// The number of the bucket's first node plus one; 0 for none.
    heads: Vec<u32>,
    nodes: Vec<Node>,
    shift: u32,
}

struct Node {
    key: u64,
    value: u64,
    /// The next node of the chain, encoded as in `heads`.
    next: u32,
}

impl Chain {
    fn of(keys: u64) -> Self {
        let buckets = keys.next_power_of_two().max(2);
        let shift = u64::BITS - buckets.ilog2();
        let mut chain = Chain { heads: vec![0; buckets as usize], nodes: Vec::new(), shift };
        for number in 0..keys {
            let key = Keys::Scattered.key(number);
            let bucket = chain.bucket(key);
            chain.nodes.push(Node { key, value: key, next: chain.heads[bucket] });
            chain.heads[bucket] = chain.nodes.len() as u32;
        }
        chain
    }

    fn bucket(&self, key: u64) -> usize {
        self.view().bucket(key)
    }

    fn view(&self) -> View<'_> {
        View { heads: &self.heads, nodes: &self.nodes, shift: self.shift }
    }
}

/// The chain in the form that a loop needs: without another pointer to follow.
#[derive(Clone, Copy)]
struct View<'a> {
    heads: &'a [u32],
    nodes: &'a [Node],
    shift: u32,
}

impl View<'_> {
    #[inline(always)]
    fn bucket(self, key: u64) -> usize {
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline(always)]
    fn find(self, key: u64) -> Option<u64> {
        let mut at = self.heads[self.bucket(key)];
        while at != 0 {
            let node = &self.nodes[at as usize - 1];
            if node.key == key {
                return Some(node.value);
            }
            at = node.next;
        }
        None
    }
}

impl Engine for Arc<Chain> {
    type Session<'a> = View<'a>;

    fn session(&self) -> Self::Session<'_> {
        self.view()
    }
}

/// The chain must be filled before it becomes a target, and never changes afterwards.
impl Session for View<'_> {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.find(key)
    }

    fn put(&mut self, _: u64, _: u64) {}

    fn remove(&mut self, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An oracle that wastes time in each lookup.
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
        let part =
            ratio(&*slow, |ops| ops.iter().fold(0, |sum, op| sum ^ op.key()), 1 << 10, 1 << 12);
        let fitness = Fitness::judge(part.unwrap(), 1.0);
        assert!(!fitness.is_fit && fitness.of_bare < 0.5, "{fitness:?}");
        assert!(fitness.to_string().starts_with("UNFIT RUN"), "{fitness}");
        assert!(Fitness::judge(0.91, 0.91).is_fit);
        assert!(!Fitness::judge(0.89, 0.91).is_fit && !Fitness::judge(0.91, 0.74).is_fit);
        assert!(Fitness::judge(0.91, 0.95).to_string().contains("91 % of a bare loop's rate"));
    }

    #[test]
    fn the_harness_can_be_compared_with_an_oracle() {
        // The rate of unoptimised code is meaningless.
        let fitness = Fitness::measure(1 << 10, 1 << 10).unwrap();
        assert!(fitness.of_bare > 0.0 && fitness.of_bare.is_finite(), "{fitness:?}");
    }
}
