//! Compares sorted sets with a real `redis-server`: random requests, in both forms of a set, in RESP2 and RESP3.
//!
//! Scores are such as every version of Redis writes alike. Not compared: ZRANK with a score, which Redis 7.0 lacks,
//! random members, and -0, which Redis keeps in large sets only: here a set that becomes large has lost it.
//! Members are compared in order where all scores are equal, as Redis says nothing of other sets.

use crate::differential::{Raw, Redis, assert_equal_replies, n_seeds};
use crate::requests::{Random, show};
use crate::wire::TestServer;

const N_REQUESTS: usize = 6_000;

/// Requests, in which `K` is a key, `M` a member, `S` a score, `E` an end of scores, `L` one of members, `R` a rank.
const REQUESTS: &[&str] = &[
    "ZADD K S M",
    "ZADD K S M S M S M",
    "ZADD K S M S M S M S M S M S M",
    "ZADD K NX S M S M",
    "ZADD K XX CH S M S M",
    "ZADD K GT CH S M S M",
    "ZADD K LT S M",
    "ZADD K NX GT S M",
    "ZADD K INCR S M",
    "ZADD K GT INCR S M",
    "ZADD K XX INCR S M",
    "ZADD K INCR S M S M",
    "ZADD B 0 M 0 M",
    "ZADD K S",
    "ZADD K S M S",
    "ZADD K CH",
    "ZADD K M S",
    "ZINCRBY K S M",
    "ZREM K M M",
    "ZSCORE K M",
    "ZMSCORE K M M M",
    "ZCARD K",
    "ZCOUNT K E E",
    "ZLEXCOUNT B L L",
    "ZRANK K M",
    "ZREVRANK K M",
    "ZRANGE K R R",
    "ZRANGE K R R WITHSCORES",
    "ZRANGE K R R REV WITHSCORES",
    "ZRANGE K E E BYSCORE",
    "ZRANGE K E E BYSCORE REV LIMIT R R WITHSCORES",
    "ZRANGE B L L BYLEX LIMIT R R",
    "ZRANGE B L L BYLEX WITHSCORES",
    "ZRANGE K R R LIMIT R R",
    "ZRANGE K R M",
    "ZRANGESTORE D K R R",
    "ZRANGESTORE D K E E BYSCORE LIMIT R R",
    "ZRANGESTORE D K E E BYSCORE REV LIMIT R R",
    "ZRANGESTORE D K R R WITHSCORES",
    "ZREVRANGE K R R WITHSCORES",
    "ZRANGEBYSCORE K E E WITHSCORES LIMIT R R",
    "ZREVRANGEBYSCORE K E E",
    "ZREVRANGEBYSCORE K E E LIMIT R",
    "ZRANGEBYLEX B L L",
    "ZREVRANGEBYLEX B L L LIMIT R R",
    "ZREMRANGEBYRANK K R R",
    "ZREMRANGEBYSCORE K E E",
    "ZREMRANGEBYLEX B L L",
    "ZPOPMIN K",
    "ZPOPMAX K",
    "ZPOPMIN K R",
    "ZPOPMAX K 2",
    "ZMPOP 2 K K MIN",
    "ZMPOP 1 K MAX COUNT 2",
    "ZMPOP R K MIN COUNT R",
    "ZUNION 2 K K WITHSCORES",
    "ZUNION 2 K K WEIGHTS W W WITHSCORES",
    "ZUNION 2 K K AGGREGATE MAX",
    "ZUNION R K K",
    "ZINTER 2 K K WITHSCORES",
    "ZINTER 2 K K WEIGHTS W W AGGREGATE MIN WITHSCORES",
    "ZDIFF 2 K K WITHSCORES",
    "ZDIFF 2 K K WEIGHTS 1 1",
    "ZINTERCARD 2 K K",
    "ZINTERCARD 2 K K LIMIT R",
    "ZUNIONSTORE D 2 K K",
    "ZUNIONSTORE K 2 K K WEIGHTS W W",
    "ZINTERSTORE D 2 K K AGGREGATE MAX",
    "ZDIFFSTORE D 2 K K",
    "ZUNIONSTORE D R K",
    "ZRANDMEMBER K R M",
    "ZRANDMEMBER none 2",
    "ZSCAN K M",
    "TYPE K",
    "OBJECT ENCODING K",
    "EXISTS K",
    "DEL K",
    "SET K x",
    "GET K",
    "HGET K M",
    "RENAME K D",
    "COPY K D REPLACE",
    "PEXPIRE K 1000000",
    "PERSIST K",
    "EVAL return{redis.call('ZADD',KEYS[1],ARGV[1],ARGV[2]),redis.call('ZRANGE',KEYS[1],0,-1)} 1 K S M",
];

fn word(random: &mut Random, word: &str) -> Vec<u8> {
    let pick = |random: &mut Random, from: &[&str]| {
        from[random.below(from.len() as u64) as usize].as_bytes().to_vec()
    };
    match word {
        "K" | "D" => pick(random, &["z1", "z2", "z3", "z4"]),
        "B" => b"lex".to_vec(),
        "W" => pick(random, &["2", "1.5", "3", "x"]),
        "M" => format!("m{}", random.below(14)).into_bytes(),
        "S" => pick(
            random,
            &["0", "1", "2", "-3", "1.5", "-0.25", "+7", "1e3", "inf", "-inf", "nan", "x", "0x10"],
        ),
        "E" => {
            pick(random, &["-inf", "+inf", "(1", "1", "(0", "2", "(-0.25", "1.5", "7", "x", "(x"])
        }
        "L" => pick(random, &["-", "+", "[m1", "(m1", "[m5", "(m9", "[", "(", "m1", ""]),
        "R" => pick(random, &["0", "1", "2", "3", "-1", "-2", "-4", "9", "100", "x"]),
        other => other.as_bytes().to_vec(),
    }
}

/// Carries what one server dumps to the other.
fn carry(from: &mut Raw, to: &mut Raw, key: &[u8]) {
    let dump = from.ask(&[b"DUMP", key]);
    let payload = dump.strip_prefix(b"$").and_then(|rest| {
        let at = rest.iter().position(|byte| *byte == b'\n')? + 1;
        rest.get(at..rest.len() - 2)
    });
    if let Some(payload) = payload {
        from.ask(&[b"PERSIST", key]);
        let reply = to.ask(&[b"RESTORE", key, b"0", payload, b"REPLACE"]);
        assert!(reply.starts_with(b"+"), "{}", reply.escape_ascii());
    }
}

fn compare(seed: u64, hello: &[u8]) {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    let mut random = Random::new(seed);
    let ask = |ours: &mut Raw, theirs: &mut Raw, args: &[Vec<u8>]| {
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let (a, b) = (ours.ask(&words), theirs.ask(&words));
        (a, b)
    };
    for raw in [&mut ours, &mut theirs] {
        raw.ask(&[b"HELLO", hello]);
        raw.ask(&[b"CONFIG", b"SET", b"zset-max-listpack-entries", b"6"]);
    }
    for i in 0..N_REQUESTS {
        let request = REQUESTS[random.below(REQUESTS.len() as u64) as usize];
        let args: Vec<_> = request.split(' ').map(|text| word(&mut random, text)).collect();
        let (a, b) = ask(&mut ours, &mut theirs, &args);
        assert_equal_replies(&a, &b, || format!("seed {seed}, request {i}: {}", show(&args)));
        if i % 50 == 0 {
            for key in [b"z1", b"z2", b"z3", b"z4"] {
                carry(&mut ours, &mut theirs, key);
                carry(&mut theirs, &mut ours, key);
            }
        }
    }
}

#[test]
fn sorted_sets_get_the_replies_of_redis_in_resp2() {
    (0..n_seeds()).for_each(|seed| compare(seed, b"2"));
}

#[test]
fn sorted_sets_get_the_replies_of_redis_in_resp3() {
    (0..n_seeds()).for_each(|seed| compare(100 + seed, b"3"));
}
