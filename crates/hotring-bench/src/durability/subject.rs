//! A server with a folder of its own, the program of that server, and its reports about the log.

use std::fs::File;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::folder::Folder;
use crate::machine;
use crate::resp::{Client, info_field};
use crate::servers::{Data, Kind, LogPlan, Plan, Target, Transport};

/// Interval of polls for the end of a server's background work.
pub const POLL_EVERY: Duration = Duration::from_millis(5);
/// The longest wait for the end of background work.
const PATIENCE: Duration = Duration::from_secs(600);

/// The name of a server.
pub fn server_name(kind: Kind) -> &'static str {
    if kind == Kind::Redis { "redis" } else { "hotring" }
}

/// The programs and folders of servers.
#[derive(Clone, Debug, Default, Args)]
pub struct Testbed {
    /// The server's program [default: hotring in this program's folder]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Parent of the servers' folders, whose file system is measured [default: the system's temporary folder]
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

/// The settings of a server.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    pub kind: Kind,
    /// The log setting, as the server names it. With None the server stores nothing on the disk.
    pub log: Option<&'a str>,
    pub rewrites: Rewrites,
    /// Threads that serve requests.
    pub threads: usize,
}

/// When a server rewrites its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrites {
    /// When the log has become long.
    Automatic,
    OnRequest,
}

/// A running server. The process must end before its folder is removed.
pub struct Subject {
    pub target: Target,
    pub folder: Folder,
    control: Client,
}

impl Testbed {
    /// The parent of the folders.
    pub fn folder(&self) -> PathBuf {
        self.data.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// The program given for a server; None for its default.
    pub fn program(&self, kind: Kind) -> Option<PathBuf> {
        self.program.clone().filter(|_| kind == Kind::Hotring)
    }

    /// The kinds that can be started. `report` gets each missing kind with the reason.
    pub fn present(
        &self,
        kinds: &[Kind],
        mut report: impl FnMut(Kind, anyhow::Error),
    ) -> Vec<Kind> {
        let can_start = |kind: &Kind| {
            let missing = kind.program().err().filter(|_| self.program(*kind).is_none());
            missing.map(|error| report(*kind, error)).is_none()
        };
        kinds.iter().copied().filter(can_start).collect()
    }

    /// The plan of a server on a folder.
    pub fn plan(&self, setup: Setup<'_>, folder: &Folder, data: &Data) -> Plan {
        let log = |when: &str| LogPlan { when: when.into(), data: folder.path().to_owned() };
        let Setup { kind, threads, .. } = setup;
        Plan {
            program: self.program(kind),
            log: setup.log.map(log),
            ..Plan::new(kind, Transport::Tcp, threads, "hotring", data)
        }
    }

    /// Starts a server on a new folder and loads the data.
    pub fn start(&self, setup: Setup<'_>, data: &Data) -> Result<Subject> {
        let folder = Folder::new(&self.folder(), server_name(setup.kind))?;
        let target = Target::start(&self.plan(setup, &folder, data))?;
        let mut control = Client::connect(&target.address)?;
        control.wait_until_loaded()?;
        if setup.rewrites == Rewrites::OnRequest {
            control.call(&[b"CONFIG", b"SET", b"auto-aof-rewrite-percentage", b"0"])?;
        }
        data.load(&target)?;
        Ok(Subject { target, folder, control })
    }
}

impl Subject {
    /// The value of a field of `INFO persistence`.
    pub fn field<T: FromStr>(&mut self, field: &str) -> Result<Option<T>> {
        Ok(info_field(&self.control.info("persistence")?, field))
    }

    /// Makes the server rewrite its log to the shortest form, and waits for the end.
    pub fn rewrite(&mut self) -> Result<()> {
        self.write_and_wait(b"BGREWRITEAOF")
    }

    /// Makes the server write a snapshot, and waits for the end.
    pub fn save(&mut self) -> Result<()> {
        self.write_and_wait(b"BGSAVE")
    }

    fn write_and_wait(&mut self, command: &[u8]) -> Result<()> {
        self.wait_until_idle()?;
        self.control.call(&[command])?;
        self.wait_until_idle()?;
        // hotring reports both operations in the second field.
        for field in ["aof_last_bgrewrite_status", "rdb_last_bgsave_status"] {
            let status = self.field::<String>(field)?.unwrap_or_else(|| "ok".into());
            ensure!(status == "ok", "{} has failed: {field} is {status}", command.escape_ascii());
        }
        Ok(())
    }

    /// Waits until the server writes no snapshot and rewrites no log.
    pub fn wait_until_idle(&mut self) -> Result<()> {
        const WORK: [&str; 3] =
            ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"];
        wait_until("it stops writing", || {
            let info = self.control.info("persistence")?;
            Ok(WORK.iter().all(|field| info_field::<u64>(&info, field).unwrap_or(0) == 0))
        })
    }

    /// Waits until all earlier writes are on the disk.
    pub fn settle(&self) -> Result<()> {
        let folder = File::open(self.folder.path())?;
        rustix::fs::syncfs(folder).context("cannot sync the file system")
    }

    /// The server's process.
    pub fn pid(&self) -> Result<u32> {
        self.target.pid.context("it was started here")
    }

    /// Bytes of memory that the server's process has in use.
    pub fn resident(&self) -> Result<u64> {
        machine::resident_of(self.pid()?)
    }
}

/// Polls until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(POLL_EVERY);
    }
    Ok(())
}
