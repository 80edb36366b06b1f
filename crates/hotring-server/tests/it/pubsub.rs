//! Tests of messages between connections on several threads. No test depends on durations: it polls
//! until a connection is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::wire::{Reply, TestServer, Wire, bulk, ok};

fn listening(server: &TestServer, version: u8, line: &str) -> Wire {
    let mut wire = server.connect();
    wire.say(&format!("HELLO {version}"));
    wire.say(line);
    wire
}

fn message(parts: &[&str]) -> Vec<Reply> {
    parts.iter().map(|part| bulk(part)).collect()
}

#[test]
fn a_message_reaches_all_listeners_in_their_version() {
    let server = TestServer::new();
    let mut publisher = server.connect();
    let mut named: Vec<Wire> =
        (0..4).map(|i| listening(&server, 2 + i % 2, "SUBSCRIBE news")).collect();
    let mut matching = listening(&server, 3, "PSUBSCRIBE n?ws");
    let mut other = listening(&server, 2, "SUBSCRIBE news2");
    assert_eq!(
        publisher.say("PUBSUB NUMSUB news"),
        Reply::Array(vec![bulk("news"), Reply::Int(4)])
    );
    assert_eq!(publisher.say("PUBLISH news hello"), Reply::Int(5));
    assert_eq!(publisher.say("PUBLISH news2 bye"), Reply::Int(1));
    for (i, wire) in named.iter_mut().enumerate() {
        let parts = message(&["message", "news", "hello"]);
        let expected = if i % 2 == 0 { Reply::Array(parts) } else { Reply::Push(parts) };
        assert_eq!(wire.reply(), expected);
    }
    assert_eq!(matching.reply(), Reply::Push(message(&["pmessage", "n?ws", "news", "hello"])));
    assert_eq!(other.reply(), Reply::Array(message(&["message", "news2", "bye"])));
    // In RESP3 a subscribed connection may run any command.
    assert_eq!(matching.say("SET k v"), ok());
    assert_eq!(named[0].say("PING"), Reply::Array(vec![bulk("pong"), bulk("")]));
}

#[test]
fn all_get_all_messages_in_one_order() {
    const EACH: usize = 300;
    const PUBLISHERS: usize = 3;
    let server = TestServer::new();
    let mut listeners: Vec<Wire> =
        (0..3).map(|i| listening(&server, 2 + i % 2, "PSUBSCRIBE c*")).collect();
    std::thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let mut wire = server.connect();
            scope.spawn(move || {
                for i in 0..EACH {
                    let line = format!("PUBLISH c{} {publisher}-{i}", (publisher + i) % 2);
                    assert_eq!(wire.say(&line), Reply::Int(3));
                }
            });
        }
    });
    let seen: Vec<Vec<String>> = listeners
        .iter_mut()
        .map(|wire| (0..EACH * PUBLISHERS).map(|_| wire.reply().items()[3].text()).collect())
        .collect();
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], seen[2]);
    let mut next: BTreeMap<&str, usize> = BTreeMap::new();
    for text in &seen[0] {
        let (publisher, i) = text.split_once('-').unwrap();
        let expected = next.entry(publisher).or_default();
        assert_eq!(i, expected.to_string(), "of {publisher}");
        *expected += 1;
    }
}

#[test]
fn a_subscriber_that_does_not_read_loses_its_connection() {
    let server = TestServer::with(|config| config.subscriber_output_max = 1 << 20);
    let mut publisher = server.connect();
    let mut deaf = listening(&server, 2, "SUBSCRIBE c");
    let mut other = listening(&server, 2, "SUBSCRIBE d");
    let text = "x".repeat(1 << 16);
    // The kernel buffers some of them.
    let sent = (0..20_000).take_while(|_| publisher.ask(&["PUBLISH", "c", &text]) == Reply::Int(1));
    assert!((16..20_000).contains(&sent.count()));
    assert!(deaf.is_closed());
    let info = publisher.say("INFO stats").text();
    assert!(info.contains("client_output_buffer_limit_disconnections:1\r\n"), "{info}");
    assert!(info.contains("pubsub_channels:1\r\n"), "{info}");
    assert_eq!(publisher.say("PUBLISH d x"), Reply::Int(1));
    assert_eq!(other.reply(), Reply::Array(message(&["message", "d", "x"])));
}

#[test]
fn the_end_of_a_connection_ends_its_subscriptions() {
    let server = TestServer::new();
    let mut observer = server.connect();
    let lost = listening(&server, 3, "SUBSCRIBE a b");
    let mut killed = listening(&server, 2, "PSUBSCRIBE a*");
    assert_eq!(observer.say("CLIENT LIST TYPE pubsub").text().lines().count(), 2);
    assert_eq!(observer.say("CLIENT LIST TYPE normal").text().lines().count(), 1);
    drop(lost);
    while observer.say("PUBLISH a x") != Reply::Int(1) {}
    assert_eq!(observer.say("CLIENT KILL TYPE pubsub"), Reply::Int(1));
    while observer.say("PUBSUB NUMPAT") != Reply::Int(0) {}
    let rest = killed.read_to_end();
    assert!(rest.len() < 10_000, "messages that it got before: {}", rest.len());
    assert_eq!(observer.say("PUBSUB CHANNELS"), Reply::Array(vec![]));
    assert_eq!(observer.say("PUBLISH a x"), Reply::Int(0));
}

#[test]
fn messages_pass_while_requests_are_under_way() {
    const N: usize = 500;
    let server = TestServer::new();
    let mut publisher = server.connect();
    let mut wire = listening(&server, 3, "SUBSCRIBE c");
    std::thread::scope(|scope| {
        scope.spawn(|| (0..N).for_each(|i| _ = publisher.say(&format!("PUBLISH c {i}"))));
        let (mut messages, mut replies) = (0, 0);
        wire.send(&b"INCR n\r\n".repeat(N));
        while messages < N || replies < N {
            match wire.reply() {
                Reply::Push(parts) => {
                    assert_eq!(parts[2], bulk(&messages.to_string()));
                    messages += 1;
                }
                reply => {
                    replies += 1;
                    assert_eq!(reply, Reply::Int(replies as i64));
                }
            }
        }
    });
}

/// Messages may arrive between the check for them and the end of a subscription: the reply to
/// UNSUBSCRIBE must follow them.
#[test]
fn no_message_comes_behind_the_end_of_a_subscription() {
    const ROUNDS: usize = 1_000;
    let server = TestServer::with(|config| config.threads = 2);
    let mut wire = server.connect();
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut publisher = server.connect();
            while !end.load(Ordering::Relaxed) {
                publisher.send(&b"PUBLISH c x\r\n".repeat(50));
                (0..50).for_each(|_| _ = publisher.reply());
            }
        });
        let mut round = |i: usize| {
            wire.send(b"SUBSCRIBE c\r\n");
            // At least some messages come before the end.
            while i.is_multiple_of(10) && wire.reply().items()[0] != bulk("message") {}
            wire.send(b"UNSUBSCRIBE c\r\n");
            while wire.reply().items()[0] != bulk("unsubscribe") {}
            wire.say("PING")
        };
        let replies = (0..ROUNDS).map(&mut round);
        let wrong = replies.enumerate().find(|(_, reply)| *reply != Reply::Simple("PONG".into()));
        end.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
}

#[test]
fn the_expiry_of_an_unread_key_is_reported() {
    let server = TestServer::new();
    let mut writer = server.connect();
    assert_eq!(writer.say("CONFIG SET notify-keyspace-events Ex"), ok());
    let mut listener = listening(&server, 3, "SUBSCRIBE __keyevent@0__:expired");
    for i in 0..100 {
        writer.say(&format!("SET k{i} v PX {}", 1 + i % 3));
    }
    let mut told: Vec<String> = (0..100).map(|_| listener.reply().items()[2].text()).collect();
    told.sort();
    let mut expected: Vec<String> = (0..100).map(|i| format!("k{i}")).collect();
    expected.sort();
    assert_eq!(told, expected, "each once");
    assert_eq!(writer.say("DBSIZE"), Reply::Int(0));
}
