//! Rates of targets that are not part of this tool, as measured on another machine.

use super::outcome::{Measured, PIPELINED};
use crate::report::Table;

/// Read rates of one thread on the other machine, as multiples of the rate of Chaining Hash with one key per bucket
/// in the same run. The columns are those of [`SKEWS`].
const ELSEWHERE: [(&str, [f64; 3]); 5] = [
    ("FASTER, usual index size", [0.24, 0.31, 0.38]),
    ("boost concurrent_flat_map", [0.72, 0.76, 0.71]),
    ("boost, bulk visit of 16", [1.63, 1.45, 1.09]),
    ("DLHT, batches of 32", [1.88, 2.14, 1.79]),
    ("DRAMHiT, batches of 16 (items of 16 bytes, no growth)", [7.87, 7.11, 5.44]),
];

/// The access distributions: uniform, and Zipf with these exponents.
const SKEWS: [&str; 3] = ["uniform", "0.99", "1.22"];

/// Shows the multiples from the other machine next to those of this run. Empty if this run has no such rates.
pub fn published(measured: &[Measured]) -> String {
    let rate = |target: &str, skew: &str, mode: &str| {
        let row = measured.iter().find(|row| {
            row.workload == "C"
                && row.threads == 1
                && row.skew == skew
                && row.target == target
                && row.mode == mode
        });
        row.map(|row| row.mops_median)
    };
    let scalar = "one by one";
    let ours = |mode: &str| {
        let ratio =
            |skew| Some(rate("hotring vote 7", skew, mode)? / rate("chaining", skew, scalar)?);
        SKEWS.iter().map(|skew| ratio(skew)).collect::<Option<Vec<f64>>>()
    };
    let (Some(single), Some(pipelined)) = (ours(scalar), ours(PIPELINED)) else {
        return String::new();
    };
    let mut table = Table::new(&["1 thread, reads", "uniform", "0.99", "1.22", "from this run"]);
    let mut row = |name: &str, ratios: &[f64], here: &str| {
        let ratios = ratios.iter().map(|ratio| format!("{ratio:.2}"));
        table.row([name.to_owned()].into_iter().chain(ratios).chain([here.to_owned()]).collect());
    };
    row("hotring vote 7, one by one", &single, "yes");
    row("hotring vote 7, 64 in flight", &pipelined, "yes");
    ELSEWHERE.iter().for_each(|(name, ratios)| row(name, ratios, "no"));
    format!(
        "\nMultiples of Chaining Hash with one key per bucket, one by one. Rows that are not from this run were \
         measured by the authors of hotring on another 2-core machine.\n\n{}",
        table.render()
    )
}
