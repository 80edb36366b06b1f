//! Clients of messages of a cluster's nodes: what they are told by replicas, without replicas, and over a failover.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hotring_messages::Outcome;
use hotring_messages::message::{Operation, Status};
use rustix::process::Signal;

use crate::cluster::{leads, three_with, wait_for, wait_until_all_in_sync};
use crate::messages::{ask, client, count, value_of_n};
use crate::{Server, say};

const ADD: Operation<'_> = Operation::Increment { key: b"n", by: 1 };
const FABRIC: &[&str] = &["--fabric", "sockets,127.0.0.1:0", "--listen", "127.0.0.1:0"];

/// Less than the time after which a replica is no longer waited for.
const MOMENT: Duration = Duration::from_millis(500);

const TRIES: usize = 3;

#[test]
fn a_replica_tells_where_the_key_is() {
    let (_folders, nodes, at) = three_with("messages-moved", FABRIC);
    let replica = &nodes[3 - at];
    for operation in [ADD, Operation::Get { key: b"n" }] {
        let given = ask(&mut client(replica, "", ""), operation);
        let told = String::from_utf8_lossy(&given.value);
        let port = nodes[at].address.rsplit_once(':').expect("it has a port").1;
        assert_eq!(given.status, Status::Failed, "{told}");
        assert!(told.starts_with("MOVED ") && told.ends_with(&format!(":{port}")), "{told}");
    }
}

#[test]
fn a_write_is_told_once_the_replicas_have_it() {
    let (_folders, nodes, at) = three_with("messages-replicated", FABRIC);
    let replicas = [&nodes[0], &nodes[3 - at]];
    let mut client = client(&nodes[at], "", "");
    assert_eq!(ask(&mut client, ADD).value, b"1");
    let mut calls = 1;
    for replica in replicas {
        // On a busy machine a replica may have been left out for a moment, and is not waited for then.
        let is_waited_for = (0..TRIES).any(|_| {
            wait_until_all_in_sync(&nodes[0].address);
            calls += 1;
            replica.signal(Signal::STOP);
            let outcome = client.call(&[ADD], MOMENT);
            replica.signal(Signal::CONT);
            is_unknown(&outcome.expect("it fits"))
        });
        assert!(is_waited_for, "the replica that has stopped is not waited for");
    }
    // All were run, and none was sent again.
    let sum = (calls + 1).to_string();
    assert_eq!(ask(&mut client, ADD).value, sum.as_bytes());
}

/// The primary itself may answer that it does not know.
fn is_unknown(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Unknown => true,
        Outcome::Done(given) => {
            given[0].as_ref().is_some_and(|given| given.status == Status::Unknown)
        }
        Outcome::NotDone(_) => false,
    }
}

/// The sum at the new primary, with what a client of the old one was told: done, and of unknown fate.
fn sum_after(nodes: &[Server], at: usize, fail_over: impl FnOnce()) -> (i64, i64, i64) {
    let mut client = client(&nodes[at], "", "");
    let stops = AtomicBool::new(false);
    let others: Vec<&Server> =
        nodes.iter().enumerate().filter(|(node, _)| *node != at).map(|(_, node)| node).collect();
    let (done, unknown) = std::thread::scope(|scope| {
        let counts = scope.spawn(|| count(&mut client, 2 * MOMENT, &stops));
        std::thread::sleep(MOMENT);
        fail_over();
        wait_for("a replica leads", || others.iter().any(|node| leads(node)));
        stops.store(true, Ordering::Relaxed);
        counts.join().expect("it does not panic")
    });
    let primary = others.iter().find(|node| leads(node)).expect("one leads");
    (value_of_n(primary), done, unknown)
}

#[test]
fn a_write_that_was_told_outlives_a_killed_primary() {
    let (_folders, nodes, at) = three_with("messages-killed-primary", FABRIC);
    let (sum, done, unknown) = sum_after(&nodes, at, || nodes[at].signal(Signal::KILL));
    println!("{done} done, {unknown} unknown, {sum} at the new primary");
    assert!(done > 0 && (done..=done + unknown).contains(&sum), "{done} {unknown} {sum}");
}

/// The old primary lives: its client keeps its connection, and must hear of the new one.
#[test]
fn a_write_of_before_a_failover_is_not_answered_after_it() {
    let (_folders, nodes, at) = three_with("messages-failover", FABRIC);
    let (sum, done, unknown) = sum_after(&nodes, at, || {
        assert_eq!(say(&mut nodes[at].connect(), "FAILOVER"), "+OK");
    });
    println!("{done} done, {unknown} unknown, {sum} at the new primary");
    assert!(done > 0 && (done..=done + unknown).contains(&sum), "{done} {unknown} {sum}");
    wait_until_all_in_sync(&nodes[0].address);
    let given = ask(&mut client(&nodes[at], "", ""), ADD);
    assert!(given.value.starts_with(b"MOVED "), "{given:?}");
}
