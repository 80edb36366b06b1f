//! Requests at a fixed rate to the nodes of a cluster, each sent to the node that owns its key.
//!
//! One thread sends, reads and follows redirections. It must not sleep, as its wake-up would count as latency.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use fastrand::Rng;
use hdrhistogram::Histogram;
use hotring_cluster::{SLOTS, slot_of};
use hotring_protocol::{Part, ReplyLimits, find_part};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::address::{Endpoint, Stream};
use crate::measure::latency;

/// A key: a word and a number.
pub type Key = [u8; 16];

/// The digits at the beginning of a value: the number of its write.
pub const NUMBER_LEN: usize = 16;

/// Requests in flight on a connection; further ones wait here, and their latency counts.
const DEPTH: usize = 1_024;

/// The pause before a request is sent again that the cluster cannot serve at that moment.
const REST: Duration = Duration::from_millis(1);

/// The longest silence while answers are due.
const SILENCE_MAX: Duration = Duration::from_secs(30);

const EVENTS: usize = 64;
const READ_LEN: usize = 64 << 10;
const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The key of a number.
pub fn key(number: u64) -> Key {
    let mut key = *b"key:000000000000";
    write!(&mut key[4..], "{number:012}").expect("twelve digits");
    key
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    Writes,
    Half,
    Reads,
}

/// What a stream does in a window.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Requests per second.
    pub rate: f64,
    pub mix: Mix,
    /// The most requests.
    pub total: u64,
}

/// What a stream has met in a window.
pub struct Seen {
    /// Nanoseconds from the due time to the answer, refusals and redirections included.
    pub latency: Histogram<u64>,
    /// From the beginning to the last answer.
    pub took: Duration,
    /// The first redirection, and to which node.
    pub redirected: Option<(Instant, usize)>,
}

#[derive(Clone, Copy)]
struct Request {
    stream: usize,
    key: usize,
    /// The number of the write; None reads.
    write: Option<u64>,
    due: Instant,
}

/// A connection with its requests in flight.
struct Wire {
    stream: Stream,
    sent: VecDeque<Request>,
    output: Vec<u8>,
    written: usize,
    input: Vec<u8>,
}

/// The keys of a stream.
struct Stock {
    keys: Vec<Key>,
    /// The write of each key that was acknowledged last.
    last: Vec<u64>,
    /// Whether a key has a request without an answer. A further one waits, so that it is known what a read must show.
    busy: Vec<bool>,
    /// Requests that were made.
    made: u64,
}

/// The connections of two streams to all nodes.
pub struct Loader {
    nodes: Vec<String>,
    /// The node of each slot, as far as is known.
    owners: Vec<usize>,
    wires: Vec<Wire>,
    connections: usize,
    epoll: OwnedFd,
    stocks: [Stock; 2],
    value_len: usize,
    writes: u64,
    later: VecDeque<(Instant, Request)>,
}

impl Loader {
    /// Opens connections of each stream to each node.
    pub fn open(
        nodes: Vec<String>,
        keys: [Vec<Key>; 2],
        value_len: usize,
        connections: usize,
    ) -> Result<Loader> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context("cannot wait for sockets")?;
        let mut wires = Vec::new();
        for node in nodes.iter().flat_map(|node| std::iter::repeat_n(node, 2 * connections)) {
            let stream = Endpoint::Tcp(node.clone()).connect()?;
            if let Stream::Tcp(stream) = &stream {
                stream.set_nonblocking(true)?;
            }
            let number = EventData::new_u64(wires.len() as u64);
            epoll::add(&epoll, &stream, number, EventFlags::IN)?;
            let (sent, output, input) = Default::default();
            wires.push(Wire { stream, sent, output, written: 0, input });
        }
        let mut order = Rng::with_seed(1);
        let stocks = keys.map(|mut keys| {
            // Neighbours in time are no neighbours by number.
            order.shuffle(&mut keys);
            let n = keys.len();
            Stock { keys, last: vec![0; n], busy: vec![false; n], made: 0 }
        });
        let (owners, later) = (vec![0; usize::from(SLOTS)], VecDeque::new());
        Ok(Loader { nodes, owners, wires, connections, epoll, stocks, value_len, writes: 0, later })
    }

    /// Writes or reads every key once, as fast as the servers can. A read must show the write that was acknowledged
    /// last.
    pub fn all(&mut self, mix: Mix) -> Result<()> {
        let work = [0, 1].map(|stream: usize| {
            let total = self.stocks[stream].keys.len() as u64;
            Work { rate: f64::INFINITY, mix, total }
        });
        self.run(&work, &AtomicBool::new(false)).map(drop)
    }

    /// The first slots belong to this node. Those without a request since they moved would be redirected later.
    pub fn note_owner(&mut self, slots: u16, node: usize) {
        self.owners[..usize::from(slots)].fill(node);
    }

    /// Sends requests at their times until the flag is set, and waits for all answers.
    pub fn run(&mut self, work: &[Work; 2], stop: &AtomicBool) -> Result<[Seen; 2]> {
        let start = Instant::now();
        let mut window = Window::new(*work, start);
        let mut events = Vec::with_capacity(EVENTS);
        let mut heard = start;
        loop {
            // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
            if stop.load(Relaxed) {
                window.end(Instant::now());
            }
            self.send_due(&mut window)?;
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&NO_WAIT)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(why) => return Err(why).context("cannot wait for sockets"),
            }
            for event in &events {
                let &Event { data, .. } = event;
                self.receive(data.u64() as usize, &mut window)?;
                heard = Instant::now();
            }
            let is_idle =
                self.later.is_empty() && self.wires.iter().all(|wire| wire.sent.is_empty());
            if is_idle && window.is_over() {
                return Ok(window.seen);
            }
            if is_idle {
                heard = Instant::now();
            }
            ensure!(heard.elapsed() < SILENCE_MAX, "no answer for {SILENCE_MAX:?}");
        }
    }

    fn send_due(&mut self, window: &mut Window) -> Result<()> {
        let now = Instant::now();
        while let Some((_, request)) = self.later.pop_front_if(|(when, _)| *when <= now) {
            self.send(request);
        }
        for stream in 0..window.works.len() {
            while window.is_due(stream, now) {
                let stock = &self.stocks[stream];
                let key = (stock.made % stock.keys.len() as u64) as usize;
                if stock.busy[key] || self.wires[self.wire_of(stream, key)].sent.len() >= DEPTH {
                    break;
                }
                let due = window.due(stream);
                let write = window.make(stream).then(|| {
                    self.writes += 1;
                    self.writes
                });
                let stock = &mut self.stocks[stream];
                stock.made += 1;
                stock.busy[key] = true;
                self.send(Request { stream, key, write, due });
            }
        }
        self.wires.iter_mut().try_for_each(Wire::write)
    }

    /// The connection for a key. Requests for one key always use the same one, and so keep their order.
    fn wire_of(&self, stream: usize, key: usize) -> usize {
        let node = self.owners[usize::from(slot_of(&self.stocks[stream].keys[key]))];
        (2 * node + stream) * self.connections + key % self.connections
    }

    fn send(&mut self, request: Request) {
        let wire = self.wire_of(request.stream, request.key);
        let key = &self.stocks[request.stream].keys[request.key];
        let wire = &mut self.wires[wire];
        put(&mut wire.output, key, request.write, self.value_len);
        wire.sent.push_back(request);
    }

    /// Reads once, and handles all replies that have come.
    fn receive(&mut self, at: usize, window: &mut Window) -> Result<()> {
        let wire = &mut self.wires[at];
        let before = wire.input.len();
        wire.input.resize(before + READ_LEN, 0);
        let read = match wire.stream.read(&mut wire.input[before..]) {
            Ok(0) => bail!("a server closed the connection"),
            Ok(read) => read,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(why) => return Err(why).context("cannot read replies"),
        };
        wire.input.truncate(before + read);
        let input = std::mem::take(&mut wire.input);
        let mut used = 0;
        while let Some((part, len)) = find_part(&input[used..], &ReplyLimits::default())? {
            let request = self.wires[at].sent.pop_front();
            let request = request.context("a server sends more than was asked for")?;
            self.take(request, part.of(&input[used..used + len]), window)?;
            used += len;
        }
        self.wires[at].input = input[used..].to_vec();
        Ok(())
    }

    fn take(&mut self, request: Request, reply: Part<&[u8]>, window: &mut Window) -> Result<()> {
        let now = Instant::now();
        let stock = &mut self.stocks[request.stream];
        match (reply, request.write) {
            (Part::Simple(b"OK"), Some(write)) => {
                stock.last[request.key] = write;
            }
            (Part::Bulk(value), None) => {
                let number = value.get(..NUMBER_LEN).and_then(|digits| str::from_utf8(digits).ok());
                let number = number.and_then(|digits| digits.parse().ok());
                let last = stock.last[request.key];
                let key = stock.keys[request.key].escape_ascii();
                ensure!(
                    number == Some(last),
                    "{key} has write {number:?}, and {last} was acknowledged last"
                );
            }
            (Part::Error(why), _) => {
                return self.heed(request, &String::from_utf8_lossy(why), window);
            }
            (other, _) => bail!("a server answers {other:?}"),
        }
        stock.busy[request.key] = false;
        window.note(request, now);
        Ok(())
    }

    /// Does what a refusal says.
    fn heed(&mut self, request: Request, why: &str, window: &mut Window) -> Result<()> {
        let moved = why.strip_prefix("MOVED ").and_then(|rest| rest.split_once(' '));
        if let Some((slot, address)) = moved {
            let node = self.nodes.iter().position(|node| node == address);
            let node = node.with_context(|| format!("redirected to {address}"))?;
            self.owners[slot.parse::<usize>()?] = node;
            window.seen[request.stream].redirected.get_or_insert_with(|| (Instant::now(), node));
            self.send(request);
            return Ok(());
        }
        let may_pass = ["TRYAGAIN", "CLUSTERDOWN", "LOADING"];
        ensure!(may_pass.iter().any(|word| why.starts_with(word)), "a server answers {why}");
        self.later.push_back((Instant::now() + REST, request));
        Ok(())
    }
}

impl Wire {
    /// Sends what the socket takes.
    fn write(&mut self) -> Result<()> {
        while self.written < self.output.len() {
            match self.stream.write(&self.output[self.written..]) {
                Ok(0) => bail!("a server takes no more requests"),
                Ok(written) => self.written += written,
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why).context("cannot send requests"),
            }
        }
        self.output.clear();
        self.written = 0;
        Ok(())
    }
}

/// A window of time, with the requests that both streams have made in it.
struct Window {
    works: [Work; 2],
    start: Instant,
    made: [u64; 2],
    seen: [Seen; 2],
}

impl Window {
    fn new(works: [Work; 2], start: Instant) -> Window {
        let seen = || Seen { latency: latency::none(), took: Duration::ZERO, redirected: None };
        Window { works, start, made: [0; 2], seen: [seen(), seen()] }
    }

    /// When the next request of a stream is due.
    fn due(&self, stream: usize) -> Instant {
        self.start + Duration::from_secs_f64(self.made[stream] as f64 / self.works[stream].rate)
    }

    fn is_due(&self, stream: usize, now: Instant) -> bool {
        self.made[stream] < self.works[stream].total && self.due(stream) <= now
    }

    /// Makes the next request of a stream; whether it writes.
    fn make(&mut self, stream: usize) -> bool {
        self.made[stream] += 1;
        match self.works[stream].mix {
            Mix::Writes => true,
            Mix::Half => self.made[stream].is_multiple_of(2),
            Mix::Reads => false,
        }
    }

    /// Nothing is due any more, but what was due before `at`.
    fn end(&mut self, at: Instant) {
        let elapsed = (at - self.start).as_secs_f64();
        for (work, made) in self.works.iter_mut().zip(self.made) {
            work.total = work.total.min(((elapsed * work.rate) as u64).max(made));
        }
    }

    fn is_over(&self) -> bool {
        self.made.iter().zip(&self.works).all(|(made, work)| *made >= work.total)
    }

    fn note(&mut self, request: Request, now: Instant) {
        let seen = &mut self.seen[request.stream];
        let taken = now.saturating_duration_since(request.due).as_nanos() as u64;
        seen.latency.saturating_record(taken.max(1));
        seen.took = now - self.start;
    }
}

/// Appends a request.
fn put(output: &mut Vec<u8>, key: &Key, write: Option<u64>, value_len: usize) {
    output.extend_from_slice(if write.is_some() {
        b"*3\r\n$3\r\nSET\r\n$16\r\n"
    } else {
        b"*2\r\n$3\r\nGET\r\n$16\r\n"
    });
    output.extend_from_slice(key);
    output.extend_from_slice(b"\r\n");
    if let Some(number) = write {
        write!(output, "${value_len}\r\n{number:0len$}", len = NUMBER_LEN)
            .expect("a Vec takes every write");
        output.resize(output.len() + value_len - NUMBER_LEN, b'v');
        output.extend_from_slice(b"\r\n");
    }
}
