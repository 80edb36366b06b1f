//! `modes`: requests under each promise that a log may make, half of them writes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;

use super::figures::Figures;
use super::subject::{Rewrites, Subject, name};
use super::{Common, Part};
use crate::report;
use crate::servers::{Data, Kind, Load, Rounds, Sample, Scripts};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// Requests drawn beforehand; they are repeated.
const DRAWN: u64 = 1_000_000;

const RATE: &str = "requests/s";
const CPU: &str = "CPU us a request";

/// Measure requests without a log and under each of its promises: throughput, latency, CPU time
///
/// hotring's off, async, everysec and sync stand beside Redis's appendonly no, and appendfsync no, everysec and
/// always. Half of the requests are GET, half SET, evenly over all keys; connections send a batch when the one before
/// is answered. "records a sync" tells how many writes share a sync; Redis does not say. Logs are written anew between
/// settings, and by themselves never.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ModesArgs {
    /// Promises, by hotring's names
    #[arg(long, value_enum, value_delimiter = ',', default_value = "off,async,everysec,sync")]
    log: Vec<Mode>,
    /// Keys to load
    #[arg(long, value_parser = crate::cli::count, default_value = "100k")]
    keys: u64,
    /// Connections
    #[arg(long, value_delimiter = ',', default_value = "1,50")]
    connections: Vec<usize>,
    /// Requests in flight on each connection
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    pipeline: Vec<u64>,
    /// Seconds of a round of one server
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench durability modes
  hotring-bench durability modes --data /srv/disk --log off,sync --connections 1,50,500";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// No log
    Off,
    /// Writes are acknowledged at once
    Async,
    /// Writes are acknowledged once they are written, and synced each second
    Everysec,
    /// Writes are acknowledged once the disk has them
    Sync,
}

impl Mode {
    /// As the server names it.
    fn of(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Mode::Off, _) => "off",
            (Mode::Async, Kind::Redis) => "no",
            (Mode::Async, _) => "async",
            (Mode::Everysec, _) => "everysec",
            (Mode::Sync, Kind::Redis) => "always",
            (Mode::Sync, _) => "sync",
        }
    }
}

/// A server in a mode.
struct Case {
    kind: Kind,
    mode: Mode,
    subject: Subject,
}

fn case_name(kind: Kind, mode: Mode) -> String {
    format!("{} {}", name(kind), mode.of(kind))
}

impl ModesArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        ensure!(self.seconds > 0.0 && self.seconds < 1e6, "--seconds is a time");
        let least = self.connections.iter().all(|&c| c > 0) && !self.pipeline.contains(&0);
        ensure!(least, "--connections and --pipeline start at 1");
        let data = self.common.data(self.keys);
        let mut cases = self.cases(&data)?;
        let settings = self.connections.len() * self.pipeline.len();
        let steps = settings * self.common.rounds * cases.len();
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
        let kinds = self.common.kinds();
        ensure!(!kinds.is_empty(), "nothing to measure");
        let mut cases = Vec::new();
        for &mode in &self.log {
            for &kind in &kinds {
                let log = (mode != Mode::Off).then(|| mode.of(kind));
                let subject = self.common.start(kind, log, data, Rewrites::WhenTold)?;
                println!("{}: {}", case_name(kind, mode), subject.target.version);
                cases.push(Case { kind, mode, subject });
            }
        }
        println!();
        Ok(cases)
    }

    fn load(&self, connections: usize, depth: u64) -> Load {
        Load {
            workload: Workload::A,
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
        let setting =
            format!("{} connection{plural}, {} in flight on each", load.connections, load.depth);
        let mut figures = Figures::new(Part::Modes, setting);
        let scripts = Scripts::draw(&load, data, DRAWN.min(100 * self.keys), 1)?;
        for round in 0..self.common.rounds {
            for turn in 0..cases.len() {
                // Another one begins each round, so that none always follows the same one.
                let at = (round + turn) % cases.len();
                cases[at].round(&load, data, &scripts, &mut figures)?;
                bar.inc(1);
            }
        }
        for &Case { kind, mode, .. } in cases.iter() {
            let base = case_name(kind, Mode::Off);
            figures.relate("of off", RATE, &case_name(kind, mode), &base);
        }
        for &Case { kind, mode, .. } in cases.iter() {
            let (case, redis) = (case_name(kind, mode), case_name(Kind::Redis, mode));
            if kind != Kind::Redis {
                figures.relate("of redis", RATE, &case, &redis);
                figures.relate("CPU of redis", CPU, &case, &redis);
            }
        }
        Ok(figures)
    }
}

impl Case {
    fn round(
        &mut self,
        load: &Load,
        data: &Data,
        scripts: &Scripts,
        figures: &mut Figures,
    ) -> Result<()> {
        let case = case_name(self.kind, self.mode);
        self.subject.settle()?;
        let before = self.synced()?;
        let (targets, once) =
            (std::slice::from_ref(&self.subject.target), Rounds { measured: 1, warmup: 0 });
        let samples = load.measure(targets, (data, scripts), once, &ProgressBar::hidden())?;
        let sample: &Sample = samples.iter().flatten().next().context("no round was measured")?;
        let after = self.synced()?;
        let mut add = |figure, value| figures.add(&case, figure, value);
        add(RATE, sample.rate);
        for (figure, share) in [("p50 us", 0.5), ("p99 us", 0.99), ("p99.9 us", 0.999)] {
            add(figure, sample.tally.latency.value_at_quantile(share) as f64 / 1e3);
        }
        if let Some(taken) = sample.cpu_us {
            add(CPU, taken);
        }
        if let (Some((records, syncs)), Some((records_before, syncs_before))) = (after, before) {
            let syncs = syncs - syncs_before;
            if syncs > 0.0 {
                add("records a sync", (records - records_before) / syncs);
            }
        }
        Ok(())
    }

    /// Records so far and syncs so far, where the server tells both.
    fn synced(&mut self) -> Result<Option<(f64, f64)>> {
        let records = self.subject.tells("log_last_synced")?;
        Ok(records.zip(self.subject.tells("log_syncs")?))
    }
}
