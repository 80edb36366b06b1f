//! Throughput by skew: figure 11b.

use anyhow::Result;

use super::{CHAINING, RATE, RATIO, RING_S, note, papers};
use crate::figures::entry::{Bench, Entry};
use crate::figures::field::{Field, Rows, Work};
use crate::figures::figure::{Claim, Measured, Paper, Source, Subject};
use crate::plots::chart::{Axis, Chart};
use crate::workload::operations::Workload;

/// Figure 11b of HotRing's paper.
pub(super) const ENTRY: Entry = Entry {
    subject: Subject {
        id: "hotring-11b",
        title: "Throughput by skew",
        source: Source { paper: Paper::HotRing, reference: "figure 11b" },
        paper: "Chaining Hash and FASTER gain little from skew, HotRing much, above all beyond \
                exponent 0.8; HotRing-s is ahead of the others from 0.5 to 0.8, too.",
    },
    measure,
};

fn measure(bench: &Bench) -> Result<Measured> {
    const THETAS: [f64; 6] = [0.5, 0.7, 0.8, 0.9, 0.99, 1.22];
    let keys = bench.size.keys;
    let field = Field::load(bench, keys, &papers(bench, keys, RATIO))?;
    let mut rows = Rows::default();
    for theta in THETAS {
        let work = Work::zipf(Workload::B, theta, bench.size.threads);
        rows.add(theta, field.names(), &field.measure(bench, work)?);
    }
    let gain = |theta: f64| rows.ratio(RING_S, CHAINING, theta);
    let mild = [0.5, 0.7, 0.8];
    let claims = vec![
        Claim::above(
            "HotRing-s is ahead at exponents 0.5 to 0.8, too",
            "HotRing-s ahead of Chaining Hash",
            1.0,
            &mild.map(gain),
        ),
        Claim::holds(
            "HotRing gains more from skew than Chaining Hash",
            "its lead grows at each step of the exponent from 0.8 on",
            THETAS[2..]
                .windows(2)
                .filter(|pair| gain(pair[1]).median > gain(pair[0]).median)
                .count(),
            THETAS.len() - 3,
        ),
    ];
    let chart = Chart::lines(
        format!("B, {RATIO} keys for 8 bytes of index, threads: {}", bench.size.threads),
        Axis::linear("Zipf exponent"),
        Axis::linear(RATE),
        rows.series(),
    );
    Ok(Measured { claims, charts: vec![chart], notes: vec![note(keys)] })
}
