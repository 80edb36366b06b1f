//! BLPOP and its kin over real connections: who is served, in which order, and that each element is received once. No
//! test depends on durations but those of timeouts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::wire::{Reply, TestServer, Wire, bulk, ok};

/// Time limit for anything that happens at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until this many connections wait.
fn until_blocked(wire: &mut Wire, n: usize) {
    let deadline = Instant::now() + PATIENCE;
    while !wire.say("INFO clients").text().contains(&format!("blocked_clients:{n}\r\n")) {
        assert!(Instant::now() < deadline, "{n} never wait");
        std::thread::yield_now();
    }
}

fn server(threads: usize) -> TestServer {
    TestServer::with(|config| config.threads = threads)
}

fn push(key: &str, elements: &[impl AsRef<str>]) -> String {
    elements.iter().fold(format!("RPUSH {key}"), |line, element| line + " " + element.as_ref())
}

fn popped(key: &str, element: &str) -> Reply {
    Reply::Array(vec![bulk(key), bulk(element)])
}

/// Connections that wait with these requests, in this order.
fn waiters(server: &TestServer, lines: &[String], observer: &mut Wire) -> Vec<Wire> {
    let begin = |(i, line): (usize, &String)| {
        let mut wire = server.connect();
        wire.send(format!("{line}\r\n").as_bytes());
        until_blocked(observer, i + 1);
        wire
    };
    lines.iter().enumerate().map(begin).collect()
}

/// The first client is served first, on any thread.
#[test]
fn clients_are_served_in_the_order_in_which_they_came() {
    for threads in [1, 2] {
        let server = server(threads);
        let mut pusher = server.connect();
        let lines: Vec<_> = (0..100).map(|i| format!("BLPOP other{i} k 0")).collect();
        let mut waiters = waiters(&server, &lines, &mut pusher);
        let elements: Vec<_> = (0..100).map(|i| format!("{i:03}")).collect();
        pusher.say(&push("k", &elements[..3]));
        assert_eq!(pusher.say("EXISTS k"), Reply::Int(0), "three elements serve three clients");
        elements[3..].iter().for_each(|element| _ = pusher.say(&push("k", &[element])));
        for (waiter, element) in waiters.iter_mut().zip(&elements) {
            assert_eq!(waiter.reply(), popped("k", element));
        }
        until_blocked(&mut pusher, 0);
    }
}

/// A wait ends in one way: by an element, or by another client, and the element is not lost.
#[test]
fn an_element_goes_to_a_client_or_stays() {
    let server = server(2);
    let mut other = server.connect();
    let mut waiter = server.connect();
    let mut pusher = server.connect();
    let id = waiter.say("CLIENT ID").int();
    let unblock = format!("CLIENT UNBLOCK {id} ERROR\r\n");
    for _ in 0..300 {
        waiter.send(b"BLPOP k 0\r\n");
        until_blocked(&mut other, 1);
        pusher.send(format!("{}\r\n", push("k", &["x"])).as_bytes());
        other.send(unblock.as_bytes());
        let is_unblocked = other.reply() == Reply::Int(1);
        pusher.reply();
        assert_eq!(waiter.reply().is_error(), is_unblocked);
        assert_eq!(other.say("DEL k"), Reply::Int(is_unblocked.into()));
    }
}

/// A killed client gets nothing that is pushed afterwards, nor does one that has gone.
#[test]
fn an_element_does_not_go_to_a_client_that_was_killed() {
    let server = server(2);
    let mut other = server.connect();
    for is_killed in [true, false] {
        for _ in 0..50 {
            let mut waiter = server.connect();
            let id = waiter.say("CLIENT ID").int();
            waiter.send(b"BLPOP k 0\r\n");
            until_blocked(&mut other, 1);
            if is_killed {
                assert_eq!(other.say(&format!("CLIENT KILL ID {id}")), Reply::Int(1));
            } else {
                drop(waiter);
                until_blocked(&mut other, 0);
            }
            other.say(&push("k", &["x"]));
            assert_eq!(other.say("DEL k"), Reply::Int(1), "the element is there");
            until_blocked(&mut other, 0);
        }
    }
}

/// Elements that come as time limits pass are received, or stay: none is lost, none comes twice.
#[test]
fn no_element_is_lost_where_a_time_limit_passes() {
    let server = server(2);
    let mut pusher = server.connect();
    let mut waiter = server.connect();
    let mut received = Vec::new();
    let take = |waiter: &mut Wire, received: &mut Vec<String>| {
        if let Reply::Array(items) = waiter.reply() {
            received.push(items[1].text());
        }
    };
    for i in 0..300 {
        waiter.send(b"BLPOP k 0.001\r\n");
        std::thread::sleep(Duration::from_micros(700 + i % 7 * 100));
        pusher.say(&push("k", &[format!("{i}")]));
        take(&mut waiter, &mut received);
    }
    while pusher.say("EXISTS k") == Reply::Int(1) {
        waiter.send(b"BLPOP k 0.001\r\n");
        take(&mut waiter, &mut received);
    }
    assert_eq!(received, (0..300).map(|i| i.to_string()).collect::<Vec<_>>());
}

/// Many threads push and pop: each element is received once, and those of one producer under one key in order.
#[test]
fn each_element_is_received_once_and_in_order() {
    const PRODUCERS: usize = 4;
    const CONSUMERS: usize = 6;
    const EACH: usize = 600;
    const KEYS: usize = 3;
    let server = server(2);
    let received = AtomicUsize::new(0);
    let all: Vec<Vec<String>> = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|i| {
                let (server, received) = (&server, &received);
                scope.spawn(move || {
                    let mut wire = server.connect();
                    let keys: Vec<_> = (0..KEYS).map(|k| format!("k{}", (k + i) % KEYS)).collect();
                    let line = format!("BLPOP {} 0.02", keys.join(" "));
                    let mut elements = Vec::new();
                    while received.load(Relaxed) < PRODUCERS * EACH {
                        if let Reply::Array(items) = wire.say(&line) {
                            received.fetch_add(1, Relaxed);
                            elements.push(items[1].text());
                        }
                    }
                    elements
                })
            })
            .collect();
        for producer in 0..PRODUCERS {
            let server = &server;
            scope.spawn(move || {
                let mut wire = server.connect();
                for i in 0..EACH {
                    let key = i % KEYS;
                    // Numbers of equal length are in order as text, too.
                    let element = format!("{key}:{producer}:{i:05}");
                    assert!(!wire.say(&push(&format!("k{key}"), &[element])).is_error());
                }
            });
        }
        consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect()
    });
    let mut seen = BTreeSet::new();
    for elements in &all {
        let mut last = BTreeMap::new();
        for element in elements {
            assert!(seen.insert(element), "{element} came twice");
            let (source, number) = element.rsplit_once(':').unwrap();
            let before = last.insert(source, number);
            assert!(before.is_none_or(|before| before < number), "{before:?} before {element}");
        }
    }
    assert_eq!(seen.len(), PRODUCERS * EACH, "none is lost");
}

/// Elements move on to keys for which others wait.
#[test]
fn elements_move_on() {
    let server = server(2);
    let mut pusher = server.connect();
    let lines = [
        "BLMOVE a b LEFT RIGHT 0",
        "BLMOVE b c LEFT RIGHT 0",
        "BLMOVE c a LEFT RIGHT 0",
        "BLPOP a 0",
    ];
    let lines = lines.map(str::to_string);
    let mut waiters = waiters(&server, &lines, &mut pusher);
    pusher.say(&push("a", &["x"]));
    for waiter in &mut waiters[..3] {
        assert_eq!(waiter.reply(), bulk("x"));
    }
    assert_eq!(waiters[3].reply(), popped("a", "x"));
    assert_eq!(pusher.say("EXISTS a b c"), Reply::Int(0));
}

/// A transaction or a script is over before anyone is served, and nothing waits in it.
#[test]
fn transactions_and_scripts_are_over_first() {
    let server = server(2);
    let mut pusher = server.connect();
    let mut waiters = waiters(&server, &["BLPOP k l 0".to_string()], &mut pusher);
    assert_eq!(pusher.say("MULTI"), ok());
    for line in
        [&push("k", &["x"]), "DEL k", &push("l", &["y"]), "BLPOP k 0", "BLMOVE k l LEFT RIGHT 0"]
    {
        assert_eq!(pusher.say(line), Reply::Simple("QUEUED".into()));
    }
    let replies = pusher.say("EXEC");
    assert_eq!(replies.items()[3..], [Reply::Null, Reply::Null]);
    assert_eq!(waiters[0].reply(), popped("l", "y"));
    waiters[0].send(b"BLPOP k 0\r\n");
    until_blocked(&mut pusher, 1);
    let script = "redis.call(unpack(ARGV)) return redis.call('blpop', 'none', 0)";
    let push = push("k", &["z"]);
    let args: Vec<_> =
        ["EVAL", script, "2", "k", "none"].into_iter().chain(push.split(' ')).collect();
    assert_eq!(pusher.ask(&args), Reply::Null);
    assert_eq!(waiters[0].reply(), popped("k", "z"));
}

#[test]
fn the_end_of_the_server_ends_waits() {
    let server = server(2);
    let mut other = server.connect();
    let lines = ["BLPOP k 0".to_string(), "BLMOVE k l LEFT LEFT 0".to_string()];
    let mut waiters = waiters(&server, &lines, &mut other);
    server.stop();
    for waiter in &mut waiters {
        let stopping = Reply::Error("UNBLOCKED the server is shutting down".into());
        assert_eq!(waiter.reply(), stopping);
        assert!(waiter.is_closed());
    }
}

/// Requests after a wait run after it; the shown state is that of Redis.
#[test]
fn a_wait_is_shown_once_and_costs_no_time() {
    let server = server(2);
    let mut other = server.connect();
    assert_eq!(other.say("CONFIG SET slowlog-log-slower-than 20000"), ok());
    let mut monitor = server.connect();
    assert_eq!(monitor.say("MONITOR"), ok());
    let mut waiter = server.connect();
    waiter.send(b"BLPOP k 0\r\nSET behind 1\r\n");
    until_blocked(&mut other, 1);
    let list = other.say("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains("cmd=blpop")).unwrap();
    assert!(line.contains(" flags=b "), "{line}");
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(other.say("EXISTS behind"), Reply::Int(0));
    other.say(&push("k", &["x"]));
    assert_eq!(waiter.reply(), popped("k", "x"));
    assert_eq!(waiter.reply(), ok());
    let shown = |monitor: &mut Wire| {
        let mut n_shown = 0;
        loop {
            let line = monitor.reply().text();
            n_shown += usize::from(line.contains("\"BLPOP\""));
            if line.contains("\"behind\" \"1\"") {
                return n_shown;
            }
        }
    };
    assert_eq!(shown(&mut monitor), 1);
    assert_eq!(other.say("SLOWLOG LEN"), Reply::Int(0));
    let stats = other.say("INFO commandstats").text();
    assert!(stats.contains("cmdstat_blpop:calls=1,"), "{stats}");
}

#[test]
fn users_need_their_rights_to_wait() {
    let server = server(2);
    let mut admin = server.connect();
    assert_eq!(admin.say("ACL SETUSER u on >p ~own* +blpop +blmove"), ok());
    let mut user = server.connect();
    assert_eq!(user.say("AUTH u p"), ok());
    for line in ["BLPOP own other 0", "BLMOVE own other LEFT LEFT 0", "BRPOP own 0"] {
        assert!(user.say(line).text().starts_with("NOPERM"), "{line}");
    }
    user.send(b"BLPOP own own2 0\r\n");
    until_blocked(&mut admin, 1);
}

/// A key has a line in each database, and a transaction may serve several of them.
#[test]
fn lines_are_of_a_database() {
    let server = server(2);
    let mut pusher = server.connect();
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(second.say("SELECT 1"), ok());
    first.send(b"BLPOP k 0\r\n");
    until_blocked(&mut pusher, 1);
    second.send(b"BLPOP k 0\r\n");
    until_blocked(&mut pusher, 2);
    for line in ["MULTI", "SELECT 1", "RPUSH k one", "SELECT 0", "RPUSH k zero", "EXEC"] {
        pusher.say(line);
    }
    assert_eq!(first.reply(), popped("k", "zero"));
    assert_eq!(second.reply(), popped("k", "one"));
    pusher.say("MULTI");
    first.send(b"BLPOP k 0\r\n");
    for line in ["SELECT 1", "RPUSH k other", "EXEC"] {
        pusher.say(line);
    }
    assert_eq!(pusher.say("LLEN k"), Reply::Int(1), "the client in database 0 has no part in it");
    assert_eq!(pusher.say("DEL k"), Reply::Int(1));
    pusher.say("SELECT 0");
    pusher.say("RPUSH k own");
    assert_eq!(first.reply(), popped("k", "own"));
}
