//! Tests of hostile or careless clients: they are stopped, and all others are served.
//!
//! Malformed requests are in `bad_input.rs`, single limits in `limits.rs`, wrong passwords in
//! `users.rs`, non-TLS input in `tls.rs`.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use hotring_store::EvictionPolicy;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::SockRef;

use crate::memcached::{Both, Lines};
use crate::wire::{Reply, TestServer, Wire, bulk, number_after, ok, request};

fn pong() -> Reply {
    Reply::Simple("PONG".into())
}

/// Waits until `is_so` holds for the text of an INFO section.
fn wait_for(wire: &mut Wire, section: &str, is_so: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let text = wire.say(&format!("INFO {section}")).text();
        if is_so(&text) {
            return;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Raises the limit of open files of the process to this number, or as far as is allowed. Returns the limit.
fn may_open(files: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(files, |most| most.min(files));
    let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
    match limit.current {
        Some(now) if now < wanted && setrlimit(Resource::Nofile, raised).is_ok() => wanted,
        now => now.map_or(files, |now| now.min(files)),
    }
}

#[test]
fn ten_thousand_connections_may_idle_or_wait() {
    // Both sides of each connection are in this process, beside other tests.
    const SPARE: u64 = 2_000;
    let n = (may_open(2 * 10_000 + SPARE).saturating_sub(SPARE) / 2) as usize;
    if n < 1_000 {
        return eprintln!("skipped: this process may not open enough files");
    }
    let server = TestServer::with(|c| c.maxclients = n + 10);
    let mut good = server.connect();
    let mut idle = Vec::with_capacity(n);
    while idle.len() < n {
        // Fewer at a time than the kernel queues: those above would retry only after a second.
        let more = (n - idle.len()).min(250);
        idle.extend((0..more).map(|_| TcpStream::connect(server.address).unwrap()));
        let all = format!("connected_clients:{}\r\n", idle.len() + 1);
        wait_for(&mut good, "clients", |text| text.contains(&all));
    }
    // Any of them may start to send requests.
    for stream in idle.iter_mut().step_by(997) {
        stream.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
    }
    assert_eq!(good.say("SET k v"), ok());
    // All wait for one list, and one push serves them.
    idle.iter_mut().for_each(|stream| stream.write_all(b"BLPOP q 0\r\n").unwrap());
    let all = format!("blocked_clients:{n}\r\n");
    wait_for(&mut good, "clients", |text| text.contains(&all));
    let elements: Vec<String> = (10_000..10_000 + n).map(|it| it.to_string()).collect();
    let push: Vec<&str> =
        ["RPUSH", "q"].into_iter().chain(elements.iter().map(|it| &**it)).collect();
    assert_eq!(good.ask(&push), Reply::Int(n as i64));
    let mut served = BTreeSet::new();
    for stream in &mut idle {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut reply = [0; 22];
        stream.read_exact(&mut reply).unwrap();
        served.insert(String::from_utf8(reply.to_vec()).unwrap());
    }
    let expected = elements.iter().map(|it| format!("*2\r\n$1\r\nq\r\n$5\r\n{it}\r\n"));
    assert!(served.into_iter().eq(expected), "each gets an element of its own");
    // All close at once.
    drop(idle);
    wait_for(&mut good, "clients", |text| text.contains("connected_clients:1\r\n"));
}

#[test]
fn a_flood_at_the_limit_is_refused_and_open_connections_are_served() {
    const MAX: usize = 20;
    const FLOOD: usize = 2_000;
    let server = TestServer::with(|c| c.maxclients = MAX);
    let mut kept: Vec<Wire> = (0..MAX).map(|_| server.connect()).collect();
    kept.iter_mut().for_each(|wire| assert_eq!(wire.say("PING"), pong()));
    for wave in 0..FLOOD / 100 {
        let flood: Vec<TcpStream> =
            (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
        for mut stream in flood {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).unwrap();
            assert_eq!(reply, "-ERR max number of clients reached\r\n");
        }
        assert_eq!(kept[wave % MAX].say("PING"), pong());
    }
    let stats = kept[0].say("INFO stats").text();
    assert!(stats.contains(&format!("rejected_connections:{FLOOD}\r\n")), "{stats}");
}

#[test]
fn connections_that_break_off_leave_nothing_behind() {
    let server = TestServer::new();
    let mut good = server.connect();
    assert_eq!(good.ask(&["SET", "big", &"v".repeat(1 << 20)]), ok());
    let beginnings: [Vec<u8>; 5] = [
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nxxxx".to_vec(),
        [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n"[..], &[b'x'; 100_000]].concat(),
        request(&["GET", "big"]).repeat(50),
        b"MULTI\r\nSET k v\r\nSUBSCRI".to_vec(),
        b"SUBSCRIBE a b c\r\n".to_vec(),
    ];
    for (i, beginning) in beginnings.iter().cycle().take(200).enumerate() {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(beginning).unwrap();
        match i % 3 {
            // A reset, as from a machine that has crashed.
            0 => SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap(),
            1 => stream.shutdown(Shutdown::Write).unwrap(),
            _ => {}
        }
    }
    wait_for(&mut good, "clients", |text| text.contains("connected_clients:1\r\n"));
    assert_eq!(good.say("EXISTS k"), Reply::Int(0), "half a value is none");
    assert_eq!(good.say("PUBSUB CHANNELS"), Reply::Array(Vec::new()));
    assert_eq!(good.say("GET big").text().len(), 1 << 20);
}

#[test]
fn many_slow_senders_are_all_served_in_the_end() {
    const N: usize = 300;
    let server = TestServer::new();
    let mut good = server.connect();
    let mut slow: Vec<Wire> = (0..N).map(|_| server.connect()).collect();
    let request = request(&["APPEND", "k", "x"]);
    for byte in &request {
        slow.iter_mut().for_each(|wire| wire.send(&[*byte]));
        assert_eq!(good.say("PING"), pong());
    }
    let mut lengths: Vec<i64> = slow.iter_mut().map(|wire| wire.reply().int()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, (1..=N as i64).collect::<Vec<_>>());
}

#[test]
fn a_client_that_never_reads_is_closed() {
    let server = TestServer::with(|c| c.output_soft_s = 1);
    let mut good = server.connect();
    assert_eq!(good.ask(&["SET", "big", &"v".repeat(1 << 20)]), ok());
    let mut deaf = server.connect();
    deaf.send(&request(&["GET", "big"]).repeat(100));
    wait_for(&mut good, "stats", |text| {
        text.contains("client_output_buffer_limit_disconnections:1\r\n")
    });
    // The bytes in the kernel are still there, and then the end.
    assert!(deaf.is_closed());
    assert_eq!(good.say("PING"), pong());
}

#[test]
fn the_buffers_of_all_connections_have_a_limit_together() {
    const MAX: u64 = 32 << 20;
    const EACH: usize = 6 << 20;
    let server = TestServer::with(|c| c.client_memory_max = MAX as usize);
    let mut good = server.connect();
    let mut spared = server.connect();
    assert_eq!(spared.say("CLIENT NO-EVICT ON"), ok());
    let value = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000000\r\n";
    let piece = vec![b'x'; EACH];
    spared.send(&[&value[..], &piece, &piece].concat());
    // Each connection alone is far from any limit.
    let greedy: Vec<TcpStream> = (0..12)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            // It may be closed meanwhile.
            stream.write_all(value).and_then(|()| stream.write_all(&piece)).ok();
            stream
        })
        .collect();
    wait_for(&mut good, "clients", |text| {
        let number = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).expect(name);
            number_after(line, ":")
        };
        number("evicted_clients:") >= 7 && number("mem_clients_normal:") <= MAX
    });
    assert_eq!(good.say("PING"), pong());
    drop(greedy);
    // A connection that was spared continues where it was.
    let rest = vec![b'x'; 20_000_000 - 2 * EACH];
    assert_eq!(good.say("CONFIG SET maxmemory-clients 0"), ok());
    spared.send(&[&rest[..], b"\r\n"].concat());
    assert_eq!(spared.reply(), ok());
}

#[test]
fn numbers_at_the_edge_are_refused_and_nothing_breaks() {
    let server = TestServer::with(|c| c.bulk_len_max = 1 << 20);
    let mut wire = server.connect();
    assert_eq!(wire.say("SET n 9223372036854775807"), ok());
    assert_eq!(wire.say("SET k v"), ok());
    for line in [
        "INCR n",
        "INCRBY n 1",
        "DECRBY n -9223372036854775808",
        "SETRANGE k 1048576 x",
        "SETRANGE k 9223372036854775807 x",
        "SETRANGE k -1 x",
        "SETBIT k 8388608 1",
        "SETBIT k 18446744073709551615 1",
        "EXPIRE k 9223372036854775807",
        "SET k v EX 9223372036854775807",
        "SET k v PX 0",
        "SCAN 99999999999999999999",
        "SCAN 0 COUNT 0",
        "BITPOS k 1 0 1 2 3",
        "CLIENT KILL ID 18446744073709551616",
        "MSETEX 9223372036854775807 a b",
        "WAIT x y",
    ] {
        let reply = wire.say(line);
        assert!(reply.is_error(), "{line}: {reply:?}");
        assert_eq!(wire.say("GET k"), bulk("v"), "{line}");
    }
    for line in [
        "GETRANGE k -9223372036854775808 9223372036854775807",
        "GETRANGE k 9223372036854775807 -9223372036854775808",
        "GETBIT k 8388607",
        "BITCOUNT k -9223372036854775808 9223372036854775807",
        "SCAN 18446744073709551615 COUNT 9223372036854775807",
        "KEYS *a*a*a*a*a*a*a*a*a*b",
        "OBJECT ENCODING k",
    ] {
        let reply = wire.say(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
    }
    assert_eq!(wire.say("GET n"), bulk("9223372036854775807"));
}

#[test]
fn keys_have_a_limit() {
    let server = TestServer::with(|c| c.key_len_max = 10);
    let mut wire = server.connect();
    let (fits, long) = ("k".repeat(10), "k".repeat(11));
    assert_eq!(wire.ask(&["SET", &fits, "v"]), ok());
    assert!(wire.ask(&["SET", &long, "v"]).is_error());
    assert!(wire.ask(&["RENAME", &fits, &long]).is_error());
    assert_eq!(wire.ask(&["GET", &fits]), bulk("v"));
    assert_eq!(wire.ask(&["GET", &long]), Reply::Null);
}

/// Values must never exceed their limit, whichever command makes them grow.
#[test]
fn no_command_makes_a_value_longer_than_the_limit() {
    const MAX: usize = 1 << 20;
    let server = TestServer::with(|c| c.bulk_len_max = MAX);
    let (mut greedy, mut good) = (server.connect(), server.connect());
    let (full, most) = ("v".repeat(MAX), "v".repeat(MAX - 100));
    assert_eq!(greedy.ask(&["SET", "full", &full]), ok());
    assert_eq!(greedy.ask(&["HSET", "h", "f", &most]), Reply::Int(1));
    let (end, bit) = (MAX.to_string(), (8 * MAX).to_string());
    let long = format!("return redis.call('SET', KEYS[1], string.rep('x', {}))", MAX + 1);
    let long_field =
        format!("return redis.call('HSET', KEYS[1], 'g', string.rep('x', {}))", MAX + 1);
    for request in [
        &["APPEND", "full", "x"][..],
        &["SETRANGE", "full", &end, "x"],
        &["SETBIT", "full", &bit, "1"],
        &["EVAL", &long_field, "1", "h"],
        &["EVAL", "return redis.call('APPEND', KEYS[1], 'x')", "1", "full"],
        &["EVAL", &long, "1", "full"],
    ] {
        let reply = greedy.ask(request);
        assert!(reply.is_error(), "{} {}: {reply:?}", request[0], request[1]);
        assert_eq!(greedy.say("MULTI"), ok());
        assert_eq!(greedy.ask(request), Reply::Simple("QUEUED".into()));
        assert!(greedy.say("EXEC").items()[0].is_error(), "{} {}", request[0], request[1]);
        assert_eq!(greedy.say("STRLEN full"), Reply::Int(MAX as i64));
        assert_eq!(greedy.say("HLEN h"), Reply::Int(1));
        assert_eq!(good.say("PING"), pong());
    }
}

/// The reply when there is no memory left.
fn out_of_memory() -> Reply {
    Reply::Error("OOM command not allowed when used memory > 'maxmemory'.".into())
}

/// Stores short values until there is no memory left for one.
fn fill(wire: &mut Wire) {
    let refused = (0..1_000_000).any(|i| wire.ask(&["APPEND", &format!("s:{i}"), "v"]).is_error());
    assert!(refused, "a million were let through");
}

#[test]
fn values_do_not_take_more_memory_than_there_is() {
    const MAX: usize = 8 << 20;
    let server = Both::with(|c| {
        c.memory_max = MAX;
        c.eviction.policy = EvictionPolicy::NoEviction;
    });
    let mut good = Wire::connect(server.redis);
    assert_eq!(good.say("SET kept value"), ok());
    std::thread::scope(|scope| {
        for greedy in 0..2 {
            let address = server.redis;
            scope.spawn(move || {
                let mut wire = Wire::connect(address);
                let value = "v".repeat(100_000);
                for i in 0..300 {
                    let reply = wire.ask(&["SET", &format!("{greedy}:{i}"), &value]);
                    assert!(reply == ok() || reply == out_of_memory(), "{reply:?}");
                }
            });
        }
    });
    let ways: [&[&str]; 8] = [
        &["SET", "new", "v"],
        &["APPEND", "kept", "more"],
        &["MSET", "a", "1", "b", "2"],
        &["SETRANGE", "new", "100000", "v"],
        &["SETBIT", "new", "800000", "1"],
        &["COPY", "0:1", "new", "REPLACE"],
        &["HSET", "hash", "field", "value"],
        &["EVAL", "return redis.call('SET', 'new', 'v')", "0"],
    ];
    for way in ways {
        // Connection buffers count, and come and go.
        let is_refused = (0..50).any(|_| {
            fill(&mut good);
            let reply = good.ask(way);
            matches!(&reply, Reply::Error(text) if text.starts_with("OOM command not allowed"))
        });
        assert!(is_refused, "{way:?}");
    }
    let mut lines = Lines::connect(server.memcached);
    let is_refused = (0..50).any(|_| {
        fill(&mut good);
        lines.ask("set new 0 0 1\r\nv\r\n") == "SERVER_ERROR out of memory storing object\r\n"
    });
    assert!(is_refused);
    // A value that memcached refuses to store must remove the older one.
    let long = format!("set kept 0 0 900000\r\n{}\r\n", "v".repeat(900_000));
    assert_eq!(lines.ask(&long), "SERVER_ERROR out of memory storing object\r\n");
    assert_eq!(good.say("GET kept"), Reply::Null);
    // A transaction runs completely or not at all.
    assert_eq!(good.say("MULTI"), ok());
    for i in 0..9 {
        let queued = good.ask(&["SET", &format!("part:{i}"), &"v".repeat(100_000)]);
        assert_eq!(queued, Reply::Simple("QUEUED".into()));
    }
    assert!(good.say("EXEC").is_error());
    assert_eq!(good.say("EXISTS part:0"), Reply::Int(0));
    // Reads still work, and so do status commands.
    assert_eq!(good.say("STRLEN 0:1"), Reply::Int(100_000));
    wait_for(&mut good, "memory", |text| {
        let used = number_after(text, "\r\nused_memory:") as usize;
        (MAX - (1 << 20)..MAX + (1 << 20)).contains(&used)
    });
    // Commands that remove data, and a higher limit, make writes possible again.
    assert_eq!(good.say("DEL 0:1 0:2 1:1"), Reply::Int(3));
    let is_taken = (0..50).any(|_| good.say("SET new v") == ok());
    assert!(is_taken, "{}", good.say("INFO memory").text());
    assert_eq!(good.say("CONFIG SET maxmemory 20mb"), ok());
    assert_eq!(good.ask(&["SET", "more", &"v".repeat(3 << 20)]), ok());
    assert_eq!(good.say("CONFIG SET maxmemory 12mb"), ok());
    assert_eq!(good.ask(&["SET", "most", &"v".repeat(2 << 20)]), out_of_memory());
}
