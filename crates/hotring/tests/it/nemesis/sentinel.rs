//! Redis Sentinel watches a pair, and moves the role after a kill. Without a `redis-server` of version 7 the test
//! prints so and does nothing.
//!
//! Sentinel knows nothing of what was acknowledged, so nothing is checked of that.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use hotring_protocol::Reply;
use rustix::process::Signal;

use super::clients::Wire;
use super::{is_long, wait_for};
use crate::redis::has_redis;
use crate::{Folder, Server, hotring};

/// A Sentinel process, killed on drop.
struct Sentinel {
    process: Child,
    address: String,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Sentinel {
    fn start(folder: &Folder, port: &str, watched: &str) -> Option<Sentinel> {
        if !has_redis() {
            return None;
        }
        let conf = format!(
            "bind 127.0.0.1\nport {port}\nsentinel monitor pair 127.0.0.1 {watched} 1\n\
             sentinel down-after-milliseconds pair 1000\nsentinel failover-timeout pair 5000\n"
        );
        let file = folder.file("sentinel.conf", &conf);
        let mut command = Command::new("redis-server");
        command.arg(file).arg("--sentinel").stdout(Stdio::null());
        let process = command.spawn().expect("redis-server starts");
        Some(Sentinel { process, address: format!("127.0.0.1:{port}") })
    }

    fn ask(&self, line: &str) -> Vec<Reply> {
        let reply = Wire::connect(&self.address).and_then(|mut wire| wire.say(line));
        match reply {
            Ok(Reply::Array(parts)) => parts,
            _ => Vec::new(),
        }
    }

    /// The port of the primary.
    fn primary(&self) -> Option<String> {
        match self.ask("SENTINEL GET-MASTER-ADDR-BY-NAME pair").pop() {
            Some(Reply::Bulk(port)) => Some(String::from_utf8(port).unwrap()),
            _ => None,
        }
    }
}

/// The text of INFO replication; empty if the server is not there.
fn info(port: &str) -> String {
    let reply = Wire::connect(&format!("127.0.0.1:{port}"))
        .and_then(|mut wire| wire.say("INFO replication"));
    match reply {
        Ok(Reply::Bulk(text)) => String::from_utf8(text).unwrap(),
        _ => String::new(),
    }
}

fn serve(file: &str) -> Server {
    let mut server = Server::start(&mut hotring(&["serve", "--config", file]));
    server.read_log_beside();
    server
}

#[test]
fn sentinel_watches_a_pair_and_moves_the_role() {
    // Bound and released: the ports are most likely still free a moment later.
    let bound = [0; 3].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let [one, other, watcher] = bound.map(|bound| bound.local_addr().unwrap().port().to_string());
    let folder = Folder::new("sentinel");
    let first = folder.file("one.toml", &format!("port = {one}\n"));
    let text = format!("port = {other}\nreplicaof = \"127.0.0.1 {one}\"\n");
    let second = folder.file("other.toml", &text);
    let (mut primary, replica) = (serve(&first), serve(&second));
    let Some(sentinel) = Sentinel::start(&folder, &watcher, &one) else { return };
    wait_for("the link is up", || info(&other).contains("master_link_status:up"));
    wait_for("sentinel has found the replica", || {
        !sentinel.ask("SENTINEL REPLICAS pair").is_empty()
    });
    let mut client = Wire::connect(&format!("127.0.0.1:{one}")).unwrap();
    assert_eq!(client.say("SET k 1").unwrap(), Reply::Simple("OK".into()));
    assert_eq!(client.say("WAIT 1 60000").unwrap(), Reply::Int(1));
    // A connection of an ordinary client, which sentinel ends when the role moves.
    let mut waiting = Wire::connect(&format!("127.0.0.1:{other}")).unwrap();
    assert_eq!(waiting.say("GET k").unwrap(), Reply::Bulk(b"1".into()));
    primary.signal(Signal::KILL);
    primary.end();
    wait_for("sentinel names the other one", || sentinel.primary().as_deref() == Some(&*other));
    wait_for("it is the primary", || info(&other).contains("role:master"));
    wait_for("its clients were closed", || waiting.say("PING").is_err());
    let mut client = Wire::connect(&format!("127.0.0.1:{other}")).unwrap();
    assert_eq!(client.say("INCR k").unwrap(), Reply::Int(2));
    let rewritten = || std::fs::read_to_string(&second).unwrap();
    wait_for("its file says so", || !rewritten().contains(&format!("127.0.0.1 {one}")));
    // Sentinel waits for eight seconds before it believes that one has come back as a primary.
    if is_long() {
        let old = serve(&first);
        wait_for("the old one follows", || info(&one).contains("master_link_status:up"));
        let rewritten = std::fs::read_to_string(&first).unwrap();
        assert!(rewritten.contains(&format!("127.0.0.1 {other}")), "{rewritten}");
        let mut client = Wire::connect(&format!("127.0.0.1:{one}")).unwrap();
        assert_eq!(client.say("GET k").unwrap(), Reply::Bulk(b"2".into()));
        drop(old);
    }
    drop(replica);
}
