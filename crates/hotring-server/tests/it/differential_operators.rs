//! Compares with a real `redis-server` what operators and their tools see: the names of CONFIG, its errors, the fields
//! of INFO and the entries of COMMAND.

use std::collections::BTreeSet;

use hotring_protocol::{Part, read_part};

use crate::differential::{Raw, Redis};
use crate::wire::TestServer;

/// Fields of INFO that are not here, because they are about parts of Redis that are not.
const NOT_IN_INFO: &[&str] = &[
    // How Redis was built.
    "redis_build_id",
    "atomicvar_api",
    "gcc_version",
    "process_supervised",
    // There is no cycle of background work.
    "hz",
    "configured_hz",
    "expire_cycle_cpu_milliseconds",
    "clients_in_timeout_table",
    // Not counted.
    "current_save_keys_processed",
    "current_save_keys_total",
    "rdb_saves",
    "rdb_last_load_keys_expired",
    "rdb_last_load_keys_loaded",
    "total_eviction_exceeded_time",
    "current_eviction_exceeded_time",
    "io_threaded_reads_processed",
    "io_threaded_writes_processed",
    "reply_buffer_shrinks",
    "reply_buffer_expands",
];

/// Values for all names that both servers let clients change.
const VALUES: &[&str] = &["bogus", "-9", "10", "yes", "1mb", "maybe"];

/// Names whose values mean something else here, or that ask for what is missing.
const OTHER_VALUES: &[&str] = &[
    "activedefrag",
    "bind",
    "bind-source-addr",
    "cluster-announce-hostname",
    "loglevel",
    "masterauth",
    "masteruser",
    "maxmemory-clients",
    "maxmemory-policy",
    "maxmemory-samples",
    "min-replicas-to-write",
    "min-slaves-to-write",
    "notify-keyspace-events",
    "proc-title-template",
    "requirepass",
    "save",
    "acl-pubsub-default",
    "appendonly",
    "lfu-log-factor",
    "lfu-decay-time",
    "auto-aof-rewrite-percentage",
    "maxclients",
    "repl-backlog-size",
    "port",
];

fn both() -> Option<(Redis, TestServer, Raw, Raw)> {
    let redis = Redis::start()?;
    let server = TestServer::new();
    let (ours, theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    Some((redis, server, ours, theirs))
}

/// The strings of a reply.
fn texts(mut reply: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    while let Some(part) = read_part(&mut reply) {
        if let Part::Bulk(bytes) = part {
            texts.push(String::from_utf8_lossy(bytes).into_owned());
        }
    }
    texts
}

fn names_of_config(raw: &mut Raw) -> BTreeSet<String> {
    texts(&raw.ask(&[b"CONFIG", b"GET", b"*"])).into_iter().step_by(2).collect()
}

/// They were once known only to the reader of a redis.conf.
#[test]
fn config_knows_the_names_of_redis() {
    let Some((_redis, _server, mut ours, mut theirs)) = both() else { return };
    let missing: Vec<_> =
        names_of_config(&mut theirs).difference(&names_of_config(&mut ours)).cloned().collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn config_refuses_the_same_values_as_redis_with_its_errors() {
    let Some((_redis, _server, mut ours, mut theirs)) = both() else { return };
    for name in names_of_config(&mut theirs) {
        // Files and ports are set at the start only, and TLS has no older ciphers.
        let is_other = OTHER_VALUES.contains(&name.as_str()) || name.starts_with("tls-");
        for value in VALUES.iter().filter(|_| !is_other) {
            let request: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()];
            let [a, b] = [&mut ours, &mut theirs].map(|raw| {
                let reply = raw.ask(&request);
                // Greatest values may be others.
                let text = String::from_utf8_lossy(&reply).into_owned();
                text.split(" and ").next().map(str::to_string).unwrap_or(text)
            });
            let is_fixed = a.contains("immutable config") || b.contains("immutable config");
            assert!(a == b || is_fixed, "{name} {value}:\n{a}{b}");
        }
    }
}

#[test]
fn info_has_the_fields_of_redis() {
    let Some((_redis, _server, mut ours, mut theirs)) = both() else { return };
    let fields = |raw: &mut Raw| -> BTreeSet<String> {
        let info = texts(&raw.ask(&[b"INFO", b"everything"])).concat();
        let names = info.lines().filter_map(|line| line.split_once(':'));
        let is_own =
            |name: &str| ["cmdstat_", "latency_", "errorstat_", "db"].map(|p| name.starts_with(p));
        names
            .filter(|(name, _)| !is_own(name).contains(&true))
            .map(|(name, _)| name.into())
            .collect()
    };
    let missing: BTreeSet<_> =
        fields(&mut theirs).difference(&fields(&mut ours)).cloned().collect();
    let expected: BTreeSet<_> = NOT_IN_INFO.iter().map(|name| name.to_string()).collect();
    assert_eq!(missing, expected);
}

/// A command's entry without what Redis has changed since 7.0: tips and notes. Those with subcommands are left out, as
/// some of these are not here.
#[test]
fn commands_have_the_keys_and_categories_of_redis() {
    let Some((_redis, _server, mut ours, mut theirs)) = both() else { return };
    let names = texts(&ours.ask(&[b"COMMAND", b"LIST"]));
    for name in names.iter().filter(|name| !matches!(name.as_str(), "zrank" | "zrevrank")) {
        let request: [&[u8]; 3] = [b"COMMAND", b"INFO", name.as_bytes()];
        let [a, b] = [&mut ours, &mut theirs].map(|raw| parts(&raw.ask(&request)));
        // Redis has let scripts call what waits since 7.2: those commands have lost a flag.
        let is_left_out = b.contains("+blocking") || b == "none" || a == "holder";
        // It takes FORCE here, and runs while a copy loads.
        let is_left_out = is_left_out || ["replicaof", "slaveof"].contains(&name.as_str());
        assert!(a == b || is_left_out, "{name}\n{a}\n{b}");
    }
}

/// Tips, keys and missing subcommands were once arrays.
#[test]
fn entries_of_commands_have_the_sets_and_maps_of_redis() {
    let Some((_redis, _server, mut ours, mut theirs)) = both() else { return };
    let names = texts(&ours.ask(&[b"COMMAND", b"LIST"]));
    for raw in [&mut ours, &mut theirs] {
        raw.ask(&[b"HELLO", b"3"]);
    }
    let mut compared = 0;
    for name in names {
        let request: [&[u8]; 3] = [b"COMMAND", b"INFO", name.as_bytes()];
        let [a, b] = [&mut ours, &mut theirs].map(|raw| aggregates(&raw.ask(&request)));
        if b.len() > 1 {
            assert_eq!(a, b, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 200, "{compared}");
}

/// The kinds of all arrays, sets and maps of one entry, without those of subcommands.
fn aggregates(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    let own = text.lines().enumerate().take_while(|(i, line)| *i < 2 || *line != "*10");
    let kinds = own.filter_map(|(_, line)| line.chars().next());
    kinds.filter(|kind| ['*', '~', '%'].contains(kind)).collect()
}

/// Name, arity, places of keys, and the sorted flags and categories.
fn parts(reply: &[u8]) -> String {
    let text = String::from_utf8_lossy(reply);
    let lines: Vec<&str> = text.lines().collect();
    if lines.get(1).is_some_and(|line| line.ends_with("-1")) {
        return "none".to_string();
    }
    if text.contains('|') {
        return "holder".to_string();
    }
    let mut words: Vec<&str> = lines.iter().copied().filter(|line| line.starts_with('+')).collect();
    words.sort_unstable();
    format!("{:?} {words:?}", &lines[2..5.min(lines.len())])
}
