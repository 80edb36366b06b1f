//! Sends the requests of redis_exporter and RedisInsight in their order, and checks that the
//! replies can be parsed as their sources do: a number where they parse one, a pair where they take
//! two.

use std::collections::BTreeMap;

use crate::wire::{Reply, TestServer, Wire, bulk, ok};

/// The `name=value` pairs of a text, split as the tools do.
fn pairs(text: &str, between: char, sign: char) -> BTreeMap<&str, &str> {
    text.split(between).filter_map(|pair| pair.split_once(sign)).collect()
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

fn texts(reply: &Reply) -> Vec<String> {
    reply.items().iter().map(Reply::text).collect()
}

/// A server that has been used.
fn used() -> (TestServer, Wire) {
    let server = TestServer::with(|c| {
        c.slowlog_threshold_us = 0;
        c.latency_threshold_ms = 1;
        c.debug_command = hotring_server::Guard::Yes;
    });
    let mut wire = server.connect();
    wire.say("DEBUG SLEEP 0.002");
    for line in
        ["SET n 5 EX 1000", "SET greeting hello", "HSET h a 1 b 2", "GET n", "GET none", "INCR h"]
    {
        wire.say(line);
    }
    (server, wire)
}

/// redis_exporter v1: uses RESP2 through redigo.
#[test]
fn redis_exporter_reads_its_replies() {
    let (server, _other) = used();
    let mut wire = server.connect();
    assert_eq!(wire.say("CLIENT SETNAME redis_exporter"), ok());
    let config = texts(&wire.say("CONFIG GET *"));
    assert_eq!(config.len() % 2, 0);
    let config: BTreeMap<&str, &str> =
        config.chunks(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    for name in ["databases", "maxmemory", "maxclients", "slowlog-max-len", "timeout"] {
        assert!(is_number(config[name]), "{name} {}", config[name]);
    }
    exporter_reads_info(&wire.say("INFO ALL").text());
    for event in wire.say("LATENCY LATEST").items() {
        let [name, last, duration, max] = event.items() else { panic!("{event:?}") };
        assert!(!name.text().is_empty() && last.int() > 0 && duration.int() <= max.int());
    }
    let histograms = wire.say("LATENCY HISTOGRAM");
    assert!(!histograms.items().is_empty());
    for pair in histograms.items().chunks(2) {
        let [calls, n, buckets, counts] = pair[1].items() else { panic!("{pair:?}") };
        assert_eq!([calls.text(), buckets.text()], ["calls", "histogram_usec"]);
        assert!(!pair[0].text().is_empty() && n.int() > 0);
        assert!(counts.items().len() % 2 == 0 && counts.items().iter().all(|n| n.int() > 0));
    }
    // Optional requests: after an error it logs a line and goes on.
    assert!(wire.say("COMMANDLOG LEN slow").is_error());
    assert!(wire.say("SLOWLOG LEN").int() > 0);
    let slow = wire.say("SLOWLOG GET 1");
    let [entry] = slow.items() else { panic!("{slow:?}") };
    let entry = entry.items();
    assert!(entry[0].int() >= 0 && entry[1].int() > 0 && entry[2].int() >= 0);
    assert!(!texts(&entry[3]).is_empty());
    exporter_reads_clients(&wire.say("CLIENT LIST").text());
    exporter_measures_keys(&mut wire);
    assert_eq!(wire.say("PING").text(), "PONG");
}

fn exporter_reads_info(info: &str) {
    let mut sections = 0;
    for line in info.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("# ") {
            sections += 1;
            continue;
        }
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no field: {line}"));
        let fields = pairs(value, ',', '=');
        match name {
            "db0" => assert!(
                ["keys", "expires", "avg_ttl"].iter().all(|f| is_number(fields[f])),
                "{line}"
            ),
            _ if name.starts_with("cmdstat_") => {
                let numbers = ["calls", "usec", "usec_per_call", "rejected_calls", "failed_calls"];
                assert!(numbers.iter().all(|f| is_number(fields[f])), "{line}");
            }
            _ if name.starts_with("latency_percentiles_usec_") => {
                assert!(fields.len() == 3 && fields.values().all(|v| is_number(v)), "{line}");
            }
            _ if name.starts_with("errorstat_") => assert!(is_number(fields["count"]), "{line}"),
            _ => {}
        }
    }
    assert!(sections >= 8, "{sections} sections");
    for wanted in ["cmdstat_get:", "cmdstat_incr:", "db0:", "latency_percentiles_usec_debug:"] {
        assert!(info.lines().any(|line| line.starts_with(wanted)), "no {wanted} in {info}");
    }
}

fn exporter_reads_clients(list: &str) {
    let found: Vec<_> = list.lines().map(|line| pairs(line, ' ', '=')).collect();
    assert_eq!(found.len(), 2);
    for client in &found {
        for name in [
            "id",
            "age",
            "idle",
            "db",
            "sub",
            "psub",
            "multi",
            "qbuf",
            "qbuf-free",
            "obl",
            "oll",
            "omem",
            "tot-mem",
            "resp",
        ] {
            assert!(is_number(client[name]), "{name} of {client:?}");
        }
        assert!(client["addr"].rsplit_once(':').is_some_and(|(_, port)| is_number(port)));
        assert!(
            client.contains_key("user")
                && client.contains_key("flags")
                && client.contains_key("cmd")
        );
    }
    assert!(found.iter().any(|client| client["name"] == "redis_exporter"));
}

/// Its options --check-keys, --count-keys and --check-key-groups.
fn exporter_measures_keys(wire: &mut Wire) {
    assert_eq!(wire.say("SELECT 0"), ok());
    let scan = wire.say("SCAN 0 MATCH * COUNT 1000");
    let [cursor, keys] = scan.items() else { panic!("{scan:?}") };
    assert_eq!(cursor, &bulk("0"));
    let mut keys = texts(keys);
    keys.sort();
    assert_eq!(keys, ["greeting", "h", "n"]);
    assert!(wire.say("PFCOUNT n").is_error(), "no HyperLogLog: it asks for the length instead");
    let sizes =
        ["TYPE n", "STRLEN n", "GET n", "TYPE h", "HLEN h", "TYPE none"].map(|line| wire.say(line));
    let [a, b, c, d, e, f] = &sizes;
    assert_eq!([a.text(), d.text(), f.text()], ["string", "hash", "none"]);
    assert_eq!((b.int(), c.text(), e.int()), (1, "5".to_string(), 2));
    let groups = "local found = redis.call('SCAN', ARGV[1], 'COUNT', ARGV[2]) local n, size = 0, 0 \
                  for _, key in ipairs(found[2]) do \
                  n = n + 1 size = size + redis.call('MEMORY', 'USAGE', key) end \
                  return {found[1], n, tostring(size)}";
    let reply = wire.ask(&["EVAL", groups, "0", "0", "1000"]);
    let [cursor, n, size] = reply.items() else { panic!("{reply:?}") };
    assert_eq!((cursor.text(), n.int()), ("0".to_string(), 3));
    assert!(size.text().parse::<u64>().is_ok_and(|size| size > 20));
}

/// RedisInsight 2: uses RESP2 through node-redis, and ioredis for its workbench.
#[test]
fn redisinsight_goes_through_its_screens() {
    let (server, _) = used();
    for version in ["2", "3"] {
        let mut wire = server.connect();
        assert!(!wire.say(&format!("HELLO {version}")).is_error());
        // Adding a database: its kind and features.
        assert_eq!(wire.say("CLIENT SETNAME redisinsight-common-12ab"), ok());
        assert!(wire.say("SENTINEL MASTERS").text().starts_with("ERR unknown command"));
        let cluster = "ERR This instance has cluster support disabled";
        assert_eq!(wire.say("CLUSTER INFO"), Reply::Error(cluster.into()));
        assert_eq!(wire.say("MODULE LIST"), Reply::Array(Vec::new()));
        let modules = wire.say("COMMAND INFO ft.create json.get graph.query ts.add bf.add");
        assert!(modules.items().iter().all(|item| *item == Reply::Null), "{modules:?}");
        let databases = match wire.say("CONFIG GET databases") {
            Reply::Map(pairs) => pairs[0].1.text(),
            pairs => pairs.items()[1].text(),
        };
        assert_eq!(databases, "16");
        insight_reads_info(&wire.say("INFO").text());
        assert_eq!(wire.say("DBSIZE").int(), 3);
        insight_browses(&mut wire);
        // The slow log, the command line's help, and the profiler.
        let slow = wire.say("SLOWLOG GET 50");
        assert!(slow.items().iter().all(|entry| entry.items().len() == 6), "{slow:?}");
        assert!(!wire.say("CONFIG GET slowlog*").is_error());
        assert!(wire.say("COMMAND").items().len() > 100);
        assert!(wire.say("FT._LIST").is_error());
        assert_eq!(wire.say("MONITOR"), ok());
    }
}

fn insight_reads_info(info: &str) {
    let fields = pairs(info, '\n', ':');
    let text = |name: &str| fields.get(name).map_or("", |value| value.trim_end());
    assert_eq!(text("redis_mode"), "standalone");
    for name in [
        "uptime_in_seconds",
        "connected_clients",
        "used_memory",
        "keyspace_hits",
        "keyspace_misses",
        "instantaneous_ops_per_sec",
        "instantaneous_input_kbps",
        "instantaneous_output_kbps",
        "used_cpu_sys",
        "used_cpu_user",
        "number_of_cached_scripts",
    ] {
        assert!(is_number(text(name)), "{name}: {:?}", text(name));
    }
    assert!(text("redis_version").split('.').all(is_number) && text("db0").starts_with("keys=3,"));
}

/// The browser: lists keys with their types, and shows and changes one of each type.
fn insight_browses(wire: &mut Wire) {
    for (kind, n) in [("string", 2), ("hash", 1), ("list", 0), ("zset", 0), ("stream", 0)] {
        let found = wire.say(&format!("SCAN 0 MATCH * COUNT 10000 TYPE {kind}"));
        assert_eq!(found.items()[1].items().len(), n, "{kind}");
    }
    let requests: Vec<Vec<u8>> = ["greeting", "h", "n"]
        .iter()
        .flat_map(|key| {
            [format!("TYPE {key}"), format!("TTL {key}"), format!("MEMORY USAGE {key} SAMPLES 0")]
        })
        .map(|line| crate::wire::request(&line.split(' ').collect::<Vec<_>>()))
        .collect();
    wire.send(&requests.concat());
    for (kind, expires) in [("string", false), ("hash", false), ("string", true)] {
        assert_eq!(wire.reply().text(), kind);
        assert_eq!(wire.reply().int() > 0, expires);
        assert!(wire.reply().int() > 0);
    }
    let asked = |wire: &mut Wire, line: &str| {
        let reply = wire.say(line);
        assert!(!reply.is_error(), "{line}: {reply:?}");
        reply
    };
    assert_eq!(asked(wire, "STRLEN greeting").int(), 5);
    assert_eq!(asked(wire, "GETRANGE greeting 0 4999"), bulk("hello"));
    assert_eq!(asked(wire, "OBJECT ENCODING greeting"), bulk("embstr"));
    assert_eq!(asked(wire, "HLEN h").int(), 2);
    assert_eq!(asked(wire, "HSCAN h 0 MATCH * COUNT 500").items()[1].items().len(), 4);
    for line in
        ["RENAMENX greeting other", "EXPIRE other 500", "PERSIST other", "RENAMENX other greeting"]
    {
        assert_eq!(asked(wire, line).int(), 1, "{line}");
    }
    asked(wire, "HSET h c 3");
    asked(wire, "HDEL h c");
    asked(wire, "SET new value EX 100 NX");
    assert_eq!(asked(wire, "DEL new").int(), 1);
}
