//! Throughput by workload, chain length, skew and period: figures 10, 11, 12 and 15 of the HotRing paper.

mod copies;
mod length;
mod misses;
mod period;
mod skew;
mod workload;

use anyhow::Result;
use hotring_index::Strategy;

use super::entry::{Bench, Entry};
use super::field::{self, Field, Rows, Work};
use crate::plots::chart::{Axis, Chart};
use crate::targets::Plan;
use crate::workload::operations::Workload;

/// The figures of this folder.
pub const ENTRIES: [Entry; 6] =
    [workload::ENTRY, length::ENTRY, skew::ENTRY, copies::ENTRY, misses::ENTRY, period::ENTRY];

/// Ratios of keys to buckets.
const RATIOS: [u64; 4] = [2, 4, 8, 16];
/// The ratio of figures that do not vary it.
const RATIO: u64 = 8;
/// The Zipf exponent of figures that do not vary it.
const EXTREME: f64 = 1.22;
/// The unit of rates.
const RATE: &str = "million operations a second";

/// Row numbers of the targets that [`papers`] returns.
const CHAINING: usize = 0;
const RING_R: usize = 1;
const RING_S: usize = 2;
/// The name of the series that is computed from the paper's multiples of Chaining Hash.
const BY_GAIN: &str = "HotRing-s, by its gain over Chaining Hash";

/// The paper's own targets at equal index memory.
fn papers(bench: &Bench, keys: u64, ratio: u64) -> Vec<Plan> {
    vec![
        field::chaining(bench, keys, ratio),
        field::ring(bench, keys, ratio, Strategy::Random),
        field::ring(bench, keys, ratio, Strategy::Sampling),
    ]
}

/// The note on memory that each of these figures has.
fn note(keys: u64) -> String {
    format!(
        "{keys} keys of 8 bytes with values of 8 bytes. Chaining Hash and the paper's HotRing have \
         tables of equal size that never grow; the name of each target shows its bytes of index per key. \
         Items are chained outside of the table and take 24 bytes more."
    )
}

/// Measures the rates for each ratio of keys to buckets, with new tables for each. Returns the number of keys and the
/// rates.
fn over_ratios(bench: &Bench, workload: Workload) -> Result<(u64, Rows)> {
    let keys = (bench.size.keys / 2).max(1);
    let mut rows = Rows::default();
    for ratio in RATIOS {
        let mut plans = papers(bench, keys, ratio);
        for strategy in [Strategy::Random, Strategy::Sampling] {
            let plan = field::papers_ring(bench, keys, ratio, strategy);
            let label = Some(format!("{}, the paper's rings", field::ring_name(strategy)));
            plans.push(Plan { label, ..plan });
        }
        let field = Field::load(bench, keys, &plans)?;
        let work = Work::zipf(workload, EXTREME, bench.size.threads);
        let names = field.targets().iter().map(|target| target.name().to_owned()).collect();
        rows.add(ratio as f64, names, &field.measure(bench, work)?);
    }
    Ok((keys, rows))
}

/// A chart of the rates by ratio, with the paper's gains over Chaining Hash.
fn ratio_chart(title: &str, rows: Rows, gains: &[(f64, f64)]) -> Chart {
    let published = rows.by_factor(BY_GAIN, CHAINING, gains);
    let x = Axis::log("keys for 8 bytes of index (key-bucket ratio)");
    let series = rows.series().into_iter().chain([published]).collect();
    Chart::lines(title, x, Axis::linear(RATE), series)
}
