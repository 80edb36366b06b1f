//! `figures`: the evaluations of the papers, measured anew, as one report.
//!
//! Each figure is an [`Entry`]: what it is about, and a function that measures it and compares. What
//! a figure is made of stands in `figure.rs` and `chart.rs`, how it looks in `html.rs`, `svg.rs` and
//! `report.css`, the files of a report in `report.rs`. The other files measure, a paper each or a
//! part of one.
//!
//! Figures that need what does not exist yet (a cluster, a log, RDMA) are left out; the report says
//! so.

pub mod chart;
pub mod figure;
mod html;
mod report;
mod scale;
mod servers;
mod skew;
mod svg;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Args;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};

use crate::machine::Machine;
use figure::{Figure, Measured, Subject};
use report::Report;
pub use scale::{Scale, Size};

/// Rerun the papers' evaluations on this machine and write a report
///
/// The folder of --out gets report.html, report.json, and a CSV file for each figure.
#[derive(Debug, Args)]
pub struct FiguresArgs {
    /// How much is loaded and how long is measured
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    scale: Scale,
    /// The folder that the report goes to
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Only these figures
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Print which figures there are, and end
    #[arg(long)]
    list: bool,
}

/// A figure that can be measured.
pub struct Entry {
    /// What it is about.
    pub subject: Subject,
    /// Measures it.
    pub measure: fn(&Bench) -> Result<Measured>,
}

/// What a figure measures with.
pub struct Bench {
    /// How much.
    pub size: Size,
    bars: MultiProgress,
}

/// All figures, in the order of the report.
fn entries() -> Vec<Entry> {
    skew::ENTRIES.into_iter().chain(servers::ENTRIES).collect()
}

impl Bench {
    /// A bar below the one of all figures, for steps within one figure.
    pub fn steps(&self, steps: u64, what: &str) -> ProgressBar {
        self.bars.add(crate::report::progress(steps, what))
    }
}

impl FiguresArgs {
    /// Measures and writes.
    pub fn run(&self) -> Result<()> {
        let entries = self.chosen()?;
        let Some(out) = self.out.as_ref().filter(|_| !self.list) else {
            for Entry { subject, .. } in &entries {
                let (paper, place) = (subject.source.paper.name(), subject.source.place);
                println!("{:<22} {paper} {place}: {}", subject.id, subject.title);
            }
            return Ok(());
        };
        let report = self.measure(&entries)?;
        report.write(out)?;
        for figure in &report.figures {
            let verdict = figure.verdict().map_or("", |verdict| verdict.label());
            println!("{:<22} {:>7.1} s  {verdict}", figure.subject.id, figure.seconds);
        }
        println!("{}", out.join("report.html").display());
        Ok(())
    }

    fn chosen(&self) -> Result<Vec<Entry>> {
        let mut entries = entries();
        for id in &self.only {
            let known = entries.iter().any(|entry| entry.subject.id == id);
            ensure!(known, "no figure {id:?}: --list prints all of them");
        }
        entries.retain(|entry| {
            self.only.is_empty() || self.only.iter().any(|id| id == entry.subject.id)
        });
        Ok(entries)
    }

    fn measure(&self, entries: &[Entry]) -> Result<Report> {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let all = bars.add(crate::report::progress(entries.len() as u64, "figures"));
        let bench = Bench { size: self.scale.size()?, bars };
        let start = Instant::now();
        let mut figures = Vec::new();
        for Entry { subject, measure } in entries {
            all.set_message(subject.id);
            let start = Instant::now();
            let measured = measure(&bench).with_context(|| format!("figure {}", subject.id))?;
            let seconds = crate::report::seconds(start.elapsed());
            figures.push(Figure { subject: *subject, measured, seconds });
            all.inc(1);
        }
        all.finish_and_clear();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("a clock before 1970")?;
        Ok(Report {
            machine: Machine::here(),
            date: report::day(now.as_secs()),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            scale: self.scale.to_string(),
            scale_line: format!("{}: {}", self.scale, bench.size),
            seconds: crate::report::seconds(start.elapsed()),
            notes: vec![LEFT_OUT.to_owned()],
            figures,
        })
    }
}

/// What the report does not have, and why.
const LEFT_OUT: &str = "Left out, as this project has no such part yet: what needs RDMA (RHKV, \
                        figure 9 and table 4), a cluster (the durable store, figures 3 and 4) or a \
                        log (its table 1, and RHKV's space amplification). The machines, data sets \
                        and rival systems of the papers are not at hand: each figure's notes say \
                        what stands for them.";
