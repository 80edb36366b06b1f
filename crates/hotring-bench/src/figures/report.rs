//! The report of a run and its files: an HTML page for readers, JSON with all data, and for each figure a CSV file and
//! its plots.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::figure::Figure;
use super::html;
use crate::machine::Machine;
use crate::measure::fitness::Fitness;
use crate::plots;
use crate::report::{write_csv, write_json};

/// All figures of a run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The day, in UTC.
    pub date: String,
    /// The command that produced the report.
    pub command: String,
    /// The name of the scale, for the commands of single figures.
    pub scale: String,
    /// The scale in words.
    pub scale_line: String,
    /// The duration of the run so far, in seconds.
    pub seconds: f64,
    /// The number of figures that the complete run will have.
    pub wanted: usize,
    /// Whether the harness was fit to measure.
    pub fitness: Fitness,
    /// Notes on all figures.
    pub notes: Vec<String>,
    /// The measured figures, in the order of the page.
    pub figures: Vec<Figure>,
}

/// A point as a row of CSV.
#[derive(Serialize)]
struct Row<'f> {
    chart: &'f str,
    series: &'f str,
    origin: String,
    x_label: &'f str,
    x: String,
    y_label: &'f str,
    y: f64,
    min: Option<f64>,
    max: Option<f64>,
}

impl Report {
    /// Writes all files into a folder, which is created if missing.
    pub fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        for figure in &self.figures {
            let id = figure.subject.id;
            write_csv(&folder.join(format!("{id}.csv")), &rows(figure))?;
            for (chart, number) in figure.measured.charts.iter().zip(1..) {
                plots::write(folder, &format!("{id}-{number}"), chart)?;
            }
        }
        write_json(&folder.join("report.json"), self)?;
        let page = folder.join("report.html");
        fs::write(&page, html::page(self))
            .with_context(|| format!("cannot write {}", page.display()))
    }

    /// The command that measures one figure again.
    pub fn command_of(&self, figure: &Figure) -> String {
        let Report { scale, .. } = self;
        format!("hotring-bench figures --scale {scale} --only {} --out DIR", figure.subject.id)
    }
}

fn rows(figure: &Figure) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    for chart in &figure.measured.charts {
        for series in &chart.series {
            rows.extend(series.points.iter().map(|point| Row {
                chart: &chart.title,
                series: &series.name,
                origin: format!("{:?}", series.origin).to_lowercase(),
                x_label: &chart.x.label,
                x: chart.category(point.x).map_or_else(|| point.x.to_string(), str::to_owned),
                y_label: &chart.y.label,
                y: point.y,
                min: point.range.map(|range| range.0),
                max: point.range.map(|range| range.1),
            }));
        }
    }
    rows
}

/// The day of a Unix time in seconds, as YYYY-MM-DD, by Howard Hinnant's `civil_from_days`: it counts days from
/// 1 March of the year 0, so that a leap day is the last day of its year, in eras of 400 years.
pub fn day(unix_seconds: u64) -> String {
    let days = unix_seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
