//! `hotring cluster demo`: a whole cluster by one command, beside clients that follow its redirections.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hotring_protocol::Reply;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::nemesis::clients::Wire;
use crate::{hotring, output};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest time without a primary after the death of one: 3 s, and as much again for a machine that does other things.
const GAP_MAX: Duration = Duration::from_secs(6);

/// Clients, each with a counter of its own.
const CLIENTS: usize = 6;

/// The command, its nodes and their processes.
pub struct Demo {
    process: Child,
    out: BufReader<ChildStdout>,
    pub nodes: BTreeMap<String, Pid>,
    pub first: String,
}

impl Demo {
    pub fn start(words: &[&str]) -> Demo {
        let port = free_ports(8);
        let mut command = hotring(&["cluster", "demo", "--port", &port.to_string()]);
        let mut process = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        let first = format!("127.0.0.1:{port}");
        let mut demo = Demo { process, out, nodes: BTreeMap::new(), first };
        let mut told = String::new();
        while !told.contains("Ctrl-C ends all") {
            let mut line = String::new();
            assert!(demo.out.read_line(&mut line).unwrap() > 0, "it ended: {told}");
            if let Some((address, pid)) = line.trim().split_once("  pid ") {
                let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
                demo.nodes.insert(address.to_string(), pid);
            }
            told += &line;
        }
        demo
    }

    /// What `hotring cluster status` prints.
    pub fn status(&self) -> String {
        let status = output(&mut hotring(&["cluster", "status", "--coordinator", &self.first]));
        String::from_utf8_lossy(&status.stdout).into_owned()
    }

    /// Ends it as Ctrl-C does; none of its nodes may be left.
    pub fn end(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::INT).unwrap();
        assert!(self.process.wait().unwrap().success());
        for (address, pid) in &self.nodes {
            assert!(test_kill_process(*pid).is_err(), "the node {address} is left");
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // A failed test must leave no server behind.
        if let Ok(None) = self.process.try_wait() {
            let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
            let _ = self.process.wait();
        }
    }
}

/// The first of several ports that are free. Tests of this process that run at the same time get different ones.
fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let begin = 20_000 + u64::from(std::process::id() % 5_000);
    let next = || (begin + NEXT.fetch_add(count.into(), Ordering::Relaxed)) as u16;
    let mut firsts = std::iter::repeat_with(next).take(5_000);
    firsts.find(|first| (*first..first + count).all(is_free)).expect("some ports are free")
}

/// A client of the cluster that follows redirections.
struct Client<'a> {
    nodes: Vec<&'a str>,
    at: String,
    wire: Option<Wire>,
    /// The node to ask next if the present one is gone.
    next: usize,
}

impl<'a> Client<'a> {
    fn new(demo: &'a Demo) -> Self {
        let nodes = demo.nodes.keys().map(String::as_str).collect();
        Client { nodes, at: demo.first.clone(), wire: None, next: 0 }
    }

    /// One try. None if the answer is unknown, or there was none.
    fn ask(&mut self, line: &str) -> Option<Reply> {
        if self.wire.is_none() {
            self.wire = Wire::connect(&self.at).ok();
        }
        let reply = self.wire.as_mut().and_then(|wire| wire.say(line).ok());
        if reply.is_none() {
            self.wire = None;
            self.at = self.nodes[self.next % self.nodes.len()].to_string();
            self.next += 1;
        }
        reply
    }

    /// Asks until there is a reply that is no redirection and no refusal. Returns it with the number of requests that
    /// may have been done without a reply.
    fn insist(&mut self, line: &str) -> (Reply, u64) {
        let (begun, mut open) = (Instant::now(), 0);
        loop {
            assert!(begun.elapsed() < PATIENCE, "{line}: no answer");
            match self.ask(line) {
                Some(Reply::Error(why)) => self.heed(&why),
                Some(reply) => return (reply, open),
                None => open += 1,
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn heed(&mut self, why: &str) {
        let moved = why.strip_prefix("MOVED ").and_then(|rest| rest.split_once(' '));
        if let Some((_, address)) = moved {
            (self.at, self.wire) = (address.to_string(), None);
        } else {
            let may_pass =
                ["CLUSTERDOWN", "LOADING", "READONLY", "NOREPLICAS", "TRYAGAIN", "UNKNOWN"];
            assert!(may_pass.iter().any(|word| why.starts_with(word)), "{why}");
        }
    }
}

/// What a client has seen so far.
#[derive(Default)]
pub struct Seen {
    acknowledged: AtomicU64,
    /// The longest time between two acknowledgements, in milliseconds.
    pub gap: AtomicU64,
}

/// Counts up, and checks that no acknowledged step is lost or done twice.
pub fn count_up(demo: &Demo, key: &str, seen: &Seen, ends: &AtomicBool) {
    let mut client = Client::new(demo);
    let (mut last, mut at) = (0, Instant::now());
    while !ends.load(Ordering::Relaxed) {
        let (reply, open) = client.insist(&format!("INCR {key}"));
        let Reply::Int(now) = reply else { panic!("INCR answers {reply:?}") };
        let now = now as u64;
        assert!(
            (last + 1..=last + 1 + open).contains(&now),
            "{key}: {now} after {last}, {open} open"
        );
        seen.gap.fetch_max(at.elapsed().as_millis() as u64, Ordering::Relaxed);
        seen.acknowledged.fetch_add(1, Ordering::Relaxed);
        (last, at) = (now, Instant::now());
    }
}

pub fn wait_for_more(seen: &[Seen], more: u64) {
    let count = |seen: &Seen| seen.acknowledged.load(Ordering::Relaxed);
    let before: Vec<u64> = seen.iter().map(count).collect();
    let begun = Instant::now();
    while seen.iter().zip(&before).any(|(seen, before)| count(seen) < before + more) {
        assert!(begun.elapsed() < PATIENCE, "a client does not go on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The address that serves a key.
fn owner(demo: &Demo, key: &str) -> String {
    let mut client = Client::new(demo);
    client.insist(&format!("GET {key}"));
    client.at
}

/// Redis's own tool finds its way, and nothing wrong.
fn assert_redis_cli_agrees(demo: &Demo) {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        return println!("redis-cli is not installed");
    }
    let says = |words: &[&str]| {
        let said = Command::new("redis-cli").args(words).output().unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned()
    };
    let port = demo.first.rsplit_once(':').unwrap().1;
    for key in ["a", "b", "c", "d"] {
        assert_eq!(says(&["-c", "-p", port, "SET", key, key]).trim(), "OK");
        assert_eq!(says(&["-c", "-p", port, "GET", key]).trim(), key);
    }
    let checked = says(&["--cluster", "check", &demo.first]);
    for part in ["4 keys in 3 masters", "[OK] All nodes agree", "[OK] All 16384 slots covered"] {
        assert!(checked.contains(part), "{part} is missing: {checked}");
    }
    let info = says(&["--cluster", "info", &demo.first]);
    assert!(info.contains("4 keys in 3 masters"), "{info}");
    let called = says(&["--cluster", "call", &demo.first, "PING"]);
    assert_eq!(called.matches("PONG").count(), 6, "{called}");
}

#[test]
fn a_cluster_runs_by_one_command_and_outlives_its_primaries() {
    let demo = Demo::start(&[]);
    assert_eq!(demo.nodes.len(), 6);
    assert_redis_cli_agrees(&demo);
    let keys: Vec<String> = (0..CLIENTS).map(|at| format!("counter:{at}")).collect();
    let seen: Vec<Seen> = (0..CLIENTS).map(|_| Seen::default()).collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (key, seen) in keys.iter().zip(&seen) {
            let (demo, ends) = (&demo, &ends);
            scope.spawn(move || count_up(demo, key, seen, ends));
        }
        wait_for_more(&seen, 100);
        // The first node keeps the records; the death of any other primary must pass.
        let owners = keys.iter().map(|key| owner(&demo, key));
        let doomed =
            owners.into_iter().find(|owner| *owner != demo.first).expect("three primaries");
        // A replica that was held up is not in sync for a moment, and may not take over.
        let begun = Instant::now();
        while demo.status().matches("in sync, alive").count() < 3 {
            assert!(begun.elapsed() < PATIENCE, "{}", demo.status());
        }
        kill_process(demo.nodes[&doomed], Signal::KILL).unwrap();
        wait_for_more(&seen, 100);
        let owners: Vec<String> = keys.iter().map(|key| owner(&demo, key)).collect();
        assert!(!owners.contains(&doomed), "{doomed} is dead");
        ends.store(true, Ordering::Relaxed);
    });
    let gap = seen.iter().map(|seen| seen.gap.load(Ordering::Relaxed)).max().unwrap();
    println!("the longest wait was {gap} ms");
    assert!(gap < GAP_MAX.as_millis() as u64, "{gap} ms without a primary");
    assert_eq!(demo.status().matches("NOT ALIVE").count(), 1, "{}", demo.status());
    demo.end();
}
