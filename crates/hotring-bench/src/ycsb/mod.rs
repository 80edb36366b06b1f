//! `ycsb`: runs YCSB's core workloads on the index and on the targets that it is compared with.
//!
//! Keys are the numbers below `--keys`, or those of a trace. Streams of operations are drawn before the clock
//! starts. All targets are loaded at the same time. Within one setting each round runs them one after the other,
//! and each round begins with another one, so that drift of the machine hits all of them: only ratios within one
//! run are meaningful.

mod results;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use hotring_index::{Config, Strategy};
use serde::Serialize;

use crate::machine::{self, Machine};
use crate::measure::fitness::Fitness;
use crate::measure::latency;
use crate::measure::load::Loaded;
use crate::measure::rounds::{Entrant, Rounds};
use crate::report::{self, Files, Results};
use crate::targets::{Mode, Plan, Shape, Target, TargetName};
use crate::workload::feed::Feed;
use crate::workload::operations::{Keys, Workload};
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;
use crate::workload::trace::{Format, Trace};
use crate::workload::zipf::share_of_hottest;
use results::Row;

/// Run YCSB workloads on the index and on other targets
#[derive(Debug, Args)]
pub struct YcsbArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "20M")]
    keys: u64,
    /// Operations per thread and round
    #[arg(long, value_parser = crate::count::count, default_value = "4M")]
    ops: u64,
    /// Mixes of operations
    #[arg(long, value_enum, value_delimiter = ',', default_value = "b,c")]
    workloads: Vec<Workload>,
    /// Distributions of the accesses: "uniform", Zipf exponents of at least 0, "latest" (the most recently
    /// put keys are hot), "shift" (the hot keys change in the middle of a round); the last two may be
    /// followed by ":" and an exponent
    #[arg(long, value_delimiter = ',', default_value = "uniform,0.99,1.22")]
    skew: Vec<Skew>,
    /// Length of a key in bytes
    #[arg(long, default_value_t = 8)]
    key_size: usize,
    /// Length of a value in bytes. If both keys and values have 8 bytes, the maps are from u64 to u64,
    /// otherwise from byte strings to byte strings
    #[arg(long, default_value_t = 8)]
    value_size: usize,
    /// Replay the accesses of this trace, instead of --keys, --ops and --skew
    #[arg(long, conflicts_with_all = ["keys", "ops", "skew"])]
    trace: Option<PathBuf>,
    /// Format of the trace
    #[arg(long, value_enum, default_value = "u32le", requires = "trace")]
    format: Format,
    /// Single lookups, or batches
    #[arg(long, value_enum, value_delimiter = ',', default_value = "scalar,batched")]
    modes: Vec<ModeName>,
    /// Keys per batch
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Thread counts; threads are pinned to cores in order
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// Targets to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "hotring,oracle")]
    targets: Vec<TargetName>,
    /// Measured rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Minimum number of warm-up rounds
    #[arg(long, default_value_t = 1)]
    warmup: usize,
    /// Maximum number of warm-up rounds; warm-up ends once visits per lookup are stable
    #[arg(long, default_value_t = 256)]
    warmup_max: usize,
    /// Also measure the latency of single reads of the first thread, in a separate round during which
    /// the other threads work as usual
    #[arg(long)]
    latency: bool,
    /// Minimum bytes of table per key for HotRing and Chaining Hash, so that both have the same [default:
    /// each its own]
    #[arg(long, conflicts_with = "items_per_slot")]
    index_bytes: Option<f64>,
    /// Maximum keys per bucket for Chaining Hash (the paper's key-bucket ratio, exact if --keys is a power
    /// of two times that), with a table of as many bytes for HotRing; neither grows
    #[arg(long, conflicts_with_all = ["index_bytes", "items_per_slot"])]
    keys_per_bucket: Option<f64>,
    /// Scatter the keys as if drawn at random, for all targets but the oracle: some hashes spread
    /// neighbouring numbers more evenly than chance
    #[arg(long)]
    scatter: bool,
    #[command(flatten)]
    ring: RingArgs,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: Files,
}

/// How the ring is set up.
#[derive(Debug, Args)]
pub struct RingArgs {
    /// Strategies for finding hotspots
    #[arg(long, value_enum, value_delimiter = ',', default_value = "vote")]
    strategies: Vec<StrategyName>,
    /// Hints per slot: 1, 3 or 7 (1 is the paper's single head)
    #[arg(long, value_delimiter = ',', default_value = "7")]
    hints: Vec<usize>,
    /// Lookups in flight within one batch [default: the index's own]
    #[arg(long)]
    depth: Option<usize>,
    /// Fix the table at this many items per slot, instead of letting it grow
    #[arg(long)]
    items_per_slot: Option<f64>,
    /// Accesses between two moves of a head (the paper's R) [default: the index's own]
    #[arg(long)]
    period: Option<u32>,
    /// Do not use huge pages
    #[arg(long)]
    no_huge_pages: bool,
    /// Whether lines that hint all their items answer misses [default: if possible]
    #[arg(long)]
    complete_lines: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeName {
    Scalar,
    Batched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StrategyName {
    /// The head stays where it is
    None,
    /// Every R-th access moves the head to the accessed item (one hint only)
    Random,
    /// Count accesses for a round, then move the head to the best item (one hint only)
    Sampling,
    /// Items win and lose hints by the votes of sampled accesses
    Vote,
}

/// One distribution of accesses: its name in the table, and its streams by mix and threads.
enum Accesses<'a> {
    Drawn(Skew),
    Traced(&'a Trace),
}

/// The results as JSON, with the fitness of the harness.
#[derive(Serialize)]
struct Judged<'a> {
    fitness: Fitness,
    #[serde(flatten)]
    results: &'a Results<Row>,
}

/// The number of the draw for timed single reads, which no other round uses.
const LATENCY: u64 = 1 << 48;

impl YcsbArgs {
    /// Loads the targets, measures them, and prints the results.
    pub fn run(&self) -> Result<()> {
        self.check()?;
        if !self.ring.no_huge_pages {
            machine::huge_pages_for_all()?;
        }
        let machine = Machine::here();
        println!("{machine}");
        let trace = self.read_trace()?;
        let (keys, ops) = trace.as_ref().map_or((self.keys, self.ops), |trace| {
            (trace.distinct() as u64, trace.accesses().len() as u64)
        });
        let accesses: Vec<Accesses<'_>> = match &trace {
            Some(trace) => vec![Accesses::Traced(trace)],
            None => self.skew.iter().copied().map(Accesses::Drawn).collect(),
        };
        let (plans, streams) = (self.plans(keys)?, self.stream_ops(&accesses));
        // The figures below take a while with many keys.
        Loaded::check_memory(&plans, keys, streams)?;
        let fitness = Fitness::measure(keys, ops)?;
        fitness.print();
        self.describe(&accesses);
        if self.latency {
            let clock = latency::of_clock().value_at_quantile(0.5);
            println!("latencies include the clock's own {clock} ns");
        }
        let targets = Loaded::all(&plans, keys, streams)?;
        let rows = self.measure(&targets, keys, &accesses)?;
        let results = Results::new(machine, rows);
        print!("{}", results.table());
        self.files.write(&results.rows, &Judged { fitness, results: &results })
    }

    fn read_trace(&self) -> Result<Option<Trace>> {
        let Some(path) = &self.trace else { return Ok(None) };
        Trace::read(path, self.format, u64::MAX).map(Some)
    }

    fn describe(&self, accesses: &[Accesses<'_>]) {
        for accesses in accesses {
            match accesses {
                Accesses::Drawn(Skew::Uniform) => {}
                Accesses::Drawn(skew) => {
                    let share = 100.0 * share_of_hottest(self.keys, skew.theta(), 0.01);
                    println!("skew {skew}: the hottest 1 % of keys take {share:.1} % of accesses");
                }
                Accesses::Traced(trace) => {
                    let (all, keys) = (trace.accesses().len(), trace.distinct());
                    println!("trace: {all} accesses to {keys} keys");
                }
            }
        }
    }

    fn check(&self) -> Result<()> {
        let cores = crate::machine::cores().len();
        ensure!(self.rounds > 0 && self.batch > 0, "--rounds and --batch must be at least 1");
        ensure!(!self.threads.contains(&0), "--threads must be at least 1");
        ensure!(self.keys <= 1 << 40, "at most 2^40 keys");
        let sizes = [self.index_bytes, self.keys_per_bucket, self.ring.items_per_slot];
        let above_0 = sizes.iter().flatten().all(|&size| size > 0.0);
        ensure!(above_0, "--index-bytes, --keys-per-bucket and --items-per-slot are above 0");
        if self.rounds < 5 {
            eprintln!("note: fewer than 5 rounds are for trying things out, not for figures");
        }
        if self.threads.iter().any(|&threads| threads > cores) {
            eprintln!("note: more threads than the {cores} cores here");
        }
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its figures are meaningless");
        }
        Ok(())
    }

    /// The most operations in memory at a time.
    fn stream_ops(&self, accesses: &[Accesses<'_>]) -> u64 {
        let threads = self.threads.iter().max().copied().unwrap_or_default() as u64;
        let forms = if self.scatter { 2 } else { 1 };
        let ops = accesses.iter().map(|accesses| match accesses {
            Accesses::Drawn(_) => self.ops * threads,
            Accesses::Traced(trace) => trace.accesses().len() as u64,
        });
        // Includes the unmeasured operations before the clock starts.
        let ops = ops.map(|ops| ops + ops / 4);
        forms * ops.max().unwrap_or_default()
    }

    fn plans(&self, keys: u64) -> Result<Vec<Plan>> {
        // Each thread inserts keys of its own.
        let inserts = self.ops * *self.threads.iter().max().context("no --threads")? as u64;
        let mut plans = Vec::new();
        for &target in &self.targets {
            let mut plan = Plan::new(target, keys + inserts);
            plan.shape = Shape { key_bytes: self.key_size, value_bytes: self.value_size };
            plan.keys = if self.scatter { Keys::Scattered } else { Keys::Dense };
            plan.config = self.ring.common();
            match target {
                TargetName::Hotring => plans.extend(self.rings(&plan, keys)?),
                TargetName::Chaining => plans.push(self.sized(plan, keys)),
                _ => plans.push(plan),
            }
        }
        Ok(plans)
    }

    /// The plans of all supported combinations of strategy and number of hints.
    fn rings(&self, like: &Plan, keys: u64) -> Result<Vec<Plan>> {
        let mut rings = Vec::new();
        let mut refusal = None;
        for (config, hints) in self.ring.configs() {
            let mut plan = self.sized(Plan { hints, config, ..like.clone() }, keys);
            if let Some(items) = self.ring.items_per_slot {
                plan = plan.with_items_per_slot(keys, items);
            }
            match plan.build() {
                Ok(_) => rings.push(plan),
                Err(error) => {
                    eprintln!("note: {} left out: {error:#}", plan.name());
                    refusal = Some(error);
                }
            }
        }
        match refusal {
            Some(error) if rings.is_empty() => Err(error),
            _ => Ok(rings),
        }
    }

    /// Sets the table to the index bytes given on the command line.
    fn sized(&self, plan: Plan, keys: u64) -> Plan {
        match (self.index_bytes, self.keys_per_bucket) {
            (Some(bytes), _) => plan.with_index_bytes(bytes),
            (_, Some(per_bucket)) => plan.with_keys_per_bucket(keys, per_bucket),
            _ => plan,
        }
    }

    fn measure(
        &self,
        targets: &[Loaded],
        keys: u64,
        accesses: &[Accesses<'_>],
    ) -> Result<Vec<Row>> {
        let settings =
            self.workloads.len() * accesses.len() * self.threads.len() * self.modes.len();
        let Self { rounds: measured, warmup, warmup_max, .. } = *self;
        let rounds = Rounds { measured, warmup, warmup_max };
        let turns = settings as u64 * rounds.turns(targets.len());
        let bar = report::progress(turns, "measure");
        let list: Vec<&dyn Target> = targets.iter().map(|loaded| &*loaded.target).collect();
        let mut rows = Vec::new();
        for &workload in &self.workloads {
            for accesses in accesses {
                for &threads in &self.threads {
                    let source = self.source(workload, accesses, keys, threads);
                    for mode in self.modes.iter().map(|mode| mode.with(self.batch)) {
                        bar.set_message(format!(
                            "{workload} {}, {threads} threads",
                            accesses.name()
                        ));
                        let entrant = |&target| Entrant { target, mode, source: &source };
                        let entrants: Vec<Entrant<'_>> = list.iter().map(entrant).collect();
                        let samples = rounds.measure(&entrants, &bar)?;
                        let row = (workload, accesses.name());
                        let mut added = results::rows(&entrants[0], row, targets, &samples);
                        if self.latency && mode == Mode::Scalar && workload != Workload::W {
                            let streams = source.streams(LATENCY)?;
                            for (row, target) in added.iter_mut().zip(&list) {
                                row.time(&latency::of_reads(*target, &streams)?);
                            }
                        }
                        rows.extend(added);
                    }
                }
            }
        }
        bar.finish_and_clear();
        Ok(rows)
    }

    fn source<'a>(
        &self,
        workload: Workload,
        accesses: &Accesses<'a>,
        keys: u64,
        threads: usize,
    ) -> Feed<'a> {
        let Self { ops, seed, scatter: is_scattered, .. } = *self;
        match *accesses {
            Accesses::Drawn(skew) => {
                let draw = Draw { workload, skew, keys, threads, ops, seed, hot_set: 0, turn: 0 };
                Feed::Drawn { draw, is_scattered }
            }
            Accesses::Traced(trace) => {
                Feed::Traced { trace, workload, threads, seed, is_scattered }
            }
        }
    }
}

impl Accesses<'_> {
    fn name(&self) -> String {
        match self {
            Accesses::Drawn(skew) => skew.to_string(),
            Accesses::Traced(_) => "trace".into(),
        }
    }
}

impl ModeName {
    fn with(self, batch: usize) -> Mode {
        match self {
            ModeName::Scalar => Mode::Scalar,
            ModeName::Batched => Mode::Batched(batch),
        }
    }
}

impl RingArgs {
    /// The settings that are independent of hot items.
    fn common(&self) -> Config {
        let mut config = Config { huge_pages: !self.no_huge_pages, ..Config::default() };
        if let Some(depth) = self.depth {
            config.pipeline_depth = depth;
        }
        config
    }

    fn configs(&self) -> Vec<(Config, usize)> {
        let mut configs = Vec::new();
        for &strategy in &self.strategies {
            for &hints in &self.hints {
                configs.push((self.config(strategy), hints));
            }
        }
        configs
    }

    fn config(&self, strategy: StrategyName) -> Config {
        let strategy = match strategy {
            StrategyName::None => Strategy::None,
            StrategyName::Random => Strategy::Random,
            StrategyName::Sampling => Strategy::Sampling,
            StrategyName::Vote => Strategy::Vote,
        };
        Config {
            strategy,
            period: self.period,
            complete_lines: self.complete_lines,
            ..self.common()
        }
    }
}
