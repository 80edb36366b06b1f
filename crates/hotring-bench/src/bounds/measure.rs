//! Figures with the bounds that they must keep, and their table.

use std::fmt::Write;

use serde::Serialize;

use super::Scenario;
use crate::report::Table;

/// A measured figure, with its bound if it has one.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    scenario: String,
    /// The circumstances, which are a row of the table.
    case: String,
    /// The name with its unit, which is a column of the table.
    figure: &'static str,
    value: f64,
    /// The upper bound that was promised.
    at_most: Option<f64>,
}

impl Measure {
    pub fn new(
        scenario: Scenario,
        case: impl Into<String>,
        figure: &'static str,
        value: f64,
    ) -> Self {
        Measure { scenario: scenario.name(), case: case.into(), figure, value, at_most: None }
    }

    /// Adds an upper bound that the figure must keep.
    pub fn at_most(self, promise: f64) -> Self {
        Measure { at_most: Some(promise), ..self }
    }

    fn number(&self) -> String {
        // Large numbers are shown without decimals.
        match self.value.abs() {
            large if large >= 10_000.0 => format!("{:.0}", self.value),
            whole if whole.fract() == 0.0 => format!("{:.0}", self.value),
            medium if medium >= 10.0 => format!("{:.1}", self.value),
            _ => format!("{:.3}", self.value),
        }
    }
}

/// Converts bytes to MiB.
pub fn mib(bytes: impl Into<i128>) -> f64 {
    bytes.into() as f64 / f64::from(1 << 20)
}

/// The figures of a scenario as a table with a line per case, then a list of its promises, kept or broken.
pub fn shown(measures: &[Measure]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    let mut cases: Vec<&str> = Vec::new();
    for measure in measures {
        if !columns.contains(&measure.figure) {
            columns.push(measure.figure);
        }
        if !cases.contains(&measure.case.as_str()) {
            cases.push(&measure.case);
        }
    }
    let scenario = measures.first().map_or("", |measure| measure.scenario.as_str());
    let mut table = Table::new(&[&[scenario], &columns[..]].concat());
    for case in cases {
        let cell = |figure: &&str| {
            let mut found = measures.iter().filter(|m| m.case == case && m.figure == *figure);
            found.next().map_or_else(String::new, Measure::number)
        };
        table.row(std::iter::once(case.to_owned()).chain(columns.iter().map(cell)).collect());
    }
    let mut text = table.render() + "\n";
    for measure in measures {
        let Some(promise) = measure.at_most else { continue };
        let kept = if measure.value <= promise { "kept" } else { "NOT kept" };
        let (case, figure, number) = (&measure.case, measure.figure, measure.number());
        writeln!(text, "* {case}, {figure}: {number}, at most {promise:.3}: {kept}")
            .expect("a String takes every write");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_lines_and_figures_are_columns() {
        let of = |case: &str, figure, value| Measure::new(Scenario::Fall, case, figure, value);
        let text = shown(&[
            of("early", "MiB", 20_000.0),
            of("early", "ratio", 2.0).at_most(1.5),
            of("late", "ratio", 1.25).at_most(1.5),
        ]);
        let expected = "| fall  | MiB   | ratio |\n|-------|-------|------:|\n\
                        | early | 20000 |     2 |\n| late  |       | 1.250 |\n\n\
                        * early, ratio: 2, at most 1.500: NOT kept\n\
                        * late, ratio: 1.250, at most 1.500: kept\n";
        assert_eq!(text, expected);
        assert_eq!(mib(3_i64 << 19), 1.5);
    }
}
