//! `replicas`: measures the cost of a replica to its primary, and that of a full copy to a new one.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use super::figures::Figures;
use super::snapshot::{LATENCIES, watch_memory};
use super::subject::{Rewrites, Setup, Subject, Testbed, server_name, wait_until};
use super::{Common, Part};
use crate::address::Endpoint;
use crate::machine::memory_of_family;
use crate::report;
use crate::resp::{Client, info_field};
use crate::servers::{CpuTime, Data, Kind, Load, Sample, Scripts, Target};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// Requests that are drawn in advance and repeated.
const DRAWN: u64 = 1_000_000;
/// The log setting of the server that is restarted on its files.
const LOG: &str = "everysec";

const RATE: &str = "SET/s";
const CPU: &str = "CPU us a request";
const CPU_OF_GET: &str = "CPU us a GET";

/// The values of the setting `ack`.
const ACKS: [&str; 2] = ["local", "replicated"];
/// Requests in flight on each connection that reads beside a writer.
const READ_DEPTH: u64 = 16;
/// The interval of the writer's requests.
const WRITE_EVERY: Duration = Duration::from_millis(1);
/// Connections of the writer, which take turns. So a request leaves on time although those before it are unanswered,
/// unless an answer takes longer than all their turns.
const WRITERS: u64 = 64;

/// Measure the cost of a replica to its primary, and that of a full copy to a new one
///
/// Connections overwrite values, evenly over all keys. Writes are measured without a replica, with one, and for hotring
/// also with `ack replicated`; processor time is that of a server's process per write, until the replica has applied
/// all. "GET beside a writer", for hotring alone: the connections read with 16 requests in flight on each, while others
/// send 1,000 SETs a second of other keys, whatever the server does. One primary with its replica switches between `ack
/// local` and `ack replicated`. "CPU us a GET" is all processor time of the primary, that of the SETs and their
/// acknowledgements included, divided by the GETs alone; as the SETs are alike, the two cases differ by the
/// acknowledgements, and by the GETs that wait for one.
///
/// Then a primary is measured at rest, and while a new replica takes a full copy at the default rate: latencies
/// until the copy ends, its seconds, and the peak of memory above that at the beginning, sampled each 250 ms alike for
/// all servers (Pss of the process and its children). Exactly one full copy must have been made. "load of files" is the
/// time in which a server with as many keys serves again after a restart on a rewritten log.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplicasArgs {
    /// Keys to load for the writes
    #[arg(long, value_parser = crate::count::count, default_value = "1M")]
    keys: u64,
    /// Keys to load for the copies
    #[arg(long, value_parser = crate::count::count, default_value = "5M")]
    copied: u64,
    /// Connections
    #[arg(long, default_value_t = 50)]
    connections: usize,
    /// Requests in flight on each connection
    #[arg(long, value_delimiter = ',', default_value = "1,16")]
    pipeline: Vec<u64>,
    /// Seconds per window of writes
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Seconds of each window at rest; that of a copy ends with it
    #[arg(long, default_value_t = 10.0)]
    copy_seconds: f64,
    #[command(flatten)]
    pub(super) common: Common,
}

const EXAMPLES: &str = "\
Examples:
  hotring-bench durability replicas --value-size 32
  hotring-bench durability replicas --keys 100k --copied 100k --rounds 1 --copy-seconds 1";

/// What a primary waits for before it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replica {
    Absent,
    Asynchronous,
    Acknowledges,
}

/// A primary, and its replica if it has one.
struct Case {
    kind: Kind,
    mode: Replica,
    primary: Subject,
    replica: Option<Subject>,
}

impl Case {
    fn name(kind: Kind, mode: Replica) -> String {
        let label = match mode {
            Replica::Absent => "alone",
            Replica::Asynchronous => "with a replica",
            Replica::Acknowledges => "ack replicated",
        };
        format!("{}, {label}", server_name(kind))
    }

    fn start(common: &Common, kind: Kind, mode: Replica, data: &Data) -> Result<Case> {
        let setup = common.setup(kind, None, Rewrites::OnRequest);
        let primary = common.testbed.start(setup, data)?;
        let replica = (mode != Replica::Absent).then(|| {
            let replica = common.testbed.start(setup, &Data { keys: 0, ..*data })?;
            follow(kind, &primary.target, &replica.target)?;
            wait_until_up(&replica.target)?;
            if mode == Replica::Acknowledges {
                let mut client = Client::connect(&primary.target.address)?;
                let address = endpoint(&replica.target)?;
                let set: &[&[u8]] = &[b"CONFIG", b"SET", b"in-sync-replicas", address.as_bytes()];
                client.call(set)?;
                client.call(&[b"CONFIG", b"SET", b"ack", b"replicated"])?;
            }
            anyhow::Ok(replica)
        });
        Ok(Case { kind, mode, primary, replica: replica.transpose()? })
    }

    /// Measures a window, and the processor time of primary and replica until the replica has all.
    fn window(&self, load: &Load, data: &Data, scripts: &Scripts) -> Result<Cost> {
        let servers: Vec<&Subject> = [&self.primary].into_iter().chain(&self.replica).collect();
        let cpu = || servers.iter().map(|server| CpuTime::of(server.pid()?));
        let before: Vec<CpuTime> = cpu().collect::<Result<_>>()?;
        let sample = load.once(&self.primary.target, (data, scripts))?;
        if let Some(replica) = &self.replica {
            wait_until_equal(&self.primary.target, &replica.target)?;
        }
        let after: Vec<CpuTime> = cpu().collect::<Result<_>>()?;
        let requests = sample.tally.requests as f64;
        let taken = after.iter().zip(&before).map(|(after, before)| after.since(before));
        let cpu_us = taken.map(|taken| taken.as_secs_f64() * 1e6 / requests).collect();
        Ok(Cost { sample, cpu_us })
    }
}

/// What a window took.
struct Cost {
    sample: Sample,
    /// Microseconds of processor time per request: of the primary, and of its replica.
    cpu_us: Vec<f64>,
}

fn endpoint(target: &Target) -> Result<&str> {
    match &target.address.endpoint {
        Endpoint::Tcp(endpoint) => Ok(endpoint),
        Endpoint::Unix(path) => bail!("{} is no network address", path.display()),
    }
}

/// Tells one server to follow another of the same kind.
fn follow(kind: Kind, primary: &Target, replica: &Target) -> Result<()> {
    let (host, port) = endpoint(primary)?.rsplit_once(':').context("an address has a port")?;
    let mut client = Client::connect(&replica.address)?;
    if kind == Kind::Redis {
        // Otherwise Redis waits five seconds for more replicas, and the copy passes through a file.
        let delay: &[&[u8]] = &[b"CONFIG", b"SET", b"repl-diskless-sync-delay", b"0"];
        Client::connect(&primary.address)?.call(delay)?;
        client.call(&[b"CONFIG", b"SET", b"repl-diskless-load", b"on-empty-db"])?;
    }
    client.call(&[b"REPLICAOF", host.as_bytes(), port.as_bytes()])?;
    Ok(())
}

fn wait_until_up(replica: &Target) -> Result<()> {
    let mut client = Client::connect(&replica.address)?;
    wait_until("the link of the replica is up", || {
        let status = info_field(&client.info("replication")?, "master_link_status");
        Ok(status == Some("up".to_string()))
    })
}

fn wait_until_equal(primary: &Target, replica: &Target) -> Result<()> {
    let (mut ours, mut its) =
        (Client::connect(&primary.address)?, Client::connect(&replica.address)?);
    wait_until("the replica has applied all", || {
        let sent: Option<u64> = info_field(&ours.info("replication")?, "master_repl_offset");
        let applied: Option<u64> = info_field(&its.info("replication")?, "slave_repl_offset");
        Ok(sent.is_some() && applied >= sent)
    })
}

impl ReplicasArgs {
    pub fn measure(&self) -> Result<Vec<Figures>> {
        let is_time = |seconds: f64| seconds > 0.0 && seconds < 1e6;
        ensure!(is_time(self.seconds) && is_time(self.copy_seconds), "seconds are a time");
        ensure!(self.connections > 0 && !self.pipeline.contains(&0), "nothing would be sent");
        let kinds = self.common.kinds()?;
        let mut all = self.writes(&kinds)?;
        if kinds.contains(&Kind::Hotring) {
            all.push(self.reads()?);
        }
        all.push(self.copies(&kinds)?);
        Ok(all)
    }

    fn load(&self, depth: u64, seconds: f64) -> Load {
        Load {
            workload: Workload::W,
            skew: Skew::Uniform,
            connections: self.connections,
            depth,
            rate: None,
            clients: 1,
            time: Duration::from_secs_f64(seconds),
        }
    }

    fn setting(&self, keys: u64, depth: u64) -> String {
        let (value, connections) = (self.common.value_size, self.connections);
        format!(
            "{keys} keys with values of {value} bytes, {connections} connections, {depth} in flight on each"
        )
    }

    fn writes(&self, kinds: &[Kind]) -> Result<Vec<Figures>> {
        let data = self.common.data(self.keys);
        let mut cases = Vec::new();
        for mode in [Replica::Absent, Replica::Asynchronous, Replica::Acknowledges] {
            for &kind in kinds {
                if mode != Replica::Acknowledges || kind == Kind::Hotring {
                    cases.push(Case::start(&self.common, kind, mode, &data)?);
                }
            }
        }
        let steps = self.pipeline.len() * (1 + self.common.rounds) * cases.len();
        let bar = report::progress(steps as u64, "writes");
        let mut all = Vec::new();
        for &depth in &self.pipeline {
            let load = self.load(depth, self.seconds);
            let scripts = Scripts::draw(&load, &data, DRAWN.min(100 * self.keys), 1)?;
            let mut figures = Figures::new(Part::Replicas.name(), self.setting(self.keys, depth));
            // The first round is a warm-up and does not count.
            for round in 0..=self.common.rounds {
                for turn in 0..cases.len() {
                    let case = &cases[(round + turn) % cases.len()];
                    let name = Case::name(case.kind, case.mode);
                    let window = case.window(&load, &data, &scripts);
                    let cost = window.with_context(|| name.clone())?;
                    bar.inc(1);
                    if round > 0 {
                        add(&mut figures, &name, &cost);
                    }
                }
            }
            for case in &cases {
                let (name, base) =
                    (Case::name(case.kind, case.mode), Case::name(case.kind, Replica::Absent));
                figures.add_ratio("CPU of alone", CPU, &name, &base);
                let base = Case::name(case.kind, Replica::Asynchronous);
                figures.add_ratio("rate of with a replica", RATE, &name, &base);
            }
            all.push(figures);
        }
        bar.finish_and_clear();
        Ok(all)
    }

    /// Measures GETs beside a writer of other keys, with each value of `ack` in turn on the same servers.
    fn reads(&self) -> Result<Figures> {
        let data = self.common.data(self.keys);
        let load = Load { workload: Workload::C, ..self.load(READ_DEPTH, self.seconds) };
        let scripts = Scripts::draw(&load, &data, DRAWN.min(100 * self.keys), 1)?;
        let case = Case::start(&self.common, Kind::Hotring, Replica::Acknowledges, &data)?;
        let setting = self.setting(self.keys, READ_DEPTH);
        let setting = format!("GET beside a SET of another key each {WRITE_EVERY:?}, {setting}");
        let mut figures = Figures::new(Part::Replicas.name(), setting);
        let names = ACKS.map(|ack| format!("hotring, GET beside a writer, ack {ack}"));
        let bar = report::progress((ACKS.len() * (1 + self.common.rounds)) as u64, "reads");
        // The first round is a warm-up and does not count.
        for round in 0..=self.common.rounds {
            for turn in 0..ACKS.len() {
                let at = (round + turn) % ACKS.len();
                let (ack, name) = (ACKS[at], &names[at]);
                let window = read_beside_writer(&case.primary, ack, (&load, &data, &scripts));
                let (sample, written) = window.with_context(|| name.clone())?;
                bar.inc(1);
                if round > 0 {
                    figures.add(name, "GET/s", sample.rate);
                    let cpu = sample.cpu_us.context("the primary was started here")?;
                    figures.add(name, CPU_OF_GET, cpu);
                    figures.add(name, RATE, written);
                }
            }
        }
        bar.finish_and_clear();
        let [local, replicated] = &names;
        figures.add_ratio("CPU of ack local", CPU_OF_GET, replicated, local);
        Ok(figures)
    }

    fn copies(&self, kinds: &[Kind]) -> Result<Figures> {
        let (data, load) = (self.common.data(self.copied), self.load(1, self.copy_seconds));
        let scripts = Scripts::draw(&load, &data, DRAWN.min(100 * self.copied), 1)?;
        let mut figures = Figures::new(Part::Replicas.name(), self.setting(self.copied, 1));
        let bar = report::progress((self.common.rounds * kinds.len()) as u64, "copies");
        for round in 0..self.common.rounds {
            for turn in 0..kinds.len() {
                // The order rotates, so that no server always follows the same one.
                let kind = kinds[(round + turn) % kinds.len()];
                let sending = (&load, &data, &scripts);
                self.copy(kind, sending, &mut figures).with_context(|| server_name(kind))?;
                let setup = self.common.setup(kind, Some(LOG), Rewrites::OnRequest);
                let seconds = reload(&self.common.testbed, setup, &data)?;
                let name = format!("{}, load of files", server_name(kind));
                figures.add(&name, "seconds", seconds.as_secs_f64());
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        for &kind in kinds {
            let (quiet, copying) = copy_names(kind);
            for (figure, relation, _) in LATENCIES {
                figures.add_ratio(relation, figure, &copying, &quiet);
            }
        }
        Ok(figures)
    }

    /// Measures a primary at rest, and while a new replica takes a full copy.
    fn copy(
        &self,
        kind: Kind,
        (load, data, scripts): (&Load, &Data, &Scripts),
        figures: &mut Figures,
    ) -> Result<()> {
        let setup = self.common.setup(kind, None, Rewrites::OnRequest);
        let primary = self.common.testbed.start(setup, data)?;
        let replica = self.common.testbed.start(setup, &Data { keys: 0, ..*data })?;
        let (quiet, copying) = copy_names(kind);
        // The first window is a warm-up.
        load.once(&primary.target, (data, scripts))?;
        add_latencies(figures, &quiet, &load.once(&primary.target, (data, scripts))?);
        let (pid, stop) = (primary.pid()?, AtomicBool::new(false));
        let before = memory_of_family(pid)?;
        let (sample, took, most) = std::thread::scope(|scope| {
            let remembering = scope.spawn(|| watch_memory(pid, &stop));
            let copying = scope.spawn(|| {
                let begun = Instant::now();
                let copied = follow(kind, &primary.target, &replica.target)
                    .and_then(|()| wait_until_up(&replica.target));
                // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
                stop.store(true, Relaxed);
                copied.map(|()| begun.elapsed())
            });
            let sample = load.until(&stop, &primary.target, (data, scripts));
            let took = copying.join().expect("the copying thread panicked");
            let most = remembering.join().expect("the watching thread panicked");
            anyhow::Ok((sample?, took?, most?))
        })?;
        let stats = Client::connect(&primary.target.address)?.info("stats")?;
        let copies: Option<u64> = info_field(&stats, "sync_full");
        ensure!(copies == Some(1), "full copies that were made in place of one: {copies:?}");
        add_latencies(figures, &copying, &sample);
        figures.add(&copying, "seconds", took.as_secs_f64());
        figures.add(&copying, "memory more MB", most.saturating_sub(before) as f64 / 1e6);
        wait_until_equal(&primary.target, &replica.target)?;
        ensure!(replica.target.held()? == data.keys, "the replica lacks keys");
        Ok(())
    }
}

/// Measures a window of reads beside a writer. Gives its result and the writer's rate.
fn read_beside_writer(
    primary: &Subject,
    ack: &str,
    (load, data, scripts): (&Load, &Data, &Scripts),
) -> Result<(Sample, f64)> {
    let mut control = Client::connect(&primary.target.address)?;
    control.call(&[b"CONFIG", b"SET", b"ack", ack.as_bytes()])?;
    let before = replica_waits(&mut control)?;
    let stop = AtomicBool::new(false);
    let (sample, written) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| write_until(&stop, &primary.target, data.value_len));
        let sample = load.once(&primary.target, (data, scripts));
        // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
        stop.store(true, Relaxed);
        let written = writing.join().expect("the writing thread panicked");
        anyhow::Ok((sample?, written?))
    })?;
    let waits = replica_waits(&mut control)? - before;
    ensure!((waits > 0) == (ack == "replicated"), "{waits} replies have waited for the replica");
    Ok((sample, written))
}

/// Groups of replies so far that have waited for replicas.
fn replica_waits(client: &mut Client) -> Result<u64> {
    info_field(&client.info("stats")?, "replica_waits").context("INFO lacks replica_waits")
}

/// Sends SETs at fixed times until the flag is set, and gives their number per second. Sleeps in between, as it would
/// otherwise take a core from the servers.
fn write_until(stop: &AtomicBool, target: &Target, value_len: usize) -> Result<f64> {
    let connect = |_| Client::connect(&target.address);
    let mut clients = (0..WRITERS).map(connect).collect::<Result<Vec<_>>>()?;
    let (value, begun, mut sent) = (vec![b'v'; value_len], Instant::now(), 0);
    // ORDERING: Relaxed, for the reason at the store of `stop`.
    while !stop.load(Relaxed) {
        let due = begun + WRITE_EVERY * sent as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let client = &mut clients[(sent % WRITERS) as usize];
        if sent >= WRITERS {
            client.reply()?;
        }
        // The keys that are read have no digits.
        client.push(&[b"SET", format!("written:{sent}").as_bytes(), &value]);
        client.flush()?;
        sent += 1;
    }
    for client in clients.iter_mut().take(sent as usize) {
        client.reply()?;
    }
    Ok(sent as f64 / begun.elapsed().as_secs_f64())
}

fn copy_names(kind: Kind) -> (String, String) {
    let name = server_name(kind);
    (format!("{name}, quiet"), format!("{name}, full copy"))
}

fn add(figures: &mut Figures, case: &str, cost: &Cost) {
    add_latencies(figures, case, &cost.sample);
    for (figure, taken) in [CPU, "replica CPU us"].into_iter().zip(&cost.cpu_us) {
        figures.add(case, figure, *taken);
    }
}

fn add_latencies(figures: &mut Figures, case: &str, sample: &Sample) {
    figures.add(case, RATE, sample.rate);
    for (figure, _, share) in LATENCIES {
        figures.add(case, figure, sample.tally.latency.value_at_quantile(share) as f64 / 1e3);
    }
}

/// The time from the start of a server on a rewritten log until it has all keys.
fn reload(testbed: &Testbed, setup: Setup<'_>, data: &Data) -> Result<Duration> {
    let mut subject = testbed.start(setup, data)?;
    subject.rewrite()?;
    let Subject { target, folder, .. } = subject;
    target.kill()?;
    let plan = testbed.plan(setup, &folder, data);
    let begun = Instant::now();
    let target = Target::start(&plan)?;
    let mut client = Client::connect(&target.address)?;
    client.wait_until_loaded()?;
    wait_until("all is loaded", || {
        Ok(info_field::<u64>(&client.info("persistence")?, "loading") != Some(1))
    })?;
    ensure!(target.held()? == data.keys, "keys are missing after the restart");
    Ok(begun.elapsed())
}
