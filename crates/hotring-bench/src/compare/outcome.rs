//! Results: ratios with their aims, and the rates behind them.

use serde::Serialize;

use super::Scene;
use crate::measure::load::Loaded;
use crate::measure::rounds::{Entrant, Samples};
use crate::report::{Spread, Table};
use crate::targets::Mode;

/// The aim of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Aim {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Shown for comparison alone.
    Shown,
}

/// One row of the comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The compared scene.
    pub title: String,
    /// Threads.
    pub threads: usize,
    /// Our target.
    pub ours: String,
    /// The target that it is compared with.
    pub other: String,
    /// The figure, round by round: a ratio, or the quantity named by `title`.
    pub figure: Spread,
    /// Its aim.
    pub aim: Aim,
    /// This rate as a share of the oracle's (the direct array's), where the oracle took part.
    pub of_oracle: Option<f64>,
}

impl Outcome {
    /// Whether the median reaches the aim.
    pub fn is_reached(&self) -> Option<bool> {
        match self.aim {
            Aim::AtLeast(aim) => Some(self.figure.median >= aim),
            Aim::AtMost(aim) => Some(self.figure.median <= aim),
            Aim::Shown => None,
        }
    }

    fn cells(&self) -> Vec<String> {
        let Spread { median, min, max, .. } = self.figure;
        let aim = match self.aim {
            Aim::AtLeast(aim) => format!("at least {aim}"),
            Aim::AtMost(aim) => format!("at most {aim}"),
            Aim::Shown => "-".into(),
        };
        let reached = match self.is_reached() {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        vec![
            self.title.clone(),
            self.threads.to_string(),
            format!("{median:.2}"),
            format!("{min:.2}..{max:.2}"),
            aim,
            reached.into(),
            self.of_oracle.map_or("-".into(), |of| format!("{of:.2}")),
            self.ours.clone(),
            self.other.clone(),
        ]
    }
}

/// The ratios as a table, and how many aims are reached.
pub fn ratios(outcomes: &[Outcome]) -> String {
    let columns =
        ["scene", "threads", "ratio", "min..max", "aim", "reached", "of oracle", "ours", "against"];
    let mut table = Table::new(&columns);
    outcomes.iter().for_each(|outcome| table.row(outcome.cells()));
    let verdicts: Vec<bool> = outcomes.iter().filter_map(Outcome::is_reached).collect();
    let reached = verdicts.iter().filter(|&&reached| reached).count();
    format!("\n{}\naims reached: {reached} of {}\n", table.render(), verdicts.len())
}

/// One entrant in one setting.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    part: String,
    pub(super) workload: String,
    pub(super) skew: String,
    pub(super) threads: usize,
    pub(super) target: String,
    pub(super) mode: &'static str,
    pub(super) mops_median: f64,
    mops_min: f64,
    mops_max: f64,
    mops_lower_quartile: f64,
    mops_upper_quartile: f64,
    keys: u64,
    bytes_per_key: f64,
    index_bytes_per_key: Option<f64>,
    visits_per_lookup: Option<f64>,
    settled_after: String,
}

/// The mode of batched lookups in the table.
pub const PIPELINED: &str = "64 in flight";

impl Measured {
    /// Makes the row of an entrant.
    pub fn new(
        part: &str,
        scene: &Scene,
        entrant: &Entrant<'_>,
        loaded: &Loaded,
        samples: &Samples,
    ) -> Self {
        let Spread { median, min, max, lower, upper } = samples.spread();
        Measured {
            part: part.to_owned(),
            workload: scene.workload.to_string(),
            skew: scene.skew.to_string(),
            threads: entrant.source.threads(),
            target: entrant.target.name().to_owned(),
            mode: match entrant.mode {
                Mode::Scalar => "one by one",
                Mode::Batched(_) => PIPELINED,
                Mode::Queued => "queued",
            },
            mops_median: median,
            mops_min: min,
            mops_max: max,
            mops_lower_quartile: lower,
            mops_upper_quartile: upper,
            keys: scene.keys,
            bytes_per_key: loaded.bytes_per_key,
            index_bytes_per_key: loaded.index_bytes_per_key,
            visits_per_lookup: samples.visits,
            settled_after: samples.settled.describe(),
        }
    }
}

/// The rates as a table.
pub fn rates(measured: &[Measured]) -> String {
    let mut table = Table::new(&[
        "part",
        "workload",
        "skew",
        "threads",
        "target",
        "lookups",
        "Mops/s",
        "min..max",
        "B/key",
        "index B/key",
        "visits/lookup",
        "settled after",
    ]);
    let optional = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    for row in measured {
        table.row(vec![
            row.part.clone(),
            row.workload.clone(),
            row.skew.clone(),
            row.threads.to_string(),
            row.target.clone(),
            row.mode.into(),
            format!("{:.2}", row.mops_median),
            format!("{:.2}..{:.2}", row.mops_min, row.mops_max),
            format!("{:.1}", row.bytes_per_key),
            optional(row.index_bytes_per_key),
            optional(row.visits_per_lookup),
            row.settled_after.clone(),
        ]);
    }
    format!("\n{}", table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(values: &[f64], aim: Aim) -> Outcome {
        let figure = Spread::of(values);
        let (ours, other) = ("hotring vote 7".into(), "chaining".into());
        let (title, of_oracle) = ("C, 0.99".into(), Some(0.25));
        Outcome { title, threads: 1, ours, other, figure, aim, of_oracle }
    }

    #[test]
    fn an_aim_is_reached_by_the_median() {
        let values = [1.0, 1.3, 9.0];
        let reached = |aim| outcome(&values, aim).is_reached();
        assert_eq!(reached(Aim::AtLeast(1.3)), Some(true));
        assert_eq!(reached(Aim::AtLeast(1.31)), Some(false));
        assert_eq!(reached(Aim::AtMost(1.3)), Some(true));
        assert_eq!(reached(Aim::AtMost(1.29)), Some(false));
        assert_eq!(reached(Aim::Shown), None);
    }

    #[test]
    fn a_value_that_is_only_shown_does_not_count() {
        let outcomes = [
            outcome(&[2.0], Aim::AtLeast(1.0)),
            outcome(&[0.5], Aim::AtLeast(1.0)),
            outcome(&[0.5], Aim::Shown),
        ];
        let text = ratios(&outcomes);
        assert!(text.contains("aims reached: 1 of 2"), "{text}");
        assert!(
            text.contains("| C, 0.99 |       1 |  0.50 | 0.50..0.50 | at least 1 | no "),
            "{text}"
        );
    }
}
