//! Tests of pipelines: order, delivery in pieces, large values, both protocol versions.

use std::thread;

use crate::wire::{Reply, TestServer, bulk, ok, request};

#[test]
fn a_pipeline_of_reads_and_writes_is_answered_in_order() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let mut bytes = Vec::new();
    let rounds = 1000;
    for i in 0..rounds {
        let key = format!("key:{}", i % 7);
        let value = format!("value:{i}");
        bytes.extend(request(&["SET", &key, &value]));
        bytes.extend(request(&["GET", &key]));
        bytes.extend(request(&["INCR", "counter"]));
        bytes.extend(request(&["MGET", &key, "missing"]));
        bytes.extend(request(&["NONSENSE", &key]));
    }
    wire.send(&bytes);
    for i in 0..rounds {
        let value = format!("value:{i}");
        assert_eq!(wire.reply(), ok());
        assert_eq!(wire.reply(), bulk(&value));
        assert_eq!(wire.reply(), Reply::Int(i + 1));
        assert_eq!(wire.reply(), Reply::Array(vec![bulk(&value), Reply::Null]));
        assert!(wire.reply().text().starts_with("ERR unknown command 'NONSENSE'"));
    }
}

#[test]
fn a_long_pipeline_sent_in_uneven_pieces_loses_nothing() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let mut bytes = Vec::new();
    let value = "x".repeat(700);
    let n = 2000;
    for i in 0..n {
        bytes.extend(request(&["SET", &format!("k{i}"), &format!("{value}{i}")]));
        bytes.extend(request(&["STRLEN", &format!("k{i}")]));
    }
    let mut sender = wire.stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        use std::io::Write;
        // Prime sizes, so that sooner or later every position of a request is split.
        let sizes = [1, 7, 4099, 13, 65_537, 131, 10_007, 3];
        let mut rest = bytes.as_slice();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, left) = rest.split_at((*size).min(rest.len()));
            sender.write_all(piece).unwrap();
            rest = left;
        }
    });
    for i in 0..n {
        assert_eq!(wire.reply(), ok());
        assert_eq!(wire.reply().int() as usize, 700 + i.to_string().len());
    }
    sending.join().unwrap();
}

#[test]
fn requests_that_arrive_byte_by_byte_are_understood() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let mut bytes = request(&["SET", "key", "a\r\nb"]);
    bytes.extend_from_slice(b"GET key\r\n");
    bytes.extend(request(&["APPEND", "key", "$5\r\n"]));
    for byte in bytes {
        wire.send(&[byte]);
    }
    assert_eq!(wire.reply(), ok());
    assert_eq!(wire.reply(), bulk("a\r\nb"));
    assert_eq!(wire.reply(), Reply::Int(8));
}

#[test]
fn inline_requests_work_with_quotes_and_empty_lines() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.send(b"\r\n\r\nSET greeting \"hello world\\x21\"\r\nGET greeting\nPING\r\n");
    assert_eq!(wire.reply(), ok());
    assert_eq!(wire.reply(), bulk("hello world!"));
    assert_eq!(wire.reply(), Reply::Simple("PONG".into()));
}

#[test]
fn a_value_of_64_mb_makes_the_round_trip() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let value: Vec<u8> = (0..64usize << 20).map(|i| (i % 251) as u8).collect();
    wire.send(&request(&[b"SET".as_slice(), b"big", &value]));
    assert_eq!(wire.reply(), ok());
    assert_eq!(wire.say("STRLEN big"), Reply::Int(64 << 20));
    match wire.say("GET big") {
        Reply::Bulk(bytes) => assert!(bytes == value, "the value came back changed"),
        other => panic!("{other:?}"),
    }
    assert_eq!(wire.say("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn hello_switches_the_protocol_both_ways() {
    let server = TestServer::new();
    let mut wire = server.connect();
    assert_eq!(wire.say("GET missing"), Reply::Null);
    let reply = wire.say("HELLO 3 SETNAME tester");
    let Reply::Map(fields) = reply else { panic!("{reply:?} is no map") };
    assert!(fields.contains(&(bulk("server"), bulk("redis"))));
    assert!(fields.contains(&(bulk("proto"), Reply::Int(3))));
    assert!(matches!(wire.say("CONFIG GET maxmemory"), Reply::Map(m) if m.len() == 1));
    assert_eq!(wire.say("CLIENT GETNAME"), bulk("tester"));
    assert!(matches!(wire.say("HELLO 2"), Reply::Array(items) if items.len() == 14));
    assert!(matches!(wire.say("CONFIG GET maxmemory"), Reply::Array(items) if items.len() == 2));
    assert_eq!(wire.say("HELLO 4"), Reply::Error("NOPROTO unsupported protocol version".into()));
    assert!(wire.say("HELLO 3 AUTH nobody secret").text().starts_with("WRONGPASS "));
    assert!(wire.say("HELLO 3 NONSENSE").text().starts_with("ERR Syntax error in HELLO option"));
    // A refused HELLO changes nothing.
    assert!(matches!(wire.say("CONFIG GET maxmemory"), Reply::Array(_)));
}

#[test]
fn the_default_user_takes_any_password_and_there_is_no_other() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
    assert_eq!(wire.say("AUTH default secret"), ok());
    assert_eq!(wire.say("AUTH Default secret"), Reply::Error(wrong.into()));
    assert_eq!(wire.say("HELLO 3 AUTH nobody x SETNAME n"), Reply::Error(wrong.into()));
    assert_eq!(wire.say("CLIENT GETNAME"), Reply::Null);
    assert!(matches!(wire.say("HELLO 3 AUTH default x SETNAME n"), Reply::Map(_)));
    assert_eq!(wire.say("CLIENT GETNAME"), bulk("n"));
    assert!(wire.say("AUTH default a b").is_error());
}

#[test]
fn requests_of_clients_on_connect_are_answered() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.say("HELLO 3");
    assert_eq!(wire.say("CLIENT SETINFO LIB-NAME redis-py"), ok());
    assert_eq!(wire.say("CLIENT SETINFO LIB-VER 9.9.9"), ok());
    assert_eq!(wire.say("CLIENT SETNAME worker-1"), ok());
    assert_eq!(wire.say("SELECT 0"), ok());
    assert!(wire.say("CLIENT MAINT_NOTIFICATIONS ON").is_error());
    assert!(wire.say("READONLY").is_error());
    let info = wire.say("INFO").text();
    for line in [
        "loading:0",
        "redis_version:7.4.0",
        "redis_mode:standalone",
        "role:master",
        "connected_slaves:0",
        "cluster_enabled:0",
    ] {
        assert!(info.contains(&format!("{line}\r\n")), "{line} is missing in {info}");
    }
    let described = wire.say("CLIENT INFO").text();
    for part in ["name=worker-1 ", "lib-name=redis-py ", "lib-ver=9.9.9", "resp=3 "] {
        assert!(described.contains(part), "{part} is missing in {described}");
    }
    let Reply::Map(docs) = wire.say("COMMAND DOCS get set") else { panic!("no map") };
    assert_eq!(docs.len(), 2);
    let count = wire.say("COMMAND COUNT").int();
    assert_eq!(wire.say("COMMAND").items().len(), count as usize);
    assert_eq!(wire.say("COMMAND INFO nonsense"), Reply::Array(vec![Reply::Null]));
    let keys = wire.say("COMMAND GETKEYS MSET a 1 b 2");
    assert_eq!(keys, Reply::Array(vec![bulk("a"), bulk("b")]));
}

#[test]
fn counters_changed_by_eight_connections_add_up() {
    let server = TestServer::new();
    let each = 5000;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut wire = server.connect();
                for _ in 0..each / 50 {
                    wire.send(&request(&["INCR", "hits"]).repeat(50));
                    let replies: Vec<i64> = (0..50).map(|_| wire.reply().int()).collect();
                    assert!(replies.is_sorted(), "one connection saw the counter go back");
                }
            });
        }
    });
    assert_eq!(server.connect().say("GET hits"), bulk(&(8 * each).to_string()));
}

#[test]
fn a_client_that_closes_its_side_still_gets_all_replies() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.send(&request(&["PING"]).repeat(5000));
    wire.send(b"*2\r\n$4\r\nECHO\r\n$100\r\nunfinished");
    wire.half_close();
    assert_eq!(wire.read_to_end(), b"+PONG\r\n".repeat(5000));
}

#[test]
fn requests_after_quit_do_not_run() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let mut bytes = request(&["SET", "a", "1"]);
    bytes.extend(request(&["QUIT"]));
    bytes.extend(request(&["SET", "a", "2"]));
    wire.send(&bytes);
    assert_eq!(wire.read_to_end(), b"+OK\r\n+OK\r\n");
    assert_eq!(server.connect().say("GET a"), bulk("1"));
}
