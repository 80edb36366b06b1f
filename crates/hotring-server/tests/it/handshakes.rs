//! The handshakes of client libraries and tools, taken from their sources: each request must get a
//! reply with which they continue. The replies that monitoring tools parse are in `tools.rs`.
//!
//! Each line is a request. `!` before it: an error is acceptable. `?` before it: an error is
//! acceptable and expected, because the feature is missing.

use std::collections::BTreeMap;

use crate::wire::{Reply, TestServer, Wire};

const LIBRARIES: &[(&str, &str)] = &[
    (
        "redis-py",
        "HELLO 3
         CLIENT SETNAME app
         CLIENT SETINFO LIB-NAME redis-py
         CLIENT SETINFO LIB-VER 7.0.0
         !CLIENT MAINT_NOTIFICATIONS ON
         SELECT 0
         COMMAND",
    ),
    (
        "go-redis",
        "HELLO 3 SETNAME app
         SELECT 0
         CLIENT SETINFO LIB-NAME go-redis(,go1.26)
         CLIENT SETINFO LIB-VER 9.17.0
         !CLIENT MAINT_NOTIFICATIONS ON",
    ),
    (
        "Jedis",
        "HELLO 3
         CLIENT SETNAME app
         CLIENT SETINFO LIB-NAME jedis
         CLIENT SETINFO LIB-VER 7.0.0
         SELECT 0",
    ),
    (
        "Lettuce",
        "HELLO 3
         CLIENT SETINFO lib-name Lettuce
         CLIENT SETINFO lib-ver 7.0.0
         SELECT 0
         PING",
    ),
    (
        "node-redis",
        "HELLO 3 SETNAME app
         CLIENT SETINFO LIB-NAME node-redis
         CLIENT SETINFO LIB-VER 5.9.0
         SELECT 0",
    ),
    (
        "ioredis",
        "CLIENT SETNAME app
         CLIENT SETINFO LIB-NAME ioredis
         CLIENT SETINFO LIB-VER 5.8.0
         SELECT 0
         INFO",
    ),
    (
        "redis-client for Ruby",
        "HELLO 3
         SELECT 0
         CLIENT SETINFO LIB-NAME redis-client
         CLIENT SETINFO LIB-VER 0.26.0
         ROLE",
    ),
    (
        "rueidis",
        "HELLO 3 SETNAME app
         CLIENT TRACKING ON OPTIN
         CLIENT NO-TOUCH ON
         CLIENT NO-EVICT ON
         !CLIENT CAPA redirect
         CLIENT SETINFO LIB-NAME rueidis
         CLIENT SETINFO LIB-VER 1.0.66",
    ),
    (
        "StackExchange.Redis",
        "HELLO 3
         CLIENT SETNAME app
         CLIENT SETINFO lib-name SE.Redis
         CLIENT SETINFO lib-ver 2.9.0
         CLIENT ID
         CONFIG GET timeout
         CONFIG GET replica-read-only
         CONFIG GET databases
         INFO replication
         INFO server
         !CLUSTER NODES
         GET __Booksleeve_TieBreak
         ECHO tracer
         SUBSCRIBE __Booksleeve_MasterChanged",
    ),
    (
        "redis-cli",
        "HELLO 3
         COMMAND DOCS
         INFO SERVER
         CONFIG GET databases
         DBSIZE
         SCAN 0 COUNT 10
         TYPE greeting
         MEMORY USAGE greeting SAMPLES 0",
    ),
    (
        "redis-benchmark",
        "CONFIG GET save
         CONFIG GET appendonly",
    ),
    (
        "RedisInsight",
        "HELLO 3
         CLIENT SETNAME redisinsight-common
         INFO
         MODULE LIST
         ACL CAT dangerous
         CONFIG GET databases
         CLIENT LIST
         DBSIZE
         SCAN 0 MATCH * COUNT 200
         TYPE greeting
         TTL greeting
         MEMORY USAGE greeting SAMPLES 0
         STRLEN greeting
         GETRANGE greeting 0 4999
         RENAMENX greeting other
         COMMAND
         ?CLUSTER INFO
         SLOWLOG GET 50
         CONFIG GET slowlog*
         !FT._LIST",
    ),
    (
        "redis_exporter",
        "CLIENT SETNAME redis_exporter
         CONFIG GET *
         INFO ALL
         LATENCY LATEST
         LATENCY HISTOGRAM
         SLOWLOG LEN
         SLOWLOG GET 1
         COMMAND INFO COMMANDLOG
         CLIENT LIST
         DBSIZE
         PING",
    ),
];

#[test]
fn every_library_accepts_the_replies() {
    let server = TestServer::new();
    for (library, lines) in LIBRARIES {
        let mut wire = server.connect();
        wire.say("SET greeting hello");
        wire.say("DEL other");
        for line in lines.lines().map(str::trim) {
            let reply = wire.say(line.trim_start_matches(['!', '?']));
            let fits = match line.as_bytes()[0] {
                b'!' => true,
                b'?' => reply.is_error(),
                _ => !reply.is_error(),
            };
            assert!(fits, "{library}: {line} -> {reply:?}");
        }
        // Whatever the replies were, the connection works; in RESP3 also with a subscription.
        assert_eq!(wire.say("PING").text(), "PONG", "{library}");
    }
}

/// A section of INFO by field names.
fn info(wire: &mut Wire, request: &str) -> BTreeMap<String, String> {
    let text = wire.say(request).text();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn info_has_the_fields_that_tools_need() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.say("SET greeting hello EX 100");
    wire.say("GET greeting");
    wire.say("CLIENT ID");
    let all = info(&mut wire, "INFO ALL");
    let text =
        |name: &str| all.get(name).unwrap_or_else(|| panic!("no {name} in {all:?}")).as_str();
    // Sidekiq requires 7.0, Rails 7 for EXPIRE NX; both parse three numbers.
    let version: Vec<u32> = text("redis_version").split('.').map(|n| n.parse().unwrap()).collect();
    assert!(version.len() == 3 && version >= vec![7, 2, 0], "{version:?}");
    let exact = [
        ("redis_mode", "standalone"),
        ("role", "master"),
        ("loading", "0"),
        ("connected_slaves", "0"),
        ("cluster_enabled", "0"),
        ("db0", "keys=1,expires=1,avg_ttl=0"),
        ("connected_clients", "1"),
    ];
    exact.iter().for_each(|(name, value)| assert_eq!(text(name), *value, "{name}"));
    let numbers = [
        "tcp_port",
        "process_id",
        "uptime_in_seconds",
        "used_memory",
        "used_memory_rss",
        "maxmemory",
        "maxclients",
        "total_connections_received",
        "total_commands_processed",
        "instantaneous_ops_per_sec",
        "instantaneous_input_kbps",
        "total_net_input_bytes",
        "rejected_connections",
        "expired_keys",
        "evicted_keys",
        "keyspace_hits",
        "keyspace_misses",
        "used_cpu_sys",
        "used_cpu_user",
    ];
    for name in numbers {
        assert!(text(name).parse::<f64>().is_ok(), "{name}: {}", text(name));
    }
    // As redis_exporter parses it.
    for (command, calls) in [("get", "1"), ("set", "1"), ("client|id", "1")] {
        let fields = text(&format!("cmdstat_{command}"));
        let names: Vec<&str> = fields.split(',').map(|f| f.split('=').next().unwrap()).collect();
        assert_eq!(names, ["calls", "usec", "usec_per_call", "rejected_calls", "failed_calls"]);
        assert!(fields.starts_with(&format!("calls={calls},")), "{command}: {fields}");
    }
    let times = text("latency_percentiles_usec_client|id");
    let names: Vec<&str> = times.split(',').map(|f| f.split('=').next().unwrap()).collect();
    assert_eq!(names, ["p50", "p99", "p99.9"]);
    assert!(matches!(wire.say("INFO nothing"), Reply::Bulk(text) if text.is_empty()));
}
