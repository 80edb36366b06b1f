//! `replay`: plays a recorded access trace against the store, in process or over the wire.
//!
//! Every access is a read-through: GET, and on a miss a SET of the value that a cache would have fetched for the
//! key. The SET carries NX: if two accesses to one key are in flight together (two threads, or one pipeline
//! window), both may miss, but only one fills. The other fill comes too late and counts as a hit, because it
//! would have been one a moment later. So hits and misses depend on the trace alone, not on threads, connections,
//! pipelining or target, and they must equal those of a plain map. This makes the replay a test as well as a
//! measurement.

mod generate;
mod in_process;
mod model;
mod values;
mod wire;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use hdrhistogram::Histogram;
use hotring_engines::EngineChoice;
use indicatif::ProgressBar;
use serde::Serialize;

pub use generate::GenerateArgs;

use crate::address::Address;
use crate::machine::Machine;
use crate::report;
use crate::workload::trace::{Format, Trace};
use values::ValueSize;

/// Replay an access trace as a read-through cache: GET, and SET on a miss
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// The trace, plain or .xz (detected by its content)
    file: PathBuf,
    /// Format of the file
    #[arg(long, value_enum, default_value = "u32le")]
    format: Format,
    /// Maximum number of accesses to replay
    #[arg(long, value_parser = crate::count::count)]
    limit: Option<u64>,
    /// The target: "store" (in process), "model" (a plain HashMap, as a reference for hit counts), or a
    /// server at redis://HOST:PORT or unix:///PATH
    #[arg(long, default_value = "store")]
    target: Target,
    /// Threads; with a server, each has its own connection
    #[arg(long, visible_alias = "connections", default_value_t = 1)]
    threads: usize,
    /// Accesses in flight per thread: a pipeline with a server, a prefetched run in process
    #[arg(long, default_value_t = 1)]
    pipeline: usize,
    /// Length of a value in bytes: N, or MIN..MAX for lengths derived from the key
    #[arg(long, default_value = "100")]
    value_size: ValueSize,
    /// Prefix of every key, for a server that holds other data
    #[arg(long, default_value = "")]
    prefix: String,
    /// The engine of the target "store": hotring, chaining, mercury, gcuckoo, ...
    #[arg(long, default_value = "hotring")]
    engine: EngineChoice,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug)]
enum Target {
    Store,
    Model,
    Wire(Address),
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "store" => Ok(Target::Store),
            "model" => Ok(Target::Model),
            address => address.parse().map(Target::Wire),
        }
    }
}

/// The parameters of a replay, the same for all targets.
struct Job<'a> {
    trace: &'a Trace,
    threads: usize,
    pipeline: usize,
    value_size: ValueSize,
    prefix: &'a str,
    bar: &'a ProgressBar,
}

impl Job<'_> {
    /// The windows of accesses that a thread plays. Threads get the windows in turn.
    fn windows(&self, thread: usize) -> impl Iterator<Item = &[u32]> {
        self.trace.accesses().chunks(self.pipeline).skip(thread).step_by(self.threads)
    }

    /// Writes the full key of an access to `key`.
    fn key(&self, number: u32, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(self.prefix.as_bytes());
        key.extend_from_slice(self.trace.key(number));
    }
}

/// The maximum latency in nanoseconds: an hour. Longer latencies are recorded as this.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// The counts of one thread, or the sum over all threads.
struct Tally {
    hits: u64,
    misses: u64,
    late_fills: u64,
    latency: Histogram<u64>,
}

impl Tally {
    fn new() -> Self {
        let latency = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3)
            .expect("the bounds and the precision are valid ones");
        Tally { hits: 0, misses: 0, late_fills: 0, latency }
    }

    fn add(&mut self, other: Tally) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.late_fills += other.late_fills;
        self.latency.add(other.latency).expect("both histograms have the same bounds");
    }

    /// Counts a fill. The first fill of a key is a miss, a later one a hit.
    fn filled(&mut self, stored: bool) {
        if stored {
            self.misses += 1;
        } else {
            self.hits += 1;
            self.late_fills += 1;
        }
    }

    fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency.saturating_record(nanoseconds.max(1));
    }
}

/// The result of replaying against a target.
struct Outcome {
    tally: Tally,
    elapsed: Duration,
    /// Items visited per lookup, if the target counts them.
    visits: Option<f64>,
}

/// The printed results, in this order. Flat, so that each one has a line of its own.
#[derive(Debug, Serialize)]
struct Summary {
    target: String,
    accesses: u64,
    hits: u64,
    misses: u64,
    late_fills: u64,
    distinct_keys: u64,
    hit_ratio: f64,
    seconds: f64,
    accesses_per_second: f64,
    latency_ns_p50: u64,
    latency_ns_p90: u64,
    latency_ns_p99: u64,
    latency_ns_p999: u64,
    latency_ns_max: u64,
    visits_per_lookup: Option<f64>,
    machine: Machine,
}

impl ReplayArgs {
    /// Replays and prints the results.
    pub fn run(&self) -> Result<()> {
        if self.threads == 0 || self.pipeline == 0 || self.pipeline > 4096 {
            bail!("--threads must be at least 1, and --pipeline from 1 to 4096");
        }
        let trace = Trace::read(&self.file, self.format, self.limit.unwrap_or(u64::MAX))?;
        if trace.accesses().is_empty() {
            bail!("{} holds no access", self.file.display());
        }
        let bar = report::progress(trace.accesses().len() as u64, "replay");
        let job = Job {
            trace: &trace,
            threads: self.threads,
            pipeline: self.pipeline,
            value_size: self.value_size,
            prefix: &self.prefix,
            bar: &bar,
        };
        let outcome = match &self.target {
            Target::Store => in_process::replay(&job, self.engine)?,
            Target::Model => model::replay(&job),
            Target::Wire(address) => wire::replay(&job, address)?,
        };
        bar.finish_and_clear();
        self.print(&self.summary(&trace, &outcome))
    }

    fn summary(&self, trace: &Trace, outcome: &Outcome) -> Summary {
        let tally = &outcome.tally;
        let accesses = trace.accesses().len() as u64;
        let quantile = |q| tally.latency.value_at_quantile(q);
        Summary {
            target: match &self.target {
                Target::Store => format!("store ({})", self.engine.name()),
                Target::Model => "model".into(),
                Target::Wire(address) => address.to_string(),
            },
            accesses,
            hits: tally.hits,
            misses: tally.misses,
            late_fills: tally.late_fills,
            distinct_keys: trace.distinct() as u64,
            hit_ratio: tally.hits as f64 / accesses as f64,
            seconds: report::seconds(outcome.elapsed),
            accesses_per_second: (accesses as f64 / outcome.elapsed.as_secs_f64()).round(),
            latency_ns_p50: quantile(0.5),
            latency_ns_p90: quantile(0.9),
            latency_ns_p99: quantile(0.99),
            latency_ns_p999: quantile(0.999),
            latency_ns_max: tally.latency.max(),
            visits_per_lookup: outcome.visits,
            machine: Machine::here(),
        }
    }

    fn print(&self, summary: &Summary) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(summary)?);
            return Ok(());
        }
        // One `name value` pair per line, so that scripts need not parse prose.
        let serde_json::Value::Object(fields) = serde_json::to_value(summary)? else {
            unreachable!("a struct serializes as an object");
        };
        for (name, value) in fields.iter().filter(|(name, _)| *name != "machine") {
            match value {
                serde_json::Value::Null => println!("{name} n/a"),
                serde_json::Value::String(text) => println!("{name} {text}"),
                number => println!("{name} {number}"),
            }
        }
        print!("{}", summary.machine);
        Ok(())
    }
}

/// Runs `play` on each thread. Returns the sum of the tallies, and the time from the first start to the last end.
fn on_threads(
    threads: usize,
    play: impl Fn(usize) -> Result<Tally> + Sync,
) -> Result<(Tally, Duration)> {
    let start = Instant::now();
    let tallies: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let play = &play;
        let handles: Vec<_> = (0..threads).map(|t| scope.spawn(move || play(t))).collect();
        handles.into_iter().map(|h| h.join().expect("a replaying thread panicked")).collect()
    });
    let elapsed = start.elapsed();
    let mut sum = Tally::new();
    for tally in tallies {
        sum.add(tally?);
    }
    Ok((sum, elapsed))
}
