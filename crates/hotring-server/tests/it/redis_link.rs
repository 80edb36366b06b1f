//! Follows a real `redis-server` as its replica: the full copy, the stream, cuts of the link, and the cut-over. Without
//! a `redis-server` of version 7, the tests print so and do nothing; `redis_link_peers` needs none.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fastrand::Rng;

use hotring_server::LogSettings;

use crate::differential::{Raw, Redis};
use crate::redis_proxy::Proxy;
use crate::wire::TestServer;

/// The longest wait for anything to come about.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until this is true.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The reply to words separated by spaces.
pub fn say(server: &mut Raw, line: &str) -> String {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    String::from_utf8_lossy(&server.ask(&words)).into_owned()
}

/// A field of INFO replication.
pub fn field(server: &mut Raw, name: &str) -> String {
    let text = say(server, "INFO replication");
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(found, _)| *found == name).map(|(_, value)| value.to_string()).unwrap_or_default()
}

/// Makes a server follow this address.
pub fn follow(hotring: &mut Raw, primary: SocketAddr) {
    let reply = say(hotring, &format!("REPLICAOF {} {}", primary.ip(), primary.port()));
    assert!(reply.starts_with("+OK"), "{reply}");
}

/// Waits until the replica has everything that the primary has written.
#[track_caller]
pub fn catch_up(redis: &mut Raw, hotring: &mut Raw) {
    let mut seen = (String::new(), String::new());
    until("the replica has caught up", || {
        seen = (field(redis, "master_repl_offset"), field(hotring, "slave_repl_offset"));
        field(hotring, "master_link_status") == "up" && seen.0 == seen.1
    });
}

/// Everything that a server holds: database, key, type, value in canonical order, and expiry.
pub fn all(server: &mut Raw, databases: usize) -> Vec<String> {
    let mut found = Vec::new();
    for database in 0..databases {
        say(server, &format!("SELECT {database}"));
        let mut keys = strings(&server.ask(&[b"KEYS", b"*"]));
        keys.sort();
        for key in keys {
            let kind = String::from_utf8_lossy(&server.ask(&[b"TYPE", &key])).trim().to_string();
            let value = match kind.as_str() {
                "+string" => server.ask(&[b"GET", &key]),
                "+list" => server.ask(&[b"LRANGE", &key, b"0", b"-1"]),
                "+set" => sorted(&server.ask(&[b"SMEMBERS", &key]), 1),
                "+hash" => sorted(&server.ask(&[b"HGETALL", &key]), 2),
                "+zset" => scores(&server.ask(&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"])),
                other => panic!("{other}"),
            };
            let expiry = server.ask(&[b"PEXPIRETIME", &key]);
            found.push(format!(
                "{database} {} {kind} {} {}",
                key.escape_ascii(),
                value.escape_ascii(),
                expiry.escape_ascii()
            ));
        }
    }
    say(server, "SELECT 0");
    found
}

/// The strings of an array.
fn strings(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = reply;
    let mut strings = Vec::new();
    while let Some(part) = hotring_protocol::read_part(&mut rest) {
        if let hotring_protocol::Part::Bulk(text) = part {
            strings.push(text.to_vec());
        }
    }
    strings
}

/// Members with the bits of their scores: Redis 7.0 writes some scores with more digits than they need.
fn scores(reply: &[u8]) -> Vec<u8> {
    let strings = strings(reply);
    let bits = |score: &[u8]| {
        let score: f64 = std::str::from_utf8(score).unwrap().parse().unwrap();
        score.to_bits()
    };
    let entry = |pair: &[Vec<u8>]| format!("{} {:x}\n", pair[0].escape_ascii(), bits(&pair[1]));
    strings.chunks(2).map(entry).collect::<String>().into_bytes()
}

/// Groups of `len` strings of an array, sorted.
fn sorted(reply: &[u8], len: usize) -> Vec<u8> {
    let strings = strings(reply);
    let mut groups: Vec<&[Vec<u8>]> = strings.chunks(len).collect();
    groups.sort();
    groups.concat().join(&b'\n')
}

#[track_caller]
pub fn assert_same(redis: &mut Raw, hotring: &mut Raw, databases: usize) {
    // Random writes set times of up to 260 ms, which must not pass between the two.
    std::thread::sleep(Duration::from_millis(300));
    let (theirs, ours) = (all(redis, databases), all(hotring, databases));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        let differs = theirs.bytes().zip(ours.bytes()).position(|(a, b)| a != b).unwrap_or(0);
        let around = |text: &str| {
            text.chars().skip(differs.saturating_sub(40)).take(200).collect::<String>()
        };
        assert!(
            theirs == ours,
            "{theirs:.60}\nredis:   {}\nhotring: {}",
            around(theirs),
            around(ours)
        );
    }
    assert_eq!(theirs.len(), ours.len());
}

/// Writes keys of all types, with encodings on both sides of their thresholds, in several databases.
fn fill(redis: &mut Raw, random: &mut Rng) {
    for database in [0, 1, 9] {
        say(redis, &format!("SELECT {database}"));
        for len in [1, 2, 20, 100, 127, 128, 129, 600] {
            for wide in [3, 63, 64, 65, 300] {
                let name = format!("{len}:{wide}");
                let text = |i: usize| {
                    let head = format!("{i}:");
                    let tail = "x".repeat(wide - head.len().min(wide));
                    (head + &tail).into_bytes()
                };
                let all: Vec<Vec<u8>> = (0..len).map(text).collect();
                let mut words: Vec<Vec<u8>> = vec![b"RPUSH".to_vec(), format!("l:{name}").into()];
                words.extend(all.iter().cloned());
                send(redis, &words);
                (words[0], words[1]) = (b"SADD".to_vec(), format!("s:{name}").into());
                send(redis, &words);
                let mut words: Vec<Vec<u8>> = vec![b"HSET".to_vec(), format!("h:{name}").into()];
                all.iter().for_each(|one| words.extend([one.clone(), text(random.usize(..9))]));
                send(redis, &words);
                let mut words: Vec<Vec<u8>> = vec![b"ZADD".to_vec(), format!("z:{name}").into()];
                for one in &all {
                    let score =
                        [random.f64().to_string(), random.i32(..).to_string(), "-inf".into()];
                    words.extend([score[random.usize(..3)].clone().into(), one.clone()]);
                }
                send(redis, &words);
            }
            let ints: Vec<String> =
                (0..len).map(|i| (i as i64 * random.i64(1..1 << 40)).to_string()).collect();
            say(redis, &format!("SADD i:{len} {}", ints.join(" ")));
            say(redis, &format!("RPUSH n:{len} {}", ints.join(" ")));
            say(redis, &format!("SETRANGE t:{len} {} end", len * 100));
            say(redis, &format!("SET c:{len} {}", "abc".repeat(len * 50)));
            say(redis, &format!("PFADD p:{len} {}", ints.join(" ")));
            say(redis, &format!("SETBIT b:{len} {} 1", len * 1000));
            say(
                redis,
                &format!("GEOADD g:{len} 13.361389 38.115556 Palermo {} 37.5 x", len as f64 / 10.0),
            );
        }
        for number in
            ["0", "-1", "127", "128", "-32769", "2147483648", "9223372036854775807", "1.5", ""]
        {
            redis.ask(&[b"SET", format!("v:{number}").as_bytes(), number.as_bytes()]);
        }
        redis.ask(&[b"SET", b"\x00\xff\r\n", &[0xff; 70_000]]);
        say(redis, "SET e:1 v PX 100000000");
        say(redis, "SET e:2 v EXAT 99999999999");
        say(redis, "EXPIRE l:1:3 1000");
        say(redis, "PEXPIREAT h:600:300 99999999999999");
    }
    say(redis, "SELECT 0");
}

fn send(redis: &mut Raw, words: &[Vec<u8>]) {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let reply = redis.ask(&words);
    assert!(reply[0] != b'-', "{}", reply.escape_ascii());
}

#[test]
fn a_full_copy_has_everything_by_disk_and_by_socket() {
    for diskless in ["no", "yes"] {
        let Some(primary) = Redis::start() else { return };
        let redis = &mut Raw::connect(primary.address);
        say(redis, &format!("CONFIG SET repl-diskless-sync {diskless}"));
        say(redis, "CONFIG SET repl-diskless-sync-delay 0");
        fill(redis, &mut Rng::with_seed(7));
        let server = TestServer::new();
        let hotring = &mut Raw::connect(server.address);
        say(hotring, "SET gone 1");
        follow(hotring, primary.address);
        catch_up(redis, hotring);
        assert_same(redis, hotring, 16);
        assert_eq!(field(hotring, "redis_link_full_copies"), "1");
        let keys = field(hotring, "redis_link_copied_keys").parse::<usize>().unwrap();
        assert_eq!(keys, all(redis, 16).len());
        let refused = say(hotring, "SET k v");
        assert!(refused.starts_with("-READONLY"), "{refused}");
        let role = say(hotring, "ROLE");
        let offset = field(redis, "master_repl_offset");
        assert!(role.contains("slave") && role.contains("connected"), "{role}");
        assert!(role.contains(&format!(":{offset}\r\n")), "{role} {offset}");
        let replica = field(redis, "slave0");
        assert!(
            replica.contains("state=online")
                && replica.contains(&server.address.port().to_string()),
            "{replica}"
        );
        until("the primary knows the position", || say(redis, "WAIT 1 1000") == ":1\r\n");
        assert_eq!(say(hotring, "REPLICAOF NO ONE"), "+OK\r\n");
        assert_same(redis, hotring, 16);
        assert_eq!(say(hotring, "SET k v"), "+OK\r\n");
        until("Redis sees the end", || field(redis, "connected_slaves") == "0");
    }
}

/// Random writes of all types, for the stream.
fn write(redis: &mut Raw, random: &mut Rng) {
    let key = format!("k{}", random.usize(..40));
    let (a, b) = (random.usize(..30), random.usize(..1000));
    let line = match random.usize(..30) {
        0 => format!("SELECT {}", [0, 0, 1, 5][random.usize(..4)]),
        1 => format!("SET {key} {b}"),
        2 => format!("SET {key} {b} PX {}", 1 + b / 4),
        3 => format!("DEL {key}"),
        4 => format!("INCRBY s{key} {b}"),
        5 => format!("APPEND s{key} x{b}"),
        6 => format!("LPUSH l{key} {a} {b}"),
        7 => format!("RPOPLPUSH l{key} l{}", random.usize(..5)),
        8 => format!("LPOP l{key}"),
        9 => format!("SADD m{key} {a} {b}"),
        10 => format!("SPOP m{key} 2"),
        11 => format!("HSET h{key} {a} {b}"),
        12 => format!("HINCRBYFLOAT h{key} f {b}.5"),
        13 => format!("HDEL h{key} {a}"),
        14 => format!("ZADD z{key} {b} {a}"),
        15 => format!("ZINCRBY z{key} 1.25 {a}"),
        16 => format!("ZPOPMIN z{key}"),
        17 => format!("ZUNIONSTORE z{} 2 z{key} z1", random.usize(..5)),
        18 => format!("SUNIONSTORE m{} m{key} m1", random.usize(..5)),
        19 => format!("EXPIRE h{key} {}", 1000 + a),
        20 => format!("PERSIST h{key}"),
        21 => format!("PFADD p{key} {a} {b}"),
        22 => format!("SETBIT b{key} {b} 1"),
        23 => format!("RENAME l{key} l{}", random.usize(..5)),
        24 => format!("COPY h{key} h{} REPLACE", random.usize(..5)),
        25 => {
            say(redis, "MULTI");
            say(redis, &format!("INCR n{key}"));
            say(redis, &format!("RPUSH l{key} {b}"));
            "EXEC".to_string()
        }
        26 => {
            let script = b"redis.call('incr', KEYS[1]) redis.call('expire', KEYS[1], 100) return redis.call('spop', KEYS[2])";
            redis.ask(&[b"EVAL", script, b"2", b"n1", b"m1"]);
            "PING".to_string()
        }
        27 => format!("GETEX {key} PX {}", 10 + b / 4),
        28 => format!("MOVE {key} 3"),
        _ => format!("BITFIELD b{key} SET u8 {a} {a}"),
    };
    say(redis, &line);
}

/// Increments a key until the connection ends; returns the number of acknowledged increments.
fn count_up(address: SocketAddr, key: &str) -> u64 {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let (mut count, mut reply) = (0, String::new());
    loop {
        reply.clear();
        let sent = write!(stream.get_mut(), "INCR {key}\r\n");
        if sent.is_err() || !stream.read_line(&mut reply).is_ok_and(|len| len > 0) {
            return count;
        }
        assert!(reply.starts_with(':'), "{reply}");
        count += 1;
    }
}

/// The steps of `docs/migrating.md`.
#[test]
fn live_traffic_moves_over_and_no_write_is_lost() {
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    fill(redis, &mut Rng::with_seed(8));
    let server = TestServer::new();
    let hotring = &mut Raw::connect(server.address);
    let (address, stops) = (primary.address, AtomicBool::new(false));
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        for seed in 0..2 {
            let stops = &stops;
            scope.spawn(move || {
                let (redis, random) = (&mut Raw::connect(address), &mut Rng::with_seed(seed));
                while !stops.load(Relaxed) {
                    write(redis, random);
                }
            });
        }
        let counters: Vec<_> = (0..3)
            .map(|id| scope.spawn(move || count_up(address, &format!("counter{id}"))))
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        follow(hotring, primary.address);
        until("the link is up", || field(hotring, "master_link_status") == "up");
        std::thread::sleep(Duration::from_millis(700));
        stops.store(true, Relaxed);
        std::thread::sleep(Duration::from_millis(50));
        say(redis, "CLIENT PAUSE 60000 WRITE");
        catch_up(redis, hotring);
        assert_eq!(say(hotring, "REPLICAOF NO ONE"), "+OK\r\n");
        assert_same(redis, hotring, 16);
        redis.send(&[b"SHUTDOWN", b"NOSAVE"]);
        counters.into_iter().map(|counter| counter.join().unwrap()).collect()
    });
    for (id, count) in acknowledged.iter().enumerate() {
        let found = say(hotring, &format!("GET counter{id}"));
        assert!(found.ends_with(&format!("\r\n{count}\r\n")), "{id}: {found} of {count}");
        assert!(*count > 10, "{count} writes");
    }
}

#[test]
fn its_own_log_has_what_came_from_the_primary() {
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    let data = std::env::temp_dir().join(format!("hotring-redis-link-{}", primary.address.port()));
    let log = LogSettings { is_on: true, data: data.clone(), ..LogSettings::default() };
    let random = &mut Rng::with_seed(10);
    let (ours, theirs) = {
        let server = TestServer::with(|config| config.log = log.clone());
        let hotring = &mut Raw::connect(server.address);
        say(hotring, "SET gone 1");
        (0..300).for_each(|_| write(redis, random));
        follow(hotring, primary.address);
        until("the link is up", || field(hotring, "master_link_status") == "up");
        (0..300).for_each(|_| write(redis, random));
        assert_eq!(say(hotring, "SAVE"), "+OK\r\n");
        (0..300).for_each(|_| write(redis, random));
        say(redis, "SELECT 0");
        catch_up(redis, hotring);
        assert_eq!(say(hotring, "REPLICAOF NO ONE"), "+OK\r\n");
        assert_eq!(say(hotring, "SET mine 1"), "+OK\r\n");
        say(redis, "SET mine 1");
        assert_same(redis, hotring, 16);
        (all(hotring, 16), all(redis, 16))
    };
    let server = TestServer::with(|config| config.log = log.clone());
    let found = all(&mut Raw::connect(server.address), 16);
    assert!(found == ours && found == theirs && found.len() > 20, "{} {}", found.len(), ours.len());
    drop(server);
    let _ = std::fs::remove_dir_all(data);
}

#[test]
fn a_part_of_a_copy_is_dropped_at_the_next_start() {
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    let fill = b"for i=1,20000 do redis.call('set','key:'..i,string.rep('x',100)) end";
    redis.ask(&[b"EVAL", fill, b"0"]);
    let data = std::env::temp_dir().join(format!("hotring-redis-part-{}", primary.address.port()));
    let log = LogSettings { is_on: true, data: data.clone(), ..LogSettings::default() };
    let proxy = Proxy::start(primary.address);
    for is_cut in [true, false] {
        let server = TestServer::with(|config| config.log = log.clone());
        let hotring = &mut Raw::connect(server.address);
        assert_eq!(say(hotring, "DBSIZE"), ":0\r\n");
        proxy.refuse(false);
        if is_cut {
            proxy.cut_after(400_000);
            proxy.refuse_later(true);
        }
        follow(hotring, proxy.address);
        match is_cut {
            true => until("the copy is cut", || {
                say(hotring, "GET a").starts_with("-LOADING")
                    && !field(hotring, "master_link_error").is_empty()
            }),
            false => catch_up(redis, hotring),
        }
    }
    let server = TestServer::with(|config| config.log = log.clone());
    assert_eq!(say(&mut Raw::connect(server.address), "DBSIZE"), ":20000\r\n");
    drop(server);
    let _ = std::fs::remove_dir_all(data);
}

#[test]
fn a_cut_link_goes_on_without_a_full_copy() {
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    let proxy = Proxy::start(primary.address);
    let server = TestServer::new();
    let hotring = &mut Raw::connect(server.address);
    let random = &mut Rng::with_seed(9);
    follow(hotring, proxy.address);
    catch_up(redis, hotring);
    for round in 0..12u64 {
        // In the middle of whatever is on its way.
        proxy.cut_after(random.u64(1..4000));
        (0..150).for_each(|_| write(redis, random));
        say(redis, "SELECT 0");
        proxy.cut();
        catch_up(redis, hotring);
        let partial = field(hotring, "redis_link_partial_copies").parse::<u64>().unwrap();
        assert!(partial > round, "{partial} after {round}");
    }
    assert_eq!(field(hotring, "redis_link_full_copies"), "1");
    assert_same(redis, hotring, 16);
    // What the backlog does not have any more needs a full copy.
    say(redis, "CONFIG SET repl-backlog-size 16384");
    proxy.refuse(true);
    (0..3000).for_each(|_| write(redis, random));
    say(redis, "SELECT 0");
    redis.ask(&[b"SET", b"long", &[b'x'; 200_000]]);
    proxy.refuse(false);
    catch_up(redis, hotring);
    assert_eq!(field(hotring, "redis_link_full_copies"), "2");
    assert_same(redis, hotring, 16);
}

#[test]
fn a_copy_that_is_cut_is_unfinished_until_another_is_complete() {
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    let fill = b"for i=1,20000 do redis.call('set','key:'..i,string.rep('x',100)) end";
    redis.ask(&[b"EVAL", fill, b"0"]);
    let proxy = Proxy::start(primary.address);
    let server = TestServer::new();
    let hotring = &mut Raw::connect(server.address);
    say(hotring, "SET own 1");
    proxy.cut_after(400_000);
    proxy.refuse_later(true);
    follow(hotring, proxy.address);
    until("the copy is cut", || {
        field(hotring, "redis_link_full_copies") == "1"
            && !field(hotring, "master_link_error").is_empty()
    });
    assert!(say(hotring, "GET key:1").starts_with("-LOADING"));
    let refused = say(hotring, "REPLICAOF NO ONE");
    assert!(refused.starts_with("-ERR the copy of the primary's data is unfinished"), "{refused}");
    proxy.refuse(false);
    catch_up(redis, hotring);
    assert_same(redis, hotring, 1);
    // Again, and this time what is there is kept.
    proxy.refuse_later(true);
    follow(hotring, primary.address);
    catch_up(redis, hotring);
    proxy.refuse(false);
    proxy.cut_after(400_000);
    proxy.refuse_later(true);
    follow(hotring, proxy.address);
    until("the copy is cut", || {
        say(hotring, "GET key:1").starts_with("-LOADING")
            && !field(hotring, "master_link_error").is_empty()
    });
    assert_eq!(say(hotring, "REPLICAOF NO ONE FORCE"), "+OK\r\n");
    until("it serves", || say(hotring, "SET a 1") == "+OK\r\n");
    let keys: usize = say(hotring, "DBSIZE")[1..].trim().parse().unwrap();
    assert!((100..20_001).contains(&keys), "{keys}");
}

#[test]
fn streams_and_absent_databases_stop_the_link_or_are_skipped() {
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    say(redis, "SET a 1");
    say(redis, "XADD stream 1-1 f v");
    let server = TestServer::with(|config| config.databases = 4);
    let hotring = &mut Raw::connect(server.address);
    follow(hotring, primary.address);
    until("it stops", || field(hotring, "master_link_error").contains("a stream, the key stream"));
    assert!(say(hotring, "GET a").starts_with("-LOADING"));
    say(hotring, "CONFIG SET replicaof-unknown skip");
    catch_up(redis, hotring);
    assert!(say(hotring, "GET a").contains("\r\n1\r\n"));
    say(hotring, "CONFIG SET replicaof-unknown stop");
    say(redis, "SELECT 9");
    say(redis, "SET in:nine 1");
    until("it stops", || field(hotring, "master_link_error").contains("database 9"));
    assert!(say(hotring, "GET a").contains("\r\n1\r\n"), "the data stays");
    say(hotring, "CONFIG SET replicaof-unknown skip");
    say(redis, "XADD stream 1-2 f v");
    say(redis, "SELECT 0");
    redis.ask(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=x\nredis.register_function('f', function() return 1 end)",
    ]);
    say(redis, "INCR a");
    catch_up(redis, hotring);
    assert!(say(hotring, "GET a").contains("\r\n2\r\n"));
    let kinds = field(hotring, "redis_link_unknown_kinds");
    for kind in ["a stream=", "database 9=", "function load=1"] {
        assert!(kinds.contains(kind), "{kinds}");
    }
    assert_eq!(field(hotring, "redis_link_full_copies"), "2");
}

#[test]
fn a_password_is_needed_and_given() {
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "ACL SETUSER mover on >secret +psync +replconf +ping");
    say(redis, "CONFIG SET requirepass other");
    let server = TestServer::new();
    let hotring = &mut Raw::connect(server.address);
    follow(hotring, primary.address);
    until("it is refused", || field(hotring, "master_link_error").contains("NOAUTH"));
    say(hotring, "CONFIG SET masterauth wrong");
    until("it is refused", || field(hotring, "master_link_error").contains("WRONGPASS"));
    say(hotring, "CONFIG SET masteruser mover");
    say(hotring, "CONFIG SET masterauth secret");
    until("it is up", || field(hotring, "master_link_status") == "up");
}

#[test]
fn keys_are_over_when_the_primary_says_so() {
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    // Redis removes nothing by its clock during a pause.
    say(redis, "SET copied 1 PX 50");
    say(redis, "CLIENT PAUSE 100000 WRITE");
    std::thread::sleep(Duration::from_millis(60));
    let server = TestServer::new();
    let hotring = &mut Raw::connect(server.address);
    follow(hotring, primary.address);
    catch_up(redis, hotring);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(say(hotring, "GET copied"), "$-1\r\n", "it is over for readers");
    assert_eq!(say(hotring, "DBSIZE"), ":1\r\n", "but not gone");
    say(redis, "CLIENT UNPAUSE");
    until("the removal comes", || say(hotring, "DBSIZE") == ":0\r\n");
    say(redis, "SET streamed 1 PX 100");
    say(redis, "CLIENT PAUSE 100000 WRITE");
    catch_up(redis, hotring);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(say(hotring, "GET streamed"), "$-1\r\n");
    assert_eq!(say(hotring, "DBSIZE"), ":1\r\n");
    assert_eq!(say(hotring, "REPLICAOF NO ONE"), "+OK\r\n");
    until("a primary removes what is over", || say(hotring, "DBSIZE") == ":0\r\n");
}
