//! Compares the events of changes with a real `redis-server`: names, keys and order, of each command of lists, sets,
//! sorted sets and hashes.

use crate::differential::{Raw, Redis};
use crate::wire::TestServer;

/// Requests that are run one after the other, from no keys on.
const REQUESTS: &[&str] = &[
    // Lists.
    "RPUSH l a b c d e f",
    "LPUSH l x y",
    "LPUSHX l z",
    "RPUSHX l z",
    "LPUSHX none z",
    "RPUSHX none z",
    "LINSERT l BEFORE a p",
    "LINSERT l AFTER none p",
    "LSET l 0 q",
    "LREM l 0 q",
    "LREM l 0 none",
    "LTRIM l 0 -2",
    "LTRIM l 0 -1",
    "LPOP l",
    "RPOP l",
    "LPOP l 2",
    "RPOP l 0",
    "LPOP none",
    "LMOVE l m LEFT RIGHT",
    "LMOVE l m RIGHT LEFT",
    "LMOVE m m LEFT RIGHT",
    "RPOPLPUSH l m",
    "RPOPLPUSH m m",
    "BLPOP m l 0",
    "BRPOP m l 0",
    "RPUSH m 1 2 3 4 5 6",
    "BLMOVE m l LEFT LEFT 0",
    "BRPOPLPUSH m l 0",
    "LMPOP 2 none m LEFT",
    "LMPOP 1 m RIGHT COUNT 2",
    "BLMPOP 0 1 l RIGHT",
    "BLMPOP 0 1 l LEFT COUNT 99",
    "DEL l m",
    "RPUSH l a",
    "LREM l 1 a",
    "RPUSH l a",
    "LTRIM l 5 9",
    "RPUSH l a",
    "RPOPLPUSH l m",
    "LMOVE m l LEFT LEFT",
    "RPUSH l b",
    "LPOP l 5",
    "RPUSH l 3 1 2",
    "SORT l STORE sorted",
    "SORT none STORE sorted",
    "LRANGE l 0 -1",
    "DEL l",
    // Sets.
    "SADD s a b c d e f",
    "SADD s a",
    "SREM s a none",
    "SREM s none",
    "SMOVE s t b",
    "SADD t c",
    "SMOVE s t c",
    "SMOVE s t none",
    "SMOVE none t c",
    "SMOVE t t c",
    "SADD u one",
    "SMOVE u v one",
    "SMOVE v t one",
    "SADD u b",
    "SMOVE u t b",
    "SPOP s 1",
    "SPOP s 0",
    "SPOP t 99",
    "SADD t 1 2",
    "SPOP t",
    "SPOP t",
    "SPOP none",
    "SADD s 1 2 3",
    "SADD t 2 3 4",
    "SINTERSTORE to s t",
    "SUNIONSTORE to s t",
    "SDIFFSTORE to s t",
    "SDIFFSTORE to s s",
    "SINTERSTORE to s none",
    "SET to text",
    "SUNIONSTORE to s t",
    "DEL to s t",
    "SADD s x",
    "SREM s x",
    "SISMEMBER s x",
    // Sorted sets.
    "ZADD z 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h",
    "ZADD z 1 a",
    "ZADD z XX 9 none",
    "ZADD z XX CH 9 a",
    "ZADD z NX 1 a 1 i",
    "ZADD z GT 1 a",
    "ZADD z INCR 1 a",
    "ZADD z INCR 0 a",
    "ZADD z NX INCR 1 a",
    "ZADD z INCR 1 new",
    "ZADD y INCR 1 new",
    "ZINCRBY z 2 a",
    "ZINCRBY z 0 a",
    "ZINCRBY z 2 newer",
    "ZREM z newer none",
    "ZREM z none",
    "ZPOPMIN z",
    "ZPOPMAX z",
    "ZPOPMIN z 0",
    "ZPOPMIN none",
    "ZMPOP 2 none z MIN",
    "ZMPOP 1 z MAX",
    "BZMPOP 0 1 z MIN",
    "BZMPOP 0 1 z MAX",
    "BZPOPMIN z 0",
    "BZPOPMAX z 0",
    "ZMPOP 1 y MAX COUNT 9",
    "ZADD y 1 m",
    "BZMPOP 0 1 y MAX COUNT 9",
    "ZADD y 1 m",
    "BZPOPMAX y 0",
    "ZADD y 1 m",
    "ZPOPMIN y",
    "DEL z",
    "ZADD z 1 a 2 b 3 c 4 d 5 e",
    "ZREMRANGEBYRANK z 0 0",
    "ZREMRANGEBYSCORE z 2 2",
    "ZREMRANGEBYSCORE z 99 100",
    "ZADD y 0 a 0 b 0 c",
    "ZREMRANGEBYLEX y [a [b",
    "ZREMRANGEBYLEX y - +",
    "ZADD y 1 c 2 x",
    "ZUNIONSTORE to 2 z y",
    "ZINTERSTORE to 2 z y",
    "ZDIFFSTORE to 2 z y",
    "ZRANGESTORE to z 0 -1",
    "ZRANGESTORE to z 9 10",
    "ZINTERSTORE to 2 z none",
    "ZDIFFSTORE to 2 z z",
    "ZADD to 1 x",
    "ZDIFFSTORE to 2 z z",
    "ZREM y c x",
    "ZREMRANGEBYRANK z 0 -1",
    // Hashes.
    "HSET h a 1 b 2",
    "HSET h a 1",
    "HSETNX h a 2",
    "HSETNX h c 2",
    "HMSET h d 1 e 2",
    "HINCRBY h a 5",
    "HINCRBY h a 0",
    "HINCRBYFLOAT h a 0.5",
    "HDEL h none",
    "HDEL h a b",
    "HGETALL h",
    "HRANDFIELD h",
    "HDEL h c d e",
    // What they have in common.
    "RPUSH l 1",
    "SADD s 1",
    "ZADD z 1 1",
    "HSET h 1 1",
    "EXPIRE l 100",
    "PEXPIRE s 100000",
    "PERSIST s",
    "RENAME l m",
    "RENAMENX z y",
    "COPY h g",
    "COPY h g REPLACE",
    "COPY h g DB 1",
    "MOVE m 1",
    "EXPIRE h -1",
    "PEXPIREAT g 1",
    "GETDEL none",
    "UNLINK s y",
    // Several in one.
    "EVAL redis.call('rpush','l',1)redis.call('sadd','s',1)redis.call('smove','s','t',1)redis.call('lpop','l') 0",
    "MULTI",
    "ZADD z 1 a 2 b",
    "ZMPOP 1 z MAX",
    "ZADD z INCR 2 a",
    "ZPOPMIN z",
    "EXEC",
];

/// The messages of a listener up to a mark, as `channel message`.
fn heard(listener: &mut Raw, marker: &mut Raw) -> Vec<String> {
    marker.ask(&[b"PUBLISH", b"mark", b"here"]);
    let mut heard = Vec::new();
    loop {
        let message = listener.reply();
        let parts: Vec<_> = message.split(|byte| *byte == b'\n').collect();
        let part = |at: usize| String::from_utf8_lossy(parts[at]).trim_end().to_string();
        if part(2) == "message" {
            return heard;
        }
        heard.push(format!("{} {}", part(6), part(8)));
    }
}

#[test]
fn each_command_has_the_events_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let mut both = [server.address, redis.address].map(|address| {
        let [mut writer, mut listener, marker] = [(); 3].map(|()| Raw::connect(address));
        writer.ask(&[b"CONFIG", b"SET", b"notify-keyspace-events", b"KEA"]);
        listener.ask(&[b"SUBSCRIBE", b"mark"]);
        listener.ask(&[b"PSUBSCRIBE", b"__key*"]);
        (writer, listener, marker)
    });
    let mut differ = Vec::new();
    for line in REQUESTS {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let [ours, theirs] = both.each_mut().map(|(writer, listener, marker)| {
            let reply = writer.ask(&words).escape_ascii().to_string();
            (reply, heard(listener, marker))
        });
        // Members are drawn at random by these.
        let is_random = line.starts_with("SPOP") || line.starts_with("HRANDFIELD");
        if ours.1 != theirs.1 || !is_random && ours.0 != theirs.0 {
            differ.push(format!("{line}:\n  {ours:?}\n  {theirs:?}"));
        }
    }
    assert!(differ.is_empty(), "here, and by Redis:\n{}", differ.join("\n"));
}
