//! Pools that change: servers that stand still and return, that join and leave with their keys, beside clients.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hotring_commands::settings::config::TlsSettings;
use hotring_proxy::{Proxy, Settings};
use rustix::process::Signal;

use super::pool::{Backend, File, listed, memcached};
use super::{address, connect, counted, say, wait_for};
use crate::nemesis::clients::Wire;
use crate::{Folder, Server, hotring};

/// A field of what INFO says about a server, or the whole line without a field.
#[track_caller]
pub(super) fn told(wire: &mut Wire, line: &str, field: &str) -> String {
    let text = say(wire, "INFO");
    let line = text.lines().find_map(|it| it.strip_prefix(line)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    match field {
        "" => line.to_string(),
        _ => {
            let mut fields = line.split(',');
            let value = fields.find_map(|it| it.strip_prefix(field)?.strip_prefix('='));
            value.unwrap_or_else(|| panic!("{field} in {line}")).to_string()
        }
    }
}

/// A key whose server is at this address.
pub(super) fn key_of(wire: &mut Wire, address: &str) -> String {
    let mut keys = (0..).map(|n: u32| format!("key:{n}"));
    keys.find(|key| say(wire, &format!("ROUTE {key}")).contains(address)).expect("endless")
}

/// Reads the file again, waits for the end of the copy, and returns what came of it.
pub(super) fn copy(wire: &mut Wire) -> String {
    assert_eq!(say(wire, "POOL RELOAD COPY"), "OK");
    wait_for("the copy has ended", || !told(wire, "copy", "").starts_with("running"));
    told(wire, "copy", "")
}

#[test]
fn servers_of_all_kinds_are_one_pool_for_both_kinds_of_clients() {
    let redis = [Backend::redis(&[]), Backend::redis(&["--requirepass", "se,cret"])];
    let caches = [Backend::memcached(), Backend::memcached()];
    let hotring = Server::start(&mut hotring(&["serve", "--port", "0"]));
    let folder = Folder::new("pool-kinds");
    let line = |name: &str, kind: &str, at: &str, more: &str| {
        format!("{name} = {{ address = \"{at}\", protocol = \"{kind}\"{more} }}\n")
    };
    let text = format!(
        "[servers]\n{}{}{}{}{}",
        line("r1", "redis", &redis[0].address, ""),
        line("r2", "valkey", &redis[1].address, ", password = \"se,cret\", weight = 200"),
        line("m1", "memcached", &caches[0].address, ""),
        line("m2", "memcached", &caches[1].address, ""),
        line("h", "hotring", &hotring.address, ""),
    );
    let any = || vec!["127.0.0.1:0".parse().unwrap()];
    let proxy = Proxy::start(Settings {
        listen: any(),
        memcached: any(),
        pool: Some(folder.file("pool.toml", &text).into()),
        clients_password: Some("open".to_string()),
        ..Settings::default()
    });
    let proxy = proxy.unwrap();
    let mut wire = connect(&proxy);
    for line in ["PING", "GET a", "INFO", "POOL RELOAD", "ROUTE a", "DBSIZE"] {
        assert_eq!(say(&mut wire, line), "-NOAUTH Authentication required.", "{line}");
    }
    assert!(say(&mut wire, "AUTH shut").starts_with("-WRONGPASS"));
    assert!(say(&mut wire, "AUTH someone open").starts_with("-WRONGPASS"));
    assert_eq!(say(&mut wire, "AUTH open"), "OK");
    let keys: Vec<String> = (0..200).map(|n| format!("k{n}")).collect();
    for key in &keys {
        assert_eq!(say(&mut wire, &format!("SET {key} v{key} EX 1000")), "OK");
    }
    let all: Vec<String> = keys.iter().map(|key| format!("v{key}")).collect();
    assert_eq!(say(&mut wire, &format!("MGET {}", keys.join(" "))), format!("[{}]", all.join(" ")));
    for name in ["r1", "r2", "m1", "m2", "h"] {
        let n: u64 = told(&mut wire, &format!("server_{name}"), "requests").parse().unwrap();
        assert!(n > 0, "{name} got none");
    }
    let slots = |wire: &mut Wire, name: &str| {
        told(wire, &format!("server_{name}"), "slots").parse::<u32>().unwrap()
    };
    assert!(slots(&mut wire, "r2") > slots(&mut wire, "r1"));
    assert!(!say(&mut wire, "INFO").contains("se,cret"));
    // memcached's clients see the same keys, wherever they are.
    let mut client = memcached(&proxy);
    let values = client.say(&format!("get {}", keys.join(" ")));
    assert_eq!(values.matches("VALUE k").count(), 200, "{values}");
    for key in &keys[..50] {
        let replies = client.say(&format!("append {key} 0 0 1¶!¶get {key}"));
        let value = format!("v{key}!");
        assert_eq!(replies, format!("STORED¶VALUE {key} 0 {}¶{value}¶END¶", value.len()));
    }
    assert_eq!(say(&mut wire, &format!("DEL {}", keys.join(" "))), "200");
    assert_eq!(client.say(&format!("get {}", keys.join(" "))), "END¶");
    assert!(say(&mut wire, "SCAN 0").contains("memcached does not list its keys"));
    assert_eq!(say(&mut wire, "FLUSHALL"), "OK");
}

#[test]
fn a_silent_server_is_ejected_and_returns_after_good_probes_in_a_row() {
    let two = [Backend::redis(&[]), Backend::redis(&[])];
    let listed = [("a", "redis", &*two[0].address), ("b", "redis", &*two[1].address)];
    let file = File::new("pool-eject");
    let options = "eject-after = 3\nreturn-after = 6\nprobe-interval = 100\nprobe-timeout = 200";
    let proxy = file.write(options, &listed).proxy(Settings::default());
    let (mut wire, mut other, mut waiting) = (connect(&proxy), connect(&proxy), connect(&proxy));
    let [dead, alive] = [&two[0], &two[1]].map(|server| key_of(&mut wire, &server.address));
    assert_eq!(say(&mut wire, &format!("MSET {dead} 1 {alive} 1")), "OK");
    two[0].signal(Signal::STOP);
    waiting.send(&format!("INCR {dead}\r\n")).unwrap();
    for _ in 0..10 {
        let begun = Instant::now();
        assert_eq!(say(&mut other, &format!("INCR {alive}")).parse::<u32>().map(|_| ()), Ok(()));
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
    wait_for("it is ejected", || told(&mut other, "server_a", "state") == "ejected");
    // The fate of a write that was sent is unknown; one that comes now is refused at once.
    let unknown = super::shown(&waiting.reply().unwrap());
    assert!(unknown.starts_with("-UNKNOWN"), "{unknown}");
    let begun = Instant::now();
    let refused = say(&mut wire, &format!("GET {dead}"));
    assert!(refused.starts_with("-CLUSTERDOWN The server of this key, a, is ejected"), "{refused}");
    assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    assert!(say(&mut wire, &format!("MGET {dead} {alive}")).starts_with("-CLUSTERDOWN"));
    // No part of an answer.
    assert!(say(&mut wire, "DBSIZE").starts_with("-CLUSTERDOWN"));
    // It answers for a moment, too short for six probes, and is still out.
    for _ in 0..3 {
        two[0].signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(250));
        two[0].signal(Signal::STOP);
        assert_eq!(told(&mut other, "server_a", "state"), "ejected");
        std::thread::sleep(Duration::from_millis(350));
    }
    assert_eq!(told(&mut other, "server_a", "ejections"), "1");
    let begun = Instant::now();
    two[0].signal(Signal::CONT);
    wait_for("it returns", || told(&mut other, "server_a", "state") == "up");
    assert!(begun.elapsed() > Duration::from_millis(400), "{:?}", begun.elapsed());
    assert!(matches!(&*say(&mut wire, &format!("GET {dead}")), "1" | "2"));
}

#[test]
fn the_keys_of_an_ejected_server_go_to_the_next_one_if_the_file_says_so() {
    let (gone, stays) = (Backend::redis(&[]), Backend::memcached());
    let file = File::new("pool-next");
    let options = "eject-after = 2\nprobe-interval = 50\non-eject = \"next\"";
    let at = gone.address.clone();
    let listed = [("a", "redis", &*at), ("b", "memcached", &*stays.address)];
    let retry_for = Duration::from_millis(100);
    let proxy = file.write(options, &listed).proxy(Settings { retry_for, ..Settings::default() });
    let mut wire = connect(&proxy);
    let key = key_of(&mut wire, &at);
    assert_eq!(say(&mut wire, &format!("SET {key} old")), "OK");
    drop(gone);
    wait_for("another server has its keys", || say(&mut wire, &format!("GET {key}")) == "nil");
    assert_eq!(say(&mut wire, &format!("SET {key} new")), "OK");
    assert!(say(&mut wire, &format!("ROUTE {key}")).contains(&stays.address));
}

/// Counters that only grow, and keys that are deleted for good, beside the join of a server and its leave. A lost key
/// would show as a counter that begins at 1, an old value that comes back as one that falls, a deleted key as one
/// that is there.
fn copies_beside_clients(kinds: [&str; 2], both_protocols: bool) {
    let start = |kind: &str| match kind {
        "memcached" => Backend::memcached(),
        _ => Backend::redis(&[]),
    };
    let two = kinds.map(start);
    let listed = [("a", kinds[0], &*two[0].address), ("b", kinds[1], &*two[1].address)];
    let file = File::new(&format!("pool-copy-{}-{}", kinds[0], kinds[1]));
    let proxy = file.write("", &listed[..1]).proxy(Settings::default());
    let mut admin = connect(&proxy);
    const N: usize = 2_000;
    for n in 0..N {
        let lines =
            format!("SET cold:{n} v{n} EX 5000\r\nSET gone:{n} v\r\nSET count:{n} 1000\r\n");
        admin.send(&lines).unwrap();
    }
    (0..3 * N).for_each(|_| assert_eq!(super::shown(&admin.reply().unwrap()), "OK"));
    let (ends, deleted) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut wire = connect(&proxy);
            let mut counts: BTreeMap<usize, u64> = BTreeMap::new();
            let mut rng = fastrand::Rng::with_seed(7);
            while !ends.load(Ordering::Relaxed) {
                let n = rng.usize(..N);
                let count = counts.entry(n).or_insert(1000);
                *count += 1;
                assert_eq!(say(&mut wire, &format!("INCR count:{n}")), count.to_string(), "{n}");
            }
            counts
        });
        scope.spawn(|| {
            let mut wire = connect(&proxy);
            let mut rng = fastrand::Rng::with_seed(8);
            for n in 0..N {
                assert_eq!(say(&mut wire, &format!("DEL gone:{n}")), "1", "gone:{n}");
                deleted.store(n + 1, Ordering::Relaxed);
                let back = rng.usize(..=n);
                assert_eq!(say(&mut wire, &format!("GET gone:{back}")), "nil", "gone:{back}");
                if deleted.load(Ordering::Relaxed) > N / 2 && ends.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        for round in 0..2 {
            file.write("", &listed);
            let how = copy(&mut admin);
            assert!(how.starts_with("done,copied="), "join {round}: {how}");
            file.write("", &listed[1..]);
            let how = copy(&mut admin);
            assert!(how.starts_with("done,copied="), "leave {round}: {how}");
            file.write("", &listed);
            assert!(copy(&mut admin).starts_with("done,"));
            file.write("", &listed[..1]);
            assert!(copy(&mut admin).starts_with("done,"));
        }
        file.write("", &listed);
        assert!(copy(&mut admin).starts_with("done,"));
        ends.store(true, Ordering::Relaxed);
        let counts = writer.join().unwrap();
        for (n, count) in counts {
            assert_eq!(say(&mut admin, &format!("GET count:{n}")).trim_end(), count.to_string());
        }
    });
    for n in 0..N {
        assert_eq!(say(&mut admin, &format!("GET cold:{n}")), format!("v{n}"));
        let ttl: i64 = say(&mut admin, &format!("TTL cold:{n}")).parse().unwrap();
        assert!((4_800..=5_001).contains(&ttl), "{ttl}");
    }
    for n in 0..deleted.load(Ordering::Relaxed) {
        assert_eq!(say(&mut admin, &format!("GET gone:{n}")), "nil", "gone:{n}");
    }
    let slots: u32 = told(&mut admin, "server_b", "slots").parse().unwrap();
    assert!(slots > 3_000, "{slots}");
    if both_protocols {
        assert!(memcached(&proxy).say("get cold:1 cold:2 cold:3").matches("VALUE").count() == 3);
    }
}

#[test]
fn keys_come_over_between_redis_servers_beside_clients() {
    copies_beside_clients(["redis", "redis"], false);
}

#[test]
fn keys_come_over_between_memcached_servers_beside_clients() {
    copies_beside_clients(["memcached", "memcached"], false);
}

#[test]
fn keys_come_over_between_servers_of_two_kinds_beside_clients() {
    copies_beside_clients(["memcached", "redis"], true);
}

#[test]
fn values_of_all_types_come_over_and_others_stay() {
    let redis = [Backend::redis(&[]), Backend::redis(&[])];
    let cache = Backend::memcached();
    let file = File::new("pool-types");
    let all = [
        ("a", "redis", &*redis[0].address),
        ("b", "redis", &*redis[1].address),
        ("m", "memcached", &*cache.address),
    ];
    let proxy = file.write("", &all[..1]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    for n in 0..100 {
        assert_eq!(say(&mut wire, &format!("RPUSH list:{n} a b {n}")), "3");
        assert_eq!(say(&mut wire, &format!("HSET hash:{n} f {n}")), "1");
    }
    file.write("", &all[..2]);
    let how = copy(&mut wire);
    assert!(how.starts_with("done,") && how.ends_with(",cold=0"), "{how}");
    for n in 0..100 {
        assert_eq!(say(&mut wire, &format!("LRANGE list:{n} 0 -1")), format!("[a b {n}]"));
        assert_eq!(say(&mut wire, &format!("HGET hash:{n} f")), n.to_string());
    }
    assert_eq!(redis[0].keys() + redis[1].keys(), 200);
    assert!(redis[1].keys() > 40, "{}", redis[1].keys());
    // SCAN walks over all of them.
    let (mut cursor, mut met) = ("0".to_string(), 0);
    loop {
        let page = say(&mut wire, &format!("SCAN {cursor} COUNT 30"));
        let page = page.trim_matches(['[', ']']).replace('[', "");
        let mut words = page.split_whitespace();
        cursor = words.next().unwrap().to_string();
        met += words.count();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(met, 200);
    // memcached cannot have them: they stay where they are.
    file.write("", &all);
    let how = copy(&mut wire);
    let cold: u32 = how.rsplit_once('=').unwrap().1.parse().unwrap();
    assert!(how.starts_with("done,copied=0,") && cold > 20, "{how}");
    assert_eq!(redis[0].keys() + redis[1].keys(), 200);
}

#[test]
fn the_file_is_taken_as_a_whole_and_connections_stay() {
    let three = [Backend::redis(&[]), Backend::redis(&[]), Backend::redis(&[])];
    let all = listed(&three);
    let file = File::new("pool-file");
    let proxy = file.write("", &all[..2]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    let key = key_of(&mut wire, &three[0].address);
    assert_eq!(say(&mut wire, &format!("SET {key} 1")), "OK");
    let made = counted(&mut wire, "proxy_connections_made");
    // A faulty file changes nothing.
    file.write("weight = 5", &all);
    let refused = say(&mut wire, "POOL RELOAD");
    assert!(refused.starts_with("-ERR nothing is changed: ") && refused.contains("weight"));
    let other = [("a", "memcached", all[0].2)];
    file.write("", &other);
    assert!(say(&mut wire, "POOL RELOAD").contains("restart the proxy"));
    assert!(say(&mut wire, "POOL").contains("POOL RELOAD COPY"));
    assert_eq!(say(&mut wire, &format!("GET {key}")), "1");
    let at = |wire: &mut Wire| say(wire, &format!("ROUTE {key}"));
    let before = at(&mut wire);
    file.write("", &all);
    assert_eq!(say(&mut wire, "POOL RELOAD"), "OK");
    assert_eq!(told(&mut wire, "server_c", "state"), "up");
    if at(&mut wire) == before {
        assert_eq!(say(&mut wire, &format!("GET {key}")), "1");
    }
    // What stays keeps its connection; clients do, too.
    let keys: Vec<String> = (0..50).map(|n| format!("k{n}")).collect();
    assert!(say(&mut wire, &format!("EXISTS {}", keys.join(" "))).parse::<u32>().is_ok());
    assert!(counted(&mut wire, "proxy_connections_made") <= made + 2);
    // A proxy that starts now reads the same.
    let again = file.proxy(Settings::default());
    let mut other = connect(&again);
    for key in &keys {
        let route = format!("ROUTE {key}");
        assert_eq!(say(&mut wire, &route), say(&mut other, &route));
    }
    assert!(address(&again) != address(&proxy));
}

/// The program takes the file, and says what is wrong with it.
#[test]
fn the_program_serves_a_pool() {
    let cache = Backend::memcached();
    let folder = Folder::new("pool-program");
    let faulty = folder.file("faulty.toml", "[servers]\na = { protocol = \"redis\" }\n");
    let refused = crate::output(&mut hotring(&["proxy", "--pool", &faulty]));
    assert!(crate::stderr(&refused).contains("line 2: address is missing"));
    let text =
        format!("[servers]\na = {{ address = \"{}\", protocol = \"memcached\" }}\n", cache.address);
    let pool = folder.file("pool.toml", &text);
    let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = bound.local_addr().unwrap().to_string();
    drop(bound);
    let mut process = hotring(&["proxy", "--pool", &pool, "--listen", &at]).spawn().unwrap();
    wait_for("it listens", || TcpStream::connect(&at).is_ok());
    let mut wire = Wire::connect(&at).unwrap();
    assert_eq!(say(&mut wire, "SET a 1"), "OK");
    assert_eq!(say(&mut wire, "GET a"), "1");
    let mut direct = super::memcached::Client::to(&cache.address);
    assert_eq!(direct.say("get a"), "VALUE a 0 1¶1¶END¶");
    _ = process.kill();
    _ = process.wait();
}

/// A write that its old server executes late must be there when the key comes over.
#[test]
fn a_copy_begins_after_the_requests_by_the_layout_before() {
    let two = [Backend::redis(&[]), Backend::redis(&[])];
    let listed = [("a", "redis", &*two[0].address), ("b", "redis", &*two[1].address)];
    let file = File::new("pool-late");
    let proxy = file.write("", &listed).proxy(Settings::default());
    let (mut wire, mut late, mut early) = (connect(&proxy), connect(&proxy), connect(&proxy));
    let key = key_of(&mut wire, &two[0].address);
    assert_eq!(say(&mut wire, &format!("SET {key} 1")), "OK");
    assert_eq!(say(&mut early, "MULTI"), "OK");
    assert_eq!(say(&mut early, &format!("INCR {key}")), "QUEUED");
    file.write("", &listed[1..]);
    // Reads, as those of the copy, go on.
    assert_eq!(say(&mut two[0].wire(), "CLIENT PAUSE 1000 WRITE"), "OK");
    late.send(&format!("INCR {key}\r\n")).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(say(&mut wire, "POOL RELOAD COPY"), "OK");
    // Keys on their way would come back.
    assert!(say(&mut wire, "FLUSHALL").starts_with("-ERR keys are being copied"));
    assert!(memcached(&proxy).say("flush_all").starts_with("SERVER_ERROR keys are being copied"));
    assert_eq!(say(&mut wire, &format!("INCR {key}")), "3");
    assert_eq!(super::shown(&late.reply().unwrap()), "2");
    wait_for("the copy has ended", || told(&mut wire, "copy", "").starts_with("done"));
    // A transaction that began before does not write at the wrong server.
    assert!(say(&mut early, "EXEC").starts_with("-EXECABORT"));
    assert_eq!(say(&mut late, &format!("GET {key}")), "3");
}

/// An old value at the new server, from an earlier layout, once won over the newest one, and deleted keys came back.
#[test]
fn what_the_new_server_has_of_before_does_not_come_back() {
    let servers = [Backend::redis(&[]), Backend::redis(&[]), Backend::memcached()];
    let kinds = ["redis", "redis", "memcached"];
    for (from, to) in [(0, 1), (0, 2), (2, 1)] {
        let [old, new] = [from, to].map(|at| (kinds[at], &*servers[at].address));
        let listed = [("a", old.0, old.1), ("b", new.0, new.1)];
        let file = File::new(&format!("pool-before-{from}-{to}"));
        let proxy = file.write("", &listed[1..]).proxy(Settings::default());
        let mut wire = connect(&proxy);
        for n in 0..500 {
            assert_eq!(say(&mut wire, &format!("SET k{n} old")), "OK");
        }
        file.write("", &listed[..1]);
        assert_eq!(say(&mut wire, "POOL RELOAD"), "OK");
        for n in 0..250 {
            assert_eq!(say(&mut wire, &format!("SET k{n} new")), "OK");
        }
        file.write("", &listed[1..]);
        assert_eq!(say(&mut wire, "POOL RELOAD COPY"), "OK");
        // Wanted at once, and found by the walk.
        for n in [0, 1, 498, 499] {
            let expected = if n < 250 { "new" } else { "nil" };
            assert_eq!(say(&mut wire, &format!("GET k{n}")), expected);
        }
        assert_eq!(say(&mut wire, "SET k499 newest"), "OK");
        wait_for("the copy has ended", || !told(&mut wire, "copy", "").starts_with("running"));
        assert_eq!(told(&mut wire, "copy", ""), "done,copied=250,cold=0");
        for n in 0..499 {
            let expected = if n < 250 { "new" } else { "nil" };
            assert_eq!(say(&mut wire, &format!("GET k{n}")), expected, "k{n}");
        }
        assert_eq!(say(&mut wire, "GET k499"), "newest");
        assert_eq!(say(&mut wire, "FLUSHALL"), "OK");
    }
}

#[test]
fn values_go_from_redis_to_hotring_and_back() {
    let redis = Backend::redis(&[]);
    let node = Server::start(&mut hotring(&["serve", "--port", "0"]));
    let listed = [("a", "redis", &*redis.address), ("h", "hotring", &*node.address)];
    let file = File::new("pool-hotring");
    let proxy = file.write("", &listed[..1]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    assert_eq!(say(&mut wire, "RPUSH list a b"), "2");
    assert_eq!(say(&mut wire, "ZADD set 1 a 2 b"), "2");
    assert_eq!(say(&mut wire, "SET text hello EX 1000"), "OK");
    for servers in [&listed[1..], &listed[..1]] {
        file.write("", servers);
        assert_eq!(copy(&mut wire), "done,copied=3,cold=0");
        assert_eq!(say(&mut wire, "LRANGE list 0 -1"), "[a b]");
        assert_eq!(say(&mut wire, "ZRANGE set 0 -1 WITHSCORES"), "[a 1 b 2]");
        assert_eq!(say(&mut wire, "GET text"), "hello");
        assert!(say(&mut wire, "TTL text").parse::<i64>().unwrap() > 900);
    }
}

/// Keys of any bytes, which memcached has for clients that write them in base64, must not be read as requests.
#[test]
fn a_hostile_key_does_not_speak_to_memcached() {
    let (cache, redis) = (Backend::memcached(), Backend::redis(&[]));
    let listed = [("a", "memcached", &*cache.address), ("b", "redis", &*redis.address)];
    let file = File::new("pool-hostile");
    let proxy = file.write("", &listed[..1]).proxy(Settings::default());
    let mut wire = connect(&proxy);
    for n in 0..500 {
        assert_eq!(say(&mut wire, &format!("SET k{n} v{n}")), "OK");
    }
    let mut direct = super::memcached::Client::to(&cache.address);
    // x, the end of a line, flush_all, the end of a line, mg x.
    assert_eq!(direct.say("ms eA0KZmx1c2hfYWxsDQptZyB4 1 b¶v"), "HD¶");
    assert_eq!(direct.say("set flags 7 0 1¶v"), "STORED¶");
    file.write("", &listed[1..]);
    assert_eq!(copy(&mut wire), "done,copied=501,cold=1");
    let hostile = "*2\r\n$3\r\nGET\r\n$18\r\nx\r\nflush_all\r\nmg x\r\n";
    wire.send(hostile).unwrap();
    assert_eq!(super::shown(&wire.reply().unwrap()), "v");
    for n in 0..500 {
        assert_eq!(say(&mut wire, &format!("GET k{n}")), format!("v{n}"));
    }
    assert_eq!(direct.say("get k1 flags"), "VALUE flags 7 1¶v¶END¶");
}

#[test]
fn servers_over_tls_are_checked() {
    let certificates =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../hotring-server/tests/it/certificates/");
    let path = |name: &str| format!("{certificates}{name}");
    let (cert, key, ca) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let words = ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let backend = Backend::redis_over_tls(&[&words[..], &["--tls-auth-clients", "no"]].concat());
    let folder = Folder::new("pool-tls");
    let line =
        format!("a = {{ address = \"{}\", protocol = \"redis\", tls = true }}", backend.address);
    let pool = folder.file("pool.toml", &format!("eject-after = 1000\n[servers]\n{line}\n"));
    let start = |ca: Option<String>| {
        let tls = TlsSettings { ca_cert_file: ca.map(Into::into), ..TlsSettings::default() };
        let retry_for = Duration::from_millis(200);
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let pool = Some(pool.clone().into());
        Proxy::start(Settings { listen, pool, tls, retry_for, ..Settings::default() })
    };
    let proxy = start(Some(ca.clone())).unwrap();
    assert_eq!(say(&mut connect(&proxy), "SET a 1"), "OK");
    // Another authority has not signed the server's certificate.
    let proxy = start(Some(path("stranger.pem"))).unwrap();
    assert!(say(&mut connect(&proxy), "GET a").starts_with('-'));
}

/// Without probes: a server that refuses connections, and one that owes a reply and is silent.
#[test]
fn clients_requests_eject_servers_as_well() {
    let two = [Backend::redis(&[]), Backend::redis(&[])];
    let listed = [("a", "redis", &*two[0].address), ("b", "redis", &*two[1].address)];
    let file = File::new("pool-requests");
    let options = "eject-after = 2\nprobe-interval = 3600000";
    let node_timeout = Duration::from_millis(300);
    let proxy =
        file.write(options, &listed).proxy(Settings { node_timeout, ..Settings::default() });
    let (mut wire, mut other) = (connect(&proxy), connect(&proxy));
    let keys = [&two[0], &two[1]].map(|server| key_of(&mut wire, &server.address));
    assert_eq!(say(&mut wire, &format!("MSET {} 1 {} 1", keys[0], keys[1])), "OK");
    two[0].signal(Signal::KILL);
    two[1].signal(Signal::STOP);
    wire.send(&format!("GET {}\r\n", keys[0])).unwrap();
    other.send(&format!("GET {}\r\n", keys[1])).unwrap();
    for (wire, name) in [(&mut wire, "a"), (&mut other, "b")] {
        let refused = super::shown(&wire.reply().unwrap());
        let expected = format!("-CLUSTERDOWN The server of this key, {name}, is ejected");
        assert!(refused.starts_with(&expected), "{refused}");
    }
    assert!(told(&mut wire, "server_b", "why").contains("silent"));
    two[1].signal(Signal::CONT);
}
