//! The period R between two moves of a head: figure 15b.

use anyhow::Result;
use hotring_index::{Config, Strategy};

use super::{EXTREME, RATE, RATIO, note};
use crate::figures::entry::{Bench, Entry};
use crate::figures::field::{self, Field, Work};
use crate::figures::figure::{Claim, Measured, Paper, Source, Subject, percent};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::targets::Plan;
use crate::workload::operations::Workload;

/// Figure 15b of HotRing's paper.
pub(super) const ENTRY: Entry = Entry {
    subject: Subject {
        id: "hotring-15b",
        title: "The period R between two moves of a head",
        source: Source { paper: Paper::HotRing, reference: "figure 15b" },
        paper: "Throughput gets slightly worse when R is too small or too large; 5 is a good \
                balance.",
    },
    measure,
};

fn measure(bench: &Bench) -> Result<Measured> {
    const PERIODS: [u32; 6] = [1, 2, 5, 10, 30, 100];
    let keys = (bench.size.keys / 2).max(1);
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for strategy in [Strategy::Random, Strategy::Sampling] {
        let plans = PERIODS.map(|period| {
            let plan = field::ring(bench, keys, RATIO, strategy);
            Plan { config: Config { period: Some(period), ..plan.config.clone() }, ..plan }
        });
        let field = Field::load(bench, keys, &plans)?;
        let mut series = Vec::new();
        for theta in [0.99, EXTREME] {
            let work = Work::zipf(Workload::B, theta, bench.size.threads);
            let mut points = Vec::new();
            for (period, samples) in PERIODS.into_iter().zip(field.measure(bench, work)?) {
                let spread = samples.spread();
                points.push(Point::spread(f64::from(period), spread));
            }
            let best = points.iter().map(|point| point.y).fold(0.0, f64::max);
            let five = points.iter().find(|point| point.x == 5.0).map_or(0.0, |point| point.y);
            claims.push(Claim::holds(
                "R = 5 is a good balance",
                &format!(
                    "{}, exponent {theta}, R = 5 within a tenth of the best R ({} of it)",
                    field::ring_name(strategy),
                    percent(five / best)
                ),
                usize::from(five >= 0.9 * best),
                1,
            ));
            series.push(Series::measured(format!("exponent {theta}"), points));
        }
        charts.push(Chart::lines(
            format!("{}, B, threads: {}", field::ring_name(strategy), bench.size.threads),
            Axis::log("R, accesses of a session between two moves"),
            Axis::linear(RATE),
            series,
        ));
    }
    Ok(Measured { claims, charts, notes: vec![note(keys)] })
}
