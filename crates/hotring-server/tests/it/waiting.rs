//! Tests of WAITKEY, CLIENT UNBLOCK and CLIENT PAUSE over real connections. No test depends on
//! durations: it polls INFO until another connection waits.

use std::time::{Duration, Instant};

use hotring_server::Secret;

use crate::wire::{Reply, TestServer, Wire, bulk, ok, request};

/// Time limit for anything that happens at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Repeats the request until the reply contains this text.
fn until(wire: &mut Wire, request: &str, text: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !wire.say(request).text().contains(text) {
        assert!(Instant::now() < deadline, "no {text} in {request}");
        std::thread::yield_now();
    }
}

/// Polls until this many connections wait for keys.
fn until_waiting(wire: &mut Wire, n_waiting: usize) {
    until(wire, "INFO clients", &format!("waiting_clients:{n_waiting}\r\n"));
}

/// A connection that waits.
fn waiting(server: &TestServer, line: &str, observer: &mut Wire) -> Wire {
    let mut wire = server.connect();
    wire.send(format!("{line}\r\n").as_bytes());
    until_waiting(observer, 1);
    wire
}

#[test]
fn every_kind_of_change_ends_a_wait() {
    for threads in [1, 2] {
        let server = TestServer::with(|config| config.threads = threads);
        let mut writer = server.connect();
        for change in [
            "SET k v",
            "INCR k",
            "APPEND k x",
            "SETRANGE k 5 x",
            "MSET k 1 other 2",
            "GETSET k 2",
            "INCRBYFLOAT k 0.5",
            "DEL k other",
            "COPY x k REPLACE",
            "RENAME k x",
            "RENAME x k",
            "GETDEL k",
            "SETNX k 5",
            "FLUSHALL",
            "SET k 5 EX 1000",
            "EXPIREAT k 1",
            "SET k 5 EX 1000",
            "PEXPIRE k 1",
            "SET k 5 PX 1",
        ] {
            // So that every change is one, whatever the previous one left.
            if !change.starts_with("SETNX") && !change.starts_with("RENAME x") {
                let value = if change.starts_with("INCR") { "1" } else { "text" };
                writer.say(&format!("MSET k {value} x 1"));
            }
            let mut waiter = waiting(&server, "WAITKEY k 0", &mut writer);
            let reply = writer.say(change);
            assert!(!reply.is_error(), "{change}: {reply:?}");
            assert_eq!(waiter.reply(), Reply::Int(1), "{change}");
            until_waiting(&mut writer, 0);
        }
    }
}

#[test]
fn an_expected_value_is_seen_however_short_it_was_there() {
    let server = TestServer::new();
    let mut writer = server.connect();
    let mut waiter = waiting(&server, "WAITKEY k 0 VALUE 3", &mut writer);
    writer.send(b"SET k 1\r\nINCR k\r\nINCR k\r\nINCR k\r\nDEL k\r\n");
    assert_eq!(waiter.reply(), Reply::Int(1));
    let replies: Vec<_> = (0..5).map(|_| writer.reply()).collect();
    assert_eq!(replies[1..], [2, 3, 4, 1].map(Reply::Int));
    assert_eq!(waiter.say("WAITKEY k 1 VALUE 3"), Reply::Int(0), "it was, and is no more");
}

#[test]
fn a_wait_ends_with_its_time_or_with_the_key() {
    let server = TestServer::new();
    let mut wire = server.connect();
    assert_eq!(wire.say("WAITKEY k 1"), Reply::Int(0));
    assert_eq!(wire.say("WAITKEY k 20 VALUE v"), Reply::Int(0));
    // Together and in time, so that the key has not expired when the wait begins.
    wire.send(format!("SET k v PX 500\r\nWAITKEY k {}\r\n", i64::MAX).as_bytes());
    assert_eq!(wire.reply(), ok());
    assert_eq!(wire.reply(), Reply::Int(1), "it has expired");
    assert_eq!(wire.say("GET k"), Reply::Null);
    // The waiter notices that the expiry time is now earlier.
    let mut writer = server.connect();
    assert_eq!(writer.say("SET k v EX 100000"), ok());
    let mut waiter = waiting(&server, "WAITKEY k 0", &mut writer);
    assert_eq!(writer.say("PEXPIRE k 5"), Reply::Int(1));
    assert_eq!(waiter.reply(), Reply::Int(1));
}

#[test]
fn requests_after_a_wait_run_after_it() {
    let server = TestServer::with(|config| config.threads = 1);
    let mut writer = server.connect();
    let mut waiter = waiting(&server, "SET a 1\r\nWAITKEY k 0\r\nGET k\r\nINCR a", &mut writer);
    assert_eq!(waiter.reply(), ok());
    // The rest arrives while it waits, the last request in two halves.
    let long = "x".repeat(300_000);
    let tail = [request(&["SET", "long", &long]), request(&["STRLEN", "long"])].concat();
    waiter.send(&tail[..150_000]);
    assert_eq!(writer.say("GET a"), bulk("1"), "nothing behind it has run");
    assert_eq!(writer.say("SET k v"), ok());
    assert_eq!(waiter.reply(), Reply::Int(1));
    assert_eq!(waiter.reply(), bulk("v"));
    assert_eq!(waiter.reply(), Reply::Int(2));
    waiter.send(&tail[150_000..]);
    assert_eq!(waiter.reply(), ok());
    assert_eq!(waiter.reply(), Reply::Int(300_000));
}

#[test]
fn a_killed_or_lost_connection_waits_no_more() {
    let server = TestServer::new();
    let mut writer = server.connect();
    let mut killed = server.connect();
    let id = killed.say("CLIENT ID").int();
    killed.send(b"WAITKEY k 0\r\nSET a 1\r\n");
    until_waiting(&mut writer, 1);
    // The wait counts a moment before its own thread notes it with the connection.
    until(&mut writer, "CLIENT LIST", " flags=b ");
    assert_eq!(writer.say(&format!("CLIENT KILL ID {id}")), Reply::Int(1));
    assert!(killed.is_closed());
    until_waiting(&mut writer, 0);

    let lost = waiting(&server, "WAITKEY k 0\r\nSET a 1", &mut writer);
    drop(lost);
    until_waiting(&mut writer, 0);
    let mut half = waiting(&server, "WAITKEY k 0 VALUE 1\r\nSET a 1", &mut writer);
    half.half_close();
    assert!(half.is_closed());
    until_waiting(&mut writer, 0);
    assert_eq!(writer.say("EXISTS a"), Reply::Int(0), "what was behind the wait has not run");
}

#[test]
fn a_half_closed_connection_waits_no_more_while_replies_are_unsent() {
    let server = TestServer::with(|config| config.output_soft_max = 1 << 30);
    let mut writer = server.connect();
    // More than the kernel takes for a client that does not read.
    let big = "v".repeat(64 << 20);
    assert_eq!(writer.ask(&["SET", "big", &big]), ok());
    let mut deaf = waiting(&server, "GET big\r\nWAITKEY k 0", &mut writer);
    deaf.half_close();
    until_waiting(&mut writer, 0);
    assert_eq!(deaf.reply(), bulk(&big), "it still gets its pending reply");
    assert!(deaf.is_closed());
}

#[test]
fn a_connection_that_ends_once_its_replies_are_fetched_is_shown_to_do_so() {
    let server = TestServer::with(|config| config.output_soft_max = 1 << 30);
    let mut other = server.connect();
    // More than the kernel takes for a client that does not read.
    let big = "v".repeat(16 << 20);
    assert_eq!(other.ask(&["SET", "big", &big]), ok());
    let mut deaf = server.connect();
    deaf.send(b"GET big\r\nQUIT\r\n");
    until(&mut other, "CLIENT LIST", " flags=c ");
    assert_eq!(deaf.reply(), bulk(&big));
    assert_eq!(deaf.reply(), ok());
    assert!(deaf.is_closed());
}

#[test]
fn the_end_of_the_server_ends_a_wait() {
    let server = TestServer::new();
    let mut writer = server.connect();
    let mut waiter =
        waiting(&server, "WAITKEY k 0\r\nINCR a\r\nWAITKEY k 0\r\nINCR a", &mut writer);
    server.ask_to_stop();
    let stopping = Reply::Error("UNBLOCKED the server is shutting down".into());
    assert_eq!(waiter.reply(), stopping);
    assert_eq!(waiter.reply(), Reply::Int(1));
    assert_eq!(waiter.reply(), stopping);
    assert_eq!(waiter.reply(), Reply::Int(2));
    assert!(waiter.is_closed());
    server.stop();
}

#[test]
fn the_number_of_waiting_connections_is_limited() {
    let server = TestServer::with(|config| config.waiting_max = 1);
    let mut writer = server.connect();
    let mut waiter = waiting(&server, "WAITKEY k 0", &mut writer);
    let full = Reply::Error("ERR 1 clients are waiting already (max-waiting-clients)".into());
    assert_eq!(writer.say("WAITKEY k 0"), full);
    assert_eq!(writer.say("CONFIG SET max-waiting-clients 2"), ok());
    assert_eq!(writer.say("WAITKEY k 1"), Reply::Int(0));
    assert_eq!(writer.say("SET k v"), ok());
    assert_eq!(waiter.reply(), Reply::Int(1));
}

#[test]
fn a_request_behind_a_wait_has_time() {
    let server = TestServer::with(|config| config.request_timeout_s = 1);
    let mut wire = server.connect();
    // Longer than the time limit for unfinished requests, with the start of one behind it.
    wire.send(b"SET k v PX 2500\r\nWAITKEY k 0\r\n*2\r\n$3\r\nGET\r\n");
    assert_eq!(wire.reply(), ok());
    assert_eq!(wire.reply(), Reply::Int(1));
    assert!(wire.is_closed(), "from then on the time counts again");
}

#[test]
fn much_behind_many_waits_runs_in_its_order() {
    const ROUNDS: usize = 200;
    const EACH: usize = 500;
    let server = TestServer::with(|config| config.threads = 1);
    let mut writer = server.connect();
    let mut waiter = waiting(&server, "WAITKEY k 0", &mut writer);
    let long = "x".repeat(100_000);
    let round =
        [b"INCR a\r\n".repeat(EACH), request(&["ECHO", &long]), b"WAITKEY k 1\r\n".to_vec()];
    let input = round.concat().repeat(ROUNDS);
    let mut sender = waiter.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || std::io::Write::write_all(&mut sender, &input));
    // Some of it comes before the end of the wait, the rest at any time.
    assert_eq!(writer.say("SET k v"), ok());
    assert_eq!(waiter.reply(), Reply::Int(1));
    for i in 0..ROUNDS * EACH {
        assert_eq!(waiter.reply(), Reply::Int(i as i64 + 1));
        if (i + 1) % EACH == 0 {
            assert_eq!(waiter.reply(), bulk(&long));
            assert_eq!(waiter.reply(), Reply::Int(0), "no client has written");
        }
    }
    sending.join().unwrap().unwrap();
    assert_eq!(waiter.say("GET a"), bulk(&(ROUNDS * EACH).to_string()));
}

#[test]
fn too_much_behind_a_wait_closes_the_connection() {
    let server = TestServer::with(|config| config.query_buffer_max = 1 << 20);
    let mut writer = server.connect();
    let mut waiter = waiting(&server, "WAITKEY k 0", &mut writer);
    let flood = b"INCR a\r\n".repeat(200_000);
    // The connection may be closed before everything is sent.
    let _ = std::io::Write::write_all(&mut waiter.stream, &flood);
    assert!(waiter.is_closed());
    until_waiting(&mut writer, 0);
    assert_eq!(writer.say("EXISTS a"), Reply::Int(0));
    let info = writer.say("INFO stats").text();
    assert!(info.contains("client_query_buffer_limit_disconnections:1\r\n"), "{info}");
}

#[test]
fn all_waiters_of_one_key_are_notified() {
    let server = TestServer::new();
    let mut writer = server.connect();
    let mut wires: Vec<_> = (0..100).map(|_| server.connect()).collect();
    for (i, wire) in wires.iter_mut().enumerate() {
        wire.send(if i % 2 == 0 { b"WAITKEY k 0\r\n" } else { b"WAITKEY k 0 VALUE 9\r\n" });
    }
    // Blocked, and not only counted as waiting: a counted connection may still queue for the key,
    // and a write need not queue.
    until_blocked(&mut writer, 100);
    assert_eq!(writer.say("SET k 8"), ok());
    for wire in wires.iter_mut().step_by(2) {
        assert_eq!(wire.reply(), Reply::Int(1));
    }
    until_waiting(&mut writer, 50);
    assert_eq!(writer.say("INCR k"), Reply::Int(9));
    for wire in wires.iter_mut().skip(1).step_by(2) {
        assert_eq!(wire.reply(), Reply::Int(1));
    }
    until_waiting(&mut writer, 0);
}

#[test]
fn a_wait_is_ended_by_others() {
    let server = TestServer::new();
    let mut other = server.connect();
    let mut waiter = server.connect();
    let id = waiter.say("CLIENT ID").int();
    for (reason, reply) in [
        ("", Reply::Int(0)),
        (" timeout", Reply::Int(0)),
        (" ERROR", Reply::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".into())),
    ] {
        waiter.send(b"WAITKEY k 0\r\nPING\r\n");
        until_blocked(&mut other, 1);
        let line = format!("CLIENT UNBLOCK {id}{reason}");
        assert_eq!(other.say(&line), Reply::Int(1));
        assert_eq!(waiter.reply(), reply);
        assert_eq!(waiter.reply(), Reply::Simple("PONG".into()), "it runs on");
        assert_eq!(other.say(&line), Reply::Int(0), "it does not wait");
    }
    waiter.send(b"CLIENT REPLY SKIP\r\nWAITKEY k 0\r\nPING\r\n");
    until_blocked(&mut other, 1);
    assert_eq!(other.say("SET k v"), ok());
    assert_eq!(waiter.reply(), Reply::Simple("PONG".into()), "that reply was not wanted");
}

/// Ending a wait must succeed only if the wait ends by that.
#[test]
fn a_wait_ends_in_one_way() {
    let server = TestServer::new();
    let mut other = server.connect();
    let mut waiter = server.connect();
    let id = waiter.say("CLIENT ID").int();
    let unblock = format!("CLIENT UNBLOCK {id} ERROR\r\n");
    for _ in 0..500 {
        waiter.send(b"WAITKEY k 0\r\n");
        until_blocked(&mut other, 1);
        let mut writer = server.connect();
        writer.send(b"INCR k\r\n");
        other.send(unblock.as_bytes());
        let unblocked = other.reply();
        assert_eq!(waiter.reply().is_error(), unblocked == Reply::Int(1));
        assert!(matches!(writer.reply(), Reply::Int(_)));
    }
}

#[test]
fn a_pause_of_writes_delays_only_writes() {
    let server = TestServer::new();
    let mut admin = server.connect();
    let mut writers = [server.connect(), server.connect()];
    assert_eq!(admin.say("SET k 1"), ok());
    assert_eq!(admin.say("CLIENT PAUSE 1000000 WRITE"), ok());
    let lines = ["GET k\r\nINCR k\r\nGET k\r\n", "PUBLISH c x\r\nPING\r\n"];
    for (writer, line) in writers.iter_mut().zip(lines) {
        writer.send(line.as_bytes());
    }
    assert_eq!(writers[0].reply(), bulk("1"));
    until_blocked(&mut admin, 2);
    let mut reader = server.connect();
    assert_eq!(reader.say("GET k"), bulk("1"));
    // Its transactions wait with their queued commands, and waiters can be ended.
    assert_eq!(reader.say("MULTI"), ok());
    assert_eq!(reader.say("GET k"), Reply::Simple("QUEUED".into()));
    assert_eq!(reader.say("EXEC"), Reply::Array(vec![bulk("1")]));
    reader.send(b"EVAL \"return redis.call('SET', 'k', 5)\" 0\r\n");
    until_blocked(&mut admin, 3);
    let id = admin.say("CLIENT LIST").text();
    let id = id.lines().find(|line| line.contains("cmd=exec")).unwrap().to_string();
    let id = id.split([' ', '=']).nth(1).unwrap();
    assert_eq!(
        admin.say(&format!("CLIENT UNBLOCK {id}")),
        Reply::Int(0),
        "that is no wait for a key"
    );
    assert_eq!(admin.say(&format!("CLIENT KILL ID {id}")), Reply::Int(1));
    assert!(reader.is_closed());
    assert_eq!(admin.say("CLIENT UNPAUSE"), ok());
    assert_eq!(writers[0].reply(), Reply::Int(2));
    assert_eq!(writers[0].reply(), bulk("2"));
    assert_eq!(writers[1].reply(), Reply::Int(0));
    assert_eq!(writers[1].reply(), Reply::Simple("PONG".into()));
    assert_eq!(admin.say("GET k"), bulk("2"), "the script has not run");
    until_blocked(&mut admin, 0);
}

#[test]
fn a_pause_delays_no_other_client() {
    let server = TestServer::with(|config| config.requirepass = Secret::new("secret"));
    let mut admin = server.connect();
    assert_eq!(admin.say("AUTH secret"), ok());
    assert_eq!(admin.say("ACL SETUSER reader on >r ~* +get"), ok());
    let [mut stranger, mut reader, mut user] = [(); 3].map(|()| server.connect());
    for wire in [&mut reader, &mut user] {
        assert_eq!(wire.say("AUTH secret"), ok());
    }
    // The two client pauses meet: a read that waits for the first is not affected by the second.
    admin.send(b"CLIENT PAUSE 200 ALL\r\nCLIENT PAUSE 1000000 WRITE\r\n");
    assert_eq!(admin.reply(), ok());
    reader.send(b"GET k\r\n");
    assert_eq!(admin.reply(), ok());
    assert_eq!(reader.reply(), Reply::Null);
    // A command that is not permitted is refused, and does not wait.
    assert!(stranger.say("SET k v").text().starts_with("NOAUTH"));
    assert_eq!(stranger.say("AUTH reader r"), ok());
    assert!(stranger.say("SET k v").text().starts_with("NOPERM"));
    user.send(b"SET k v\r\n");
    until_blocked(&mut admin, 1);
    assert_eq!(admin.say("CLIENT UNPAUSE"), ok());
    assert_eq!(user.reply(), ok());
}

#[test]
fn replies_that_are_not_wanted_leave_no_others_out_of_step() {
    let server = TestServer::new();
    let mut wire = server.connect();
    assert_eq!(wire.say("ACL SETUSER u on >right ~* +@all"), ok());
    assert_eq!(wire.say("MULTI"), ok());
    assert!(wire.say("CLIENT REPLY SKIP").is_error());
    assert!(wire.say("EXEC").is_error());
    wire.send(b"CLIENT REPLY OFF\r\nMULTI\r\nSUBSCRIBE c\r\nDISCARD\r\nCLIENT REPLY ON\r\n");
    assert_eq!(wire.reply(), ok());
    // The delay for a wrong password without a reply ends, too.
    wire.send(b"CLIENT REPLY SKIP\r\nAUTH u wrong\r\n");
    assert_eq!(wire.say("AUTH u right"), ok());
}

/// Polls until this many connections wait for anything.
fn until_blocked(wire: &mut Wire, n: usize) {
    until(wire, "INFO clients", &format!("blocked_clients:{n}\r\n"));
}

#[test]
fn a_pause_ends_by_itself_or_with_the_server() {
    let server = TestServer::with(|config| config.memcached.listen = vec!["127.0.0.1:0".into()]);
    let mut admin = server.connect();
    let mut memcached = Wire::connect(server.memcached_address());
    // All wait, including the client that started the pause.
    admin.send(b"CLIENT PAUSE 50\r\nINCR k\r\n");
    assert_eq!(admin.reply(), ok());
    memcached.send(b"get k\r\n");
    assert_eq!(admin.reply(), Reply::Int(1));
    let mut end = [0; 5];
    std::io::Read::read_exact(&mut memcached.stream, &mut end).unwrap();
    assert!(end == *b"END\r\n" || end == *b"VALUE", "{end:?}");
    assert_eq!(admin.say("CLIENT PAUSE 1000000"), ok());
    admin.send(b"INCR k\r\n");
    server.stop();
    let read = std::io::Read::read(&mut admin.stream, &mut end);
    assert!(!matches!(read, Ok(1..)), "what waited has not run");
}
