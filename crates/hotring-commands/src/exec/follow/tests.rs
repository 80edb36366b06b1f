//! Streams of commands with cuts at every byte, commands that cannot be applied, times, and damage.
//!
//! Not covered: the connection, and what a real Redis propagates (`hotring-server/tests/it/redis_link.rs`).

use super::*;
use crate::exec::tests::server;
use crate::settings::config::{Config, ReplicationSettings, Source};

/// Requests as Redis sends them.
fn stream(requests: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for request in requests {
        let words: Vec<&str> = request.split(' ').collect();
        bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    bytes
}

fn follower(unknown: Unknown) -> (Arc<Server>, Follower) {
    let source = Some(Source { host: "h".into(), port: 1 });
    let replication = ReplicationSettings { source, unknown, ..ReplicationSettings::default() };
    let server = server(Config { replication, databases: 4, ..Config::default() });
    let mut follower = Follower::new(&server, 1);
    follower.begin(1000);
    (server, follower)
}

fn set_unknown(server: &Server, unknown: Unknown) {
    let change = |config: &Config| {
        let replication = ReplicationSettings { unknown, ..config.replication.clone() };
        Ok::<_, String>(Config { replication, ..config.clone() })
    };
    server.change_config(change).unwrap();
}

/// The value of a key, at a time at which nothing is over.
fn get(server: &Server, database: u8, key: &str) -> Option<String> {
    let mut session = server.store.session();
    session.select(database);
    session
        .get_string(key.as_bytes(), 0, |value| {
            String::from_utf8_lossy(&value.to_vec()).into_owned()
        })
        .unwrap()
}

fn expiry(server: &Server, key: &str) -> Option<u64> {
    server.store.session().expiry(key.as_bytes(), 0).flatten()
}

/// Everything that follows in this order, with a position inside a transaction and bytes that are no request.
const ALL: &[&str] = &[
    "PING",
    "SELECT 0",
    "SET a 1",
    "INCR a",
    "REPLCONF GETACK *",
    "MULTI",
    "SELECT 1",
    "INCRBY b 5",
    "SELECT 0",
    "INCR a",
    "EXEC",
    "INCR a",
    "SELECT 3",
    "SET c x PXAT 99999999999999",
    "RPUSH l 1 2 3",
    "PUBLISH news hello",
    "FLUSHALL",
    "INCR a",
    "SELECT 1",
    "MULTI",
    "INCR b",
    "INCR b",
    "EXEC",
];

#[test]
fn a_stream_is_applied_the_same_wherever_it_is_cut() {
    let mut bytes = stream(ALL);
    bytes.splice(0..0, *b"\r\n");
    for cut in 0..=bytes.len() {
        let (server, mut follower) = follower(Unknown::Stop);
        let first = follower.apply(&bytes[..cut]).unwrap();
        assert!(!first.waits && first.consumed <= cut);
        let second = follower.apply(&bytes[first.consumed..]).unwrap();
        assert_eq!(first.consumed + second.consumed, bytes.len(), "{cut}");
        assert!(first.wants_position != second.wants_position, "{cut}");
        assert_eq!(follower.position(), 1000 + bytes.len() as u64, "{cut}");
        let found =
            [(3, "a"), (1, "b"), (0, "a")].map(|(database, key)| get(&server, database, key));
        assert_eq!(found, [Some("1".into()), Some("2".into()), None], "{cut}");
    }
}

#[test]
fn a_link_that_is_cut_at_any_byte_goes_on_behind_its_position() {
    let bytes = stream(&ALL[..15]);
    for cut in 0..=bytes.len() {
        let (server, mut follower) = follower(Unknown::Stop);
        follower.apply(&bytes[..cut]).unwrap();
        follower.cut();
        let from = (follower.position() - 1000) as usize;
        assert!(from <= cut);
        let rest = follower.apply(&bytes[from..]).unwrap();
        assert_eq!(rest.consumed, bytes.len() - from);
        let found =
            [(0, "a"), (1, "b"), (3, "c")].map(|(database, key)| get(&server, database, key));
        assert_eq!(found, [Some("4".into()), Some("5".into()), Some("x".into())], "{cut}");
        let len =
            server.store.session().within(server.store.session().database_id_of(3), |s| s.len().0);
        assert_eq!(len, 2, "{cut}: the list has its elements once");
    }
}

#[test]
fn what_is_unknown_stops_the_stream_in_front_of_it_or_is_passed_over() {
    let before = stream(&["SET a 1", "INCR a"]);
    let cases: [(&[&str], &str); 9] = [
        (&["XADD s 1-1 f v"], "xadd"),
        (&["FUNCTION LOAD x"], "function load"),
        (&["LPUSH a 1"], "lpush (WRONGTYPE)"),
        (&["SELECT 9", "SET x 1"], "database 9"),
        (&["EVAL return{} 0"], "eval"),
        (&["REPLICAOF NO ONE"], "replicaof"),
        (&["CONFIG SET maxmemory 1"], "config"),
        (&["BLPOP l 0"], "blpop"),
        (&["MULTI", "INCR n", "XADD s 1-1 f v", "EXEC"], "xadd"),
    ];
    for (unknown, kind) in cases {
        let rest = stream(&["SELECT 0", "INCR a"]);
        let bytes = [&before[..], &stream(unknown), &rest].concat();
        let (server, mut one) = follower(Unknown::Stop);
        let refused = one.apply(&bytes).unwrap_err();
        assert_eq!((&*refused.what, refused.is_lasting, refused.is_torn), (kind, true, false));
        let skipped = if kind == "database 9" { stream(&["SELECT 9"]).len() } else { 0 };
        assert_eq!(one.position(), 1000 + (before.len() + skipped) as u64, "{kind}");
        one.cut();
        assert_eq!(get(&server, 0, "a").as_deref(), Some("2"), "{kind}");
        assert_eq!(get(&server, 0, "n"), None, "{kind}");
        // The link goes on from there once the setting is changed.
        set_unknown(&server, Unknown::Skip);
        let from = (one.position() - 1000) as usize;
        assert_eq!(one.apply(&bytes[from..]).unwrap().consumed, bytes.len() - from, "{kind}");
        assert_eq!(get(&server, 0, "a").as_deref(), Some("3"), "{kind}");
        assert_eq!(server.replication.redis.unknown_kinds(), [(kind.to_string(), 2)]);
        let n = get(&server, 0, "n");
        assert_eq!(
            n.as_deref(),
            (unknown.len() == 4).then_some("1"),
            "the rest of a transaction runs"
        );
    }
}

#[test]
fn a_transaction_that_fails_in_the_middle_needs_a_full_copy() {
    let bytes = stream(&["SET a 1", "MULTI", "INCR n", "LPUSH a 1", "EXEC", "INCR a"]);
    let (server, mut one) = follower(Unknown::Stop);
    let refused = one.apply(&bytes).unwrap_err();
    assert!(refused.is_torn && refused.is_lasting, "{refused:?}");
    assert_eq!(refused.what, "exec (WRONGTYPE)");
    assert_eq!(one.position(), 1000 + stream(&["SET a 1"]).len() as u64);
    assert_eq!(get(&server, 0, "a").as_deref(), Some("1"), "nothing behind it has run");
    let (server, mut one) = follower(Unknown::Skip);
    assert_eq!(one.apply(&bytes).unwrap().consumed, bytes.len());
    assert_eq!(get(&server, 0, "a").as_deref(), Some("2"));
}

#[test]
fn lack_of_memory_is_never_passed_over() {
    for requests in
        [&["SET a 1", "SET b 1"][..], &["SET a 1", "MULTI", "SET b 1", "INCR a", "EXEC"]]
    {
        let bytes = stream(requests);
        let first = stream(&requests[..1]).len();
        let (server, mut one) = follower(Unknown::Skip);
        one.apply(&bytes[..first]).unwrap();
        server.store.set_memory_max(1);
        let refused = one.apply(&bytes[first..]).unwrap_err();
        assert!(
            !refused.is_lasting && !refused.is_torn && refused.what.contains("OOM"),
            "{refused:?}"
        );
        assert_eq!(one.position(), 1000 + first as u64);
        one.cut();
        server.store.set_memory_max(u64::MAX);
        assert_eq!(one.apply(&bytes[first..]).unwrap().consumed, bytes.len() - first);
        assert_eq!(get(&server, 0, "b").as_deref(), Some("1"));
    }
}

#[test]
fn keys_are_over_only_when_the_primary_says_so() {
    let (server, mut one) = follower(Unknown::Stop);
    // 1970: over by every clock, but not removed by the primary.
    one.apply(&stream(&["SET a 1 PXAT 5", "INCR a", "PEXPIREAT b 7", "SET b 1", "PEXPIREAT b 7"]))
        .unwrap();
    assert_eq!(get(&server, 0, "a").as_deref(), Some("2"));
    assert_eq!((expiry(&server, "a"), expiry(&server, "b")), (Some(5), Some(7)));
    one.apply(&stream(&["DEL a", "PERSIST b"])).unwrap();
    assert_eq!((get(&server, 0, "a"), expiry(&server, "b")), (None, None));
}

#[test]
fn a_time_to_live_counts_from_its_arrival() {
    let (server, mut one) = follower(Unknown::Stop);
    let payload = {
        server.store.session().set(b"x", b"1", Default::default(), 0).unwrap();
        server.store.session().get(b"x", 0, crate::rdb::dump::dump).unwrap()
    };
    let begun = clock::unix_ms();
    one.apply(&stream(&[
        "SETEX a 100 v",
        "PSETEX b 100000 v",
        "SET c v ex 100 NX",
        "SET d v PX 100000",
        "SET e v",
        "EXPIRE e 100",
        "SET f v",
        "PEXPIRE f 100000 NX",
        "SET g v",
        "GETEX g EX 100",
        "SET h EX",
    ]))
    .unwrap();
    let head = format!("*4\r\n$7\r\nRESTORE\r\n$1\r\ni\r\n$6\r\n100000\r\n${}\r\n", payload.len());
    one.apply(&[head.as_bytes(), &payload, b"\r\n"].concat()).unwrap();
    for key in ["a", "b", "c", "d", "e", "f", "g", "i"] {
        let at = expiry(&server, key).unwrap_or_else(|| panic!("{key} does not expire"));
        assert!((begun + 100_000..=clock::unix_ms() + 100_000).contains(&at), "{key}: {at}");
    }
    assert_eq!(get(&server, 0, "h").as_deref(), Some("EX"));
    one.apply(&stream(&["HSET k f v", "HEXPIRE k 100 FIELDS 1 f", "HSET k ex v"])).unwrap();
    let due = server.store.session().get(b"k", 0, |value| match value {
        hotring_store::ValueRef::Hash(hash) => {
            hash.iter_with_expiry().filter_map(|(_, _, at)| at).min()
        }
        _ => None,
    });
    assert!(due.flatten().is_some_and(|at| at >= begun + 100_000), "{due:?}");
}

#[test]
fn garbage_ends_the_stream_and_takes_no_memory() {
    for garbage in
        [&b"*3\r\n$99999999999\r\n"[..], b"*99999999999\r\n", b"*1\r\n!x\r\n", b"\"unbalanced\r\n"]
    {
        let (server, mut one) = follower(Unknown::Stop);
        let bytes = [&stream(&["SET a 1"]), garbage].concat();
        let refused = one.apply(&bytes).unwrap_err();
        assert!(!refused.is_lasting && refused.what.contains("damaged"), "{refused:?}");
        assert_eq!(one.position(), 1000 + (bytes.len() - garbage.len()) as u64);
        one.cut();
        let from = (one.position() - 1000) as usize;
        one.apply(
            &[&bytes[from..bytes.len() - garbage.len()], &stream(&["APPEND a 2"])[..]].concat(),
        )
        .unwrap();
        assert_eq!(get(&server, 0, "a").as_deref(), Some("12"));
    }
}

#[test]
fn a_pause_holds_the_stream_back() {
    let (server, mut one) = follower(Unknown::Stop);
    let bytes = stream(&["SET a 1", "INCR a"]);
    server.clients.pause.begin(u64::MAX, crate::state::pause::Paused::Writes, clock::unix_ms());
    server.settings.renew();
    let applied = one.apply(&bytes).unwrap();
    assert_eq!((applied.consumed, applied.waits), (0, true));
    assert_eq!(one.apply(&bytes).unwrap().consumed, 0);
    server.clients.pause.end();
    server.settings.renew();
    assert_eq!(one.apply(&bytes).unwrap(), Applied { consumed: bytes.len(), ..Applied::default() });
    assert_eq!(get(&server, 0, "a").as_deref(), Some("2"));
}

#[test]
fn nothing_is_applied_once_this_server_is_no_replica() {
    let (server, mut one) = follower(Unknown::Stop);
    let bytes = stream(&["SET a 1"]);
    server.promote(&mut server.store.session(), false).unwrap();
    assert_eq!(one.apply(&bytes).unwrap(), Applied { waits: true, ..Applied::default() });
    assert_eq!(get(&server, 0, "a"), None);
}
