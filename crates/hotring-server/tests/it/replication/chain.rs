//! Replicas of replicas: they have what the top has, whatever happens above them, and no reply waits for them.

use std::time::{Duration, Instant};

use fastrand::Rng;
use hotring_log::AckWhen::{Synced, Written};
use hotring_server::{Config, Source};

use super::proxy::{Proxy, Sender};
use super::tails::{Log, assert_alike, counts, start};
use super::{
    Folder, address, beside_writes, field, follow, info, wait_for, wait_until_even, wait_until_up,
    write, write_keys,
};
use crate::wire::{Reply, TestServer, Wire, ok};

fn port(server: &TestServer) -> u16 {
    server.address.port()
}

/// Three servers, each of which follows the one before. The first has some data.
fn chain(logs: [Log<'_>; 3], seed: u64) -> [TestServer; 3] {
    let servers = logs.map(|log| start(log, |_| {}));
    let [mut top, mut middle, mut bottom] = [0, 1, 2].map(|n: usize| servers[n].connect());
    let mut random = Rng::with_seed(seed);
    (0..500).for_each(|_| write(&mut top, &mut random));
    assert_eq!(top.say("SELECT 0"), ok());
    follow(&mut middle, port(&servers[0]));
    wait_until_up(&mut middle);
    follow(&mut bottom, port(&servers[1]));
    assert_even(&mut top, &mut bottom);
    servers
}

/// Checks that both servers have the same.
fn assert_even(primary: &mut Wire, replica: &mut Wire) {
    wait_until_even(primary, replica);
    let digest = |wire: &mut Wire| wire.say("DEBUG DIGEST").text();
    assert_eq!(digest(primary), digest(replica));
}

fn connect(servers: &[TestServer; 3]) -> [Wire; 3] {
    [0, 1, 2].map(|n: usize| servers[n].connect())
}

fn write_some(wire: &mut Wire, seed: u64) {
    let mut random = Rng::with_seed(seed);
    (0..200).for_each(|_| write(wire, &mut random));
    assert_eq!(wire.say("SELECT 0"), ok());
}

/// Each in turn gets all data beside writes, and follows them.
#[test]
fn a_chain_has_at_its_end_what_its_beginning_has() {
    let folders = ["a1", "a2", "a3", "b2"].map(|name| Folder::new(&format!("chain-{name}")));
    let [a1, a2, a3, b2] = &folders;
    let logs: [[Log<'_>; 3]; 3] = [
        [None, None, None],
        [Some((a1, Written)), Some((a2, Synced)), Some((a3, Written))],
        [None, Some((b2, Written)), None],
    ];
    for (seed, logs) in logs.into_iter().enumerate() {
        let servers = logs.map(|log| start(log, |_| {}));
        let [mut top, mut middle, mut bottom] = connect(&servers);
        write_some(&mut top, seed as u64);
        beside_writes(&servers[0], 40 + seed as u64, || {
            // The bottom asks before the middle has anything. The middle must be a replica then: what the bottom got
            // from an empty primary it would keep.
            follow(&mut middle, port(&servers[0]));
            follow(&mut bottom, port(&servers[1]));
            wait_until_up(&mut bottom);
            std::thread::sleep(Duration::from_millis(150));
        });
        assert_alike(&mut top, &mut bottom);
        assert_alike(&mut top, &mut middle);
        assert_eq!((info(&mut top, "sync_full"), info(&mut middle, "sync_full")), one_each());
        let shown = middle.say("INFO replication").text();
        for line in ["role:slave", "connected_slaves:1", "in_sync_replicas:0"] {
            assert!(shown.lines().any(|found| found == line), "{line}: {shown}");
        }
        let of_bottom = format!("ip=127.0.0.1,port={},state=online,", port(&servers[2]));
        assert!(info(&mut middle, "slave0").starts_with(&of_bottom), "{shown}");
        assert_eq!(info(&mut bottom, "master_port"), port(&servers[1]).to_string());
        assert_eq!(info(&mut bottom, "connected_slaves"), "0");
        for wire in [&mut middle, &mut bottom] {
            assert!(matches!(&wire.say("ROLE").items()[0], Reply::Bulk(role) if role == b"slave"));
            assert!(wire.say("WAIT 1 10").is_error());
            assert!(wire.say("SET k 1").text().starts_with("READONLY"));
        }
    }
}

fn one_each() -> (String, String) {
    ("1".to_string(), "1".to_string())
}

/// Expired keys go at the end of a chain when they go at its beginning.
#[test]
fn expiries_arrive_at_the_end() {
    let servers = chain([None; 3], 1);
    let [mut top, mut middle, mut bottom] = connect(&servers);
    assert_eq!(top.say("FLUSHALL"), ok());
    (0..50).for_each(|n| assert_eq!(top.say(&format!("SET k{n} 1 PX {}", 1 + n)), ok()));
    wait_for("all keys are gone", || top.say("DBSIZE") == Reply::Int(0));
    assert_even(&mut top, &mut bottom);
    assert_eq!((middle.say("DBSIZE"), bottom.say("DBSIZE")), (Reply::Int(0), Reply::Int(0)));
}

/// The top is gone, and the middle takes its place. The bottom goes on as its replica.
#[test]
fn a_middle_that_is_promoted_keeps_its_replica() {
    let servers = chain([None; 3], 2);
    let [_, mut middle, mut bottom] = connect(&servers);
    let [top, of_middle, of_bottom] = servers;
    top.stop();
    wait_for("the middle notices", || info(&mut middle, "master_link_status") == "down");
    assert_eq!(info(&mut bottom, "master_link_status"), "up");
    assert_eq!(middle.say("REPLICAOF NO ONE"), ok());
    write_some(&mut middle, 3);
    assert_even(&mut middle, &mut bottom);
    assert_eq!(counts(&mut middle).0, "1", "the first copy");
    // From here on it counts.
    assert_eq!(middle.say("SET k 1"), ok());
    assert_eq!(middle.say("WAIT 1 10000"), Reply::Int(1));
    assert_eq!(bottom.say("GET k").text(), "1");
    assert_eq!(
        middle.say(&format!("CONFIG SET ack replicated in-sync-replicas {}", address(&of_bottom))),
        ok()
    );
    wait_for("it is in sync", || of_middle.connect().say("SET k 2") == ok());
    assert_eq!(bottom.say("GET k").text(), "2");
}

#[test]
fn a_middle_that_starts_again_goes_on_with_both_sides() {
    let folder = Folder::new("chain-middle");
    let log = Some((&folder, Written));
    let servers = chain([None, log, None], 4);
    let [mut top, _, mut bottom] = connect(&servers);
    let [of_top, middle, of_bottom] = servers;
    let at = middle.address;
    middle.stop();
    write_some(&mut top, 5);
    let middle = start(log, |config: &mut Config| {
        config.listen = vec![at.to_string()];
        config.replication.source = Some(Source { host: "127.0.0.1".into(), port: port(&of_top) });
    });
    let mut m = middle.connect();
    wait_until_even(&mut top, &mut m);
    assert_even(&mut top, &mut bottom);
    assert_eq!((info(&mut top, "sync_full"), info(&mut m, "sync_full")), ("1".into(), "0".into()));
    drop(of_bottom);
}

/// Without the middle its replica can follow the top at once.
#[test]
fn a_bottom_whose_middle_is_dead_goes_on_at_the_top() {
    let servers = chain([None; 3], 6);
    let [mut top, _, mut bottom] = connect(&servers);
    let [of_top, middle, of_bottom] = servers;
    middle.stop();
    write_some(&mut top, 7);
    follow(&mut bottom, port(&of_top));
    assert_even(&mut top, &mut bottom);
    let (full, partial) = counts(&mut top);
    // On a busy machine its first link may end before it follows.
    assert!(full == "1" && partial != "0", "the middle's copy, and the bottom: {full}, {partial}");
    drop(of_bottom);
}

/// The top hands its role to another replica. The chain below follows the old top, and then the new one.
#[test]
fn an_epoch_of_another_primary_reaches_the_end() {
    let servers = chain([None; 3], 8);
    let [mut old, mut middle, mut bottom] = connect(&servers);
    let other = start(None, |_| {});
    let mut new = other.connect();
    follow(&mut new, port(&servers[0]));
    assert_even(&mut old, &mut new);
    let hand_over = format!("FAILOVER TO 127.0.0.1 {}", port(&other));
    assert_eq!(old.say(&hand_over), ok());
    wait_for("the role has moved", || info(&mut new, "role") == "master");
    write_some(&mut new, 9);
    // Four in a row.
    assert_even(&mut new, &mut bottom);
    follow(&mut middle, port(&other));
    write_some(&mut new, 10);
    assert_even(&mut new, &mut bottom);
    assert_even(&mut new, &mut middle);
    // And to the middle, which has a replica already.
    assert_eq!(new.say(&format!("FAILOVER TO 127.0.0.1 {}", port(&servers[1]))), ok());
    wait_for("the role has moved", || info(&mut middle, "role") == "master");
    write_some(&mut middle, 11);
    for wire in [&mut bottom, &mut new, &mut old] {
        assert_even(&mut middle, wire);
    }
    for (wire, copies) in [(&mut old, "2"), (&mut new, "0"), (&mut middle, "1")] {
        assert_eq!(info(wire, "sync_full"), copies, "nothing was copied again");
    }
}

/// While the middle gets a copy it feeds no replica, and its own one gets what the middle has then.
#[test]
fn a_copy_of_the_middle_passes_on_to_the_end() {
    let top = start(None, |config| config.replication.backlog_max = 16 << 10);
    let [middle, bottom] = [start(None, |_| {}), start(None, |_| {})];
    let [mut t, mut m, mut b] = [&top, &middle, &bottom].map(TestServer::connect);
    let proxy = Proxy::new(top.address);
    for key in 0..200 {
        assert_eq!(t.say(&format!("SET key:{key} {}", "x".repeat(10_000))), ok());
    }
    follow(&mut m, proxy.port());
    wait_until_up(&mut m);
    follow(&mut b, port(&middle));
    assert_even(&mut t, &mut b);
    proxy.refuse(true);
    proxy.cut_after(0);
    for key in 0..100 {
        assert_eq!(t.say(&format!("SET key:{key} {}", "y".repeat(10_000))), ok());
    }
    assert_eq!(b.say("GET key:1").text().len(), 10_000);
    // The copy stops in its middle.
    proxy.refuse_after_cut();
    proxy.cut_after(500_000);
    proxy.refuse(false);
    wait_for("the copy is cut", || proxy.is_cut());
    assert!(m.say("GET key:1").text().starts_with("LOADING"));
    wait_for("the link below ends", || info(&mut b, "master_link_status") == "down");
    assert_eq!(b.say("GET key:1").text(), "x".repeat(10_000), "what it had");
    // Writes beside the copy stay in memory.
    assert_eq!(t.say("CONFIG SET repl-backlog 64mb"), ok());
    proxy.refuse(false);
    beside_writes(&top, 60, || wait_until_up(&mut b));
    assert_even(&mut t, &mut b);
    assert_even(&mut t, &mut m);
    assert_eq!(info(&mut t, "sync_full"), "3", "with the one that was cut");
    assert_eq!(info(&mut m, "sync_full"), "2");
}

/// The middle, and the bottom with it, has records that the top lacks. Both give them up, without a copy.
#[test]
fn a_repair_of_the_middle_passes_on_to_the_end() {
    let folders = ["m", "b"].map(|name| Folder::new(&format!("chain-repair-{name}")));
    let [m, b] = &folders;
    for (seed, logs) in
        [[None, None, None], [None, Some((m, Written)), Some((b, Written))]].into_iter().enumerate()
    {
        let seed = 70 + 10 * seed as u64;
        let servers = logs.map(|log| start(log, |_| {}));
        let [mut top, mut middle, mut bottom] = connect(&servers);
        write_some(&mut middle, seed);
        for wire in [&mut top, &mut bottom] {
            follow(wire, port(&servers[1]));
            assert_even(&mut middle, wire);
        }
        assert_eq!(top.say("REPLICAOF NO ONE"), ok());
        let mut random = Rng::with_seed(seed + 1);
        for _ in 0..150 {
            write_keys(&mut middle, &mut random);
            write_keys(&mut top, &mut random);
        }
        assert_eq!(middle.say("SELECT 0"), ok());
        assert_eq!(middle.say("SET only-here 1"), ok());
        assert_even(&mut middle, &mut bottom);
        assert_eq!(bottom.say("GET only-here").text(), "1");
        beside_writes(&servers[0], seed + 2, || {
            follow(&mut middle, port(&servers[0]));
            wait_until_up(&mut middle);
            wait_until_up(&mut bottom);
        });
        assert_even(&mut top, &mut middle);
        assert_even(&mut top, &mut bottom);
        assert_eq!(bottom.say("GET only-here"), Reply::Null);
        assert_eq!(info(&mut top, "sync_full"), "0");
        assert_eq!(info(&mut middle, "sync_full"), "2", "the first copies");
    }
}

fn naming(names: &str) -> [&str; 6] {
    ["CONFIG", "SET", "ack", "replicated", "in-sync-replicas", names]
}

/// No reply waits for the bottom, unless an operator names it in a set.
#[test]
fn a_bottom_is_never_in_sync() {
    // A replica may be late for seconds, as machines of tests are busy.
    let patient = |config: &mut Config| config.replication.in_sync_lag_ms = Some(7_000);
    let servers = [start(None, patient), start(None, patient), start(None, patient)];
    let [mut top, mut middle, mut bottom] = connect(&servers);
    let proxy = Proxy::new(servers[1].address);
    follow(&mut middle, port(&servers[0]));
    wait_until_up(&mut middle);
    follow(&mut bottom, proxy.port());
    assert_even(&mut top, &mut bottom);
    let [_, of_middle, of_bottom] = [0, 1, 2].map(|n: usize| address(&servers[n]));
    assert_eq!(top.ask(&naming(&of_middle)), ok());
    wait_for("the middle is in sync", || servers[0].connect().say("SET k 0") == ok());
    assert_eq!(top.say("WAIT 2 300"), Reply::Int(1));
    // The bottom answers nothing, and no write is late.
    for sender in [Sender::Replica, Sender::Primary] {
        proxy.hold(sender, true);
    }
    let begun = Instant::now();
    for n in 1..=50 {
        assert_eq!(top.say(&format!("SET k {n}")), ok());
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((middle.say("GET k").text(), bottom.say("GET k").text()), ("50".into(), "0".into()));
    for sender in [Sender::Replica, Sender::Primary] {
        proxy.hold(sender, false);
    }
    assert_even(&mut top, &mut bottom);
    // A set with the bottom waits for ever.
    assert_eq!(top.ask(&naming(&format!("{of_middle} {of_bottom}"))), ok());
    wait_for("writes are refused", || {
        let reply = servers[0].connect().say("SET k no").text();
        reply == "NOREPLICAS Not enough good replicas to write."
    });
    assert_eq!(info(&mut top, "in_sync_replicas"), "1");
    assert_eq!(info(&mut middle, "in_sync_replicas"), "0");
    // Its promotion must be forced.
    let refused = bottom.say("REPLICAOF NO ONE").text();
    assert!(refused.contains("came by a replica"), "{refused}");
    assert_eq!(info(&mut bottom, "role"), "slave");
    assert_eq!(bottom.say("REPLICAOF NO ONE FORCE"), ok());
    assert_eq!(bottom.say("SET k mine"), ok());
}

/// A bottom that was told to follow another server used to count as a replica of the primary before it had met that
/// one, and from its answer on, though it had nothing of it.
#[test]
fn a_bottom_needs_force_until_it_has_what_the_primary_has() {
    let servers = chain([None; 3], 84);
    let [mut top, _, mut bottom] = connect(&servers);
    let proxy = Proxy::new(servers[0].address);
    let is_refused = |bottom: &mut Wire| {
        let reply = bottom.say("REPLICAOF NO ONE").text();
        reply.contains("came by a replica")
    };
    proxy.refuse(true);
    follow(&mut bottom, proxy.port());
    assert!(is_refused(&mut bottom), "it has met nobody since");
    write_some(&mut top, 85);
    proxy.refuse(false);
    wait_until_even(&mut top, &mut bottom);
    wait_for("it is direct", || !is_refused(&mut bottom));
    assert_eq!(bottom.say("SET k mine"), ok());
}

/// A bottom that was started again used to count as a replica of the primary until it had met a server above it.
#[test]
fn a_bottom_that_starts_again_still_needs_force() {
    let folder = Folder::new("chain-bottom");
    let log = Some((&folder, Written));
    let [of_top, middle, bottom] = chain([None, None, log], 86);
    let gone = port(&middle);
    bottom.stop();
    middle.stop();
    let start_below_nobody = || {
        start(log, |config: &mut Config| {
            config.replication.source = Some(Source { host: "127.0.0.1".into(), port: gone });
        })
    };
    let bottom = start_below_nobody();
    let (mut t, mut b) = (of_top.connect(), bottom.connect());
    let is_refused = |b: &mut Wire| b.say("REPLICAOF NO ONE").text().contains("came by a replica");
    assert!(is_refused(&mut b), "it has met nobody");
    // Once it has what the primary has, no start makes it indirect again.
    follow(&mut b, port(&of_top));
    wait_until_even(&mut t, &mut b);
    wait_for("it is direct", || !is_refused(&mut b));
    drop(b);
    bottom.stop();
    let bottom = start_below_nobody();
    assert_eq!(bottom.connect().say("REPLICAOF NO ONE"), ok());
}

/// Servers that follow each other say so, serve what they have, and wait for an operator.
#[test]
fn a_circle_is_noticed_and_undone() {
    let servers = chain([None; 3], 80);
    let [mut top, mut middle, mut bottom] = connect(&servers);
    assert_eq!(top.say("SET k 1"), ok());
    wait_until_even(&mut top, &mut bottom);
    follow(&mut top, port(&servers[2]));
    wait_for("the top notices", || {
        field(&mut top, "master_link_error").is_some_and(|why| why.contains("a circle"))
    });
    for wire in [&mut top, &mut middle, &mut bottom] {
        assert_eq!(wire.say("GET k").text(), "1");
        assert_eq!(info(wire, "role"), "slave");
    }
    let offset = info(&mut bottom, "slave_repl_offset");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(info(&mut bottom, "slave_repl_offset"), offset, "nothing goes round");
    assert_eq!(top.say("REPLICAOF NO ONE"), ok());
    assert_eq!(top.say("SET k 2"), ok());
    assert_even(&mut top, &mut bottom);
    assert_eq!(bottom.say("GET k").text(), "2");
    assert_eq!((info(&mut top, "sync_full"), info(&mut middle, "sync_full")), one_each());
}

/// A server that follows itself says so, and loses nothing.
#[test]
fn a_server_that_follows_itself_keeps_its_data() {
    let server = start(None, |_| {});
    let mut wire = server.connect();
    assert_eq!(wire.say("SET k 1"), ok());
    follow(&mut wire, port(&server));
    wait_for("it says why", || {
        field(&mut wire, "master_link_error").is_some_and(|why| why.contains("follows this server"))
    });
    assert_eq!(wire.say("GET k").text(), "1");
    assert_eq!(wire.say("REPLICAOF NO ONE"), ok());
    assert_eq!(wire.say("SET k 2"), ok());
}

/// The middle is ordered to take other data. Its replica keeps what it has until it is ordered, too.
#[test]
fn a_bottom_gives_up_its_data_only_by_an_order_of_its_own() {
    let servers = chain([None; 3], 82);
    let [_, mut middle, mut bottom] = connect(&servers);
    let other = start(None, |_| {});
    let mut new = other.connect();
    assert_eq!(new.say("SET other 1"), ok());
    let before = bottom.say("DEBUG DIGEST");
    follow(&mut middle, port(&other));
    assert_even(&mut new, &mut middle);
    wait_for("the bottom refuses", || {
        let why = field(&mut bottom, "master_link_error");
        why.is_some_and(|why| why.contains("say REPLICAOF again"))
    });
    assert_eq!(bottom.say("DEBUG DIGEST"), before);
    follow(&mut bottom, port(&servers[1]));
    assert_even(&mut new, &mut bottom);
    let again = bottom.say(&format!("REPLICAOF 127.0.0.1 {}", port(&servers[1]))).text();
    assert_eq!(again, "OK Already connected to specified master");
}
