//! The hit ratios of a trace as an SVG file of its own: the plot of `figures/svg.rs` with its legend and its style.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use super::Row;
use super::policies::CONTESTANTS;
use crate::figures::chart::{Axis, Chart, Point, Series};
use crate::figures::svg;

/// What the others are compared with: differences of a point would not be seen in a plot from 0 to 100.
pub const BASE: &str = "lru";

/// Where the legend ends and the plot begins, of a line of the legend, and the size of `svg.rs`'s plot.
const LEGEND_LINE: usize = 20;
const LEGEND_COLUMNS: usize = 4;
const WIDTH: usize = 600;
const HEIGHT: usize = 340;

/// Writes `name.svg`.
pub fn write(folder: &Path, name: &str, rows: &[Row]) -> Result<()> {
    let path = folder.join(format!("{name}.svg"));
    let context = || format!("cannot write {}", path.display());
    std::fs::create_dir_all(folder).with_context(context)?;
    std::fs::write(&path, draw(&chart(name, rows))).with_context(context)
}

/// Hits above those of [`BASE`], by size.
fn chart(name: &str, rows: &[Row]) -> Chart {
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

fn draw(chart: &Chart) -> String {
    let lines = chart.series.len().div_ceil(LEGEND_COLUMNS);
    let top = LEGEND_LINE * lines + 30;
    let mut file = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\"><style>{}</style>\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\
         <text class=\"title\" x=\"12\" y=\"20\">{}</text>",
        top + HEIGHT,
        include_str!("plot.css"),
        chart.title
    );
    for (place, (series, look)) in chart.series.iter().zip(svg::looks(chart)).enumerate() {
        let x = 12 + place % LEGEND_COLUMNS * (WIDTH / LEGEND_COLUMNS);
        let y = 30 + place / LEGEND_COLUMNS * LEGEND_LINE;
        let _ = write!(
            file,
            "<svg x=\"{x}\" y=\"{y}\" width=\"28\" height=\"14\">{}</svg>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            svg::sign(look, series, chart.shape),
            x + 34,
            y + 11,
            series.name
        );
    }
    let plot = svg::draw(chart, "plot");
    let _ =
        writeln!(file, "<svg y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\">{plot}</svg></svg>");
    file
}
