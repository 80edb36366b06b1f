//! Compares the commands for sets with a real `redis-server`: random requests get the same replies, with the members of
//! a set in any order, and each server restores what the other dumped.

use hotring_protocol::{Part, read_part};

use crate::differential::{Raw, Redis, n_seeds};
use crate::requests::{History, Random};
use crate::wire::TestServer;

/// Requests of each seed.
const N_REQUESTS: usize = 10_000;
const KEYS: [&str; 5] = ["a", "b", "c", "d", "text"];

fn member(random: &mut Random) -> String {
    match random.below(8) {
        0..5 => random.below(12).to_string(),
        5 => format!("-{}", random.below(100_000)),
        6 => (random.below(5) << 40).to_string(),
        _ => ["x", "", "007", "a longer member", "9223372036854775808"][random.below(5) as usize]
            .into(),
    }
}

fn request(random: &mut Random) -> Vec<Vec<u8>> {
    let key = |random: &mut Random| KEYS[random.below(KEYS.len() as u64) as usize].to_string();
    let keys =
        |random: &mut Random| (0..1 + random.below(3)).map(|_| key(random)).collect::<Vec<_>>();
    let members =
        |random: &mut Random| (0..1 + random.below(4)).map(|_| member(random)).collect::<Vec<_>>();
    let count = ["0", "1", "-1", "x", "1000"][random.below(5) as usize].to_string();
    let word = |text: &str| vec![text.to_string()];
    let many = |random: &mut Random| {
        let (start, n) = (random.below(500), 100 + random.below(450));
        (start..start + n).map(|n| n.to_string()).collect::<Vec<_>>()
    };
    let k = word(&key(random));
    let words = match random.below(40) {
        0..8 => [word("SADD"), k, members(random)].concat(),
        8 => [word("SADD"), k, many(random)].concat(),
        9..12 => [word("SREM"), k, members(random)].concat(),
        12 => [word("SREM"), k, many(random)].concat(),
        13 => [word("SISMEMBER"), k, word(&member(random))].concat(),
        14 => [word("SMISMEMBER"), k, members(random)].concat(),
        15 => [word("SCARD"), k].concat(),
        16 => [word("SMEMBERS"), k].concat(),
        17 => [word("SPOP"), k, word(["1000", "x", "-1", "0"][random.below(4) as usize])].concat(),
        18 => [word("SRANDMEMBER"), k, word(&count)].concat(),
        19 => [word("SMOVE"), k, word(&key(random)), word(&member(random))].concat(),
        20..22 => [word("SINTER"), keys(random)].concat(),
        22..24 => [word("SUNION"), keys(random)].concat(),
        24..26 => [word("SDIFF"), keys(random)].concat(),
        26 => [word("SINTERSTORE"), k, keys(random)].concat(),
        27 => [word("SUNIONSTORE"), k, keys(random)].concat(),
        28 => [word("SDIFFSTORE"), k, keys(random)].concat(),
        29 => {
            let keys = keys(random);
            let n = (keys.len() as u64 + random.below(4) / 3).to_string();
            let limits = ["LIMIT 0", "LIMIT 2", "LIMIT -1", "LIMIT", "FOO 1", ""];
            let limit = limits[random.below(6) as usize];
            let limit = limit.split_whitespace().map(String::from).collect();
            [word("SINTERCARD"), word(&n), keys, limit].concat()
        }
        30 => [word("SSCAN"), k, word("0"), word("COUNT"), word(&count)].concat(),
        31 => [word("SET"), word("text"), word("v")].concat(),
        32 => [word("TYPE"), k].concat(),
        33 => {
            [word("PEXPIREAT"), k, word(["1", "99999999999999"][random.below(2) as usize])].concat()
        }
        34 => [word("TTL"), k].concat(),
        35 => [word("DEL"), k].concat(),
        36 => [word("OBJECT"), word("ENCODING"), k].concat(),
        37 => [word("SADD"), k].concat(),
        38 => {
            let script =
                "return redis.call('SADD', KEYS[1], ARGV[1]) + redis.call('SCARD', KEYS[1])";
            [word("EVAL"), word(script), word("1"), k, word(&member(random))].concat()
        }
        _ => [word("EXISTS"), k].concat(),
    };
    words.into_iter().map(String::into_bytes).collect()
}

/// The bytes of each part of a reply, sorted.
fn parts(mut reply: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    loop {
        let before = reply;
        if read_part(&mut reply).is_none() {
            parts.sort();
            return parts;
        }
        parts.push(&before[..before.len() - reply.len()]);
    }
}

fn same(args: &[Vec<u8>], ours: &[u8], theirs: &[u8]) -> bool {
    // Most are, and to take the others apart takes long.
    ours == theirs || same_in_any_order(args, ours, theirs)
}

fn same_in_any_order(args: &[Vec<u8>], ours: &[u8], theirs: &[u8]) -> bool {
    match args[0].as_slice() {
        // Random: as many of them.
        b"SRANDMEMBER" => parts(ours).len() == parts(theirs).len() && ours[0] == theirs[0],
        // Redis shows a long set in parts, this server in others.
        b"SSCAN" if ours[0] == b'*' => {
            let is_whole = |reply: &[u8]| reply.starts_with(b"*2\r\n$1\r\n0\r\n");
            theirs[0] == b'*'
                && (!is_whole(theirs) || !is_whole(ours) || parts(ours) == parts(theirs))
        }
        b"SMEMBERS" | b"SINTER" | b"SUNION" | b"SDIFF" | b"SPOP" => parts(ours) == parts(theirs),
        // Before 7.2, Redis has no lists of members.
        b"OBJECT" => ours == b"$8\r\nlistpack\r\n" && theirs == b"$9\r\nhashtable\r\n",
        b"TTL" => ours[..2] == theirs[..2],
        _ => false,
    }
}

fn compare(seed: u64, hello: &[u8]) {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    for raw in [&mut ours, &mut theirs] {
        assert!(!raw.ask(&[b"HELLO", hello]).starts_with(b"-"));
    }
    let mut random = Random::new(seed);
    let mut history = History::default();
    let mut ask = |args: &[Vec<u8>]| {
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let (our, their) = (ours.ask(&words), theirs.ask(&words));
        history.push(args, &their);
        assert!(
            same(args, &our, &their),
            "seed {seed}\n ours: {}\nredis: {}\nbefore:\n{}",
            our.escape_ascii(),
            their.escape_ascii(),
            history.last(30),
        );
        their
    };
    for _ in 0..N_REQUESTS {
        match random.below(50) {
            0 => {
                ask(&[b"MULTI".to_vec()]);
                for _ in 0..3 {
                    // What is listed in the reply of EXEC has an order.
                    let args = request(&mut random);
                    if [&b"SADD"[..], b"SREM", b"SMOVE", b"SCARD", b"SINTERSTORE"]
                        .contains(&&args[0][..])
                    {
                        ask(&args);
                    }
                }
                ask(&[b"EXEC".to_vec()]);
            }
            _ => _ = ask(&request(&mut random)),
        }
    }
}

#[test]
fn sets_get_the_replies_of_redis() {
    for seed in 0..n_seeds() {
        compare(1 + 2 * seed, b"2");
        compare(2 + 2 * seed, b"3");
    }
}

/// The string in a reply.
fn bulk(reply: &[u8]) -> Vec<u8> {
    match read_part(&mut &reply[..]) {
        Some(Part::Bulk(bytes)) => bytes.to_vec(),
        other => panic!("not a string: {other:?}"),
    }
}

#[test]
fn each_restores_the_sets_of_the_other() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let mut pair = [Raw::connect(server.address), Raw::connect(redis.address)];
    let cases: [Vec<String>; 6] = [
        vec!["1".into(), "-5".into()],
        vec!["1".into(), "70000".into(), "-2147483649".into()],
        vec!["a".into(), "1".into(), String::new()],
        (0..700).map(|n| n.to_string()).collect(),
        (0..300).map(|n| format!("member {n}")).collect(),
        vec!["x".repeat(5_000)],
    ];
    for (i, members) in cases.iter().enumerate() {
        for from in [0, 1] {
            let mut words = vec![b"SADD".to_vec(), format!("from {i}").into_bytes()];
            words.extend(members.iter().map(|member| member.clone().into_bytes()));
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            pair[from].ask(&words);
            let dumped = bulk(&pair[from].ask(&[b"DUMP", words[1]]));
            let restored = pair[1 - from].ask(&[b"RESTORE", b"to", b"0", &dumped, b"REPLACE"]);
            assert_eq!(restored, b"+OK\r\n", "{i} {from}");
            let was = pair[from].ask(&[b"SMEMBERS", words[1]]);
            let is = pair[1 - from].ask(&[b"SMEMBERS", b"to"]);
            assert_eq!(parts(&is), parts(&was), "{i} {from}");
        }
    }
}
