//! What a message to many subscribers costs, and for how long a clear of all keys keeps other clients waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::figures::{Figures, Row};
use super::side::Side;
use super::{ContainersArgs, SERVERS, TIME, requests};
use crate::durability::server_name;
use crate::report;
use crate::resp::{Client, Reply};
use crate::servers::CpuTime;

const SUBSCRIBERS: u64 = 100;
/// A message is as much work as this many requests.
const SHARE: u64 = 50;
const MESSAGE: &[u8] = &[b'm'; 32];
const CHANNEL: &[u8] = b"channel";

/// The forms of a clear.
const CLEARS: [&[&[u8]]; 2] = [&[b"FLUSHALL", b"SYNC"], &[b"FLUSHALL", b"ASYNC"]];
/// Time before and after a clear in which the other client asks.
const AROUND: Duration = Duration::from_millis(200);

pub fn messages(args: &ContainersArgs) -> Result<Vec<Row>> {
    let mut sides = Vec::new();
    for kind in SERVERS {
        let side = Side::start(&args.testbed, args.setup(kind, None, 1), 1)?;
        let subscribers = (0..SUBSCRIBERS).map(|_| subscribe(&side)).collect::<Result<Vec<_>>>()?;
        sides.push((side, subscribers));
    }
    let mut figures = Figures::new("no log, P=1");
    let bar = report::progress(args.rounds() as u64, "messages");
    let n = (args.requests() / SHARE).max(1);
    for round in 0..args.rounds() {
        for turn in 0..SERVERS.len() {
            let (side, subscribers) = &mut sides[(round + turn) % SERVERS.len()];
            publish(side, subscribers, n.div_ceil(8))?;
            let before = CpuTime::of(side.pid())?;
            publish(side, subscribers, n)?;
            let cpu = CpuTime::of(side.pid())?.since(&before).as_nanos() as f64 / n as f64;
            let case = format!("PUBLISH to {SUBSCRIBERS} clients");
            figures.add(&case, TIME, server_name(side.kind), cpu);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(figures.rows())
}

fn subscribe(side: &Side) -> Result<Client> {
    let mut client = side.connect()?;
    client.push(&[b"SUBSCRIBE", CHANNEL]);
    client.flush()?;
    take(&mut client, CHANNEL)?;
    Ok(client)
}

/// Reads a message, which has three parts, the second of which is the channel.
fn take(client: &mut Client, channel: &[u8]) -> Result<()> {
    ensure!(client.reply()? == Reply::Array(3), "a message has three parts");
    client.reply()?;
    ensure!(client.reply()? == Reply::Bulk(Some(channel)), "a message of another channel");
    client.reply()?;
    Ok(())
}

fn publish(side: &mut Side, subscribers: &mut [Client], n: u64) -> Result<()> {
    for _ in 0..n {
        let got = side.client().call(&[b"PUBLISH", CHANNEL, MESSAGE])?;
        ensure!(got == Reply::Integer(SUBSCRIBERS.cast_signed()), "PUBLISH answers {got:?}");
        subscribers.iter_mut().try_for_each(|client| take(client, CHANNEL))?;
    }
    Ok(())
}

pub fn clears(args: &ContainersArgs) -> Result<Vec<Row>> {
    let start = |kind| Side::start(&args.testbed, args.setup(kind, None, 1), 1);
    let mut sides = SERVERS.map(start).into_iter().collect::<Result<Vec<_>>>()?;
    let mut figures = Figures::new("no log, P=1");
    let bar = report::progress((args.rounds() * CLEARS.len()) as u64, "clears");
    for round in 0..args.rounds() {
        for clear in CLEARS {
            for turn in 0..SERVERS.len() {
                let side = &mut sides[(round + turn) % SERVERS.len()];
                requests::fill(side.client(), args.members)?;
                let pause = pause(side, clear)?.as_secs_f64() * 1e3;
                let name = String::from_utf8_lossy(&clear.join(&b' ')).into_owned();
                let case = format!("{name} of {} keys", args.members);
                figures.add(&case, "ms that another client waits", server_name(side.kind), pause);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(figures.rows())
}

/// The longest time that a client without interest in keys waits for an answer around a clear.
fn pause(side: &mut Side, clear: &[&[u8]]) -> Result<Duration> {
    let mut other = side.connect()?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| -> Result<Duration> {
            let mut longest = Duration::ZERO;
            // ORDERING: Relaxed, as nothing else is read by it.
            while !is_over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                other.call(&[b"PING"])?;
                longest = longest.max(asked.elapsed());
            }
            Ok(longest)
        });
        std::thread::sleep(AROUND);
        let cleared = side.client().call(clear).map(drop);
        std::thread::sleep(AROUND);
        is_over.store(true, Ordering::Relaxed);
        let longest = asking.join().ok().context("the other client has panicked")?;
        cleared.and(longest)
    })
}
