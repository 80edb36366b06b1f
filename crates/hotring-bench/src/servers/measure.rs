//! Loads servers and measures them in turn, round by round.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::content::Content;
use super::dialect::{Action, Dialect, Step};
use super::pool::{Pace, Pool, Tally, Until};
use super::process::CpuTime;
use super::target::Target;
use crate::machine;
use crate::workload::operations::{Keys, Kind, Op, Workload};
use crate::workload::scramble::Scramble;
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;

/// Connections that load and remove keys, then their pipeline depth.
const LOADERS: usize = 4;
const LOAD_DEPTH: u64 = 64;

/// File descriptors in addition to those of connections.
const FILES_RESERVED: u64 = 64;

/// The data of the servers.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// The number of keys, which are `0..keys`.
    pub keys: u64,
    /// Bytes of a key.
    pub key_len: usize,
    /// Bytes of a value.
    pub value_len: usize,
}

/// The requests to the servers.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The mix of requests.
    pub workload: Workload,
    /// The distribution of requests over the keys.
    pub skew: Skew,
    /// The number of connections.
    pub connections: usize,
    /// The most requests in flight on each connection.
    pub depth: u64,
    /// Requests per second in an open loop; None for a closed loop.
    pub rate: Option<f64>,
    /// Client threads, which share the connections.
    pub clients: usize,
    /// The length of a round.
    pub time: Duration,
}

/// The result of one round of one target.
#[derive(Debug)]
pub struct Sample {
    /// Replies per second.
    pub rate: f64,
    /// Microseconds of the server's processor time per request, if its process is known.
    pub cpu_us: Option<f64>,
    /// The number of replies, with their latencies.
    pub tally: Tally,
}

/// The numbers of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Measured rounds.
    pub measured: usize,
    /// Warm-up rounds before those.
    pub warmup: usize,
}

impl Data {
    fn dialect(&self, target: &Target) -> Dialect {
        Dialect::new(target.address.protocol, Content::new(self.key_len, self.value_len))
    }

    /// The total length of all keys and values, in bytes.
    pub fn live(&self) -> u64 {
        self.keys * (self.key_len + self.value_len) as u64
    }

    /// Puts all keys into a target.
    pub fn load(&self, target: &Target) -> Result<()> {
        if self.keys == 0 {
            return Ok(());
        }
        let order = Scramble::new(self.keys, 1);
        self.each(target, Action::Set, (0..self.keys).map(|rank| order.key(rank)))
    }

    /// Removes all keys from a target.
    pub fn unload(&self, target: &Target) -> Result<()> {
        self.each(target, Action::Delete, 0..self.keys)
    }

    fn each(&self, target: &Target, action: Action, keys: impl Iterator<Item = u64>) -> Result<()> {
        let steps: Vec<Step> = keys.map(|key| Step::new(action, key)).collect();
        if steps.is_empty() {
            return Ok(());
        }
        let scripts = steps.chunks(steps.len().div_ceil(LOADERS));
        let dialect = self.dialect(target);
        let mut pool = Pool::open(&target.address.endpoint, &dialect, scripts)?;
        let tally = pool.closed_loop(LOAD_DEPTH, Until::End);
        let tally = tally.with_context(|| format!("{}: {action:?} of its keys", target.label()))?;
        ensure!(tally.requests == steps.len() as u64, "{} not asked in full", target.label());
        Ok(())
    }
}

/// The requests of the connections, drawn in advance.
pub struct Scripts {
    connections: Vec<Vec<Step>>,
    /// Whether a script may restart. A script that inserts keys must not.
    repeat: bool,
}

impl Scripts {
    /// Draws about `requests` requests, over all connections.
    pub fn draw(load: &Load, data: &Data, requests: u64, seed: u64) -> Result<Self> {
        let draw = Draw {
            workload: load.workload,
            skew: load.skew,
            keys: data.keys,
            threads: load.connections,
            ops: requests.div_ceil(load.connections as u64),
            seed,
            hot_set: 0,
            turn: 0,
        };
        let streams = draw.streams()?;
        let read = if streams.present { Action::Get } else { Action::Miss };
        let script = |ops: &Vec<Op>| ops.iter().flat_map(|op| steps(*op, read)).collect();
        let connections = streams.of_keys(Keys::Dense).iter().map(script).collect();
        Ok(Scripts { connections, repeat: !load.workload.inserts() })
    }
}

/// The one or two requests of an operation.
fn steps(op: Op, read: Action) -> impl Iterator<Item = Step> {
    let (first, second) = match op.kind() {
        Kind::Read => (read, None),
        Kind::Update | Kind::Insert => (Action::Set, None),
        Kind::Modify => (read, Some(Action::Set)),
    };
    std::iter::once(first).chain(second).map(move |action| Step::new(action, op.key()))
}

impl Load {
    /// Runs all rounds on targets that hold the data. The results have the order of `targets`.
    pub fn measure(
        &self,
        targets: &[Target],
        (data, scripts): (&Data, &Scripts),
        rounds: Rounds,
        bar: &ProgressBar,
    ) -> Result<Vec<Vec<Sample>>> {
        let mut samples: Vec<Vec<Sample>> = targets.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds.warmup + rounds.measured {
            for turn in 0..targets.len() {
                // Each round begins with another target, so that none always follows the same one.
                let at = (round + turn) % targets.len();
                let target = &targets[at];
                let sample = self.once(target, (data, scripts))?;
                if round >= rounds.warmup {
                    samples[at].push(sample);
                }
                bar.inc(1);
            }
        }
        Ok(samples)
    }

    /// Runs one round on a target that holds the data.
    pub fn once(&self, target: &Target, sending: (&Data, &Scripts)) -> Result<Sample> {
        self.round(target, sending, None)
    }

    /// Runs one round without a pace that lasts until the flag is set, on a target that holds the data.
    pub fn until(
        &self,
        stop: &AtomicBool,
        target: &Target,
        (data, scripts): (&Data, &Scripts),
    ) -> Result<Sample> {
        ensure!(self.rate.is_none() && scripts.repeat, "such a round repeats its requests");
        self.round(target, (data, scripts), Some(stop))
    }

    fn round(
        &self,
        target: &Target,
        sending: (&Data, &Scripts),
        stop: Option<&AtomicBool>,
    ) -> Result<Sample> {
        allow_files(self.connections)?;
        let sample = self.send(target, sending, stop);
        sample.with_context(|| format!("{} failed", target.label()))
    }

    fn send(
        &self,
        target: &Target,
        (data, scripts): (&Data, &Scripts),
        stop: Option<&AtomicBool>,
    ) -> Result<Sample> {
        let dialect = data.dialect(target);
        let open = |client: usize| {
            let scripts = scripts.connections.iter().skip(client).step_by(self.clients);
            Pool::open(&target.address.endpoint, &dialect, scripts.map(Vec::as_slice))
        };
        let mut pools = (0..self.clients).map(open).collect::<Result<Vec<_>>>()?;
        // One request per connection, so that all are accepted and known before the clock starts.
        self.on_threads(target, &mut pools, |_, pool| pool.closed_loop(1, Until::Once))?;
        let cpu = || target.pid.map(CpuTime::of).transpose();
        let before = cpu()?;
        let start = Instant::now();
        let time = Until::Time { deadline: start + self.time, repeat: scripts.repeat };
        let until = stop.map_or(time, Until::Stopped);
        let tally = self.on_threads(target, &mut pools, |client, pool| match self.rate {
            None => pool.closed_loop(self.depth, until),
            Some(rate) => pool.open_loop(self.depth, &self.pace(rate, client, start)),
        })?;
        let elapsed = start.elapsed();
        let taken = cpu()?.zip(before).map(|(after, before)| after.since(&before));
        self.undo(target, data, scripts, &pools)?;
        Ok(Sample {
            rate: tally.requests as f64 / elapsed.as_secs_f64(),
            cpu_us: taken.map(|taken| taken.as_secs_f64() * 1e6 / tally.requests as f64),
            tally,
        })
    }

    /// The part of the schedule for one client. Clients take turns in it.
    fn pace(&self, rate: f64, client: usize, start: Instant) -> Pace {
        let clients = self.clients as f64;
        Pace {
            start: start + Duration::from_secs_f64(client as f64 / rate),
            interval: Duration::from_secs_f64(clients / rate),
            total: (self.time.as_secs_f64() * rate / clients) as u64,
        }
    }

    /// Runs each pool on a thread of its own, pinned if the server is pinned.
    fn on_threads(
        &self,
        target: &Target,
        pools: &mut [Pool<'_>],
        work: impl Fn(usize, &mut Pool<'_>) -> Result<Tally> + Sync,
    ) -> Result<Tally> {
        let first = self.first_core(target);
        let work = |client: usize, pool: &mut Pool<'_>| {
            first.map_or(Ok(()), |first| machine::pin(first + client))?;
            work(client, pool)
        };
        let work = &work;
        let tallies: Vec<Result<Tally>> = std::thread::scope(|scope| {
            let clients = pools.iter_mut().enumerate();
            let handles: Vec<_> =
                clients.map(|(client, pool)| scope.spawn(move || work(client, pool))).collect();
            handles.into_iter().map(|h| h.join().expect("a client thread panicked")).collect()
        });
        let mut sum = Tally::new();
        for tally in tallies {
            sum.add(&tally?);
        }
        Ok(sum)
    }

    /// The first core for clients, after those of a pinned server; None without pinning.
    fn first_core(&self, target: &Target) -> Option<usize> {
        target.threads.filter(|_| target.pinned)
    }

    /// Removes the keys inserted by the round.
    fn undo(
        &self,
        target: &Target,
        data: &Data,
        scripts: &Scripts,
        pools: &[Pool<'_>],
    ) -> Result<()> {
        let mut inserted = Vec::new();
        for (client, pool) in pools.iter().enumerate() {
            let own = scripts.connections.iter().skip(client).step_by(self.clients);
            for (script, sent) in own.zip(pool.progress()) {
                let done = &script[..script.len().min(sent as usize)];
                let new = |step: &&Step| step.action() == Action::Set && step.key() >= data.keys;
                inserted.extend(done.iter().filter(new).map(|step| step.key()));
            }
        }
        data.each(target, Action::Delete, inserted.into_iter())
    }
}

/// Raises the limit of open files if `connections` connections need it.
fn allow_files(connections: usize) -> Result<()> {
    let wanted = connections as u64 + FILES_RESERVED;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised)
            .with_context(|| format!("{connections} connections need ulimit -n {wanted}"))?;
    }
    Ok(())
}
