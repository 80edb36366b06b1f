//! `bounds`: measures the memory of server processes and compares it with the documented bounds.
//!
//! Each scenario starts its own servers on loopback and asks the kernel for the resident size of their processes:
//! `fall` after most of the data was removed, `info` to compare the size with INFO's report, `limit` and `tight` at
//! `maxmemory`, `large` during requests for one very long value, together with the waiting times of other requests.
//! A broken bound is reported but does not fail the run: these are measurements.

mod fall;
mod info;
mod large;
mod limit;
mod measure;
mod subject;
mod tight;
mod values;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::machine::Machine;
use crate::report::{Files, Results};

/// Measure a server's memory: after removals, against INFO, at its limit, with long values
#[derive(Debug, Args)]
pub struct BoundsArgs {
    /// What to measure [default: all]
    #[arg(value_enum, value_name = "SCENARIO")]
    scenarios: Vec<Scenario>,
    /// The server's program [default: hotring in this program's folder]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Total bytes of the values that the scenarios fall and info load
    #[arg(long, value_name = "BYTES", value_parser = crate::count::count, default_value = "537M")]
    data: u64,
    /// The memory limit that the scenarios limit and tight set, in bytes
    #[arg(long, value_name = "BYTES", value_parser = crate::count::count, default_value = "268M")]
    maxmemory: u64,
    /// Length of the value in the scenario large, in bytes
    #[arg(long, value_name = "BYTES", value_parser = crate::count::count, default_value = "500M")]
    value: u64,
    /// A load of the scenario tight [default: all]
    #[arg(long = "load", value_enum, value_name = "LOAD")]
    loads: Vec<tight::Load>,
    /// How long the scenario fall watches the memory, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// End the scenario fall, and the wait after a load of tight, as soon as the bound is met
    #[arg(long)]
    stop_when_kept: bool,
    #[command(flatten)]
    files: Files,
}

/// The scenarios, each with servers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// How much memory returns to the system after nine tenths of the values are removed
    Fall,
    /// How far INFO's figures are from the memory of the process
    Info,
    /// How far the process exceeds maxmemory under writes, with three eviction policies
    Limit,
    /// How far the process exceeds maxmemory under loads that take memory in other ways
    Tight,
    /// The memory that requests for one very long value take, and how long other clients wait
    Large,
}

impl BoundsArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.data >= values::DATA_MIN, "--data must be at least {}", values::DATA_MIN);
        ensure!(self.maxmemory >= 4 << 20, "--maxmemory must be at least 4 MiB");
        ensure!(self.seconds > 0, "--seconds must be at least 1");
        if cfg!(debug_assertions) {
            eprintln!("note: this is a debug build: its times are meaningless");
        }
        let machine = Machine::here();
        println!("{machine}");
        let all = Scenario::value_variants();
        let scenarios = if self.scenarios.is_empty() { all } else { &self.scenarios[..] };
        let mut measures = Vec::new();
        for scenario in scenarios {
            let of_scenario = match scenario {
                Scenario::Fall => fall::measure(self)?,
                Scenario::Info => info::measure(self)?,
                Scenario::Limit => limit::measure(self)?,
                Scenario::Tight => tight::measure(self)?,
                Scenario::Large => large::measure(self)?,
            };
            println!("{}", measure::shown(&of_scenario));
            measures.extend(of_scenario);
        }
        let results = Results::new(machine, measures);
        self.files.write(&results.rows, &results)
    }

    fn start(&self, threads: usize) -> Result<subject::Subject> {
        subject::Subject::start(self.program.clone(), threads)
    }
}

impl Scenario {
    /// The name on the command line.
    fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }
}
