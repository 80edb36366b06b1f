//! `expiry`: measures how late a server removes expired keys, and reports their expiry, under load.
//!
//! Keys are loaded with evenly spread expiry times. While they expire, connections store one new key for each
//! expired one and read other keys as fast as they can. One connection listens to the expiry events: the name of
//! a key contains its due time, so that each event tells its own lateness. All clocks are those of one machine.

use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fastrand::Rng;

use crate::address::Address;
use crate::machine::Machine;
use crate::measure::latency::{self, Latencies};
use crate::report::{self, Strides, Table};
use crate::resp::{Client, Reply, info_field};

/// Measure the delay between a key's expiry and its removal by a server under load
#[derive(Debug, Args)]
pub struct ExpiryArgs {
    /// The server, which must be empty
    #[arg(long)]
    target: Address,
    /// Number of keys with an expiry at any moment
    #[arg(long, value_parser = crate::count::count, default_value = "1M")]
    keys: u64,
    /// Maximum time to live of a key, in seconds
    #[arg(long, default_value_t = 60)]
    spread: u64,
    /// Seconds to measure
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Connections that read and write during the measurement
    #[arg(long, default_value_t = 2)]
    connections: u64,
}

/// Requests in flight on a connection during the measurement.
const WINDOW: u64 = 16;
/// Requests in flight on a connection during the load.
const LOAD_WINDOW: u64 = 512;
/// The number of keys that are read and do not expire.
const READ: u64 = 10_000;
/// Milliseconds before the first key is due. The load must be over by then.
const LOAD_MAX: u64 = 20_000;
/// The prefix of keys that expire, followed by their due time.
const NAME: &str = "due:";
const VALUE: &[u8] = b"a value of 32 bytes, as many are";
const CHANNEL: &[u8] = b"__keyevent@0__:expired";

impl ExpiryArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(
            self.spread > 0 && self.keys < 1 << 32,
            "--spread must be at least 1, and --keys at most 2^32"
        );
        let mut control = Client::connect(&self.target)?;
        let held = match control.call(&[b"DBSIZE"])? {
            Reply::Integer(held) => held,
            other => bail!("DBSIZE answers {other:?}"),
        };
        ensure!(held == 0, "the server holds {held} keys: empty it");
        control.call(&[b"CONFIG", b"SET", b"notify-keyspace-events", b"Ex"])?;
        self.load(&mut control)?;
        control.call(&[b"CONFIG", b"RESETSTAT"])?;
        let (delays, requests, expiring) = self.measure(&mut control)?;
        let info = control.info("stats")?;
        print!("{}", Machine::here());
        println!("keys that were going to expire: {} to {}", expiring.0, expiring.1);
        println!("requests a second: {:.0}", requests as f64 / self.seconds as f64);
        println!("events: {}", delays.len());
        let mut table = Table::new(&["lateness in ms", "p50", "p99", "max"]);
        let ms = |q| format!("{:.3}", delays.value_at_quantile(q) as f64 / 1e6);
        table.row(vec!["as told".to_owned(), ms(0.5), ms(0.99), ms(1.0)]);
        let fields = ["p50", "p99", "max"].map(|name| {
            let value = info_field::<f64>(&info, &format!("expired_lag_{name}_ms"));
            value.map_or("-".to_owned(), |value| format!("{value:.3}"))
        });
        table.row(std::iter::once("by the server's INFO".to_owned()).chain(fields).collect());
        print!("{}", table.render());
        Ok(())
    }

    /// Stores the keys that expire, spread as in a steady state, and the keys that are read.
    fn load(&self, control: &mut Client) -> Result<()> {
        let bar = report::progress(self.keys, "load");
        let mut strides = Strides::on(&bar);
        let mut random = Rng::with_seed(1);
        let begun = unix_ms();
        for first in (0..READ + self.keys).step_by(LOAD_WINDOW as usize) {
            let window = first..(first + LOAD_WINDOW).min(READ + self.keys);
            for number in window.clone() {
                if number < READ {
                    control.push(&[b"SET", read_key(number).as_bytes(), VALUE]);
                } else {
                    push_expiring(control, number, begun + LOAD_MAX + self.age(&mut random));
                }
            }
            control.flush()?;
            for _ in window {
                control.reply()?;
                strides.add(1);
            }
        }
        bar.finish_and_clear();
        ensure!(unix_ms() < begun + LOAD_MAX, "the keys took longer to load than they live");
        std::thread::sleep(Duration::from_millis((begun + LOAD_MAX).saturating_sub(unix_ms())));
        Ok(())
    }

    fn age(&self, random: &mut Rng) -> u64 {
        random.u64(..self.spread * 1_000)
    }

    /// Gives the lateness of the events, the number of answered requests, and the least and most keys waiting to
    /// expire.
    fn measure(&self, control: &mut Client) -> Result<(Latencies, u64, (u64, u64))> {
        let (stop, requests) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let (stop, requests) = (&stop, &requests);
            let listener = Listener::connect(&self.target)?;
            let delays = scope.spawn(move || listener.listen(stop));
            let workers: Vec<_> = (0..self.connections)
                .map(|number| {
                    scope.spawn(move || {
                        let done = self.work(number, stop)?;
                        // ORDERING: Relaxed, the sum is read only after the threads have been joined.
                        requests.fetch_add(done, Ordering::Relaxed);
                        anyhow::Ok(())
                    })
                })
                .collect();
            let (mut least, mut most) = (u64::MAX, 0);
            for _ in 0..self.seconds {
                std::thread::sleep(Duration::from_secs(1));
                let info = control.info("keyspace")?;
                let expires = info.split("expires=").nth(1).and_then(|rest| rest.split(',').next());
                let expires = expires.and_then(|text| text.parse().ok());
                let expires: u64 = expires.context("INFO tells no number of keys that expire")?;
                (least, most) = (least.min(expires), most.max(expires));
            }
            // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
            stop.store(true, Ordering::Relaxed);
            for worker in workers {
                worker.join().expect("a connection's thread panicked")?;
            }
            let delays = delays.join().expect("the listening thread panicked")?;
            // ORDERING: Relaxed, the threads have been joined, which orders their additions before this read.
            Ok((delays, requests.load(Ordering::Relaxed), (least, most)))
        })
    }

    /// Runs one connection: stores its share of the keys that replace expired ones, and reads other keys.
    fn work(&self, connection: u64, stop: &AtomicBool) -> Result<u64> {
        let mut client = Client::connect(&self.target)?;
        let mut random = Rng::with_seed(connection + 2);
        let begun = Instant::now();
        let per_second = self.keys as f64 / self.spread as f64 / self.connections as f64;
        let (mut stored, mut done) = (0, 0);
        // ORDERING: Relaxed, for the reason at the store of `stop`.
        while !stop.load(Ordering::Relaxed) {
            let due = (begun.elapsed().as_secs_f64() * per_second) as u64 - stored;
            for i in 0..WINDOW {
                if i < due {
                    stored += 1;
                    let number = self.keys * (connection + 2) + stored;
                    // Replaces a key that has expired by this time. The new key gets the latest due time.
                    push_expiring(&mut client, number, unix_ms() + self.spread * 1_000);
                } else {
                    client.push(&[b"GET", read_key(random.u64(..READ)).as_bytes()]);
                }
            }
            client.flush()?;
            for _ in 0..WINDOW {
                client.reply()?;
            }
            done += WINDOW;
        }
        Ok(done)
    }
}

fn read_key(number: u64) -> String {
    format!("read:{number}")
}

fn push_expiring(client: &mut Client, number: u64, due: u64) {
    let (key, due) = (format!("{NAME}{due}:{number}"), due.to_string());
    client.push(&[b"SET", key.as_bytes(), VALUE, b"PXAT", due.as_bytes()]);
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn unix_ms() -> u64 {
    since_epoch().as_millis() as u64
}

/// A connection that receives expiry events.
struct Listener(BufReader<crate::address::Stream>);

impl Listener {
    fn connect(target: &Address) -> Result<Self> {
        let mut client = Client::connect(target)?;
        client.push(&[b"SUBSCRIBE", CHANNEL]);
        client.flush()?;
        Ok(Listener(BufReader::new(client.into_stream())))
    }

    /// Reads events until `stop`, which it checks with each event.
    fn listen(mut self, stop: &AtomicBool) -> Result<Latencies> {
        let (mut late, mut line) = (latency::none(), String::new());
        // ORDERING: Relaxed, for the reason at the store of `stop`.
        while !stop.load(Ordering::Relaxed) {
            line.clear();
            ensure!(self.0.read_line(&mut line)? > 0, "the server closed the connection");
            // Only the line with the key matters.
            let Some(rest) = line.strip_prefix(NAME) else { continue };
            let due = rest.split(':').next().and_then(|due| due.parse().ok());
            let due: u64 = due.with_context(|| format!("an event of {line:?}"))?;
            let lateness = since_epoch().saturating_sub(Duration::from_millis(due));
            late.saturating_record((lateness.as_nanos() as u64).max(1));
        }
        Ok(late)
    }
}
