//! `containers`: compares hotring with Redis on commands for lists, sets, sorted sets, hashes and long strings, and on
//! requests of many keys, scripts, transactions, messages and clears.
//!
//! The main figure is the processor time that a server's process takes for a request. Both servers are loaded
//! alike and take turns within each round, so that drift of the machine hits both, and ratios are taken within
//! rounds. Every answer is checked: an error, or an answer of another kind, fails the run.

mod cases;
mod fanout;
mod figures;
mod requests;
mod side;
mod space;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use crate::durability::{Rewrites, Setup, Testbed, server_name};
use crate::machine::Machine;
use crate::report::{self, Files, Results};
use crate::resp::Client;
use crate::servers::Kind;
use cases::{Case, Sizes};
use figures::{Figures, Row};
use side::Side;

/// Compare commands with Redis, mostly on containers: CPU time, memory, bytes logged, pauses
///
/// Each server is started on loopback with a temporary folder. Figures are medians of rounds, with the lowest and the
/// highest; ratios are taken within one round. redis-server must be installed.
///
/// "two threads, by CPU" is twice the CPU time of a request with one thread of hotring, divided by that with two,
/// within one round. It bounds the rate of two threads as a multiple of that of one, if each had a core to itself. The
/// rate itself is not measured: on a small machine clients share the cores with the servers. Redis has one thread in
/// both settings, so its figure is the drift between them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ContainersArgs {
    /// What to measure [default: all]
    #[arg(value_enum, value_name = "PART")]
    parts: Vec<Part>,
    /// A short trial run: 3 rounds of 15,000 requests
    #[arg(long)]
    quick: bool,
    /// Measured rounds
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Requests per turn; a tenth of this number if requests are long
    #[arg(long, value_parser = crate::count::count, default_value = "50k")]
    requests: u64,
    /// Members of the sorted set and fields of the largest hash; the list and the set have a tenth of this number
    #[arg(long, value_parser = crate::count::count, default_value = "1M")]
    members: u64,
    /// Length of SETBIT's string in bytes; APPEND's string has a tenth of it
    #[arg(long, value_parser = crate::count::count, default_value = "512M")]
    string: u64,
    /// Connections
    #[arg(long, default_value_t = 10)]
    connections: usize,
    #[command(flatten)]
    testbed: Testbed,
    #[command(flatten)]
    files: Files,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench containers --csv containers.csv
  hotring-bench containers --quick
  hotring-bench containers everysec memory";

/// A part of the run, with servers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// All commands without a log, with 1 and 16 requests in flight
    Time,
    /// Writes with a log that is synced every second, and the bytes logged
    Everysec,
    /// Memory of small and large containers
    Memory,
    /// One sorted set that all connections read, with one and two threads of hotring
    Readers,
    /// Many keys at once, counters, scripts, transactions and long values, with 1 and 16 requests in flight
    Requests,
    /// A message to 100 subscribers
    Messages,
    /// How long another client waits while all keys are cleared
    Clears,
}

/// The servers, in the order of the columns.
const SERVERS: [Kind; 2] = [Kind::Redis, Kind::Hotring];

/// Requests in flight on each connection.
const DEPTHS: [u64; 2] = [1, 16];
/// Threads of hotring that serve the readers.
const THREADS: [u32; 2] = [1, 2];
const TIME: &str = "ns of CPU";

impl ContainersArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!(self.connections > 0, "--connections must be at least 1");
        ensure!(self.members > 1_000, "--members must exceed 1,000, the fields of a smaller hash");
        ensure!(self.string >= 1_000, "--string must be at least 1,000");
        ensure!(self.string < 1 << 29, "--string must be less than 2^29");
        for kind in SERVERS {
            self.testbed.program(kind).map_or_else(|| kind.program(), Ok)?;
        }
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its figures are meaningless");
        }
        let machine = Machine::here();
        println!("{machine}");
        let parts = if self.parts.is_empty() { Part::value_variants() } else { &self.parts[..] };
        let mut rows = Vec::new();
        for part in parts {
            let of_part = match part {
                Part::Time => self.time()?,
                Part::Everysec => self.everysec()?,
                Part::Memory => space::measure(self)?,
                Part::Readers => self.readers()?,
                Part::Requests => self.requests_beyond()?,
                Part::Messages => fanout::messages(self)?,
                Part::Clears => fanout::clears(self)?,
            };
            println!("{}", figures::table(&of_part));
            rows.extend(of_part);
        }
        let results = Results::new(machine, rows);
        self.files.write(&results.rows, &results)
    }

    fn rounds(&self) -> usize {
        if self.quick { 3 } else { self.rounds }
    }

    fn requests(&self) -> u64 {
        if self.quick { 15_000 } else { self.requests }
    }

    fn sizes(&self) -> Sizes {
        Sizes { members: self.members, string: self.string }
    }

    fn setup(&self, kind: Kind, log: Option<&'static str>, threads: usize) -> Setup<'static> {
        Setup { kind, log, rewrites: Rewrites::OnRequest, threads }
    }

    /// Starts and loads both servers.
    fn sides(
        &self,
        (log, threads): (Option<&'static str>, usize),
        load: impl Fn(&mut Client, Sizes) -> Result<()>,
    ) -> Result<Vec<Side>> {
        let start = |kind| {
            // Redis's I/O threads only read and write sockets, and spin while they wait, so Redis gets one
            // thread.
            let threads = if kind == Kind::Redis { 1 } else { threads };
            let setup = self.setup(kind, log, threads);
            let mut side = Side::start(&self.testbed, setup, self.connections)?;
            load(side.client(), self.sizes())?;
            Ok(side)
        };
        SERVERS.map(start).into_iter().collect()
    }

    fn time(&self) -> Result<Vec<Row>> {
        let mut sides = self.sides((None, 1), cases::load)?;
        self.at_depths(&mut sides, &cases::all(self.sizes()))
    }

    fn requests_beyond(&self) -> Result<Vec<Row>> {
        let mut sides = self.sides((None, 1), requests::load)?;
        self.at_depths(&mut sides, &requests::all(self.sizes()))
    }

    fn at_depths(&self, sides: &mut [Side], cases: &[Case]) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for depth in DEPTHS {
            let setting = format!("no log, P={depth}");
            rows.extend(self.turns(sides, (&setting, depth), cases)?);
        }
        Ok(rows)
    }

    fn everysec(&self) -> Result<Vec<Row>> {
        let mut sides = self.sides((Some("everysec"), 1), cases::load)?;
        let mut cases = cases::all(self.sizes());
        cases.retain(|case| case.writes);
        let depth = DEPTHS[1];
        self.turns(&mut sides, (&format!("everysec, P={depth}"), depth), &cases)
    }

    /// Measures reads of the sorted set with each number of threads. The servers of all numbers take turns within each
    /// round, as their figures are compared.
    fn readers(&self) -> Result<Vec<Row>> {
        let depth = DEPTHS[1];
        let mut cases = cases::all(self.sizes());
        cases.retain(|case| case.reads_scores);
        let mut settings = Vec::new();
        for threads in THREADS {
            let sides = self.sides((None, threads as usize), cases::load)?;
            let figures = Figures::new(&format!("threads of hotring: {threads}, P={depth}"));
            settings.push((sides, figures));
        }
        let bar = report::progress((self.rounds() * cases.len() * THREADS.len()) as u64, "readers");
        for round in 0..self.rounds() {
            for turn in 0..THREADS.len() {
                let (sides, figures) = &mut settings[(round + turn) % THREADS.len()];
                self.round(round, sides, (depth, &cases), figures, &bar)?;
            }
        }
        bar.finish_and_clear();
        let [one, two] = [&settings[0].1, &settings[1].1];
        let gain = two.gain(&format!("two threads, by CPU, P={depth}"), one, TIME, THREADS);
        Ok([one, two, &gain].into_iter().flat_map(Figures::rows).collect())
    }

    /// Measures all cases in all rounds.
    fn turns(
        &self,
        sides: &mut [Side],
        (setting, depth): (&str, u64),
        cases: &[Case],
    ) -> Result<Vec<Row>> {
        let bar = report::progress((self.rounds() * cases.len()) as u64, setting);
        let mut figures = Figures::new(setting);
        for round in 0..self.rounds() {
            self.round(round, sides, (depth, cases), &mut figures, &bar)?;
        }
        bar.finish_and_clear();
        Ok(figures.rows())
    }

    /// Measures all cases once.
    fn round(
        &self,
        round: usize,
        sides: &mut [Side],
        (depth, cases): (u64, &[Case]),
        figures: &mut Figures,
        bar: &ProgressBar,
    ) -> Result<()> {
        for case in cases {
            for turn in 0..sides.len() {
                // The order alternates, so that no server is always first.
                let side = &mut sides[(round + turn) % SERVERS.len()];
                let requests = self.requests() / case.share;
                let taken = side.turn(case, (depth, requests), round as u64)?;
                figures.add(&case.name, TIME, server_name(side.kind), taken.nanoseconds);
                if let Some(bytes) = taken.logged {
                    figures.add(&case.name, "bytes logged", server_name(side.kind), bytes);
                }
            }
            bar.inc(1);
        }
        Ok(())
    }
}
