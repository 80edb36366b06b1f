//! Tests of long values: they are received, stored and sent without a copy, which must not show
//! except in memory use.

use std::time::{Duration, Instant};

use hotring_store::EvictionPolicy;

use crate::wire::{Reply, TestServer, Wire, bulk, number_after, ok, request};

const LEN: usize = 3_000_001;

fn value(n: u8) -> String {
    let period = (0..7 * 26).map(|i| char::from(b'a' + ((i / 7 + usize::from(n)) % 26) as u8));
    let mut value = period.collect::<String>().repeat(LEN / (7 * 26) + 1);
    value.truncate(LEN);
    value
}

fn used(wire: &mut Wire) -> usize {
    number_after(&wire.say("INFO memory").text(), "used_memory:") as usize
}

/// Waits until the memory in use is right.
fn wait_for(wire: &mut Wire, what: &str, is_right: impl Fn(usize) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let used = used(wire);
        if is_right(used) {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {used} bytes are used");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn long_values_keep_their_bytes_through_all_commands() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let (a, b) = (value(0), value(1));
    assert_eq!(wire.ask(&["SET", "k", &a]), ok());
    assert_eq!(wire.say("GET k"), bulk(&a));
    assert_eq!(wire.ask(&["SET", "k", &b, "EX", "100", "GET"]), bulk(&a));
    assert_eq!(wire.say("GETEX k PERSIST"), bulk(&b));
    assert_eq!(wire.say("GETEX k EX 100"), bulk(&b));
    assert_eq!(wire.ask(&["GETSET", "k", &a]), bulk(&b));
    assert_eq!(wire.ask(&["SETEX", "k", "100", &b]), ok());
    assert_eq!(wire.ask(&["SETNX", "new", &a]), Reply::Int(1));
    assert_eq!(wire.say("GETRANGE k 10 -10"), bulk(&b[10..LEN - 9]));
    assert_eq!(wire.say("GETRANGE k 5 9"), bulk(&b[5..10]));
    assert_eq!(wire.say("COPY k copy"), Reply::Int(1));
    assert_eq!(wire.say("RENAME new k"), ok());
    assert_eq!(wire.say("MGET k copy"), Reply::Array(vec![bulk(&a), bulk(&b)]));
    assert_eq!(wire.say("APPEND copy x"), Reply::Int(LEN as i64 + 1));
    assert_eq!(wire.say("GETDEL copy"), bulk(&(b.clone() + "x")));
    assert_eq!(wire.ask(&["MSET", "x", &a, "y", &b]), ok());
    assert_eq!(wire.say("GET y"), bulk(&b));
    assert_eq!(wire.say("MULTI"), ok());
    wire.ask(&["SET", "k", &b]);
    wire.say("GET k");
    assert_eq!(wire.say("EXEC"), Reply::Array(vec![ok(), bulk(&b)]));
    assert_eq!(wire.ask(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"]), bulk(&b));
    assert_eq!(wire.say("STRLEN k"), Reply::Int(LEN as i64));
}

#[test]
fn replies_around_long_values_stay_in_order() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let (a, b) = (value(2), value(3));
    let mut all = request(&["SET", "s", "short"]);
    for part in [
        &["SET", "a", &a][..],
        &["GET", "s"],
        &["SET", "b", &b, "PX", "100000"],
        &["GET", "a"],
        &["INCR", "n"],
        &["GET", "b"],
        &["GET", "a"],
        &["CLIENT", "REPLY", "SKIP"],
        &["GET", "a"],
        &["NOCOMMAND"],
        &["GET", "n"],
    ] {
        all.extend(request(part));
    }
    wire.send_beside(all);
    let expected = [ok(), ok(), bulk("short"), ok(), bulk(&a), Reply::Int(1), bulk(&b), bulk(&a)];
    for reply in expected {
        assert!(wire.reply() == reply);
    }
    assert!(wire.reply().is_error());
    assert_eq!(wire.reply(), bulk("1"));
}

#[test]
fn they_take_their_memory_once_and_give_it_back() {
    let server = TestServer::new();
    let (mut wire, mut other) = (server.connect(), server.connect());
    let empty = used(&mut wire);
    let most = |n: usize| empty + n * LEN + LEN / 2;
    let a = value(4);
    // Most of it has arrived.
    let set = request(&["SET", "k", &a]);
    wire.send(&set[..LEN]);
    wait_for(&mut other, "a part", |used| used >= empty + LEN / 2);
    assert!(used(&mut other) < most(1));
    wire.send(&set[LEN..]);
    assert_eq!(wire.reply(), ok());
    assert!((empty + LEN..most(1)).contains(&used(&mut other)));
    let Reply::Int(told) = other.say("MEMORY USAGE k") else { panic!("no number") };
    assert!((LEN..LEN + LEN / 10).contains(&(told as usize)), "{told}");
    // The client does not fetch it, and no other reference is left.
    wire.send(&request(&["GET", "k"]).repeat(20));
    wait_for(&mut other, "replies", |used| used < most(1));
    assert_eq!(other.say("DEL k"), Reply::Int(1));
    assert!(used(&mut other) >= empty + LEN, "it is still to be sent");
    for _ in 0..20 {
        let reply = wire.reply();
        assert!(reply == bulk(&a) || reply == Reply::Null);
    }
    wait_for(&mut other, "all is gone", |used| used < empty + LEN / 10);
    // A client that leaves in the middle leaves nothing behind.
    wire.send(&set[..LEN]);
    wait_for(&mut other, "a part", |used| used >= empty + LEN / 2);
    drop(wire);
    wait_for(&mut other, "it went", |used| used < empty + LEN / 10);
}

#[test]
fn they_make_room_as_they_arrive() {
    const MAX: usize = 16 << 20;
    let server = TestServer::with(|config| {
        config.memory_max = MAX;
        config.eviction.policy = EvictionPolicy::AllKeysLru;
    });
    let mut wire = server.connect();
    let filler = "v".repeat(1000);
    for hundred in 0..200 {
        let sets: Vec<_> = (0..100).map(|i| format!("SET k:{hundred}:{i} {filler}")).collect();
        wire.say_all(&sets);
    }
    let mut kept = 0;
    for n in 0..10 {
        let a = value(n);
        assert_eq!(wire.ask(&["SET", &format!("long:{n}"), &a]), ok());
        // Victims are drawn: where few keys are left the latest may be one.
        let reply = wire.say(&format!("GET long:{n}"));
        assert!(reply == bulk(&a) || reply == Reply::Null);
        kept += usize::from(reply != Reply::Null);
        // A moment later: what was evicted may wait for another thread, as may the reply that was just read.
        wait_for(&mut wire, "room was made", |used| used < MAX + MAX / 100 + (2 << 20));
    }
    assert!(kept >= 8, "{kept} of 10 were kept");
    assert_eq!(wire.say("CONFIG SET maxmemory-policy noeviction"), ok());
    let refused = (0..20).find(|n| wire.ask(&["SET", &format!("more:{n}"), &value(1)]).is_error());
    assert!(refused.is_some(), "nothing goes any more");
    wait_for(&mut wire, "what was refused is gone", |used| used < MAX + MAX / 100 + (2 << 20));
}
