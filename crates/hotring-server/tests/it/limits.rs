//! Tests of each limit in the settings: its effect, and that other connections do not notice.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::wire::{Reply, TestServer, Wire, bulk, number_after, ok, request};

fn pong() -> Reply {
    Reply::Simple("PONG".into())
}

#[test]
fn a_client_above_the_limit_gets_an_error() {
    let server = TestServer::with(|c| c.maxclients = 3);
    let mut kept: Vec<Wire> = (0..3).map(|_| server.connect()).collect();
    for wire in &mut kept {
        assert_eq!(wire.say("PING"), pong());
    }
    let mut extra = server.connect();
    assert_eq!(extra.read_to_end(), b"-ERR max number of clients reached\r\n");
    assert!(kept[0].say("INFO stats").text().contains("rejected_connections:1\r\n"));
    // A place that is given up is free again.
    kept.pop().unwrap().say("QUIT");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut again = server.connect();
        again.send(b"PING\r\n");
        if again.reply() == pong() {
            break;
        }
        assert!(Instant::now() < deadline, "the place never became free");
    }
    assert_eq!(kept[0].say("CONFIG SET maxclients 10"), ok());
    assert_eq!(server.connect().say("PING"), pong());
}

#[test]
fn a_client_that_never_reads_stops_being_read() {
    let server = TestServer::with(|c| c.output_soft_max = 1 << 20);
    let mut other = server.connect();
    let value = "v".repeat(1 << 20);
    assert_eq!(other.ask(&["SET", "big", &value]), ok());
    let mut deaf = server.connect();
    // 4 GB of replies, if the server made them all.
    deaf.send(&request(&["GET", "big"]).repeat(4000));
    let mut waiting = || {
        let list = other.say("CLIENT LIST").text();
        list.lines().map(|line| number_after(line, " omem=")).max().unwrap()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while waiting() == 0 {
        assert!(Instant::now() < deadline, "nothing waits");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Enough time for many more replies to pile up.
    std::thread::sleep(Duration::from_millis(300));
    let waiting = waiting();
    assert!(0 < waiting && waiting <= 4 << 20, "{waiting} bytes wait to be sent");
    assert_eq!(other.say("PING"), pong());
    // The missing replies come when it reads again.
    for _ in 0..4000 {
        assert_eq!(deaf.reply(), bulk(&value));
    }
}

#[test]
fn a_reply_above_the_hard_limit_closes_the_connection() {
    let server = TestServer::with(|c| c.output_hard_max = 32 << 20);
    let mut other = server.connect();
    let value = "v".repeat(16 << 20);
    assert_eq!(other.ask(&["SET", "big", &value]), ok());
    let mut greedy = server.connect();
    greedy.send(&request(&["MGET", "big", "big", "big", "big"]));
    assert!(greedy.is_closed());
    // Also a reply that would not fit into memory, after one that does.
    let mut greedier = server.connect();
    greedier.send(b"PING\r\n");
    assert_eq!(greedier.reply(), pong());
    greedier.send(&request(&[&["MGET"][..], &["big"; 5_000]].concat()));
    assert!(greedier.is_closed());
    let stats = other.say("INFO stats").text();
    assert!(stats.contains("client_output_buffer_limit_disconnections:2\r\n"), "{stats}");
}

#[test]
fn idle_connections_are_closed_and_busy_ones_are_not() {
    let server = TestServer::with(|c| c.timeout_s = 1);
    let mut idle = server.connect();
    let mut busy = server.connect();
    assert_eq!(idle.say("PING"), pong());
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(2600) {
        assert_eq!(busy.say("PING"), pong());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(idle.is_closed());
    assert!(start.elapsed() < Duration::from_secs(10));
    assert_eq!(busy.say("PING"), pong());
}

#[test]
fn an_unfinished_request_above_the_limit_closes_the_connection() {
    let server = TestServer::with(|c| c.query_buffer_max = 1 << 20);
    let mut wire = server.connect();
    wire.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$104857600\r\n");
    let piece = vec![b'x'; 64 << 10];
    let mut sent = 0;
    while sent < 100 << 20 && wire.stream.write_all(&piece).is_ok() {
        sent += piece.len();
    }
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    assert!(wire.is_closed());
    let stats = server.connect().say("INFO stats").text();
    assert!(stats.contains("client_query_buffer_limit_disconnections:1\r\n"), "{stats}");
}

#[test]
fn fewer_arguments_may_be_allowed() {
    let server = TestServer::with(|c| c.args_max = 100);
    let mut wire = server.connect();
    wire.send(b"*101\r\n");
    assert_eq!(wire.reply().text(), "ERR Protocol error: invalid multibulk length");
    assert!(wire.is_closed());
}

#[test]
fn settings_change_for_connections_that_exist_already() {
    let server = TestServer::new();
    let mut wire = server.connect();
    assert_eq!(wire.say("PING"), pong());
    assert_eq!(wire.say("CONFIG SET proto-max-args 100 timeout 77"), ok());
    let reply = wire.say("CONFIG GET timeout proto-max-a*");
    let expected = [bulk("timeout"), bulk("77"), bulk("proto-max-args"), bulk("100")].to_vec();
    assert_eq!(reply, Reply::Array(expected));
    wire.send(b"*101\r\n");
    assert_eq!(wire.reply().text(), "ERR Protocol error: invalid multibulk length");
}

#[test]
fn expired_keys_are_removed_without_being_asked_for() {
    let server = TestServer::new();
    let mut wire = server.connect();
    for i in 0..2000 {
        wire.send(&request(&["SET", &format!("short:{i}"), "v", "PX", "150"]));
        wire.send(&request(&["SET", &format!("long:{i}"), "v"]));
    }
    for _ in 0..4000 {
        assert_eq!(wire.reply(), ok());
    }
    let deadline = Instant::now() + Duration::from_secs(15);
    while wire.say("DBSIZE") != Reply::Int(2000) {
        assert!(
            Instant::now() < deadline,
            "expired keys are still there: {:?}",
            wire.say("DBSIZE")
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    let info = wire.say("INFO").text();
    assert!(info.contains("db0:keys=2000,expires=0,"), "{info}");
}

#[test]
fn an_idle_server_gives_back_removed_memory() {
    let server = TestServer::new();
    let mut wire = server.connect();
    let value = "v".repeat(50 << 20);
    for _ in 0..3 {
        assert_eq!(wire.ask(&["SET", "big", &value]), ok());
    }
    assert_eq!(wire.say("DEL big"), Reply::Int(1));
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        // INFO does not use the index, so it stays idle.
        let index = wire.say("INFO index").text();
        let is_gone = index.contains("index_unreclaimed_bytes:0\r\n");
        if is_gone && index.contains("index_item_bytes:0\r\n") {
            break;
        }
        assert!(Instant::now() < deadline, "{index}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn a_request_has_to_be_finished_in_time() {
    let server = TestServer::with(|c| c.request_timeout_s = 1);
    let (mut idle, mut slow) = (server.connect(), server.connect());
    let (mut steady, mut deaf) = (server.connect(), server.connect());
    assert_eq!(idle.ask(&["SET", "big", &"v".repeat(64 << 20)]), ok());
    deaf.send(&[&request(&["GET", "big"])[..], b"*1\r\n$4\r\nPI"].concat());
    let pieces = 12;
    steady.send(format!("*2\r\n$4\r\nECHO\r\n${}\r\n", pieces * 100_000).as_bytes());
    slow.send(b"PING\r\n*2\r\n$4\r\nECHO\r\n$100\r\n");
    assert_eq!(slow.reply(), pong());
    let mut slow_failed = false;
    for _ in 0..pieces {
        std::thread::sleep(Duration::from_millis(300));
        // A byte now and then is not enough; more than 64 KiB a second is.
        slow_failed |= slow.stream.write_all(b"x").is_err();
        steady.send(&[b'x'; 100_000]);
    }
    assert!(slow_failed, "the slow connection is still open");
    steady.send(b"\r\n");
    assert!(matches!(steady.reply(), Reply::Bulk(bytes) if bytes.len() == pieces * 100_000));
    // Without an unfinished request there is no time limit, nor while replies are unread.
    assert_eq!(idle.say("PING"), pong());
    assert!(matches!(deaf.reply(), Reply::Bulk(bytes) if bytes.len() == 64 << 20));
    deaf.send(b"NG\r\n");
    assert_eq!(deaf.reply(), pong());
    // The time runs again once these have been read.
    deaf.send(&[&request(&["GET", "big"])[..], b"*1\r\n$4\r\nPI"].concat());
    assert!(matches!(deaf.reply(), Reply::Bulk(bytes) if bytes.len() == 64 << 20));
    assert!(deaf.is_closed());
}
