//! `tight`: runs loads at `maxmemory` that take memory in other ways than as new values, one load at a time. A
//! server is filled to its limit first, unless the load does that itself. The process is measured every few
//! milliseconds for its peak, and some seconds afterwards for the memory that it keeps.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use fastrand::Rng;

use super::measure::{Measure, mib};
use super::subject::Subject;
use super::values::{self, Values};
use super::{BoundsArgs, Scenario};
use crate::resp::{Client, Reply};

/// The permitted growth of the process during the load, as a share of `maxmemory`.
const PROMISE: f64 = 1.25;
/// The permitted excess of the process afterwards: a share of `maxmemory`, plus a constant.
const PARTS: i64 = 32;
const ARENA: i64 = 2 << 20;
/// Longest wait between a load and the check of the memory that is left, and the interval of the samples.
const AFTER: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// Bytes of values to fill a server with, as a multiple of `maxmemory`.
const FILLED: f64 = 1.5;
/// Connections that do not read their replies.
const READERS: usize = 40;
const THREADS: usize = 2;
/// Bytes of the name of a channel or of a watched key.
const NAME_LEN: usize = 500;

/// The load of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Load {
    /// Values of increasing lengths, one length after the other
    Grow,
    /// Values that APPEND extends, without eviction
    Append,
    /// Keys that keep their earlier values
    History,
    /// Connections that never read MONITOR's output
    Monitor,
    /// Connections that never read the messages of CLIENT TRACKING BCAST
    Broadcast,
    /// Connections that never read the channels to which they have subscribed
    Messages,
    /// A connection that tracks every key that it has read
    Tracking,
    /// Scripts that allocate memory on both threads
    Scripts,
    /// Long names of channels and of watched keys
    Names,
}

impl Load {
    fn policy(self) -> &'static str {
        if self == Load::Append { "noeviction" } else { "allkeys-lru" }
    }

    /// The settings to start the server with.
    fn settings(self) -> Vec<(&'static str, String)> {
        if self == Load::History { vec![("history", "16".into())] } else { Vec::new() }
    }

    /// The length of the longest value, in bytes.
    fn value_max(self) -> usize {
        match self {
            Load::Grow => GROWING[GROWING.len() - 1],
            _ => 8 << 10,
        }
    }

    /// Runs the load. The returned connections stay open until the end of the measurement.
    fn run(self, args: &BoundsArgs, subject: &Subject) -> Result<Vec<Client>> {
        match self {
            Load::Grow => grow(args.maxmemory, subject),
            Load::Append => append(args.maxmemory, subject),
            Load::History => history(args.maxmemory, subject),
            Load::Monitor => unread(args.maxmemory, subject, &[&[b"MONITOR"]], set_one),
            Load::Broadcast => {
                let first: [&[&[u8]]; 2] =
                    [&[b"HELLO", b"3"], &[b"CLIENT", b"TRACKING", b"ON", b"BCAST"]];
                unread(args.maxmemory, subject, &first, set_long_key)
            }
            Load::Messages => unread(args.maxmemory, subject, &[&[b"SUBSCRIBE", b"c"]], publish),
            Load::Tracking => track(args.maxmemory, subject),
            Load::Scripts => scripts(args.maxmemory, subject),
            Load::Names => names(args.maxmemory, subject),
        }
    }
}

pub fn measure(args: &BoundsArgs) -> Result<Vec<Measure>> {
    let all = Load::value_variants();
    let loads = if args.loads.is_empty() { all } else { &args.loads[..] };
    let measures: Vec<_> = loads.iter().map(|&load| under(args, load)).collect::<Result<_>>()?;
    Ok(measures.concat())
}

fn under(args: &BoundsArgs, load: Load) -> Result<Vec<Measure>> {
    let settings = load.settings();
    let mut subject = Subject::start_with(args.program.clone(), THREADS, settings)?;
    let max = args.maxmemory as i64;
    subject.config("maxmemory-policy", load.policy())?;
    subject.config("maxmemory", &max.to_string())?;
    let stop = AtomicBool::new(false);
    let pid = subject.pid();
    // The permitted excess at the end.
    let spared = max / PARTS + ARENA + (THREADS * load.value_max()) as i64;
    let kept_at = subject.empty.resident + max + spared;
    let most = std::thread::scope(|scope| {
        let most = scope.spawn(|| watch(pid, &stop));
        let done = load.run(args, &subject);
        let done = done.and_then(|open| {
            settle(&subject, args.stop_when_kept.then_some(kept_at))?;
            Ok(open)
        });
        // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
        stop.store(true, Relaxed);
        done.and(most.join().expect("the thread that looks panicked"))
    })?;
    let (peak, now) = (most - subject.empty.resident, subject.rested()?);
    let end = now.resident - subject.empty.resident;
    let case = load.to_possible_value().expect("none is hidden").get_name().to_owned();
    let of = |figure, value| Measure::new(Scenario::Tight, case.clone(), figure, value);
    Ok(vec![
        of("growth at most MiB", mib(peak)),
        of("growth at most, of maxmemory", peak as f64 / max as f64).at_most(PROMISE),
        of("growth in the end MiB", mib(end)),
        of("over in the end, of what may be", (end - max) as f64 / spared as f64).at_most(1.0),
        of("used_memory in the end MiB", mib(now.used)),
    ])
}

/// Waits for the process to give memory back: the full time, or until it takes at most `enough` bytes.
fn settle(subject: &Subject, enough: Option<i64>) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < AFTER {
        if let Some(enough) = enough
            && subject.resident()? <= enough
        {
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// The largest resident size of the process until `stop`.
fn watch(pid: u32, stop: &AtomicBool) -> Result<i64> {
    let mut most = 0;
    // ORDERING: Relaxed, for the reason at the store of `stop`.
    while !stop.load(Relaxed) {
        most = most.max(crate::machine::resident_of(pid)? as i64);
        std::thread::sleep(LOOK);
    }
    Ok(most)
}

/// Accepts any answer, including a refusal for lack of memory.
fn is_answer(reply: Result<Reply<'_>>) -> Result<()> {
    match reply {
        Err(error) if !error.to_string().contains("OOM ") => Err(error),
        _ => Ok(()),
    }
}

/// Writes values up to the limit and beyond.
fn fill(maxmemory: u64, subject: &Subject) -> Result<()> {
    let values = Values::of_version(1);
    let count = values.count((maxmemory as f64 * FILLED) as u64);
    let set = |client: &mut Client, n: u64| values.set(client, n);
    values::by_all(&mut subject.connect_all()?, count, "fill", set, is_answer)
}

const GROWING: [usize; 9] = [50, 200, 700, 1500, 3000, 6000, 12_000, 30_000, 100_000];

fn grow(maxmemory: u64, subject: &Subject) -> Result<Vec<Client>> {
    let mut clients = subject.connect_all()?;
    let value = vec![7; GROWING[GROWING.len() - 1]];
    for len in GROWING {
        let count = maxmemory * 5 / 4 / (len as u64 + 100);
        let set = |client: &mut Client, n: u64| {
            let key = format!("{len}:{n}");
            client.push(&[
                b"SET",
                key.as_bytes(),
                &value[..len - len / 4 + n as usize % (len / 4)],
            ]);
        };
        values::by_all(&mut clients, count, "grow", set, is_answer)?;
    }
    Ok(clients)
}

fn append(maxmemory: u64, subject: &Subject) -> Result<Vec<Client>> {
    let mut clients = subject.connect_all()?;
    let (keys, value) = (maxmemory / 3000, vec![7; 400]);
    let push = |client: &mut Client, n: u64| {
        let mut random = Rng::with_seed(n);
        let key = values::key(random.u64(..keys));
        let len = 50 + random.usize(..350);
        client.push(&[b"APPEND", key.as_bytes(), &value[..len]]);
    };
    values::by_all(&mut clients, maxmemory / 100, "append", push, is_answer)?;
    Ok(clients)
}

fn history(maxmemory: u64, subject: &Subject) -> Result<Vec<Client>> {
    let mut clients = subject.connect_all()?;
    let (keys, value) = (maxmemory / 1000, vec![7; 1000]);
    let push = |client: &mut Client, n: u64| {
        let mut random = Rng::with_seed(n);
        let key = values::key(random.u64(..keys));
        let len = 10 + random.usize(..490);
        client.push(&[b"SET", key.as_bytes(), &value[..len]]);
    };
    values::by_all(&mut clients, maxmemory / 200, "history", push, is_answer)?;
    Ok(clients)
}

/// Opens connections that request messages and never read them, and causes such messages.
fn unread(
    maxmemory: u64,
    subject: &Subject,
    first: &[&[&[u8]]],
    push: fn(&mut Client, u64),
) -> Result<Vec<Client>> {
    fill(maxmemory, subject)?;
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut reader = subject.connect()?;
        first.iter().for_each(|request| reader.push(request));
        reader.flush()?;
        readers.push(reader);
    }
    let mut clients = subject.connect_all()?;
    // Messages to each reader: three times the permitted memory, plus the kernel's buffers.
    let count = (3 * maxmemory + READERS as u64 * (6 << 20)) / READERS as u64 / 1000;
    values::by_all(&mut clients, count, "tell", push, is_answer)?;
    Ok(readers)
}

fn set_one(client: &mut Client, n: u64) {
    client.push(&[b"SET", values::key(n % 1000).as_bytes(), &[7; 1000]]);
}

fn set_long_key(client: &mut Client, n: u64) {
    client.push(&[b"SET", format!("{:0>1000}", n % 1000).as_bytes(), b"value"]);
}

fn publish(client: &mut Client, _: u64) {
    client.push(&[b"PUBLISH", b"c", &[7; 1000]]);
}

fn track(maxmemory: u64, subject: &Subject) -> Result<Vec<Client>> {
    fill(maxmemory, subject)?;
    let mut clients = subject.connect_all()?;
    for client in &mut clients {
        // In RESP2 the connection gets no messages, but the server remembers its reads.
        values::is_ok(client.call(&[b"CLIENT", b"TRACKING", b"ON"]))?;
    }
    let get = |client: &mut Client, n: u64| {
        client.push(&[b"GET", format!("none:{n:0>60}").as_bytes()]);
    };
    values::by_all(&mut clients, maxmemory / 100, "track", get, |reply| reply.map(drop))?;
    Ok(clients)
}

/// A script that allocates as many bytes as its argument says.
const SCRIPT: &[u8] =
    b"local t = {} for i = 1, ARGV[1] / 1000 do t[i] = string.rep('x', 960) .. i end return #t";

fn scripts(maxmemory: u64, subject: &Subject) -> Result<Vec<Client>> {
    fill(maxmemory, subject)?;
    let bytes = (maxmemory / 3).to_string();
    let eval = |client: &mut Client, _| {
        client.push(&[b"EVAL", SCRIPT, b"0", bytes.as_bytes()]);
    };
    let see = |reply: Result<Reply<'_>>| match reply {
        Err(error) if !error.to_string().contains("memory") => Err(error),
        _ => Ok(()),
    };
    let mut clients = subject.connect_all()?;
    values::by_all(&mut clients, 20, "run scripts", eval, see)?;
    Ok(clients)
}

fn names(maxmemory: u64, subject: &Subject) -> Result<Vec<Client>> {
    const CLIENTS: usize = 12;
    // Each name is in two lists; together they take about an eighth of the limit, and the requests and replies
    // half as much.
    let each = maxmemory as usize / 8 / CLIENTS / (2 * NAME_LEN + 160);
    let watched = (each / 3).min(900);
    fill(maxmemory, subject)?;
    let mut clients = Vec::new();
    for c in 0..CLIENTS {
        let mut client = subject.connect()?;
        let names: Vec<String> = (0..each).map(|n| format!("{c}:{n:0>NAME_LEN$}")).collect();
        for (command, names) in [("WATCH", &names[..watched]), ("SUBSCRIBE", &names[..])] {
            client.begin(names.len() + 1);
            client.arg(command.as_bytes());
            names.iter().for_each(|name| client.arg(name.as_bytes()));
        }
        client.flush()?;
        // The server may have closed a connection that takes too much.
        if is_answer(client.reply()).is_ok() {
            clients.push(client);
        }
    }
    ensure!(!clients.is_empty(), "no connection was answered");
    Ok(clients)
}
