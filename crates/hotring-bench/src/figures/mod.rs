//! `figures`: repeats the evaluations of the papers and writes one report.
//!
//! Each figure is an [`Entry`]: its subject, and a function that measures and compares it. `figure.rs` and
//! `plots` define the parts of a figure, `html.rs` and `report.css` its appearance, `report.rs` the files of a report.
//! The other files measure, each for one paper or a part of one.
//!
//! Figures that need missing features (RDMA) are left out; the report says so.

mod accesses;
mod circle;
mod circle_slots;
mod durable;
mod durable_log;
mod entry;
mod field;
mod figure;
mod html;
mod latency;
mod locked;
mod mercury;
mod over_time;
mod report;
mod rhkv;
mod rhkv_space;
mod scale;
mod servers;
mod skew;
#[cfg(test)]
mod tests;
mod throughput;

use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::durability::Testbed;
use crate::machine::{self, Machine};
use crate::measure::fitness::Fitness;
use entry::{Bench, Entry};
use figure::Figure;
use report::Report;
use scale::Scale;

/// Rerun the papers' evaluations on this machine and write a report
///
/// The folder of --out gets report.html, report.json, and for each figure a CSV file and an SVG file for each plot.
#[derive(Debug, Args)]
pub struct FiguresArgs {
    /// Amount of data and duration of the measurements
    #[arg(long, value_enum, default_value_t = Scale::Small)]
    scale: Scale,
    /// The folder for the report
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Figures to measure [default: all]
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// List all figures and exit
    #[arg(long)]
    list: bool,
    /// A folder with recorded traces for HotRing's figure 1: files *.trace or *.trace.xz with one key per line or
    /// with 32-bit big-endian numbers [default: the variable HOTRING_TRACES]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    #[command(flatten)]
    testbed: Testbed,
}

/// All figures, in the order of the report.
fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    entries.extend(skew::ENTRIES);
    entries.extend(accesses::ENTRIES);
    entries.extend(throughput::ENTRIES);
    entries.extend(latency::ENTRIES);
    entries.extend(over_time::ENTRIES);
    entries.extend(mercury::ENTRIES);
    entries.extend(rhkv::ENTRIES);
    entries.extend(servers::ENTRIES);
    entries.extend(rhkv_space::ENTRIES);
    entries.extend(durable_log::ENTRIES);
    entries.extend(durable::ENTRIES);
    entries.extend(circle::ENTRIES);
    entries.extend(circle_slots::ENTRIES);
    entries.sort_by_key(|entry| (entry.subject.source.order(), entry.subject.id));
    entries
}

impl FiguresArgs {
    /// Measures the figures and writes the report.
    pub fn run(&self) -> Result<()> {
        let entries = self.chosen()?;
        let Some(out) = self.out.as_ref().filter(|_| !self.list) else {
            for Entry { subject, .. } in &entries {
                let (paper, reference) = (subject.source.paper.name(), subject.source.reference);
                println!("{:<22} {paper} {reference}: {}", subject.id, subject.title);
            }
            return Ok(());
        };
        machine::huge_pages_for_all()?;
        measure(self, &entries, |report| report.write(out))?;
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
}

/// Measures figures one after the other, and hands over the report so far after each.
fn measure(
    args: &FiguresArgs,
    entries: &[Entry],
    mut done: impl FnMut(&Report) -> Result<()>,
) -> Result<Report> {
    let FiguresArgs { scale, testbed, traces, .. } = args;
    let named = || std::env::var_os("HOTRING_TRACES").map(PathBuf::from);
    let traces = traces.clone().or_else(named);
    let (size, testbed) = (scale.size()?, testbed.clone());
    let mut bench = Bench { size, testbed, traces, turn: String::new() };
    let start = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("a clock before 1970")?;
    let fitness = Fitness::measure(size.keys, size.ops)?;
    fitness.print();
    let mut report = Report {
        machine: Machine::here(),
        date: report::day(now.as_secs()),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        scale: scale.to_string(),
        scale_line: format!("{}: {}", scale, bench.size),
        seconds: 0.0,
        wanted: entries.len(),
        fitness,
        notes: LEFT_OUT.iter().map(|&note| note.to_owned()).collect(),
        figures: Vec::new(),
    };
    for (at, Entry { subject, measure }) in entries.iter().enumerate() {
        bench.turn = format!("{}/{} {}", at + 1, entries.len(), subject.id);
        let begun = Instant::now();
        let measured = measure(&bench).with_context(|| format!("figure {}", subject.id))?;
        let seconds = crate::report::seconds(begun.elapsed());
        let figure = Figure { subject: *subject, measured, seconds };
        println!("{:<22} {seconds:>7.1} s  {}", subject.id, figure.outcome().describe());
        report.figures.push(figure);
        report.seconds = crate::report::seconds(start.elapsed());
        done(&report)?;
    }
    Ok(report)
}

/// The omitted figures, with reasons.
const LEFT_OUT: [&str; 5] = [
    "Figures that need RDMA (RHKV, figure 9 and table 4) are omitted, because this project does not have it yet. \
     The machines, data sets and rival systems of the papers are not available: the notes of each figure name the \
     substitutes.",
    "HotRing: FASTER and Memcached as rivals in one process (neither can be built into this tool); 64 \
     threads; the production curves of figure 1, which recorded traces replace if --traces names a \
     folder of them.",
    "Mercury: cache misses, bandwidth and the breakdown of latency (its figure 1), because a virtual machine \
     has no such counters; the time for which a worker's thread lock is held.",
    "RHKV: the time to persist an operation (section 6.6: 52.23 ms, Redis 62.21, MongoDB 65.32), because the \
     paper does not define the interval; `hotring-bench durability modes` measures the cost of each log \
     mode per request. Loads of 100 to 1,000 million operations, MongoDB, \
     and the load of single cores.",
    "The durable store: latency over HTTP, because there is no HTTP interface for data.",
];
