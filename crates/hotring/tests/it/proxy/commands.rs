//! Commands, pipelines, transactions, waiting, messages and passwords through a proxy.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hotring_proxy::{Proxy, Settings};

use super::{connect, counted, proxy, say, wait_for};
use crate::cluster_demo::Demo;
use crate::nemesis::clients::Wire;

#[test]
fn a_cluster_looks_like_one_server() {
    let demo = Demo::start(&["--copies", "1"]);
    let proxy = proxy(&demo, Settings::default());
    let wire = &mut connect(&proxy);
    for (line, reply) in [
        ("PING", "PONG"),
        ("ECHO hi", "hi"),
        ("SELECT 0", "OK"),
        ("SELECT 1", "-ERR DB index is out of range: a cluster has database 0 alone"),
        ("MSET a 1 b 2 c 3 d 4 e 5", "OK"),
        ("MGET e a nope d b c a", "[5 1 nil 4 2 3 1]"),
        ("DBSIZE", "5"),
        ("EXISTS a b nope a", "3"),
        ("DEL a b nope", "2"),
        ("TOUCH c d", "2"),
        ("INCRBY c 4", "7"),
        ("EVAL return(redis.call([[incr]],KEYS[1])) 1 c", "8"),
        ("RENAME {c}x c", "-ERR no such key"),
        (
            "MSETNX a 1 b 2",
            "-CROSSSLOT the keys of this request are on several nodes, and it must be atomic: give them one hash tag, as in {tag}key",
        ),
        ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command"),
        ("LPUSH l x y", "2"),
        ("GET l", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("CLUSTER SLOTS", "-ERR This instance has cluster support disabled"),
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: "),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("SCRIPT LOAD return(1)", "9ddc1ea4c3a53fb2a0ef2d8ce5d2b4ffd6e2b02b"),
        ("CLIENT SETNAME me", "OK"),
        ("CLIENT GETNAME", "me"),
        ("ROLE", "[master 0 []]"),
    ] {
        let found = say(wire, line);
        match line {
            "SCRIPT LOAD return(1)" => {
                assert_eq!(found.len(), 40, "{found}");
                assert_eq!(say(wire, &format!("SCRIPT EXISTS {found} abc")), "[1 0]");
                for key in ["a", "b", "c"] {
                    assert_eq!(say(wire, &format!("EVALSHA {found} 1 {key}")), "1", "{key}");
                }
            }
            _ => assert_eq!(found, reply, "{line}"),
        }
    }
    assert!(say(wire, "SHUTDOWN").contains("ROUTE key names the one that has a key"));
    let route = say(wire, "ROUTE c");
    assert!(demo.nodes.keys().any(|node| route == format!("[7365 {node}]")), "{route}");
    assert_eq!(say(wire, "FLUSHALL"), "OK");
    // A walk meets every key once, whatever its pages.
    for n in 0..500 {
        wire.send(&format!("SET key:{n} {n}\r\n")).unwrap();
    }
    (0..500).for_each(|_| drop(wire.reply().unwrap()));
    let (mut cursor, mut met) = ("0".to_string(), Vec::new());
    loop {
        let page = say(wire, &format!("SCAN {cursor} COUNT 20"));
        let (next, keys) = page[1..page.len() - 1].split_once(' ').unwrap();
        met.extend(keys.trim_matches(['[', ']']).split_whitespace().map(str::to_string));
        cursor = next.to_string();
        if cursor == "0" {
            break;
        }
    }
    met.sort();
    met.dedup();
    assert_eq!(met.len(), 500);
    assert_eq!(say(wire, "KEYS key:49*").split(' ').count(), 11);
    assert!(say(wire, "RANDOMKEY").starts_with("key:"));
    drop(proxy);
    demo.end();
}

#[test]
fn replies_keep_the_order_of_a_pipeline() {
    let demo = Demo::start(&["--copies", "1"]);
    let proxy = proxy(&demo, Settings { pipeline_max: 100, ..Settings::default() });
    let (mut lines, mut expected) = (String::new(), Vec::new());
    for n in 0..2_000 {
        let key = n % 7;
        lines += &format!("INCR counter:{key}\r\nECHO {n}\r\nMGET counter:0 counter:{key}\r\n");
        let now = n / 7 + 1;
        expected.extend([format!("{now}"), format!("{n}"), format!("[{} {now}]", n / 7 + 1)]);
    }
    let stream = TcpStream::connect(proxy.addresses()[0]).unwrap();
    let (mut writes, mut reads) = (stream.try_clone().unwrap(), Wire::over(stream).unwrap());
    std::thread::scope(|scope| {
        // Sent while replies are read: no buffer holds all of it.
        scope.spawn(move || writes.write_all(lines.as_bytes()).unwrap());
        for expected in expected {
            assert_eq!(super::shown(&reads.reply().unwrap()), expected);
        }
    });
    drop(proxy);
    demo.end();
}

#[test]
fn transactions_waits_and_messages_go_through() {
    let demo = Demo::start(&["--copies", "1"]);
    let proxy = proxy(&demo, Settings::default());
    let (mut one, mut other) = (connect(&proxy), connect(&proxy));
    // Transactions.
    for (line, reply) in [
        ("MULTI", "OK"),
        ("SET {t}a 1", "QUEUED"),
        ("INCR {t}b", "QUEUED"),
        ("LPUSH {t}a 1", "QUEUED"),
        ("EXEC", "[OK 1 -WRONGTYPE Operation against a key holding the wrong kind of value]"),
        ("EXEC", "-ERR EXEC without MULTI"),
        ("MULTI", "OK"),
        ("SET a 1", "QUEUED"),
        ("SET b 1", "QUEUED"),
        ("EXEC", "-CROSSSLOT Keys in request don't hash to the same slot"),
        ("MULTI", "OK"),
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: "),
        ("EXEC", "-EXECABORT Transaction discarded because of previous errors."),
        ("GET a", "nil"),
        ("WATCH {t}a", "OK"),
        ("MULTI", "OK"),
        ("INCR {t}a", "QUEUED"),
        ("EXEC", "[2]"),
        ("WATCH {t}a", "OK"),
    ] {
        assert_eq!(say(&mut one, line), reply, "{line}");
    }
    assert_eq!(say(&mut other, "INCR {t}a"), "3");
    assert_eq!(say(&mut one, "MULTI"), "OK");
    assert_eq!(say(&mut one, "INCR {t}a"), "QUEUED");
    assert_eq!(say(&mut one, "EXEC"), "nil");
    assert_eq!(say(&mut one, "GET {t}a"), "3");
    // A client that waits keeps no other from its node.
    one.send("BLPOP list 0\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(say(&mut other, "GET {list}x"), "nil");
    assert_eq!(say(&mut other, "RPUSH list x"), "1");
    assert_eq!(super::shown(&one.reply().unwrap()), "[list x]");
    assert_eq!(say(&mut one, "BLPOP list 0.05"), "nil");
    // One that has gone takes nothing.
    let mut gone = connect(&proxy);
    gone.send("BLPOP list 0\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    drop(gone);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(say(&mut other, "RPUSH list y"), "1");
    assert_eq!(say(&mut other, "LLEN list"), "1");
    // Messages.
    for line in ["SUBSCRIBE c", "PSUBSCRIBE p*"] {
        assert!(say(&mut one, line).contains("subscribe"), "{line}");
    }
    assert!(say(&mut one, "GET a").starts_with("-ERR Can't execute 'get'"));
    assert!(say(&mut one, "SSUBSCRIBE s").starts_with("[ssubscribe s"));
    // The number that it answers is that of one node's subscribers.
    assert!(["0", "1"].contains(&&say(&mut other, "PUBLISH c hello")[..]));
    assert_eq!(super::shown(&one.reply().unwrap()), "[message c hello]");
    assert_eq!(say(&mut other, "SPUBLISH s there"), "1");
    assert_eq!(super::shown(&one.reply().unwrap()), "[smessage s there]");
    assert_eq!(say(&mut one, "PING"), "[pong ]");
    for line in ["UNSUBSCRIBE c", "PUNSUBSCRIBE", "SUNSUBSCRIBE"] {
        assert!(say(&mut one, line).contains("unsubscribe"), "{line}");
    }
    assert_eq!(say(&mut one, "GET a"), "nil");
    // RESP3.
    assert!(say(&mut one, "HELLO 3 SETNAME three").contains("Map"));
    assert_eq!(say(&mut one, "HSET h f v"), "1");
    assert_eq!(say(&mut one, "HGETALL h"), "Map([(Bulk([102]), Bulk([118]))])");
    assert_eq!(say(&mut one, "RESET"), "RESET");
    assert_eq!(say(&mut one, "HGETALL h"), "[f v]");
    drop(proxy);
    demo.end();
}

#[test]
fn the_nodes_check_who_may_do_what() {
    let demo = Demo::start(&["--copies", "1"]);
    for node in demo.nodes.keys() {
        let mut wire = Wire::connect(node).unwrap();
        assert_eq!(say(&mut wire, "ACL SETUSER reader on >word ~* +@read"), "OK");
        assert_eq!(say(&mut wire, "CONFIG SET requirepass secret"), "OK");
    }
    let login = Some(("default".to_string(), "secret".to_string()));
    let proxy = proxy(&demo, Settings { login, ..Settings::default() });
    let mut wire = connect(&proxy);
    assert!(say(&mut wire, "GET a").starts_with("-NOAUTH"));
    assert!(say(&mut wire, "AUTH wrong").starts_with("-WRONGPASS"));
    assert!(say(&mut wire, "HELLO 3").starts_with("-NOAUTH"));
    assert_eq!(say(&mut wire, "AUTH secret"), "OK");
    assert_eq!(say(&mut wire, "SET a 1"), "OK");
    assert_eq!(say(&mut wire, "AUTH reader word"), "OK");
    assert!(say(&mut wire, "SET a 2").starts_with("-NOPERM"));
    assert_eq!(say(&mut wire, "GET a"), "1");
    let mut three = connect(&proxy);
    assert!(say(&mut three, "HELLO 3 AUTH reader word").contains("Map"));
    assert!(say(&mut three, "ACL WHOAMI").starts_with("-NOPERM"));
    assert_eq!(say(&mut three, "GET a"), "1");
    // Whoever is not let in cannot fill memory.
    let mut large = connect(&proxy);
    large.send("*2\r\n$4\r\nPING\r\n$1000000\r\n").unwrap();
    let refused = super::shown(&large.reply().unwrap());
    assert_eq!(refused, "-ERR Protocol error: unauthenticated bulk length");
    assert!(large.say("PING").is_err());
    drop(proxy);
    demo.end();
}

/// A node that refuses MULTI has done the commands behind it. It once refused EXEC by another text than was looked for,
/// and the client was told that nothing was done.
#[test]
fn a_transaction_without_multi_has_an_unknown_fate() {
    let demo = Demo::start(&["--copies", "1"]);
    let allow = |rules: &str| {
        for node in demo.nodes.keys() {
            let mut wire = Wire::connect(node).unwrap();
            assert_eq!(say(&mut wire, &format!("ACL SETUSER some on >word ~* {rules}")), "OK");
        }
    };
    allow("+@all");
    let proxy = proxy(&demo, Settings::default());
    let [mut one, mut watches] = [0; 2].map(|_| connect(&proxy));
    for wire in [&mut one, &mut watches] {
        assert_eq!(say(wire, "AUTH some word"), "OK");
        for (line, reply) in [("MULTI", "OK"), ("SET a 1", "QUEUED"), ("EXEC", "[OK]")] {
            assert_eq!(say(wire, line), reply);
        }
    }
    assert_eq!(say(&mut watches, "WATCH a"), "OK");
    allow("-multi -exec");
    for wire in [&mut one, &mut watches] {
        assert_eq!(say(wire, "MULTI"), "OK");
        assert_eq!(say(wire, "INCR a"), "QUEUED");
        let told = say(wire, "EXEC");
        assert!(told.starts_with("-UNKNOWN"), "{told}");
    }
    assert_eq!(say(&mut one, "GET a"), "3");
    assert_eq!(counted(&mut one, "proxy_unknown_writes"), 2);
    // Nothing is done if all of it is refused.
    allow("-incr");
    assert_eq!(say(&mut one, "MULTI"), "OK");
    assert_eq!(say(&mut one, "INCR a"), "QUEUED");
    assert!(say(&mut one, "EXEC").starts_with("-NOPERM"));
    drop(proxy);
    demo.end();
}

/// One that had sent much behind its request was not seen to end, and took what others would have got.
#[test]
fn a_client_that_ends_behind_a_long_pipeline_takes_nothing() {
    let demo = Demo::start(&["--copies", "1"]);
    let proxy = proxy(&demo, Settings::default());
    let mut other = connect(&proxy);
    let mut gone = TcpStream::connect(proxy.addresses()[0]).unwrap();
    gone.write_all(b"BLPOP list 0\r\n").unwrap();
    gone.write_all(&b"PING\r\n".repeat(15_000)).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(gone);
    wait_for("it is gone", || counted(&mut other, "connected_clients") == 1);
    assert_eq!(say(&mut other, "RPUSH list y"), "1");
    assert_eq!(say(&mut other, "LLEN list"), "1");
    drop(proxy);
    demo.end();
}

#[test]
fn reads_of_a_hot_key_are_merged() {
    let demo = Demo::start(&["--copies", "1"]);
    let merge_window = Duration::from_millis(5);
    let proxy = proxy(&demo, Settings { merge_window, ..Settings::default() });
    let mut wires: Vec<Wire> = (0..20).map(|_| connect(&proxy)).collect();
    assert_eq!(say(&mut wires[0], "SET hot 1"), "OK");
    let begun = Instant::now();
    let mut rounds = 0;
    while rounds < 20 || begun.elapsed() < Duration::from_millis(200) {
        wires.iter_mut().for_each(|wire| wire.send("GET hot\r\n").unwrap());
        for wire in &mut wires {
            assert_eq!(super::shown(&wire.reply().unwrap()), "1");
        }
        rounds += 1;
    }
    let merged = counted(&mut wires[0], "proxy_merged_reads");
    assert!(merged >= rounds * 10, "{merged} of {} reads", rounds * 20);
    // Not across a write of the same client.
    let lines = "GET hot\r\nSET hot 2\r\nGET hot\r\nINCR hot\r\nGET hot\r\n";
    wires[1].send(lines).unwrap();
    for expected in ["1", "OK", "2", "3", "3"] {
        assert_eq!(super::shown(&wires[1].reply().unwrap()), expected);
    }
    drop(proxy);
    demo.end();
}

#[test]
fn limits_hold_and_nonsense_ends_one_connection_only() {
    let demo = Demo::start(&["--copies", "1"]);
    let proxy = proxy(
        &demo,
        Settings {
            clients_max: 3,
            request_len_max: 1 << 20,
            output_max: 4 << 20,
            ..Settings::default()
        },
    );
    let mut one = connect(&proxy);
    assert_eq!(say(&mut one, "PING"), "PONG");
    let mut nonsense = connect(&proxy);
    nonsense.send("*1\r\n%1\r\n").unwrap();
    assert!(super::shown(&nonsense.reply().unwrap()).starts_with("-ERR Protocol error"));
    assert!(nonsense.reply().is_err());
    let mut long = connect(&proxy);
    long.send("*2\r\n$3\r\nGET\r\n$2000000\r\n").unwrap();
    assert!(super::shown(&long.reply().unwrap()).contains("invalid bulk length"));
    drop((nonsense, long));
    wait_for("the others are gone", || counted(&mut one, "connected_clients") == 1);
    let held = [connect(&proxy), connect(&proxy)];
    let mut fourth = connect(&proxy);
    wait_for(
        "the fourth is refused",
        || matches!(fourth.reply(), Ok(reply) if super::shown(&reply).contains("max number")),
    );
    // One that never reads does not fill memory, and keeps no other from its replies.
    drop(held);
    wait_for("they are gone", || counted(&mut one, "connected_clients") == 1);
    let value = "x".repeat(500_000);
    one.send(&format!("*3\r\n$3\r\nSET\r\n$3\r\nbig\r\n$500000\r\n{value}\r\n")).unwrap();
    assert_eq!(super::shown(&one.reply().unwrap()), "OK");
    let mut slow = connect(&proxy);
    slow.send(&"GET big\r\n".repeat(100)).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(say(&mut one, "GET nope"), "nil");
    drop(proxy);
    demo.end();
}

/// All clients of a user share a connection to each node: none may change it for the others.
#[test]
fn nothing_changes_the_connections_that_clients_share() {
    let demo = Demo::start(&["--copies", "1"]);
    for node in demo.nodes.keys() {
        let mut wire = Wire::connect(node).unwrap();
        let users = ["other on >word ~* +@all", "plain on >word ~* +@read +@write -@transaction"];
        for user in users {
            assert_eq!(say(&mut wire, &format!("ACL SETUSER {user}")), "OK");
        }
    }
    // One thread, so that all clients share.
    let proxy = Proxy::start(Settings {
        listen: vec!["127.0.0.1:0".parse().unwrap()],
        nodes: vec![demo.first.clone()],
        threads: 1,
        ..Settings::default()
    });
    let proxy = proxy.unwrap();
    wait_for("the proxy knows the cluster", || proxy.is_ready());
    let (mut one, mut other) = (connect(&proxy), connect(&proxy));
    for line in ["AUTH other word", "HELLO 3", "READONLY", "RESET", "CLIENT REPLY OFF", "SELECT 1"]
    {
        assert_eq!(say(&mut one, "MULTI"), "OK");
        assert!(say(&mut one, line).starts_with("-ERR") || line == "RESET", "{line}");
        if line != "RESET" {
            assert!(say(&mut one, "EXEC").starts_with("-EXECABORT"), "{line}");
        }
        assert_eq!(say(&mut other, "ACL WHOAMI"), "default", "{line}");
        assert_eq!(say(&mut other, "HGETALL none"), "[]", "{line}");
    }
    // Without the right to MULTI, the commands behind it must not be executed one by one.
    assert_eq!(say(&mut one, "AUTH plain word"), "OK");
    assert!(say(&mut one, "MULTI").starts_with("-NOPERM"));
    assert_eq!(say(&mut one, "SET a 1"), "OK");
    // WATCH and subscriptions are of the user who began them.
    for line in ["WATCH a", "SUBSCRIBE c"] {
        let mut client = connect(&proxy);
        assert!(say(&mut client, "HELLO 3").contains("Map"));
        assert!(!say(&mut client, line).starts_with('-'), "{line}");
        assert!(say(&mut client, "AUTH other word").starts_with("-ERR end WATCH"), "{line}");
    }
    // One whose node takes it in pieces, and answers the first before the last.
    let value = "x".repeat(4 << 20);
    let set =
        |n: usize| format!("*3\r\n$3\r\nSET\r\n$4\r\n{{t}}{n}\r\n${}\r\n{value}\r\n", value.len());
    let lines: String = (0..6).map(set).collect();
    other.send(&format!("MULTI\r\n{lines}EXEC\r\n")).unwrap();
    let replies: Vec<String> = (0..8).map(|_| super::shown(&other.reply().unwrap())).collect();
    assert_eq!(replies[7], "[OK OK OK OK OK OK]", "{:?}", &replies[..7]);
    assert_eq!(counted(&mut other, "proxy_unknown_writes"), 0);
    drop(proxy);
    demo.end();
}

#[test]
fn replicas_are_waited_for() {
    let demo = Demo::start(&[]);
    let proxy = proxy(&demo, Settings::default());
    let mut wire = connect(&proxy);
    assert_eq!(say(&mut wire, "WAIT 1 10"), "0");
    wait_for("replicas are in sync", || demo.status().matches("in sync, alive").count() == 3);
    for key in ["a", "b", "c"] {
        assert_eq!(say(&mut wire, &format!("SET {key} 1")), "OK");
    }
    assert_eq!(say(&mut wire, "WAIT 1 5000"), "1");
    assert_eq!(say(&mut wire, "WAIT 2 50"), "1");
    // One that has gone is not waited for.
    wire.send("WAIT 9 0\r\n").unwrap();
    drop(wire);
    let mut other = connect(&proxy);
    wait_for("the other has gone", || counted(&mut other, "connected_clients") == 1);
    drop(proxy);
    demo.end();
}
