//! `snapshot`: measures the effect of a running snapshot on writers, and its memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::figures::Figures;
use super::subject::{Rewrites, Subject, server_name};
use super::{Common, Part};
use crate::machine::memory_of_family;
use crate::report;
use crate::resp::{Client, info_field};
use crate::servers::{Data, Kind, Load, Sample, Scripts};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// The interval of polls for a running snapshot.
const POLL_EVERY: Duration = Duration::from_millis(10);
/// The interval of polls for memory, which cost a server some milliseconds per gigabyte.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// Requests that are drawn in advance and repeated.
const DRAWN: u64 = 1_000_000;
/// The log setting, which has the same name in both servers.
pub(super) const LOG: &str = "everysec";

const RATE: &str = "SET/s";
const PAUSE: &str = "longest pause us";
pub(super) const LATENCIES: [(&str, &str, f64); 4] = [
    ("p50 us", "p50 of quiet", 0.5),
    ("p99 us", "p99 of quiet", 0.99),
    ("p99.9 us", "p99.9 of quiet", 0.999),
    ("max us", "max of quiet", 1.0),
];

/// Measure how a snapshot in progress slows down writers, and the memory that it takes
///
/// Connections overwrite values all the time, evenly over all keys. In every second window of time snapshots are
/// written without a pause (BGSAVE). Memory is that of the process and its children, sampled each 250 ms alike for all
/// servers: the sum of their proportional shares (Pss), in which pages that Redis shares with its child count once.
/// "memory more" is the peak of a window less the memory at its beginning. "longest pause" is the longest time in which
/// no connection got an answer. A snapshot that is incomplete at the end of a window is finished without load: windows
/// should be longer than snapshots.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SnapshotArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "2M")]
    keys: u64,
    /// Connections
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// Requests in flight on each connection
    #[arg(long, default_value_t = 1)]
    pipeline: u64,
    /// Seconds per window; each round has two windows per server
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench durability snapshot
  hotring-bench durability snapshot --keys 20M --seconds 60 --data /srv/disk";

/// The observations during the load.
#[derive(Default)]
pub(super) struct Seen {
    /// The peak of memory, in bytes.
    memory_max: u64,
    /// The duration of each snapshot.
    pub(super) snapshots: Vec<Duration>,
    /// The number of polls, then how many of them met a running snapshot.
    samples: u64,
    busy: u64,
}

pub(super) fn case_name(kind: Kind, saving: bool) -> String {
    format!("{}, {}", server_name(kind), if saving { "snapshot" } else { "quiet" })
}

impl SnapshotArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        ensure!(self.seconds > 0.0 && self.seconds < 1e6, "--seconds is a time");
        ensure!(self.connections > 0 && self.pipeline > 0, "nothing would be sent");
        let (data, kinds) = (self.common.data(self.keys), self.common.kinds()?);
        let load = Load {
            workload: Workload::W,
            skew: Skew::Uniform,
            connections: self.connections,
            depth: self.pipeline,
            rate: None,
            clients: 1,
            time: Duration::from_secs_f64(self.seconds),
        };
        let scripts = Scripts::draw(&load, &data, DRAWN.min(100 * self.keys), 1)?;
        let mut subjects = Vec::new();
        for &kind in &kinds {
            let setup = self.common.setup(kind, Some(LOG), Rewrites::OnRequest);
            subjects.push((kind, self.common.testbed.start(setup, &data)?));
        }
        let mut figures = Figures::new(Part::Snapshot.name(), self.setting());
        let steps = 2 * self.common.rounds * kinds.len();
        let bar = report::progress(steps as u64, "snapshot");
        for round in 0..self.common.rounds {
            for (kind, subject) in &subjects {
                // The order alternates.
                for saving in [round % 2 == 1, round % 2 == 0] {
                    let sending = (&load, &data, &scripts);
                    window((*kind, subject), sending, saving, &mut figures)
                        .with_context(|| case_name(*kind, saving))?;
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        for kind in kinds {
            let (case, base) = (case_name(kind, true), case_name(kind, false));
            figures.add_ratio("rate of quiet", RATE, &case, &base);
            for (figure, relation, _) in LATENCIES {
                figures.add_ratio(relation, figure, &case, &base);
            }
            figures.add_ratio("pause of quiet", PAUSE, &case, &base);
        }
        Ok(vec![figures])
    }

    fn setting(&self) -> String {
        let (keys, value) = (self.keys, self.common.value_size);
        let (connections, depth) = (self.connections, self.pipeline);
        format!(
            "{keys} keys with values of {value} bytes, {connections} connections, {depth} in flight on each"
        )
    }
}

/// Measures one window of one server.
fn window(
    (kind, subject): (Kind, &Subject),
    (load, data, scripts): (&Load, &Data, &Scripts),
    saving: bool,
    figures: &mut Figures,
) -> Result<()> {
    subject.settle()?;
    let target = &subject.target;
    let pid = subject.pid()?;
    let before = memory_of_family(pid)?;
    let mut control = Client::connect(&target.address)?;
    let stop = AtomicBool::new(false);
    let (sample, seen) = std::thread::scope(|scope| {
        let remembering = scope.spawn(|| watch_memory(pid, &stop));
        let saver = scope.spawn(|| save(&mut control, saving, &stop));
        let sample = load.once(target, (data, scripts));
        // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
        stop.store(true, Relaxed);
        let mut seen = saver.join().expect("the saving thread panicked")?;
        seen.memory_max = remembering.join().expect("the watching thread panicked")?;
        anyhow::Ok((sample?, seen))
    })?;
    add_figures(&case_name(kind, saving), &sample, before, &seen, figures);
    if saving {
        add_length(kind, subject, figures);
    }
    Ok(())
}

/// Adds the length of the snapshots in the folder.
pub(super) fn add_length(kind: Kind, subject: &Subject, figures: &mut Figures) {
    let file = if kind == Kind::Redis { "dump.rdb" } else { "snapshot-" };
    let bytes = subject.folder.bytes(file);
    figures.add(&case_name(kind, true), "snapshot MB", bytes as f64 / 1e6);
}

fn add_figures(case: &str, sample: &Sample, before: u64, seen: &Seen, figures: &mut Figures) {
    figures.add(case, RATE, sample.rate);
    for (figure, _, share) in LATENCIES {
        let latency = sample.tally.latency.value_at_quantile(share);
        figures.add(case, figure, latency as f64 / 1e3);
    }
    figures.add(case, PAUSE, sample.tally.pause.as_secs_f64() * 1e6);
    let more = seen.memory_max as f64 / before as f64 - 1.0;
    figures.add(case, "memory before MB", before as f64 / 1e6);
    figures.add(case, "memory more %", more * 100.0);
    if !seen.snapshots.is_empty() {
        let took = seen.snapshots.iter().sum::<Duration>() / seen.snapshots.len() as u32;
        figures.add(case, "snapshots", seen.snapshots.len() as f64);
        figures.add(case, "seconds of each", took.as_secs_f64());
        figures.add(case, "of the window %", seen.busy as f64 / seen.samples as f64 * 100.0);
    }
}

/// The peak of the memory of a server and its children until `stop`.
pub(super) fn watch_memory(pid: u32, stop: &AtomicBool) -> Result<u64> {
    let mut most = 0;
    // ORDERING: Relaxed, for the reason at the store of `stop`.
    while !stop.load(Relaxed) {
        most = most.max(memory_of_family(pid)?);
        std::thread::sleep(WATCH_EVERY);
    }
    Ok(most)
}

/// Polls until `stop`, and if `saving` requests one snapshot after another. Returns once no snapshot is running.
pub(super) fn save(control: &mut Client, saving: bool, stop: &AtomicBool) -> Result<Seen> {
    let (mut seen, mut begun) = (Seen::default(), None);
    loop {
        // ORDERING: Relaxed, for the reason at the store of `stop`.
        let ends = stop.load(Relaxed);
        let info = control.info("persistence")?;
        let busy = info_field::<u64>(&info, "rdb_bgsave_in_progress") == Some(1);
        if !ends {
            seen.samples += 1;
            seen.busy += u64::from(busy);
        }
        if !busy {
            seen.snapshots.extend(begun.take().map(|begun: Instant| begun.elapsed()));
            let status: Option<String> = info_field(&info, "rdb_last_bgsave_status");
            ensure!(status.as_deref() == Some("ok"), "a snapshot has failed: {status:?}");
            if ends {
                return Ok(seen);
            }
            if saving {
                begun = Some(Instant::now());
                control.call(&[b"BGSAVE"])?;
            }
        }
        std::thread::sleep(POLL_EVERY);
    }
}
