//! Lists, compared with a real `redis-server`: random requests of all their commands, alone, in transactions and in
//! scripts, on both sides of the form's threshold; the payload of each list's DUMP is restored by the other server.
//!
//! OBJECT ENCODING is not compared: before 7.2 Redis has one form of lists.

use crate::differential::{Raw, Redis, n_seeds};
use crate::requests::{Random, show};
use crate::wire::TestServer;

/// Requests of each seed.
const N_REQUESTS: usize = 10_000;

const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"text"];

type Request = Vec<Vec<u8>>;

fn words(words: &[&[u8]]) -> Request {
    words.iter().map(|word| word.to_vec()).collect()
}

fn pick<'a>(random: &mut Random, list: &[&'a [u8]]) -> &'a [u8] {
    list[random.below(list.len() as u64) as usize]
}

fn element(random: &mut Random) -> Vec<u8> {
    match random.below(12) {
        0 => Vec::new(),
        1 => vec![b'x'; random.below(200) as usize],
        // Beyond what a short list takes.
        2 if random.below(20) == 0 => vec![b'l'; 9_000],
        n => (n * 1_000 % 37).to_string().into_bytes(),
    }
}

fn number(random: &mut Random) -> Vec<u8> {
    match random.below(30) {
        0 => b"x".to_vec(),
        1 => b"9223372036854775807".to_vec(),
        2 => b"-9223372036854775808".to_vec(),
        3 => Vec::new(),
        _ => (random.below(24) as i64 - 12).to_string().into_bytes(),
    }
}

fn side(random: &mut Random) -> &'static [u8] {
    pick(random, &[&b"LEFT"[..], b"right", b"Left", b"RIGHT", b"up"])
}

fn random_request(random: &mut Random) -> Request {
    let (key, other) = (pick(random, &KEYS), pick(random, &KEYS));
    let (value, n, m) = (element(random), number(random), number(random));
    let push = pick(random, &[&b"LPUSH"[..], b"RPUSH", b"LPUSHX", b"rpushx"]);
    let pop = pick(random, &[&b"LPOP"[..], b"RPOP"]);
    match random.below(27) {
        0..4 => words(&[push, key, &value]),
        4 => {
            let mut request = words(&[push, key]);
            request.extend((0..random.below(40)).map(|_| element(random)));
            request
        }
        5..7 => words(&[pop, key]),
        7 => words(&[pop, key, &n]),
        8 => words(&[b"LLEN", key]),
        9 => words(&[b"LINDEX", key, &n]),
        10 | 11 => words(&[b"LRANGE", key, &n, &m]),
        12 => words(&[b"LRANGE", key, b"0", b"-1"]),
        13 => words(&[b"LSET", key, &n, &value]),
        14 => {
            let place = pick(random, &[&b"BEFORE"[..], b"after", b"at"]);
            words(&[b"LINSERT", key, place, &element(random), &value])
        }
        15 => words(&[b"LREM", key, &n, &value]),
        16 if random.below(3) == 0 => words(&[b"LTRIM", key, &n, &m]),
        16 => words(&[b"LTRIM", key, b"1", b"-2"]),
        17 | 18 => {
            let mut request = words(&[b"LPOS", key, &value]);
            for option in [&b"RANK"[..], b"COUNT", b"MAXLEN", b"none"] {
                if random.below(3) == 0 {
                    let n = number(random);
                    // As a rank it has no meaning before 7.2, which refuses it.
                    let n = if n == i64::MIN.to_string().as_bytes() { b"0".to_vec() } else { n };
                    request.extend(words(&[option, &n]));
                }
            }
            request
        }
        19 => words(&[b"LMOVE", key, other, side(random), side(random)]),
        20 => words(&[b"RPOPLPUSH", key, other]),
        21 => {
            let mut request = words(&[b"LMPOP", b"2", key, other, side(random)]);
            if random.below(2) == 0 {
                request.extend(words(&[b"COUNT", &n]));
            }
            request
        }
        22 => words(&[pick(random, &[&b"TYPE"[..], b"EXISTS", b"TTL", b"STRLEN"]), key]),
        23 if random.below(4) == 0 => words(&[b"DEL", key]),
        23 => words(&[b"EXPIRE", key, b"1000"]),
        24 => words(&[b"COPY", key, other, b"REPLACE"]),
        25 => words(&[b"RENAME", key, other]),
        _ if random.below(3) == 0 => words(&[b"SET", b"text", &value]),
        _ => words(&[&b"LMPOP"[..], &n, key]),
    }
}

/// The same to both servers: as it is, within a transaction, or by a script.
fn ask(servers: &mut [Raw; 2], random: &mut Random, request: &Request) -> [Vec<Vec<u8>>; 2] {
    let args: Vec<&[u8]> = request.iter().map(|word| &word[..]).collect();
    let how = random.below(12);
    let more = random_request(random);
    servers.each_mut().map(|server| match how {
        0 => {
            let more: Vec<&[u8]> = more.iter().map(|word| &word[..]).collect();
            let requests = [&[&b"MULTI"[..]][..], &args, &more, &[b"EXEC"]];
            requests.iter().map(|args| server.ask(args)).collect()
        }
        1 => {
            let script = b"return redis.pcall(unpack(ARGV))";
            let args = [&[&b"EVAL"[..], script, b"0"], &args[..]].concat();
            vec![server.ask(&args)]
        }
        _ => vec![server.ask(&args)],
    })
}

/// Each server restores what the other one has dumped.
fn exchange(servers: &mut [Raw; 2]) {
    for key in KEYS {
        let dumps = servers.each_mut().map(|server| server.ask(&[b"DUMP", key]));
        for (i, server) in servers.iter_mut().enumerate() {
            let payload = &dumps[1 - i];
            let Some(start) = payload.windows(2).position(|end| end == b"\r\n") else { continue };
            if payload.starts_with(b"$-1") || payload.starts_with(b"_") {
                continue;
            }
            let payload = &payload[start + 2..payload.len() - 2];
            let restored = server.ask(&[b"RESTORE", b"copy", b"0", payload, b"REPLACE"]);
            assert_eq!(restored, b"+OK\r\n", "{} of {key:?}", payload.escape_ascii());
            let read: &[&[u8]] = match server.ask(&[b"TYPE", b"copy"]) {
                kind if kind == b"+list\r\n" => &[b"LRANGE", b"copy", b"0", b"-1"],
                _ => &[b"GET", b"copy"],
            };
            let original: Vec<&[u8]> =
                read.iter().map(|word| if *word == b"copy" { key } else { *word }).collect();
            assert_eq!(server.ask(read), server.ask(&original), "{key:?}");
            server.ask(&[b"DEL", b"copy"]);
        }
    }
}

fn compare(is_resp3: bool, size: &[u8], seed: u64) {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let mut servers = [Raw::connect(server.address), Raw::connect(redis.address)];
    for server in &mut servers {
        if is_resp3 {
            server.ask(&[b"HELLO", b"3"]);
        }
        let set = server.ask(&[b"CONFIG", b"SET", b"list-max-listpack-size", size]);
        assert_eq!(set, b"+OK\r\n");
    }
    let mut random = Random::new(seed);
    for i in 0..N_REQUESTS {
        let request = random_request(&mut random);
        let [ours, theirs] = ask(&mut servers, &mut random, &request);
        if request[0] == b"TTL" {
            continue;
        }
        let text = |replies: &[Vec<u8>]| replies.concat().escape_ascii().to_string();
        assert!(
            ours == theirs,
            "{i}, seed {seed}: {}\n ours: {}\nredis: {}",
            show(&request),
            text(&ours),
            text(&theirs)
        );
        if i % 500 == 0 {
            exchange(&mut servers);
        }
    }
}

#[test]
fn short_and_long_lists_are_as_those_of_redis() {
    for seed in 0..n_seeds() {
        compare(false, b"-2", 1 + 2 * seed);
        compare(true, b"4", 2 + 2 * seed);
    }
}
