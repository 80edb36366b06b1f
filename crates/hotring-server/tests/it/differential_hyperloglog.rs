//! Compares estimated counts with a real `redis-server`: replies, and after each request the value byte for byte.

use crate::differential::{Raw, Redis, assert_equal_replies, n_seeds};
use crate::requests::{Random, show};
use crate::wire::TestServer;

const N_REQUESTS: usize = 1_000;
const KEYS: [&str; 4] = ["h1", "h2", "h3", "h4"];

/// Requests, in which `K` is a key, and `E` and `EE` are one and many elements.
const REQUESTS: &[&str] = &[
    "PFADD K",
    "PFADD K E",
    "PFADD K E E E",
    "PFADD K EE",
    "PFADD K EE",
    "PFADD K EE",
    "PFCOUNT K",
    "PFCOUNT K",
    "PFCOUNT K K K",
    "PFCOUNT K none",
    "PFMERGE K",
    "PFMERGE K K",
    "PFMERGE K K none K",
    "SETRANGE K B C",
    "APPEND K E",
    "EXPIRE K 1000",
    "DEL K",
    "DEL K",
    "SET K E",
    "DEL K",
    "RPUSH K E",
    "DEL K",
    "TYPE K",
    "CONFIG SET hll-sparse-max-bytes S",
];

fn words(random: &mut Random, word: &str) -> Vec<Vec<u8>> {
    let element = |random: &mut Random| {
        let len = random.below(20) as usize;
        let number = random.below(1 << 20);
        let mut element = format!("{number:x}").into_bytes();
        element.resize(len.max(element.len()), b'.');
        element
    };
    match word {
        "K" => vec![KEYS[random.below(KEYS.len() as u64) as usize].as_bytes().to_vec()],
        "E" => vec![element(random)],
        "EE" => (0..random.below(700)).map(|_| element(random)).collect(),
        "S" => vec![["0", "40", "3000", "20000"][random.below(4) as usize].into()],
        "B" => vec![random.below(24).to_string().into()],
        "C" => vec![vec![[0, 1, 0x40, 0x80, 0xff][random.below(5) as usize]]],
        other => vec![other.as_bytes().to_vec()],
    }
}

fn compare(seed: u64, hello: &[u8]) {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (mut ours, mut theirs) = (Raw::connect(server.address), Raw::connect(redis.address));
    let mut random = Random::new(seed);
    for raw in [&mut ours, &mut theirs] {
        raw.ask(&[b"HELLO", hello]);
    }
    for i in 0..N_REQUESTS {
        let request = REQUESTS[random.below(REQUESTS.len() as u64) as usize];
        let args: Vec<Vec<u8>> =
            request.split(' ').flat_map(|text| words(&mut random, text)).collect();
        let mut both = |args: &[&[u8]]| {
            let (a, b) = (ours.ask(args), theirs.ask(args));
            assert_equal_replies(&a, &b, || {
                format!("seed {seed}, request {i}: {} {request}", show(&first_of(args)))
            });
        };
        both(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for key in KEYS {
            both(&[b"GET", key.as_bytes()]);
        }
        if i % 50 == 0 {
            carry(&mut ours, &mut theirs);
        }
    }
}

/// The first few of a request.
fn first_of(args: &[&[u8]]) -> Vec<Vec<u8>> {
    args.iter().take(6).map(|arg| arg.to_vec()).collect()
}

/// Each server reads what the other one has dumped.
fn carry(ours: &mut Raw, theirs: &mut Raw) {
    for key in KEYS {
        let key = key.as_bytes();
        for is_ours in [true, false] {
            let (from, to) =
                if is_ours { (&mut *ours, &mut *theirs) } else { (&mut *theirs, &mut *ours) };
            let dump = from.ask(&[b"DUMP", key]);
            let at = dump.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            if dump.starts_with(b"$") && at < dump.len() {
                let payload = &dump[at..dump.len() - 2];
                let reply = to.ask(&[b"RESTORE", key, b"0", payload, b"REPLACE"]);
                assert!(reply.starts_with(b"+"), "{}", reply.escape_ascii());
            }
        }
    }
}

#[test]
fn estimated_counts_are_those_of_redis_in_resp2() {
    (0..n_seeds()).for_each(|seed| compare(seed, b"2"));
}

#[test]
fn estimated_counts_are_those_of_redis_in_resp3() {
    (0..n_seeds()).for_each(|seed| compare(100 + seed, b"3"));
}
