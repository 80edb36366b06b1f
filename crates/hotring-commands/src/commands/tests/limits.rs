//! Replies above the length limit: their commands must change nothing.

use hotring_protocol::Version;
use hotring_store::Options;

use crate::exec::dialogue::Dialogue;
use crate::settings::config::Config;
use crate::state::client::Closing;

const HARD_MAX: usize = 1000;

fn dialogue(version: Version) -> Dialogue {
    let config = Config { output_hard_max: HARD_MAX, ..Config::default() };
    Dialogue::with_config(version, Options::default(), config)
}

/// `n` short names, each after `before`.
fn names(n: usize, before: &str) -> String {
    (0..n).map(|i| format!(" {before}{i:03}")).collect()
}

/// Several values were taken out of a container first, and then the reply was found to be too long: they were lost.
/// Only the values counted, not the lengths and scores that the reply has with each.
#[test]
fn elements_too_long_for_the_reply_are_not_taken() {
    let (long, fields) = ("v".repeat(400), " FIELDS 3 a b c");
    let hash = format!("HSET k a {long} b {long} c {long}");
    let (list, set) = (format!("RPUSH k{}", names(120, "")), format!("SADD k{}", names(120, "")));
    let scored = format!("ZADD k{}", names(80, "1 m"));
    for (setup, len, taking) in [
        (&hash, "HLEN", format!("HGETDEL k{fields}")),
        (&hash, "HLEN", format!("HGETEX k PX 0{fields}")),
        (&hash, "HLEN", format!("HGETEX k EXAT 1{fields}")),
        (&list, "LLEN", "LPOP k 120".into()),
        (&list, "LLEN", "RPOP k 120".into()),
        (&list, "LLEN", "LMPOP 2 none k LEFT COUNT 120".into()),
        (&list, "LLEN", "BLMPOP 0 2 none k LEFT COUNT 120".into()),
        (&set, "SCARD", "SPOP k 120".into()),
        (&scored, "ZCARD", "ZPOPMIN k 80".into()),
        (&scored, "ZCARD", "ZPOPMAX k 80".into()),
        (&scored, "ZCARD", "ZMPOP 2 none k MIN COUNT 80".into()),
        (&scored, "ZCARD", "BZMPOP 0 2 none k MIN COUNT 80".into()),
    ] {
        for version in [Version::Resp2, Version::Resp3] {
            let mut client = dialogue(version);
            let n = client.say(setup);
            let reply = client.say(&taking);
            let what = format!("{taking}, {version:?}");
            assert_eq!(reply, "", "{what}");
            assert_eq!(client.closing(), Some(Closing::OutputLimit), "{what}");
            assert_eq!(client.with_version(version).say(&format!("{len} k")), n, "{what}");
        }
    }
}

#[test]
fn replies_of_searches_end_at_the_limit() {
    let places: String = (0..200).map(|i| format!(" 1 1 m{i:03}")).collect();
    for (setup, request) in [
        (format!("SET k {}", "v".repeat(1_100)), "LCS k k"),
        (format!("RPUSH k{}", names(200, "")), "SORT k"),
        (format!("GEOADD k{places}"), "GEORADIUS k 1 1 1 km"),
        (format!("GEOADD k{places}"), "GEOSEARCH k FROMLONLAT 1 1 BYRADIUS 1 km"),
    ] {
        let mut client = dialogue(Version::Resp2);
        client.say(&setup);
        assert_eq!(client.say(request), "", "{request}");
        assert_eq!(client.closing(), Some(Closing::OutputLimit), "{request}");
    }
}

/// As a plain value is, one part is sent however long it is: it could not be taken out otherwise.
#[test]
fn a_single_value_is_sent_however_long() {
    let long = "v".repeat(2 * HARD_MAX);
    for (setup, taking) in [
        (format!("SET k {long}"), "GETDEL k"),
        (format!("SET k {long}"), "GETEX k PX 1"),
        (format!("HSET k a {long}"), "HGETDEL k FIELDS 1 a"),
        (format!("HSET k a {long}"), "HGETEX k EXAT 1 FIELDS 1 a"),
        (format!("RPUSH k {long}"), "LPOP k"),
        (format!("RPUSH k {long}"), "RPOP k 5"),
        (format!("RPUSH k {long}"), "BLPOP k 0"),
        (format!("RPUSH k {long}"), "LMPOP 1 k LEFT"),
        (format!("RPUSH k {long}"), "BLMPOP 0 1 k LEFT"),
        (format!("RPUSH k {long}"), "LMOVE k other LEFT LEFT"),
        (format!("RPUSH k {long}"), "BLMOVE k other LEFT LEFT 0"),
        (format!("SADD k {long}"), "SPOP k"),
        (format!("SADD k {long}"), "SPOP k 1"),
        (format!("ZADD k 1 {long}"), "ZPOPMIN k"),
        (format!("ZADD k 1 {long}"), "ZPOPMAX k 3"),
        (format!("ZADD k 1 {long}"), "BZPOPMIN k 0"),
        (format!("ZADD k 1 {long}"), "ZMPOP 1 k MIN"),
        (format!("ZADD k 1 {long}"), "BZMPOP 0 1 k MIN"),
    ] {
        let mut client = dialogue(Version::Resp2);
        client.say(&setup);
        assert!(client.say(taking).contains(&long), "{taking}");
    }
}

/// All inputs were copied and the whole result was made before the limit was looked at.
#[test]
fn too_long_results_of_sets_are_not_built() {
    for version in [Version::Resp2, Version::Resp3] {
        for request in [
            "ZUNION 2 a b",
            "ZINTER 2 a a WITHSCORES",
            "ZDIFF 2 a b",
            "SUNION s t",
            "SINTER s s",
            "SDIFF s t",
        ] {
            let mut client = dialogue(version);
            client.say(&format!("ZADD a{}", names(200, "1 m")));
            client.say(&format!("ZADD b{}", names(10, "1 x")));
            client.say(&format!("SADD s{}", names(200, "m")));
            client.say(&format!("SADD t{}", names(10, "x")));
            assert_eq!(client.say(request), "", "{request}");
            assert_eq!(client.closing(), Some(Closing::OutputLimit), "{request}");
            let mut other = client.with_version(version);
            assert_eq!(other.say("ZUNIONSTORE to 2 a b"), ":210¶");
            assert_eq!(other.say("ZINTERCARD 2 a a LIMIT 7"), ":7¶");
            assert_eq!(other.say("SUNIONSTORE to s t"), ":210¶");
        }
    }
}

/// The limit of one value was that of a whole sorted set that is stored by ZUNIONSTORE and its kin.
#[test]
fn a_stored_set_may_be_longer_than_one_value() {
    let options = Options { value_len_max: 500, ..Options::default() };
    let mut client = Dialogue::with(Version::Resp2, options);
    client.say(&format!("ZADD a{}", names(200, "1 m")));
    assert_eq!(client.say("ZUNIONSTORE to 1 a"), ":200¶");
    assert_eq!(client.say("ZINTERSTORE to 2 a a"), ":200¶");
    assert_eq!(client.say("ZDIFFSTORE to 2 a none"), ":200¶");
    assert_eq!(client.say("ZRANGESTORE to a 0 -1"), ":200¶");
    assert_eq!(client.say("SORT a BY nosort STORE to"), ":200¶");
}

/// A command of a script, and a plain write where the last key had just been evicted, were let through: the excess over
/// the limit was less than a chunk of memory.
#[test]
fn nothing_is_stored_at_a_limit_of_one_byte() {
    for policy in ["noeviction", "allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-ttl"] {
        let mut client = Dialogue::new(Version::Resp2);
        client.say("SET base 1");
        assert_eq!(client.say(&format!("CONFIG SET maxmemory-policy {policy}")), "+OK¶");
        assert_eq!(client.say("CONFIG SET maxmemory 1"), "+OK¶");
        for _ in 0..2 {
            for write in [
                "SET a 1",
                "SET a 1 EX 100",
                "EVAL \"return redis.call('SET', KEYS[1], '1')\" 1 a",
                "EVAL \"return redis.call('SET', 'a', '1')\" 0",
                "INCR a",
                "MSET a 1 b 2",
                "LPUSH a 1",
                "LMOVE l a LEFT LEFT",
                "BLMOVE l a LEFT LEFT 1",
                "SADD a 1",
                "ZADD a 1 m",
                "HSET a f v",
                "SETRANGE a 9 v",
                "ZUNIONSTORE a 1 no",
            ] {
                let reply = client.say(write);
                assert!(reply.starts_with("-OOM "), "{policy}: {write} -> {reply}");
            }
            client.say("MULTI");
            client.say("SET a 1");
            assert!(client.say("EXEC").contains("OOM "), "{policy}");
            assert_eq!(client.say("EXISTS a b"), ":0¶");
        }
        let counts = client.say("INFO commandstats");
        let set = counts.split('¶').find(|line| line.starts_with("cmdstat_set:")).unwrap();
        assert!(set.starts_with("cmdstat_set:calls=1,"), "{policy}: {set}");
        // Two plain ones and two of scripts, twice.
        assert!(set.ends_with(",rejected_calls=8,failed_calls=0"), "{policy}: {set}");
    }
}

/// It was refused within its hold, where nothing is evicted; LMOVE makes room first.
#[test]
fn blmove_makes_room_as_lmove_does() {
    let mut client = Dialogue::new(Version::Resp2);
    client.say("RPUSH l 1 2 3 4");
    let value = "v".repeat(1000);
    for i in 0..12_000 {
        client.say(&format!("SET k:{i} {value}"));
    }
    assert_eq!(client.say("CONFIG SET maxmemory-policy volatile-lru"), "+OK¶");
    for i in 0..8_000 {
        client.say(&format!("EXPIRE k:{i} 1000"));
    }
    assert_eq!(client.say("CONFIG SET maxmemory 5mb"), "+OK¶");
    assert_eq!(client.say("LMOVE l m LEFT RIGHT"), "$1¶1¶");
    assert_eq!(client.say("BLMOVE l m LEFT RIGHT 1"), "$1¶2¶");
    assert_eq!(client.say("BRPOPLPUSH l m 1"), "$1¶4¶");
    assert_eq!(client.say("LRANGE m 0 -1"), "*3¶$1¶4¶$1¶1¶$1¶2¶");
}

/// A thousand million elements were drawn, for minutes, until there were more than may be sent.
#[test]
fn elements_that_cannot_be_sent_are_not_drawn() {
    for (setup, taking) in [
        ("SADD k a b", "SRANDMEMBER k -1000000000"),
        ("HSET k a 1 b 2", "HRANDFIELD k -1000000000"),
        ("HSET k a 1 b 2", "HRANDFIELD k -1000000000 WITHVALUES"),
        ("ZADD k 1 a 2 b", "ZRANDMEMBER k -1000000000"),
        ("ZADD k 1 a 2 b", "ZRANDMEMBER k -1000000000 WITHSCORES"),
    ] {
        // The limit that there is if none is set.
        let mut client = Dialogue::new(Version::Resp2);
        client.say(setup);
        let start = std::time::Instant::now();
        assert_eq!(client.say(taking), "", "{taking}");
        assert_eq!(client.closing(), Some(Closing::OutputLimit), "{taking}");
        let took = start.elapsed();
        assert!(took < std::time::Duration::from_secs(2), "{taking} took {took:?}");
        let mut other = client.with_version(Version::Resp2);
        assert!(other.say(&taking.replace(" k ", " none ")).starts_with("*0"), "{taking}");
    }
}

/// Values that patterns name may be long, and many elements may name the same one.
#[test]
fn sorting_gathers_no_more_values_than_a_list_may_have() {
    let config = Config { output_hard_max: HARD_MAX, ..Config::default() };
    let options = Options { value_len_max: 2_000, ..Options::default() };
    for (n, stored) in [(4, Some(":4¶")), (6, None)] {
        let mut client = Dialogue::with_config(Version::Resp2, options.clone(), config.clone());
        client.say(&format!("SET v_1 {}", "v".repeat(400)));
        client.say(&format!("RPUSH l{}", " 1".repeat(n)));
        let reply = client.say("SORT l GET v_* STORE d");
        assert_eq!(reply, stored.unwrap_or_default());
        assert_eq!(client.closing(), stored.is_none().then_some(Closing::OutputLimit));
    }
}
