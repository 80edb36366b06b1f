//! Collects results of single rounds by case and figure, and shows them as rows and as a table.

use serde::Serialize;

use crate::report::{Spread, Table};

/// The figures of one setting.
pub struct Figures {
    part: &'static str,
    setting: String,
    cells: Vec<Cell>,
}

struct Cell {
    case: String,
    figure: &'static str,
    rounds: Vec<f64>,
    /// Whether the figure is a ratio within rounds. The table shows ratios with their spread.
    is_ratio: bool,
}

/// One figure of one case, as a row of CSV and JSON.
#[derive(Debug, Serialize)]
pub struct Row {
    part: String,
    setting: String,
    case: String,
    figure: &'static str,
    rounds: usize,
    median: f64,
    min: f64,
    max: f64,
}

impl Figures {
    pub fn new(part: &'static str, setting: impl Into<String>) -> Self {
        Figures { part, setting: setting.into(), cells: Vec::new() }
    }

    /// Adds the result of one round. Each round must add the same figures.
    pub fn add(&mut self, case: &str, figure: &'static str, value: f64) {
        self.cell(case, figure, false).rounds.push(value);
    }

    /// Adds the ratios of a figure between two cases, round by round. Adds nothing if a case is missing.
    pub fn add_ratio(&mut self, name: &'static str, figure: &'static str, case: &str, base: &str) {
        let (Some(own), Some(others)) = (self.rounds(case, figure), self.rounds(base, figure))
        else {
            return;
        };
        let ratios: Vec<f64> = own.iter().zip(others).map(|(own, other)| own / other).collect();
        self.cell(case, name, true).rounds.extend(ratios);
    }

    /// The spread of a figure's rounds, if it was measured.
    pub fn spread(&self, case: &str, figure: &str) -> Option<Spread> {
        self.rounds(case, figure).map(Spread::of)
    }

    fn rounds(&self, case: &str, figure: &str) -> Option<&[f64]> {
        let mut cells = self.cells.iter().filter(|c| c.case == case && c.figure == figure);
        cells.next().map(|cell| &cell.rounds[..])
    }

    fn cell(&mut self, case: &str, figure: &'static str, is_ratio: bool) -> &mut Cell {
        let is_same = |cell: &Cell| cell.case == case && cell.figure == figure;
        let at = self.cells.iter().position(is_same).unwrap_or_else(|| {
            self.cells.push(Cell { case: case.to_owned(), figure, rounds: Vec::new(), is_ratio });
            self.cells.len() - 1
        });
        &mut self.cells[at]
    }

    pub fn rows(&self) -> Vec<Row> {
        let row = |cell: &Cell| {
            let Spread { median, min, max, .. } = Spread::of(&cell.rounds);
            Row {
                part: self.part.to_owned(),
                setting: self.setting.clone(),
                case: cell.case.clone(),
                figure: cell.figure,
                rounds: cell.rounds.len(),
                median,
                min,
                max,
            }
        };
        self.cells.iter().map(row).collect()
    }

    /// The table of medians, with a line per case and a column per figure.
    pub fn table(&self) -> String {
        let (mut columns, mut cases) = (Vec::new(), Vec::new());
        for cell in &self.cells {
            if !columns.contains(&cell.figure) {
                columns.push(cell.figure);
            }
            if !cases.contains(&cell.case.as_str()) {
                cases.push(&cell.case);
            }
        }
        let mut table = Table::new(&[&[self.part], &columns[..]].concat());
        for case in cases {
            let cell = |figure: &&str| {
                let mut cells = self.cells.iter().filter(|c| c.case == case && c.figure == *figure);
                cells.next().map_or_else(String::new, Cell::shown)
            };
            table.row(std::iter::once(case.to_owned()).chain(columns.iter().map(cell)).collect());
        }
        format!("{}:\n\n{}", self.setting, table.render())
    }
}

impl Cell {
    fn shown(&self) -> String {
        let Spread { median, min, max, .. } = Spread::of(&self.rounds);
        if self.is_ratio { format!("{median:.2} ({min:.2}..{max:.2})") } else { number(median) }
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 10_000.0 => format!("{value:.0}"),
        whole if whole.fract() == 0.0 => format!("{value:.0}"),
        hundreds if hundreds >= 100.0 => format!("{value:.1}"),
        ones if ones >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_within_rounds_and_shown_with_their_spread() {
        let mut figures = Figures::new("modes", "here");
        for (ours, theirs) in [(10.0, 5.0), (9.0, 6.0), (40.0, 10.0)] {
            figures.add("ours", "rate", ours);
            figures.add("theirs", "rate", theirs);
        }
        figures.add_ratio("of theirs", "rate", "ours", "theirs");
        figures.add_ratio("of theirs", "rate", "ours", "absent");
        let expected = "here:\n\n\
                        | modes  | rate | of theirs         |\n\
                        |--------|-----:|-------------------|\n\
                        | ours   |   10 | 2.00 (1.50..4.00) |\n\
                        | theirs |    6 |                   |\n";
        let text = figures.table();
        assert_eq!(text, expected);
        let rows = figures.rows();
        assert_eq!((rows.len(), rows[2].median, rows[2].min, rows[2].max), (3, 2.0, 1.5, 4.0));
    }
}
