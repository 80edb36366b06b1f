//! The rows of a run and how they are shown.

use serde::Serialize;

use super::Loaded;
use super::measure::{Mode, Samples, Setting};
use super::stream::{Skew, Workload};
use crate::machine::Machine;
use crate::report::{Spread, Table};

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Results {
    /// What it ran on.
    pub machine: Machine,
    /// The command line.
    pub command: Vec<String>,
    /// One row for each target and setting.
    pub rows: Vec<Row>,
}

/// One target in one setting.
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
    /// Against the direct array in the same setting.
    of_oracle: Option<f64>,
    /// Growth of the process's memory while the target was loaded.
    bytes_per_key: f64,
    /// Bytes of the index alone for each key, once the target was loaded.
    index_bytes_per_key: Option<f64>,
    visits_per_lookup: Option<f64>,
}

/// The rows of one setting.
pub fn rows(
    setting: &Setting<'_>,
    (workload, skew): (Workload, Skew),
    targets: &[Loaded],
    samples: &[Samples],
) -> Vec<Row> {
    let spreads: Vec<Spread> = samples.iter().map(|sample| Spread::of(&sample.mops)).collect();
    let oracle = targets.iter().position(|loaded| loaded.target.name() == super::oracle::NAME);
    let row = |index: usize| {
        let spread = spreads[index];
        Row {
            workload: workload.to_string(),
            skew: skew.to_string(),
            mode: match setting.mode {
                Mode::Scalar => "scalar".into(),
                Mode::Batched(batch) => format!("batch {batch}"),
            },
            threads: setting.streams.threads.len(),
            target: targets[index].target.name().to_owned(),
            mops_median: round(spread.median, 2),
            mops_min: round(spread.min, 2),
            mops_max: round(spread.max, 2),
            // Beyond its end the array answers without touching memory: that is no limit.
            of_oracle: oracle
                .filter(|_| setting.streams.present)
                .map(|oracle| round(spread.median / spreads[oracle].median, 3)),
            bytes_per_key: round(targets[index].bytes_per_key, 1),
            index_bytes_per_key: targets[index].index_bytes_per_key.map(|bytes| round(bytes, 2)),
            visits_per_lookup: samples[index].visits.map(|visits| round(visits, 2)),
        }
    };
    (0..targets.len()).map(row).collect()
}

fn round(value: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (value * unit).round() / unit
}

impl Results {
    /// The rows as a table.
    pub fn table(&self) -> String {
        let mut table = Table::new(&[
            "workload",
            "skew",
            "mode",
            "threads",
            "target",
            "Mops/s",
            "min..max",
            "of oracle",
            "B/key",
            "index B/key",
            "visits/lookup",
        ]);
        let optional = |value: Option<f64>| value.map_or("-".into(), |value| value.to_string());
        for row in &self.rows {
            table.row(vec![
                row.workload.clone(),
                row.skew.clone(),
                row.mode.clone(),
                row.threads.to_string(),
                row.target.clone(),
                format!("{:.2}", row.mops_median),
                format!("{:.2}..{:.2}", row.mops_min, row.mops_max),
                optional(row.of_oracle),
                format!("{:.1}", row.bytes_per_key),
                optional(row.index_bytes_per_key),
                optional(row.visits_per_lookup),
            ]);
        }
        table.render()
    }
}
