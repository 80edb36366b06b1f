//! `ycsb`: the core workloads on the index and on whatever it is compared with.
//!
//! Keys are the numbers below `--keys`, 8 bytes each, with 8-byte values. Streams of operations
//! are drawn before the clock starts. All targets are loaded side by side, and within one setting
//! each round runs them one after the other, beginning with another one each time, so that drift
//! of the machine hits all of them: ratios within one run are what counts.

mod hotring;
mod measure;
mod oracle;
#[cfg(feature = "peers")]
mod peers;
mod results;
mod stream;
mod target;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use hotring_index::{Chaining, Config, GCuckoo, Growth, Mercury, Strategy};

use crate::machine::{Machine, resident};
use crate::report;
use crate::workload::zipf::share_of_hottest;
use hotring::Keys;
use measure::{Mode, Setting};
use results::{Results, Row};
use stream::{Skew, Streams, Workload};
use target::Target;

/// Run YCSB workloads on the index beside other targets
#[derive(Debug, Args)]
pub struct YcsbArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::cli::count, default_value = "20M")]
    keys: u64,
    /// Operations of a thread in one round
    #[arg(long, value_parser = crate::cli::count, default_value = "4M")]
    ops: u64,
    /// What is done
    #[arg(long, value_enum, value_delimiter = ',', default_value = "b,c")]
    workloads: Vec<Workload>,
    /// How accesses are spread: "uniform", or Zipf exponents from 0 on
    #[arg(long, value_delimiter = ',', default_value = "uniform,0.99,1.22")]
    skew: Vec<Skew>,
    /// One lookup after the other, or in batches
    #[arg(long, value_enum, value_delimiter = ',', default_value = "scalar,batched")]
    modes: Vec<ModeName>,
    /// Keys of one batch
    #[arg(long, default_value_t = 64)]
    batch: usize,
    /// Thread counts; threads are pinned to cores in order
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "hotring,oracle")]
    targets: Vec<TargetName>,
    /// Measured rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Rounds before those, also the time that hotspots get to be found
    #[arg(long, default_value_t = 1)]
    warmup: usize,
    /// Let the tables of HotRing and Chaining Hash have at least this many bytes a key, so that both
    /// have as many (else each its own default)
    #[arg(long, conflicts_with = "items_per_slot")]
    index_bytes: Option<f64>,
    /// Scatter the keys of hotring's engines over all of 64 bits: their hash spreads neighbouring
    /// numbers more evenly than chance would
    #[arg(long)]
    scatter: bool,
    #[command(flatten)]
    ring: RingArgs,
    /// Same seed, same streams
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write the table to this file as CSV
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Also write machine, command and table to this file as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// How the ring is set up.
#[derive(Debug, Args)]
pub struct RingArgs {
    /// Ways of finding hotspots
    #[arg(long, value_enum, value_delimiter = ',', default_value = "vote")]
    strategies: Vec<StrategyName>,
    /// Hints a slot: 1, 3 or 7 (1 is the paper's single head)
    #[arg(long, value_delimiter = ',', default_value = "7")]
    hints: Vec<usize>,
    /// Lookups in flight within one batch [default: the index's own]
    #[arg(long)]
    depth: Option<usize>,
    /// Fix the table at this many items a slot, instead of growing as needed
    #[arg(long)]
    items_per_slot: Option<f64>,
    /// Accesses between two moves of a head (the paper's R) [default: the index's own]
    #[arg(long)]
    period: Option<u32>,
    /// Don't ask for huge pages
    #[arg(long)]
    no_huge_pages: bool,
    /// Answer misses from lines that hint all their items
    #[arg(long)]
    complete_lines: bool,
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
    /// Every R-th access moves the head to the item it wanted (one hint only)
    Random,
    /// Count accesses for a round, then move to the best place (one hint only)
    Sampling,
    /// Items win and lose hints by the votes of sampled accesses
    Vote,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetName {
    /// Every combination of --strategies and --hints
    Hotring,
    /// Lock-free chains, the baseline of HotRing's paper
    Chaining,
    /// Mercury with test-and-set locks
    Mercury,
    /// G-Cuckoo with four slots a bucket
    Gcuckoo,
    /// A plain array indexed by the key: the physical limit, not an index
    Oracle,
    #[cfg(feature = "peers")]
    Papaya,
    #[cfg(feature = "peers")]
    Dashmap,
    #[cfg(feature = "peers")]
    Scc,
}

/// A target, loaded, with what it took.
struct Loaded {
    target: Box<dyn Target>,
    bytes_per_key: f64,
    index_bytes_per_key: Option<f64>,
}

impl YcsbArgs {
    /// Loads, measures, prints.
    pub fn run(&self) -> Result<()> {
        self.check()?;
        let machine = Machine::here();
        println!("{machine}");
        for skew in &self.skew {
            if let Skew::Zipf(theta) = *skew {
                let share = 100.0 * share_of_hottest(self.keys, theta, 0.01);
                println!("skew {skew}: the hottest 1 % of keys take {share:.1} % of accesses");
            }
        }
        let targets = self.load()?;
        let results =
            Results { machine, command: std::env::args().collect(), rows: self.measure(&targets)? };
        print!("{}", results.table());
        if let Some(path) = &self.csv {
            report::write_csv(path, &results.rows)?;
        }
        if let Some(path) = &self.json {
            report::write_json(path, &results)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let cores = crate::machine::cores().len();
        ensure!(self.rounds > 0 && self.batch > 0, "--rounds and --batch start at 1");
        ensure!(!self.threads.contains(&0), "--threads starts at 1");
        ensure!(self.keys <= 1 << 40, "at most 2^40 keys");
        if self.rounds < 5 {
            eprintln!("note: fewer than 5 rounds are for trying things out, not for figures");
        }
        if self.threads.iter().any(|&threads| threads > cores) {
            eprintln!("note: more threads than the {cores} cores here");
        }
        if cfg!(debug_assertions) {
            eprintln!("note: a debug build, the figures mean nothing");
        }
        Ok(())
    }

    fn load(&self) -> Result<Vec<Loaded>> {
        let mut loaded = Vec::new();
        for target in self.build()? {
            let bar = report::progress(self.keys, &format!("load {}", target.name()));
            let before = resident()?;
            target.load(self.keys, &bar);
            let grown = resident()?.saturating_sub(before);
            bar.finish_and_clear();
            let per_key = |bytes: u64| bytes as f64 / self.keys as f64;
            let index_bytes_per_key = target.index_bytes().map(per_key);
            loaded.push(Loaded { target, bytes_per_key: per_key(grown), index_bytes_per_key });
        }
        Ok(loaded)
    }

    fn build(&self) -> Result<Vec<Box<dyn Target>>> {
        // Workload D inserts new keys, each thread its own.
        let inserts = self.ops * *self.threads.iter().max().context("no --threads")? as u64;
        let keys = self.engine_keys();
        let mut targets: Vec<Box<dyn Target>> = Vec::new();
        for name in &self.targets {
            match name {
                TargetName::Hotring => targets.extend(self.rings()?),
                TargetName::Chaining => {
                    targets.push(hotring::target::<Chaining>("chaining", self.chains(), keys)?);
                }
                TargetName::Mercury => {
                    targets.push(hotring::target::<Mercury>("mercury", self.ring.common(), keys)?);
                }
                TargetName::Gcuckoo => {
                    targets.push(hotring::target::<GCuckoo<4>>(
                        "gcuckoo",
                        self.ring.common(),
                        keys,
                    )?);
                }
                TargetName::Oracle => targets.push(oracle::target(self.keys + inserts)?),
                #[cfg(feature = "peers")]
                TargetName::Papaya => targets.push(peers::papaya()),
                #[cfg(feature = "peers")]
                TargetName::Dashmap => targets.push(peers::dashmap()),
                #[cfg(feature = "peers")]
                TargetName::Scc => targets.push(peers::scc()),
            }
        }
        ensure!(!targets.is_empty(), "nothing to measure");
        Ok(targets)
    }

    fn rings(&self) -> Result<Vec<Box<dyn Target>>> {
        let mut rings = Vec::new();
        let mut refusal = None;
        for &strategy in &self.ring.strategies {
            for &hints in &self.ring.hints {
                match hotring::rings(hints, self.rings_config(strategy, hints), self.engine_keys())
                {
                    Ok(ring) => rings.push(ring),
                    Err(error) => {
                        eprintln!("note: {hints} hints with {strategy:?} left out: {error}");
                        refusal = Some(error);
                    }
                }
            }
        }
        match refusal {
            Some(error) if rings.is_empty() => Err(error),
            _ => Ok(rings),
        }
    }

    fn engine_keys(&self) -> Keys {
        if self.scatter { Keys::Scattered } else { Keys::Dense }
    }

    fn rings_config(&self, strategy: StrategyName, hints: usize) -> Config {
        let config = self.ring.config(strategy, self.keys);
        match self.index_bytes {
            Some(bytes) => with_index_bytes(config, bytes, 8 * (hints + 1)),
            None => config,
        }
    }

    fn chains(&self) -> Config {
        let config = self.ring.common();
        match self.index_bytes {
            Some(bytes) => with_index_bytes(config, bytes, 8),
            None => config,
        }
    }

    fn measure(&self, targets: &[Loaded]) -> Result<Vec<Row>> {
        let settings =
            self.workloads.len() * self.skew.len() * self.threads.len() * self.modes.len();
        let rounds = settings * (self.rounds + self.warmup) * targets.len();
        let bar = report::progress(rounds as u64, "measure");
        let mut rows = Vec::new();
        for &workload in &self.workloads {
            for &skew in &self.skew {
                for &threads in &self.threads {
                    bar.set_message(format!("{workload} {skew}, {threads} threads"));
                    let streams =
                        Streams::draw(workload, skew, self.keys, threads, self.ops, self.seed)?;
                    for mode in self.modes.iter().map(|mode| mode.with(self.batch)) {
                        let setting = Setting {
                            mode,
                            rounds: self.rounds,
                            warmup: self.warmup,
                            streams: &streams,
                        };
                        let list: Vec<&dyn Target> =
                            targets.iter().map(|loaded| &*loaded.target).collect();
                        let samples = setting.measure(&list, &bar)?;
                        rows.extend(results::rows(&setting, (workload, skew), targets, &samples));
                    }
                }
            }
        }
        bar.finish_and_clear();
        Ok(rows)
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

/// Bytes of each table at the start, where all are to have the same.
const BYTES_INITIAL: usize = 64 << 10;

/// A table that has at least so many bytes a key, made of slots of `slot` bytes.
fn with_index_bytes(config: Config, bytes_per_key: f64, slot: usize) -> Config {
    let growth = Some(Growth::BytesPerKey(bytes_per_key));
    Config { growth, slots_initial: BYTES_INITIAL / slot, ..config }
}

impl RingArgs {
    /// What is not about hot items.
    fn common(&self) -> Config {
        let mut config = Config { huge_pages: !self.no_huge_pages, ..Config::default() };
        if let Some(depth) = self.depth {
            config.pipeline_depth = depth;
        }
        config
    }

    fn config(&self, strategy: StrategyName, keys: u64) -> Config {
        let strategy = match strategy {
            StrategyName::None => Strategy::None,
            StrategyName::Random => Strategy::Random,
            StrategyName::Sampling => Strategy::Sampling,
            StrategyName::Vote => Strategy::Vote,
        };
        let mut config = Config { strategy, complete_lines: self.complete_lines, ..self.common() };
        if let Some(period) = self.period {
            config.period = period;
        }
        if let Some(items) = self.items_per_slot {
            config.growth = Some(Growth::Fixed);
            config.slots_initial = (keys as f64 / items).ceil() as usize;
        }
        config
    }
}

impl std::str::FromStr for Skew {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<f64>() {
            _ if text == "uniform" => Ok(Skew::Uniform),
            Ok(theta) if (0.0..=10.0).contains(&theta) => Ok(Skew::Zipf(theta)),
            _ => Err(format!("{text:?} is neither \"uniform\" nor an exponent from 0 to 10")),
        }
    }
}
