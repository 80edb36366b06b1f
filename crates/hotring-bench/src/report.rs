//! The output of runs: tables, plain `name value` lines, JSON, CSV, and progress on standard error.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::machine::Machine;

/// The results of a run whose figures are one table, for JSON.
#[derive(Debug, Serialize)]
pub struct Results<R> {
    /// The machine of the run.
    pub machine: Machine,
    /// The command line of the run.
    pub command: Vec<String>,
    /// One row for each target in each setting.
    pub rows: Vec<R>,
}

impl<R> Results<R> {
    /// The results of this process.
    pub fn new(machine: Machine, rows: Vec<R>) -> Self {
        Results { machine, command: std::env::args().collect(), rows }
    }
}

/// Where figures go besides the terminal.
#[derive(Debug, Args)]
pub struct Files {
    /// Also write the table to this file as CSV
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Also write machine, command and all figures to this file as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

impl Files {
    /// Writes the rows as CSV and `all` as JSON, each if its file was given.
    pub fn write<R: Serialize>(&self, rows: &[R], all: &impl Serialize) -> Result<()> {
        self.csv.as_ref().map_or(Ok(()), |path| write_csv(path, rows))?;
        self.json.as_ref().map_or(Ok(()), |path| write_json(path, all))
    }
}

/// The median and the spread of several rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The middle value (of an even number of values, the mean of the middle two).
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// A quarter of the values lies below this one.
    pub lower: f64,
    /// A quarter of the values lies above this one.
    pub upper: f64,
}

impl Spread {
    /// The spread of `values`, which must not be empty.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "no value to take the median of");
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // Interpolates between two values.
        let at = |share: f64| {
            let position = share * (sorted.len() - 1) as f64;
            let (below, above) =
                (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
            below + (above - below) * position.fract()
        };
        let [min, lower, median, upper, max] = [0.0, 0.25, 0.5, 0.75, 1.0].map(at);
        Spread { median, min, max, lower, upper }
    }
}

/// The spread of a value that is exact, or was measured once.
impl From<f64> for Spread {
    fn from(value: f64) -> Self {
        Spread { median: value, min: value, max: value, lower: value, upper: value }
    }
}

/// A table that is readable as plain text and valid in Markdown.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(columns: &[&str]) -> Self {
        Table { rows: vec![columns.iter().map(|&name| name.to_owned()).collect()] }
    }

    /// Adds a row, which must have one cell per column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.rows[0].len(), "a row as wide as the table");
        self.rows.push(cells);
    }

    /// Renders the table as text, with aligned columns and numbers to the right.
    pub fn render(&self) -> String {
        let columns = 0..self.rows[0].len();
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let number = |column: usize| {
            self.rows[1..].iter().all(|row| row[column].starts_with(|c: char| c.is_ascii_digit()))
        };
        let shape: Vec<(usize, bool)> = columns.map(|c| (width(c), number(c))).collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&shape).map(|(cell, &(width, number))| {
                if number { format!(" {cell:>width$} ") } else { format!(" {cell:<width$} ") }
            });
            text.push_str(&format!("|{}|\n", cells.collect::<Vec<_>>().join("|")));
            if index == 0 {
                let rules = shape.iter().map(|&(width, number)| {
                    let rule = "-".repeat(width + 1);
                    if number { format!("{rule}:") } else { format!("{rule}-") }
                });
                text.push_str(&format!("|{}|\n", rules.collect::<Vec<_>>().join("|")));
            }
        }
        text
    }
}

/// Writes rows as CSV with a head line.
pub fn write_csv<R: Serialize>(path: &Path, rows: &[R]) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut writer = csv::Writer::from_path(path).with_context(context)?;
    for row in rows {
        writer.serialize(row).with_context(context)?;
    }
    writer.flush().with_context(context)
}

/// Writes a value as indented JSON to a file.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let context = || format!("cannot write {}", path.display());
    let mut file = BufWriter::new(File::create(path).with_context(context)?);
    serde_json::to_writer_pretty(&mut file, value).with_context(context)?;
    writeln!(file).and_then(|()| file.flush()).with_context(context)
}

/// A progress bar over `steps`, hidden if standard error is not a terminal.
pub fn progress(steps: u64, message: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(
        "{msg:32!} {wide_bar:.cyan/blue} {human_pos}/{human_len} {eta_precise}",
    )
    .expect("the template is fixed and well-formed");
    // Ten draws a second, because drawing more often would affect the figures.
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(style);
    bar.set_message(message.to_owned());
    bar
}

/// Advances a bar in strides, because advancing it with every step would cost more than a lookup.
#[derive(Debug)]
pub struct Strides<'a> {
    bar: &'a ProgressBar,
    pending: u64,
}

impl<'a> Strides<'a> {
    /// A counter for one thread on this bar.
    pub fn on(bar: &'a ProgressBar) -> Self {
        Strides { bar, pending: 0 }
    }

    /// Counts finished steps.
    pub fn add(&mut self, steps: u64) {
        self.pending += steps;
        if self.pending >= 1 << 12 {
            self.bar.inc(std::mem::take(&mut self.pending));
        }
    }
}

/// A duration in seconds, rounded to milliseconds.
pub fn seconds(elapsed: Duration) -> f64 {
    (elapsed.as_secs_f64() * 1000.0).round() / 1000.0
}

/// A number with three significant digits and separators between thousands.
pub fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".to_owned();
    }
    if size >= 1000.0 {
        return grouped(value.round() as i64);
    }
    let decimals = match size {
        0.0 => 0,
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => (2 - size.log10().floor() as i64).clamp(3, 9) as usize,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let head = digits.len() % 3;
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 3 == head {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_of_odd_and_even_rounds() {
        let odd = Spread::of(&[3.0, 1.0, 2.0]);
        assert_eq!((odd.median, odd.min, odd.max), (2.0, 1.0, 3.0));
        let even = Spread::of(&[4.0, 1.0, 2.0, 3.0]);
        assert_eq!((even.median, even.min, even.max), (2.5, 1.0, 4.0));
        let five = Spread::of(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!((five.lower, five.median, five.upper), (2.0, 3.0, 4.0));
        assert_eq!((even.lower, even.upper), (1.75, 3.25));
    }

    #[test]
    fn numbers_align_to_the_right() {
        let mut table = Table::new(&["name", "Mops/s"]);
        table.row(vec!["ring".into(), "7.5".into()]);
        table.row(vec!["oracle".into(), "120.0".into()]);
        let expected = "| name   | Mops/s |\n|--------|-------:|\n\
                        | ring   |    7.5 |\n| oracle |  120.0 |\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.001_234, "0.00123"),
            (1.0, "1"),
            (2.58, "2.58"),
            (12.34, "12.3"),
            (565.36, "565"),
            (1234.5, "1,235"),
            (-2_500_000.0, "-2,500,000"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}
