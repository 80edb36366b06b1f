//! Result rows, for a table, CSV and JSON.

use serde::Serialize;

use super::measure::{Data, Load, Sample};
use super::pool::Tally;
use super::target::Target;
use crate::report::{Results, Spread, Table};

/// The results of one target under one load.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub server: String,
    pub version: String,
    pub transport: String,
    pub server_threads: Option<usize>,
    pub workload: String,
    pub skew: String,
    pub keys: u64,
    pub key_bytes: usize,
    pub value_bytes: usize,
    pub connections: usize,
    pub pipeline: u64,
    pub client_threads: usize,
    /// The request rate of an open loop.
    pub asked_per_second: Option<f64>,
    pub requests_per_second: f64,
    pub requests_per_second_min: f64,
    pub requests_per_second_max: f64,
    /// Microseconds of the server's processor time per request.
    pub cpu_us: Option<f64>,
    pub cpu_us_min: Option<f64>,
    pub cpu_us_max: Option<f64>,
    /// Processor time as a multiple of the null server's in the same round: the median.
    pub cpu_of_null: Option<f64>,
    /// Processor time as a multiple of the base's in the same round: the median.
    pub cpu_of_base: Option<f64>,
    pub rate_of_base: Option<f64>,
    pub latency_us_mean: f64,
    pub latency_us_p50: f64,
    pub latency_us_p90: f64,
    pub latency_us_p99: f64,
    pub latency_us_p999: f64,
    pub latency_us_p9999: f64,
    pub latency_us_max: f64,
    pub note: &'static str,
}

/// The rows of one load; `base` is the name of the server that others are compared with.
pub fn rows(
    (data, load): (&Data, &Load),
    targets: &[Target],
    samples: &[Vec<Sample>],
    base: &str,
) -> Vec<Row> {
    // A peer must have the same kind of socket and, where known, the same number of threads.
    let peer = |target: &Target, name: &str| {
        let threads = |other: &Target| match (target.threads, other.threads) {
            (Some(own), Some(others)) => own == others,
            _ => true,
        };
        targets.iter().position(|other| {
            other.name == name && other.transport() == target.transport() && threads(other)
        })
    };
    let row = |(target, own): (&Target, &Vec<Sample>)| {
        let null = peer(target, "null").map(|at| &samples[at]);
        let base = peer(target, base).map(|at| &samples[at]);
        row((data, load), target, own, (null, base))
    };
    targets.iter().zip(samples).map(row).collect()
}

type Peers<'a> = (Option<&'a Vec<Sample>>, Option<&'a Vec<Sample>>);

fn row(
    (data, load): (&Data, &Load),
    target: &Target,
    own: &[Sample],
    (null, base): Peers<'_>,
) -> Row {
    let rate = Spread::of(&own.iter().map(|sample| sample.rate).collect::<Vec<_>>());
    let cpu: Option<Vec<f64>> = own.iter().map(|sample| sample.cpu_us).collect();
    let cpu = cpu.map(|cpu| Spread::of(&cpu));
    let mut all = Tally::new();
    own.iter().for_each(|sample| all.add(&sample.tally));
    let latency = |quantile| us(all.latency.value_at_quantile(quantile) as f64);
    Row {
        server: target.name.clone(),
        version: target.version.clone(),
        transport: target.transport().into(),
        server_threads: target.threads,
        workload: load.workload.to_string(),
        skew: load.skew.to_string(),
        keys: data.keys,
        key_bytes: data.key_len,
        value_bytes: data.value_len,
        connections: load.connections,
        pipeline: load.depth,
        client_threads: load.clients,
        asked_per_second: load.rate,
        requests_per_second: rate.median.round(),
        requests_per_second_min: rate.min.round(),
        requests_per_second_max: rate.max.round(),
        cpu_us: cpu.map(|cpu| cpu.median),
        cpu_us_min: cpu.map(|cpu| cpu.min),
        cpu_us_max: cpu.map(|cpu| cpu.max),
        cpu_of_null: null.and_then(|null| ratio(own, null, |sample| sample.cpu_us)),
        cpu_of_base: base.and_then(|base| ratio(own, base, |sample| sample.cpu_us)),
        rate_of_base: base.and_then(|base| ratio(own, base, |sample| Some(sample.rate))),
        latency_us_mean: us(all.latency.mean()),
        latency_us_p50: latency(0.5),
        latency_us_p90: latency(0.9),
        latency_us_p99: latency(0.99),
        latency_us_p999: latency(0.999),
        latency_us_p9999: latency(0.9999),
        latency_us_max: us(all.latency.max() as f64),
        note: target.note,
    }
}

/// The median of the ratios, which are taken within rounds.
fn ratio(own: &[Sample], other: &[Sample], figure: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let pairs = own.iter().zip(other);
    let ratios: Option<Vec<f64>> =
        pairs.map(|(own, other)| Some(figure(own)? / figure(other)?)).collect();
    ratios.map(|ratios| Spread::of(&ratios).median)
}

fn us(nanoseconds: f64) -> f64 {
    (nanoseconds / 10.0).round() / 100.0
}

impl Results<Row> {
    /// A table for each kind of load, with notes below.
    pub fn table(&self, base: &str) -> String {
        let of_base = format!("CPU of {base}");
        let mut table = Table::new(&[
            "server",
            "socket",
            "threads",
            "load",
            "conns",
            "P",
            "CPU us/request",
            "least..most",
            "CPU of null",
            &of_base,
            "requests/s",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "p99.99 us",
        ]);
        let optional = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.2}"));
        for row in &self.rows {
            let asked =
                row.asked_per_second.map_or_else(String::new, |rate| format!(" at {rate:.0}/s"));
            let least_most = row.cpu_us_min.zip(row.cpu_us_max);
            table.row(vec![
                row.server.clone(),
                row.transport.clone(),
                row.server_threads.map_or_else(|| "-".into(), |threads| threads.to_string()),
                format!("{} {}, {} B{asked}", row.workload, row.skew, row.value_bytes),
                row.connections.to_string(),
                row.pipeline.to_string(),
                row.cpu_us.map_or_else(|| "-".into(), |cpu| format!("{cpu:.3}")),
                least_most.map_or_else(|| "-".into(), |(a, b)| format!("{a:.3}..{b:.3}")),
                optional(row.cpu_of_null),
                optional(row.cpu_of_base),
                format!("{:.0}", row.requests_per_second),
                format!("{:.1}", row.latency_us_p50),
                format!("{:.1}", row.latency_us_p99),
                format!("{:.1}", row.latency_us_p999),
                format!("{:.1}", row.latency_us_p9999),
            ]);
        }
        table.render() + &self.notes()
    }

    fn notes(&self) -> String {
        let mut text = String::new();
        let mut lines: Vec<(&str, &str)> = Vec::new();
        for row in &self.rows {
            let line = (row.server.as_str(), row.version.as_str());
            if !lines.contains(&line) {
                lines.push(line);
                let note =
                    if row.note.is_empty() { String::new() } else { format!(" ({})", row.note) };
                text.push_str(&format!("{}: {}{note}\n", row.server, row.version));
            }
        }
        text
    }
}
