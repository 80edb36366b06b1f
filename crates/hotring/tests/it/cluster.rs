//! A cluster of processes with an embedded coordinator: made, shown, and a primary killed.

use std::io::{BufRead, Write};
use std::process::Output;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{Folder, Server, hotring, output, say, stderr};

/// How long a new primary may take after a kill, on a machine that does ten other things.
const FAILOVER_MAX: Duration = Duration::from_secs(10);

pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a node that replaces a dead replica after a second, or rather has a node without a shard do so.
pub fn serve(data: &Folder, coordinator: &str, port: &str) -> Server {
    serve_with(data, coordinator, port, &[])
}

fn serve_with(data: &Folder, coordinator: &str, port: &str, more: &[&str]) -> Server {
    // A replica that a busy disk held up for a second must still be one that may take over.
    let lags = ["--lease", "4000", "--in-sync-lag", "3000", "--replace-after", "1"];
    let mut command = hotring(&["serve", "--port", port, "--log", "everysec"]);
    command.args(lags);
    command.arg("--data").arg(&data.0).args(["--coordinator", coordinator]).args(more);
    let mut server = Server::start(&mut command);
    server.read_log_beside();
    server
}

pub fn cluster(words: &[&str], coordinator: &str) -> Output {
    output(hotring(&["cluster"]).args(words).args(["--coordinator", coordinator]))
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn leads(server: &Server) -> bool {
    say(&mut server.connect(), "SET who leads") == "+OK"
}

/// A cluster of one shard with three nodes, the first of which has the coordinator. Returns their folders, the nodes,
/// and the position of the primary, which is not the first.
fn three(name: &str) -> ([Folder; 3], [Server; 3], usize) {
    three_with(name, &[])
}

/// As [`three`], with more settings of the nodes.
pub fn three_with(name: &str, more: &[&str]) -> ([Folder; 3], [Server; 3], usize) {
    let folders = ["a", "b", "c"].map(|part| Folder::new(&format!("{name}-{part}")));
    let keeper = serve_with(&folders[0], "embedded", "0", more);
    let coordinator = keeper.address.clone();
    let idle = || stdout(&cluster(&["status"], &coordinator)).matches("idle, alive").count();
    wait_for("the coordinator's node registers", || idle() == 1);
    let refused = cluster(&["create", "--yes"], &coordinator);
    assert!(stderr(&refused).contains("too few nodes"), "{}", stderr(&refused));
    let [one, other] =
        [&folders[1], &folders[2]].map(|data| serve_with(data, &coordinator, "0", more));
    wait_for("the nodes register", || idle() == 3);
    let planned = cluster(&["create", "--copies", "3", "--dry-run"], &coordinator);
    assert!(stdout(&planned).contains("shard 0 (new): 0 -> 16384 slots"), "{}", stdout(&planned));
    let made = cluster(&["create", "--copies", "3", "--yes"], &coordinator);
    assert!(stdout(&made).contains("the cluster serves all slots"), "{}", stderr(&made));
    let again = cluster(&["create", "--yes"], &coordinator);
    assert!(stderr(&again).contains("there is a cluster already"), "{}", stderr(&again));
    // The death of the coordinator's node would stop changes.
    if leads(&keeper) {
        assert_eq!(say(&mut keeper.connect(), "FAILOVER"), "+OK");
    }
    let nodes = [keeper, one, other];
    wait_for("another node leads", || nodes[1..].iter().any(leads));
    let at = nodes.iter().position(leads).unwrap();
    wait_until_all_in_sync(&coordinator);
    (folders, nodes, at)
}

pub fn wait_until_all_in_sync(coordinator: &str) {
    wait_for("all are in sync", || {
        stdout(&cluster(&["status"], coordinator)).matches("in sync, alive").count() == 2
    });
}

#[test]
fn a_cluster_outlives_its_primary() {
    let (folders, mut nodes, at) = three("cluster");
    let coordinator = nodes[0].address.clone();
    let mut stream = nodes[at].connect();
    (0..100).for_each(|n| assert_eq!(say(&mut stream, &format!("SET k{n} {n}")), "+OK"));
    wait_until_all_in_sync(&coordinator);
    let (died, port) = (Instant::now(), nodes[at].address.rsplit_once(':').unwrap().1.to_string());
    nodes[at].signal(Signal::KILL);
    nodes[at].end();
    let rest = [&nodes[0], &nodes[3 - at]];
    wait_for("a replica leads", || rest.iter().any(|node| leads(node)));
    println!("a new primary serves {:?} after a kill", died.elapsed());
    assert!(died.elapsed() < FAILOVER_MAX, "{:?}", died.elapsed());
    let primary = rest.iter().find(|node| leads(node)).unwrap();
    let mut stream = primary.connect();
    (0..100).for_each(|n| assert_eq!(say(&mut stream, &format!("EXISTS k{n}")), ":1", "k{n}"));
    nodes[at] = serve(&folders[at], &coordinator, &port);
    wait_until_all_in_sync(&coordinator);
}

/// A primary that stood still while another one took its place must not show what it had, not even before it learns
/// of the other one.
#[test]
fn a_primary_that_stood_still_shows_nothing_old() {
    let (_folders, nodes, at) = three("still");
    let mut stream = nodes[at].connect();
    assert_eq!(say(&mut stream, "SET k old"), "+OK");
    nodes[at].signal(Signal::STOP);
    let rest = [&nodes[0], &nodes[3 - at]];
    wait_for("a replica leads", || rest.iter().any(|node| leads(node)));
    let primary = rest.iter().find(|node| leads(node)).unwrap();
    assert_eq!(say(&mut primary.connect(), "SET k new"), "+OK");
    // It is asked while it stands still, so that this is the first that it does.
    stream.get_mut().write_all(b"GET k\r\n").unwrap();
    nodes[at].signal(Signal::CONT);
    let mut answer = String::new();
    stream.read_line(&mut answer).unwrap();
    println!("the old primary answers {answer:?}");
    assert!(!answer.starts_with('$'), "{answer}");
}

/// Each batch of writes woke the thread of the links, which told that no replica had to be waited for.
#[test]
fn a_primary_without_replicas_wakes_no_thread_for_each_write() {
    const WRITES: u64 = 2_000;
    let folder = Folder::new("alone");
    let node = serve(&folder, "embedded", "0");
    wait_for("the cluster is made", || {
        cluster(&["create", "--copies", "1", "--yes"], &node.address).status.success()
    });
    wait_for("it serves", || leads(&node));
    let (mut stream, process) = (node.connect(), node.process.id());
    let (began, before) = (Instant::now(), super::idle::waits_of(process, "hotring-replica"));
    assert!(before > 0, "there is such a thread");
    (0..WRITES).for_each(|n| assert_eq!(say(&mut stream, &format!("SET k{n} v")), "+OK"));
    let waits = super::idle::waits_of(process, "hotring-replica") - before;
    // Ten ticks a second.
    let most = WRITES / 10 + began.elapsed().as_millis() as u64 / 50;
    println!("{waits} waits in {:?}", began.elapsed());
    assert!(waits < most, "{waits} waits, {most} at most");
}
