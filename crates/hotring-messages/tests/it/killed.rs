//! Clients and servers in processes of their own, which are killed at any moment.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::caller::Outcome;
use crate::fabric::Provider;
use crate::fabrics::{place, shared};
use crate::schedules::number;
use crate::streams::{INCREMENT, PATIENCE, SLOT_LEN, listen, serve, value};

/// Where a process of these tests finds its address.
const ADDRESS: &str = "HOTRING_TEST_ADDRESS";
const READY: &str = "the process is ready";

/// Kills of each test, unless `HOTRING_KILLS` says otherwise: servers, which take a client with them, and clients.
const SERVERS: u64 = 4;
const CLIENTS: u64 = 12;

/// A process that runs one of this program's tests, until it is dropped.
pub struct Process(Child);

impl Process {
    fn start(test: &str, address: &str) -> Process {
        let mut command = Command::new(std::env::current_exe().expect("it runs"));
        command.args([&format!("killed::{test}"), "--exact", "--ignored", "--nocapture"]);
        command.env(ADDRESS, address).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program is there");
        let lines = BufReader::new(child.stdout.take().expect("it is a pipe")).lines();
        let is_ready = |line: std::io::Result<String>| line.is_ok_and(|line| line.contains(READY));
        assert!(lines.into_iter().any(is_ready), "the process has ended");
        Process(child)
    }

    /// A server of an address of a Unix socket.
    pub fn serve(address: &str) -> Process {
        let (_, socket) = Provider::split(address);
        // A killed server leaves it.
        let _ = std::fs::remove_file(socket.trim_start_matches("unix:"));
        Process::start("serve_until_killed", address)
    }

    fn kill(mut self) -> u32 {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it was started");
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells the parent, and ends the process when the parent has.
fn ready() {
    println!("{READY}");
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
}

#[test]
#[ignore = "a process of other tests"]
fn serve_until_killed() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let endpoint = listen(&address);
    ready();
    serve(endpoint, &AtomicBool::new(false));
}

#[test]
#[ignore = "a process of other tests"]
fn call_until_killed() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let client = shared(address.as_bytes(), SLOT_LEN);
    ready();
    loop {
        // The server may have ended first.
        drop(client.call(&[INCREMENT], PATIENCE));
    }
}

/// An address of a provider, or of plain sockets, and the folder of its socket. None without the provider.
fn address(provider: Option<Provider>) -> Option<(String, TempDir)> {
    if let Some(provider) = provider {
        return place(provider);
    }
    let folder = tempfile::tempdir().expect("a folder");
    Some((format!("unix:{}", folder.path().join("messages").display()), folder))
}

/// Kills the server and a client at the same moment, either one first.
fn servers_are_killed(provider: Option<Provider>) {
    let Some((address, _folder)) = address(provider) else { return };
    let mut random = fastrand::Rng::with_seed(1);
    let mut server = Process::serve(&address);
    let steady = shared(address.as_bytes(), SLOT_LEN);
    let mut killed = Vec::new();
    for round in 0..number("HOTRING_KILLS", SERVERS) {
        let mut doomed = [server, Process::start("call_until_killed", &address)];
        random.shuffle(&mut doomed);
        let until = Instant::now() + Duration::from_millis(random.u64(20..200));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            doomed.map(Process::kill)
        });
        while !killer.is_finished() {
            let limit = Duration::from_secs(1);
            let begun = Instant::now();
            drop(steady.call(&[INCREMENT], limit).expect("it fits"));
            assert!(begun.elapsed() < 5 * limit, "a call hangs in round {round}");
        }
        killed.extend(killer.join().expect("they were killed"));
        server = Process::serve(&address);
        assert_nothing_left(&killed);
        // The first calls may meet the end of the old connection.
        let is_done = |_| matches!(steady.call(&[INCREMENT], PATIENCE), Ok(Outcome::Done(_)));
        assert!((0..20).any(is_done), "nothing is served in round {round}");
    }
}

fn clients_are_killed(provider: Option<Provider>) {
    let Some((address, _folder)) = address(provider) else { return };
    let mut random = fastrand::Rng::with_seed(2);
    let server = Process::serve(&address);
    let steady = shared(address.as_bytes(), SLOT_LEN);
    let mut killed = Vec::new();
    for round in 0..number("HOTRING_KILLS", CLIENTS) {
        let client = Process::start("call_until_killed", &address);
        assert_nothing_left(&killed);
        let until = Instant::now() + Duration::from_millis(random.u64(1..40));
        while Instant::now() < until {
            value(steady.call(&[INCREMENT], PATIENCE).expect("it fits"));
        }
        killed.push(client.kill());
        let begun = Instant::now();
        let outcome = steady.call(&[INCREMENT], PATIENCE).expect("it fits");
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?} in round {round}");
        assert!(begun.elapsed() < PATIENCE / 4, "{:?} in round {round}", begun.elapsed());
    }
    drop(steady);
    killed.push(server.kill());
    // The last ones.
    drop(place(Provider::Shm));
    assert_nothing_left(&killed);
}

/// Each start removes what processes that were killed before it left in memory.
fn assert_nothing_left(killed: &[u32]) {
    let names = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let is_theirs = |name: &String| {
        killed.iter().any(|process| name.starts_with(&format!("hotring-{process}-")))
    };
    let left: Vec<String> = names.filter(is_theirs).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn servers_are_killed_over_shared_memory_and_nothing_hangs() {
    servers_are_killed(Some(Provider::Shm));
}

#[test]
fn servers_are_killed_over_tcp_and_nothing_hangs() {
    servers_are_killed(Some(Provider::Tcp));
}

#[test]
fn servers_are_killed_over_sockets_and_nothing_hangs() {
    servers_are_killed(None);
}

#[test]
fn clients_are_killed_over_shared_memory_and_nothing_hangs() {
    clients_are_killed(Some(Provider::Shm));
}

#[test]
fn clients_are_killed_over_tcp_and_nothing_hangs() {
    clients_are_killed(Some(Provider::Tcp));
}

#[test]
fn clients_are_killed_over_sockets_and_nothing_hangs() {
    clients_are_killed(None);
}

/// The signals that a process has handlers for.
fn handled(process: &Process) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0.id()));
    let status = status.expect("it runs");
    let line = status.lines().find(|line| line.starts_with("SigCgt:"));
    line.expect("the system tells it").to_string()
}

#[test]
fn the_library_leaves_no_handlers_of_signals() {
    let Some((address, folder)) = place(Provider::Shm) else { return };
    let (over_fabric, socket) = (Process::serve(&address), folder.path().join("plain"));
    let plain = Process::serve(&format!("unix:{}", socket.display()));
    assert_eq!(handled(&over_fabric), handled(&plain));
}
