//! Compares CLIENT TRACKING with a real `redis-server`: the same requests on several connections,
//! and after each of them all replies and messages of every connection in order, byte for byte.
//!
//! Not compared: ids of connections, which are replaced by names, and the order of simultaneous
//! messages. Not requested: keys that were read before tracking was restarted; several keys changed
//! at once in broadcast mode, as Redis puts them into one message; connections of different
//! protocol versions, where Redis writes null in the wrong version.

use crate::differential::{Raw, Redis, n_seeds};
use crate::requests::Random;
use crate::wire::TestServer;

/// Requests of one run.
const N_REQUESTS: usize = 300;

/// Connections of one run; the last one may receive messages for others, and may be closed.
const N_CLIENTS: usize = 4;

const READS: &[&str] = &[
    "GET k1",
    "GET k2",
    "GET user:1",
    "STRLEN k1",
    "EXISTS k2",
    "TTL k1",
    "TYPE user:1",
    "CLIENT CACHING YES",
    "CLIENT CACHING NO",
    "CLIENT CACHING x",
    "NONSENSE",
    "PING",
];

const SEVERAL_READS: &[&str] =
    &["MGET k1 k2 k3", "MULTI|GET k1|GET k2|EXEC", "MULTI|GET k1|DISCARD|GET k2"];

const WRITES: &[&str] = &[
    "SET k1 x",
    "SET k2 x",
    "SET user:1 x",
    "SET user: x",
    "DEL k1",
    "DEL none",
    "APPEND k2 x",
    "EXPIRE k1 1000",
    "PERSIST k1",
    "PERSIST none",
    "SET k1 x NX",
    "GETDEL k2",
    "SETRANGE k1 3 x",
    "SETRANGE k1 3 \"\"",
    "FLUSHALL",
];

const SEVERAL_WRITES: &[&str] = &[
    "MSET k1 1 k2 2 k3 3",
    "DEL k1 k2 k3",
    "RENAME k1 k2",
    "COPY k2 k1 REPLACE",
    "MULTI|SET k1 1|GET k1|SET k2 2|EXEC",
    "MULTI|GET k1|INCR k1|EXEC",
];

/// Tracking modes; `N` stands for the id of the connection that receives messages for others.
const MODES: &[&str] = &[
    "CLIENT TRACKING on",
    // Redis still remembers then which keys were read before.
    "CLIENT TRACKING off|FLUSHALL",
    "CLIENT TRACKING on NOLOOP",
    "CLIENT TRACKING on OPTIN",
    "CLIENT TRACKING on OPTOUT NOLOOP",
    "CLIENT TRACKING on REDIRECT N",
    "CLIENT TRACKING on REDIRECT N OPTIN",
    "CLIENT TRACKING on REDIRECT 999999",
    "CLIENT TRACKING on REDIRECT x",
    "CLIENT TRACKING on OPTIN OPTOUT",
    "CLIENT TRACKING on PREFIX a",
    "CLIENT TRACKING on nonsense",
    "CLIENT TRACKING nonsense",
    "CLIENT GETREDIR",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKINGINFO",
    "RESET|HELLO V|FLUSHALL",
];

const BROADCASTS: &[&str] = &[
    "CLIENT TRACKING on BCAST",
    "CLIENT TRACKING on BCAST PREFIX user: PREFIX k1",
    "CLIENT TRACKING on BCAST PREFIX user: NOLOOP",
    "CLIENT TRACKING on BCAST REDIRECT N PREFIX k",
    "CLIENT TRACKING on BCAST PREFIX k PREFIX k1",
    "CLIENT TRACKING on BCAST OPTIN",
];

/// Requests of the connection that receives messages for others.
const LISTENING: &[&str] = &["SUBSCRIBE __redis__:invalidate", "UNSUBSCRIBE", "PING", "PING"];

/// One server's connections.
struct Side {
    address: std::net::SocketAddr,
    version: &'static str,
    clients: Vec<Raw>,
    /// The ids of all connections so far.
    ids: Vec<i64>,
}

impl Side {
    fn new(address: std::net::SocketAddr, version: &'static str) -> Self {
        let mut side = Side { address, version, clients: Vec::new(), ids: Vec::new() };
        (0..N_CLIENTS).for_each(|_| side.connect());
        side
    }

    fn connect(&mut self) {
        let mut raw = Raw::connect(self.address);
        raw.ask(&[b"HELLO", self.version.as_bytes()]);
        let id = raw.ask(&[b"CLIENT", b"ID"]);
        self.ids.push(String::from_utf8_lossy(&id)[1..].trim_end().parse().unwrap());
        self.clients.push(raw);
    }

    /// Closes the connection that receives messages for others, and opens another one.
    fn replace_last(&mut self) {
        self.clients.pop().expect("there are connections").quit();
        self.connect();
    }

    /// Sends the requests of a line; returns everything that the connections have received then.
    fn say(&mut self, client: usize, line: &str) -> String {
        let last = self.ids.last().expect("there are connections").to_string();
        let mut got = String::new();
        for line in line.split('|') {
            let line = line
                .replace("REDIRECT N", &format!("REDIRECT {last}"))
                .replace(" V", &format!(" {}", self.version));
            let words: Vec<&[u8]> = line
                .split(' ')
                .map(|word| if word == "\"\"" { &b""[..] } else { word.as_bytes() })
                .collect();
            self.clients[client].send(&words);
        }
        let (mut at, all) = (client, N_CLIENTS);
        for _ in 0..all {
            got.push_str(&format!("{at}: {}\n", self.until_pong(at)));
            at = (at + 1) % all;
        }
        got
    }

    /// Everything that a connection receives before the second PONG: in Redis, broadcasts follow
    /// all requests that arrived together.
    fn until_pong(&mut self, client: usize) -> String {
        let mut got: Vec<String> = Vec::new();
        for ping in ["<first>", "<second>"] {
            self.clients[client].send(&[b"PING", ping.as_bytes()]);
            loop {
                let text = self.clients[client].reply().escape_ascii().to_string();
                if text.contains(ping) {
                    break;
                }
                got.push(self.named(&text));
            }
        }
        let is_message = |text: &String| text.contains("invalidate\\r\\n");
        got.chunk_by_mut(|a, b| is_message(a) && is_message(b)).for_each(<[String]>::sort);
        got.join(" ")
    }

    /// A reply, with names in place of ids. The text of greetings differs between servers.
    fn named(&self, text: &str) -> String {
        if text.contains("$7\\r\\nversion") {
            return "hello".to_string();
        }
        if !(text.starts_with(':') || text.contains("redir")) {
            return text.to_string();
        }
        let mut text = text.to_string();
        for (i, id) in self.ids.iter().enumerate() {
            text = text.replace(&format!(":{id}\\r"), &format!(":client {i}\\r"));
        }
        text
    }
}

/// Returns the number of messages.
fn compare(redis: &Redis, seed: u64, version: &'static str, broadcasts: bool) -> usize {
    let server = TestServer::new();
    Raw::connect(redis.address).ask(&[b"FLUSHALL"]);
    // So that ids are not mistaken for other numbers.
    for address in [server.address, redis.address] {
        (0..200).for_each(|_| _ = Raw::connect(address).ask(&[b"PING"]));
    }
    let mut sides = [Side::new(server.address, version), Side::new(redis.address, version)];
    let mut random = Random::new(seed);
    let more = |list: &'static [&'static str]| if broadcasts { &[][..] } else { list };
    let modes = if broadcasts { [MODES, BROADCASTS].concat() } else { MODES.to_vec() };
    let reads = [READS, more(SEVERAL_READS)].concat();
    let writes = [WRITES, more(SEVERAL_WRITES)].concat();
    let mut n_told = 0;
    let mut before = Vec::new();
    for _ in 0..N_REQUESTS {
        let client = random.below(N_CLIENTS as u64 - 1) as usize;
        let (client, list) = match random.below(12) {
            0 | 1 => (client, &modes),
            2..=6 => (client, &reads),
            7..=10 => (client, &writes),
            _ => (N_CLIENTS - 1, &LISTENING.to_vec()),
        };
        let line = list[random.below(list.len() as u64) as usize];
        if random.below(60) == 0 {
            sides.iter_mut().for_each(Side::replace_last);
            before.push("another last one".to_string());
        }
        before.push(format!("{client}: {line}"));
        let [ours, theirs] = sides.each_mut().map(|side| side.say(client, line));
        n_told += theirs.matches("invalidate").count();
        let last = &before[before.len().saturating_sub(40)..];
        assert_eq!(ours, theirs, "seed {seed}: {last:#?}");
    }
    n_told
}

fn compare_all(broadcasts: bool) {
    let Some(redis) = Redis::start() else { return };
    for version in ["2", "3"] {
        let n_told: usize =
            (0..n_seeds()).map(|seed| compare(&redis, seed, version, broadcasts)).sum();
        assert!(n_told > 2, "only {n_told} messages");
    }
}

#[test]
fn copies_are_called_old_when_they_are_in_redis() {
    compare_all(false);
}

#[test]
fn broadcasts_are_those_of_redis() {
    compare_all(true);
}
