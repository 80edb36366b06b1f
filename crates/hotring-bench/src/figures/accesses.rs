//! Memory accesses per lookup: counted, and by the paper's formulas.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use hotring_index::Strategy;

use super::entry::{Bench, Entry};
use super::field::{self, Field, Work};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::short;
use crate::targets::{Mode, Plan};
use crate::workload::operations::{Op, Stream, Workload};
use crate::workload::zipf::share_of_hottest;

/// The figures of this file.
pub const ENTRIES: [Entry; 1] = [Entry {
    subject: Subject {
        id: "hotring-3",
        title: "Expected memory accesses for a lookup",
        source: Source { paper: Paper::HotRing, reference: "figure 3" },
        paper: "By formula, for 250 million items: a chain of L items takes 1 + L/2 accesses, \
                however hot the item; chains with the hottest items first take far fewer, and the \
                distance grows with L.",
    },
    measure: expected,
}];

const LENGTHS: [u64; 4] = [2, 4, 8, 16];
const THETAS: [f64; 2] = [0.99, 1.22];
/// The chain length of most figures in the paper.
const PAPERS_LENGTH: u64 = 8;
/// The index of HotRing-s among the targets.
const HOTRING_S: usize = 2;
/// The number of items in the formula.
const ITEMS: u64 = 250_000_000;

/// The paper's equation 1: accesses in a chain.
fn of_chain(length: u64) -> f64 {
    1.0 + length as f64 / 2.0
}

/// The paper's equation 3: accesses in an ideal order. With B chains, the k-th item of each chain is among the k-th
/// hottest B items of all.
fn of_ideal(length: u64, theta: f64) -> f64 {
    let best = |k: u64| share_of_hottest(ITEMS, theta, k as f64 / length as f64);
    let parts = (1..=length).map(|k| {
        let before = if k == 1 { 0.0 } else { best(k - 1) };
        (best(k) - before) * k as f64
    });
    1.0 + parts.sum::<f64>()
}

fn expected(bench: &Bench) -> Result<Measured> {
    let keys = (bench.size.keys / 4).max(1);
    let mut claims = Vec::new();
    // The rows of each exponent: Chaining Hash, then the rings.
    let mut counted = vec![vec![Vec::new(); 4]; THETAS.len()];
    for length in LENGTHS {
        let field = Field::load(bench, keys, &plans(bench, keys, length))?;
        for (theta, rows) in THETAS.into_iter().zip(&mut counted) {
            let work = Work::zipf(Workload::C, theta, 1);
            for (row, samples) in rows.iter_mut().zip(field.measure(bench, work)?) {
                // The slot is one more access.
                row.extend(samples.visits.map(|visits| Point::new(length as f64, 1.0 + visits)));
            }
            if length == PAPERS_LENGTH {
                claims.push(hot_claim(bench, &field, keys, theta)?);
            }
        }
    }
    let mut charts = Vec::new();
    for (theta, rows) in THETAS.into_iter().zip(counted) {
        claims.extend(compare(theta, &rows));
        charts.push(chart(theta, rows));
    }
    let notes = vec![
        format!(
            "Counted: the slot, and the items that sampled lookups visited, in tables of {keys} \
             keys that never grow. \"By hotness\" is the formula for chains sorted by hotness, \
             which no index can have without moving items all the time."
        ),
        "A slot of seven hints is a cache line, eight times the size of a chain's bucket: this figure \
         compares equal numbers of items per slot, the other figures equal bytes."
            .to_owned(),
        "A chain's buckets are filled at random, so hits are in long chains more often: that makes up \
         for the half of an item that the formula omits."
            .to_owned(),
    ];
    Ok(Measured { claims, charts, notes })
}

/// The claim about hot items: visits of HotRing-s once it has found them.
fn hot_claim(bench: &Bench, field: &Field, keys: u64, theta: f64) -> Result<Claim> {
    let target = field.targets()[HOTRING_S];
    let source = Work::zipf(Workload::C, theta, 1).source(keys, bench.size.ops);
    let ops = source.stream(1 << 33, 0, target.keys())?;
    let mut counts = HashMap::new();
    ops.iter().for_each(|op| *counts.entry(op.key()).or_insert(0) += 1);
    let mut hottest: Vec<(u64, u64)> =
        counts.into_iter().map(|(key, count)| (count, key)).collect();
    hottest.sort_unstable_by(|a, b| b.cmp(a));
    // A hundredth of the slots, so that few hot items share a slot. No single head can serve two of them.
    hottest.truncate((keys / PAPERS_LENGTH / 100).max(1) as usize);
    let hot: HashSet<u64> = hottest.into_iter().map(|(_, key)| key).collect();
    let ops: Vec<Op> = ops.into_iter().filter(|op| hot.contains(&op.key())).collect();
    let before = target.visits().unwrap_or_default();
    target.worker().run(Stream::of(&ops), Mode::Scalar);
    let after = target.visits().unwrap_or_default();
    let visits = (after.1 - before.1) as f64 / (after.0 - before.0).max(1) as f64;
    let claimed = format!(
        "exponent {theta}, the {} hottest items, {PAPERS_LENGTH} items a slot: the slot and {} items",
        hot.len(),
        short(visits)
    );
    let paper = "Hot items are retrieved within two memory accesses, in most cases";
    Ok(Claim::holds(paper, &claimed, usize::from(visits < 1.1), 1))
}

/// Plans of the indexes with `length` items per slot.
fn plans(bench: &Bench, keys: u64, length: u64) -> Vec<Plan> {
    let plans = [
        field::chaining(bench, keys, length),
        field::ring(bench, keys, length, Strategy::Random),
        field::ring(bench, keys, length, Strategy::Sampling),
        field::lines(bench, keys),
    ];
    plans.map(|plan| plan.with_items_per_slot(keys, length as f64)).into()
}

fn chart(theta: f64, rows: Vec<Vec<Point>>) -> Chart {
    let formula = |value: &dyn Fn(u64) -> f64| -> Vec<Point> {
        LENGTHS.iter().map(|&length| Point::new(length as f64, value(length))).collect()
    };
    let mut series = vec![
        Series::computed("chain", formula(&of_chain)),
        Series::computed("by hotness", formula(&|length| of_ideal(length, theta))),
    ];
    let names = ["Chaining Hash", "HotRing-r", "HotRing-s", "HotRing, 7 hints"];
    let measured = names.into_iter().zip(rows);
    series.extend(measured.map(|(name, points)| Series::measured(name, points)));
    Chart::lines(
        format!("Accesses for a hit, exponent {theta}"),
        Axis::log("items a slot"),
        Axis::linear("memory accesses a lookup"),
        series,
    )
}

fn compare(theta: f64, rows: &[Vec<Point>]) -> Vec<Claim> {
    let [chain, _, sampling, _] = rows else { return Vec::new() };
    let saved: Vec<f64> = chain.iter().zip(sampling).map(|(c, s)| c.y - s.y).collect();
    let grows = saved.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let mut claims = vec![Claim::holds(
        "The longer the chain, the more hotness saves",
        &format!("exponent {theta}, HotRing-s saves more at each doubling of the length"),
        grows,
        saved.len().saturating_sub(1),
    )];
    if let (Some(chain), Some(ring)) = (chain.last(), sampling.last()) {
        let length = chain.x as u64;
        let expected = of_chain(length) / of_ideal(length, theta);
        claims.push(Claim::factor(
            format!("Chains of {length} by hotness need {expected:.1} times fewer accesses"),
            &format!("exponent {theta}, Chaining Hash to HotRing-s, counted"),
            expected,
            chain.y / ring.y,
        ));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formulas_have_their_limits() {
        assert_eq!(of_chain(8), 5.0);
        assert!((of_ideal(1, 0.99) - 2.0).abs() < 1e-9);
        // All keys alike: the ideal chain is a chain, counted from its first item.
        assert!((of_ideal(8, 0.0) - 5.5).abs() < 1e-6);
        assert!(of_ideal(16, 1.22) < 2.1);
    }
}
