//! A server with a folder of its own, and what it tells of its log.

use std::fs::File;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Common;
use crate::folder::Folder;
use crate::resp::{Client, info_field};
use crate::servers::{Data, Kind, LogPlan, Plan, Target, Transport};

/// How often it is asked whether it has done what it does beside requests.
pub const LOOK_EACH: Duration = Duration::from_millis(5);
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a server is called.
pub fn name(kind: Kind) -> &'static str {
    if kind == Kind::Redis { "redis" } else { "hotring" }
}

/// A server that runs. It ends before its folder goes.
pub struct Subject {
    pub target: Target,
    pub folder: Folder,
    control: Client,
}

/// When a server writes its log anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrites {
    /// When it has become long.
    ByItself,
    WhenTold,
}

impl Common {
    /// How a server is to be started on a folder; without a log, it leaves nothing there.
    pub fn plan(&self, kind: Kind, log: Option<&str>, folder: &Folder, data: &Data) -> Plan {
        let log = log.map(|when| LogPlan { when: when.into(), data: folder.path().to_owned() });
        let program = self.program.clone().filter(|_| kind == Kind::Hotring);
        Plan { program, log, ..Plan::new(kind, Transport::Tcp, self.threads, "hotring", data) }
    }

    /// Starts a server on a new folder and has it hold the data.
    pub fn start(
        &self,
        kind: Kind,
        log: Option<&str>,
        data: &Data,
        rewrites: Rewrites,
    ) -> Result<Subject> {
        let folder = Folder::new(&self.folder(), name(kind))?;
        let target = Target::start(&self.plan(kind, log, &folder, data))?;
        let mut control = Client::connect(&target.address)?;
        control.wait_until_loaded()?;
        if rewrites == Rewrites::WhenTold {
            control.call(&[b"CONFIG", b"SET", b"auto-aof-rewrite-percentage", b"0"])?;
        }
        data.load(&target)?;
        Ok(Subject { target, folder, control })
    }
}

impl Subject {
    /// A field of `INFO persistence`.
    pub fn tells<T: FromStr>(&mut self, field: &str) -> Result<Option<T>> {
        Ok(info_field(&self.control.info("persistence")?, field))
    }

    /// Has it write its log anew, as short as it can be, and waits until that is done.
    pub fn rewrite(&mut self) -> Result<()> {
        self.wait_until_idle()?;
        self.control.call(&[b"BGREWRITEAOF"])?;
        self.wait_until_idle()
    }

    /// Waits until neither a snapshot nor a log is being written anew.
    pub fn wait_until_idle(&mut self) -> Result<()> {
        const WORK: [&str; 3] =
            ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        let begun = Instant::now();
        loop {
            let info = self.control.info("persistence")?;
            if WORK.iter().all(|field| info_field::<u64>(&info, field).unwrap_or(0) == 0) {
                return Ok(());
            }
            ensure!(begun.elapsed() < PATIENCE, "it goes on writing for {PATIENCE:?}");
            std::thread::sleep(LOOK_EACH);
        }
    }

    /// Waits until the disk has all that was written before, by whomever.
    pub fn settle(&self) -> Result<()> {
        let folder = File::open(self.folder.path())?;
        rustix::fs::syncfs(folder).context("cannot sync the file system")
    }
}
