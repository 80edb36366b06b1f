//! Read misses: figure 15a.

use anyhow::Result;

use super::{CHAINING, RATIO, RATIOS, RING_S, note, over_ratios, ratio_chart};
use crate::figures::entry::{Bench, Entry};
use crate::figures::field::Rows;
use crate::figures::figure::{Claim, Measured, Paper, Source, Subject, percent};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::workload::operations::Workload;

/// Figure 15a of HotRing's paper.
pub(super) const ENTRY: Entry = Entry {
    subject: Subject {
        id: "hotring-15a",
        title: "Read misses",
        source: Source { paper: Paper::HotRing, reference: "figure 15a" },
        paper: "A miss ends at the first greater item: 1.17 times as fast as Chaining Hash with \
                2 keys a bucket, 1.80 times with 16.",
    },
    measure,
};

/// The row of HotRing-s whose rings have as many keys as the paper's.
const PAPERS_S: usize = 4;

fn measure(bench: &Bench) -> Result<Measured> {
    let (keys, rows) = over_ratios(bench, Workload::Miss)?;
    let gain = |ratio: f64| rows.ratio(RING_S, CHAINING, ratio);
    let claimed = "HotRing-s to Chaining Hash";
    let mut claims = vec![
        Claim::factor("2 keys a bucket: 1.17 times", claimed, 1.17, gain(2.0)),
        Claim::factor("16 keys a bucket: 1.80 times", claimed, 1.80, gain(16.0)),
    ];
    for ratio in RATIOS {
        let (ratio, items) = (ratio as f64, ratio as f64 / 2.0 + 1.0);
        let claimed = format!("rings of {ratio} keys, items visited");
        let paper = "Section 3.1: a lookup in a ring of n items compares n/2 + 1";
        claims.push(Claim::near(paper, &claimed, items, rows.visits(PAPERS_S, ratio), 0.1));
    }
    let fewer = rows.visits(PAPERS_S, RATIO as f64) / rows.visits(CHAINING, RATIO as f64);
    claims.push(Claim::holds(
        "Workload D gains because insertions find their position early (section 4.2)",
        &format!(
            "a search for an absent key visits {} of the items that a chain of {RATIO} makes it visit",
            percent(fewer)
        ),
        usize::from(fewer < 0.75),
        1,
    ));
    let visits = visits_chart(&rows);
    let threads = bench.size.threads;
    let title = format!("Reads of absent keys, threads: {threads}");
    let chart = ratio_chart(&title, rows, &[(2.0, 1.17), (16.0, 1.8)]);
    Ok(Measured { claims, charts: vec![chart, visits], notes: vec![note(keys)] })
}

/// The number of items that a miss visits, next to the paper's formula.
fn visits_chart(rows: &Rows) -> Chart {
    let counted = |row: usize| {
        let point = |ratio: &u64| Point::new(*ratio as f64, rows.visits(row, *ratio as f64));
        RATIOS.iter().map(point).collect()
    };
    let formula = |ratio: &u64| Point::new(*ratio as f64, *ratio as f64 / 2.0 + 1.0);
    let series = vec![
        Series::measured("Chaining Hash", counted(CHAINING)),
        Series::measured("HotRing-s, equal bytes", counted(RING_S)),
        Series::measured("HotRing-s, the paper's rings", counted(PAPERS_S)),
        Series::paper("n/2 + 1", RATIOS.iter().map(formula).collect()),
    ];
    let x = Axis::log("keys for 8 bytes of index (key-bucket ratio)");
    Chart::lines("Items that a miss visits", x, Axis::linear("items"), series)
}
