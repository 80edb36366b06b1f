//! `giant`: measures how long requests wait beside a snapshot of one giant hash.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use hdrhistogram::Histogram;

use super::figures::Figures;
use super::snapshot::{LOG, add_length, case_name, save};
use super::subject::{Rewrites, Subject, server_name};
use super::{Common, Part};
use crate::report;
use crate::resp::Client;
use crate::servers::Kind;

const HASH: &[u8] = b"giant";
/// Fields that one request adds while the hash is loaded.
const FIELDS_AT_ONCE: u64 = 1000;
/// Latencies are recorded in nanoseconds with this many decimal digits.
const DIGITS: u8 = 3;

/// The figures of each kind of request, each with a share of its latencies.
const SHOWN: [[(&str, f64); 3]; 3] = [
    [("HSET p50 us", 0.5), ("HSET p99.9 us", 0.999), ("HSET max us", 1.0)],
    [("SET p50 us", 0.5), ("SET p99.9 us", 0.999), ("SET max us", 1.0)],
    [("GET p50 us", 0.5), ("GET p99.9 us", 0.999), ("GET max us", 1.0)],
];

/// A longer latency is counted.
const LONG_NS: u64 = 1_000_000;

/// What runs beside the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Snapshots,
    BusyThread,
}

/// Measure how long requests wait beside a snapshot of one giant hash
///
/// One connection with one request in flight changes fields of the hash (HSET), writes another key (SET) and reads it
/// (GET), in turn: in one window of time without a snapshot, in one beside snapshots that follow each other without a
/// pause (BGSAVE) and are nearly all the hash, in one beside a thread that computes. "of 100,000 above 1 ms" counts
/// requests of all kinds. Where cores are few, any busy thread delays a request until the scheduler makes room: what
/// the computing thread delays as well is not the snapshot's.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GiantArgs {
    /// Fields of the hash
    #[arg(long, value_parser = crate::count::count, default_value = "5M")]
    fields: u64,
    /// Seconds per window; each round has three windows per server
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench durability giant
  hotring-bench durability giant --fields 50k --seconds 1 --rounds 1";

impl Beside {
    const ALL: [Beside; 3] = [Beside::Nothing, Beside::Snapshots, Beside::BusyThread];

    /// The name of a server's case.
    fn case(self, kind: Kind) -> String {
        match self {
            Beside::Nothing | Beside::Snapshots => case_name(kind, self == Beside::Snapshots),
            Beside::BusyThread => format!("{}, busy thread", server_name(kind)),
        }
    }
}

impl GiantArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        ensure!(self.seconds > 0.0 && self.seconds < 1e6, "--seconds is a time");
        ensure!(self.fields > 0, "--fields must be at least 1");
        let kinds = self.common.kinds()?;
        let mut subjects = Vec::new();
        for &kind in &kinds {
            let setup = self.common.setup(kind, Some(LOG), Rewrites::OnRequest);
            let subject = self.common.testbed.start(setup, &self.common.data(0))?;
            self.load(&subject)?;
            subjects.push((kind, subject));
        }
        let value = self.common.value_size;
        let setting = format!("one hash of {} fields with values of {value} bytes", self.fields);
        let mut figures = Figures::new(Part::Giant.name(), setting);
        let bar = report::progress(
            (Beside::ALL.len() * self.common.rounds * kinds.len()) as u64,
            "giant",
        );
        for round in 0..self.common.rounds {
            for (kind, subject) in &subjects {
                for turn in 0..Beside::ALL.len() {
                    // The order rotates.
                    let beside = Beside::ALL[(round + turn) % Beside::ALL.len()];
                    let window = self.window((*kind, subject), beside, &mut figures);
                    window.with_context(|| beside.case(*kind))?;
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        Ok(vec![figures])
    }

    /// A value that Redis cannot compress in its snapshot.
    fn value(&self) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(2);
        (0..self.common.value_size).map(|_| random.u8(..)).collect()
    }

    fn load(&self, subject: &Subject) -> Result<()> {
        let (mut client, value) = (Client::connect(&subject.target.address)?, self.value());
        let bar = report::progress(self.fields, "fields");
        for first in (0..self.fields).step_by(FIELDS_AT_ONCE as usize) {
            let next = self.fields.min(first + FIELDS_AT_ONCE);
            let names: Vec<String> = (first..next).map(field_name).collect();
            let mut request: Vec<&[u8]> = vec![b"HSET", HASH];
            request.extend(names.iter().flat_map(|name| [name.as_bytes(), &value]));
            client.call(&request)?;
            bar.inc(next - first);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Measures one window of one server.
    fn window(
        &self,
        (kind, subject): (Kind, &Subject),
        beside: Beside,
        figures: &mut Figures,
    ) -> Result<()> {
        let (case, saving) = (&beside.case(kind), beside == Beside::Snapshots);
        subject.settle()?;
        let mut control = Client::connect(&subject.target.address)?;
        let stop = AtomicBool::new(false);
        let (latencies, seen) = std::thread::scope(|scope| {
            let saver = scope.spawn(|| save(&mut control, saving, &stop));
            if beside == Beside::BusyThread {
                // ORDERING: Relaxed, for the reason at the store of `stop`.
                scope.spawn(|| {
                    while !stop.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let latencies = self.requests(subject);
            // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
            stop.store(true, Relaxed);
            let seen = saver.join().expect("the saving thread panicked")?;
            anyhow::Ok((latencies?, seen))
        })?;
        for (shown, latency) in SHOWN.iter().zip(&latencies) {
            for &(figure, share) in shown {
                figures.add(case, figure, latency.value_at_quantile(share) as f64 / 1e3);
            }
        }
        let all: u64 = latencies.iter().map(Histogram::len).sum();
        let long: u64 =
            latencies.iter().map(|latency| latency.count_between(LONG_NS, u64::MAX)).sum();
        figures.add(case, "of 100,000 above 1 ms", long as f64 / all as f64 * 1e5);
        if saving {
            let took = seen.snapshots.iter().sum::<Duration>().as_secs_f64();
            figures.add(case, "snapshots", seen.snapshots.len() as f64);
            figures.add(case, "seconds of each", took / seen.snapshots.len() as f64);
            add_length(kind, subject, figures);
        }
        Ok(())
    }

    /// Sends requests for the length of a window, and gives the latencies of each kind in the order of `SHOWN`.
    fn requests(&self, subject: &Subject) -> Result<Vec<Histogram<u64>>> {
        let (mut client, value) = (Client::connect(&subject.target.address)?, self.value());
        let mut latencies = Vec::new();
        for _ in SHOWN {
            latencies.push(Histogram::<u64>::new(DIGITS)?);
        }
        let (begun, window) = (Instant::now(), Duration::from_secs_f64(self.seconds));
        let mut random = fastrand::Rng::with_seed(1);
        while begun.elapsed() < window {
            let field = field_name(random.u64(0..self.fields));
            let requests: [&[&[u8]]; SHOWN.len()] = [
                &[b"HSET", HASH, field.as_bytes(), &value],
                &[b"SET", b"other", &value],
                &[b"GET", b"other"],
            ];
            for (request, latency) in requests.iter().zip(&mut latencies) {
                let sent = Instant::now();
                client.call(request)?;
                latency.record(sent.elapsed().as_nanos() as u64)?;
            }
        }
        Ok(latencies)
    }
}

fn field_name(number: u64) -> String {
    format!("field:{number:010}")
}
