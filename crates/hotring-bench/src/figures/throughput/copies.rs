//! Read-copy-update of values of 100 bytes: figure 12.

use anyhow::Result;
use hotring_index::{Config, RcuCounts, Strategy};

use super::{BY_GAIN, CHAINING, EXTREME, RATE, RATIO, RING_S};
use crate::figures::entry::{Bench, Entry};
use crate::figures::field::{self, Field, Rows, Work};
use crate::figures::figure::{Claim, Measured, Paper, Source, Subject};
use crate::plots::chart::{Axis, Chart};
use crate::targets::{Plan, Shape};
use crate::workload::operations::Workload;

/// Figure 12 of HotRing's paper.
pub(super) const ENTRY: Entry = Entry {
    subject: Subject {
        id: "hotring-12",
        title: "Read-copy-update: values of 100 bytes",
        source: Source { paper: Paper::HotRing, reference: "figure 12" },
        paper: "Where writes replace items, HotRing-s counts them for the item before: with 8 \
                keys a bucket 1.32 times as fast as Chaining Hash and FASTER; without that \
                rule (w/o) slower than both. With 2 keys a bucket FASTER is slightly ahead.",
    },
    measure,
};

fn measure(bench: &Bench) -> Result<Measured> {
    let keys = (bench.size.keys / 4).max(1);
    let shape = Shape { key_bytes: 8, value_bytes: 100 };
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for ratio in [2, RATIO] {
        let sampling = field::ring(bench, keys, ratio, Strategy::Sampling);
        let config = Config { rcu_counts: RcuCounts::Predecessor, ..sampling.config.clone() };
        let without = Some("HotRing-s (w/o)".to_owned());
        let plans = [
            field::chaining(bench, keys, ratio),
            Plan { label: without, ..sampling.clone() },
            Plan { config, ..sampling },
            field::ring(bench, keys, ratio, Strategy::Vote),
        ];
        let plans = plans.map(|plan| Plan { shape, ..plan });
        let field = Field::load(bench, keys, &plans)?;
        let mut rows = Rows::default();
        for (column, workload) in [Workload::A, Workload::W].into_iter().enumerate() {
            let work = Work::zipf(workload, EXTREME, bench.size.threads);
            rows.add(column as f64, field.names(), &field.measure(bench, work)?);
        }
        let mut published = None;
        if ratio == RATIO {
            claims = copy_claims(&rows);
            published = Some(rows.by_factor(BY_GAIN, CHAINING, &[(0.0, 1.32), (1.0, 1.32)]));
        }
        charts.push(Chart::bars(
            format!("{ratio} keys for 8 bytes of index, threads: {}", bench.size.threads),
            "writes",
            Axis::linear(RATE),
            vec!["50 %".to_owned(), "100 %".to_owned()],
            rows.series().into_iter().chain(published).collect(),
        ));
    }
    let notes = vec![
        format!(
            "{keys} keys of 8 bytes with values of 100 bytes, exponent {EXTREME}: every write \
             replaces the item."
        ),
        "Here a write finds an item by its hint and replaces it in one step on the item itself; \
         the item before is not needed, so the paper's reason for its rule does not arise, and the \
         rule is off by default."
            .to_owned(),
    ];
    Ok(Measured { claims, charts, notes })
}

/// The row of HotRing-s without the paper's rule.
const WITHOUT_RULE: usize = 1;

fn copy_claims(rows: &Rows) -> Vec<Claim> {
    let columns = [(0.0, "50 % writes"), (1.0, "writes only")];
    let factors = columns.into_iter().map(|(x, name)| {
        let seen = rows.ratio(RING_S, CHAINING, x);
        let claimed = format!("{name}, HotRing-s to Chaining Hash");
        Claim::factor("8 keys a bucket: 1.32 times", &claimed, 1.32, seen)
    });
    let behind = columns.map(|(x, _)| rows.ratio(CHAINING, WITHOUT_RULE, x));
    let without = Claim::above(
        "Without its rule HotRing-s is slower than Chaining Hash",
        "Chaining Hash ahead of HotRing-s (w/o)",
        1.0,
        &behind,
    );
    factors.chain([without]).collect()
}
