//! What clients are told when the primary changes: those that wait, those that keep values, and those that hold
//! memcached's numbers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::pair::Pair;
use super::proxy::Sender;
use super::{follow, info, wait_for};
use crate::wire::{Reply, TestServer, Wire, bulk, ok, request};

fn send(wire: &mut Wire, line: &str) {
    wire.send(&request(&line.split_whitespace().collect::<Vec<_>>()));
}

/// As a Redis tells them, and closes their connections.
#[test]
fn clients_that_wait_at_a_primary_that_becomes_a_replica_are_told() {
    let (old, new) = (TestServer::new(), TestServer::new());
    let mut p = old.connect();
    let commands =
        ["BLPOP q 0", "BZPOPMIN z 0", "BLMOVE q r LEFT RIGHT 0", "WAITKEY k 0", "WAIT 1 0"];
    let mut waiting: Vec<Wire> = commands
        .iter()
        .map(|command| {
            let mut wire = old.connect();
            send(&mut wire, command);
            wire
        })
        .collect();
    wait_for("all wait", || info(&mut p, "blocked_clients") == commands.len().to_string());
    follow(&mut p, new.address.port());
    for (wire, command) in waiting.iter_mut().zip(commands) {
        let told = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";
        assert_eq!(wire.reply().text(), told, "{command}");
        assert!(wire.is_closed(), "{command}");
    }
    let refused = old.connect().say("BLPOP q 0").text();
    assert!(refused.starts_with("READONLY") || refused.starts_with("LOADING"), "{refused}");
}

#[test]
fn clients_that_keep_values_drop_them_when_the_primary_becomes_a_replica() {
    let (old, new) = (TestServer::new(), TestServer::new());
    let (mut p, mut tracker) = (old.connect(), old.connect());
    assert_eq!(p.say("SET k 1"), ok());
    tracker.say("HELLO 3");
    assert_eq!(tracker.say("CLIENT TRACKING ON"), ok());
    assert_eq!(tracker.say("GET k"), bulk("1"));
    // A primary that is not there: nothing of the data changes.
    drop(new);
    follow(&mut p, 1);
    assert_eq!(tracker.reply(), Reply::Push(vec![bulk("invalidate"), Reply::Null]));
}

#[test]
fn a_write_that_waits_at_a_primary_that_becomes_a_replica_has_an_open_fate() {
    let pair = Pair::new();
    let (mut p, mut writer) = (pair.connect(), pair.connect());
    pair.proxy.hold(Sender::Replica, true);
    send(&mut writer, "SET k new");
    assert!(writer.is_silent_for(Duration::from_millis(50)));
    follow(&mut p, pair.replica.address.port());
    let text = writer.reply().text();
    assert!(text.starts_with("NOREPLICAS") && text.contains("fate"), "{text}");
    // What the replica may lack is not shown either, by a server that has no new data yet.
    let text = pair.connect().say("GET k").text();
    assert!(text.starts_with("NOREPLICAS") || text.starts_with("LOADING"), "{text}");
}

/// Sends a request of memcached's protocol, and returns the words of the first line of the answer.
fn ask(address: SocketAddr, request: &str) -> Vec<String> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(format!("{request}\r\nquit\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let first = answer.lines().next().unwrap_or_default();
    first.split(' ').map(String::from).collect()
}

/// A number of the old primary must not be given again by the new one, which may have started earlier: an update by it
/// would replace a value that its client has never seen.
#[test]
fn numbers_of_the_old_primary_update_nothing_at_the_new_one() {
    let pair = Pair::with(|config| config.memcached.listen = vec!["127.0.0.1:0".to_string()]);
    let (old, new) = (pair.primary.memcached_address(), pair.replica.memcached_address());
    let number = |at| ask(at, "gets k")[4].parse::<u64>().unwrap();
    assert_eq!(ask(old, "set k 0 0 3\r\nold"), ["STORED"]);
    let known = number(old);
    pair.promote();
    assert_eq!(ask(new, "set k 0 0 3\r\nnew"), ["STORED"]);
    assert_eq!(ask(new, &format!("cas k 0 0 3 {known}\r\nbad")), ["EXISTS"]);
    let given = number(new);
    assert!(given > known, "{given} after {known}");
    assert_eq!(ask(new, &format!("cas k 0 0 3 {given}\r\nwon")), ["STORED"]);
}
