//! The scales of a run of `figures`: the amount of data and the length of measurements.

use std::fmt;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::machine;
use crate::report::short;

/// The amount of data and the duration of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// For tests only: runs all code, without valid figures
    #[value(hide = true)]
    Tiny,
    /// Some minutes: tables much larger than the cache
    Small,
    /// About an hour: 17 million keys
    Medium,
    /// Hours: 268 million keys (250 million in the papers), or as many as memory allows
    Full,
}

/// The numbers of a scale.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Keys of a table.
    pub keys: u64,
    /// Operations of a thread in a round.
    pub ops: u64,
    /// Measured rounds; figures are medians.
    pub rounds: usize,
    /// The least number of warm-up rounds.
    pub warmup: usize,
    /// The most warm-up rounds; warm-up ends earlier once visits per lookup are stable.
    pub warmup_max: usize,
    /// The number of threads of a figure that uses all of them.
    pub threads: usize,
    /// Seconds that a figure over time covers.
    pub seconds: f64,
}

/// The most bytes per key, in the figure that loads the most tables at once.
const BYTES_PER_KEY: u64 = 600;

/// The most warm-up rounds. An index that has not settled by then is measured as it is.
const WARMUP_MAX: usize = 256;

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value().expect("no variant is skipped");
        f.write_str(name.get_name())
    }
}

impl Scale {
    /// The numbers of this scale on this machine.
    pub fn size(self) -> Result<Size> {
        let threads = machine::cores().len().min(64);
        ensure!(threads > 0, "the kernel names no core to run on");
        let memory = machine::Machine::here().memory_gib * (1_u64 << 30) as f64;
        let fit = (memory * 0.8) as u64 / BYTES_PER_KEY;
        let size = |keys: u64, ops, rounds, warmup, seconds| Size {
            warmup_max: if self == Scale::Tiny { 0 } else { WARMUP_MAX },
            keys: keys.min(fit),
            ops,
            rounds,
            warmup,
            threads,
            seconds,
        };
        let size = match self {
            Scale::Tiny => size(1 << 11, 1_000, 1, 0, 0.05),
            Scale::Small => size(1 << 21, 250_000, 5, 1, 4.0),
            Scale::Medium => size(1 << 24, 4_000_000, 5, 1, 10.0),
            Scale::Full => size(1 << 28, 16_000_000, 5, 1, 30.0),
        };
        Ok(size)
    }
}

impl Size {
    /// The thread counts of figures over threads: 1, 2, 4, ... up to all.
    pub fn thread_counts(&self) -> Vec<usize> {
        let powers = (0..).map(|power| 1 << power).take_while(|&count| count < self.threads);
        powers.chain([self.threads]).collect()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (keys, ops) = (short(self.keys as f64), short(self.ops as f64));
        let (rounds, threads) = (self.rounds, self.threads);
        write!(f, "{keys} keys, {rounds} rounds of {ops} operations a thread, {threads} threads")
    }
}
