//! `compare`: measures the index and its peers, and shows each ratio with its aim.
//!
//! Targets take turns within one run, and every ratio is taken round by round within that run. `table.rs`
//! compares at equal bytes of index, `free.rs` with default memory, `time.rs` while the hot keys or the table
//! change.

mod free;
mod literature;
mod outcome;
mod table;
mod time;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::machine::{self, Machine};
use crate::measure::fitness::Fitness;
use crate::measure::load::Loaded;
use crate::measure::rounds::{Entrant, Rounds, Samples};
use crate::report::{self, Files};
use crate::targets::{Mode, Plan};
use crate::workload::feed::Feed;
use crate::workload::operations::{Keys, Workload};
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;
use outcome::{Measured, Outcome};

/// Compare the index with other indexes and with its aims, in one run
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "20M")]
    keys: u64,
    /// Operations per thread and round
    #[arg(long, value_parser = crate::count::count, default_value = "4M")]
    ops: u64,
    /// Measured rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Minimum number of warm-up rounds
    #[arg(long, default_value_t = 1)]
    warmup: usize,
    /// Maximum number of warm-up rounds; warm-up ends once visits per lookup are stable
    #[arg(long, default_value_t = 256)]
    warmup_max: usize,
    /// Thread counts; threads are pinned to cores in order
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Seconds before and after the hot keys change
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// A trial of a minute or two, whose figures are not valid: 625k keys, 200k operations, 3 rounds, half a second
    #[arg(long, conflicts_with_all = ["keys", "ops", "rounds", "seconds"])]
    quick: bool,
    /// Parts to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::value_variants().to_vec())]
    parts: Vec<Part>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// Parts that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The paper's comparison: chains of 8 and of 16 keys, and rings with as many bytes of index
    EqualMemory,
    /// The same with 100-byte values that are replaced by every write
    Rcu,
    /// All built-in targets, each with its default memory
    Free,
    /// The rate after a shift of the hot keys
    Shift,
    /// The rate while the table grows
    Growth,
    /// Latencies of single reads while another thread works
    Tails,
}

/// The setting of one block of rounds.
#[derive(Clone, Copy, Debug)]
struct Scene {
    workload: Workload,
    skew: Skew,
    keys: u64,
    ops: u64,
}

/// A run: its settings and its results so far.
struct Run {
    rounds: Rounds,
    keys: u64,
    ops: u64,
    seconds: f64,
    threads: Vec<usize>,
    seed: u64,
    outcomes: Vec<Outcome>,
    measured: Vec<Measured>,
}

/// The results of a run, as JSON.
#[derive(Serialize)]
struct Results<'a> {
    machine: &'a Machine,
    command: Vec<String>,
    fitness: Fitness,
    ratios: &'a [Outcome],
    rates: &'a [Measured],
}

/// Lookups in flight in a batch.
const BATCH: usize = 64;

impl CompareArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(
            self.rounds > 0 && !self.threads.contains(&0),
            "--rounds and --threads must be at least 1"
        );
        ensure!(self.keys >= 1 << 10 && self.ops >= 1 << 10, "--keys and --ops are 1024 or more");
        ensure!(self.seconds > 0.0 && self.seconds < 3600.0, "--seconds is above 0 and below 3600");
        machine::huge_pages_for_all()?;
        let machine = Machine::here();
        println!("{machine}");
        let fitness = Fitness::measure(self.keys, self.ops)?;
        fitness.print();
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its figures are meaningless");
        }
        let mut run = self.begin();
        for part in &self.parts {
            match part {
                Part::EqualMemory => run.equal_memory()?,
                Part::Rcu => run.rcu()?,
                Part::Free => run.free()?,
                Part::Shift => run.shift()?,
                Part::Growth => run.growth()?,
                Part::Tails => run.tails()?,
            }
        }
        print!("{}", outcome::ratios(&run.outcomes));
        print!("{}", literature::published(&run.measured));
        print!("{}", outcome::rates(&run.measured));
        let command = std::env::args().collect();
        let (ratios, rates) = (&*run.outcomes, &*run.measured);
        self.files.write(rates, &Results { machine: &machine, command, fitness, ratios, rates })
    }

    fn begin(&self) -> Run {
        let (keys, ops, measured, seconds) = match self.quick {
            // Keeps the number of keys per slot that 20 million keys lead to.
            true => (625_000, 200_000, 3, 0.5),
            false => (self.keys, self.ops, self.rounds, self.seconds),
        };
        Run {
            rounds: Rounds { measured, warmup: self.warmup, warmup_max: self.warmup_max },
            keys,
            ops,
            seconds,
            threads: self.threads.clone(),
            seed: self.seed,
            outcomes: Vec::new(),
            measured: Vec::new(),
        }
    }
}

impl Run {
    fn threads_max(&self) -> usize {
        self.threads.iter().max().copied().unwrap_or(1)
    }

    fn source(&self, scene: &Scene, threads: usize, hot_set: u64) -> Feed<'static> {
        let Scene { workload, skew, keys, ops } = *scene;
        Draw { workload, skew, keys, threads, ops, seed: self.seed, hot_set, turn: 0 }.into()
    }

    /// The most operations in memory at a time: those of the warm-up included, each in both forms of keys.
    fn stream_ops(&self) -> u64 {
        2 * (self.ops + self.ops / 4) * self.threads.iter().sum::<usize>() as u64
    }

    /// Loads all targets of a part next to each other.
    fn load(&self, plans: Vec<Plan>, keys: u64) -> Result<Vec<Loaded>> {
        let scattered = |plan: Plan| Plan { keys: Keys::Scattered, ..plan };
        let plans: Vec<Plan> = plans.into_iter().map(scattered).collect();
        Loaded::all(&plans, keys, self.stream_ops())
    }

    /// Measures rounds in which entrants and thread counts take turns. Returns the samples of all entrants for the
    /// first thread count, then those for the next, in the order of both.
    fn measure(
        &mut self,
        part: &str,
        scene: &Scene,
        loaded: &[Loaded],
        entrants: &[(usize, Mode)],
    ) -> Result<Vec<Vec<Samples>>> {
        let sources: Vec<Feed<'_>> =
            self.threads.iter().map(|&threads| self.source(scene, threads, 0)).collect();
        let all: Vec<Entrant<'_>> = sources
            .iter()
            .flat_map(|source| {
                entrants.iter().map(move |&(at, mode)| Entrant {
                    target: &*loaded[at].target,
                    mode,
                    source,
                })
            })
            .collect();
        let title = format!("{part}: {} {}", scene.workload, scene.skew);
        let bar = report::progress(self.rounds.turns(all.len()), &title);
        let samples = self.rounds.measure(&all, &bar)?;
        bar.finish_and_clear();
        for (n, (entrant, samples)) in all.iter().zip(&samples).enumerate() {
            let loaded = &loaded[entrants[n % entrants.len()].0];
            self.measured.push(Measured::new(part, scene, entrant, loaded, samples));
        }
        Ok(samples.chunks(entrants.len()).map(<[Samples]>::to_vec).collect())
    }

    fn bar(&self, title: &str, turns: usize) -> ProgressBar {
        report::progress(turns as u64, title)
    }
}
