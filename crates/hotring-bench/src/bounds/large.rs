//! `large`: one connection stores, reads, overwrites and removes one very long value, on the only thread of a
//! server. Meanwhile another connection of that thread keeps sending short requests, and records its longest wait
//! during each request. The memory of a request is the peak of the process.

use std::io::{BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;

use super::measure::{Measure, mib};
use super::subject::Subject;
use super::{BoundsArgs, Scenario};
use crate::address::Stream;
use crate::resp::{Client, Reply};

/// The value repeats a piece of this length.
const PIECE: usize = 64 << 10;
/// Pause between two requests of the other connection, so that it measures waits and not its own load.
const PAUSE: Duration = Duration::from_micros(200);
/// Time after a reply that still counts as part of the request: its aftermath may delay other connections.
const AFTER: Duration = Duration::from_millis(500);
const KEY: &str = "large";
const SMALL: (&[u8], &[u8]) = (b"small", b"a value of 32 bytes, as many are");
const THREADS: usize = 1;

pub fn measure(args: &BoundsArgs) -> Result<Vec<Measure>> {
    let subject = args.start(THREADS)?;
    let mut large = Large::connect(&subject, args.value)?;
    let mut other = subject.connect()?;
    other.call(&[b"SET", SMALL.0, SMALL.1])?;
    let longest = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| ask(&mut other, &longest, &stop));
        let measured = phases(&subject, &mut large, &longest);
        // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
        stop.store(true, Relaxed);
        asking.join().expect("the asking thread panicked")?;
        measured
    })
}

/// A request, as a row of the table.
type Phase = (&'static str, fn(&mut Large) -> Result<()>);

/// The requests, in this order because each needs the result of the one before.
const PHASES: [Phase; 8] = [
    ("nothing", |_| Ok(())),
    ("SET", Large::set),
    ("GET", Large::get),
    ("SET, overwriting", Large::set),
    ("DEL", |large| large.remove("DEL")),
    ("SET again", Large::set),
    ("UNLINK", |large| large.remove("UNLINK")),
    ("nothing, afterwards", |_| Ok(())),
];

fn phases(subject: &Subject, large: &mut Large, longest: &AtomicU64) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    let length = large.length as f64;
    for (name, request) in PHASES {
        subject.reset_peak()?;
        let before = subject.resident()?;
        // ORDERING: Relaxed, one wait more or less does not change the result.
        longest.store(0, Relaxed);
        let begun = Instant::now();
        request(large).with_context(|| format!("{name} of {} bytes", large.length))?;
        let took = begun.elapsed();
        std::thread::sleep(AFTER);
        // ORDERING: Relaxed, the counter stands alone and publishes no other data.
        let waited = Duration::from_nanos(longest.load(Relaxed));
        let (peak, after) = (subject.peak()? - before, subject.resident()? - before);
        let of = |figure, value| Measure::new(Scenario::Large, name, figure, value);
        measures.extend([
            of("took ms", took.as_secs_f64() * 1e3),
            of("longest answer to others ms", waited.as_secs_f64() * 1e3),
            of("peak more MiB", mib(peak)),
            of("peak more, of the value", peak as f64 / length),
            of("afterwards more, of the value", after as f64 / length),
        ]);
    }
    Ok(measures)
}

/// Sends PING and GET in turn until `stop`, and records the longest wait in nanoseconds.
fn ask(client: &mut Client, longest: &AtomicU64, stop: &AtomicBool) -> Result<()> {
    // ORDERING: Relaxed, for the reason at the store of `stop`.
    while !stop.load(Relaxed) {
        for (request, answer) in [
            (&[&b"PING"[..]][..], Reply::Simple("PONG")),
            (&[b"GET", SMALL.0], Reply::Bulk(Some(SMALL.1))),
        ] {
            let begun = Instant::now();
            let right = client.call(request)? == answer;
            // ORDERING: Relaxed, the counter stands alone and publishes no other data.
            longest.fetch_max(begun.elapsed().as_nanos() as u64, Relaxed);
            ensure!(right, "a wrong answer");
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// The connection of the long value. This process never holds the entire value.
struct Large {
    stream: BufReader<Stream>,
    length: u64,
    piece: Vec<u8>,
    read: Vec<u8>,
}

impl Large {
    fn connect(subject: &Subject, length: u64) -> Result<Self> {
        let mut random = Rng::with_seed(1);
        let bytes = std::iter::repeat_with(|| random.u64(..).to_le_bytes()).flatten();
        Ok(Large {
            stream: BufReader::new(subject.connect()?.into_stream()),
            length,
            piece: bytes.take(PIECE).collect(),
            read: vec![0; PIECE],
        })
    }

    fn set(&mut self) -> Result<()> {
        let (key, len) = (KEY, KEY.len());
        let head = format!("*3\r\n$3\r\nSET\r\n${len}\r\n{key}\r\n${}\r\n", self.length);
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        let mut left = self.length as usize;
        while left > 0 {
            let now = left.min(PIECE);
            stream.write_all(&self.piece[..now])?;
            left -= now;
        }
        stream.write_all(b"\r\n")?;
        self.expect("+OK")
    }

    fn get(&mut self) -> Result<()> {
        self.send(&["GET", KEY])?;
        self.expect(&format!("${}", self.length))?;
        let mut left = self.length as usize;
        while left > 0 {
            let now = left.min(PIECE);
            self.stream.read_exact(&mut self.read[..now])?;
            ensure!(self.read[..now] == self.piece[..now], "GET answers another value");
            left -= now;
        }
        self.expect("")
    }

    fn remove(&mut self, command: &str) -> Result<()> {
        self.send(&[command, KEY])?;
        self.expect(":1")
    }

    fn send(&mut self, words: &[&str]) -> Result<()> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|w| request.push_str(&format!("${}\r\n{w}\r\n", w.len())));
        Ok(self.stream.get_mut().write_all(request.as_bytes())?)
    }

    /// Reads a line, which must equal `wanted`.
    fn expect(&mut self, wanted: &str) -> Result<()> {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.stream.read_exact(&mut byte).context("the server does not answer")?;
            line.push(byte[0]);
        }
        let right = line.strip_suffix(b"\r\n") == Some(wanted.as_bytes());
        ensure!(right, "the server answers \"{}\"", line.escape_ascii());
        Ok(())
    }
}
