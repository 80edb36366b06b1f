//! Servers that are still loading: replies to early clients, and no loss by early requests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex};
use std::time::Instant;

use hotring_log::storage::Memory;
use hotring_log::{AckWhen, File};

use super::*;
use rustix::process::{Signal, getpid, kill_process};

use crate::run::{Running, prepare, serve, start_with};
use hotring_commands::settings::config::{Config, LogFormat, LogSettings};
use hotring_commands::state::loading::LOADING;

/// A gate; while it is closed, nothing behind it can be read.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn set(&self, is_closed: bool) {
        *self.0.0.lock().unwrap() = is_closed;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |is_closed| *is_closed).unwrap());
    }
}

/// A disk with gates: in snapshots after the first block, in log segments after the beginning.
#[derive(Clone, Default)]
struct Gated {
    memory: Memory,
    gate: Gate,
    log_gate: Gate,
    /// Reads of segments behind their gate.
    log_reads: Arc<AtomicU64>,
    /// Reading behind the gate of a snapshot panics.
    panics: Arc<AtomicBool>,
}

/// Bytes of a segment that are before its gate.
const LOG_HELD: u64 = 1 << 20;

struct GatedFile {
    file: Arc<dyn File>,
    gate: Gate,
    /// The bytes behind the gate: of a snapshot from the second block to the footer.
    held: std::ops::Range<u64>,
    reads: Arc<AtomicU64>,
    panics: Arc<AtomicBool>,
}

impl Storage for Gated {
    fn location(&self) -> String {
        self.memory.location()
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.memory.create(name)
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = self.memory.open(name)?;
        if !name.ends_with(".hrs") {
            let (gate, reads) = (self.log_gate.clone(), self.log_reads.clone());
            let (held, panics) = (LOG_HELD..u64::MAX, Arc::default());
            return Ok(Arc::new(GatedFile { file, gate, held, reads, panics }));
        }
        let mut length = [0; 8];
        file.read_at(&mut length, 64)?;
        let held = 64 + 24 + u64::from_le_bytes(length) + 24..file.size()? - 36;
        let (gate, panics) = (self.gate.clone(), self.panics.clone());
        Ok(Arc::new(GatedFile { file, gate, held, reads: Arc::default(), panics }))
    }
    fn open_to_write(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.memory.open_to_write(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.memory.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }
    fn sync(&self) -> io::Result<()> {
        self.memory.sync()
    }
}

impl File for GatedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if self.held.contains(&at) {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.gate.pass();
            assert!(!self.panics.load(Ordering::Relaxed), "it was told to panic");
        }
        self.file.read_at(buffer, at)
    }
    fn write_all_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.file.preallocate(len)
    }
}

fn config() -> Config {
    let log = LogSettings { is_on: true, when: AckWhen::Written, ..LogSettings::default() };
    let listen = vec!["127.0.0.1:0".to_string()];
    let mut config = Config { listen, threads: 2, log, ..Config::default() };
    config.memcached.listen = vec!["127.0.0.1:0".to_string()];
    config.admin = Some("127.0.0.1:0".to_string());
    config
}

fn server(disk: &Gated) -> Running {
    start_with(config(), Box::new(|_| {}), &|_| Ok(disk.clone())).unwrap()
}

struct Wire(BufReader<TcpStream>);

impl Wire {
    fn new(address: SocketAddr) -> Wire {
        Wire(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    /// The first line of the reply.
    fn say(&mut self, request: &str) -> String {
        self.0.get_mut().write_all(format!("{request}\r\n").as_bytes()).unwrap();
        self.line()
    }

    /// The value, or the first line of another reply.
    fn get(&mut self, key: &str) -> String {
        let head = self.say(&format!("GET {key}"));
        if head.starts_with('$') && head != "$-1" { self.line() } else { head }
    }

    fn info(&mut self, name: &str) -> Option<String> {
        let head = self.say("INFO persistence");
        let mut text = vec![0; head[1..].parse::<usize>().unwrap() + 2];
        self.0.read_exact(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut lines = text.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_string()))
    }
}

fn status(running: &Running, path: &str) -> String {
    let mut stream = TcpStream::connect(running.admin_address().unwrap()).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let code = text.split(' ').nth(1).unwrap();
    format!("{code} {}", text.rsplit("\r\n").next().unwrap().trim_end())
}

fn end(running: Running) {
    running.stop();
    running.wait().unwrap();
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::yield_now();
    }
}

const COLD: usize = 3_000;

/// A disk with a snapshot, whose first block has the hot key, and a log behind it.
fn saved() -> Gated {
    let disk = Gated::default();
    let running = server(&disk);
    let mut wire = Wire::new(running.addresses()[0]);
    assert_eq!(wire.say("SET hot before"), "+OK");
    assert_eq!(wire.say("SET hot2 gone"), "+OK");
    let long = "x".repeat(1_000);
    for i in 0..COLD {
        assert_eq!(wire.say(&format!("SET cold:{i} {long}{i}")), "+OK");
    }
    // Puts the keys on the list of hot keys.
    for _ in 0..4_000 {
        assert_eq!(wire.get("hot"), "before");
        assert_eq!(wire.get("hot2"), "gone");
    }
    assert_eq!(wire.say("SAVE"), "+OK");
    for (request, reply) in [
        ("SET hot after", "+OK"),
        ("DEL hot2", ":1"),
        ("DEL cold:5", ":1"),
        ("PEXPIREAT cold:6 33000000000000", ":1"),
        ("SET cold:7 anew", "+OK"),
        ("DEL cold:8", ":1"),
        ("SET cold:8 back", "+OK"),
        ("PEXPIREAT cold:9 33000000000000", ":1"),
        ("PERSIST cold:9", ":1"),
        ("PEXPIREAT cold:10 1", ":1"),
        ("SET new 1", "+OK"),
        ("SET cold:11 short PX 1", "+OK"),
    ] {
        assert_eq!(wire.say(request), reply, "{request}");
    }
    end(running);
    disk
}

/// Checks all data, once it is loaded.
fn check_all(wire: &mut Wire) {
    let cold = |i: usize| format!("{}{i}", "x".repeat(1_000));
    for (key, value) in [("hot", "after"), ("cold:7", "anew"), ("cold:8", "back"), ("new", "1")] {
        assert_eq!(wire.get(key), value);
    }
    for i in [0, 6, 9, 12, COLD - 1] {
        assert_eq!(wire.get(&format!("cold:{i}")), cold(i));
    }
    for key in ["hot2", "cold:5", "cold:10", "cold:11"] {
        assert_eq!(wire.get(key), "$-1", "{key}");
    }
    assert_eq!(wire.say("PEXPIRETIME cold:6"), ":33000000000000");
    assert_eq!(wire.say("PEXPIRETIME cold:9"), ":-1");
    assert_eq!(wire.say("DBSIZE"), format!(":{}", COLD - 3 + 2));
}

#[test]
fn hot_keys_are_served_during_loading() {
    let disk = saved();
    disk.gate.set(true);
    let running = server(&disk);
    assert!(!running.is_loaded());
    let mut wire = Wire::new(running.addresses()[0]);
    for (key, value) in [("hot", "after"), ("cold:7", "anew"), ("cold:8", "back"), ("new", "1")] {
        assert_eq!(wire.get(key), value);
    }
    let loading = format!("-{LOADING}");
    for request in [
        "GET cold:0",
        "GET cold:5",
        "GET hot2",
        "GET nothing",
        "EXISTS cold:6",
        "MGET hot cold:9",
        "SET hot 2",
        "INCR new",
        "DEL hot",
        "EXPIRE hot 3",
        "DBSIZE",
        "SCAN 0",
        "KEYS *",
        "SAVE",
        "RANDOMKEY",
        "FLUSHALL",
        "EVAL_RO return 0",
        "WAITKEY hot 100 =x",
        "GETDEL hot",
        // A look at an expired key must not remove it.
        "WATCH hot",
        "WATCH cold:11",
        "GET cold:11",
        "TOUCH cold:11",
    ] {
        let reply = wire.say(request);
        assert!(reply == loading || reply.starts_with("-ERR wrong number"), "{request}: {reply}");
    }
    assert_eq!(wire.say("PING"), loading, "as Redis has it");
    assert!(wire.say("CLIENT ID").starts_with(':'));
    assert_eq!(wire.say("CONFIG SET maxmemory-policy allkeys-lru"), "+OK");
    assert_eq!(wire.say("CONFIG SET maxmemory 1mb"), "+OK", "and nothing is evicted");
    assert_eq!(wire.say("MULTI"), "+OK");
    assert_eq!(wire.say("GET hot"), "+QUEUED");
    assert_eq!(wire.say("EXEC"), "*1");
    assert_eq!([wire.line(), wire.line()], ["$5", "after"]);
    assert_eq!(wire.say("MULTI"), "+OK");
    assert_eq!(wire.say("GET cold:0"), loading);
    assert!(wire.say("EXEC").starts_with("-EXECABORT"));
    assert_eq!(wire.info("loading").unwrap(), "1");
    assert_eq!(wire.info("loading_hot_ready").unwrap(), "1");
    assert!(wire.info("loading_total_bytes").unwrap().parse::<usize>().unwrap() > COLD * 1_000);
    assert_eq!(status(&running, "/readyz"), "503 hot-ready");
    assert_eq!(status(&running, "/readyz/hot"), "200 hot-ready");
    let mut memcached = Wire::new(running.memcached_addresses()[0]);
    assert_eq!(memcached.say("get hot"), "VALUE hot 0 5");
    assert_eq!([memcached.line(), memcached.line()], ["after", "END"]);
    for request in [
        "gets cold:11",
        "mg cold:11 c v",
        "get cold:0",
        "get hot cold:0",
        "mg hot v T30",
        "delete hot",
        "flush_all",
    ] {
        assert_eq!(memcached.say(request), format!("SERVER_ERROR {LOADING}"), "{request}");
    }
    assert_eq!(memcached.say("mg hot v"), "VA 5");
    assert_eq!(memcached.line(), "after");
    assert!(memcached.say("version").starts_with("VERSION"));
    assert_eq!(wire.say("CONFIG SET maxmemory 0"), "+OK");
    disk.gate.set(false);
    wait_for("all is loaded", || running.is_loaded());
    assert_eq!(wire.info("loading").unwrap(), "0");
    assert_eq!(status(&running, "/readyz"), "200 ready");
    // It expires now, and not before its expiry time was known.
    wait_for("it is removed", || wire.say("DBSIZE") == format!(":{}", COLD - 3 + 2));
    check_all(&mut wire);
    assert_eq!(wire.say("INCR new"), ":2");
    end(running);
    let running = server(&disk);
    wait_for("all is loaded", || running.is_loaded());
    assert_eq!(Wire::new(running.addresses()[0]).get("new"), "2", "it has been logged");
    end(running);
}

#[test]
fn a_server_that_ends_while_it_loads_loses_nothing() {
    let disk = saved();
    disk.gate.set(true);
    let running = server(&disk);
    assert_eq!(Wire::new(running.addresses()[0]).get("hot"), "after");
    running.stop();
    disk.gate.set(false);
    running.wait().unwrap();
    let running = server(&disk);
    wait_for("all is loaded", || running.is_loaded());
    let mut wire = Wire::new(running.addresses()[0]);
    wait_for("it is removed", || wire.say("DBSIZE") == format!(":{}", COLD - 3 + 2));
    check_all(&mut wire);
    end(running);
}

/// Stops a server that is reading its log.
fn ends_before_it_has_read_its_log(name: &str, ask: fn(&Path)) {
    const MIB: usize = 1 << 20;
    let disk = Gated::default();
    let running = server(&disk);
    let mut wire = Wire::new(running.addresses()[0]);
    // As long as a request in one line may be.
    let part = "x".repeat(MIB / 32);
    for (i, n) in (0..12).flat_map(|i| (0..32).map(move |n| (i, n))) {
        let len = (n + 1) * part.len();
        let reply = wire.say(&format!("SETRANGE key:{i} {} {part}", n * part.len()));
        assert_eq!(reply, format!(":{len}"));
    }
    end(running);
    let content = || -> Vec<_> {
        let names = disk.memory.list().unwrap().into_iter();
        names.map(|name| (disk.memory.content(&name), name)).collect()
    };
    let before = content();
    let path: PathBuf = std::env::temp_dir().join(format!("hotring-{name}-{}", std::process::id()));
    let settings = Config { unixsocket: Some(path.clone()), ..config() };
    disk.log_reads.store(0, Ordering::Relaxed);
    disk.log_gate.set(true);
    let reads = || disk.log_reads.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let _open = Opening(&disk.log_gate);
        let served = scope.spawn(|| {
            let prepared = prepare(settings, Box::new(|_| {}), &|_| Ok(disk.clone()), None);
            serve(prepared.unwrap(), LogFormat::Json)
        });
        wait_for("it reads its log", || reads() > 0);
        ask(&path);
        wait_for("it listens no more", || UnixStream::connect(&path).is_err());
        disk.log_gate.set(false);
        served.join().unwrap().unwrap();
    });
    assert!(reads() <= 3, "{} pieces were read", reads());
    assert_eq!(content(), before);
}

/// Opens a gate on drop, even if the test fails.
struct Opening<'a>(&'a Gate);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// One after the other: a signal reaches all servers of the process.
#[test]
fn stopping_the_server_does_not_wait_for_the_log() {
    ends_before_it_has_read_its_log("shutdown", |path| {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(b"SHUTDOWN\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "");
    });
    ends_before_it_has_read_its_log("sigterm", |_| {
        kill_process(getpid(), Signal::TERM).unwrap();
    });
}

#[test]
fn damage_that_is_found_late_ends_the_server_and_says_why() {
    let disk = saved();
    let name = disk.memory.list().unwrap().into_iter().find(|n| n.ends_with(".hrs")).unwrap();
    let mut content = disk.memory.content(&name).unwrap();
    let at = content.len() - 1_000;
    content[at] ^= 1;
    disk.memory.set_content(&name, &content);
    disk.gate.set(true);
    let running = server(&disk);
    let mut wire = Wire::new(running.addresses()[0]);
    assert_eq!(wire.get("hot"), "after");
    disk.gate.set(false);
    let error = running.wait().unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains("checksum"), "{error}");
    let mut rest = String::new();
    assert!(wire.0.read_to_string(&mut rest).is_ok_and(|len| len == 0), "{rest}");
}

#[test]
fn a_panic_while_the_rest_is_loaded_ends_the_server_and_says_so() {
    let disk = saved();
    disk.gate.set(true);
    let running = server(&disk);
    let mut wire = Wire::new(running.addresses()[0]);
    assert_eq!(wire.get("hot"), "after");
    wire.0.get_mut().set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    disk.panics.store(true, Ordering::Relaxed);
    disk.gate.set(false);
    let mut rest = String::new();
    assert!(wire.0.read_to_string(&mut rest).is_ok_and(|len| len == 0), "{rest}");
    let error = running.wait().unwrap_err().to_string();
    assert!(error.contains("panicked"), "{error}");
}

#[test]
fn a_log_that_removes_all_leaves_nothing_of_the_rest() {
    let disk = saved();
    let running = server(&disk);
    wait_for("all is loaded", || running.is_loaded());
    let mut wire = Wire::new(running.addresses()[0]);
    assert_eq!(wire.say("FLUSHALL"), "+OK");
    assert_eq!(wire.say("SET only 1"), "+OK");
    end(running);
    let running = server(&disk);
    wait_for("all is loaded", || running.is_loaded());
    let mut wire = Wire::new(running.addresses()[0]);
    assert_eq!((wire.get("only"), wire.say("DBSIZE")), ("1".to_string(), ":1".to_string()));
    assert_eq!(wire.get("hot"), "$-1");
    end(running);
}
