//! Servers in a durability mode, and the result of measuring one for a window of time.

use anyhow::Result;
use clap::ValueEnum;

use super::subject::{Rewrites, Setup, Subject, Testbed, server_name};
use crate::servers::{Data, Kind, Load, Sample, Scripts};

/// The durability mode of a log, by hotring's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// No log
    Off,
    /// Writes are acknowledged at once
    Async,
    /// Writes are acknowledged once they are written to the file, which is synced each second
    Everysec,
    /// Writes are acknowledged once they are synced to disk
    Sync,
}

/// A server in a mode.
pub struct Case {
    pub kind: Kind,
    pub mode: Mode,
    pub subject: Subject,
}

/// The result of a window.
pub struct Window {
    pub sample: Sample,
    /// The average number of records that share a sync, if the server reports it.
    pub records_per_sync: Option<f64>,
}

impl Mode {
    /// The name of the setting in a server.
    pub fn of(self, kind: Kind) -> &'static str {
        match (self, kind) {
            (Mode::Off, _) => "off",
            (Mode::Async, Kind::Redis) => "no",
            (Mode::Async, _) => "async",
            (Mode::Everysec, _) => "everysec",
            (Mode::Sync, Kind::Redis) => "always",
            (Mode::Sync, _) => "sync",
        }
    }
}

/// The name of a server in a mode, for figures.
pub fn case_name(kind: Kind, mode: Mode) -> String {
    format!("{} {}", server_name(kind), mode.of(kind))
}

impl Case {
    /// Starts the server on a new folder and loads the data. Its log is rewritten only on request.
    pub fn start(
        testbed: &Testbed,
        (kind, mode): (Kind, Mode),
        threads: usize,
        data: &Data,
    ) -> Result<Self> {
        let log = (mode != Mode::Off).then(|| mode.of(kind));
        let setup = Setup { kind, log, rewrites: Rewrites::OnRequest, threads };
        Ok(Case { kind, mode, subject: testbed.start(setup, data)? })
    }

    /// Measures a window in which only this server works. All earlier writes are on the disk when the window
    /// begins.
    pub fn window(&mut self, load: &Load, data: &Data, scripts: &Scripts) -> Result<Window> {
        self.subject.settle()?;
        let before = self.synced()?;
        let sample = load.once(&self.subject.target, (data, scripts))?;
        let since = self.synced()?.zip(before).map(|(after, before)| {
            let (records, syncs) = (after.0 - before.0, after.1 - before.1);
            records / syncs
        });
        Ok(Window { sample, records_per_sync: since.filter(|shared| shared.is_finite()) })
    }

    /// Records and syncs so far, if the server reports both.
    fn synced(&mut self) -> Result<Option<(f64, f64)>> {
        let records = self.subject.field("log_last_synced")?;
        Ok(records.zip(self.subject.field("log_syncs")?))
    }
}
