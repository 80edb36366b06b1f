//! Faults of two servers and of what lies between them, beside clients whose histories are checked: nothing that was
//! acknowledged may be lost or undone.
//!
//! Each test has a small form. `HOTRING_FAULTS`, the number of failovers or of kills, makes it long; `cargo xtask prove
//! faults` sets it.

pub mod clients;
mod disks;
mod failovers;
mod kills;
mod networks;
mod pauses;
mod register;
mod secured;
mod sentinel;
mod tails;

use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hotring_protocol::Reply;
use rustix::process::Signal;

use crate::{Folder, Server, hotring};
use clients::{Load, Wire};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often a fault is caused: `small`, or what the environment says.
fn rounds(small: usize) -> usize {
    let named = std::env::var("HOTRING_FAULTS").ok();
    named.map_or(small, |text| text.parse().expect("HOTRING_FAULTS is a number"))
}

/// Whether the long form runs.
fn is_long() -> bool {
    std::env::var_os("HOTRING_FAULTS").is_some()
}

#[track_caller]
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two servers, of which each names the other one as its in-sync replica.
struct Pair {
    folder: Folder,
    log: &'static str,
    settings: &'static [&'static str],
    addresses: [String; 2],
    servers: [Option<Server>; 2],
    /// What each has written to its server log since its last start.
    told: [Arc<Mutex<String>>; 2],
    primary: usize,
}

impl Pair {
    /// Starts both, the second as a replica of the first.
    fn start(name: &str, log: &'static str, settings: &'static [&'static str]) -> Pair {
        Pair::start_with(name, log, settings, |_| {})
    }

    /// The same, after `prepare`, which may make their folders.
    fn start_with(
        name: &str,
        log: &'static str,
        settings: &'static [&'static str],
        prepare: impl FnOnce(&Pair),
    ) -> Pair {
        // Bound and released: the ports are most likely still free a moment later.
        let bound = [0; 2].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = bound.map(|bound| bound.local_addr().unwrap().to_string());
        let folder = Folder::new(&format!("nemesis-{name}-{log}"));
        let (servers, told) = (Default::default(), Default::default());
        let mut pair = Pair { folder, log, settings, addresses, servers, told, primary: 0 };
        prepare(&pair);
        pair.serve(0, false);
        pair.serve(1, true);
        pair.wait_until_in_sync();
        pair
    }

    fn other(&self) -> usize {
        1 - self.primary
    }

    /// Starts a server, as a replica of the other one or not.
    fn serve(&mut self, node: usize, follows: bool) {
        let port = |node: usize| self.addresses[node].rsplit_once(':').unwrap().1;
        let mut command = hotring(&["serve", "--port", port(node), "--log", self.log]);
        command.args(["--enable-debug-command", "yes", "--ack", "replicated"]);
        command.args(["--in-sync-replicas", &self.addresses[1 - node]]).args(self.settings);
        if self.log != "off" {
            command.arg("--data").arg(self.folder.0.join(port(node)));
        }
        if follows {
            command.args(["--replicaof", &format!("127.0.0.1 {}", port(1 - node))]);
        }
        let mut server = Server::start(&mut command);
        self.told[node] = server.read_log_beside();
        self.servers[node] = Some(server);
    }

    fn signal(&self, node: usize, signal: Signal) {
        self.servers[node].as_ref().expect("it runs").signal(signal);
    }

    /// Kills a server and waits for its end.
    fn kill(&mut self, node: usize) {
        self.signal(node, Signal::KILL);
        self.servers[node] = None;
    }

    /// The reply to one line on a connection of its own.
    fn say(&self, node: usize, line: &str) -> Reply {
        let reply = Wire::connect(&self.addresses[node]).and_then(|mut wire| wire.say(line));
        reply.unwrap_or_else(|error| Reply::Error(error.to_string()))
    }

    /// As an operator, who expects it to be done.
    #[track_caller]
    fn order(&self, node: usize, line: &str) {
        let reply = self.say(node, line);
        assert!(matches!(reply, Reply::Simple(_)), "{line}: {reply:?}");
    }

    /// A field of INFO, if it is there.
    fn info(&self, node: usize, name: &str) -> Option<String> {
        let Reply::Bulk(text) = self.say(node, "INFO replication") else { return None };
        let text = String::from_utf8(text).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(str::to_string)
    }

    /// Makes the replica the primary, as an operator does after the primary's end.
    fn promote(&mut self) {
        self.order(self.other(), "REPLICAOF NO ONE");
        self.primary = self.other();
    }

    /// Makes a server that runs follow the present primary.
    fn follow(&self, node: usize) {
        let (ip, port) = self.addresses[1 - node].rsplit_once(':').unwrap();
        self.order(node, &format!("REPLICAOF {ip} {port}"));
    }

    /// Waits until the primary acknowledges, and so the replica has all that was acknowledged.
    #[track_caller]
    fn wait_until_in_sync(&self) {
        wait_for("the replica is in sync", || {
            let is_up = self.info(self.other(), "master_link_status").as_deref() == Some("up");
            is_up && matches!(self.say(self.primary, "SET probe 1"), Reply::Simple(_))
        });
    }

    /// Waits until both have the same, without clients.
    #[track_caller]
    fn wait_until_equal(&self) {
        self.wait_until_in_sync();
        let digest = |node| self.say(node, "DEBUG DIGEST");
        wait_for("the digests are equal", || {
            let found = digest(self.primary);
            matches!(found, Reply::Simple(_)) && found == digest(self.other())
        });
    }

    fn load(&self) -> Load {
        Load::new(self.addresses.clone())
    }

    /// Ends both, which must go well.
    fn end(mut self) {
        for node in [self.other(), self.primary] {
            self.signal(node, Signal::TERM);
            let (status, _) = self.servers[node].as_mut().expect("it runs").end();
            assert!(status.success(), "{}", self.told[node].lock().unwrap());
        }
    }
}
