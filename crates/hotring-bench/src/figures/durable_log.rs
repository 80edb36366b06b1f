//! The durable store's table 1: the cost of a write-ahead log, for hotring's server and redis-server.

use std::time::Duration;

use anyhow::Result;

use super::entry::{Bench, Entry};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::durability::{Case, Mode, Window, server_name};
use crate::folder::file_system;
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;
use crate::report::short;
use crate::servers::{Data, Kind, Load, Scripts};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// The figures of this file.
pub const ENTRIES: [Entry; 1] = [Entry {
    subject: Subject {
        id: "durable-table-1",
        title: "What a write-ahead log costs",
        source: Source { paper: Paper::DurableStore, reference: "table 1" },
        paper: "10 clients write 50 records each, one at a time. Without a log 298.7 requests/s at \
                32.6 ms, with a synchronous one 56.2 at 175.9 ms (0.19 times, 5.4 times), with an \
                asynchronous one 294.3 at 33.1 ms (0.985 times, 1.015 times).",
    },
    measure,
}];

/// The number of clients in the paper.
const CLIENTS: usize = 10;
/// The number of keys in the paper's data set.
const KEYS: u64 = 18_430;
const KEY_LEN: usize = 16;
const VALUE_LEN: usize = 100;
/// The least number of requests in a window, unless [`WINDOW_MAX`] ends it earlier; the paper has 500 in all.
/// Smaller at scales with less than a hundred times as many operations.
const REQUESTS_MIN: u64 = 600;
const WINDOW_MAX: Duration = Duration::from_secs(5);
/// Requests that are drawn in advance and repeated.
const DRAWN: u64 = 100_000;

/// A column of the table.
struct Column {
    name: &'static str,
    mode: Mode,
    connections: usize,
    /// The paper's requests a second, and its latency in milliseconds.
    paper: Option<(f64, f64)>,
}

const NONE: usize = 0;
const ASYNC: usize = 1;
const ALONE: usize = 3;
const GROUP: usize = 4;

const COLUMNS: [Column; 5] = [
    Column { name: "no log", mode: Mode::Off, connections: CLIENTS, paper: Some((298.7, 32.6)) },
    Column { name: "async", mode: Mode::Async, connections: CLIENTS, paper: Some((294.3, 33.1)) },
    Column { name: "everysec", mode: Mode::Everysec, connections: CLIENTS, paper: None },
    // One connection, so that no two writes share a sync.
    Column {
        name: "sync, each alone",
        mode: Mode::Sync,
        connections: 1,
        paper: Some((56.2, 175.9)),
    },
    Column { name: "sync, group commit", mode: Mode::Sync, connections: CLIENTS, paper: None },
];

/// The windows of one server in one column.
#[derive(Default)]
struct Cell {
    rates: Vec<f64>,
    /// The average wait of a client, in milliseconds.
    waits: Vec<f64>,
    records_per_sync: Vec<f64>,
    requests_min: u64,
}

/// A server, with a cell for each column.
struct Server {
    kind: Kind,
    cells: Vec<Cell>,
}

fn measure(bench: &Bench) -> Result<Measured> {
    let data = Data { keys: KEYS, key_len: KEY_LEN, value_len: VALUE_LEN };
    let mut notes = Vec::new();
    let lacks = |kind, error| notes.push(format!("Left out: {}. {error:#}.", server_name(kind)));
    let kinds = bench.testbed.present(&[Kind::Hotring, Kind::Redis], lacks);
    let mut cases = Vec::new();
    for &kind in &kinds {
        for mode in [Mode::Off, Mode::Async, Mode::Everysec, Mode::Sync] {
            cases.push(Case::start(&bench.testbed, (kind, mode), 1, &data)?);
        }
    }
    let servers = rounds(bench, &data, &mut cases, &kinds)?;
    let mut versions: Vec<&str> = cases.iter().map(|c| &*c.subject.target.version).collect();
    versions.dedup();
    let fewest = servers.iter().flat_map(|s| &s.cells).map(|cell| cell.requests_min).min();
    notes.push(format!(
        "Measured: {}; files: {}. {KEYS} keys of {KEY_LEN} bytes, values of {VALUE_LEN}; SET only, one request at a \
         time. The paper's 500 requests last some milliseconds here, which is noise: each window had {} requests or more.",
        versions.join(", "),
        file_system(&bench.testbed.folder()),
        short(fewest.unwrap_or_default() as f64),
    ));
    notes.push(setting());
    notes.extend(servers.iter().map(sharing));
    let claims = servers.iter().flat_map(claims).collect();
    Ok(Measured { claims, charts: charts(&servers), notes })
}

/// The note on the setting of the measurement.
fn setting() -> String {
    format!(
        "The paper's server syncs each write by itself while its other clients wait. \"Each alone\" is that with either \
         server: both share a sync among all writes that wait for one, so only one connection writes there, and the \
         latency is what each of {CLIENTS} clients would wait if they took turns ({CLIENTS} divided by the throughput). \
         The way to the client and back is in each turn. Everything else has {CLIENTS} connections. redis is set to \
         appendonly no, and appendfsync no, everysec and always."
    )
}

/// Loads each server for a window in each column, round by round.
fn rounds(bench: &Bench, data: &Data, cases: &mut [Case], kinds: &[Kind]) -> Result<Vec<Server>> {
    let cells: Vec<(usize, usize)> = (0..kinds.len())
        .flat_map(|server| (0..COLUMNS.len()).map(move |column| (server, column)))
        .collect();
    let new = |&kind: &Kind| {
        let cells = COLUMNS.iter().map(|_| Cell { requests_min: u64::MAX, ..Cell::default() });
        Server { kind, cells: cells.collect() }
    };
    let mut servers: Vec<Server> = kinds.iter().map(new).collect();
    let scripts = COLUMNS
        .iter()
        .map(|column| Scripts::draw(&load(column, Duration::ZERO), data, DRAWN, 1))
        .collect::<Result<Vec<_>>>()?;
    let mut times = vec![Duration::from_secs_f64(bench.size.seconds / 30.0); cells.len()];
    let least = REQUESTS_MIN.min(bench.size.ops / 100);
    let bar = bench.steps(((1 + bench.size.rounds) * cells.len()) as u64, "logs");
    // The first round is a warm-up and does not count.
    for round in 0..=bench.size.rounds {
        for turn in 0..cells.len() {
            let at = (round + turn) % cells.len();
            let (server, column) = cells[at];
            let is_it =
                |case: &&mut Case| case.kind == kinds[server] && case.mode == COLUMNS[column].mode;
            let case = cases.iter_mut().find(is_it).expect("each server is there in each mode");
            let window = long_enough(least, &mut times[at], |time| {
                let load = load(&COLUMNS[column], time);
                let window = case.window(&load, data, &scripts[column])?;
                let came = window.sample.tally.requests;
                Ok((window, came))
            })?;
            bar.inc(1);
            if round > 0 {
                servers[server].cells[column].add(&window, &COLUMNS[column]);
            }
        }
    }
    bar.finish_and_clear();
    Ok(servers)
}

/// Repeats a window with more time until it has `requests` requests or takes [`WINDOW_MAX`]. Later windows take
/// the same time.
fn long_enough<W>(
    requests: u64,
    time: &mut Duration,
    mut window: impl FnMut(Duration) -> Result<(W, u64)>,
) -> Result<W> {
    loop {
        let (window, came) = window(*time)?;
        if came >= requests || *time >= WINDOW_MAX {
            return Ok(window);
        }
        let wanted = time.mul_f64(1.5 * requests as f64 / came.max(1) as f64);
        *time = wanted.max(2 * *time).min(WINDOW_MAX);
    }
}

fn load(column: &Column, time: Duration) -> Load {
    Load {
        workload: Workload::W,
        skew: Skew::Uniform,
        connections: column.connections,
        depth: 1,
        rate: None,
        clients: 1,
        time,
    }
}

impl Cell {
    fn add(&mut self, window: &Window, column: &Column) {
        let Window { sample, records_per_sync } = window;
        let mean = sample.tally.latency.mean() / 1e6;
        let in_turn = CLIENTS as f64 / sample.rate * 1e3;
        self.rates.push(sample.rate);
        self.waits.push(if column.connections == CLIENTS { mean } else { in_turn });
        self.records_per_sync.extend(records_per_sync);
        self.requests_min = self.requests_min.min(sample.tally.requests);
    }
}

impl Server {
    /// A column as a multiple of the column `base`, round by round.
    fn times(&self, column: usize, base: usize, figure: impl Fn(&Cell) -> &[f64]) -> Spread {
        let rounds = figure(&self.cells[column]).iter().zip(figure(&self.cells[base]));
        Spread::of(&rounds.map(|(own, base)| own / base).collect::<Vec<_>>())
    }
}

/// The paper's statements, compared with one server.
fn claims(server: &Server) -> Vec<Claim> {
    let printed = |column: usize| COLUMNS[column].paper.expect("the paper has this column");
    let (none, name) = (printed(NONE), server_name(server.kind));
    let rate = |column| server.times(column, NONE, |cell| &cell.rates).median;
    let wait = |column| server.times(column, NONE, |cell| &cell.waits).median;
    let (asynchronous, sync) = (printed(ASYNC), printed(ALONE));
    vec![
        Claim::near(
            "An asynchronous log: 0.985 times the throughput of none",
            &format!("{name}, times"),
            asynchronous.0 / none.0,
            rate(ASYNC),
            0.05,
        ),
        Claim::near(
            "An asynchronous log: 1.015 times the mean latency of none",
            &format!("{name}, times"),
            asynchronous.1 / none.1,
            wait(ASYNC),
            0.05,
        ),
        Claim::factor(
            "A synchronous log, each write by itself: 0.19 times the throughput of none",
            &format!("{name}, a sync for each write"),
            sync.0 / none.0,
            rate(ALONE),
        ),
        Claim::factor(
            "A synchronous log, each write by itself: 5.4 times the mean latency of none",
            &format!("{name}, a sync for each write"),
            sync.1 / none.1,
            wait(ALONE),
        ),
    ]
}

/// The gain of group commit, and the writes per sync.
fn sharing(server: &Server) -> String {
    let name = server_name(server.kind);
    let times = |base| short(server.times(GROUP, base, |cell| &cell.rates).median);
    let (worth, of_none) = (times(ALONE), times(NONE));
    let shared = |column: usize| {
        let shared = &server.cells[column].records_per_sync;
        (!shared.is_empty()).then(|| short(Spread::of(shared).median))
    };
    let shared_syncs = match shared(ALONE).zip(shared(GROUP)) {
        Some((alone, group)) => format!("; {group} writes share a sync, {alone} of each alone"),
        None => String::new(),
    };
    format!(
        "{name}: group commit among {CLIENTS} connections gives {worth} times the throughput of each \
         write alone, {of_none} times that of no log{shared_syncs}."
    )
}

fn charts(servers: &[Server]) -> Vec<Chart> {
    let none = COLUMNS[NONE].paper.expect("the paper has this column");
    let rates = |server: &Server, column: usize| Spread::of(&server.cells[column].rates);
    let waits = |server: &Server, column: usize| Spread::of(&server.cells[column].waits);
    let shares = |server: &Server, column| server.times(column, NONE, |cell| &cell.rates);
    let part = "Throughput as a part of that without a log";
    vec![
        chart(servers, "Throughput", Axis::log("requests/s"), rates, |paper| paper.0),
        chart(servers, "Mean latency", Axis::log("ms"), waits, |paper| paper.1),
        chart(servers, part, Axis::linear("times"), shares, |paper| paper.0 / none.0),
    ]
}

/// Bars of all servers, and of the paper, by column.
fn chart(
    servers: &[Server],
    title: &str,
    y: Axis,
    figure: impl Fn(&Server, usize) -> Spread,
    paper: impl Fn((f64, f64)) -> f64,
) -> Chart {
    let measured = servers.iter().map(|server| {
        let point = |column| Point::spread(column as f64, figure(server, column));
        Series::measured(server_name(server.kind), (0..COLUMNS.len()).map(point).collect())
    });
    let mut series: Vec<Series> = measured.collect();
    let point =
        |(number, column): (usize, &Column)| Some(Point::new(number as f64, paper(column.paper?)));
    let printed = COLUMNS.iter().enumerate().filter_map(point).collect();
    series.push(Series::paper("the paper's store", printed));
    let categories = COLUMNS.iter().map(|column| column.name.to_owned()).collect();
    Chart::bars(format!("{title}, {CLIENTS} clients that write"), "log", y, categories, series)
}

#[cfg(test)]
mod tests {
    use super::super::figure::Verdict;
    use super::*;

    fn server(columns: [(f64, f64); COLUMNS.len()]) -> Server {
        let cell = |(rate, wait)| Cell { rates: vec![rate], waits: vec![wait], ..Cell::default() };
        Server { kind: Kind::Hotring, cells: columns.map(cell).into() }
    }

    fn verdicts(columns: [(f64, f64); COLUMNS.len()]) -> Vec<Verdict> {
        claims(&server(columns)).iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn the_papers_own_figures_agree_and_free_syncs_differ() {
        let [none, asynchronous, sync] = [(298.7, 32.6), (294.3, 33.1), (56.2, 175.9)];
        let same = verdicts([none, asynchronous, asynchronous, sync, sync]);
        assert_eq!(same, [Verdict::Agrees; 4]);
        let slow_async = verdicts([none, sync, sync, none, none]);
        assert_eq!(slow_async, [Verdict::Differs; 4]);
    }

    #[test]
    fn a_window_grows_until_it_has_enough_requests() {
        // A request each 10 ms.
        let came = |time: Duration| time.as_millis() as u64 / 10;
        for (requests, least, most) in [(50, 500, 2000), (100_000, 5000, 5000)] {
            let mut time = Duration::from_millis(1);
            let seen =
                long_enough(requests, &mut time, |time| Ok((came(time), came(time)))).unwrap();
            assert!((least..=most).contains(&time.as_millis()), "{time:?}");
            assert!(seen == came(time) && (seen >= requests || time == WINDOW_MAX), "{seen}");
        }
    }
}
