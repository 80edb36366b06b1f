//! An entry of the report: a figure's subject and its measurement.

use std::path::PathBuf;

use anyhow::Result;
use indicatif::ProgressBar;

use super::figure::{Measured, Subject};
use super::scale::Size;
use crate::durability::Testbed;

/// A figure that can be measured.
pub struct Entry {
    /// The subject of the figure.
    pub subject: Subject,
    /// Measures the figure.
    pub measure: fn(&Bench) -> Result<Measured>,
}

/// The settings of a run that the measurements use.
pub struct Bench {
    /// The scale of the run.
    pub size: Size,
    /// The programs and folders of servers.
    pub testbed: Testbed,
    /// The folder of recorded traces, if any.
    pub traces: Option<PathBuf>,
    /// The figure's position in the run and its id, for progress messages: `3/12 hotring-10`.
    pub turn: String,
}

impl Bench {
    /// A progress bar for the steps within one figure.
    pub fn steps(&self, steps: u64, label: &str) -> ProgressBar {
        crate::report::progress(steps, &format!("{} {label}", self.turn))
    }
}
