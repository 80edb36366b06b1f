//! `space`: compares bytes on the disk with the bytes of the data while values are overwritten.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result};
use clap::Args;

use super::figures::Figures;
use super::subject::{POLL_EVERY, Rewrites, Subject, server_name};
use super::{Common, Part};
use crate::folder::Sizes;
use crate::plots;
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report;
use crate::servers::{Data, Kind};

/// The log setting, which has the same name in both servers.
const LOG: &str = "everysec";

const WRITTEN: &str = "of live, written";
const RESIDENT: &str = "of live, in memory";

/// Measure space on disk and in memory while values are overwritten
///
/// All keys are loaded and then overwritten once in every pass. Servers rewrite their logs by default; those with "log
/// only" do not. Sizes are taken after each pass, once the server is idle: "live MB" is the size of its keys and
/// values, "MB" the total length of its files, "MB allocated" the size of their blocks on the file system, "MB
/// written" their written bytes (hotring allocates 64 MiB of its log in advance), and "MB in memory" the memory of its
/// process. "most" is the highest total length of all files during the pass.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SpaceArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "1M")]
    keys: u64,
    /// Passes over all keys
    #[arg(long, default_value_t = 10)]
    passes: u64,
    /// Also draw files and memory into this folder, as space.svg and space-memory.svg
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench durability space
  hotring-bench durability space --plot .
  hotring-bench durability space --keys 10M --passes 20 --data /srv/disk";

/// The result of a pass.
pub struct Pass {
    /// The files at the end of the pass.
    pub files: Sizes,
    /// The greatest total length of the files during the pass.
    pub most: u64,
    /// Bytes of memory at the end of the pass.
    pub resident: u64,
}

/// A server, and when it rewrites its log.
type Case = (Kind, Rewrites);

impl SpaceArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        let (data, kinds) = (self.common.data(self.keys), self.common.kinds()?);
        let (keys, value) = (self.keys, self.common.value_size);
        let setting = format!("{keys} keys with values of {value} bytes");
        let mut figures = Figures::new(Part::Space.name(), setting);
        let cases: Vec<Case> = [Rewrites::Automatic, Rewrites::OnRequest]
            .into_iter()
            .flat_map(|rewrites| kinds.iter().map(move |&kind| (kind, rewrites)))
            .collect();
        let steps = self.common.rounds as u64 * cases.len() as u64 * self.passes;
        let bar = report::progress(steps, "space");
        for _ in 0..self.common.rounds {
            for &case in &cases {
                let setup = self.common.setup(case.0, Some(LOG), case.1);
                let mut subject = self.common.testbed.start(setup, &data)?;
                add(&mut figures, &case_name(case, 0), &loaded(&mut subject)?, &data);
                for number in 1..=self.passes {
                    let name = case_name(case, number);
                    let pass = overwrite(&mut subject, &data).with_context(|| name.clone())?;
                    add(&mut figures, &name, &pass, &data);
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        if let Some(folder) = &self.plot {
            let draw = |file, title, figure| {
                plots::write(folder, file, &self.chart(title, &figures, figure, &cases))
            };
            draw("space", "Files, in multiples of keys and values", WRITTEN)?;
            draw("space-memory", "Memory, in multiples of keys and values", RESIDENT)?;
        }
        Ok(vec![figures])
    }

    /// A chart of a figure by the number of passes.
    fn chart(&self, title: &str, figures: &Figures, figure: &str, cases: &[Case]) -> Chart {
        let series = cases.iter().map(|&case| {
            let point = |pass| {
                let spread = figures.spread(&case_name(case, pass), figure)?;
                Some(Point::spread(pass as f64, spread))
            };
            Series::measured(label(case), (0..=self.passes).filter_map(point).collect())
        });
        let x = Axis::linear("how often all values were overwritten");
        Chart::lines(title, x, Axis::linear("times keys and values"), series.collect())
    }
}

/// The names of servers in plots.
fn label((kind, rewrites): Case) -> String {
    let only = if rewrites == Rewrites::OnRequest { ", log only" } else { "" };
    format!("{}{only}", server_name(kind))
}

fn case_name(case: Case, pass: u64) -> String {
    let label = label(case);
    if pass == 0 { format!("{label}, loaded") } else { format!("{label}, overwritten {pass}x") }
}

fn add(figures: &mut Figures, case: &str, pass: &Pass, data: &Data) {
    let Pass { files, most, resident } = *pass;
    let live = data.live();
    for (figure, bytes) in [
        ("live MB", live),
        ("MB", files.length),
        ("MB allocated", files.allocated),
        ("MB written", files.written),
        ("MB in memory", resident),
    ] {
        figures.add(case, figure, bytes as f64 / 1e6);
    }
    for (figure, bytes) in
        [("of live", files.length), (WRITTEN, files.written), ("most", most), (RESIDENT, resident)]
    {
        figures.add(case, figure, bytes as f64 / live as f64);
    }
}

/// The state after the load, before any value is overwritten.
pub fn loaded(subject: &mut Subject) -> Result<Pass> {
    subject.wait_until_idle()?;
    let files = subject.folder.sizes();
    Ok(Pass { files, most: files.length, resident: subject.resident()? })
}

/// Overwrites every key once.
pub fn overwrite(subject: &mut Subject, data: &Data) -> Result<Pass> {
    let (target, folder) = (&subject.target, &subject.folder);
    let stop = AtomicBool::new(false);
    let watch = || {
        let mut most = 0;
        // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
        while !stop.load(Relaxed) {
            most = most.max(folder.bytes(""));
            std::thread::sleep(POLL_EVERY);
        }
        most
    };
    let (written, most) = std::thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let written = data.load(target);
        // ORDERING: Relaxed, for the reason at the load of `stop`.
        stop.store(true, Relaxed);
        (written, watching.join().expect("the watching thread panicked"))
    });
    written?;
    let end = loaded(subject)?;
    Ok(Pass { most: most.max(end.most), ..end })
}
