//! Clients that follow the role, and record what they sent and got.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::Scope;
use std::time::{Duration, Instant};

use fastrand::Rng;
use hotring_protocol::{Reply, ReplyLimits, ReplyReader};

use super::register::{Event, Op, Out, Stale, check};
use crate::search::NEVER;

/// Clients of a pair.
const CLIENTS: u64 = 6;
/// Keys that are in use at the same time.
const KEYS: u64 = 3;
/// Requests on one key.
const OPS_A_KEY: u64 = 40;
/// Requests without an answer on one key, more or less: each of them doubles the orders that are possible.
const OPEN_A_KEY: usize = 5;
/// After this the answer is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after a refusal.
const PAUSE: Duration = Duration::from_millis(3);

/// The number of the next key of this process.
static NEXT_KEY: AtomicU64 = AtomicU64::new(0);

trait Stream: Read + Write + Send {}

impl<S: Read + Write + Send> Stream for S {}

/// A connection.
pub struct Wire {
    stream: Box<dyn Stream>,
    replies: ReplyReader,
}

impl Wire {
    pub fn connect(address: &str) -> io::Result<Wire> {
        Wire::over(TcpStream::connect(address)?)
    }

    /// Uses a connection that is there.
    pub fn over(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Wire::new(stream))
    }

    /// Connects to a unix socket.
    pub fn unix(path: &Path) -> io::Result<Wire> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Wire::new(stream))
    }

    fn new(stream: impl Stream + 'static) -> Wire {
        let replies = ReplyReader::new(ReplyLimits::default());
        Wire { stream: Box::new(stream), replies }
    }

    pub fn send(&mut self, lines: &str) -> io::Result<()> {
        self.stream.write_all(lines.as_bytes())
    }

    pub fn reply(&mut self) -> io::Result<Reply> {
        let mut chunk = [0; 16 << 10];
        loop {
            let next = self.replies.next_reply();
            if let Some(reply) = next.map_err(|error| io::Error::other(format!("{error:?}")))? {
                return Ok(reply);
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => self.replies.push(&chunk[..len]),
            }
        }
    }

    pub fn say(&mut self, line: &str) -> io::Result<Reply> {
        self.send(&format!("{line}\r\n"))?;
        self.reply()
    }
}

/// How a request ended.
enum End {
    Answered(Out),
    /// It has surely not been done.
    Refused,
    /// It may have been done, or be done yet.
    Open,
}

/// The clients of one pair, for some time.
pub struct Load {
    addresses: [String; 2],
    /// Whether what answers there is the primary, or passes requests on to it.
    always_leads: bool,
    started: Instant,
    stops: AtomicBool,
    first_key: u64,
    tickets: AtomicU64,
    /// The last value that anyone saw in each of the keys in use.
    seen: [AtomicU64; KEYS as usize],
    histories: Mutex<BTreeMap<u64, Vec<Event>>>,
    stale: Mutex<Vec<Stale>>,
    answered: AtomicU64,
}

/// What a check has seen, to be printed.
#[derive(Debug)]
#[expect(dead_code, reason = "printed")]
pub struct Checked {
    keys: usize,
    events: usize,
    open: usize,
}

impl Load {
    pub fn new(addresses: [String; 2]) -> Load {
        Load {
            addresses,
            always_leads: false,
            started: Instant::now(),
            stops: AtomicBool::new(false),
            first_key: NEXT_KEY.fetch_add(1 << 32, Relaxed),
            tickets: AtomicU64::new(0),
            seen: Default::default(),
            histories: Mutex::default(),
            stale: Mutex::default(),
            answered: AtomicU64::new(0),
        }
    }

    /// The same, of which both addresses always serve what is acknowledged.
    pub fn of_proxies(addresses: [String; 2]) -> Load {
        Load { always_leads: true, ..Load::new(addresses) }
    }

    /// Runs `fault` beside the clients.
    pub fn beside<R>(&self, seed: u64, fault: impl FnOnce() -> R) -> R {
        std::thread::scope(|scope: &Scope<'_, '_>| {
            for n in 0..CLIENTS {
                scope.spawn(move || self.run(Rng::with_seed(seed * CLIENTS + n)));
            }
            let _stopping = Stopping(&self.stops);
            fault()
        })
    }

    /// The number of writes that were acknowledged so far.
    pub fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }

    /// Notes that meanwhile a server may answer reads that does not know that it was replaced.
    pub fn with_stale_reads<R>(&self, work: impl FnOnce() -> R) -> R {
        let begin = self.now();
        let result = work();
        self.stale.lock().unwrap().push((begin, self.now()));
        result
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn run(&self, mut random: Rng) {
        let (mut at, mut wire) = (0, None);
        let mut ticket = self.tickets.fetch_add(1, Relaxed);
        while !self.stops.load(Relaxed) {
            let Some(open) = &mut wire else {
                wire = Wire::connect(&self.addresses[at]).ok();
                if wire.is_none() {
                    at = 1 - at;
                    std::thread::sleep(PAUSE);
                }
                continue;
            };
            let key = self.first_key + ticket / (KEYS * OPS_A_KEY) * KEYS + ticket % KEYS;
            let seen = &self.seen[(ticket % KEYS) as usize];
            let op = any_op(&mut random, seen.load(Relaxed));
            let begin = self.now();
            let ended = run(open, key, op, self.always_leads);
            let (end, out) = match ended {
                End::Answered(out) => (self.now(), out),
                End::Refused | End::Open => {
                    (at, wire) = (1 - at, None);
                    std::thread::sleep(PAUSE);
                    (NEVER, Out::Done)
                }
            };
            if let Out::Value(Some(value)) = out {
                seen.store(value, Relaxed);
            }
            // A read without an answer tells nothing.
            let is_told = end != NEVER || (matches!(ended, End::Open) && op != Op::Get);
            if is_told {
                self.record(key, Event { begin, end, op, out });
                self.answered.fetch_add(u64::from(end != NEVER && op != Op::Get), Relaxed);
                ticket = self.tickets.fetch_add(1, Relaxed);
            }
        }
    }

    fn record(&self, key: u64, event: Event) {
        let mut histories = self.histories.lock().unwrap();
        let events = histories.entry(key).or_default();
        events.push(event);
        if events.iter().filter(|event| event.end == NEVER).count() >= OPEN_A_KEY {
            let group = (key - self.first_key) / KEYS;
            self.tickets.fetch_max((group + 1) * KEYS * OPS_A_KEY, Relaxed);
        }
    }

    /// Checks all histories against what the server at this address has now.
    pub fn check(self, address: &str) -> Checked {
        let mut wire = Wire::connect(address).unwrap();
        let stale = self.stale.into_inner().unwrap();
        let histories = self.histories.into_inner().unwrap();
        let mut sum = Checked { keys: histories.len(), events: 0, open: 0 };
        for (key, events) in histories {
            let last = value_of(wire.say(&format!("GET k{key}")).unwrap());
            let checked = check(&events, &stale, last);
            let why = |events| panic!("k{key} is not linearizable:\n{events}{stale:?}");
            sum.events += checked.unwrap_or_else(why);
            sum.open += events.iter().filter(|event| event.end == NEVER).count();
        }
        sum
    }
}

/// Stops the clients, also if the test fails.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn any_op(random: &mut Rng, seen: u64) -> Op {
    match random.u32(..10) {
        0..3 => Op::Get,
        3..5 => Op::Set(random.u64(1..1000)),
        5..7 => Op::Incr,
        7 => Op::Del,
        8 => Op::Append(random.u64(1..10)),
        _ => Op::Swap(seen, random.u64(1..1000)),
    }
}

fn run(wire: &mut Wire, key: u64, op: Op, always_leads: bool) -> End {
    let line = match op {
        Op::Get if always_leads => format!("GET k{key}"),
        Op::Get => return read(wire, key).unwrap_or(End::Open),
        Op::Set(value) => format!("SET k{key} {value}"),
        Op::Incr => format!("INCR k{key}"),
        Op::Del => format!("DEL k{key}"),
        Op::Append(digit) => format!("APPEND k{key} {digit}"),
        Op::Swap(from, to) => format!("SET k{key} {to} IFEQ {from}"),
    };
    let Ok(reply) = wire.say(&line) else { return End::Open };
    End::Answered(match (op, reply) {
        (_, Reply::Error(text)) => return refusal(&text),
        (Op::Get, reply) => Out::Value(value_of(reply)),
        (Op::Set(_), Reply::Simple(_)) => Out::Done,
        (Op::Incr, Reply::Int(number)) => Out::Value(Some(number as u64)),
        (Op::Del, Reply::Int(number)) => Out::Flag(number == 1),
        (Op::Append(_), Reply::Int(number)) => Out::Len(number as u64),
        (Op::Swap(..), Reply::Simple(_)) => Out::Flag(true),
        (Op::Swap(..), Reply::Null) => Out::Flag(false),
        (op, reply) => panic!("{reply:?} to {op:?}"),
    })
}

/// What an error says of a write.
fn refusal(text: &str) -> End {
    let sure = ["READONLY ", "LOADING ", "EXECABORT ", "CLUSTERDOWN ", "TRYAGAIN "];
    // The error of a write with an open fate goes on behind this.
    let none = "NOREPLICAS Not enough good replicas to write.";
    if text == none || sure.iter().any(|start| text.starts_with(start)) {
        return End::Refused;
    }
    let open = [none, "MISCONF ", "UNKNOWN "];
    assert!(open.iter().any(|start| text.starts_with(start)), "{text}");
    End::Open
}

/// Reads a key at a server that calls itself a primary at that moment: a replica's answer may be old.
fn read(wire: &mut Wire, key: u64) -> io::Result<End> {
    wire.send(&format!("MULTI\r\nGET k{key}\r\nROLE\r\nEXEC\r\n"))?;
    for _ in 0..3 {
        if let Reply::Error(_) = wire.reply()? {
            return Ok(End::Refused);
        }
    }
    let Reply::Array(parts) = wire.reply()? else { return Ok(End::Refused) };
    let [value, Reply::Array(role)] = &parts[..] else { panic!("{parts:?}") };
    let is_primary = role.first() == Some(&Reply::Bulk(b"master".to_vec()));
    Ok(if is_primary { End::Answered(Out::Value(value_of(value.clone()))) } else { End::Refused })
}

fn value_of(reply: Reply) -> Option<u64> {
    match reply {
        Reply::Null => None,
        Reply::Bulk(text) => Some(String::from_utf8(text).unwrap().parse().unwrap()),
        other => panic!("{other:?}"),
    }
}
