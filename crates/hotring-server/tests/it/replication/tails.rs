//! Old primaries with records that their successors lack rejoin without a full copy; and replicas get from the files of
//! their primary's log what its backlog no longer has.

use fastrand::Rng;
use hotring_log::AckWhen::{self, Synced, Written};
use hotring_server::{Config, Guard};

use super::proxy::Proxy;
use super::{
    Folder, assert_equal, beside_writes, contents, follow, info, server, wait_for, wait_until_up,
    write, write_keys,
};
use crate::wire::{Reply, TestServer, Wire, ok};

pub(super) type Log<'a> = Option<(&'a Folder, AckWhen)>;

pub(super) fn start(log: Log<'_>, change: impl FnOnce(&mut Config)) -> TestServer {
    server(log, |config| {
        config.debug_command = Guard::Yes;
        change(config);
    })
}

/// The counts of full and partial resynchronisations.
pub(super) fn counts(wire: &mut Wire) -> (String, String) {
    (info(wire, "sync_full"), info(wire, "sync_partial_ok"))
}

pub(super) fn assert_alike(primary: &mut Wire, replica: &mut Wire) {
    assert_equal(primary, replica);
    let digest = |wire: &mut Wire| wire.say("DEBUG DIGEST").text();
    assert_eq!(digest(primary), digest(replica));
}

/// An old primary and its former replica, which is primary now. Both had the same data.
fn fork(old: Log<'_>, new: Log<'_>, seed: u64) -> [TestServer; 2] {
    let servers = [start(old, |_| {}), start(new, |_| {})];
    let [mut a, mut b] = [servers[0].connect(), servers[1].connect()];
    let mut random = Rng::with_seed(seed);
    (0..250).for_each(|_| write(&mut a, &mut random));
    follow(&mut b, servers[0].address.port());
    assert_equal(&mut a, &mut b);
    assert_eq!(b.say("REPLICAOF NO ONE"), ok());
    servers
}

#[test]
fn an_old_primary_with_a_tail_of_its_own_rejoins_without_a_copy() {
    let folders = ["a1", "a2", "b2"].map(|name| Folder::new(&format!("tails-{name}")));
    let [a1, a2, b2] = &folders;
    let logs =
        [(None, None), (Some((a1, Written)), None), (Some((a2, Synced)), Some((b2, Written)))];
    for (seed, (old, new)) in logs.into_iter().enumerate() {
        let seed = seed as u64;
        let [one, other] = fork(old, new, seed);
        let (mut a, mut b) = (one.connect(), other.connect());
        let mut random = Rng::with_seed(100 + seed);
        for line in [
            "SET due 1 PX 20",
            "HSET fields f 1 g 2",
            "HPEXPIRE fields 20 FIELDS 1 f",
            "SET only-here 1",
            "PIN only-here",
            "RPUSH grown a b c",
        ] {
            a.say(line);
        }
        for _ in 0..150 {
            write_keys(&mut a, &mut random);
            write(&mut b, &mut random);
        }
        let port = other.address.port();
        beside_writes(&other, 30 + seed, || {
            follow(&mut a, port);
            wait_until_up(&mut a);
        });
        assert_alike(&mut b, &mut a);
        assert_eq!(counts(&mut b), ("0".into(), "1".into()), "logs {seed}");
        assert_eq!(a.say("EXISTS only-here fields"), Reply::Int(0));
        if old.is_none() {
            continue;
        }
        // What the log has is of the new primary alone.
        let before = contents(&mut b);
        one.stop();
        let one = start(old, |_| {});
        assert!(contents(&mut one.connect()) == before, "logs {seed}");
        one.stop();
        (0..100).for_each(|_| write(&mut b, &mut random));
        // It was a primary again, and has begun an epoch of its own.
        let one = start(old, |_| {});
        let mut a = one.connect();
        follow(&mut a, port);
        assert_alike(&mut b, &mut a);
        assert_eq!(counts(&mut b), ("0".into(), "2".into()), "logs {seed}");
    }
}

/// The tail names no keys, or its records are needed for what a snapshot has.
#[test]
fn a_tail_that_cannot_be_repaired_costs_a_copy() {
    let folder = Folder::new("tails-snapshot");
    for (seed, line) in ["FLUSHDB", "SWAPDB 0 1", "SAVE"].into_iter().enumerate() {
        let log = (line == "SAVE").then_some((&folder, Written));
        let [one, other] = fork(log, None, 10 + seed as u64);
        let (mut a, mut b) = (one.connect(), other.connect());
        assert_eq!(a.say("SET only-here 1"), ok());
        assert_eq!(a.say(line), ok());
        assert_eq!(b.say("SET only-there 1"), ok());
        follow(&mut a, other.address.port());
        assert_alike(&mut b, &mut a);
        assert_eq!(info(&mut b, "sync_full"), "1", "{line}");
    }
}

/// Links end anywhere in a repair. No client reads meanwhile, and nothing that is left is a mixture.
#[test]
fn a_repair_that_is_interrupted_goes_on_and_shows_nothing_before() {
    let folder = Folder::new("tails-cut");
    for log in [None, Some((&folder, Written))] {
        let [one, other] = fork(log, None, 20);
        let (mut a, mut b) = (one.connect(), other.connect());
        let value = "v".repeat(4_000);
        for key in 0..120 {
            assert_eq!(b.say(&format!("SET both:{key} new{value}")), ok());
            assert_eq!(a.say(&format!("SET both:{key} old{value}")), ok());
            assert_eq!(a.say(&format!("SET here:{key} {value}")), ok());
        }
        let proxy = Proxy::new(other.address);
        proxy.cut_after(600_000);
        follow(&mut a, proxy.port());
        wait_for("the repair is cut", || proxy.is_cut());
        proxy.refuse(true);
        proxy.cut_after(0);
        wait_for("the repair begins", || a.say("GET both:1").text().starts_with("LOADING"));
        for line in ["GET both:1", "GET here:1", "DBSIZE"] {
            let refused = a.say(line).text();
            assert!(refused.starts_with("LOADING"), "{line}: {refused}");
        }
        let refused = a.say("REPLICAOF NO ONE").text();
        assert!(refused.contains("only a part"), "{refused}");
        let (one, mut a) = match log {
            None => (one, a),
            Some(_) => {
                one.stop();
                let one = start(log, |_| {});
                let mut a = one.connect();
                assert_eq!(a.say("EXISTS here:1 here:119"), Reply::Int(0));
                for key in 0..120 {
                    let found = a.say(&format!("GET both:{key}"));
                    let is_new = matches!(&found, Reply::Bulk(bytes) if bytes.starts_with(b"new"));
                    assert!(is_new || found == Reply::Null, "{key}: {found:?}");
                }
                assert_eq!(a.say("REPLICAOF NO ONE"), ok());
                (one, a)
            }
        };
        proxy.refuse(false);
        if log.is_some() {
            follow(&mut a, proxy.port());
        }
        let mut random = Rng::with_seed(21);
        beside_writes(&other, 22, || {
            for _ in 0..if log.is_none() { 3 } else { 0 } {
                proxy.cut_after(random.usize(50_000..500_000));
                wait_for("a link ends", || proxy.is_cut());
            }
            proxy.never_cut();
            wait_until_up(&mut a);
        });
        assert_alike(&mut b, &mut a);
        assert_eq!(info(&mut b, "sync_full"), "0");
        drop(one);
    }
}

/// The backlog has only the last records, and the files of the log the others.
#[test]
fn the_log_gives_a_replica_what_the_backlog_no_longer_has() {
    let folders = [Folder::new("tails-files-p"), Folder::new("tails-files-r")];
    let primary =
        start(Some((&folders[0], Written)), |config| config.replication.backlog_max = 16 << 10);
    let replica = start(Some((&folders[1], Written)), |_| {});
    let (mut p, mut r) = (primary.connect(), replica.connect());
    let proxy = Proxy::new(primary.address);
    follow(&mut r, proxy.port());
    wait_until_up(&mut r);
    let mut random = Rng::with_seed(23);
    for turn in 1..4 {
        proxy.refuse(true);
        proxy.cut_after(0);
        assert_eq!(p.say(&format!("SET long{turn} {}", "x".repeat(700_000))), ok());
        (0..150).for_each(|_| write(&mut p, &mut random));
        for key in 0..60 {
            assert_eq!(p.say(&format!("SET key:{key} {}", "x".repeat(2_000))), ok());
        }
        proxy.refuse(false);
        proxy.never_cut();
        beside_writes(&primary, turn, || {
            if turn == 3 {
                proxy.cut_after(100_000);
                wait_for("the link ends on its way", || proxy.is_cut());
            }
            wait_until_up(&mut r);
        });
        assert_alike(&mut p, &mut r);
    }
    let (full, partial) = counts(&mut p);
    assert_eq!(full, "1");
    assert!(partial.parse::<u64>().unwrap() >= 4, "{partial}");
    // A snapshot takes the place of the segments.
    proxy.refuse(true);
    proxy.cut_after(0);
    (0..60).for_each(|key| _ = p.say(&format!("SET key:{key} {}", "y".repeat(2_000))));
    assert_eq!(p.say("SAVE"), ok());
    proxy.refuse(false);
    assert_alike(&mut p, &mut r);
    assert_eq!(counts(&mut p).0, "2");
}
