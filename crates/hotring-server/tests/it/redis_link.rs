//! Follows a real `redis-server` as its replica: the full copy, the stream, cuts of the link, and the cut-over. Without
//! a `redis-server` of version 7, the tests print so and do nothing; `redis_link_peers` needs none. `HOTRING_SOURCE`
//! names the program of another version to follow, or of a Valkey.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fastrand::Rng;

use hotring_server::LogSettings;

use crate::differential::{Raw, Redis};
use crate::redis_data::{all, assert_same, fill, write};
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

#[test]
fn a_full_copy_has_everything_by_disk_and_by_socket() {
    for diskless in ["no", "yes"] {
        let Some(primary) = Redis::source() else { return };
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
    let Some(primary) = Redis::source() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    fill(redis, &mut Rng::with_seed(8));
    let server = TestServer::new();
    let hotring = &mut Raw::connect(server.address);
    let (address, stops) = (primary.address, AtomicBool::new(false));
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let stops = &stops;
                scope.spawn(move || {
                    let (redis, random) = (&mut Raw::connect(address), &mut Rng::with_seed(seed));
                    while !stops.load(Relaxed) {
                        write(redis, random);
                    }
                })
            })
            .collect();
        let counters: Vec<_> = (0..3)
            .map(|id| scope.spawn(move || count_up(address, &format!("counter{id}"))))
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        follow(hotring, primary.address);
        until("the link is up", || field(hotring, "master_link_status") == "up");
        std::thread::sleep(Duration::from_millis(700));
        stops.store(true, Relaxed);
        // A write that waits for the end of the pause would never be answered.
        writers.into_iter().for_each(|writer| writer.join().unwrap());
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
    let Some(primary) = Redis::source() else { return };
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
    let Some(primary) = Redis::source() else { return };
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
    let Some(primary) = Redis::source() else { return };
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
    let Some(primary) = Redis::source() else { return };
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
    let Some(primary) = Redis::source() else { return };
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
    let Some(primary) = Redis::source() else { return };
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
fn the_link_uses_tls_if_the_setting_says_so() {
    // Other programs may be built without it.
    let Some(primary) = Redis::start() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    let file = |name: &str| {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/certificates").join(name)
    };
    let [certificate, key, ca] = ["server.pem", "server.key", "ca.pem"].map(file);
    // Bound and released: the port is most likely still free a moment later.
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let set = format!(
        "CONFIG SET tls-cert-file {} tls-key-file {} tls-ca-cert-file {} tls-auth-clients no tls-port {port}",
        certificate.display(),
        key.display(),
        ca.display()
    );
    assert_eq!(say(redis, &set), "+OK\r\n");
    fill(redis, &mut Rng::with_seed(11));
    let server = TestServer::with(|config| {
        config.replication.tls = true;
        config.tls.ca_cert_file = Some(ca.clone());
    });
    let hotring = &mut Raw::connect(server.address);
    follow(hotring, primary.address);
    until("without TLS it fails", || !field(hotring, "master_link_error").is_empty());
    assert_eq!(say(hotring, &format!("REPLICAOF localhost {port}")), "+OK\r\n");
    catch_up(redis, hotring);
    let random = &mut Rng::with_seed(12);
    (0..500).for_each(|_| write(redis, random));
    say(redis, "SELECT 0");
    catch_up(redis, hotring);
    assert_same(redis, hotring, 16);
}

#[test]
fn keys_are_over_when_the_primary_says_so() {
    let Some(primary) = Redis::source() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    // Redis removes nothing by its clock during a pause.
    say(redis, "SET copied 1 PX 300");
    say(redis, "CLIENT PAUSE 100000 WRITE");
    std::thread::sleep(Duration::from_millis(310));
    let server = TestServer::new();
    let hotring = &mut Raw::connect(server.address);
    follow(hotring, primary.address);
    catch_up(redis, hotring);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(say(hotring, "GET copied"), "$-1\r\n", "it is over for readers");
    assert_eq!(say(hotring, "DBSIZE"), ":1\r\n", "but not gone");
    say(redis, "CLIENT UNPAUSE");
    until("the removal comes", || say(hotring, "DBSIZE") == ":0\r\n");
    say(redis, "SET streamed 1 PX 300");
    say(redis, "CLIENT PAUSE 100000 WRITE");
    catch_up(redis, hotring);
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(say(hotring, "GET streamed"), "$-1\r\n");
    assert_eq!(say(hotring, "DBSIZE"), ":1\r\n");
    assert_eq!(say(hotring, "REPLICAOF NO ONE"), "+OK\r\n");
    until("a primary removes what is over", || say(hotring, "DBSIZE") == ":0\r\n");
}

/// Valkey 9 writes hashes with such fields in a form of its own, and sent none to a replica that did not say that it
/// knows that: the link ended again and again.
#[test]
fn fields_that_expire_come_from_servers_that_have_them() {
    let Some(primary) = Redis::source() else { return };
    let redis = &mut Raw::connect(primary.address);
    say(redis, "CONFIG SET repl-diskless-sync-delay 0");
    assert_eq!(say(redis, "HSET copied a 1 b 2"), ":2\r\n");
    if say(redis, "HEXPIRE copied 100000 FIELDS 1 a").starts_with("-ERR unknown command") {
        return eprintln!("skipped: fields of this server's hashes do not expire");
    }
    say(redis, "HSET copied-gone a 1 b 2");
    say(redis, "HPEXPIRE copied-gone 300 FIELDS 1 a");
    let server = TestServer::new();
    let hotring = &mut Raw::connect(server.address);
    follow(hotring, primary.address);
    catch_up(redis, hotring);
    say(redis, "HSET streamed a 1 b 2");
    say(redis, "HEXPIRE streamed 100000 FIELDS 1 b");
    say(redis, "HSET streamed-gone a 1 b 2");
    say(redis, "HPEXPIRE streamed-gone 1 FIELDS 1 a");
    for key in ["copied-gone", "streamed-gone"] {
        until(key, || say(hotring, &format!("HGETALL {key}")) == "*2\r\n$1\r\nb\r\n$1\r\n2\r\n");
    }
    catch_up(redis, hotring);
    for key in ["copied", "streamed"] {
        for read in [format!("HPEXPIRETIME {key} FIELDS 2 a b"), format!("HMGET {key} a b")] {
            assert_eq!(say(hotring, &read), say(redis, &read), "{read}");
        }
    }
}
