//! What clients of a replica notice of its stream: events, invalidations, transactions that fail, and keys that expire.

use fastrand::Rng;
use hotring_server::Guard;

use super::{follow, server, wait_for, wait_until_even, wait_until_up, write};
use crate::wire::{Reply, TestServer, Wire, ok};

fn pair() -> [TestServer; 2] {
    let start = || server(None, |config| config.debug_command = Guard::Yes);
    let [primary, replica] = [start(), start()];
    let mut r = replica.connect();
    follow(&mut r, primary.address.port());
    wait_until_up(&mut r);
    [primary, replica]
}

fn digests(wires: [&mut Wire; 2]) -> [String; 2] {
    wires.map(|wire| wire.say("DEBUG DIGEST").text())
}

#[test]
fn clients_of_a_replica_notice_what_its_primary_writes() {
    let [primary, replica] = pair();
    let [mut p, mut r] = [&primary, &replica].map(TestServer::connect);
    assert_eq!(p.say("SET watched 1"), ok());
    assert_eq!(p.say("SET tracked 1"), ok());
    wait_until_even(&mut p, &mut r);
    let [mut listener, mut tracker] = [replica.connect(), replica.connect()];
    assert_eq!(r.say("CONFIG SET notify-keyspace-events KEA"), ok());
    listener.say("SUBSCRIBE __keyevent@0__:sadd");
    tracker.say("HELLO 3");
    assert_eq!(tracker.say("CLIENT TRACKING ON"), ok());
    assert_eq!(tracker.say("GET tracked").text(), "1");
    assert_eq!(r.say("WATCH watched"), ok());
    assert_eq!(r.say("MULTI"), ok());
    r.say("GET watched");
    assert_eq!(p.say("MULTI"), ok());
    for line in ["SET watched 2", "SET tracked 2", "SADD members a b"] {
        p.say(line);
    }
    p.say("EXEC");
    let event = listener.reply();
    assert_eq!(event.items()[2].text(), "members", "{event:?}");
    let invalidation = tracker.reply();
    assert_eq!(invalidation.items()[1].items()[0].text(), "tracked", "{invalidation:?}");
    assert_eq!(r.say("EXEC"), Reply::Null, "its key has changed");
}

#[test]
fn a_digest_shows_that_a_replica_has_what_its_primary_has() {
    let [primary, replica] = pair();
    let [mut p, mut r] = [&primary, &replica].map(TestServer::connect);
    let mut random = Rng::with_seed(3);
    for _ in 0..3_000 {
        write(&mut p, &mut random);
    }
    assert_eq!(p.say("SELECT 0"), ok());
    p.say("SET short 1 PX 30");
    p.say("HSET fields a 1 b 2");
    p.say("HPEXPIRE fields 30 FIELDS 1 a");
    let sizes = |p: &mut Wire, r: &mut Wire| [p, r].map(|wire| wire.say("DBSIZE").int());
    wait_for("what has expired goes at the replica, too", || {
        let [here, there] = sizes(&mut p, &mut r);
        p.say("EXISTS short").int() == 0 && p.say("HLEN fields").int() == 1 && here == there
    });
    wait_until_even(&mut p, &mut r);
    let [here, there] = digests([&mut p, &mut r]);
    assert_eq!(here, there);
}
