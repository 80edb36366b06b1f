//! Compares this server with a real `memcached`: random requests must get the same replies, byte
//! for byte.
//!
//! CAS numbers differ, so each is compared by the order in which it was first seen; requests name
//! numbers that have been seen. Of times to live and access times only the presence is compared.
//!
//! Not requested: the differences in docs/memcached.md; features that memcached 1.6.18 lacks (E, x,
//! C of mg, s of ms, the errors of md); q of ma; T of ma, which memcached applies to the item that
//! a longer number has just replaced. Whether a counted item stays stale is random there, so
//! numbers have their own keys.
//!
//! `HOTRING_DIFFERENTIAL_SEEDS` makes it run longer. Without a `memcached` of version 1.6 it prints
//! so and does nothing.

use std::collections::HashMap;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::memcached::{Both, Lines};
use crate::requests::Random;

/// Requests of each run.
const N_REQUESTS: usize = 12_000;
/// Requests sent before their replies are read.
const BATCH_LEN: usize = 40;

/// A memcached process, killed on drop.
struct Memcached {
    process: Child,
    address: SocketAddr,
}

impl Memcached {
    /// `None` without a memcached of the compared version.
    fn start() -> Option<Self> {
        let version = Command::new("memcached").arg("--version").output();
        let version = version
            .inspect_err(|error| eprintln!("skipped: memcached does not run: {error}"))
            .ok()?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        if !version.contains(" 1.6.") {
            eprintln!("skipped: replies are compared with memcached 1.6, this is {version}");
            return None;
        }
        // Bound and released: the port is most likely still free a moment later.
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let process = Command::new("memcached")
            .args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-t", "1"])
            // Started by root, it requires a user name.
            .args(["-u", "nobody"])
            .stderr(Stdio::null())
            .spawn()
            .expect("memcached starts");
        let memcached = Memcached { process, address: ([127, 0, 0, 1], port).into() };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(memcached.address).is_err() {
            assert!(Instant::now() < deadline, "memcached does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(memcached)
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// One side of the comparison.
struct Side {
    lines: Lines,
    /// The key of the last request.
    key: String,
    /// CAS numbers of each key in the order in which they were seen; clients compare them only per
    /// key.
    numbers: HashMap<String, Vec<String>>,
    /// When each number was first seen.
    places: HashMap<String, usize>,
}

impl Side {
    fn new(address: SocketAddr) -> Self {
        let lines = Lines::connect(address);
        let (numbers, places) = Default::default();
        Side { lines, key: String::new(), numbers, places }
    }

    /// A request with real numbers in place of `#0`, `#1`, ...
    fn request(&mut self, request: &str) -> String {
        self.key = request.split_whitespace().nth(1).unwrap_or_default().to_string();
        let Some((before, behind)) = request.split_once('#') else { return request.to_string() };
        let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        let back: usize = behind[..end].parse().unwrap();
        let seen = self.numbers.get(&self.key).and_then(|numbers| numbers.iter().nth_back(back));
        let number = seen.map_or("9000000000000000000", String::as_str);
        format!("{before}{number}{}", &behind[end..])
    }

    /// All replies up to that of `mn`, in the form that is compared.
    fn replies(&mut self) -> Vec<String> {
        let mut replies = Vec::new();
        loop {
            let line = self.lines.line();
            let line = line.strip_suffix("\r\n").expect("the connection ended inside a reply");
            if line == "MN" {
                return replies;
            }
            let words: Vec<&str> = line.split(' ').collect();
            let len = match words[..] {
                ["VA", len, ..] | ["VALUE", _, _, len, ..] => Some(len.parse::<usize>().unwrap()),
                _ => None,
            };
            let mut shown = self.comparable(&words);
            if let Some(len) = len {
                let mut data = vec![0u8; len + 2];
                self.lines.reader.read_exact(&mut data).unwrap();
                shown.push('|');
                shown.push_str(&String::from_utf8(data).unwrap());
            }
            replies.push(shown);
        }
    }

    fn comparable(&mut self, words: &[&str]) -> String {
        let is_item = words[0] == "VALUE";
        if is_item {
            self.key = words[1].to_string();
        }
        let is_meta = ["VA", "HD", "EN", "NS", "EX", "NF"].contains(&words[0]);
        let mut shown = Vec::new();
        for (i, word) in words.iter().enumerate() {
            shown.push(match word.as_bytes() {
                _ if is_item && i == 4 => self.place(word),
                [b'c', number @ ..] if is_meta && number.iter().all(u8::is_ascii_digit) => {
                    format!("c{}", self.place(&word[1..]))
                }
                [b't', first, ..] if is_meta && first.is_ascii_digit() => "t+".to_string(),
                [b'l', first, ..] if is_meta && first.is_ascii_digit() => "l+".to_string(),
                _ => (*word).to_string(),
            });
        }
        shown.join(" ")
    }

    fn place(&mut self, number: &str) -> String {
        if number == "0" {
            return "none".to_string();
        }
        let next = self.places.len();
        let place = *self.places.entry(number.to_string()).or_insert(next);
        if place == next {
            self.numbers.entry(self.key.clone()).or_default().push(number.to_string());
        }
        format!("#{place}")
    }
}

fn pick<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

/// Keys of strings, and of numbers: the bytes that memcached leaves behind a number are not read.
const KEYS: [&str; 4] = ["k0", "k1", "k2", "k3"];
const NUMBERS: [&str; 2] = ["n0", "n1"];
const TIMES: [&str; 5] = ["0", "0", "5000", "-1", "2000000000"];

fn random_request(random: &mut Random) -> String {
    let key = pick(random, &KEYS);
    let number = pick(random, &NUMBERS);
    let value = pick(random, &["", "a", "hello", "12345678", "long enough to be no word"]);
    let flags = pick(random, &["0", "7", "4294967295"]);
    let time = pick(random, &TIMES);
    let quiet = pick(random, &["", "", "", " noreply"]);
    let (len, back) = (value.len(), random.below(4));
    match random.below(24) {
        0..4 => {
            let verb = pick(random, &["set", "set", "add", "replace", "append", "prepend"]);
            format!("{verb} {key} {flags} {time} {len}{quiet}\r\n{value}\r\n")
        }
        4 | 5 => format!("cas {key} {flags} {time} {len} #{back}{quiet}\r\n{value}\r\n"),
        6 | 7 => {
            format!("{} {key} {} none\r\n", pick(random, &["get", "gets"]), pick(random, &KEYS))
        }
        8 => format!("{} {time} {key} none\r\n", pick(random, &["gat", "gats"])),
        9 => format!("touch {key} {time}{quiet}\r\n"),
        10 => format!("delete {key}{quiet}\r\n"),
        11 => {
            // From 2^63 on, memcached reads the sign beyond the value's end.
            let start = pick(random, &["0", "5", "4611686018427387904", "99"]);
            format!("set {number} 3 0 {}\r\n{start}\r\n", start.len())
        }
        12 => {
            let verb = pick(random, &["incr", "decr"]);
            let delta = pick(random, &["0", "1", "100", "1000000000"]);
            format!("{verb} {number} {delta}{quiet}\r\n")
        }
        13 => format!("set word 0 0 {len}\r\n{value}\r\nincr word 1\r\n"),
        14..17 => format!("mg {key}{}\r\n", random_flags(random, "vfcstkuqhl", "NTRO")),
        17..20 => {
            let flags = random_flags(random, "ckqI", "FTMCO");
            format!("ms {key} {len}{flags}\r\n{value}\r\n")
        }
        20 => format!("md {key}{}\r\n", random_flags(random, "kqI", "TCO")),
        21 => format!("ma {number}{}\r\n", random_flags(random, "vtck", "NJDMO")),
        22 => random_nonsense(random),
        _ => {
            // A delay that ends during a test would depend on the second there.
            let flush =
                ["flush_all", "flush_all 0", "flush_all 0 noreply", "flush_all 9000\r\nflush_all"];
            let others = ["get k0", "verbosity 1"];
            format!("{}\r\n", pick(random, &[&flush[..], &others[..]].concat()))
        }
    }
}

/// Flags in any order, each once.
fn random_flags(random: &mut Random, plain: &str, valued: &str) -> String {
    let mut letters: Vec<char> = plain.chars().chain(valued.chars()).collect();
    let mut flags = String::new();
    for _ in 0..random.below(6) {
        if letters.is_empty() {
            break;
        }
        let letter = letters.remove(random.below(letters.len() as u64) as usize);
        let value = match letter {
            'N' | 'T' => pick(random, &["0", "4000", "2000000000"]).to_string(),
            'R' => pick(random, &["0", "30", "9000"]).to_string(),
            'F' => pick(random, &["0", "9"]).to_string(),
            'M' => pick(random, &["S", "E", "A", "P", "R", "I", "D", "+", "-"]).to_string(),
            'C' => format!("#{}", random.below(4)),
            'O' => "opaque".to_string(),
            'J' | 'D' => pick(random, &["0", "13"]).to_string(),
            _ => String::new(),
        };
        flags.push_str(&format!(" {letter}{value}"));
        // Only one CAS number is inserted at a time.
        letters.retain(|other| letter != 'C' || *other != 'C');
    }
    flags
}

fn random_nonsense(random: &mut Random) -> String {
    let long = "k".repeat(251);
    let lines = [
        "nonsense\r\n".to_string(),
        "get\r\n".into(),
        "GET k0\r\n".into(),
        "set k0 0 0\r\n".into(),
        "set k0 0 0 x\r\n".into(),
        "set k0 0 0 -1\r\n".into(),
        "set k0 0 0 1\r\nabc\r\n".into(),
        format!("get {long}\r\n"),
        format!("delete {long}\r\n"),
        format!("mg {long} v\r\n"),
        "incr n0 x\r\n".into(),
        "incr n0 -1\r\n".into(),
        "touch k0 x\r\n".into(),
        "delete k0 5\r\n".into(),
        "mg k0 v v\r\n".into(),
        "mg k0 !\r\n".into(),
        "mg k0 Tx\r\n".into(),
        "mg k0 b v\r\n".into(),
        "mg\r\n".into(),
        "ms k0 1 MX\r\na\r\n".into(),
        "ma n0 MX\r\n".into(),
        "ma n0 Dx\r\n".into(),
        "cache_memlimit 1\r\n".into(),
        "verbosity\r\n".into(),
        "flush_all x\r\n".into(),
        "\r\n".into(),
        "mg Zm9v b k\r\n".into(),
        "ms Zm9v 2 b k T0\r\nhi\r\n".into(),
    ];
    lines[random.below(lines.len() as u64) as usize].clone()
}

/// A line for each request, with our replies and memcached's.
fn shown(history: &[(String, Vec<String>, Vec<String>)]) -> String {
    let line = |(request, ours, theirs): &(String, Vec<String>, Vec<String>)| {
        format!("{} -> {ours:?}, memcached {theirs:?}\n", request.escape_debug())
    };
    history.iter().map(line).collect()
}

fn compare(seed: u64) {
    let Some(memcached) = Memcached::start() else { return };
    let server = Both::new();
    let mut sides = [Side::new(server.memcached), Side::new(memcached.address)];
    let mut random = Random::new(seed);
    let mut history = Vec::new();
    let mut n_replies = 0;
    // Requested once: from here on both record when items are fetched.
    for side in &mut sides {
        side.lines.send("mg none h\r\nmn\r\n");
        assert_eq!(side.replies(), ["EN"]);
    }
    for _ in 0..N_REQUESTS / BATCH_LEN {
        for _ in 0..BATCH_LEN {
            let request = random_request(&mut random);
            for side in &mut sides {
                let request = side.request(&request);
                side.lines.send(&request);
                side.lines.send("mn\r\n");
            }
            let [ours, theirs] = sides.each_mut().map(Side::replies);
            n_replies += theirs.len();
            let is_same = ours == theirs;
            // It becomes text only when a comparison fails, as that takes longer than to ask.
            history.push((request, ours, theirs));
            assert!(
                is_same,
                "seed {seed}: the last of these\n{}",
                shown(&history[history.len().saturating_sub(60)..])
            );
        }
    }
    assert!(n_replies > N_REQUESTS / 2, "{n_replies} replies");
}

#[test]
fn random_requests_get_the_replies_of_memcached() {
    let n_seeds = std::env::var("HOTRING_DIFFERENTIAL_SEEDS").map_or(1, |n| n.parse().unwrap());
    (0..n_seeds).for_each(compare);
}
