//! Servers over TCP: hotring, with the ring and with RHKV's tables, compared with redis-server and memcached.

use std::time::Duration;

use anyhow::Result;
use indicatif::ProgressBar;

use super::entry::{Bench, Entry};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::machine;
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;
use crate::servers::{Data, Kind, Load, Plan, Rounds, Sample, Scripts, Target, Transport};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// The figures of this file.
pub const ENTRIES: [Entry; 2] = [
    Entry {
        subject: Subject {
            id: "rhkv-7",
            title: "Throughput of servers by mix of requests and skew",
            source: Source { paper: Paper::Rhkv, reference: "figure 7" },
            paper: "With GET and UPDATE 50:50, 95:5 and 100:0, and GET and INSERT 95:5, uniform and \
                    Zipfian, RHKV outperforms Redis, MongoDB and Memcached in most cases; in \
                    absolute terms the difference to Redis seems minimal for most. It scales well.",
        },
        measure: throughput,
    },
    Entry {
        subject: Subject {
            id: "rhkv-8",
            title: "Latency of servers by mix of requests",
            source: Source { paper: Paper::Rhkv, reference: "figure 8, table 4" },
            paper: "One client. All stores have similar latencies but for Memcached, whose are \
                    higher; Redis comes near to RHKV, which has the lowest. Over TCP (table 4, one \
                    thread, Zipfian) RHKV takes 43.2, 41.3 and 39.5 us for 50:50, 95:5 and 100:0.",
        },
        measure: latency,
    },
];

/// The paper's mixes, in its order.
const MIXES: [(Workload, &str); 4] = [
    (Workload::A, "50:50"),
    (Workload::B, "95:5"),
    (Workload::C, "100:0"),
    (Workload::D, "95:5 inserts"),
];

const ZIPF: Skew = Skew::Zipf(0.99);

/// Lengths of a key and a value in bytes, as in the paper's section 6.6.
const KEY_LEN: usize = 10;
const VALUE_LEN: usize = 100;

/// Connections of "many clients".
const MANY: usize = 50;

/// Requests that are drawn in advance and repeated.
const DRAWN: u64 = 500_000;

/// hotring's server with RHKV's tables, which stands for RHKV.
const RHKV: &str = "hotring (gcuckoo)";

/// A group of servers, each with the same data.
struct Field {
    targets: Vec<Target>,
    data: Data,
    rounds: Rounds,
    time: Duration,
    notes: Vec<String>,
    bar: ProgressBar,
}

/// The samples of each target under one load.
type Samples = Vec<Vec<Sample>>;

impl Field {
    /// Starts and loads the servers, for `loads` loads of measurements.
    fn new(bench: &Bench, loads: usize) -> Result<Self> {
        let size = &bench.size;
        let data = Data { keys: (size.keys / 8).max(1), key_len: KEY_LEN, value_len: VALUE_LEN };
        let rounds = Rounds { measured: size.rounds, warmup: size.warmup };
        let mut notes = vec![setting(&data)];
        let mut targets = Vec::new();
        for (kind, engine) in [
            (Kind::Hotring, "hotring"),
            (Kind::Hotring, "gcuckoo"),
            (Kind::Redis, ""),
            (Kind::Memcached, ""),
            (Kind::Null, ""),
        ] {
            let mut plan = Plan::new(kind, Transport::Tcp, 1, engine, &data);
            plan.pinned = machine::cores().len() > 1;
            plan.program = bench.testbed.program(kind);
            match Target::start(&plan) {
                Ok(target) => targets.push(target),
                Err(error) => notes.push(format!("Left out: {}. {error:#}.", plan.name())),
            }
        }
        for target in &targets {
            data.load(target)?;
            if !target.note.is_empty() {
                notes.push(format!("{}: {}.", target.version, target.note));
            }
        }
        let mut versions: Vec<&str> =
            targets.iter().map(|target| target.version.as_str()).collect();
        versions.dedup();
        notes.push(format!("Measured: {}.", versions.join(", ")));
        let steps = loads * targets.len() * (rounds.measured + rounds.warmup);
        let bar = bench.steps(steps as u64, "servers");
        let time = Duration::from_secs_f64(size.seconds / 30.0);
        Ok(Field { targets, data, rounds, time, notes, bar })
    }

    fn load(&self, workload: Workload, skew: Skew, connections: usize) -> Load {
        Load { workload, skew, connections, depth: 1, rate: None, clients: 1, time: self.time }
    }

    fn measure(&self, load: &Load) -> Result<Samples> {
        let scripts = Scripts::draw(load, &self.data, DRAWN, 1)?;
        load.measure(&self.targets, (&self.data, &scripts), self.rounds, &self.bar)
    }

    /// A figure of each server in each case, as series of a chart.
    fn series(&self, cases: &[Samples], figure: impl Fn(&Sample) -> Option<f64>) -> Vec<Series> {
        let series = |(at, target): (usize, &Target)| {
            let spread = |(column, samples): (usize, &Samples)| {
                let values: Option<Vec<f64>> = samples[at].iter().map(&figure).collect();
                Some(Point::spread(column as f64, Spread::of(&values?)))
            };
            let points = cases.iter().enumerate().filter_map(spread).collect();
            Series::measured(target.name.clone(), points)
        };
        self.targets.iter().enumerate().map(series).collect()
    }

    /// The median of a server's figure, if the server is present.
    fn median(
        &self,
        samples: &Samples,
        name: &str,
        figure: impl Fn(&Sample) -> f64,
    ) -> Option<f64> {
        let at = self.targets.iter().position(|target| target.name == name)?;
        Some(Spread::of(&samples[at].iter().map(figure).collect::<Vec<_>>()).median)
    }

    /// The number of cases in which the figure of `one` is above that of `other`, and the number of cases with
    /// both.
    fn above(
        &self,
        cases: &[Samples],
        (one, other): (&str, &str),
        figure: impl Fn(&Sample) -> f64 + Copy,
    ) -> Option<(usize, usize)> {
        let pairs: Vec<(f64, f64)> = cases
            .iter()
            .filter_map(|case| self.median(case, one, figure).zip(self.median(case, other, figure)))
            .collect();
        let held = pairs.iter().filter(|(one, other)| one > other).count();
        (!pairs.is_empty()).then_some((held, pairs.len()))
    }

    /// The figure of `one` as a multiple of that of `other`: the median over the cases.
    fn times(
        &self,
        cases: &[Samples],
        (one, other): (&str, &str),
        figure: impl Fn(&Sample) -> f64 + Copy,
    ) -> Option<f64> {
        let ratio =
            |case| Some(self.median(case, one, figure)? / self.median(case, other, figure)?);
        let ratios: Option<Vec<f64>> = cases.iter().map(ratio).collect();
        ratios.map(|ratios| Spread::of(&ratios).median)
    }
}

/// The note on the setting of the measurement.
fn setting(data: &Data) -> String {
    let cores = if machine::cores().len() > 1 { "a core of its own" } else { "the same core" };
    format!(
        "Client and servers share one machine; the client has {cores}. Servers have one thread, keep \
         nothing on disk, and hold {} keys of {KEY_LEN} bytes with values of {VALUE_LEN}. The paper's \
         RHKV speaks RDMA and has hardware transactions; {RHKV} is its tables behind hotring's TCP. \
         null answers constants: the limit. MongoDB is not measured.",
        data.keys
    )
}

fn names() -> Vec<String> {
    MIXES.iter().map(|(_, name)| (*name).to_owned()).collect()
}

fn rate(sample: &Sample) -> f64 {
    sample.rate
}

fn mean_us(sample: &Sample) -> f64 {
    sample.tally.latency.mean() / 1e3
}

fn throughput(bench: &Bench) -> Result<Measured> {
    const CLIENTS: [usize; 3] = [1, 8, MANY];
    let field = Field::new(bench, 2 * MIXES.len() + CLIENTS.len())?;
    let mixes = |skew| -> Result<Vec<Samples>> {
        MIXES.iter().map(|&(mix, _)| field.measure(&field.load(mix, skew, MANY))).collect()
    };
    let (uniform, skewed) = (mixes(Skew::Uniform)?, mixes(ZIPF)?);
    let pipelined = |connections| Load { depth: 16, ..field.load(Workload::B, ZIPF, connections) };
    let clients = CLIENTS.map(|connections| field.measure(&pipelined(connections)));
    let clients = clients.into_iter().collect::<Result<Vec<_>>>()?;
    field.bar.finish_and_clear();
    let chart = |title: &str, cases: &[Samples]| {
        let series = field.series(cases, |sample| Some(sample.rate / 1e3));
        let title = format!("{title}, {MANY} connections, one request at a time");
        Chart::bars(title, "GET:UPDATE", Axis::linear("thousand requests/s"), names(), series)
    };
    let both: Vec<Samples> = skewed.into_iter().chain(uniform).collect();
    let (skewed, uniform) = both.split_at(MIXES.len());
    let cpu = |title: &str, x: &str, columns, cases: &[Samples]| {
        let series = field.series(cases, |sample| sample.cpu_us);
        Chart::bars(title, x, Axis::linear("server CPU us/request"), columns, series)
    };
    let connections = CLIENTS.iter().map(|clients| format!("{clients}")).collect();
    let charts = vec![
        chart("Uniform", uniform),
        chart("Zipf 0.99", skewed),
        cpu("Zipf 0.99: CPU time of the server", "GET:UPDATE", names(), skewed),
        cpu("95:5, Zipf 0.99, pipelines of 16", "connections", connections, &clients),
    ];
    let claims = [
        field.above(&both, (RHKV, "redis"), rate).map(|(held, cases)| {
            let paper = "RHKV outperforms Redis in most cases";
            Claim::holds(paper, "G-Cuckoo in hotring, requests/s above redis's", held, cases)
        }),
        field.above(&both, (RHKV, "memcached"), rate).map(|(held, cases)| {
            let paper = "RHKV outperforms Memcached in most cases";
            Claim::holds(paper, "G-Cuckoo in hotring, requests/s above memcached's", held, cases)
        }),
        field.times(&both, (RHKV, "redis"), rate).map(|times| {
            let paper = "The difference between RHKV and Redis is minimal for most cases";
            Claim::near(paper, "requests/s, times redis's, median", 1.0, times, 0.15)
        }),
    ];
    let claims = claims.into_iter().flatten().collect();
    let mut notes = field.notes.clone();
    notes.push(
        "One request at a time, nearly all of a server's time is the kernel's, for TCP and \
         wake-ups: no index shows there. In pipelines the server's own work does."
            .into(),
    );
    Ok(Measured { claims, charts, notes })
}

fn latency(bench: &Bench) -> Result<Measured> {
    /// Requests per second, far below the capacity of any server.
    const RATE: f64 = 10_000.0;
    const QUANTILES: [(f64, &str); 4] =
        [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
    /// The TCP/IP row of the paper's table 4.
    const PRINTED: [f64; 3] = [43.2, 41.3, 39.5];
    let field = Field::new(bench, MIXES.len() + 1)?;
    let skew = |mix| if mix == Workload::D { Skew::Latest(0.99) } else { ZIPF };
    let cases = MIXES.iter().map(|&(mix, _)| field.measure(&field.load(mix, skew(mix), 1)));
    let cases = cases.collect::<Result<Vec<Samples>>>()?;
    let paced = Load { rate: Some(RATE), ..field.load(Workload::B, ZIPF, MANY) };
    let paced = field.measure(&paced)?;
    field.bar.finish_and_clear();
    let mut series = field.series(&cases, |sample| Some(mean_us(sample)));
    let printed = PRINTED.iter().enumerate().map(|(at, &us)| Point::new(at as f64, us));
    series.push(Series::paper("RHKV over TCP/IP (table 4)", printed.collect()));
    let one = Chart::bars(
        "Mean latency, one connection, one request at a time",
        "GET:UPDATE",
        Axis::linear("us"),
        names(),
        series,
    );
    let of = |at: usize, quantile: f64| {
        let quantile = |sample: &Sample| sample.tally.latency.value_at_quantile(quantile) as f64;
        Spread::of(&paced[at].iter().map(|sample| quantile(sample) / 1e3).collect::<Vec<_>>())
    };
    let series = field.targets.iter().enumerate().map(|(at, target)| {
        let columns = QUANTILES.iter().enumerate();
        let points =
            columns.map(|(column, &(q, _))| Point::spread(column as f64, of(at, q))).collect();
        Series::measured(target.name.clone(), points)
    });
    let columns = QUANTILES.iter().map(|(_, name)| (*name).to_owned()).collect();
    let tail = Chart::bars(
        format!("95:5 at {RATE} requests/s over {MANY} connections, from the due time"),
        "percentile",
        Axis::log("us"),
        columns,
        series.collect(),
    );
    let claims = [
        field.above(&cases, ("redis", RHKV), mean_us).map(|(held, of)| {
            let paper = "RHKV has the lowest latency: below Redis";
            Claim::holds(paper, "G-Cuckoo in hotring, mean below redis's", held, of)
        }),
        field.above(&cases, ("memcached", RHKV), mean_us).map(|(held, of)| {
            let paper = "RHKV has the lowest latency: below Memcached";
            Claim::holds(paper, "G-Cuckoo in hotring, mean below memcached's", held, of)
        }),
        field.times(&cases, (RHKV, "redis"), mean_us).map(|times| {
            Claim::near("Redis comes near to RHKV", "mean, times redis's", 1.0, times, 0.15)
        }),
    ];
    let claims = claims.into_iter().flatten().collect();
    let mut notes = field.notes.clone();
    notes.push(
        "Inserts come with reads of the latest keys, the others are Zipfian (0.99). The plot of \
         percentiles is an open loop: requests are due at fixed times, and latencies count from \
         those, so that no stall is left out."
            .into(),
    );
    Ok(Measured { claims, charts: vec![one, tail], notes })
}
