//! `restart`: measures the time from the start of a killed server until it serves again.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use fastrand::Rng;

use super::figures::Figures;
use super::subject::{Rewrites, Subject, server_name};
use super::{Common, Part};
use crate::folder::Folder;
use crate::report;
use crate::resp::{Client, Reply, rest_if_loading};
use crate::servers::{Content, Data, Kind, Plan};

/// Writes, then reads, sent together. The number of reads is small because a server samples each connection's
/// reads to find hot keys, and must get many samples.
const WRITES: u64 = 256;
const READS: u64 = 16;
/// The log setting, which has the same name in both servers. Acknowledged writes survive the kill.
const LOG: &str = "everysec";

/// Measure the time until a killed server serves again
///
/// Each server is filled, some keys become hot by reads, a snapshot is written (BGREWRITEAOF: in Redis the base of the
/// log, in RDB's format), more keys are written, and the process is killed. It is restarted on its files and gets two
/// requests each millisecond: GET of a hot key, and PING, which a loading server answers by -LOADING. "log alone" is a
/// server without a snapshot. Redis with an RDB has no log and is killed right after its dump. All files are in the
/// system's cache.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RestartArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "500k")]
    keys: u64,
    /// Keys to make hot
    #[arg(long, value_parser = crate::count::count, default_value = "8")]
    hot: u64,
    /// Reads per hot key
    #[arg(long, value_parser = crate::count::count, default_value = "100k")]
    reads: u64,
    /// Writes between snapshot and kill
    #[arg(long, value_parser = crate::count::count, default_value = "5k")]
    writes: u64,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench durability restart
  hotring-bench durability restart --keys 20M --threads 8 --data /srv/disk";

/// A server, and the files that it must have at the kill.
#[derive(Clone, Copy)]
struct Case {
    kind: Kind,
    files: Files,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Files {
    SnapshotAndLog,
    Log,
    /// A dump without a log, for Redis only.
    Dump,
}

impl Case {
    /// All cases of a server.
    fn all(kind: Kind) -> Vec<Case> {
        let is_redis = kind == Kind::Redis;
        let files = [Files::SnapshotAndLog, Files::Log, Files::Dump];
        let files = files.into_iter().filter(|files| is_redis || *files != Files::Dump);
        files.map(|files| Case { kind, files }).collect()
    }

    fn name(self) -> String {
        let label = match (self.kind, self.files) {
            (_, Files::Log) => "log alone",
            (_, Files::Dump) => "RDB",
            (Kind::Redis, Files::SnapshotAndLog) => "AOF with RDB preamble",
            (_, Files::SnapshotAndLog) => "snapshot and log",
        };
        format!("{}, {label}", server_name(self.kind))
    }

    /// The log setting.
    fn log(self) -> &'static str {
        if self.files == Files::Dump { "off" } else { LOG }
    }
}

/// Times since the start of the process.
struct Times {
    /// Time until the server accepted a connection.
    accepted: Duration,
    /// Time until the server served a hot key.
    hot: Duration,
    /// Time until the server served all keys.
    all: Duration,
}

impl RestartArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        ensure!(self.hot <= self.keys, "--hot is at most --keys");
        let cases: Vec<Case> = self.common.kinds()?.into_iter().flat_map(Case::all).collect();
        let (keys, value) = (self.keys, self.common.value_size);
        let mut figures =
            Figures::new(Part::Restart.name(), format!("{keys} keys with values of {value} bytes"));
        let bar = report::progress((self.common.rounds * cases.len()) as u64, "restart");
        for round in 0..self.common.rounds {
            for turn in 0..cases.len() {
                // The order rotates, so that no case always follows the same one.
                let case = cases[(round + turn) % cases.len()];
                self.round(case, &mut figures)?;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(vec![figures])
    }

    fn round(&self, case: Case, figures: &mut Figures) -> Result<()> {
        let data = self.common.data(self.keys);
        let setup = self.common.setup(case.kind, Some(case.log()), Rewrites::OnRequest);
        let mut subject = self.common.testbed.start(setup, &data)?;
        self.prepare(&mut subject, case.files)?;
        let Subject { target, folder, .. } = subject;
        target.kill()?;
        let bytes = folder.bytes("");
        let plan = self.common.testbed.plan(setup, &folder, &data);
        let times = self.start(&plan, &folder)?;
        let name = case.name();
        let mut add = |figure, value| figures.add(&name, figure, value);
        add("accepts ms", times.accepted.as_secs_f64() * 1e3);
        add("first hot key ms", times.hot.as_secs_f64() * 1e3);
        add("all ms", times.all.as_secs_f64() * 1e3);
        add("hot of all", times.hot.as_secs_f64() / times.all.as_secs_f64());
        add("keys/s", self.keys as f64 / times.all.as_secs_f64());
        add("MB of files", bytes as f64 / 1e6);
        Ok(())
    }

    /// Makes keys hot, writes a snapshot, and then writes some more keys.
    fn prepare(&self, subject: &mut Subject, files: Files) -> Result<()> {
        let content = self.content();
        let mut client = Client::connect(&subject.target.address)?;
        let mut random = Rng::with_seed(1);
        // Reads the keys `0..hot` in turn.
        let read = |index| (index % self.hot, false);
        send_all(&mut client, &content, (self.hot * self.reads, READS), read)?;
        if files == Files::SnapshotAndLog {
            subject.rewrite()?;
        }
        let write = |_| (random.u64(..self.keys), true);
        send_all(&mut client, &content, (self.writes, WRITES), write)?;
        if files == Files::Dump {
            subject.save()?;
        }
        Ok(())
    }

    /// Starts the server on its files and measures its times.
    fn start(&self, plan: &Plan, folder: &Folder) -> Result<Times> {
        let (content, mut key) = (self.content(), Vec::new());
        // The last hot key, because a loader cannot reach it first by chance.
        content.key(self.hot - 1, &mut key);
        let begun = Instant::now();
        let server = plan.start()?;
        let accepted = begun.elapsed();
        let mut client = Client::connect(&server.address)?;
        let (mut hot, mut all) = (None, None);
        while hot.is_none() || all.is_none() {
            if hot.is_none() {
                hot = is_served(&mut client, &[b"GET", &key], |reply| match reply {
                    Reply::Bulk(Some(value)) => content.is_value_of(self.hot - 1, value),
                    _ => false,
                })?
                .then(|| begun.elapsed());
            }
            if all.is_none() {
                all = is_served(&mut client, &[b"PING"], |reply| *reply == Reply::Simple("PONG"))?
                    .then(|| begun.elapsed());
            }
        }
        let reply = client.call(&[b"DBSIZE"])?;
        let has_all = reply == Reply::Integer(self.keys as i64);
        ensure!(has_all, "of {} keys {reply:?} are there; {:?}", self.keys, folder.keep());
        let (hot, all) = hot.zip(all).expect("the loop ends when both are known");
        // A server with all keys also has the hot one, even if the last GET was a moment too early.
        Ok(Times { accepted, hot: hot.min(all), all })
    }

    fn content(&self) -> Content {
        let Data { key_len, value_len, .. } = self.common.data(self.keys);
        Content::new(key_len, value_len)
    }
}

/// Sends a request. Gives false, after a pause, if the server is still loading.
fn is_served(
    client: &mut Client,
    request: &[&[u8]],
    is_right: impl FnOnce(&Reply<'_>) -> bool,
) -> Result<bool> {
    match client.call(request) {
        Ok(reply) if is_right(&reply) => Ok(true),
        Ok(_) => bail!("a wrong answer to {}", request[0].escape_ascii()),
        Err(error) => rest_if_loading(error).map(|()| false),
    }
}

/// Sends `requests` requests, at most `window` at a time. `request` maps an index to a key and whether to write
/// it.
fn send_all(
    client: &mut Client,
    content: &Content,
    (requests, window): (u64, u64),
    mut request: impl FnMut(u64) -> (u64, bool),
) -> Result<()> {
    let (mut name, mut value) = (Vec::new(), Vec::new());
    for first in (0..requests).step_by(window as usize) {
        let now = window.min(requests - first);
        for index in first..first + now {
            let (key, write) = request(index);
            name.clear();
            content.key(key, &mut name);
            if write {
                value.clear();
                content.value(key, index, &mut value);
                client.push(&[b"SET", &name, &value]);
            } else {
                client.push(&[b"GET", &name]);
            }
        }
        client.flush()?;
        (0..now).try_for_each(|_| client.reply().map(drop))?;
    }
    Ok(())
}
