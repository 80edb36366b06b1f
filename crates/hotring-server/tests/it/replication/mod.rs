//! Replication between servers: full copies beside writes, cut links, restarts of either side, promotion, and peers
//! that send nonsense. Kills of processes are in the tests of the command line.

mod chain;
mod demotion;
mod events;
#[allow(dead_code, reason = "the store uses more of it")]
#[path = "../../../../hotring-store/tests/it/linearizability.rs"]
mod linearizability;
mod links;
mod pair;
mod peers;
mod proxy;
mod reads;
mod restart;
mod seeds;
mod shown;
mod tails;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use hotring_log::AckWhen;
use hotring_server::{Config, LogSettings, Source};

use crate::wire::{Reply, TestServer, Wire, ok};
use proxy::Proxy;

/// Longest wait for anything, on a machine that does ten other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder that is removed after the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let name = format!("hotring-it-replication-{}-{name}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    pub fn path(&self) -> PathBuf {
        self.0.clone()
    }

    pub fn log(&self, when: AckWhen) -> LogSettings {
        let data = self.0.clone();
        LogSettings { is_on: true, when, data, segment_len: 256 << 10, ..LogSettings::default() }
    }

    /// Replaces a file.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Removes everything but the file of this name.
    pub fn lose_all_but(&self, name: &str) {
        for entry in std::fs::read_dir(&self.0).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                _ if path.ends_with(name) => {}
                true => std::fs::remove_dir_all(path).unwrap(),
                false => std::fs::remove_file(path).unwrap(),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server with this log: off, or in a folder.
fn server(log: Option<(&Folder, AckWhen)>, change: impl FnOnce(&mut Config)) -> TestServer {
    TestServer::with(|config| {
        if let Some((folder, when)) = log {
            config.log = folder.log(when);
        }
        change(config);
    })
}

pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A field of INFO, if it is there: some exist only in one role.
fn field(wire: &mut Wire, name: &str) -> Option<String> {
    let text = wire.say("INFO everything").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(str::to_string)
}

/// A field of INFO that must be there.
pub fn info(wire: &mut Wire, name: &str) -> String {
    field(wire, name).unwrap_or_else(|| panic!("no {name} in INFO"))
}

fn follow(replica: &mut Wire, port: u16) {
    assert_eq!(replica.say(&format!("REPLICAOF 127.0.0.1 {port}")), ok());
}

/// Waits until the server is a replica, and its link is up.
fn wait_until_up(replica: &mut Wire) {
    let started = Instant::now();
    while field(replica, "master_link_status").as_deref() != Some("up") {
        let shown = replica.say("INFO replication");
        assert!(started.elapsed() < Duration::from_secs(30), "the link comes up: {}", shown.text());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the replica has all that the primary has.
fn wait_until_even(primary: &mut Wire, replica: &mut Wire) {
    wait_until_up(replica);
    let last: u64 = info(primary, "master_repl_offset").parse().unwrap();
    wait_for("the replica catches up", || {
        info(replica, "slave_repl_offset").parse::<u64>().unwrap() >= last
    });
}

/// The elements of a reply that lists some, sorted.
fn sorted(reply: Reply) -> Vec<Reply> {
    let mut items = reply.items().to_vec();
    items.sort_by_cached_key(Reply::text);
    items
}

/// Every key of every database with all that clients can see of it, in an order of their names.
fn contents(wire: &mut Wire) -> BTreeMap<String, Vec<Reply>> {
    let mut all = BTreeMap::new();
    for database in 0..16 {
        assert_eq!(wire.say(&format!("SELECT {database}")), ok());
        let keys = sorted(wire.say("KEYS *")).iter().map(Reply::text).collect::<Vec<_>>();
        let each = |command: &str| keys.iter().map(|key| format!("{command} {key}")).collect();
        let (of_type, of_expiry): (Vec<String>, Vec<String>) = (each("TYPE"), each("PEXPIRETIME"));
        let kinds: Vec<String> = wire.say_all(&of_type).iter().map(Reply::text).collect();
        let reading: Vec<String> = keys.iter().zip(&kinds).map(|(k, kind)| read(kind, k)).collect();
        let values = wire.say_all(&reading);
        let expiries = wire.say_all(&of_expiry);
        for (((key, kind), value), expiry) in keys.iter().zip(&kinds).zip(values).zip(expiries) {
            let mut value = match &kind[..] {
                "set" => sorted(value),
                "hash" => fields(wire, key, &value),
                _ => vec![value],
            };
            value.extend([Reply::Simple(kind.clone()), expiry]);
            all.insert(format!("{database} {key}"), value);
        }
        all.insert(format!("{database} pins"), sorted(wire.say("PINNED")));
    }
    assert_eq!(wire.say("SELECT 0"), ok());
    all
}

/// The command that reads a key of this type.
fn read(kind: &str, key: &str) -> String {
    match kind {
        "string" => format!("GET {key}"),
        "list" => format!("LRANGE {key} 0 -1"),
        "zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
        "set" => format!("SMEMBERS {key}"),
        _ => format!("HGETALL {key}"),
    }
}

/// The fields of a hash in the order of their names, each with its value and when it expires.
fn fields(wire: &mut Wire, key: &str, value: &Reply) -> Vec<Reply> {
    let pairs = value.items();
    let names: Vec<String> = pairs.iter().step_by(2).map(Reply::text).collect();
    if names.is_empty() {
        // It has expired.
        return Vec::new();
    }
    let ask = format!("HPEXPIRETIME {key} FIELDS {} {}", names.len(), names.join(" "));
    let ends = wire.say(&ask);
    let mut fields: Vec<_> = pairs.chunks(2).zip(ends.items()).collect();
    assert_eq!(fields.len(), names.len());
    fields.sort_by_cached_key(|(pair, _)| pair[0].text());
    fields.into_iter().flat_map(|(pair, end)| [&pair[0], &pair[1], end]).cloned().collect()
}

/// Checks that both servers have the same.
fn assert_equal(primary: &mut Wire, replica: &mut Wire) {
    wait_until_even(primary, replica);
    let (here, there) = (contents(primary), contents(replica));
    for (key, value) in &here {
        // Shown only if they differ: it takes longer than to ask for them.
        let short = |value| format!("{value:?}").chars().take(300).collect::<String>();
        let found = there.get(key);
        assert!(
            Some(value) == found,
            "{key}: {} at the primary, {} at the replica",
            short(Some(value)),
            short(found)
        );
    }
    assert_eq!(here.len(), there.len(), "{:?}", there.keys().collect::<Vec<_>>());
}

/// A random write of any type, in any of a few databases, or of whole databases.
fn write(wire: &mut Wire, random: &mut Rng) {
    match random.u32(..1800) {
        0 => _ = wire.say("FLUSHDB"),
        1 => _ = wire.say("SWAPDB 0 1"),
        _ => write_keys(wire, random),
    }
}

/// A random write of one or several keys.
fn write_keys(wire: &mut Wire, random: &mut Rng) {
    let key = format!("k{}", random.u32(..60));
    let other = format!("k{}", random.u32(..60));
    let (n, word) = (random.u32(..50), "v".repeat(random.usize(..80)));
    let far = 4_000_000_000_000u64 + random.u64(..1_000_000);
    let command = match random.u32(..30) {
        0..4 => format!("SET s:{key} x{word}"),
        4 => format!("SET s:{key} x{word} PXAT {far}"),
        5 => format!("INCR n:{key}"),
        6 => format!("APPEND long:{key} {}", "a".repeat(random.usize(1..9_000))),
        7 => format!("SETRANGE long:{key} {} x{word}", random.u32(..200_000)),
        8..11 => format!("RPUSH l:{key} a{n} {word}b"),
        11 => format!("LPOP l:{key} 3"),
        12..14 => format!("HSET h:{key} f{n} x{word} g{n} {n}"),
        14 => format!("HPEXPIREAT h:{key} {far} FIELDS 1 f{n}"),
        15 => format!("HDEL h:{key} f{n}"),
        16..18 => format!("SADD m:{key} {n} x{word}"),
        18 => format!("SREM m:{key} {n}"),
        19..21 => format!("ZADD z:{key} {n} m{n}"),
        21 => format!("ZREM z:{key} m{n}"),
        22 => format!("DEL s:{key} l:{other}"),
        23 => format!("MSET s:{key} {n} s:{other} {n}"),
        24 => format!("PIN s:{key}"),
        25 => format!("UNPIN s:{key}"),
        26 => format!("SELECT {}", random.u32(..3)),
        27 => {
            wire.say("MULTI");
            wire.say(&format!("SET s:{key} {n}"));
            wire.say(&format!("RPUSH l:{other} {n}"));
            "EXEC".to_string()
        }
        28 => format!("PERSIST s:{key}"),
        _ => format!("EVAL return(redis.call('set',KEYS[1],ARGV[1])) 1 s:{key} {n}"),
    };
    wire.say(&command);
}

/// Stops the clients of a test, also if it fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `during` while two clients write.
fn beside_writes(server: &TestServer, seed: u64, during: impl FnOnce()) {
    let stops = AtomicBool::new(false);
    let stopping = Stops(&stops);
    std::thread::scope(|scope| {
        let _stopping = stopping;
        for n in 0..2 {
            let (mut wire, mut random) = (server.connect(), Rng::with_seed(seed + n));
            let stops = &stops;
            scope.spawn(move || {
                while !stops.load(Ordering::Relaxed) {
                    write(&mut wire, &mut random);
                }
            });
        }
        during();
    });
}

/// A replica that asks for all in the middle of writes, and follows them, is equal at the end, whatever the logs are.
#[test]
fn a_replica_equals_its_primary_after_a_copy_beside_writes() {
    use AckWhen::{Synced, Written};
    let folders = ["p1", "r1", "p2", "r2"].map(Folder::new);
    let [p1, r1, p2, r2] = &folders;
    let logs = [
        (None, None),
        (Some((p1, Written)), Some((r1, Synced))),
        (Some((p2, Synced)), None),
        (None, Some((r2, Written))),
    ];
    for (seed, (of_primary, of_replica)) in logs.into_iter().enumerate() {
        let primary = server(of_primary, |_| {});
        let replica = server(of_replica, |_| {});
        let (mut p, mut r) = (primary.connect(), replica.connect());
        // What the replica had before goes away.
        assert_eq!(r.say("SET own 1"), ok());
        let mut random = Rng::with_seed(seed as u64);
        (0..1500).for_each(|_| write(&mut p, &mut random));
        beside_writes(&primary, 10 + seed as u64, || {
            follow(&mut r, primary.address.port());
            wait_until_up(&mut r);
            std::thread::sleep(Duration::from_millis(150));
        });
        assert_equal(&mut p, &mut r);
        assert_eq!(info(&mut p, "sync_full"), "1");
        let shown = info(&mut p, "slave0");
        assert!(
            shown.starts_with("ip=127.0.0.1,port=") && shown.contains(",state=online,"),
            "{shown}"
        );
        assert_eq!(
            r.say("SET own 1").text(),
            "READONLY You can't write against a read only replica."
        );
    }
}

/// The backlog gives what was missed, from the middle of groups, after links that end anywhere.
#[test]
fn a_link_that_is_cut_anywhere_goes_on_where_it_was() {
    let (primary, replica) = (TestServer::new(), TestServer::new());
    let (mut p, mut r) = (primary.connect(), replica.connect());
    let proxy = Proxy::new(primary.address);
    (0..300).for_each(|n| write(&mut p, &mut Rng::with_seed(n)));
    follow(&mut r, proxy.port());
    wait_until_up(&mut r);
    let mut random = Rng::with_seed(3);
    beside_writes(&primary, 20, || {
        for _ in 0..12 {
            proxy.cut_after(random.usize(..60_000));
            wait_for("a link ends", || proxy.is_cut());
            wait_until_up(&mut r);
        }
    });
    proxy.never_cut();
    assert_equal(&mut p, &mut r);
    assert_eq!(info(&mut p, "sync_full"), "1");
    let partial: u64 = info(&mut p, "sync_partial_ok").parse().unwrap();
    assert!(partial >= 12, "{partial} times");
}

#[test]
fn a_copy_that_is_cut_begins_again_and_serves_nothing_before() {
    let (primary, replica) = (TestServer::new(), TestServer::new());
    let (mut p, mut r) = (primary.connect(), replica.connect());
    for key in 0..200 {
        assert_eq!(p.say(&format!("SET key:{key} {}", "x".repeat(20_000))), ok());
    }
    let proxy = Proxy::new(primary.address);
    // The next link must not bring the whole copy before anyone has looked.
    proxy.refuse_after_cut();
    proxy.cut_after(1_000_000);
    follow(&mut r, proxy.port());
    wait_for("the copy is cut", || proxy.is_cut());
    let refused = r.say("GET key:1").text();
    assert!(refused.starts_with("LOADING"), "{refused}");
    let refused = r.say("REPLICAOF NO ONE").text();
    assert!(refused.contains("only a part"), "{refused}");
    proxy.refuse(false);
    assert_equal(&mut p, &mut r);
    assert_eq!(info(&mut p, "sync_full"), "2");
}

#[test]
fn a_replica_that_was_away_for_too_long_gets_a_new_copy() {
    let primary = TestServer::with(|config| config.replication.backlog_max = 16 << 10);
    let replica = TestServer::new();
    let (mut p, mut r) = (primary.connect(), replica.connect());
    let proxy = Proxy::new(primary.address);
    follow(&mut r, proxy.port());
    wait_until_up(&mut r);
    proxy.refuse(true);
    proxy.cut_after(0);
    for key in 0..100 {
        assert_eq!(p.say(&format!("SET key:{key} {}", "x".repeat(1_000))), ok());
        assert_eq!(p.say(&format!("DEL key:{}", key / 2)), Reply::Int(1 - i64::from(key % 2)));
    }
    proxy.refuse(false);
    proxy.never_cut();
    assert_equal(&mut p, &mut r);
    assert_eq!(info(&mut p, "sync_full"), "2");
}

/// The log has the primary's numbers and epochs, so neither start costs a copy.
#[test]
fn a_restart_of_either_side_with_a_log_needs_no_copy() {
    let (of_primary, of_replica) = (Folder::new("restart-p"), Folder::new("restart-r"));
    let primary = server(Some((&of_primary, AckWhen::Written)), |_| {});
    let port = primary.address.port();
    let replica = server(Some((&of_replica, AckWhen::Written)), |_| {});
    let (mut p, mut r) = (primary.connect(), replica.connect());
    let mut random = Rng::with_seed(4);
    (0..500).for_each(|_| write(&mut p, &mut random));
    follow(&mut r, port);
    (0..500).for_each(|_| write(&mut p, &mut random));
    assert_equal(&mut p, &mut r);
    replica.stop();
    (0..500).for_each(|_| write(&mut p, &mut random));
    let source = Some(Source { host: "127.0.0.1".into(), port });
    let again = |config: &mut Config| config.replication.source = source.clone();
    let replica = server(Some((&of_replica, AckWhen::Written)), again);
    let mut r = replica.connect();
    assert_equal(&mut p, &mut r);
    assert_eq!(info(&mut p, "sync_full"), "1");
    primary.stop();
    let at = |config: &mut Config| config.listen = vec![format!("127.0.0.1:{port}")];
    let primary = server(Some((&of_primary, AckWhen::Written)), at);
    let mut p = primary.connect();
    (0..500).for_each(|_| write(&mut p, &mut random));
    assert_equal(&mut p, &mut r);
    assert_eq!(
        (info(&mut p, "sync_full"), info(&mut p, "sync_partial_ok")),
        ("0".into(), "1".into())
    );
    // A snapshot keeps the epochs, too.
    for wire in [&mut p, &mut r] {
        assert_eq!(wire.say("SAVE"), ok());
    }
    replica.stop();
    let replica = server(Some((&of_replica, AckWhen::Written)), again);
    let mut r = replica.connect();
    assert_equal(&mut p, &mut r);
    assert_eq!(info(&mut p, "sync_full"), "0");
}

/// An operator's REPLICAOF is a decision; a primary that comes back empty is none.
#[test]
fn a_primary_that_comes_back_empty_does_not_empty_its_replica() {
    let primary = TestServer::new();
    let port = primary.address.port();
    let replica = TestServer::new();
    let (mut p, mut r) = (primary.connect(), replica.connect());
    assert_eq!(p.say("SET k 1"), ok());
    follow(&mut r, port);
    assert_equal(&mut p, &mut r);
    primary.stop();
    let primary = TestServer::with(|config| config.listen = vec![format!("127.0.0.1:{port}")]);
    wait_for("the replica refuses", || {
        let text = r.say("INFO replication").text();
        text.contains("the primary has other data")
    });
    assert_eq!(r.say("GET k").text(), "1");
    // Its operator gives up the old data.
    assert_eq!(r.say("REPLICAOF NO ONE"), ok());
    assert_eq!(r.say("GET k").text(), "1");
    follow(&mut r, port);
    assert_equal(&mut primary.connect(), &mut r);
    assert_eq!(r.say("GET k"), Reply::Null);
}

#[test]
fn roles_change_without_a_copy() {
    let (one, other) = (TestServer::new(), TestServer::new());
    let (mut a, mut b) = (one.connect(), other.connect());
    let mut random = Rng::with_seed(5);
    (0..300).for_each(|_| write(&mut a, &mut random));
    follow(&mut b, one.address.port());
    assert_equal(&mut a, &mut b);
    // The old primary has nothing that the new one lacks.
    assert_eq!(b.say("REPLICAOF NO ONE"), ok());
    follow(&mut a, other.address.port());
    (0..300).for_each(|_| write(&mut b, &mut random));
    assert_equal(&mut b, &mut a);
    assert_eq!(
        (info(&mut b, "sync_full"), info(&mut b, "sync_partial_ok")),
        ("0".into(), "1".into())
    );
}

#[test]
fn a_link_needs_a_user_who_may_replicate() {
    let primary = TestServer::new();
    let (mut p, replica) = (primary.connect(), TestServer::new());
    let mut r = replica.connect();
    assert_eq!(p.say("SET k 1"), ok());
    assert_eq!(p.say("ACL SETUSER default >secret"), ok());
    assert_eq!(p.say("ACL SETUSER reader on >pw +@read ~*"), ok());
    assert_eq!(p.say("ACL SETUSER follower on >pw +hotring.replicate"), ok());
    let failure = |r: &mut Wire, text: &str| {
        wait_for(text, || r.say("INFO replication").text().contains(text));
    };
    follow(&mut r, primary.address.port());
    failure(&mut r, "NOAUTH");
    assert_eq!(r.say("CONFIG SET masteruser reader masterauth wrong"), ok());
    failure(&mut r, "WRONGPASS");
    assert_eq!(r.say("CONFIG SET masterauth pw"), ok());
    failure(&mut r, "NOPERM");
    assert_eq!(r.say("CONFIG SET masteruser follower"), ok());
    wait_until_up(&mut r);
    assert_eq!(r.say("GET k").text(), "1");
}

fn address(server: &TestServer) -> String {
    server.address.to_string()
}

#[test]
fn wait_answers_how_many_replicas_have_the_writes() {
    let folder = Folder::new("wait");
    let primary = TestServer::new();
    let replica = server(Some((&folder, AckWhen::Written)), |_| {});
    let (mut p, mut r) = (primary.connect(), replica.connect());
    assert_eq!(p.say("WAIT 1 20"), Reply::Int(0));
    follow(&mut r, primary.address.port());
    wait_until_up(&mut r);
    for n in 0..20 {
        assert_eq!(p.say(&format!("SET k {n}")), ok());
        assert_eq!(p.say("WAIT 1 60000"), Reply::Int(1));
        assert_eq!(r.say("GET k").text(), n.to_string());
    }
    assert_eq!(p.say("SET k x"), ok());
    assert_eq!(p.say("WAITAOF 0 1 60000"), Reply::Array(vec![Reply::Int(0), Reply::Int(1)]));
    assert_eq!(p.say("WAIT 2 20"), Reply::Int(1));
    assert!(r.say("WAIT 0 0").text().starts_with("ERR WAIT cannot be used with replica"));
}

/// Each reply comes after the replica has the write; without the replica there is an error and no reply.
#[test]
fn acknowledged_by_replicas_means_that_they_have_it() {
    let replica = TestServer::new();
    let in_sync = address(&replica);
    let primary = TestServer::new();
    let (mut p, mut r) = (primary.connect(), replica.connect());
    let proxy = Proxy::new(primary.address);
    follow(&mut r, proxy.port());
    wait_until_up(&mut r);
    assert_eq!(p.say(&format!("CONFIG SET ack replicated in-sync-replicas {in_sync}")), ok());
    // A write whose fate is open ends its connection.
    let set = |value: &str| primary.connect().say(&format!("SET k {value}"));
    wait_for("the replica is in sync", || set("0") == ok());
    assert_eq!(info(&mut p, "in_sync_replicas"), "1");
    for n in 0..200 {
        assert_eq!(p.say(&format!("SET k {n}")), ok());
        assert_eq!(r.say("GET k").text(), n.to_string());
    }
    proxy.refuse(true);
    proxy.cut_after(0);
    // This one was applied here before the primary knew.
    let mut open = primary.connect();
    let text = open.say("SET k open").text();
    assert!(text.starts_with("NOREPLICAS"), "{text}");
    wait_for("writes are refused", || {
        set("no").text() == "NOREPLICAS Not enough good replicas to write."
    });
    assert_eq!(p.say("PING").text(), "PONG");
    // The operator goes on without it.
    assert_eq!(p.ask(&["CONFIG", "SET", "in-sync-replicas", ""]), ok());
    wait_for("writes go on", || set("alone") == ok());
    proxy.refuse(false);
    proxy.never_cut();
    assert_equal(&mut p, &mut r);
    assert_eq!(p.say(&format!("CONFIG SET in-sync-replicas {in_sync}")), ok());
    wait_for("the replica is in sync again", || set("together") == ok());
    assert_eq!(r.say("GET k").text(), "together");
}

/// Regression test: writes were applied for a tenth of a second after a promotion or a start, with an open fate,
/// although it was known that no replica could have them.
#[test]
fn a_primary_without_its_replicas_refuses_writes_from_the_first_moment() {
    let refusal = "NOREPLICAS Not enough good replicas to write.";
    let named = |config: &mut Config| {
        config.replication.in_sync = vec![Source { host: "127.0.0.1".into(), port: 1 }];
        config.replication.replicated = Some(true);
    };
    let (primary, replica) = (TestServer::new(), TestServer::with(named));
    assert_eq!(replica.connect().say("SET k 1").text(), refusal);
    for _ in 0..5 {
        let mut r = replica.connect();
        follow(&mut r, primary.address.port());
        assert_equal(&mut primary.connect(), &mut r);
        assert_eq!(r.say("REPLICAOF NO ONE"), ok());
        assert_eq!(r.say("SET k 1").text(), refusal);
        // Reads wait for replicas, too, so that only this shows what is there.
        assert_eq!(r.say("CONFIG SET ack local"), ok());
        assert_eq!(r.say("GET k"), Reply::Null, "not even applied");
        assert_eq!(r.say("CONFIG SET ack replicated"), ok());
        let alone = TestServer::new();
        let mut wire = alone.connect();
        let set = "CONFIG SET ack replicated in-sync-replicas 127.0.0.1:1";
        assert_eq!(wire.say(set), ok());
        assert_eq!(wire.say("SET k 1").text(), refusal);
    }
}

/// Two clients count; each failover moves them to the other server, and no acknowledged step is lost or done twice.
#[test]
fn failovers_lose_no_acknowledged_write() {
    let servers = [TestServer::new(), TestServer::new()];
    let [mut a, mut b] = [servers[0].connect(), servers[1].connect()];
    follow(&mut b, servers[0].address.port());
    wait_until_up(&mut b);
    for (wire, other) in [(&mut a, &servers[1]), (&mut b, &servers[0])] {
        let set = format!("CONFIG SET ack replicated in-sync-replicas {}", address(other));
        assert_eq!(wire.say(&set), ok());
    }
    wait_for("the replica is in sync", || servers[0].connect().say("SET begun 1") == ok());
    let stops = AtomicBool::new(false);
    let stopping = Stops(&stops);
    std::thread::scope(|scope| {
        let stopping = stopping;
        let counting: Vec<_> = (0..2)
            .map(|n| {
                let (servers, stops) = (&servers, &stops);
                scope.spawn(move || {
                    let (mut at, mut count, mut wire) = (0, 0, servers[0].connect());
                    while !stops.load(Ordering::Relaxed) {
                        match wire.say(&format!("SET c{n} {}", count + 1)) {
                            reply if reply == ok() => count += 1,
                            _ => {
                                at = 1 - at;
                                wire = servers[at].connect();
                            }
                        }
                    }
                    count
                })
            })
            .collect();
        let mut wires = [&mut a, &mut b];
        for turn in 0..6 {
            let (from, to) = (turn % 2, 1 - turn % 2);
            std::thread::sleep(Duration::from_millis(150));
            let port = servers[to].address.port();
            wait_for("a failover begins", || {
                wires[from].say(&format!("FAILOVER TO 127.0.0.1 {port}")) == ok()
            });
            wait_for("the role has moved", || info(wires[to], "role") == "master");
            // The new primary has begun before the old one knows.
            wait_until_up(wires[from]);
        }
        drop(stopping);
        let counts: Vec<u64> = counting.into_iter().map(|thread| thread.join().unwrap()).collect();
        for (n, count) in counts.iter().enumerate() {
            let found: u64 = wires[0].say(&format!("GET c{n}")).text().parse().unwrap();
            // The write after the last acknowledged one may have been done without a reply.
            assert!(found == *count || found == count + 1, "client {n}: {count}, found {found}");
            assert!(*count > 20, "{count} writes");
        }
    });
    assert_equal(&mut a, &mut b);
    assert_eq!(info(&mut a, "sync_full"), "1", "failovers need no copy");
}
