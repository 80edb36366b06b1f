//! `durability`: measures the cost of surviving a crash, for hotring and Redis.
//!
//! Each part starts its own servers on loopback, each with its own folder. `modes` measures requests under
//! each setting of the log, `restart` the time from a kill until a server serves again, `snapshot` the pauses and
//! the memory that a snapshot causes, `giant` the waits beside a snapshot of one giant hash, `space` the growth of the
//! files while values are overwritten, `replicas` the cost of a replica and of a full copy. A wrong answer fails the
//! run.

mod cases;
mod figures;
mod giant;
mod modes;
mod replicas;
mod restart;
mod snapshot;
mod space;
mod subject;

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};

use crate::folder::file_system;
use crate::machine::Machine;
use crate::report::{Files, Results};
use crate::servers::{Data, Kind};
pub use cases::{Case, Mode, Window};
pub use figures::Figures;
use figures::Row;
pub use space::{Pass, loaded, overwrite};
pub use subject::{Rewrites, Setup, Subject, Testbed, server_name, wait_until};

/// Bytes of a key.
const KEY_LEN: usize = 16;

/// Measure the cost of a server's log, snapshots and replicas, and compare it with Redis
///
/// Each server is started on loopback with a temporary folder. The servers take turns within each round, so that drift
/// of the machine affects all of them. Figures are medians of rounds; ratios are taken within rounds and shown with
/// their median, lowest and highest. Nothing is pinned to cores. redis-server is left out, with a note, if it is not
/// installed.
#[derive(Debug, Args)]
pub struct DurabilityArgs {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Debug, Subcommand)]
enum Measurement {
    Modes(modes::ModesArgs),
    Restart(restart::RestartArgs),
    Snapshot(snapshot::SnapshotArgs),
    Giant(giant::GiantArgs),
    Space(space::SpaceArgs),
    Replicas(replicas::ReplicasArgs),
}

/// The options that all parts share.
#[derive(Debug, Args)]
struct Common {
    /// Servers to measure: hotring, redis
    #[arg(long, value_enum, value_delimiter = ',', default_value = "hotring,redis")]
    servers: Vec<Kind>,
    #[command(flatten)]
    testbed: Testbed,
    /// Threads per server that serve requests
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Length of a value in bytes
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Measured rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    #[command(flatten)]
    files: Files,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Modes,
    Restart,
    Snapshot,
    Giant,
    Space,
    Replicas,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Modes => "modes",
            Part::Restart => "restart",
            Part::Snapshot => "snapshot",
            Part::Giant => "giant",
            Part::Space => "space",
            Part::Replicas => "replicas",
        }
    }
}

impl DurabilityArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        match &self.measurement {
            Measurement::Modes(args) => args.common.report(|| args.measure()),
            Measurement::Restart(args) => args.common.report(|| args.measure()),
            Measurement::Snapshot(args) => args.common.report(|| args.measure()),
            Measurement::Giant(args) => args.common.report(|| args.measure()),
            Measurement::Space(args) => args.common.report(|| args.measure()),
            Measurement::Replicas(args) => args.common.report(|| args.measure()),
        }
    }
}

impl Common {
    /// Prints the machine, measures, prints the figures and writes the result files.
    fn report(&self, measure: impl FnOnce() -> Result<Vec<Figures>>) -> Result<()> {
        ensure!(self.rounds > 0 && self.threads > 0, "--rounds and --threads must be at least 1");
        ensure!(self.value_size >= 8, "--value-size must be at least 8");
        let known = |kind: &Kind| matches!(kind, Kind::Hotring | Kind::Redis);
        ensure!(self.servers.iter().all(known), "--servers accepts only hotring and redis");
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its figures are meaningless");
        }
        let machine = Machine::here();
        print!("{machine}");
        println!("files: {}\n", file_system(&self.testbed.folder()));
        let mut rows: Vec<Row> = Vec::new();
        for figures in measure()? {
            println!("{}", figures.table());
            rows.extend(figures.rows());
        }
        let results = Results::new(machine, rows);
        self.files.write(&results.rows, &results)
    }

    fn data(&self, keys: u64) -> Data {
        Data { keys, key_len: KEY_LEN, value_len: self.value_size }
    }

    fn setup<'a>(&self, kind: Kind, log: Option<&'a str>, rewrites: Rewrites) -> Setup<'a> {
        Setup { kind, log, rewrites, threads: self.threads }
    }

    /// The servers that can be started. Reports the missing ones.
    fn kinds(&self) -> Result<Vec<Kind>> {
        let report = |kind, error: anyhow::Error| {
            eprintln!("note: {} left out: {error:#}", server_name(kind));
        };
        let kinds = self.testbed.present(&self.servers, report);
        ensure!(!kinds.is_empty(), "nothing to measure");
        Ok(kinds)
    }
}
