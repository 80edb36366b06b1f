//! Compares this server with a real `redis-server`: random requests must get the same replies, byte
//! for byte.
//!
//! Not compared: replies about the server or the connection, and random ones. Where order is free
//! (KEYS, SCAN), sets are compared. A time to live may differ by the offset of the two servers'
//! clocks. Known differences are not requested; `requests` lists them.
//!
//! `HOTRING_DIFFERENTIAL_SEEDS` makes it run longer. Without a `redis-server` of version 7 it
//! prints so and does nothing.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hotring_protocol::{Part, ReplyLimits, find_part, read_part};

use crate::requests::{History, Random, random_frames, random_request, show};
use crate::wire::{Reply, TestServer, Wire, bulk, request};

/// Requests of each run.
const N_REQUESTS: usize = 40_000;
/// Requests sent before their replies are read.
const BATCH_LEN: usize = 50;
/// Largest difference between two times to live, in milliseconds.
const CLOCK_SLACK_MS: i64 = 5_000;

/// A Redis server, killed on drop.
pub struct Redis {
    process: Child,
    directory: PathBuf,
    pub address: SocketAddr,
}

impl Redis {
    /// `None` without a `redis-server` of the compared version.
    pub fn start() -> Option<Self> {
        Self::start_with("16")
    }

    /// A server to follow: the program that `HOTRING_SOURCE` names, a Redis or Valkey of any version, or the one with
    /// which replies are compared.
    pub fn source() -> Option<Self> {
        match std::env::var_os("HOTRING_SOURCE") {
            Some(program) => Some(Self::run(&program, |_| vec!["--databases".into(), "16".into()])),
            None => Self::start(),
        }
    }

    /// With this number of databases.
    pub fn start_with(databases: &str) -> Option<Self> {
        Self::start_as(|_| vec!["--databases".into(), databases.into()])
    }

    /// With further options, which may name files in its folder.
    pub fn start_as(options: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        let version = Command::new("redis-server").arg("--version").output();
        let version = version
            .inspect_err(|error| eprintln!("skipped: redis-server does not run: {error}"))
            .ok()?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        if !version.contains(" v=7.") {
            eprintln!("skipped: replies are compared with Redis 7, this is {}", version.trim());
            return None;
        }
        Some(Self::run("redis-server".as_ref(), options))
    }

    fn run(program: &OsStr, options: impl FnOnce(&Path) -> Vec<String>) -> Self {
        // Bound and released: the port is most likely still free a moment later.
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let directory = std::env::temp_dir().join(format!("hotring-differential-{port}"));
        std::fs::create_dir_all(&directory).unwrap();
        let process = Command::new(program)
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .args(options(&directory))
            .arg("--dir")
            .arg(&directory)
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        let redis = Redis { process, directory, address: ([127, 0, 0, 1], port).into() };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(redis.address).is_err() {
            assert!(Instant::now() < deadline, "the program does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        redis
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        self.process.kill().ok();
        self.process.wait().ok();
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

/// A connection that keeps replies as raw bytes.
pub struct Raw {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw { stream, unread: Vec::new() }
    }

    pub fn ask(&mut self, args: &[&[u8]]) -> Vec<u8> {
        self.send(args);
        self.reply()
    }

    /// Ends the connection. At its end the server has forgotten it, which a reply to QUIT does not say.
    pub fn quit(mut self) {
        self.ask(&[b"QUIT"]);
        assert_eq!(self.stream.read(&mut [0]).unwrap(), 0, "the connection goes on after QUIT");
    }

    pub fn send(&mut self, args: &[&[u8]]) {
        self.stream.write_all(&request(args)).unwrap();
    }

    pub(crate) fn reply(&mut self) -> Vec<u8> {
        let (mut len, mut n_missing) = (0, 1);
        while n_missing > 0 {
            let input = &self.unread[len..];
            match find_part(input, &ReplyLimits::default()).expect("a reply of RESP") {
                Some((part, part_len)) => {
                    len += part_len;
                    n_missing = n_missing - 1 + part.n_elements();
                }
                None => self.receive(),
            }
        }
        self.unread.drain(..len).collect()
    }

    fn receive(&mut self) {
        let mut chunk = [0; 16 << 10];
        let len = self.stream.read(&mut chunk).unwrap();
        assert!(len > 0, "the connection ended inside a reply");
        self.unread.extend_from_slice(&chunk[..len]);
    }

    /// The strings of an array, sorted.
    fn ask_sorted(&mut self, args: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut strings = strings(&self.ask(args));
        strings.sort();
        strings
    }

    /// All keys, by SCAN.
    fn scan(&mut self, options: &[&[u8]]) -> Vec<Vec<u8>> {
        let (mut cursor, mut keys) = (b"0".to_vec(), Vec::new());
        loop {
            let args = [&[b"SCAN", cursor.as_slice()], options].concat();
            let mut page = strings(&self.ask(&args));
            cursor = page.remove(0);
            keys.append(&mut page);
            if cursor == b"0" {
                keys.sort();
                keys.dedup();
                return keys;
            }
        }
    }
}

/// The number in a line such as `:12\r\n`.
fn integer(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line.get(1..)?).ok()?.trim_end().parse().ok()
}

/// All bulk strings in a reply, at any depth.
fn strings(mut reply: &[u8]) -> Vec<Vec<u8>> {
    let mut strings = Vec::new();
    while let Some(part) = read_part(&mut reply) {
        match part {
            Part::Bulk(bytes) => strings.push(bytes.to_vec()),
            Part::Array(_) | Part::Map(_) => {}
            other => panic!("not an array of strings: {other:?}"),
        }
    }
    assert!(reply.is_empty(), "not a reply: {}", reply.escape_ascii());
    strings
}

/// Whether the replies are equal, up to the time that has passed.
fn same(args: &[Vec<u8>], ours: &[u8], theirs: &[u8]) -> bool {
    let slack = match args[0].to_ascii_lowercase().as_slice() {
        b"ttl" | b"expiretime" => CLOCK_SLACK_MS / 1000,
        b"pttl" | b"pexpiretime" => CLOCK_SLACK_MS,
        // One page in any order; the complete walk is compared elsewhere.
        b"scan" if ours[0] == b'*' => return theirs[0] == b'*',
        // Redis shows a large hash in parts.
        b"hscan" if is_listing(ours) && !theirs.starts_with(b"*2\r\n$1\r\n0\r\n") => {
            return is_listing(theirs);
        }
        // A hash's fields in any order, each with its value.
        b"hgetall" | b"hscan" if is_listing(ours) => return same_items(ours, theirs, 2),
        b"hkeys" | b"hvals" if is_listing(ours) => return same_items(ours, theirs, 1),
        _ => return ours == theirs,
    };
    match (integer(ours), integer(theirs)) {
        (Some(a), Some(b)) if a > 0 && b > 0 => a.abs_diff(b) <= slack as u64,
        _ => ours == theirs,
    }
}

fn is_listing(reply: &[u8]) -> bool {
    matches!(reply[0], b'*' | b'%')
}

/// Whether both replies begin alike and hold the same strings, in groups of `group` in any order.
fn same_items(ours: &[u8], theirs: &[u8], group: usize) -> bool {
    let sorted = |reply: &[u8]| {
        let mut strings = strings(reply);
        // The cursor of HSCAN makes the number odd.
        let cursor = if strings.len() % group == 1 { Some(strings.remove(0)) } else { None };
        let mut groups: Vec<_> = strings.chunks(group).map(<[Vec<u8>]>::to_vec).collect();
        groups.sort();
        (reply[0], cursor, groups)
    };
    ours[0] == theirs[0] && sorted(ours) == sorted(theirs)
}

/// Fails unless the replies are equal. They and the request become text only then.
#[track_caller]
pub fn assert_equal_replies(ours: &[u8], theirs: &[u8], request: impl FnOnce() -> String) {
    assert!(
        ours == theirs,
        "{}\n ours: {}\nredis: {}",
        request(),
        ours.escape_ascii(),
        theirs.escape_ascii()
    );
}

/// Sends the same requests to both and compares each reply, and sometimes all data.
fn compare(seed: u64, hello: &[u8]) {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    for raw in [&mut ours, &mut theirs] {
        assert!(!raw.ask(&[b"HELLO", hello]).starts_with(b"-"));
    }
    let mut random = Random::new(seed);
    let mut history = History::default();
    for batch in 0..N_REQUESTS / BATCH_LEN {
        let requests: Vec<_> = (0..BATCH_LEN).map(|_| random_request(&mut random)).collect();
        let bytes: Vec<u8> = requests.iter().flat_map(|args| request(args)).collect();
        ours.stream.write_all(&bytes).unwrap();
        theirs.stream.write_all(&bytes).unwrap();
        for args in &requests {
            let (our, their) = (ours.reply(), theirs.reply());
            history.push(args, &their);
            assert!(
                same(args, &our, &their),
                "seed {seed}: {}\n ours: {}\nredis: {}\nbefore:\n{}",
                show(args),
                our.escape_ascii(),
                their.escape_ascii(),
                history.last(100),
            );
        }
        if batch % 20 == 0 {
            compare_content(&mut ours, &mut theirs);
        }
    }
}

pub fn compare_content(ours: &mut Raw, theirs: &mut Raw) {
    let keys = ours.ask_sorted(&[b"KEYS", b"*"]);
    assert_eq!(keys, theirs.ask_sorted(&[b"KEYS", b"*"]));
    for pattern in [&b"k[0-2]"[..], b"*1*", b"[^k]*", b"?", "k\\0".as_bytes(), b""] {
        let found = theirs.ask_sorted(&[b"KEYS", pattern]);
        assert_eq!(ours.ask_sorted(&[b"KEYS", pattern]), found, "{}", pattern.escape_ascii());
        let options: [&[u8]; 4] = [b"MATCH", pattern, b"COUNT", b"3"];
        assert_eq!(ours.scan(&options), found);
    }
    for value_type in [&b"string"[..], b"hash", b"list"] {
        let options: [&[u8]; 2] = [b"TYPE", value_type];
        assert_eq!(ours.scan(&options), theirs.scan(&options));
    }
    for key in &keys {
        for command in [&b"GET"[..], b"STRLEN", b"TYPE", b"PEXPIRETIME", b"HGETALL"] {
            let args = [command.to_vec(), key.clone()];
            let (our, their) = (ours.ask(&[command, key]), theirs.ask(&[command, key]));
            assert!(
                same(&args, &our, &their),
                "{}\n ours: {}\nredis: {}",
                show(&args),
                our.escape_ascii(),
                their.escape_ascii()
            );
        }
    }
}

/// Compares the keyspace events of random requests. Two writes of one key in one request are not
/// requested: Redis reports both. Nor is SET with a time that has passed: when the key expires is
/// not fixed.
#[test]
fn keyspace_events_are_as_in_redis() {
    const ROUNDS: usize = 3_000;
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let addresses = [server.address, redis.address];
    let mut writers = addresses.map(Raw::connect);
    let mut listeners = addresses.map(Raw::connect);
    for listener in &mut listeners {
        listener.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b"KEAn"]);
        listener.ask(&[b"PSUBSCRIBE", b"*"]);
    }
    let mut random = Random::new(11);
    let mut n_told = 0;
    for round in 0..ROUNDS {
        let args = exact_request(&mut random);
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let name = words[0].to_ascii_uppercase();
        let repeats = (1..words.len()).any(|i| words[i + 1..].contains(&words[i]));
        let is_past = |pair: &[&[u8]]| {
            let is_date = [&b"PXAT"[..], b"EXAT"].iter().any(|at| pair[0].eq_ignore_ascii_case(at));
            is_date && pair[1] == b"1"
        };
        let sets_expired = name == b"SET" && words.windows(2).any(is_past);
        if name.starts_with(b"MSET") && repeats || sets_expired {
            continue;
        }
        let replies = writers.each_mut().map(|writer| writer.ask(&words));
        // All earlier events have arrived.
        let end = format!("end-{round}");
        for writer in &mut writers {
            writer.ask(&[b"PUBLISH", b"end", end.as_bytes()]);
        }
        let told = listeners.each_mut().map(|listener| {
            let mut told = Vec::new();
            loop {
                let message = strings(&listener.reply());
                if message[2] == b"end" {
                    return told;
                }
                told.push(format!("{} {}", message[2].escape_ascii(), message[3].escape_ascii()));
            }
        });
        n_told += told[1].len();
        assert_eq!(told[0], told[1], "{}: {}", show(&args), replies[1].escape_ascii());
    }
    assert!(n_told > 1_000, "{n_told} messages");
}

/// A request for transactions, without times and without lists in any order: its replies are
/// compared exactly.
pub fn exact_request(random: &mut Random) -> Vec<Vec<u8>> {
    loop {
        let args = random_request(random);
        let name = args[0].to_ascii_uppercase();
        let inexact = [
            &b"TTL"[..],
            b"PTTL",
            b"EXPIRETIME",
            b"PEXPIRETIME",
            b"SCAN",
            b"KEYS",
            b"HGETALL",
            b"HKEYS",
            b"HVALS",
            b"HSCAN",
        ];
        if !inexact.contains(&name.as_slice()) {
            return args;
        }
    }
}

/// Transactions, keys under WATCH that another connection writes, and requests that are refused.
fn compare_transactions(seed: u64, hello: &[u8]) {
    const ROUNDS: usize = 400;
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let mut pairs = [(); 2].map(|()| [Raw::connect(server.address), Raw::connect(redis.address)]);
    for raw in pairs.iter_mut().flatten() {
        assert!(!raw.ask(&[b"HELLO", hello]).starts_with(b"-"));
    }
    let mut random = Random::new(seed);
    let mut ended = [0; 3];
    for round in 0..ROUNDS {
        let mut script = Vec::new();
        let say = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let keys: [&[u8]; 3] = [b"k0", b"k1", b"k2"];
        (0..random.below(3)).for_each(|i| script.push((0, say(&[b"WATCH", keys[i as usize]]))));
        // Connection 1 is another client; its requests may have no effect.
        (0..random.below(3)).for_each(|_| script.push((1, exact_request(&mut random))));
        if random.below(8) == 0 {
            script.push((1, say(&[b"SET", b"k0", b"7"])));
        }
        let odd = [&b"MULTI"[..], b"UNWATCH", b"EXEC", b"DISCARD"];
        if random.below(8) == 0 {
            script.push((0, say(&[odd[random.below(4) as usize]])));
        }
        script.push((0, say(&[b"MULTI"])));
        (0..random.below(6)).for_each(|_| script.push((0, exact_request(&mut random))));
        match random.below(12) {
            0 => script.push((0, say(&[b"NONSENSE", b"x"]))),
            1 => script.push((0, say(&[b"WATCH", b"k0"]))),
            2 => script.push((0, say(&[b"EXEC", b"x"]))),
            _ => {}
        }
        script.push((0, say(&[if random.below(8) == 0 { b"DISCARD" } else { b"EXEC" }])));
        script.push((0, say(&[b"DISCARD"])));
        script.push((0, say(&[b"UNWATCH"])));
        for (client, args) in script {
            let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            let [ours, theirs] = pairs[client].each_mut().map(|raw| raw.ask(&words));
            let what = format!("seed {seed}, round {round}, client {client}: {}", show(&args));
            assert_eq!(
                ours.escape_ascii().to_string(),
                theirs.escape_ascii().to_string(),
                "{what}"
            );
            if args[0] == b"EXEC" {
                let kinds: [&[u8]; 3] = [b"*-1", b"_", b"-EXECABORT"];
                let kind = kinds.iter().position(|kind| ours.starts_with(kind)).unwrap_or(3);
                ended[[0, 0, 1, 2][kind]] += 1;
            }
        }
        if round % 20 == 0 {
            let [ours, theirs] = &mut pairs[1];
            compare_content(ours, theirs);
        }
    }
    assert!(ended.iter().all(|n| *n > 5), "changed, refused, run: {ended:?}");
}

#[test]
fn random_transactions_get_the_replies_of_redis() {
    for seed in 0..n_seeds() {
        compare_transactions(seed, b"2");
        compare_transactions(seed, b"3");
    }
}

/// All replies to `input` until the server closes the connection.
pub fn converse(address: SocketAddr, input: &[u8]) -> Vec<u8> {
    let mut raw = Raw::connect(address);
    // A server that has closed already may refuse the rest.
    raw.stream.write_all(input).ok();
    raw.stream.shutdown(Shutdown::Write).ok();
    let mut replies = Vec::new();
    raw.stream.read_to_end(&mut replies).ok();
    replies
}

#[test]
fn random_frames_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let mut random = Random::new(7);
    let mut n_errors = 0;
    for _ in 0..1500 * n_seeds() {
        let input = random_frames(&mut random);
        let (ours, theirs) = (converse(server.address, &input), converse(redis.address, &input));
        n_errors += u64::from(theirs.windows(14).any(|window| window == b"Protocol error"));
        assert!(
            ours == theirs,
            "{}\n ours: {}\nredis: {}",
            input.escape_ascii(),
            ours.escape_ascii(),
            theirs.escape_ascii()
        );
    }
    assert!(n_errors > 100, "only {n_errors} of the inputs were malformed");
}

/// The number of request sequences; more for a long run.
pub fn n_seeds() -> u64 {
    std::env::var("HOTRING_DIFFERENTIAL_SEEDS").map_or(1, |n| n.parse().expect("a number"))
}

#[test]
fn random_requests_get_the_replies_of_redis_in_resp2() {
    for seed in 0..n_seeds() {
        compare(seed, b"2");
    }
}

#[test]
fn random_requests_get_the_replies_of_redis_in_resp3() {
    for seed in 0..n_seeds() {
        compare(seed + 1_000_000, b"3");
    }
}

/// Compares the properties that clients use: name, arity, flags, key positions, categories, key
/// specifications.
fn compare_command(ours: &Reply, theirs: &Reply) {
    const KEYS: usize = 8;
    const SUBCOMMANDS: usize = 9;
    const FIELDS: usize = 6;
    let sorted = |reply: &Reply| {
        let mut names: Vec<String> = reply.items().iter().map(Reply::text).collect();
        names.sort();
        names
    };
    let (ours, theirs) = (ours.items(), theirs.items());
    let name = ours[0].text();
    // REPLICAOF takes FORCE here, and runs while a copy loads.
    let is_own = ["replicaof", "slaveof"].contains(&name.as_str());
    for part in [0, 1, 3, 4, 5] {
        // Since 7.2, the keys of a command without arguments may be requested.
        // ZRANK takes WITHSCORE since then.
        let is_newer = name.starts_with("command|getkeys") || name.ends_with("rank") || is_own;
        if !is_newer || part != 1 {
            assert_eq!(ours[part], theirs[part], "{name}");
        }
    }
    for part in [2, 6] {
        // Redis puts some container commands into the category of their group.
        if ![("client", 6), ("object", 6)].contains(&(name.as_str(), part)) {
            let (ours, mut theirs) = (sorted(&ours[part]), sorted(&theirs[part]));
            // Since 7.2, scripts may call commands that wait: they take what is there.
            theirs.retain(|flag| flag != "noscript" || !ours.iter().any(|ours| ours == "blocking"));
            if is_own && part == 2 {
                theirs.push("loading".to_string());
                theirs.sort();
            }
            assert_eq!(ours, theirs, "{name}");
        }
    }
    // Optional fields of a key specification, such as notes.
    let fields = |reply: &Reply| {
        let specs = reply.items().iter().map(Reply::items);
        specs.map(|spec| spec[spec.len() - FIELDS..].to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(fields(&ours[KEYS]), fields(&theirs[KEYS]), "{name}");
    for sub in ours[SUBCOMMANDS].items() {
        let same_name = |other: &&Reply| other.items()[0] == sub.items()[0];
        if let Some(other) = theirs[SUBCOMMANDS].items().iter().find(same_name) {
            compare_command(sub, other);
        }
    }
}

/// Commands that Redis 7 does not have, beside those that begin with `hotring.`.
const OURS: [&str; 13] = [
    "delex", "delifeq", "digest", "history", "increx", "msetex", "pin", "pinned", "rollback",
    "scrub", "unpin", "waitaof", "waitkey",
];

/// Commands that Redis has since 7.4 or later: an older one does not know them.
const NEWER: [&str; 12] = [
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hgetdel",
    "hgetex",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hsetex",
    "httl",
];

#[test]
fn the_table_of_commands_agrees_with_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (server.connect(), Wire::connect(redis.address));
    let names = ours.say("COMMAND LIST");
    assert!(names.items().len() > 50);
    assert!(names.items().contains(&bulk("client|id")), "Redis lists subcommands, too");
    // Subcommands are compared with their commands.
    for name in names.items().iter().filter(|name| !name.text().contains('|')) {
        let request = format!("COMMAND INFO {}", name.text());
        let (our_word, their_word) = (ours.say(&request), theirs.say(&request));
        let text = name.text();
        let whole = text.split('|').next().unwrap_or_default();
        if OURS.contains(&whole) || whole.starts_with("hotring.") {
            assert_eq!(their_word.items()[0], Reply::Null, "Redis has {text} by now");
        } else if their_word.items()[0] == Reply::Null {
            assert!(NEWER.contains(&name.text().as_str()), "Redis has no {}", name.text());
        } else {
            compare_command(&our_word.items()[0], &their_word.items()[0]);
        }
    }
}

#[test]
fn dumped_values_are_restored_by_the_other_server() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    let run = b"a run of bytes that is worth compressing, ".repeat(20);
    let lengths = [0, 1, 5, 20, 21, 63, 64, 200, 5_000, 16_383, 16_384, 70_000];
    let mut values: Vec<Vec<u8>> =
        lengths.map(|len| (0..len).map(|i| (i * i) as u8).collect()).to_vec();
    values.extend(lengths.map(|len| run.iter().copied().cycle().take(len).collect()));
    for shift in 0..63 {
        values
            .extend([1i64 << shift, -(1 << shift), (1 << shift) - 1].map(|n| n.to_string().into()));
    }
    for (i, value) in values.iter().enumerate() {
        let other = &values[values.len() - 1 - i];
        for raw in [&mut ours, &mut theirs] {
            raw.ask(&[b"DEL", b"s", b"h"]);
            assert_eq!(raw.ask(&[b"SET", b"s", value]), b"+OK\r\n");
            assert_eq!(raw.ask(&[b"HSET", b"h", value, other, b"f", value]), b":2\r\n");
        }
        for key in [&b"s"[..], b"h"] {
            let [from_us, from_them] = [&mut ours, &mut theirs].map(|raw| {
                let reply = raw.ask(&[b"DUMP", key]);
                strings(&reply).remove(0)
            });
            // A string that Redis does not compress has only one encoding.
            if key == b"s" && value.len() <= 20 {
                assert_eq!(
                    from_us.escape_ascii().to_string(),
                    from_them.escape_ascii().to_string()
                );
            }
            for (raw, payload) in [(&mut ours, from_them), (&mut theirs, from_us)] {
                let restored = raw.ask(&[b"RESTORE", b"r", b"0", &payload, b"REPLACE"]);
                assert_eq!(restored, b"+OK\r\n", "{}", payload.escape_ascii());
                let read: &[u8] = if key == b"s" { b"GET" } else { b"HGETALL" };
                let original = raw.ask(&[read, key]);
                assert!(same_items(
                    &raw.ask(&[read, b"r"]),
                    &original,
                    1 + usize::from(key == b"h")
                ));
            }
        }
    }
}
