//! No reply shows what an in-sync replica lacks: readers wait for writes that are on their way to the replica, and for
//! nothing else, and nothing that was read is undone by a failover.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::linearizability::{Event, Op, Out, apply};
use super::pair::Pair;
use super::proxy::Sender;
use super::{info, wait_for};
use crate::search::is_linearizable;
use crate::wire::{Reply, Wire, bulk, ok, request};

/// Long enough for most replies that wait for nothing.
const SOON: Duration = Duration::from_millis(150);
/// Long enough for all, also on a busy machine, and shorter than the acknowledgements are held back.
const WAITS_FOR_NOTHING: Duration = Duration::from_secs(2);

fn send(wire: &mut Wire, line: &str) {
    wire.send(&request(&line.split_whitespace().collect::<Vec<_>>()));
}

/// Requests that are sent together: behind a reply that waits, none would run.
fn requests(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| request(&line.split_whitespace().collect::<Vec<_>>())).collect()
}

/// Has the primary make these writes while the replica's acknowledgements are held back. Returns their connection.
fn write_unacknowledged(pair: &Pair, watcher: &mut Wire, writes: &[&str]) -> Wire {
    let before: u64 = info(watcher, "master_repl_offset").parse().unwrap();
    let mut writer = pair.connect();
    writer.send(&requests(writes));
    wait_for("the writes are applied", || {
        let now: u64 = info(watcher, "master_repl_offset").parse().unwrap();
        now >= before + writes.len() as u64
    });
    writer
}

#[test]
fn no_reply_shows_a_write_that_the_replica_has_not_acknowledged() {
    let pair = Pair::with(|config| config.memcached.listen = vec!["127.0.0.1:0".to_string()]);
    let mut p = pair.connect();
    let others = ["SET other 1", "SET other2 1", "SET other3 1"];
    for write in ["SET k old", "SET gone 1", "SET ends 1", "RPUSH l a", "SET w_a 1"] {
        assert!(!p.say(write).is_error(), "{write}");
    }
    others.iter().for_each(|write| assert_eq!(p.say(write), ok()));
    // Clients that waited before.
    let [mut popper, mut waiter, mut watcher] = [(); 3].map(|()| pair.connect());
    send(&mut popper, "BLPOP queue 0");
    send(&mut waiter, "WAITKEY k 0");
    assert_eq!(watcher.say("WATCH k"), ok());
    assert_eq!(watcher.say("MULTI"), ok());
    let mut tracker = pair.connect();
    tracker.say("HELLO 3");
    assert_eq!(tracker.say("CLIENT TRACKING ON"), ok());
    assert_eq!(tracker.say("GET k"), bulk("old"));
    wait_for("two clients wait", || info(&mut p, "blocked_clients") == "2");
    pair.proxy.hold(Sender::Replica, true);
    let writes =
        ["SET k new", "DEL gone", "SET fresh 1", "EXPIREAT ends 4000000000", "RPUSH queue e"];
    let mut writer = write_unacknowledged(&pair, &mut p, &writes);
    send(&mut watcher, "EXEC");
    let value = |text| Reply::Array(vec![bulk(text)]);
    let asked: [(&[&str], Reply); 14] = [
        (&["GET k"], bulk("new")),
        (&["GET gone"], Reply::Null),
        (&["MGET k"], value("new")),
        (&["EXISTS fresh"], Reply::Int(1)),
        (&["EXPIRETIME ends"], Reply::Int(4_000_000_000)),
        (&["SETNX fresh 2"], Reply::Int(0)),
        (&["LLEN queue"], Reply::Int(0)),
        (&["MULTI", "GET k", "EXEC"], value("new")),
        (
            &["MULTI", "SELECT 1", "SELECT 0", "STRLEN k", "EXEC"],
            Reply::Array(vec![ok(), ok(), Reply::Int(3)]),
        ),
        (&["EVAL return(redis.call('get',KEYS[1])) 1 k"], bulk("new")),
        (&["EVAL return(redis.call('get','k')) 0"], bulk("new")),
        (&["DBSIZE"], Reply::Int(9)),
        (&["KEYS fresh"], value("fresh")),
        (&["SORT l BY nosort GET w_*"], value("1")),
    ];
    let mut readers: Vec<Wire> = asked.iter().map(|_| pair.connect()).collect();
    for (wire, (lines, _)) in readers.iter_mut().zip(&asked) {
        wire.send(&requests(lines));
    }
    let [mut random, mut scan] = [(); 2].map(|()| pair.connect());
    send(&mut random, "RANDOMKEY");
    send(&mut scan, "SCAN 0 COUNT 100");
    let mut memcached = TcpStream::connect(pair.primary.memcached_address()).unwrap();
    memcached.write_all(b"get k\r\n").unwrap();
    memcached.set_read_timeout(Some(SOON)).unwrap();
    // Keys share marks, so one of them may wait with bad luck.
    let mut other = pair.connect();
    let at_once = ["GET other", "GET other2", "GET other3"].iter().any(|read| {
        let mut reader = pair.connect();
        send(&mut reader, read);
        !reader.is_silent_for(WAITS_FOR_NOTHING)
    });
    assert!(at_once, "readers of keys that no client writes wait");
    assert_eq!(other.say("PING").text(), "PONG");
    let moment = Duration::from_millis(1);
    let mut answered = Vec::new();
    if memcached.peek(&mut [0; 1]).is_ok() {
        answered.push("memcached's get".to_string());
    }
    for (wire, (lines, _)) in readers.iter_mut().zip(&asked) {
        if !wire.is_silent_for(moment) {
            answered.push(lines.join(", "));
        }
    }
    for (name, wire) in [
        ("the write", &mut writer),
        ("BLPOP", &mut popper),
        ("WAITKEY", &mut waiter),
        ("an invalidation", &mut tracker),
        ("EXEC of a watched key", &mut watcher),
        ("RANDOMKEY", &mut random),
        ("SCAN", &mut scan),
    ] {
        if !wire.is_silent_for(moment) {
            answered.push(name.to_string());
        }
    }
    assert!(answered.is_empty(), "answered too early: {answered:?}");
    pair.proxy.hold(Sender::Replica, false);
    for (wire, (lines, expected)) in readers.iter_mut().zip(asked) {
        let last = lines.iter().map(|_| wire.reply()).last();
        assert_eq!(last, Some(expected), "{lines:?}");
    }
    assert_eq!(writes.map(|_| writer.reply().is_error()), [false; 5]);
    assert_eq!(popper.reply(), Reply::Array(vec![bulk("queue"), bulk("e")]));
    assert_eq!((waiter.reply(), watcher.reply()), (Reply::Int(1), Reply::Null));
    let told = Reply::Push(vec![bulk("invalidate"), Reply::Array(vec![bulk("k")])]);
    assert_eq!(tracker.reply(), told);
    assert!(!random.reply().is_error() && !scan.reply().is_error());
    memcached.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut found = [0; 18];
    memcached.read_exact(&mut found).unwrap();
    assert_eq!(&found, b"VALUE k 0 3\r\nnew\r\n");
}

/// Without the replica it is unknown whether it will ever have the write. What all have is read on.
#[test]
fn a_reply_that_shows_a_write_of_open_fate_is_an_error() {
    let pair = Pair::with(|config| config.replication.in_sync_lag_ms = Some(2_000));
    let mut p = pair.connect();
    ["SET a 1", "SET b 1", "SET c 1", "SET k old"]
        .iter()
        .for_each(|write| assert_eq!(p.say(write), ok()));
    pair.proxy.hold(Sender::Replica, true);
    let mut writer = write_unacknowledged(&pair, &mut p, &["SET k new"]);
    let mut reader = pair.connect();
    send(&mut reader, "GET k");
    assert!(reader.is_silent_for(Duration::from_millis(20)));
    pair.proxy.refuse(true);
    pair.proxy.cut_after(0);
    for wire in [&mut writer, &mut reader] {
        let text = wire.reply().text();
        assert!(text.starts_with("NOREPLICAS") && text.contains("fate"), "{text}");
    }
    let text = pair.connect().say("GET k").text();
    assert!(text.starts_with("NOREPLICAS"), "{text}");
    assert!(["GET a", "GET b", "GET c"].iter().any(|read| pair.connect().say(read) == bulk("1")));
    // The operator goes on without the replica.
    assert_eq!(p.ask(&["CONFIG", "SET", "in-sync-replicas", ""]), ok());
    assert_eq!(p.say("GET k"), bulk("new"));
    assert_eq!(p.say("CONFIG SET ack local"), ok());
    assert_eq!(p.say("GET k"), bulk("new"));
}

/// What a new primary has may be what its own replicas lack.
#[test]
fn a_new_primary_shows_nothing_before_its_replicas_have_it() {
    let pair = Pair::with(|config| config.replication.in_sync_lag_ms = Some(2_000));
    assert_eq!(pair.connect().say("SET k 1"), ok());
    let mut r = pair.replica.connect();
    // A replica that is not there.
    assert_eq!(r.say("CONFIG SET ack replicated in-sync-replicas 127.0.0.1:1"), ok());
    assert_eq!(r.say("GET k"), bulk("1"));
    pair.promote();
    let mut reader = pair.replica.connect();
    send(&mut reader, "GET k");
    assert!(reader.is_silent_for(SOON));
    let text = reader.reply().text();
    assert!(text.starts_with("NOREPLICAS"), "{text}");
    assert_eq!(r.ask(&["CONFIG", "SET", "in-sync-replicas", ""]), ok());
    assert_eq!(r.say("GET k"), bulk("1"));
}

/// A client of the failover's history.
struct Player<'a> {
    clock: &'a AtomicU64,
    wire: Option<Wire>,
    events: Vec<Event>,
}

impl Player<'_> {
    /// Plays one operation. A write without a reply has an open fate, and may take effect at any later time.
    fn play(&mut self, op: Op) {
        let Some(wire) = &mut self.wire else { return };
        let line = match op {
            Op::Set(_, value) => format!("SET k {value}"),
            _ => "GET k".to_string(),
        };
        let begin = self.clock.fetch_add(1, Ordering::SeqCst);
        let reply = wire.try_say(&line).ok().filter(|reply| !reply.is_error());
        let now = self.clock.fetch_add(1, Ordering::SeqCst);
        let (end, out) = match (op, &reply) {
            (Op::Set(..), Some(_)) => (now, Out::Done),
            (Op::Set(..), None) => (u64::MAX, Out::Done),
            (_, Some(reply)) => (now, Out::Value(reply.text().parse().ok())),
            (_, None) => (now, Out::Value(None)),
        };
        if matches!(op, Op::Set(..)) || reply.is_some() {
            self.events.push(Event { begin, end, op, out });
        }
        if reply.is_none() {
            self.wire = None;
        }
    }
}

/// The link freezes in the middle of writes and reads, the replica is promoted, and the history goes on there.
fn history_of_a_failover() -> Vec<Event> {
    const PLAYERS: usize = 4;
    let pair = Pair::new();
    let mut p = pair.connect();
    assert_eq!(p.say("SET k 0"), ok());
    let (clock, turn) = (AtomicU64::new(0), Barrier::new(PLAYERS + 1));
    std::thread::scope(|scope| {
        let players: Vec<_> = (0..PLAYERS)
            .map(|n| {
                let (pair, clock, turn) = (&pair, &clock, &turn);
                scope.spawn(move || {
                    let mut player =
                        Player { clock, wire: Some(pair.connect()), events: Vec::new() };
                    let op = |step: usize| match n % 2 {
                        0 => Op::Set(0, (10 * n + step) as i64 + 1),
                        _ => Op::Get(0),
                    };
                    (0..2).for_each(|step| player.play(op(step)));
                    turn.wait();
                    // The link is frozen.
                    turn.wait();
                    if n % 2 == 1 {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    (2..4).for_each(|step| player.play(op(step)));
                    turn.wait();
                    player.wire = Some(pair.replica.connect());
                    (4..6).for_each(|step| player.play(op(step)));
                    player.events
                })
            })
            .collect();
        turn.wait();
        pair.proxy.hold(Sender::Replica, true);
        pair.proxy.hold(Sender::Primary, true);
        turn.wait();
        std::thread::sleep(Duration::from_millis(200));
        // The old primary serves no client any more.
        assert!(p.say("CLIENT KILL TYPE normal").int() > 0);
        pair.promote();
        turn.wait();
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    })
}

#[test]
fn nothing_that_was_read_is_undone_by_a_failover() {
    std::thread::scope(|scope| {
        let histories: Vec<_> = (0..3).map(|_| scope.spawn(history_of_a_failover)).collect();
        for history in histories {
            let history = history.join().unwrap();
            let open = history.iter().filter(|event| event.end == u64::MAX).count();
            assert!(open > 0, "each write was acknowledged");
            assert!(is_linearizable([Some((0, false)), None], &history, apply), "{history:?}");
        }
    });
}
