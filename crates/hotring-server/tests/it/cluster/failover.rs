//! A shard of two nodes: deaths, returns, and a coordinator that is away.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use hotring_cluster::directory::{SLOT_TABLE, slots_value};
use hotring_cluster::slot_of;

use super::*;
use crate::differential::Redis;

/// A coordinator, and a shard of a primary and a replica.
pub fn pair(name: &str, log: Option<AckWhen>) -> (Keeper, Node, Node) {
    let keeper = Keeper::new();
    let node = |part: &str| Node::new(&keeper, &format!("{name}-{part}"), log);
    let (one, other) = (node("one"), node("other"));
    found(&keeper, &[vec![&one, &other]]);
    (keeper, one, other)
}

#[test]
fn a_cluster_serves_once_its_records_are_there() {
    let keeper = Keeper::new();
    let node = |part: &str| Node::new(&keeper, part, None);
    let nodes = [node("a"), node("b"), node("c"), node("d")];
    let refused = nodes[0].wire().say("SET k 1");
    assert!(matches!(refused, Reply::Error(_)), "{refused:?}");
    let [a, b, c, d] = &nodes;
    found(&keeper, &[vec![a, b], vec![c, d]]);
    for (primary, replica) in [(a, b), (c, d)] {
        wait_until_it_serves(primary);
        assert_eq!((&role(primary)[..], &role(replica)[..]), ("master", "slave"));
    }
    let refused = a.wire().say("REPLICAOF NO ONE");
    assert!(
        matches!(&refused, Reply::Error(why) if why.contains("hotring cluster")),
        "{refused:?}"
    );
    let refused = a.wire().say("CONFIG SET in-sync-replicas 127.0.0.1:1");
    assert!(matches!(&refused, Reply::Error(why) if why.contains("records")), "{refused:?}");
}

/// The death of a primary is noticed by its lease alone. All that it acknowledged is at the replica, which serves soon.
#[test]
fn a_replica_takes_over_from_a_dead_primary() {
    let (keeper, mut one, other) = pair("death", Some(AckWhen::Written));
    write(&one, 0..200);
    wait_for("the replica may take over", || all_in_sync(&keeper.directory()));
    let died = Instant::now();
    one.kill();
    wait_until_it_serves(&other);
    let took = died.elapsed();
    println!("a new primary serves after {took:?}");
    assert!(took < FAILOVER_MAX, "{took:?}");
    assert_has(&other, 0..200);
    write(&other, 200..300);
    // The old primary comes back with what it had, and gets the rest.
    one.start(&keeper);
    wait_for("it follows", || all_in_sync(&keeper.directory()));
    assert_eq!(role(&one), "slave");
    assert_eq!(info(&mut one.wire(), "master_link_status"), "up");
    assert_has(&other, 0..300);
    // And the way back.
    let mut other = other;
    wait_for("the replica may take over", || all_in_sync(&keeper.directory()));
    other.kill();
    wait_until_it_serves(&one);
    assert_has(&one, 0..300);
}

/// The thread of the cluster panicked while a promotion's transaction was on its way. The machine never heard what came
/// of it, so it waited for ever, and refused every later promotion as one under way.
#[test]
fn a_panic_on_the_way_to_the_coordinator_loses_no_promotion() {
    let (keeper, mut one, other) = pair("panic", None);
    write(&one, 0..20);
    other.door.panic_once();
    wait_for("the replica may take over", || all_in_sync(&keeper.directory()));
    one.kill();
    wait_until_it_serves(&other);
    assert_has(&other, 0..20);
    let directory = keeper.directory();
    assert_eq!(directory.shards[&0].1.primary.node, other.id(&keeper));
}

/// A primary that lost its disk must not empty its replica: it is refused, and gets everything from that.
#[test]
fn a_primary_that_comes_back_empty_empties_nobody() {
    let (keeper, mut one, other) = pair("empty", Some(AckWhen::Written));
    write(&one, 0..100);
    wait_for("the replica may take over", || all_in_sync(&keeper.directory()));
    one.kill();
    one.folder.lose_all_but("node-id");
    one.start(&keeper);
    wait_until_it_serves(&other);
    assert_has(&other, 0..100);
    assert_eq!(role(&one), "slave");
    wait_for("it follows", || all_in_sync(&keeper.directory()));
    let mut wire = one.wire();
    wait_for("it has all", || wire.say("DBSIZE") == Reply::Int(101));
}

/// A primary whose log lost nothing goes on after a restart, before its lease is over.
#[test]
fn a_primary_that_lost_nothing_goes_on_after_a_restart() {
    let (keeper, mut one, other) = pair("restart", Some(AckWhen::Written));
    write(&one, 0..100);
    let epoch = |keeper: &Keeper| keeper.directory().shards[&0].1.epoch;
    let before = epoch(&keeper);
    one.kill();
    one.start(&keeper);
    wait_until_it_serves(&one);
    assert_has(&one, 0..100);
    assert!(epoch(&keeper) > before);
    assert_eq!((&role(&one)[..], &role(&other)[..]), ("master", "slave"));
    wait_for("the replica is back", || all_in_sync(&keeper.directory()));
    write(&one, 100..200);
}

/// A primary gave slots away and died. Its successor, which was itself after a restart, had read the table before that,
/// and answered with values that the new owner had replaced.
#[test]
fn a_new_primary_answers_nothing_by_an_old_table() {
    let (keeper, mut one, _other) = pair("table", Some(AckWhen::Written));
    write(&one, 0..10);
    one.kill();
    let mut owners = keeper.directory().owners;
    owners.give(slot_of(b"k3"), 1);
    let table = Change::Put { name: SLOT_TABLE.into(), value: slots_value(&owners), lease: None };
    one.door = keeper.door();
    one.door.delay_watches(true);
    one.door.before_next_claim(Transaction { expect: Vec::new(), changes: vec![table] });
    let before = keeper.directory().shards[&0].1.epoch;
    one.start_by_its_door();
    wait_for("it has the role", || keeper.directory().shards[&0].1.epoch > before);
    let mut wire = one.wire();
    let began = Instant::now();
    while began.elapsed() < LEASE / 2 {
        let reply = wire.say("GET k3");
        assert!(matches!(&reply, Reply::Error(why) if why.contains("CLUSTERDOWN")), "{reply:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    one.door.delay_watches(false);
    wait_for("it has the table", || wire.say("GET k4") == Reply::Bulk(b"4".into()));
    let reply = wire.say("GET k3");
    assert!(matches!(&reply, Reply::Error(why) if why.contains("not served")), "{reply:?}");
}

/// After a power cut a log that is synced each second may lack what was acknowledged, even if all seems to be there.
#[test]
fn a_primary_that_a_power_cut_stopped_waits_for_another() {
    let (keeper, mut one, other) = pair("power", Some(AckWhen::Written));
    write(&one, 0..100);
    wait_for("the replica may take over", || all_in_sync(&keeper.directory()));
    one.kill();
    one.folder.write("reign", "another-boot everysec 1\n");
    one.start(&keeper);
    wait_until_it_serves(&other);
    assert_eq!((&role(&one)[..], &role(&other)[..]), ("slave", "master"));
    wait_for("it follows", || all_in_sync(&keeper.directory()));
    assert_has(&other, 0..100);
}

/// A primary noted its reign before its log had the epoch's beginning, and was killed. The log ended in an older reign
/// of its own, and so seemed to lack nothing: the node went on without what was acknowledged in between.
#[test]
fn a_primary_whose_log_lacks_its_last_reign_waits_for_another() {
    let (keeper, mut one, other) = pair("reigns", Some(AckWhen::Written));
    write(&one, 0..100);
    wait_for("the replica may take over", || all_in_sync(&keeper.directory()));
    one.kill();
    let epoch = keeper.directory().shards[&0].1.epoch;
    one.folder.write("reign", &format!("closed sync {}\n", epoch.0 + 2));
    one.start(&keeper);
    wait_until_it_serves(&other);
    assert_eq!((&role(&one)[..], &role(&other)[..]), ("slave", "master"));
    wait_for("it follows", || all_in_sync(&keeper.directory()));
    assert_has(&other, 0..100);
}

fn refuses(reply: Reply, why: &str) -> bool {
    matches!(reply, Reply::Error(text) if text.contains(why))
}

/// Ends both nodes of a pair as a power cut does.
fn cut_power(nodes: [&mut Node; 2]) {
    for node in nodes {
        node.kill();
        node.folder.write("reign", "another-boot everysec 1\n");
    }
}

/// If all nodes of a shard may have lost something, the one with the most goes on: but not before all are back.
#[test]
fn after_a_power_cut_of_all_the_shard_goes_on_once_all_are_back() {
    let (keeper, mut one, mut other) = pair("all", Some(AckWhen::Written));
    write(&one, 0..100);
    cut_power([&mut one, &mut other]);
    one.start(&keeper);
    wait_for("it tells what it has", || keeper.directory().extents.len() == 1);
    let before = keeper.directory().shards[&0].1.clone();
    // Longer than it would wait if it needed no other node.
    std::thread::sleep(LEASE * 3 / 2);
    assert_eq!(keeper.directory().shards[&0].1, before);
    assert!(refuses(one.wire().say("GET k1"), "CLUSTERDOWN"));
    other.start(&keeper);
    // Both have the same, so it is the old primary.
    wait_until_it_serves(&one);
    assert_has(&one, 0..100);
    assert_eq!(info(&mut one.wire(), "cluster_recoveries"), "1");
    wait_for("the other one follows", || all_in_sync(&keeper.directory()));
    wait_for("nothing is told any more", || keeper.directory().extents.is_empty());
}

/// A shard of one node waited for an operator, who could choose nothing.
#[test]
fn after_a_power_cut_a_shard_of_one_node_goes_on() {
    let keeper = Keeper::new();
    let mut node = Node::new(&keeper, "one", Some(AckWhen::Written));
    found(&keeper, &[vec![&node]]);
    wait_until_it_serves(&node);
    write(&node, 0..20);
    node.kill();
    node.folder.write("reign", "another-boot everysec 1\n");
    node.start(&keeper);
    wait_until_it_serves(&node);
    assert_has(&node, 0..20);
}

/// If a node of such a shard has come back without its data, an operator chooses.
#[test]
fn after_a_power_cut_an_operator_chooses_if_a_disk_is_lost() {
    let (keeper, mut one, mut other) = pair("disk", Some(AckWhen::Written));
    write(&one, 0..100);
    cut_power([&mut one, &mut other]);
    other.folder.lose_all_but("node-id");
    let before = keeper.directory().shards[&0].1.clone();
    one.start(&keeper);
    other.start(&keeper);
    wait_for("both wait", || role(&one) == "slave" && role(&other) == "slave");
    let said = |node: &Node, what: &str| node.wire().say(&format!("CLUSTER FAILOVER{what}"));
    wait_for("it may lack writes", || refuses(said(&one, " FORCE"), "TAKEOVER"));
    std::thread::sleep(LEASE * 3 / 2);
    assert_eq!(keeper.directory().shards[&0].1, before, "the empty one may have had more");
    assert!(refuses(one.wire().say("GET k1"), "CLUSTERDOWN"));
    assert!(refuses(said(&one, ""), "FAILOVER TO"));
    // Not in the first 100 ms of its process, in which mirrors of an earlier start may last.
    wait_for("it has a shard", || said(&one, " TAKEOVER") == ok());
    wait_until_it_serves(&one);
    assert_has(&one, 0..100);
    wait_for("the other one follows", || all_in_sync(&keeper.directory()));
    assert!(refuses(said(&one, " TAKEOVER"), "to a replica"));
}

/// Leases end while the coordinator is away, and watches: neither stops a primary, nor makes another one.
#[test]
fn data_is_served_while_the_coordinator_is_away() {
    let (keeper, one, other) = pair("away", None);
    let before = keeper.directory().shards[&0].1.clone();
    one.door.shut();
    other.door.shut();
    wait_for("the leases end", || keeper.directory().alive.is_empty());
    write(&one, 0..50);
    std::thread::sleep(LEASE);
    write(&one, 50..100);
    // The replica hears of the end of its primary's lease first, and hears its primary.
    other.door.open();
    wait_for("it registers again", || keeper.directory().alive.len() == 1);
    std::thread::sleep(LEASE);
    write(&one, 100..150);
    one.door.open();
    wait_for("both register again", || keeper.directory().alive.len() == 2);
    assert_eq!(keeper.directory().shards[&0].1, before);
    assert_has(&one, 0..150);
}

/// An orderly end hands the role over first.
#[test]
fn a_primary_that_stops_hands_its_role_over() {
    let (keeper, mut one, other) = pair("stop", Some(AckWhen::Written));
    write(&one, 0..100);
    let server = one.server.take().unwrap();
    let began = Instant::now();
    server.running().retire();
    wait_until_it_serves(&other);
    let took = began.elapsed();
    println!("the role is handed over in {took:?}");
    assert!(took < LEASE, "{took:?}");
    assert_has(&other, 0..100);
    server.stop();
    wait_for("its lease is revoked", || keeper.directory().alive.len() == 1);
    // It is not waited for.
    let took = wait_until_it_serves(&other);
    println!("writes go on after {took:?}");
    assert!(took < LEASE / 4, "{took:?}");
    write(&other, 100..150);
}

/// Has whatever connects to this port of 127.0.0.1 talk to another address.
fn forward(port: u16, to: SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(to) else { return };
            let ways = [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))];
            for (from, to) in ways {
                let (mut from, mut to) = (from.unwrap(), to.unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
}

/// A replica must not take the data of whoever has got the address of its dead primary.
#[test]
fn a_stranger_at_the_address_of_a_primary_replaces_nothing() {
    // Otherwise it waits for more replicas before it sends its data.
    let redis = Redis::start_as(|_| ["--repl-diskless-sync-delay", "0"].map(String::from).into());
    let stranger = TestServer::new();
    for (name, address) in
        [("hotring", Some(stranger.address)), ("redis", redis.as_ref().map(|redis| redis.address))]
    {
        let Some(address) = address else { continue };
        let (_keeper, mut one, other) = pair(&format!("stranger-{name}"), None);
        write(&one, 0..50);
        // It cannot take over.
        other.door.shut();
        one.kill();
        forward(one.port, address);
        let mut wire = other.wire();
        let began = Instant::now();
        while began.elapsed() < LEASE {
            assert_eq!(wire.say("DBSIZE"), Reply::Int(50), "{name}");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(info(&mut wire, "master_link_status"), "down", "{name}");
    }
}

/// A replica always lacked the last records of writers that never paused, and so was never in sync again.
#[test]
fn a_replica_comes_back_beside_writers_that_never_pause() {
    let (keeper, one, mut other) = pair("busy", Some(AckWhen::Written));
    write(&one, 0..10);
    other.kill();
    wait_for("it is no longer in sync", || keeper.directory().shards[&0].1.in_sync.is_empty());
    let (ends, mut wires) = (AtomicBool::new(false), [0; 2].map(|_| one.wire()));
    std::thread::scope(|scope| {
        for (n, wire) in wires.iter_mut().enumerate() {
            let (ends, batch) = (&ends, format!("SET w{n} 1\r\n").repeat(200));
            scope.spawn(move || {
                // Two batches on their way.
                wire.send(batch.as_bytes());
                while !ends.load(Ordering::Relaxed) {
                    wire.send(batch.as_bytes());
                    for reply in (0..200).map(|_| wire.reply()) {
                        // On a busy machine the replica that has come back may be silent for too long.
                        let lacks = |error: &String| error.starts_with("NOREPLICAS ");
                        let is_right =
                            reply == ok() || matches!(&reply, Reply::Error(e) if lacks(e));
                        assert!(is_right, "{reply:?}");
                    }
                }
            });
        }
        other.start(&keeper);
        let began = Instant::now();
        while !all_in_sync(&keeper.directory()) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(all_in_sync(&keeper.directory()), "it lacks the last records for ever");
}

/// Where no replica is counted, each reply waited until the machine of the role looked at the log again: 100 ms.
#[test]
fn a_primary_without_replicas_answers_at_once() {
    let keeper = Keeper::new();
    let node = Node::new(&keeper, "alone", Some(AckWhen::Written));
    found(&keeper, &[vec![&node]]);
    wait_until_it_serves(&node);
    let began = Instant::now();
    write(&node, 0..100);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
}
