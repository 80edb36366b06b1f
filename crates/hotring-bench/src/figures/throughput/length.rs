//! Throughput by length of collision chains: figure 11a.

use anyhow::Result;

use super::{CHAINING, EXTREME, RATIOS, RING_S, note, over_ratios, ratio_chart};
use crate::figures::entry::{Bench, Entry};
use crate::figures::figure::{Claim, Measured, Paper, Source, Subject};
use crate::workload::operations::Workload;

/// Figure 11a of HotRing's paper.
pub(super) const ENTRY: Entry = Entry {
    subject: Subject {
        id: "hotring-11a",
        title: "Throughput by length of collision chains",
        source: Source { paper: Paper::HotRing, reference: "figure 11a" },
        paper: "With 2 keys a bucket HotRing reads 1.93 times as fast as Chaining Hash and 1.31 \
                times as fast as FASTER; with 16, 4.02 and 3.91 times.",
    },
    measure,
};

fn measure(bench: &Bench) -> Result<Measured> {
    let (keys, rows) = over_ratios(bench, Workload::B)?;
    let gain = |ratio: f64| rows.ratio(RING_S, CHAINING, ratio);
    let grows = RATIOS
        .windows(2)
        .filter(|pair| gain(pair[1] as f64).median > gain(pair[0] as f64).median)
        .count();
    let claimed = "HotRing-s to Chaining Hash";
    let claims = vec![
        Claim::factor("2 keys a bucket: 1.93 times", claimed, 1.93, gain(2.0)),
        Claim::factor("16 keys a bucket: 4.02 times", claimed, 4.02, gain(16.0)),
        Claim::holds("The gain grows with the chains", "it does at each doubling", grows, 3),
    ];
    let threads = bench.size.threads;
    let title = format!("B, exponent {EXTREME}, threads: {threads}");
    let chart = ratio_chart(&title, rows, &[(2.0, 1.93), (16.0, 4.02)]);
    let memory = "At equal index memory: where Chaining Hash has a bucket of 8 bytes, HotRing here has \
                half a slot of 16, and so rings twice as long as the paper's. \"The paper's rings\" \
                are as long as in the paper, with twice the bytes. FASTER is not measured.";
    Ok(Measured { claims, charts: vec![chart], notes: vec![note(keys), memory.to_owned()] })
}
