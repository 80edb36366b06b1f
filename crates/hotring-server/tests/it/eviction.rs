//! Tests of eviction at maxmemory: writes go on, pinned keys stay, and evictions are reported.

use std::time::{Duration, Instant};

use hotring_commands::settings::policy_name;
use hotring_commands::table::{Flags, commands};
use hotring_store::EvictionPolicy;

use crate::memcached::{Both, Lines};
use crate::wire::{Reply, TestServer, Wire, bulk, ok, request};

const MAX: usize = 8 << 20;
const VALUE_LEN: usize = 1_000;

fn server(policy: EvictionPolicy) -> TestServer {
    TestServer::with(|config| {
        config.memory_max = MAX;
        config.eviction.policy = policy;
    })
}

fn info(wire: &mut Wire, name: &str) -> String {
    let text = wire.say("INFO").text();
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| *field == name).expect("it is there");
    value.trim_end().to_string()
}

/// Sets keys with this prefix, in pipelines. All must be answered with OK.
fn set_all(wire: &mut Wire, name: &str, count: usize) {
    let value = "v".repeat(VALUE_LEN);
    for chunk in 0..count / 100 {
        let sets = (0..100)
            .flat_map(|i| request(&["SET", &format!("{name}:{chunk}:{i}"), &value, "EX", "1000"]));
        wire.send(&sets.collect::<Vec<u8>>());
        (0..100).for_each(|_| assert_eq!(wire.reply(), ok()));
    }
}

#[test]
fn writes_go_on_by_every_policy() {
    for policy in EvictionPolicy::ALL {
        if policy == EvictionPolicy::NoEviction {
            continue;
        }
        let server = server(policy);
        let mut wire = server.connect();
        assert_eq!(wire.say("CONFIG GET maxmemory-policy").items()[1], bulk(policy_name(policy)));
        set_all(&mut wire, "k", 20_000);
        let number = |wire: &mut Wire, name| info(wire, name).parse::<usize>().expect("a number");
        let (evicted, used) = (number(&mut wire, "evicted_keys"), number(&mut wire, "used_memory"));
        assert!(evicted > 10_000, "{policy:?}: {evicted} keys went");
        assert!(used < MAX + MAX / 100 + (2 << 20), "{policy:?}: {used} bytes are used");
        assert!(used > MAX * 8 / 10, "{policy:?}: {used} bytes only are used");
        // The background task may evict between two requests: both must be about one moment.
        let (evicted, left) = loop {
            let before = number(&mut wire, "evicted_keys");
            let left = wire.say("DBSIZE").int();
            if number(&mut wire, "evicted_keys") == before {
                break (before, left);
            }
        };
        assert_eq!(left as usize + evicted, 20_000, "{policy:?}");
        assert_eq!(info(&mut wire, "maxmemory_policy"), policy_name(policy));
    }
}

#[test]
fn the_policy_can_be_changed_and_is_heat_at_first() {
    let server = TestServer::new();
    let mut wire = server.connect();
    assert_eq!(wire.say("CONFIG GET maxmemory-policy").items()[1], bulk("heat"));
    for policy in EvictionPolicy::ALL {
        assert_eq!(wire.ask(&["CONFIG", "SET", "maxmemory-policy", policy_name(policy)]), ok());
    }
    assert!(wire.say("CONFIG SET maxmemory-policy allkeys-best").is_error());
    assert_eq!(wire.say("CONFIG SET maxmemory 8mb maxmemory-policy allkeys-lru"), ok());
    set_all(&mut wire, "k", 10_000);
    assert_eq!(wire.say("CONFIG SET maxmemory-policy noeviction"), ok());
    let refused = (0..100_000).any(|i| wire.ask(&["APPEND", &format!("s:{i}"), "v"]).is_error());
    assert!(refused, "nothing goes any more");
    // By the background task, after the limit was lowered below the used memory.
    assert_eq!(wire.say("CONFIG SET maxmemory 6mb maxmemory-policy heat"), ok());
    let number = |wire: &mut Wire, name| info(wire, name).parse::<usize>().expect("a number");
    for _ in 0..600 {
        if number(&mut wire, "used_memory") < (6 << 20) + (64 << 10) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{} bytes are used", number(&mut wire, "used_memory"));
}

#[test]
fn the_sampling_strategy_goes_with_policies_that_note_nothing() {
    let server = TestServer::with(|config| {
        config.index.strategy = "sampling".parse().expect("a strategy");
        config.eviction.policy = EvictionPolicy::Heat;
    });
    let mut wire = server.connect();
    let refused = wire.say("CONFIG SET maxmemory 8mb");
    assert!(refused.text().contains("maxmemory-policy"), "{refused:?}");
    assert_eq!(wire.say("CONFIG GET maxmemory").items()[1], bulk("0"));
    assert_eq!(wire.say("CONFIG SET maxmemory-policy allkeys-random maxmemory 8mb"), ok());
    set_all(&mut wire, "k", 10_000);
}

#[test]
fn a_subscriber_gets_evicted_keys() {
    let server = server(EvictionPolicy::AllKeysRandom);
    let (mut wire, mut listener) = (server.connect(), server.connect());
    assert_eq!(wire.say("CONFIG SET notify-keyspace-events Ee"), ok());
    assert_eq!(wire.say("CONFIG GET notify-keyspace-events").items()[1], bulk("eE"));
    listener.say("SUBSCRIBE __keyevent@0__:evicted");
    set_all(&mut wire, "k", 9_000);
    let Reply::Array(message) = listener.reply() else { panic!("no message") };
    assert_eq!(message[1], bulk("__keyevent@0__:evicted"));
    assert_eq!(wire.ask(&["EXISTS", &message[2].text()]), Reply::Int(0));
}

/// The victim may be a key that another session holds; a session that holds several keys must not
/// evict.
#[test]
fn scripts_copies_and_transactions_at_the_limit_are_served() {
    for policy in [EvictionPolicy::Heat, EvictionPolicy::AllKeysLru] {
        let server = server(policy);
        let mut wire = server.connect();
        set_all(&mut wire, "k", 10_000);
        let long = "v".repeat(20_000);
        let script = "return redis.call('SET', KEYS[1], ARGV[1])";
        for i in 0..300 {
            let key = format!("long:{i}");
            assert_eq!(wire.ask(&["EVAL", script, "1", &key, &long]), ok());
            // The source may be evicted to make room for the result.
            let mut from_source = |wanted: i64, request: &[&str]| {
                let is_made = (0..10).any(|_| {
                    assert_eq!(wire.ask(&["SET", "source", &long]), ok());
                    let reply = wire.ask(request);
                    assert!([Reply::Int(0), Reply::Int(wanted)].contains(&reply), "{reply:?}");
                    reply == Reply::Int(wanted)
                });
                assert!(is_made, "{request:?}");
            };
            from_source(1, &["COPY", "source", &format!("copy:{i}")]);
            from_source(20_000, &["BITOP", "NOT", &format!("bits:{i}"), "source"]);
            assert_eq!(wire.say("MULTI"), ok());
            wire.ask(&["SETRANGE", &format!("range:{i}"), "100000", "x"]);
            wire.say("INCR n");
            assert_eq!(wire.say("EXEC").items()[0], Reply::Int(100_001));
        }
        assert!(info(&mut wire, "evicted_keys").parse::<usize>().unwrap() > 10_000);
    }
}

#[test]
fn pinned_keys_stay() {
    let server = server(EvictionPolicy::AllKeysRandom);
    let mut wire = server.connect();
    set_all(&mut wire, "pinned", 100);
    let keys: Vec<String> = (0..100).map(|i| format!("pinned:0:{i}")).collect();
    let mut pin = vec!["PIN"];
    pin.extend(keys.iter().map(String::as_str));
    assert_eq!(wire.ask(&pin), Reply::Int(100));
    set_all(&mut wire, "k", 30_000);
    pin[0] = "EXISTS";
    assert_eq!(wire.ask(&pin), Reply::Int(100));
    assert_eq!(info(&mut wire, "pinned_keys"), "100");
    assert!(info(&mut wire, "used_memory_pinned").parse::<usize>().unwrap() > 100 * VALUE_LEN);
    // A quarter of maxmemory by default.
    set_all(&mut wire, "more", 3_000);
    let refused = (0..30)
        .any(|chunk| (0..100).any(|i| wire.ask(&["PIN", &format!("more:{chunk}:{i}")]).is_error()));
    assert!(refused, "three megabytes of eight were pinned");
}

/// Every writing command, with the data before it. Regression test: some that only remove data were
/// refused with the others.
const WRITES: &[(&str, &str)] = &[
    ("", "SET k v"),
    ("", "SETNX k v"),
    ("", "SETEX k 100 v"),
    ("", "PSETEX k 100000 v"),
    ("SET k v", "GETSET k w"),
    ("", "MSET k v l v"),
    ("", "MSETNX k v l v"),
    ("", "MSETEX 1 k v EX 100"),
    ("SET k 1", "INCREX k"),
    ("SET k v", "APPEND k v"),
    ("SET k v", "SETRANGE k 1 v"),
    ("SET k 1", "INCR k"),
    ("SET k 1", "DECR k"),
    ("SET k 1", "INCRBY k 2"),
    ("SET k 1", "DECRBY k 2"),
    ("SET k 1", "INCRBYFLOAT k 0.5"),
    ("MSET k v k w", "ROLLBACK k 1"),
    ("SET k v", "SETBIT k 7 1"),
    ("SET k v", "BITOP NOT l k"),
    ("HSET k f v", "HSET k g v"),
    ("HSET k f v", "HSETNX k g v"),
    ("HSET k f v", "HMSET k g v"),
    ("HSET k f 1", "HINCRBY k f 1"),
    ("HSET k f 1", "HINCRBYFLOAT k f 0.5"),
    ("SET k v", "COPY k l"),
    ("", "RESTORE k 0 DUMP"),
    ("SET k v", "GETDEL k"),
    ("SET k v", "GETEX k EX 100"),
    ("SET k v", "DELEX k IFEQ v"),
    ("SET k v", "DELIFEQ k v"),
    ("HSET k f v g w", "HDEL k f"),
    ("SET k v", "DEL k"),
    ("SET k v", "UNLINK k"),
    ("SET k v", "EXPIRE k 100"),
    ("SET k v", "PEXPIRE k 100000"),
    ("SET k v", "EXPIREAT k 9000000000"),
    ("SET k v", "PEXPIREAT k 9000000000000"),
    ("SET k v EX 100", "PERSIST k"),
    ("SET k v", "PIN k"),
    ("SET k v", "UNPIN k"),
    ("SET k v", "RENAME k l"),
    ("SET k v", "RENAMENX k l"),
    ("SET k v", "FLUSHALL"),
    ("SET k v", "FLUSHDB"),
    ("SET k v", "SWAPDB 0 1"),
    ("SET k v", "MOVE k 1"),
    ("SET k v", "BITFIELD k SET u8 0 1"),
    ("RPUSH k b a", "SORT k ALPHA STORE l"),
    ("HSET k f v g w", "HEXPIRE k 100 FIELDS 1 f"),
    ("HSET k f v g w", "HPEXPIRE k 100000 FIELDS 1 f"),
    ("HSET k f v g w", "HEXPIREAT k 9000000000 FIELDS 1 f"),
    ("HSET k f v g w", "HPEXPIREAT k 9000000000000 FIELDS 1 f"),
    ("HSET k f v g w", "HPERSIST k FIELDS 1 f"),
    ("HSET k f v g w", "HGETEX k EX 100 FIELDS 1 f"),
    ("HSET k f v g w", "HSETEX k EX 100 FIELDS 1 f x"),
    ("HSET k f v g w", "HGETDEL k FIELDS 1 f"),
    ("RPUSH k a b", "BLPOP k 1"),
    ("RPUSH k a b", "BRPOP k 1"),
    ("RPUSH k a b", "BRPOPLPUSH k l 1"),
    ("RPUSH k a b", "BLMOVE k l LEFT LEFT 1"),
    ("RPUSH k a b", "BLMPOP 1 1 k LEFT"),
    ("", "LPUSH k a"),
    ("", "RPUSH k a"),
    ("RPUSH k a", "LPUSHX k b"),
    ("RPUSH k a", "RPUSHX k b"),
    ("RPUSH k a b", "LPOP k"),
    ("RPUSH k a b", "RPOP k"),
    ("RPUSH k a b", "LSET k 0 c"),
    ("RPUSH k a b", "LINSERT k BEFORE a c"),
    ("RPUSH k a b", "LREM k 0 a"),
    ("RPUSH k a b", "LTRIM k 0 0"),
    ("RPUSH k a b", "LMOVE k l LEFT LEFT"),
    ("RPUSH k a b", "RPOPLPUSH k l"),
    ("RPUSH k a b", "LMPOP 1 k LEFT"),
    ("", "SADD k a"),
    ("SADD k a b", "SREM k a"),
    ("SADD k a b", "SPOP k"),
    ("SADD k a b", "SMOVE k l a"),
    ("SADD k a b", "SINTERSTORE l k"),
    ("SADD k a b", "SUNIONSTORE l k"),
    ("SADD k a b", "SDIFFSTORE l k"),
    ("", "ZADD k 1 a"),
    ("ZADD k 1 a", "ZINCRBY k 1 a"),
    ("ZADD k 1 a 2 b", "ZREM k a"),
    ("ZADD k 1 a 2 b", "ZRANGESTORE l k 0 1"),
    ("ZADD k 1 a 2 b", "ZREMRANGEBYRANK k 0 0"),
    ("ZADD k 1 a 2 b", "ZREMRANGEBYSCORE k 1 1"),
    ("ZADD k 1 a 1 b", "ZREMRANGEBYLEX k [a [a"),
    ("ZADD k 1 a 2 b", "ZPOPMIN k"),
    ("ZADD k 1 a 2 b", "ZPOPMAX k"),
    ("ZADD k 1 a 2 b", "ZMPOP 1 k MIN"),
    ("ZADD k 1 a 2 b", "ZUNIONSTORE l 1 k"),
    ("ZADD k 1 a 2 b", "ZINTERSTORE l 1 k"),
    ("ZADD k 1 a 2 b", "ZDIFFSTORE l 1 k"),
    ("ZADD k 1 a 2 b", "BZPOPMIN k 1"),
    ("ZADD k 1 a 2 b", "BZPOPMAX k 1"),
    ("ZADD k 1 a 2 b", "BZMPOP 1 1 k MIN"),
    ("", "GEOADD k 1 2 a"),
    ("GEOADD k 1 2 a", "GEORADIUS k 1 2 3 m STORE l"),
    ("GEOADD k 1 2 a", "GEORADIUSBYMEMBER k a 3 m STORE l"),
    ("GEOADD k 1 2 a", "GEOSEARCHSTORE l k FROMMEMBER a BYRADIUS 3 m"),
    ("", "PFADD k a"),
    ("PFADD k a", "PFMERGE l k"),
];

#[test]
fn at_the_limit_the_same_commands_are_refused_as_in_redis() {
    let server = TestServer::with(|config| {
        config.eviction.policy = EvictionPolicy::NoEviction;
        config.history = 2;
    });
    let mut wire = server.connect();
    for spec in commands().iter().filter(|spec| spec.flags.contains(Flags::WRITE)) {
        let name = spec.name.to_uppercase();
        let (before, asked) = WRITES
            .iter()
            .find(|(_, asked)| asked.split(' ').next() == Some(&name))
            .unwrap_or_else(|| panic!("{name} must be in the list"));
        assert_eq!(wire.say("CONFIG SET maxmemory 0"), ok());
        wire.say("FLUSHALL");
        assert_eq!(wire.say("SETRANGE filler 5000000 x"), Reply::Int(5_000_001));
        assert_eq!(wire.say("SET dumped v"), ok());
        let Reply::Bulk(dump) = wire.say("DUMP dumped") else { panic!("it is there") };
        assert!(before.is_empty() || !wire.say(before).is_error(), "{before}");
        assert_eq!(wire.say("CONFIG SET maxmemory 4mb"), ok());
        let arguments: Vec<&[u8]> = asked
            .split(' ')
            .map(|argument| if argument == "DUMP" { &dump[..] } else { argument.as_bytes() })
            .collect();
        let refused: u64 = info(&mut wire, "rejected_maxmemory").parse().unwrap();
        wire.send(&request(&arguments));
        let reply = wire.reply();
        let is_refused = reply.is_error() && reply.text().starts_with("OOM ");
        assert_eq!(is_refused, spec.flags.contains(Flags::DENYOOM), "{asked}: {reply:?}");
        assert_eq!(reply.is_error(), is_refused, "{asked}: {reply:?}");
        let refused_now: u64 = info(&mut wire, "rejected_maxmemory").parse().unwrap();
        assert_eq!(refused_now - refused, u64::from(is_refused), "{asked}");
    }
}

/// Regression test: the wrong key was asked for, which is not held, and the process ended.
#[test]
fn restore_sets_the_frequency_inside_a_script() {
    let server = server(EvictionPolicy::AllKeysLfu);
    let mut wire = server.connect();
    assert_eq!(wire.say("SET k v"), ok());
    let Reply::Bulk(dump) = wire.say("DUMP k") else { panic!("it is there") };
    let is_restored = |wire: &mut Wire| {
        matches!(wire.say("OBJECT FREQ k"), Reply::Int(199 | 200))
            && wire.say("DEL k") == Reply::Int(1)
    };
    let script = "return redis.call('RESTORE', KEYS[1], 0, ARGV[1], 'REPLACE', 'FREQ', 200)";
    wire.send(&request::<&[u8]>(&[b"EVAL", script.as_bytes(), b"1", b"k", &dump]));
    assert_eq!(wire.reply(), ok());
    assert!(is_restored(&mut wire));
    assert_eq!(wire.say("MULTI"), ok());
    assert_eq!(wire.say("SET other v").text(), "QUEUED");
    wire.send(&request::<&[u8]>(&[b"RESTORE", b"k", b"0", &dump, b"FREQ", b"200"]));
    assert_eq!(wire.reply().text(), "QUEUED");
    assert_eq!(wire.say("EXEC"), Reply::Array(vec![ok(), ok()]));
    assert!(is_restored(&mut wire));
}

#[test]
fn accesses_are_shown_by_the_policies_that_know_them() {
    let server = server(EvictionPolicy::AllKeysLfu);
    let mut wire = server.connect();
    set_all(&mut wire, "k", 100);
    // Frequencies decay when a minute begins, so that a new key has 4 then.
    assert!(matches!(wire.say("OBJECT FREQ k:0:0"), Reply::Int(4 | 5)));
    (0..2_000).for_each(|_| assert!(!wire.say("GET k:0:0").is_error()));
    let Reply::Int(often) = wire.say("OBJECT FREQ k:0:0") else { panic!("no number") };
    assert!(often > 10, "{often}");
    assert!(wire.say("OBJECT IDLETIME k:0:0").is_error());
    assert_eq!(wire.say("OBJECT FREQ none"), Reply::Null);
    // Commands that only inspect keys must not affect eviction.
    assert_eq!(wire.say("CLIENT NO-TOUCH ON"), ok());
    (0..2_000).for_each(|_| assert!(!wire.say("GET k:0:1").is_error()));
    assert!(matches!(wire.say("OBJECT FREQ k:0:1"), Reply::Int(4 | 5)));
    assert_eq!(wire.say("CONFIG SET maxmemory-policy allkeys-lru"), ok());
    assert_eq!(wire.say("CLIENT NO-TOUCH OFF"), ok());
    wire.say("GET k:0:0");
    assert_eq!(wire.say("OBJECT IDLETIME k:0:0"), Reply::Int(0));
    assert!(wire.say("OBJECT FREQ k:0:0").is_error());
}

/// It was 0 for all keys on a new server: their ages were noted, and not told.
#[test]
fn restored_idle_times_are_shown_by_lru() {
    const KEYS: usize = 4_000;
    let idle_times = [0, 1, 59, 600, 86_400, 30 * 86_400];
    let server = server(EvictionPolicy::AllKeysLru);
    let mut wire = server.connect();
    wire.ask(&["SET", "from", &"v".repeat(VALUE_LEN)]);
    let Reply::Bulk(payload) = wire.say("DUMP from") else { panic!("no payload") };
    let asked = |i: usize| (format!("r:{i}"), idle_times[i % idle_times.len()]);
    let is_told = |told: i64, seconds: i64| told <= seconds && told + 1 >= seconds * 5 / 6;
    // Half of the memory is written: ticks pass between the server's looks at them.
    for pipeline in (0..KEYS).step_by(100) {
        let requests = (pipeline..pipeline + 100).flat_map(|i| {
            let (key, seconds) = asked(i);
            let seconds = seconds.to_string();
            let words: [&[u8]; 6] =
                [b"RESTORE", key.as_bytes(), b"0", &payload, b"IDLETIME", seconds.as_bytes()];
            [request(&words), request(&["OBJECT", "IDLETIME", &key])].concat()
        });
        wire.send(&requests.collect::<Vec<u8>>());
        for i in pipeline..pipeline + 100 {
            assert_eq!(wire.reply(), ok());
            let (told, (key, seconds)) = (wire.reply().int(), asked(i));
            assert!(is_told(told, seconds), "{key}: {told} of {seconds}");
        }
    }
    assert_eq!(info(&mut wire, "evicted_keys"), "0");
    // They stay as more is written, and an access ends them.
    let told = wire.say("OBJECT IDLETIME r:4").int();
    assert!(told >= 86_400 * 5 / 6, "{told}");
    wire.say("GET r:4");
    assert_eq!(wire.say("OBJECT IDLETIME r:4"), Reply::Int(0));
}

#[test]
fn memcached_evicts_as_well() {
    let server = Both::with(|config| config.memory_max = MAX);
    let mut lines = Lines::connect(server.memcached);
    let value = "v".repeat(VALUE_LEN);
    for i in 0..12_000 {
        assert_eq!(lines.ask(&format!("set k{i} 0 0 {VALUE_LEN}\r\n{value}\r\n")), "STORED\r\n");
    }
    let mut wire = Wire::connect(server.redis);
    assert!(info(&mut wire, "evicted_keys").parse::<usize>().unwrap() > 3_000);
}

/// Access bits of one policy must not be read by another. Regression test: access times were taken
/// for counts.
#[test]
fn another_policy_starts_with_clear_access_bits() {
    let server = TestServer::new();
    let mut wire = server.connect();
    assert_eq!(wire.say("SET k v"), ok());
    assert_eq!(wire.say("CONFIG SET maxmemory-policy allkeys-lfu"), ok());
    let begun = Instant::now();
    while wire.say("OBJECT FREQ k") != Reply::Int(0) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", wire.say("OBJECT FREQ k"));
        std::thread::sleep(Duration::from_millis(10));
    }
}
