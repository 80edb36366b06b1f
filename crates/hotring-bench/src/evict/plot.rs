//! The plot of a trace's hit ratios.

use super::Row;
use super::policies::CONTESTANTS;
use crate::plots::chart::{Axis, Chart, Point, Series};

/// The baseline of the plots. On an axis from 0 to 100, differences of one point would not be visible.
pub const BASE: &str = "lru";

/// Hits above those of [`BASE`], by the size of the cache.
pub fn chart(name: &str, rows: &[Row]) -> Chart {
    let base = |size: f64| {
        let same = rows.iter().find(|row| row.policy == BASE && row.size_percent == size);
        same.map_or(f64::NAN, |row| row.hit_ratio)
    };
    let points = |policy: &str| {
        let of_policy = rows.iter().filter(|row| row.policy == policy);
        let above = |row: &Row| 100.0 * (row.hit_ratio - base(row.size_percent));
        of_policy.map(|row| Point::new(row.size_percent, above(row))).collect::<Vec<_>>()
    };
    let drawn = CONTESTANTS.iter().filter(|contestant| contestant.drawn);
    let series = drawn.map(|contestant| Series::measured(contestant.name, points(contestant.name)));
    Chart::lines(
        format!("{name}: hits above those of {BASE}"),
        Axis::log("items that fit, in percent of the trace's keys"),
        Axis::linear(format!("points of hit ratio above {BASE}")),
        series.filter(|series| !series.points.is_empty()).collect(),
    )
}
