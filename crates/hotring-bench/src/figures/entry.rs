//! A figure as the report sees it, and its means of measurement.

use std::path::PathBuf;

use anyhow::Result;
use indicatif::ProgressBar;

use super::figure::{Measured, Subject};
use super::scale::Size;
use crate::durability::Testbed;

/// A figure that can be measured.
pub struct Entry {
    /// Its subject.
    pub subject: Subject,
    /// Measures it.
    pub measure: fn(&Bench) -> Result<Measured>,
}

/// The means of measurement.
pub struct Bench {
    /// How much.
    pub size: Size,
    /// Where servers come from.
    pub testbed: Testbed,
    /// Where recorded traces are.
    pub traces: Option<PathBuf>,
    /// Which figure this is, of how many.
    pub turn: String,
}

impl Bench {
    /// A bar for steps within one figure.
    pub fn steps(&self, steps: u64, what: &str) -> ProgressBar {
        crate::report::progress(steps, &format!("{} {what}", self.turn))
    }
}
