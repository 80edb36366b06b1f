//! Charts as standalone SVG files: the plot of `svg.rs` with a title, a legend and a style sheet.

pub mod chart;
pub mod svg;

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use chart::Chart;

/// The height of a line of the legend.
const LEGEND_LINE: usize = 20;
const LEGEND_COLUMNS: usize = 4;
/// The width of a sign, and about that of a letter.
const SIGN: usize = 34;
const LETTER: usize = 7;
/// The size of the plot that `svg.rs` draws.
const WIDTH: usize = 600;
const HEIGHT: usize = 340;

/// Writes the chart to `name.svg` in a folder, which is created if missing.
pub fn write(folder: &Path, name: &str, chart: &Chart) -> Result<()> {
    let path = folder.join(format!("{name}.svg"));
    let context = || format!("cannot write {}", path.display());
    std::fs::create_dir_all(folder).with_context(context)?;
    std::fs::write(&path, draw(chart)).with_context(context)
}

fn draw(chart: &Chart) -> String {
    let longest = chart.series.iter().map(|series| series.name.len()).max().unwrap_or_default();
    let columns = (WIDTH / (SIGN + LETTER * longest + 12)).clamp(1, LEGEND_COLUMNS);
    let lines = chart.series.len().div_ceil(columns);
    let top = LEGEND_LINE * lines + 30;
    let mut file = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\"><style>{}</style>\
         <rect class=\"page\" width=\"100%\" height=\"100%\"/>\
         <text class=\"title\" x=\"12\" y=\"20\">{}</text>",
        top + HEIGHT,
        include_str!("plot.css"),
        svg::escape(&chart.title)
    );
    for (column, (series, style)) in chart.series.iter().zip(svg::styles(chart)).enumerate() {
        let x = 12 + column % columns * (WIDTH / columns);
        let y = 30 + column / columns * LEGEND_LINE;
        let _ = write!(
            file,
            "<svg x=\"{x}\" y=\"{y}\" width=\"28\" height=\"14\">{}</svg>\
             <text x=\"{}\" y=\"{}\">{}</text>",
            svg::sign(style, series, chart.shape),
            x + SIGN,
            y + 11,
            svg::escape(&series.name)
        );
    }
    let plot = svg::draw(chart, "plot");
    let _ =
        writeln!(file, "<svg y=\"{top}\" width=\"{WIDTH}\" height=\"{HEIGHT}\">{plot}</svg></svg>");
    file
}
