//! The rows of a run's results, and their table.

use serde::Serialize;

use crate::measure::latency::Latencies;
use crate::measure::load::Loaded;
use crate::measure::rounds::{Entrant, Samples};
use crate::measure::settle::Settled;
use crate::report::{Results, Spread, Table};
use crate::targets::{Mode, TargetName};
use crate::workload::operations::Workload;

/// The results of one target in one setting.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    workload: String,
    skew: String,
    mode: String,
    threads: usize,
    target: String,
    mops_median: f64,
    mops_min: f64,
    mops_max: f64,
    mops_lower_quartile: f64,
    mops_upper_quartile: f64,
    /// The median rate as a multiple of the best peer's in the same setting.
    of_best_peer: Option<f64>,
    /// The median rate as a share of the oracle's in the same setting. None for reads of absent keys.
    of_oracle: Option<f64>,
    /// Growth of the process's memory while the target was loaded, per key.
    bytes_per_key: f64,
    /// Bytes of the index alone per key, once the target was loaded.
    index_bytes_per_key: Option<f64>,
    visits_per_lookup: Option<f64>,
    /// The warm-up before the rounds.
    settled_turns: u64,
    settled_ops: u64,
    settled_seconds: f64,
    is_stable: bool,
    /// Latencies of single reads, if they were timed. They include the time to read the clock.
    latency_ns_p50: Option<u64>,
    latency_ns_p99: Option<u64>,
    latency_ns_p999: Option<u64>,
    latency_ns_p9999: Option<u64>,
    latency_ns_max: Option<u64>,
}

impl Row {
    /// Adds the latencies of single reads.
    pub fn time(&mut self, latencies: &Latencies) {
        let at = |quantile| Some(latencies.value_at_quantile(quantile));
        self.latency_ns_p50 = at(0.5);
        self.latency_ns_p99 = at(0.99);
        self.latency_ns_p999 = at(0.999);
        self.latency_ns_p9999 = at(0.9999);
        self.latency_ns_max = Some(latencies.max());
    }

    fn settled(&self) -> Settled {
        let (turns, ops) = (self.settled_turns, self.settled_ops);
        Settled { turns, ops, seconds: self.settled_seconds, is_stable: self.is_stable }
    }

    fn latencies(&self) -> String {
        let all =
            [self.latency_ns_p50, self.latency_ns_p99, self.latency_ns_p999, self.latency_ns_p9999];
        let texts: Option<Vec<String>> =
            all.iter().map(|ns| Some(ns.as_ref()?.to_string())).collect();
        texts.map_or("-".into(), |texts| texts.join(", "))
    }
}

/// The rows of one setting.
pub fn rows(
    setting: &Entrant<'_>,
    (workload, skew): (Workload, String),
    targets: &[Loaded],
    samples: &[Samples],
) -> Vec<Row> {
    let spreads: Vec<Spread> = samples.iter().map(Samples::spread).collect();
    let median = |index: usize| spreads[index].median;
    let oracle = targets.iter().position(|loaded| loaded.plan.target == TargetName::Oracle);
    let peers = (0..targets.len()).filter(|&index| targets[index].plan.target.is_peer());
    let best_peer = peers.map(median).max_by(f64::total_cmp);
    let row = |index: usize| {
        let spread = spreads[index];
        Row {
            workload: workload.to_string(),
            skew: skew.clone(),
            mode: match setting.mode {
                Mode::Scalar => "scalar".into(),
                Mode::Batched(batch) => format!("batch {batch}"),
                Mode::Queued => "queued".into(),
            },
            threads: setting.source.threads(),
            target: targets[index].target.name().to_owned(),
            mops_median: round(spread.median, 2),
            mops_min: round(spread.min, 2),
            mops_max: round(spread.max, 2),
            mops_lower_quartile: round(spread.lower, 2),
            mops_upper_quartile: round(spread.upper, 2),
            of_best_peer: best_peer.map(|best| round(spread.median / best, 3)),
            // The oracle is an array. It answers a miss without touching memory, so it is no upper bound for misses.
            of_oracle: oracle
                .filter(|_| setting.source.present())
                .map(|oracle| round(spread.median / median(oracle), 3)),
            bytes_per_key: round(targets[index].bytes_per_key, 1),
            index_bytes_per_key: targets[index].index_bytes_per_key.map(|bytes| round(bytes, 2)),
            visits_per_lookup: samples[index].visits.map(|visits| round(visits, 2)),
            settled_turns: samples[index].settled.turns,
            settled_ops: samples[index].settled.ops,
            settled_seconds: round(samples[index].settled.seconds, 2),
            is_stable: samples[index].settled.is_stable,
            latency_ns_p50: None,
            latency_ns_p99: None,
            latency_ns_p999: None,
            latency_ns_p9999: None,
            latency_ns_max: None,
        }
    };
    (0..targets.len()).map(row).collect()
}

fn round(value: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (value * unit).round() / unit
}

impl Results<Row> {
    /// The rows as a table.
    pub fn table(&self) -> String {
        let mut columns = vec![
            "workload",
            "skew",
            "mode",
            "threads",
            "target",
            "Mops/s",
            "min..max",
            "quartiles",
            "of best peer",
            "of oracle",
            "B/key",
            "index B/key",
            "visits/lookup",
            "settled after",
        ];
        let is_timed = self.rows.iter().any(|row| row.latency_ns_p50.is_some());
        if is_timed {
            columns.push("p50, p99, p99.9, p99.99 ns");
        }
        let mut table = Table::new(&columns);
        let optional = |value: Option<f64>| value.map_or("-".into(), |value| value.to_string());
        for row in &self.rows {
            let mut cells = vec![
                row.workload.clone(),
                row.skew.clone(),
                row.mode.clone(),
                row.threads.to_string(),
                row.target.clone(),
                format!("{:.2}", row.mops_median),
                format!("{:.2}..{:.2}", row.mops_min, row.mops_max),
                format!("{:.2}..{:.2}", row.mops_lower_quartile, row.mops_upper_quartile),
                optional(row.of_best_peer),
                optional(row.of_oracle),
                format!("{:.1}", row.bytes_per_key),
                optional(row.index_bytes_per_key),
                optional(row.visits_per_lookup),
                row.settled().describe(),
            ];
            cells.extend(is_timed.then(|| row.latencies()));
            table.row(cells);
        }
        table.render()
    }
}
