//! `space`: bytes on the disk as values are overwritten, against the bytes of what is there.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context, Result, ensure};
use clap::Args;

use super::figures::Figures;
use super::subject::{LOOK_EACH, Rewrites, Subject, name};
use super::{Common, Part};
use crate::report;
use crate::servers::Data;

/// The log's promise, which both servers call so.
const LOG: &str = "everysec";

/// Measure bytes on the disk as values are overwritten again and again
///
/// All keys are loaded and then overwritten, each once in every pass. Servers see by themselves to it that the log does
/// not grow for ever, as they do by default. "at the end" is what is there when the pass has ended and the server
/// writes nothing anew any more; "most" is the most that was there at any time of the pass. Both are multiples of keys
/// and values that are there.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct SpaceArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::cli::count, default_value = "1M")]
    keys: u64,
    /// How often all are overwritten
    #[arg(long, default_value_t = 10)]
    passes: u64,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench durability space
  hotring-bench durability space --keys 10M --passes 20 --data /srv/disk";

impl SpaceArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        let (data, kinds) = (self.common.data(self.keys), self.common.kinds());
        ensure!(!kinds.is_empty(), "nothing to measure");
        let (keys, value) = (self.keys, self.common.value_size);
        let setting = format!("{keys} keys with values of {value} bytes");
        let mut figures = Figures::new(Part::Space, setting);
        let steps = self.common.rounds as u64 * kinds.len() as u64 * self.passes;
        let bar = report::progress(steps, "space");
        for _ in 0..self.common.rounds {
            for &kind in &kinds {
                let mut subject = self.common.start(kind, Some(LOG), &data, Rewrites::ByItself)?;
                let loaded = subject.folder.bytes("");
                add(&mut figures, &case_name(name(kind), 0), (loaded, loaded), &data);
                for pass in 1..=self.passes {
                    let bytes = overwrite(&mut subject, &data)
                        .with_context(|| format!("{} in pass {pass}", name(kind)))?;
                    add(&mut figures, &case_name(name(kind), pass), bytes, &data);
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        Ok(vec![figures])
    }
}

fn case_name(server: &str, pass: u64) -> String {
    if pass == 0 { format!("{server}, loaded") } else { format!("{server}, overwritten {pass}x") }
}

fn add(figures: &mut Figures, case: &str, (end, most): (u64, u64), data: &Data) {
    let live = data.keys * (data.key_len + data.value_len) as u64;
    figures.add(case, "MB", end as f64 / 1e6);
    figures.add(case, "of keys and values, at the end", end as f64 / live as f64);
    figures.add(case, "most", most as f64 / live as f64);
}

/// One pass; the bytes at its end, and the most of them.
fn overwrite(subject: &mut Subject, data: &Data) -> Result<(u64, u64)> {
    let (target, folder) = (&subject.target, &subject.folder);
    let stop = AtomicBool::new(false);
    let watch = || {
        let mut most = 0;
        // ORDERING: Relaxed, it says when to stop and nothing else.
        while !stop.load(Relaxed) {
            most = most.max(folder.bytes(""));
            std::thread::sleep(LOOK_EACH);
        }
        most
    };
    let (written, most) = std::thread::scope(|scope| {
        let watching = scope.spawn(watch);
        let written = data.load(target);
        // ORDERING: Relaxed, as above.
        stop.store(true, Relaxed);
        (written, watching.join().expect("the watching thread panicked"))
    });
    written?;
    subject.wait_until_idle()?;
    let end = subject.folder.bytes("");
    Ok((end, most.max(end)))
}
