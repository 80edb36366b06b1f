//! `restart`: how long a server that was killed takes until it serves again.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Args;
use fastrand::Rng;

use super::figures::Figures;
use super::subject::{Rewrites, Subject, name};
use super::{Common, Part};
use crate::folder::Folder;
use crate::report;
use crate::resp::{Client, Reply, rest_if_loading};
use crate::servers::{Content, Data, Kind, Plan};

/// Writes that are sent together, and reads. Few of these, as a server finds hot keys by a look at some of its reads
/// from a connection, and is to have many of them.
const WRITES: u64 = 256;
const READS: u64 = 16;
/// The log setting, with one name in both servers: acknowledged writes survive the kill.
const LOG: &str = "everysec";

/// Measure how long a server that was killed takes until it serves again
///
/// Servers are filled, some keys are made hot by reading them, what was written is rewritten as a snapshot
/// (BGREWRITEAOF: in Redis the log's new beginning in RDB's format), some more is written, and the process is killed.
/// Then it is started on what it has left, and asked each millisecond for one of the hot keys, and for PING, which a
/// server that is not ready answers by -LOADING. "log alone" is a server that never wrote a snapshot. Redis with an RDB
/// has no log: it is killed when it has dumped all, and would have lost what was written afterwards. What is read is in
/// the system's cache.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RestartArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "500k")]
    keys: u64,
    /// Keys to make hot
    #[arg(long, value_parser = crate::count::count, default_value = "8")]
    hot: u64,
    /// Reads of each of these
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
    left: Left,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    SnapshotAndLog,
    Log,
    /// Of Redis: a dump and no log.
    Dump,
}

impl Case {
    /// Of a server, all.
    fn all(kind: Kind) -> Vec<Case> {
        let is_redis = kind == Kind::Redis;
        let left = [Left::SnapshotAndLog, Left::Log, Left::Dump];
        let left = left.into_iter().filter(|left| is_redis || *left != Left::Dump);
        left.map(|left| Case { kind, left }).collect()
    }

    fn name(self) -> String {
        let what = match (self.kind, self.left) {
            (_, Left::Log) => "log alone",
            (_, Left::Dump) => "RDB",
            (Kind::Redis, Left::SnapshotAndLog) => "AOF with RDB preamble",
            (_, Left::SnapshotAndLog) => "snapshot and log",
        };
        format!("{}, {what}", name(self.kind))
    }

    /// The log's promise.
    fn log(self) -> &'static str {
        if self.left == Left::Dump { "off" } else { LOG }
    }
}

/// How long it took from the start of the process on.
struct Times {
    accepted: Duration,
    hot: Duration,
    all: Duration,
}

impl RestartArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        ensure!(self.hot <= self.keys, "--hot is at most --keys");
        let cases: Vec<Case> = self.common.kinds()?.into_iter().flat_map(Case::all).collect();
        let (keys, value) = (self.keys, self.common.value_size);
        let mut figures =
            Figures::new(Part::Restart, format!("{keys} keys with values of {value} bytes"));
        let bar = report::progress((self.common.rounds * cases.len()) as u64, "restart");
        for round in 0..self.common.rounds {
            for turn in 0..cases.len() {
                // Another one begins each round, so that none always follows the same one.
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
        let setup = self.common.setup(case.kind, case.log(), Rewrites::WhenTold);
        let mut subject = self.common.testbed.start(setup, &data)?;
        self.use_it(&mut subject, case.left)?;
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

    /// Makes keys hot, has a snapshot written, and writes a little more.
    fn use_it(&self, subject: &mut Subject, left: Left) -> Result<()> {
        let content = self.content();
        let mut client = Client::connect(&subject.target.address)?;
        let mut random = Rng::with_seed(1);
        // One key after the other, over and over: keys `0..hot`.
        let read = |index| (index % self.hot, false);
        each(&mut client, &content, (self.hot * self.reads, READS), read)?;
        if left == Left::SnapshotAndLog {
            subject.rewrite()?;
        }
        let write = |_| (random.u64(..self.keys), true);
        each(&mut client, &content, (self.writes, WRITES), write)?;
        if left == Left::Dump {
            subject.save()?;
        }
        Ok(())
    }

    /// Starts the server on its files, and records when it serves which keys.
    fn start(&self, plan: &Plan, folder: &Folder) -> Result<Times> {
        let (content, mut key) = (self.content(), Vec::new());
        // The last one: not the first of anything by chance.
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
        let whole = reply == Reply::Integer(self.keys as i64);
        ensure!(whole, "of {} keys {reply:?} are there; {:?}", self.keys, folder.keep());
        let (hot, all) = hot.zip(all).expect("the loop ends when both are known");
        // A server with all keys has this one, too, even if it was asked a moment before.
        Ok(Times { accepted, hot: hot.min(all), all })
    }

    fn content(&self) -> Content {
        let Data { key_len, value_len, .. } = self.common.data(self.keys);
        Content::new(key_len, value_len)
    }
}

/// Asks; after -LOADING the next question is to come a moment later.
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

/// A number of requests and how many go together, each for the named key, and whether it writes.
fn each(
    client: &mut Client,
    content: &Content,
    (requests, window): (u64, u64),
    mut what: impl FnMut(u64) -> (u64, bool),
) -> Result<()> {
    let (mut name, mut value) = (Vec::new(), Vec::new());
    for first in (0..requests).step_by(window as usize) {
        let now = window.min(requests - first);
        for index in first..first + now {
            let (key, write) = what(index);
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
