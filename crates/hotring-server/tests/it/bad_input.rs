//! Tests of malformed and oversized input: it gets an error, and at most its connection ends.

use std::time::{Duration, Instant};

use crate::wire::{Reply, TestServer, number_after, request};

/// Each gets this error, and the connection is closed.
const BROKEN: &[(&[u8], &str)] = &[
    (b"*abc\r\n", "ERR Protocol error: invalid multibulk length"),
    (b"*2147483648\r\n", "ERR Protocol error: invalid multibulk length"),
    (b"*1048577\r\n", "ERR Protocol error: invalid multibulk length"),
    (b"*99999999999999999999\r\n", "ERR Protocol error: invalid multibulk length"),
    (b"*1\r\n:1\r\n", "ERR Protocol error: expected '$', got ':'"),
    (b"*1\r\n$-1\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1\r\n$-2\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1\r\n$536870913\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1\r\n$9223372036854775807\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*9223372036854775807\r\n", "ERR Protocol error: invalid multibulk length"),
    (b"*9223372036854775808\r\n", "ERR Protocol error: invalid multibulk length"),
    (b"*1\r\n$9223372036854775808\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1\r\n$-9223372036854775808\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1\r\n$18446744073709551616\r\n", "ERR Protocol error: invalid bulk length"),
    (b"*1\r\n*1\r\n", "ERR Protocol error: expected '$', got '*'"),
    (b"SET \"open\r\n", "ERR Protocol error: unbalanced quotes in request"),
];

#[test]
fn malformed_requests_end_their_own_connection_only() {
    let server = TestServer::new();
    let mut good = server.connect();
    for (bytes, text) in BROKEN {
        let mut bad = server.connect();
        bad.send(b"PING\r\n");
        bad.send(bytes);
        assert_eq!(bad.reply(), Reply::Simple("PONG".into()));
        assert_eq!(bad.reply(), Reply::Error(text.to_string()), "{}", bytes.escape_ascii());
        assert!(bad.is_closed(), "{} leaves the connection open", bytes.escape_ascii());
        assert_eq!(good.say("PING"), Reply::Simple("PONG".into()));
    }
}

#[test]
fn good_requests_before_a_broken_one_are_run() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let mut bytes = request(&["SET", "a", "1"]);
    bytes.extend_from_slice(b"*1\r\nx");
    bytes.extend(request(&["SET", "a", "2"]));
    wire.send(&bytes);
    let all = String::from_utf8(wire.read_to_end()).unwrap();
    assert_eq!(all, "+OK\r\n-ERR Protocol error: expected '$', got 'x'\r\n");
    assert_eq!(server.connect().say("GET a").text(), "1");
}

#[test]
fn an_inline_request_without_end_is_refused() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.send(&vec![b'x'; 70_000]);
    assert_eq!(wire.reply().text(), "ERR Protocol error: too big inline request");
    assert!(wire.is_closed());
}

#[test]
fn a_browser_is_shown_out() {
    let server = TestServer::new();
    for request in ["POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n", "Host: x\r\nSET a 1\r\n"] {
        let mut wire = server.connect();
        wire.send(request.as_bytes());
        assert!(wire.is_closed());
    }
    assert_eq!(server.connect().say("GET a"), Reply::Null);
}

#[test]
fn announced_lengths_cost_nothing_until_the_bytes_arrive() {
    let server = TestServer::new();
    let mut connections: Vec<_> = (0..64).map(|_| server.connect()).collect();
    for wire in &mut connections {
        wire.send(b"*1000000\r\n$536870912\r\n");
        // Enough for the connection to get its own buffer.
        wire.send(&[b'x'; 10_000]);
    }
    let mut other = server.connect();
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        // The memory that a connection has reserved, not touched: untouched memory does not show in
        // the size of the process.
        let list = other.say("CLIENT LIST").text();
        let waiting = |line: &&str| number_after(line, " qbuf=") >= 10_000;
        let waiting: Vec<&str> = list.lines().filter(waiting).collect();
        for line in &waiting {
            let reserved = number_after(line, " qbuf=") + number_after(line, " qbuf-free=");
            assert!(reserved <= 128 << 10, "{reserved} bytes are reserved: {line}");
        }
        if waiting.len() == 64 && waiting.iter().all(|l| number_after(l, " qbuf-free=") > 0) {
            break;
        }
        assert!(Instant::now() < deadline, "not all have arrived: {list}");
    }
}

#[test]
fn oversized_keys_and_values_are_refused_and_the_connection_lives() {
    let server = TestServer::with(|c| c.bulk_len_max = 2 << 20);
    let mut wire = server.connect();
    let long_key = "k".repeat((64 << 10) + 1);
    assert!(wire.ask(&["SET", &long_key, "v"]).is_error());
    assert_eq!(wire.ask(&["GET", &long_key]), Reply::Null);
    assert!(wire.say("SETRANGE k 2097152 x").is_error());
    assert_eq!(wire.say("PING"), Reply::Simple("PONG".into()));
    // An argument above the protocol's limit is a protocol violation, as in Redis.
    wire.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2097153\r\n");
    assert_eq!(wire.reply().text(), "ERR Protocol error: invalid bulk length");
    assert!(wire.is_closed());
}

#[test]
fn wrong_requests_get_redis_texts_and_keep_the_connection() {
    let server = TestServer::new();
    let mut wire = server.connect();
    for (line, text) in [
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("CLIENT ID x", "ERR wrong number of arguments for 'client|id' command"),
        ("CLIENT nonsense", "ERR unknown subcommand 'nonsense'. Try CLIENT HELP."),
        ("nonsense a b", "ERR unknown command 'nonsense', with args beginning with: 'a' 'b' "),
        ("SELECT 16", "ERR DB index is out of range"),
        ("SELECT x", "ERR value is not an integer or out of range"),
        (
            "CONFIG SET nonsense 1",
            "ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'",
        ),
        ("CLIENT KILL ID 0", "ERR client-id should be greater than 0"),
        ("FLUSHALL NOW", "ERR syntax error"),
        (
            "AUTH x",
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
        ),
    ] {
        assert_eq!(wire.say(line), Reply::Error(text.to_string()), "{line}");
    }
    assert!(wire.ask(&["CLIENT", "SETNAME", "a b"]).is_error());
    // Client text in an error must not become a second reply.
    wire.ask(&["ECHO\r\n+OK", "x"]);
    assert_eq!(wire.say("PING"), Reply::Simple("PONG".into()));
}

#[test]
fn errors_repeat_no_more_than_the_start_of_long_arguments() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let long = "x".repeat(100_000);
    for request in [
        &["EXPIRE", "k", "1", &long][..],
        &["HELLO", "3", &long],
        &["CLIENT", "SETINFO", &long, "x"],
        &["CLIENT", "LIST", "TYPE", &long],
        &["CLIENT", "KILL", "TYPE", &long],
        &["CLIENT", "KILL", "USER", &long],
        &["CONFIG", "SET", &long, "x"],
    ] {
        let text = wire.ask(request).text();
        assert!(
            text.contains(&long[..128]) && text.len() < 300,
            "{} bytes: {text:.200}",
            text.len()
        );
    }
}

#[test]
fn labels_have_a_limit() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let (fits, long) = ("n".repeat(1024), "n".repeat(1025));
    for start in [&["CLIENT", "SETNAME"][..], &["CLIENT", "SETINFO", "lib-ver"]] {
        assert_eq!(wire.ask(&[start, &[&fits]].concat()).text(), "OK");
        let error = wire.ask(&[start, &[&long]].concat());
        assert!(error.is_error() && error.text().ends_with("longer than 1024 bytes."), "{error:?}");
    }
    assert!(wire.ask(&["HELLO", "3", "SETNAME", &long]).is_error());
    assert_eq!(wire.say("CLIENT GETNAME").text(), fits);
}
