//! Compares blocking commands with a real `redis-server`: who is served by what, step by step, for several clients.
//!
//! Not requested: time limits beyond the range of the clock, which Redis 7.0 calls negative; blocking commands in
//! scripts, which are refused before Redis 7.2; hexadecimal time limits; a key whose value a *STORE command overwrites
//! by another type, for which Redis 7.0 serves no client.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hotring_protocol::{ReplyLimits, find_part};

use crate::differential::{Raw, Redis, n_seeds};
use crate::requests::Random;
use crate::wire::{TestServer, request};

/// Time limit for anything that happens at all.
const PATIENCE: Duration = Duration::from_secs(30);
/// Clients that may wait. The client `P` never does.
const CLIENTS: &str = "abcdef";

struct Client {
    stream: TcpStream,
    id: String,
    unread: Vec<u8>,
    waits: bool,
}

impl Client {
    fn connect(address: SocketAddr, version: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut client = Client { stream, id: String::new(), unread: Vec::new(), waits: false };
        client.send(&format!("HELLO {version}"));
        client.reply();
        client.send("CLIENT ID");
        client.id = client.reply()[1..].trim_end_matches('¶').to_string();
        client
    }

    fn send(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').map(|word| word.replace('_', " ")).collect();
        self.stream.write_all(&request(&words)).unwrap();
    }

    /// A reply, if one has arrived whole.
    fn poll(&mut self) -> Option<String> {
        let mut chunk = [0; 4096];
        match self.stream.read(&mut chunk) {
            Ok(len) => self.unread.extend_from_slice(&chunk[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => panic!("{error}"),
        }
        let (mut len, mut n_missing) = (0, 1);
        while n_missing > 0 {
            let (part, part_len) =
                find_part(&self.unread[len..], &ReplyLimits::default()).unwrap()?;
            len += part_len;
            n_missing = n_missing - 1 + part.n_elements();
        }
        let reply: Vec<u8> = self.unread.drain(..len).collect();
        Some(reply.escape_ascii().to_string())
    }

    fn reply(&mut self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(reply) = self.poll() {
                return reply.replace("\\r\\n", "¶");
            }
            assert!(Instant::now() < deadline, "no reply");
        }
    }
}

/// The clients of one server.
struct Stage {
    clients: BTreeMap<char, Client>,
    observer: Raw,
}

impl Stage {
    fn new(address: SocketAddr, version: &str) -> Stage {
        let connect = |name| (name, Client::connect(address, version));
        let clients = CLIENTS.chars().chain(['P']).map(connect).collect();
        Stage { clients, observer: Raw::connect(address) }
    }

    fn is_blocked(&mut self, id: &str) -> bool {
        let list = self.observer.ask(&[b"CLIENT", b"LIST"]);
        let list = String::from_utf8_lossy(&list);
        let line = list.lines().find(|line| line.contains(&format!("id={id} "))).unwrap();
        let flags = line.split_once(" flags=").unwrap().1;
        flags.split(' ').next().unwrap().contains('b')
    }

    /// A step, and all replies that it causes.
    fn step(&mut self, name: char, line: &str) -> Vec<String> {
        let mut client = self.clients.remove(&name).unwrap();
        let mut replies = Vec::new();
        let (line, awaits) = line.strip_prefix('~').map_or((line, false), |line| (line, true));
        let other = |name: char| self.clients.get(&name).map_or("0", |client| &client.id);
        let line = CLIENTS
            .chars()
            .fold(line.to_string(), |line, name| line.replace(&format!("{{{name}}}"), other(name)));
        client.send(&line);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(reply) = client.poll() {
                replies.push(format!("{name} {}", reply.replace("\\r\\n", "¶")));
                break;
            }
            if name != 'P' && !awaits && self.is_blocked(&client.id) {
                client.waits = true;
                replies.push(format!("{name} waits"));
                break;
            }
            assert!(Instant::now() < deadline, "no reply to {line}");
        }
        let waiting = self.clients.iter().filter(|(_, client)| client.waits);
        let waiting: Vec<_> = waiting.map(|(name, client)| (*name, client.id.clone())).collect();
        for (other, id) in waiting {
            if !self.is_blocked(&id) {
                let served = self.clients.get_mut(&other).unwrap();
                served.waits = false;
                replies.push(format!("{other} {}", served.reply()));
            }
        }
        self.clients.insert(name, client);
        replies
    }

    fn waits(&self, name: char) -> bool {
        self.clients[&name].waits
    }
}

/// Both servers, which take the same steps.
struct Both {
    ours: Stage,
    theirs: Stage,
    before: VecDeque<String>,
}

impl Both {
    fn step(&mut self, name: char, line: &str) -> Vec<String> {
        let theirs = self.theirs.step(name, line);
        self.before.push_back(format!("{name}: {line} -> {}", theirs.join(" | ")));
        if self.before.len() > 60 {
            self.before.pop_front();
        }
        let ours = self.ours.step(name, line);
        let before = self.before.make_contiguous().join("\n");
        assert_eq!(ours, theirs, "{name}: {line}\n{before}");
        theirs
    }
}

fn with_both(f: impl Fn(&mut Both)) {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::with(|config| config.threads = 2);
    for version in ["2", "3"] {
        let [ours, theirs] = [server.address, redis.address].map(|at| Stage::new(at, version));
        let mut both = Both { ours, theirs, before: VecDeque::new() };
        both.step('P', "FLUSHALL");
        f(&mut both);
    }
}

/// Conversations; behind `~` the end of a client's time is awaited.
const CONVERSATIONS: &[&str] = &[
    // Time limits, and errors in all arguments.
    "a~: BLPOP l 0.02|a~: BRPOP l m 0.02|a~: BLMOVE l m LEFT LEFT 0.01|a~: BRPOPLPUSH l m .01|\
     a~: BLMPOP 0.01 2 l m LEFT|a~: BZPOPMIN z 1e-2|a~: BZPOPMAX z 0.01|a~: BZMPOP 0.01 1 z MIN|a~: BLPOP l 0.0001",
    "P: BLPOP l x|P: BLPOP l -1|P: BLPOP l nan|P: BLPOP l -inf|P: BLPOP l _1|P: BLPOP l 1_|P: BLPOP l 1.5e|\
     P: BLPOP l|P: BLPOP|P: BLPOP 0|P: BZPOPMIN z x|P: BZPOPMAX z -0.1|P: BZPOPMIN z|P: BRPOP l 1x",
    "P: BLMOVE l m UP LEFT 0|P: BLMOVE l m LEFT UP x|P: BLMOVE l m LEFT RIGHT x|P: BLMOVE l m LEFT RIGHT -1|\
     P: BLMOVE l m LEFT 0|P: BRPOPLPUSH l m x|P: BRPOPLPUSH l m -1|P: BRPOPLPUSH l 0",
    "P: BLMPOP x 1 l LEFT|P: BLMPOP 0 0 l LEFT|P: BLMPOP 0 x l LEFT|P: BLMPOP 0 1 l UP|P: BLMPOP 0 2 l LEFT|\
     P: BLMPOP 0 1 l LEFT COUNT|P: BLMPOP 0 1 l LEFT COUNT 0|P: BLMPOP 0 1 l LEFT COUNT x|P: BLMPOP 0 -1 l LEFT|\
     P: BLMPOP 0 1 l LEFT COUNT 1 COUNT 1|P: BLMPOP 0 1 l LEFT x 1|P: BLMPOP 0 1 l|P: BLMPOP 0 9 l LEFT|\
     P: BLMPOP 0 1 l m LEFT|P: BLMPOP -1 1 l LEFT",
    "P: BZMPOP x 1 z MIN|P: BZMPOP 0 0 z MIN|P: BZMPOP 0 1 z UP|P: BZMPOP 0 1 z MIN COUNT 0|P: BZMPOP 0 2 z MIN|\
     P: BZMPOP 0 1 z MAX COUNT x|P: BZMPOP 0 1 z MAX COUNT 1 COUNT 2|P: BZMPOP 0 1 z",
    // Wrong types: at once, and where an element goes.
    "P: SET s 1|P: BLPOP s 0|P: BLMOVE s l LEFT LEFT 0|P: BZPOPMIN s 0|P: BLMPOP 0 2 s l LEFT|P: BZMPOP 0 1 s MIN|\
     P: RPUSH l x|P: BLPOP s l 0|P: BLPOP l s 0|P: RPUSH l x|P: BLMOVE l s LEFT LEFT 0|P: LRANGE l 0 -1|P: DEL l|\
     a: BLMOVE l s LEFT LEFT 0|b: BLPOP l 0|P: RPUSH l x y|P: LRANGE l 0 -1|P: BZPOPMIN l 0|P: ZADD z 1 x|\
     P: BLPOP z 0|P: BLMOVE z l LEFT LEFT 0",
    // The first that came is served first; the first key that has an element.
    "a: BLPOP l m 0|b: BRPOP m l 0|c: BLPOP l 0|P: RPUSH l 1 2 3 4|P: LRANGE l 0 -1|P: RPUSH m x|a: BLPOP n m l 0|\
     a: BLPOP n m l 0|a: BLPOP n m l 0|P: LPUSH n 9",
    "a: BLPOP l l l 0|P: RPUSH l 1 2|P: LRANGE l 0 -1|a: BLMPOP 0 2 l m LEFT COUNT 2|P: DEL l|\
     a: BLMPOP 0 2 l m RIGHT COUNT 2|b: BLMPOP 0 1 m LEFT COUNT 9|P: RPUSH m 1 2 3|P: EXISTS m",
    // Elements that move on, in a circle, and to themselves.
    "a: BRPOPLPUSH l m 0|b: BRPOPLPUSH m n 0|c: BLPOP n 0|P: RPUSH l 1|P: EXISTS l m n",
    "a: BRPOPLPUSH l m 0|b: BRPOPLPUSH m l 0|P: RPUSH l 1|P: LRANGE l 0 -1|P: LRANGE m 0 -1",
    "a: BRPOPLPUSH l l 0|P: RPUSH l 1|P: LRANGE l 0 -1|a: BLMOVE l l LEFT RIGHT 0|b: BLMOVE n n LEFT RIGHT 0|\
     c: BLPOP n 0|P: RPUSH n 1 2|P: LRANGE n 0 -1",
    "a: BLMOVE l m LEFT RIGHT 0|b: BLMOVE l n LEFT LEFT 0|c: BLMOVE n m RIGHT LEFT 0|d: BLPOP m 0|e: BLPOP m 0|\
     P: RPUSH l 1 2|P: LRANGE m 0 -1|P: EXISTS l n",
    // Keys that come about by other commands.
    "P: RPUSH x 1 2|a: BLPOP l 0|P: RENAME x l|P: LRANGE l 0 -1|b: BLPOP m 0|P: COPY l m|P: EXISTS m|\
     a: BLPOP n 0|P: LMOVE l n LEFT LEFT|P: EXISTS l n|a: BLPOP n 0|P: RPUSH x 7|P: RENAMENX x n|P: EXISTS n",
    "a: BLPOP l 0|P: SET l x|P: DEL l|P: ZADD l 1 x|P: DEL l|P: RPUSH l 1|b: BZPOPMIN z 0|P: RPUSH z 1|P: DEL z|\
     P: ZADD z 1 x 2 y|P: ZRANGE z 0 -1",
    "P: RPUSH x 1|a: BLPOP l 0|P: EVAL redis.call('RESTORE',KEYS[1],0,redis.call('DUMP',KEYS[2]))return_1 2 l x|\
     P: EXISTS l x",
    "a: BLPOP l 0|b: BZPOPMIN l 0|c: BLPOP l 0|P: ZADD l 1 x|P: RPUSH l 1 2 3|P: LRANGE l 0 -1",
    // Transactions and scripts.
    "a: BLPOP l 0|P: MULTI|P: RPUSH l 1|P: DEL l|P: EXEC|P: MULTI|P: LPUSH l a b c|P: EXEC|P: LRANGE l 0 -1",
    "P: MULTI|P: BLPOP l 0|P: BLMOVE l m LEFT LEFT 0|P: BRPOPLPUSH l m 0|P: BLMPOP 0 1 l LEFT|P: BZPOPMIN z 0|\
     P: BZMPOP 0 1 z MIN|P: RPUSH l 1 2|P: BLPOP l 0|P: BLMOVE l m LEFT LEFT 0|P: BLPOP l x|P: EXEC",
    "a: BLPOP l m 0|b: BLPOP m l 0|P: EVAL redis.call('RPUSH',KEYS[2],1,2)redis.call('RPUSH',KEYS[1],3,4)return_1 2 l m|\
     P: LRANGE l 0 -1|P: LRANGE m 0 -1",
    "a: BLPOP l m 0|P: MULTI|P: RPUSH m 1|P: RPUSH l 2|P: EXEC|P: EXISTS l m|a: BLPOP l m 0",
    // Ends by others.
    "a: BLPOP l 0|P: CLIENT UNBLOCK {a}|P: CLIENT UNBLOCK {a}|a: BLPOP l 0|P: CLIENT UNBLOCK {a} ERROR|\
     a: BLMOVE l m LEFT LEFT 0|P: CLIENT UNBLOCK {a} TIMEOUT|P: RPUSH l 1|P: LRANGE l 0 -1|a: BZPOPMAX z 0|\
     P: CLIENT UNBLOCK {a}|a: BRPOPLPUSH m n 0|P: CLIENT UNBLOCK {a}",
    // Sorted sets.
    "a: BZPOPMIN z y 0|b: BZPOPMAX z 0|P: ZADD z 1 one 2 two 3 three|P: ZRANGE z 0 -1 WITHSCORES|\
     c: BZMPOP 0 2 y z MAX COUNT 2|c: BZMPOP 0 2 y z MAX COUNT 2|P: ZADD y 1.5 a 2 b inf c|P: ZRANGE y 0 -1|\
     c: BZPOPMIN y 0|d: BZPOPMIN y 0|P: ZINCRBY y 2.5 m|P: ZADD x 1 q|P: ZUNIONSTORE y 1 x|P: EXISTS x y",
    // Swapped databases: a waiting client stays with its number.
    "P: SELECT 1|P: RPUSH l x|P: SELECT 0|a: BLPOP l 0|P: SWAPDB 0 1|P: EXISTS l|P: DBSIZE|P: SELECT 1|P: DBSIZE|\
     P: SELECT 0",
    "a: BLPOP l 0|b: SELECT 1|b: BLPOP l 0|P: SWAPDB 0 1|P: RPUSH l zero|P: SELECT 1|P: RPUSH l one|P: SELECT 0|\
     b: SELECT 0",
    "a: BLPOP m 0|b: BZPOPMIN z 0|c: BLMOVE l n LEFT LEFT 0|d: BLPOP s 0|P: SELECT 2|P: RPUSH m 1|P: ZADD z 1 x|\
     P: RPUSH l 2 3|P: SET s text|P: SWAPDB 2 0|P: EXISTS l m n z s|P: SELECT 0|P: EXISTS l m n z s|P: LRANGE n 0 -1",
    "a: BLPOP l 0|P: MULTI|P: SELECT 3|P: RPUSH l x y|P: SWAPDB 3 0|P: EXEC|P: LRANGE l 0 -1|P: SELECT 0|\
     P: LRANGE l 0 -1",
    "a: BLPOP l 0|P: SWAPDB 0 5|b: BLPOP l 0|P: SWAPDB 0 5|P: RPUSH l 1|P: SWAPDB 5 0|P: RPUSH l 2|P: EXISTS l",
    "a: BLPOP l 0|b: BLPOP l 0|P: SWAPDB 0 4|P: CLIENT UNBLOCK {a}|P: RPUSH l 1 2|P: LRANGE l 0 -1",
];

#[test]
fn blocking_commands_serve_as_redis_does() {
    with_both(|both| {
        for conversation in CONVERSATIONS {
            both.step('P', "FLUSHALL");
            for step in conversation.split('|') {
                let (name, line) = step.trim().split_once(": ").unwrap();
                let awaits = name.strip_prefix(|_| true).unwrap();
                both.step(name.chars().next().unwrap(), &format!("{awaits}{line}"));
            }
            end_waits(both);
        }
    });
}

fn end_waits(both: &mut Both) {
    for name in CLIENTS.chars().filter(|name| both.theirs.waits(*name)).collect::<Vec<_>>() {
        both.step('P', &format!("CLIENT UNBLOCK {{{name}}}"));
    }
}

/// Steps of each seed.
const N_STEPS: usize = 300;

#[test]
fn random_blocking_commands_serve_as_redis_does() {
    let seed = std::cell::Cell::new(7);
    with_both(|both| {
        let mut random = Random::new(seed.replace(seed.get() + 1));
        for i in 0..N_STEPS * n_seeds() as usize {
            let free = CLIENTS.chars().filter(|name| !both.theirs.waits(*name)).collect::<Vec<_>>();
            if !free.is_empty() && random.below(100) < 45 {
                let name = free[random.below(free.len() as u64) as usize];
                both.step(name, &blocking(&mut random));
            } else {
                random_lines(&mut random).iter().for_each(|line| _ = both.step('P', line));
            }
            if i % 50 == 0 {
                for key in ["k0", "k1", "k2", "k3"] {
                    both.step('P', &format!("LRANGE {key} 0 -1"));
                    both.step('P', &format!("ZRANGE {key} 0 -1 WITHSCORES"));
                }
            }
        }
        end_waits(both);
    });
}

fn pick<'a>(random: &mut Random, list: &[&'a str]) -> &'a str {
    list[random.below(list.len() as u64) as usize]
}

fn key(random: &mut Random) -> &'static str {
    pick(random, &["k0", "k1", "k2", "k3"])
}

fn keys(random: &mut Random) -> (usize, String) {
    let n = 1 + random.below(3) as usize;
    (n, (0..n).map(|_| key(random)).collect::<Vec<_>>().join(" "))
}

fn blocking(random: &mut Random) -> String {
    let (n, keys) = keys(random);
    let end = |random: &mut Random| pick(random, &["LEFT", "RIGHT"]);
    match random.below(12) {
        0..3 => format!("BLPOP {keys} 0"),
        3..5 => format!("BRPOP {keys} 0"),
        5..7 => {
            let (from, to) = (end(random), end(random));
            format!("BLMOVE {} {} {from} {to} 0", key(random), key(random))
        }
        7 => format!("BRPOPLPUSH {} {} 0", key(random), key(random)),
        8 => format!("BLMPOP 0 {n} {keys} {} COUNT {}", end(random), 1 + random.below(3)),
        9 => format!("BZPOPMIN {keys} 0"),
        10 => format!("BZPOPMAX {keys} 0"),
        _ => format!(
            "BZMPOP 0 {n} {keys} {} COUNT {}",
            pick(random, &["MIN", "MAX"]),
            1 + random.below(3)
        ),
    }
}

fn random_lines(random: &mut Random) -> Vec<String> {
    let (a, b) = (key(random), key(random));
    let one = match random.below(20) {
        0..5 => format!("{} {a}{}", pick(random, &["RPUSH", "LPUSH"]), elements(random)),
        5..7 => format!("ZADD {a} {} m{} {} n", random.below(9), random.below(9), random.below(9)),
        7 => format!("LPOP {a}"),
        8 => format!("SET {a} text"),
        9..11 => format!("DEL {a} {b}"),
        11 => format!("RENAME {a} {b}"),
        12 => format!("COPY {a} {b} REPLACE"),
        13 => format!("LMOVE {a} {b} LEFT RIGHT"),
        14 => format!("CLIENT UNBLOCK {{{}}}", pick(random, &["a", "b", "c", "d", "e", "f"])),
        15 => format!(
            "EVAL redis.pcall('RPUSH',KEYS[2],1,2)redis.pcall('LPUSH',KEYS[1],3)return_1 2 {a} {b}"
        ),
        16 => {
            let script = "local_d=redis.call('DUMP',KEYS[1])if_d_then_redis.call('RESTORE',KEYS[2],0,d,'REPLACE')end";
            format!("EVAL {script} 2 {a} {b}")
        }
        17 => format!("PEXPIRE {a} -1"),
        _ => {
            let mut lines = vec!["MULTI".to_string()];
            for _ in 0..1 + random.below(4) {
                lines.push(match random.below(6) {
                    0..3 => format!("RPUSH {}{}", key(random), elements(random)),
                    3 => format!("DEL {}", key(random)),
                    4 => format!("ZADD {} 1 x", key(random)),
                    _ => blocking(random),
                });
            }
            lines.push("EXEC".to_string());
            return lines;
        }
    };
    vec![one]
}

fn elements(random: &mut Random) -> String {
    (0..1 + random.below(3)).map(|_| format!(" e{}", random.below(1000))).collect()
}
