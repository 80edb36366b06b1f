//! `modes`: measures requests under each durability mode of the log.

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use super::cases::{Case, Mode, Window, case_name};
use super::figures::Figures;
use super::{Common, Part};
use crate::report;
use crate::servers::{Data, Kind, Load, Scripts};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// Requests that are drawn in advance and repeated.
const DRAWN: u64 = 1_000_000;

const RATE: &str = "requests/s";
const CPU: &str = "CPU us a request";

/// Measure requests without a log and in each log mode: throughput, latency, CPU time
///
/// hotring's modes off, async, everysec and sync are compared with Redis's appendonly no, and appendfsync no, everysec
/// and always. Requests are spread evenly over all keys; a connection sends a batch once the one before is answered.
/// In each setting every server has one window of time as a warm-up before those of the rounds. CPU time includes all
/// threads of the server's process, also those that write and sync the log. "records a sync" is the number of writes
/// that share a sync; Redis does not report it. Logs are rewritten between settings only.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ModesArgs {
    /// Log modes, by hotring's names
    #[arg(long, value_enum, value_delimiter = ',', default_value = "off,async,everysec,sync")]
    log: Vec<Mode>,
    /// Mix of requests
    #[arg(long, value_enum, default_value_t = Mix::Half)]
    mix: Mix,
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "100k")]
    keys: u64,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_value = "1,5,50")]
    connections: Vec<usize>,
    /// Requests in flight on each connection
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    pipeline: Vec<u64>,
    /// Seconds per round and server
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench durability modes
  hotring-bench durability modes --mix writes
  hotring-bench durability modes --data /srv/disk --log off,sync --connections 1,50,500";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mix {
    /// As many GET as SET
    Half,
    /// SET only
    Writes,
}

impl ModesArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        ensure!(self.seconds > 0.0 && self.seconds < 1e6, "--seconds is a time");
        let least = self.connections.iter().all(|&c| c > 0) && !self.pipeline.contains(&0);
        ensure!(least, "--connections and --pipeline must be at least 1");
        let data = self.common.data(self.keys);
        let mut cases = self.cases(&data)?;
        let settings = self.connections.len() * self.pipeline.len();
        let steps = settings * (1 + self.common.rounds) * cases.len();
        let bar = report::progress(steps as u64, "modes");
        let mut all = Vec::new();
        for &connections in &self.connections {
            for &depth in &self.pipeline {
                all.push(self.setting(&data, &mut cases, self.load(connections, depth), &bar)?);
                for case in cases.iter_mut().filter(|case| case.mode != Mode::Off) {
                    case.subject.rewrite()?;
                }
            }
        }
        bar.finish_and_clear();
        Ok(all)
    }

    fn cases(&self, data: &Data) -> Result<Vec<Case>> {
        let kinds = self.common.kinds()?;
        let mut cases = Vec::new();
        for &mode in &self.log {
            for &kind in &kinds {
                let Common { testbed, threads, .. } = &self.common;
                let case = Case::start(testbed, (kind, mode), *threads, data)?;
                println!("{}: {}", case_name(kind, mode), case.subject.target.version);
                cases.push(case);
            }
        }
        println!();
        Ok(cases)
    }

    fn load(&self, connections: usize, depth: u64) -> Load {
        Load {
            workload: if self.mix == Mix::Half { Workload::A } else { Workload::W },
            skew: Skew::Uniform,
            connections,
            depth,
            rate: None,
            clients: 1,
            time: Duration::from_secs_f64(self.seconds),
        }
    }

    fn setting(
        &self,
        data: &Data,
        cases: &mut [Case],
        load: Load,
        bar: &ProgressBar,
    ) -> Result<Figures> {
        let plural = if load.connections == 1 { "" } else { "s" };
        let label = if self.mix == Mix::Half { "half SET" } else { "SET only" };
        let setting = format!(
            "{label}, {} connection{plural}, {} in flight on each",
            load.connections, load.depth
        );
        let mut figures = Figures::new(Part::Modes.name(), setting);
        let scripts = Scripts::draw(&load, data, DRAWN.min(100 * self.keys), 1)?;
        // The first round is a warm-up and does not count.
        for round in 0..=self.common.rounds {
            for turn in 0..cases.len() {
                // Each round begins with another server, so that no server always follows the same one.
                let at = (round + turn) % cases.len();
                let window = cases[at].window(&load, data, &scripts)?;
                if round > 0 {
                    let case = case_name(cases[at].kind, cases[at].mode);
                    add(&mut figures, &case, &window);
                }
                bar.inc(1);
            }
        }
        relate(&mut figures, cases);
        Ok(figures)
    }
}

fn add(figures: &mut Figures, case: &str, window: &Window) {
    let Window { sample, records_per_sync } = window;
    let latency = &sample.tally.latency;
    let mut add = |figure, value| figures.add(case, figure, value);
    add(RATE, sample.rate);
    add("mean us", latency.mean() / 1e3);
    for (figure, share) in [("p50 us", 0.5), ("p99 us", 0.99), ("p99.9 us", 0.999)] {
        add(figure, latency.value_at_quantile(share) as f64 / 1e3);
    }
    if let Some(taken) = sample.cpu_us {
        add(CPU, taken);
    }
    if let Some(shared) = records_per_sync {
        add("records a sync", *shared);
    }
}

/// Adds ratios to the same server without a log, and to Redis in the same mode.
fn relate(figures: &mut Figures, cases: &[Case]) {
    for (relation, figure) in [("of off", RATE), ("CPU of off", CPU)] {
        for &Case { kind, mode, .. } in cases {
            let base = case_name(kind, Mode::Off);
            figures.add_ratio(relation, figure, &case_name(kind, mode), &base);
        }
    }
    for (relation, figure) in [("of redis", RATE), ("CPU of redis", CPU)] {
        for &Case { kind, mode, .. } in cases.iter().filter(|case| case.kind != Kind::Redis) {
            let redis = case_name(Kind::Redis, mode);
            figures.add_ratio(relation, figure, &case_name(kind, mode), &redis);
        }
    }
}
