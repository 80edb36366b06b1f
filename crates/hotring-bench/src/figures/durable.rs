//! The durable store's hash maps under three locks: its table 2, and its figure 5 behind a server.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;

use super::entry::{Bench, Entry};
use super::field::{self, Work};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use super::locked;
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;
use crate::targets::{Mode, Target};
use crate::workload::operations::{Kind, Op, Stream, Workload};
use crate::workload::skew::Skew;

/// The figures of this file.
pub const ENTRIES: [Entry; 2] = [
    Entry {
        subject: Subject {
            id: "durable-table-2",
            title: "Hash maps under three locks",
            source: Source { paper: Paper::DurableStore, reference: "table 2" },
            paper: "50 coroutines on 4 virtual cores. A readers-writer lock reads 3.25 times as fast \
                    as one lock, and is as fast (1.05) where reads and writes mix; locks for \
                    segments 2.70 and 1.97 times.",
        },
        measure: in_process,
    },
    Entry {
        subject: Subject {
            id: "durable-5",
            title: "The same hash maps behind a server",
            source: Source { paper: Paper::DurableStore, reference: "figure 5" },
            paper: "In a server that clients ask over the network, the choice of the map makes \
                    much less of a difference.",
        },
        measure: served,
    },
];

/// The number of keys, as in the paper.
const KEYS: u64 = 18_430;
/// The number of clients in one process, as in the paper.
const CLIENTS: usize = 50;
const MIXES: [(Workload, &str); 3] = [
    (Workload::C, "reads"),
    (Workload::A, "reads and writes"),
    (Workload::Rur, "read, update, read"),
];
const NO_SKEW: Skew = Skew::Uniform;

fn targets(bench: &Bench) -> Result<Vec<Box<dyn Target>>> {
    let mut targets: Vec<Box<dyn Target>> = locked::all().into();
    targets.push(field::lines(bench, KEYS).build()?);
    targets.iter().for_each(|target| target.load(KEYS, &ProgressBar::hidden()));
    Ok(targets)
}

/// Bars of all targets for each mix of operations.
fn chart(title: String, names: &[Box<dyn Target>], rates: &[Vec<Spread>]) -> Chart {
    let series = names.iter().enumerate().map(|(row, target)| {
        let points = rates.iter().enumerate();
        let points = points.map(|(column, rates)| Point::spread(column as f64, rates[row]));
        Series::measured(target.name(), points.collect())
    });
    let mixes = MIXES.iter().map(|(_, name)| (*name).to_owned()).collect();
    let axis = Axis::linear("thousand operations a second");
    Chart::bars(title, "workload", axis, mixes, series.collect())
}

fn in_process(bench: &Bench) -> Result<Measured> {
    let targets = targets(bench)?;
    let list: Vec<&dyn Target> = targets.iter().map(|target| &**target).collect();
    let (mut rates, mut samples) = (Vec::new(), Vec::new());
    for (workload, name) in MIXES {
        let work = Work { workload, skew: NO_SKEW, threads: CLIENTS };
        let source = work.source(KEYS, (bench.size.ops / CLIENTS as u64).max(1));
        let taken = field::take_turns(bench, &list, &source, name)?;
        let thousands = |mops: &[f64]| mops.iter().map(|mops| 1e3 * mops).collect::<Vec<_>>();
        let spread = taken.iter().map(|samples| Spread::of(&thousands(&samples.mops)));
        rates.push(spread.collect::<Vec<_>>());
        samples.push(taken);
    }
    let gain = |mix: usize, row: usize| samples[mix][row].ratio(&samples[mix][0]);
    let claims = vec![
        Claim::factor("Readers-writer lock, reads: 3.25 times", "here", 3.25, gain(0, 1)),
        Claim::near("Readers-writer lock, mixed: 1.05 times", "here", 1.05, gain(1, 1), 0.15),
        Claim::factor("Segments, reads: 2.70 times", "here", 2.70, gain(0, 2)),
        Claim::factor("Segments, mixed: 1.97 times", "here", 1.97, gain(1, 2)),
        Claim::factor("Segments, mixed: 1.97 times", "read, update, read", 1.97, gain(2, 2)),
        Claim::holds(
            "Segments read slower than one readers-writer lock",
            "so they do",
            usize::from(gain(0, 2).median < gain(0, 1).median),
            1,
        ),
    ];
    let notes = vec![
        format!(
            "{KEYS} keys, all alike, {CLIENTS} threads on {} cores; std::collections::HashMap \
             stands for Go's map, numbers stand for its search terms. With so few cores no more \
             than {} threads run at a time, which bounds what a better lock can bring.",
            bench.size.threads, bench.size.threads
        ),
        "HotRing is shown beside them; the paper has nothing like it. The paper's second pattern is \
         its clients' read, update, read of a key; its table's \"mixed\" is held against half reads, \
         half writes, and against that pattern."
            .to_owned(),
    ];
    let title = format!("{CLIENTS} threads in one process");
    let mut chart = chart(title, &targets, &rates);
    for (name, reads, mixed) in [("readers-writer lock", 3.25, 1.05), ("segments", 2.70, 1.97)] {
        let points = [reads, mixed, mixed].into_iter().enumerate();
        let point =
            |(mix, factor): (usize, f64)| Point::new(mix as f64, factor * rates[mix][0].median);
        let name = format!("{name}, by its gain over one lock");
        chart.series.push(Series::paper(name, points.map(point).collect()));
    }
    Ok(Measured { claims, charts: vec![chart], notes })
}

fn served(bench: &Bench) -> Result<Measured> {
    let targets = targets(bench)?;
    let requests = (bench.size.ops / 25).max(1);
    let clients = bench.size.threads.max(2);
    let mut rates = Vec::new();
    for (workload, name) in MIXES {
        let work = Work { workload, skew: NO_SKEW, threads: clients };
        let source = work.source(KEYS, requests);
        let mut rounds = vec![Vec::new(); targets.len()];
        let bar = bench.steps((bench.size.rounds * targets.len()) as u64, name);
        for round in 0..bench.size.rounds {
            let streams = source.streams(round as u64)?;
            for turn in 0..targets.len() {
                let at = (round + turn) % targets.len();
                let target = &*targets[at];
                let start = Instant::now();
                serve(target, streams.of_keys(target.keys()))?;
                let operations = (requests * clients as u64) as f64;
                rounds[at].push(operations / start.elapsed().as_secs_f64() / 1e3);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        rates.push(rounds.iter().map(|rounds| Spread::of(rounds)).collect::<Vec<_>>());
    }
    let widest = |rates: &[Spread]| {
        let medians = rates[..3].iter().map(|spread| spread.median);
        let (low, high) = medians.fold((f64::INFINITY, 0.0_f64), |(l, h), m| (l.min(m), h.max(m)));
        high / low
    };
    let worst = rates.iter().map(|rates| widest(rates)).fold(0.0, f64::max);
    let claims = vec![Claim::holds(
        "Behind a server the choice of the map hardly matters",
        &format!("the best of the three maps is at most {worst:.2} times the worst"),
        usize::from(worst < 1.25),
        1,
    )];
    let notes = vec![format!(
        "{clients} clients, each with a connection and a thread of the server, in one process: a \
         request and its reply are {} bytes through a Unix socket, one at a time. The paper's \
         clients asked by HTTP, 80 ms away, so its servers waited even longer.",
        size_of::<u64>()
    )];
    let title = format!("{clients} clients over sockets");
    Ok(Measured { claims, charts: vec![chart(title, &targets, &rates)], notes })
}

/// Sends all operations from clients and executes them on the threads of a server.
fn serve(target: &dyn Target, streams: &[Vec<Op>]) -> Result<()> {
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for ops in streams {
            let (client, server) = UnixStream::pair().context("no pair of sockets")?;
            threads.push(scope.spawn(move || answer(target, server)));
            threads.push(scope.spawn(move || ask(ops, client)));
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

/// Runs a client that sends one request and waits for its reply, in turn.
fn ask(ops: &[Op], mut socket: UnixStream) -> Result<()> {
    let mut reply = [0; 8];
    for op in ops {
        let request = op.key() << 1 | u64::from(op.kind() != Kind::Read);
        socket.write_all(&request.to_le_bytes()).context("a request")?;
        socket.read_exact(&mut reply).context("a reply")?;
        ensure!(u64::from_le_bytes(reply) == 1, "key {} was not found", op.key());
    }
    Ok(())
}

/// Runs a thread of the server until its client disconnects.
fn answer(target: &dyn Target, mut socket: UnixStream) -> Result<()> {
    let mut worker = target.worker();
    let mut request = [0; 8];
    while socket.read_exact(&mut request).is_ok() {
        let request = u64::from_le_bytes(request);
        let kind = if request & 1 == 0 { Kind::Read } else { Kind::Update };
        let tally = worker.run(Stream::of(&[Op::new(kind, request >> 1)]), Mode::Scalar);
        let found = u64::from(tally.missed + tally.wrong == 0);
        socket.write_all(&found.to_le_bytes()).context("a reply")?;
    }
    Ok(())
}
