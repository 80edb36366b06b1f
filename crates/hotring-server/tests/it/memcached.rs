//! Tests of the memcached protocol over real sockets: its listener, both protocols at once, large
//! values, limits. The replies of each command are in the unit tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hotring_server::{Config, LogSettings, Running, start};

use crate::wire::{Wire, bulk, ok};

/// A server of both protocols, stopped on drop.
pub struct Both {
    running: Option<Running>,
    pub redis: SocketAddr,
    pub memcached: SocketAddr,
}

impl Both {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Self {
        let listen = vec!["127.0.0.1:0".to_string()];
        let mut config = Config { listen, threads: 2, ..Config::default() };
        config.memcached.listen = vec!["127.0.0.1:0".to_string()];
        change(&mut config);
        let running = start(config).expect("the server starts");
        let begun = Instant::now();
        while !running.is_loaded() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the data is not loaded");
            std::thread::sleep(Duration::from_millis(1));
        }
        let (redis, memcached) = (running.addresses()[0], running.memcached_addresses()[0]);
        Both { running: Some(running), redis, memcached }
    }
}

impl Drop for Both {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop();
            let _ = running.wait();
        }
    }
}

/// A connection that reads lines.
pub struct Lines {
    pub stream: TcpStream,
    pub reader: BufReader<TcpStream>,
}

impl Lines {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Lines { stream, reader }
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("sends");
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).expect("reads a line");
        line
    }

    /// Sends a request and reads its one-line reply.
    pub fn ask(&mut self, text: &str) -> String {
        self.send(text);
        self.line()
    }

    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn both_protocols_see_one_store() {
    let server = Both::new();
    let (mut lines, mut wire) = (Lines::connect(server.memcached), Wire::connect(server.redis));
    assert_eq!(lines.ask("set k 42 0 5\r\nhello\r\n"), "STORED\r\n");
    assert_eq!(wire.say("GET k"), bulk("hello"));
    wire.say("APPEND k !");
    lines.send("get k\r\n");
    assert_eq!(
        [lines.line(), lines.line(), lines.line()],
        ["VALUE k 42 6\r\n", "hello!\r\n", "END\r\n"]
    );
    assert!(wire.say("INFO stats").text().contains("total_commands_processed:"));
    let clients = wire.say("CLIENT LIST").text();
    assert_eq!(clients.lines().count(), 2, "{clients}");
    assert!(wire.say("CONFIG GET memcached").items()[1].text().starts_with("127.0.0.1:"));
}

/// Regression test: numbers of an earlier process were used again by the next.
#[test]
fn numbers_for_compare_and_swap_exceed_those_of_earlier_processes() {
    let before = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let server = Both::new();
    let reply = Lines::connect(server.memcached).ask("ms k 1 c\r\nx\r\n");
    let number: u64 = reply.trim_end().strip_prefix("HD c").unwrap().parse().unwrap();
    assert!(number >> 20 >= before && number < 1 << 63, "{number}");
}

/// The remaining time to live of an item, in seconds.
fn seconds_left(lines: &mut Lines, key: &str) -> u64 {
    let reply = lines.ask(&format!("mg {key} t\r\n"));
    let seconds = reply.strip_prefix("HD t").and_then(|rest| rest.split_whitespace().next());
    seconds.and_then(|seconds| seconds.parse().ok()).expect(&reply)
}

/// The log keeps all metadata of an item except its last access.
#[test]
fn metadata_of_an_item_outlasts_the_server() {
    let folder = format!("hotring-it-memcached-{}", std::process::id());
    let folder = std::env::temp_dir().join(folder);
    let server = || {
        Both::with(|c| {
            c.log = LogSettings { is_on: true, data: folder.clone(), ..LogSettings::default() };
        })
    };
    let before = server();
    let mut lines = Lines::connect(before.memcached);
    for key in ["stale", "won", "touched", "fetched", "vivified", "kept"] {
        assert_eq!(lines.ask(&format!("ms {key} 1 F7 E77\r\nx\r\n")), "HD\r\n");
    }
    for (request, reply) in [
        ("md stale I T1000", "HD"),
        ("md won I E99", "HD"),
        ("mg won", "HD X W"),
        ("touch touched 2000", "TOUCHED"),
        ("mg fetched T3000", "HD"),
        ("md vivified", "HD"),
        ("mg vivified N4000 E55", "HD W"),
        ("md kept E88 x", "HD"),
    ] {
        assert_eq!(lines.ask(&format!("{request}\r\n")).trim_end(), reply, "{request}");
    }
    drop(before);
    // From the log, and the second time from a snapshot; the winner of the token is stored, too.
    for stale in ["HD f7 X W", "HD f7 Z X"] {
        let server = server();
        let mut lines = Lines::connect(server.memcached);
        for (request, reply) in [
            ("mg stale f", stale),
            ("mg won c", "HD c99 Z X"),
            ("mg vivified c k", "HD c55 kvivified Z"),
            ("mg kept c s", "HD c88 s0"),
        ] {
            assert_eq!(lines.ask(&format!("{request}\r\n")).trim_end(), reply, "{request}");
        }
        for (key, seconds) in [("touched", 2000), ("fetched", 3000), ("vivified", 4000)] {
            let left = seconds_left(&mut lines, key);
            assert!((seconds - 60..=seconds).contains(&left), "{key}: {left}");
        }
        assert_eq!(Wire::connect(server.redis).say("SAVE"), ok());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn large_values_and_long_pipelines_come_through() {
    let server = Both::new();
    let mut lines = Lines::connect(server.memcached);
    let value = "v".repeat(1 << 20);
    assert_eq!(lines.ask(&format!("set big 1 0 {}\r\n{value}\r\n", value.len())), "STORED\r\n");
    lines.send("get big\r\n");
    assert_eq!(lines.line(), format!("VALUE big 1 {}\r\n", value.len()));
    assert_eq!(lines.line().len(), value.len() + 2);
    assert_eq!(lines.line(), "END\r\n");
    let too_big = "v".repeat((1 << 20) + 1);
    let reply = lines.ask(&format!("set big 1 0 {}\r\n{too_big}\r\n", too_big.len()));
    assert_eq!(reply, "SERVER_ERROR object too large for cache\r\n");
    lines.send(&"mg big s q k\r\n".repeat(1_000));
    lines.send("mn\r\n");
    assert_eq!(lines.line(), "MN\r\n", "what was too large took the old value along");
    lines
        .send(&(0..10_000).map(|i| format!("set k{i} 0 0 1 noreply\r\nx\r\n")).collect::<String>());
    let keys: String = (0..10_000).map(|i| format!(" k{i}")).collect();
    lines.send(&format!("get{keys}\r\n"));
    for i in 0..10_000 {
        assert_eq!(lines.line(), format!("VALUE k{i} 0 1\r\n"));
        assert_eq!(lines.line(), "x\r\n");
    }
    assert_eq!(lines.line(), "END\r\n");
}

#[test]
fn an_invalid_line_ends_only_its_connection() {
    let server = Both::new();
    let mut good = Lines::connect(server.memcached);
    for input in ["x".repeat(3_000), format!("get{}", " k".repeat(600_000)), "\0".repeat(100_000)] {
        let mut bad = Lines::connect(server.memcached);
        // The server may hang up before everything is sent.
        let _ = bad.stream.write_all(input.as_bytes());
        assert!(bad.is_closed());
        assert_eq!(good.ask("mn\r\n"), "MN\r\n");
    }
    let mut browser = Lines::connect(server.memcached);
    browser.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(browser.is_closed());
    // 2 GiB are announced; the server neither waits for them nor keeps them.
    let reply = good.ask("set k 0 0 2147483645\r\n");
    assert_eq!(reply, "SERVER_ERROR object too large for cache\r\n");
    let mut other = Lines::connect(server.memcached);
    assert_eq!(
        other.ask("set k 0 0 9223372036854775808\r\n"),
        "CLIENT_ERROR bad command line format\r\n"
    );
    assert_eq!(other.ask("set k 0 0 1\r\nx\r\n"), "STORED\r\n");
}

#[test]
fn a_connection_above_the_limit_gets_an_error() {
    let server = Both::with(|config| config.maxclients = 1);
    let mut first = Lines::connect(server.memcached);
    assert_eq!(first.ask("mn\r\n"), "MN\r\n");
    let mut second = Lines::connect(server.memcached);
    assert_eq!(second.line(), "ERROR Too many open connections\r\n");
}

#[test]
fn users_of_a_file_say_who_they_are() {
    let config = |auth_file| {
        let mut config = Config { port: 0, ..Config::default() };
        config.memcached.listen = vec!["127.0.0.1:0".to_string()];
        config.auth_failure_delay_ms = 1;
        config.memcached.auth_file = auth_file;
        config
    };
    let missing = start(config(Some("/none".into()))).err().expect("refused").to_string();
    assert!(missing.contains("cannot use memcached-auth-file /none"), "{missing}");
    let path = std::env::temp_dir().join(format!("hotring-users-{}", std::process::id()));
    std::fs::write(&path, "ann:secret\n").unwrap();
    let running = start(config(Some(path.clone()))).expect("starts");
    std::fs::remove_file(path).unwrap();
    let port = running.memcached_addresses()[0].port();
    let mut lines = Lines::connect(([127, 0, 0, 1], port).into());
    assert_eq!(lines.ask("get k\r\n"), "CLIENT_ERROR unauthenticated\r\n");
    let wrong = lines.ask("set x 0 0 9\r\nann wrong\r\n");
    assert_eq!(wrong, "CLIENT_ERROR authentication failure\r\n");
    assert_eq!(lines.ask("set x 0 0 10\r\nann secret\r\n"), "STORED\r\n");
    assert_eq!(lines.ask("get k\r\n"), "END\r\n");
    running.stop();
    running.wait().unwrap();
}

/// The number behind a letter in a meta reply.
fn flag(line: &str, letter: char) -> u64 {
    let word = line.split_whitespace().find(|word| word.starts_with(letter));
    let word = word.unwrap_or_else(|| panic!("no {letter} in {line:?}"));
    word[1..].parse().unwrap_or_else(|_| panic!("{letter} is no number in {line:?}"))
}

/// The requests of Dalli for Ruby and its parsing of the replies, taken from its source: it uses
/// only meta commands.
#[test]
fn dalli_reads_its_replies() {
    let server = Both::new();
    let mut lines = Lines::connect(server.memcached);
    assert!(lines.ask("version\r\n").starts_with("VERSION 1."));
    assert_eq!(lines.ask("mg key v f\r\n"), "EN\r\n");
    let stored = lines.ask("ms key 5 c F4 T300 MS\r\nhello\r\n");
    let cas = flag(&stored, 'c');
    assert!(stored.starts_with("HD ") && cas > 0, "{stored}");
    let header = lines.ask("mg key v f c\r\n");
    assert_eq!((flag(&header, 'f'), flag(&header, 'c')), (4, cas));
    assert!(header.starts_with("VA 5 "), "{header}");
    assert_eq!(lines.line(), "hello\r\n");
    // get_with_metadata, and the same with a touch.
    let header = lines.ask("mg key v f c h l t\r\n");
    assert_eq!((flag(&header, 'h'), flag(&header, 'l')), (0, 0));
    assert!((290..=300).contains(&flag(&header, 't')), "{header}");
    lines.line();
    assert_eq!(lines.ask("mg key T600\r\n"), "HD\r\n");
    // Compare and swap, by an earlier number and by the current one.
    assert!(lines.ask(&format!("ms key 1 c F0 C{} T0 MS\r\nx\r\n", cas + 1)).starts_with("EX"));
    assert!(lines.ask(&format!("ms key 1 c F0 C{cas} T0 MS\r\nx\r\n")).starts_with("HD c"));
    for (mode, reply) in [("ME", "NS"), ("MR", "HD"), ("MS", "HD")] {
        let reply_line = lines.ask(&format!("ms key 3 c F0 T0 {mode}\r\nyes\r\n"));
        assert!(reply_line.starts_with(reply), "{mode}: {reply_line}");
    }
    assert_eq!(lines.ask("ms key 1 T0 MA\r\n!\r\n"), "HD\r\n");
    assert_eq!(lines.ask("ms none 1 T0 MP\r\n!\r\n"), "NS\r\n");
    // incr and decr with an initial value, and without.
    assert_eq!(lines.ask("ma n v D1 MI\r\n"), "NF\r\n");
    for (request, number) in
        [("ma n v D1 J5 N60 MI", "5"), ("ma n v D2 J5 N60 MI", "7"), ("ma n v D9 MD", "0")]
    {
        assert!(lines.ask(&format!("{request}\r\n")).starts_with("VA 1"));
        assert_eq!(lines.line().trim_end(), number);
    }
    // get_multi: the existing keys, and the end. Keys with special bytes are sent as base64.
    assert!(lines.ask("ms 5pel5pys 2 c b F0 T0 MS\r\nhi\r\n").starts_with("HD "));
    lines.send("mg key v f k q s\r\nmg none v f k q s\r\nmg 5pel5pys v f b k q s\r\nmn\r\n");
    let header = lines.line();
    assert_eq!(flag(&header, 's'), 4);
    assert!(header.starts_with("VA 4 ") && header.contains(" kkey"), "{header}");
    assert_eq!(lines.line(), "yes!\r\n");
    let header = lines.line();
    assert!(
        header.contains(" k5pel5pys") && header.split_whitespace().any(|word| word == "b"),
        "{header}"
    );
    assert_eq!([lines.line(), lines.line()], ["hi\r\n", "MN\r\n"]);
    // Quiet requests, up to the one that is answered.
    lines.send("ms quiet 1 c F0 T0 MS q\r\nx\r\nmd key q\r\nmn\r\n");
    assert_eq!(lines.line(), "MN\r\n");
    assert_eq!(lines.ask("md quiet\r\n"), "HD\r\n");
    assert_eq!(lines.ask("md key\r\n"), "NF\r\n");
    assert!(lines.ask("stats\r\n").starts_with("STAT "));
    while lines.line() != "END\r\n" {}
    assert_eq!(lines.ask("stats reset\r\n"), "RESET\r\n");
    assert_eq!(lines.ask("flush_all\r\n"), "OK\r\n");
    assert_eq!(lines.ask("mg n v f\r\n"), "EN\r\n");
}
