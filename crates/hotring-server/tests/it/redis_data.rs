//! What the tests of links to a Redis write to it, and how they compare it with hotring.

use std::time::Duration;

use fastrand::Rng;

use crate::differential::Raw;
use crate::redis_link::say;

/// What a server holds under a key: database, key and type, the value in canonical order, and expiry.
#[derive(PartialEq)]
pub struct Held {
    name: String,
    value: Vec<u8>,
    expiry: Vec<u8>,
}

/// Everything that a server holds.
pub fn all(server: &mut Raw, databases: usize) -> Vec<Held> {
    let mut found = Vec::new();
    for database in 0..databases {
        say(server, &format!("SELECT {database}"));
        let mut keys = strings(&server.ask(&[b"KEYS", b"*"]));
        keys.sort();
        for key in keys {
            let kind = String::from_utf8_lossy(&server.ask(&[b"TYPE", &key])).trim().to_string();
            let value = match kind.as_str() {
                "+string" => server.ask(&[b"GET", &key]),
                "+list" => server.ask(&[b"LRANGE", &key, b"0", b"-1"]),
                "+set" => sorted(&server.ask(&[b"SMEMBERS", &key]), 1),
                "+hash" => sorted(&server.ask(&[b"HGETALL", &key]), 2),
                "+zset" => scores(&server.ask(&[b"ZRANGE", &key, b"0", b"-1", b"WITHSCORES"])),
                other => panic!("{other}"),
            };
            let expiry = server.ask(&[b"PEXPIRETIME", &key]);
            let name = format!("{database} {} {kind}", key.escape_ascii());
            found.push(Held { name, value, expiry });
        }
    }
    say(server, "SELECT 0");
    found
}

impl Held {
    /// As text, with the value from where the other's differs.
    fn beside(&self, other: &Held) -> String {
        let differs = self.value.iter().zip(&other.value).position(|(a, b)| a != b).unwrap_or(0);
        let around = &self.value[differs.saturating_sub(40)..];
        let around = &around[..around.len().min(200)];
        format!("{} {} {}", self.name, around.escape_ascii(), self.expiry.escape_ascii())
    }
}

/// The strings of an array.
fn strings(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = reply;
    let mut strings = Vec::new();
    while let Some(part) = hotring_protocol::read_part(&mut rest) {
        if let hotring_protocol::Part::Bulk(text) = part {
            strings.push(text.to_vec());
        }
    }
    strings
}

/// Members with the bits of their scores: Redis 7.0 writes some scores with more digits than they need.
fn scores(reply: &[u8]) -> Vec<u8> {
    let strings = strings(reply);
    let bits = |score: &[u8]| {
        let score: f64 = std::str::from_utf8(score).unwrap().parse().unwrap();
        score.to_bits()
    };
    let entry = |pair: &[Vec<u8>]| format!("{} {:x}\n", pair[0].escape_ascii(), bits(&pair[1]));
    strings.chunks(2).map(entry).collect::<String>().into_bytes()
}

/// Groups of `len` strings of an array, sorted.
fn sorted(reply: &[u8], len: usize) -> Vec<u8> {
    let strings = strings(reply);
    let mut groups: Vec<&[Vec<u8>]> = strings.chunks(len).collect();
    groups.sort();
    groups.concat().join(&b'\n')
}

#[track_caller]
pub fn assert_same(redis: &mut Raw, hotring: &mut Raw, databases: usize) {
    // Random writes set times of up to 260 ms, which must not pass between the two.
    std::thread::sleep(Duration::from_millis(300));
    let (theirs, ours) = (all(redis, databases), all(hotring, databases));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert!(
            theirs == ours,
            "redis:   {}\nhotring: {}",
            theirs.beside(ours),
            ours.beside(theirs)
        );
    }
    assert_eq!(theirs.len(), ours.len());
}

/// Writes keys of all types, with encodings on both sides of their thresholds, in several databases.
pub fn fill(redis: &mut Raw, random: &mut Rng) {
    for database in [0, 1, 9] {
        say(redis, &format!("SELECT {database}"));
        for len in [1, 2, 20, 100, 127, 128, 129, 600] {
            for wide in [3, 63, 64, 65, 300] {
                let name = format!("{len}:{wide}");
                let text = |i: usize| {
                    let head = format!("{i}:");
                    let tail = "x".repeat(wide - head.len().min(wide));
                    (head + &tail).into_bytes()
                };
                let all: Vec<Vec<u8>> = (0..len).map(text).collect();
                let mut words: Vec<Vec<u8>> = vec![b"RPUSH".to_vec(), format!("l:{name}").into()];
                words.extend(all.iter().cloned());
                send(redis, &words);
                (words[0], words[1]) = (b"SADD".to_vec(), format!("s:{name}").into());
                send(redis, &words);
                let mut words: Vec<Vec<u8>> = vec![b"HSET".to_vec(), format!("h:{name}").into()];
                all.iter().for_each(|one| words.extend([one.clone(), text(random.usize(..9))]));
                send(redis, &words);
                let mut words: Vec<Vec<u8>> = vec![b"ZADD".to_vec(), format!("z:{name}").into()];
                for one in &all {
                    let score =
                        [random.f64().to_string(), random.i32(..).to_string(), "-inf".into()];
                    words.extend([score[random.usize(..3)].clone().into(), one.clone()]);
                }
                send(redis, &words);
            }
            let ints: Vec<String> =
                (0..len).map(|i| (i as i64 * random.i64(1..1 << 40)).to_string()).collect();
            say(redis, &format!("SADD i:{len} {}", ints.join(" ")));
            say(redis, &format!("RPUSH n:{len} {}", ints.join(" ")));
            say(redis, &format!("SETRANGE t:{len} {} end", len * 100));
            say(redis, &format!("SET c:{len} {}", "abc".repeat(len * 50)));
            say(redis, &format!("PFADD p:{len} {}", ints.join(" ")));
            say(redis, &format!("SETBIT b:{len} {} 1", len * 1000));
            say(
                redis,
                &format!("GEOADD g:{len} 13.361389 38.115556 Palermo {} 37.5 x", len as f64 / 10.0),
            );
        }
        for number in
            ["0", "-1", "127", "128", "-32769", "2147483648", "9223372036854775807", "1.5", ""]
        {
            redis.ask(&[b"SET", format!("v:{number}").as_bytes(), number.as_bytes()]);
        }
        redis.ask(&[b"SET", b"\x00\xff\r\n", &[0xff; 70_000]]);
        say(redis, "SET e:1 v PX 100000000");
        say(redis, "SET e:2 v EXAT 99999999999");
        say(redis, "EXPIRE l:1:3 1000");
        say(redis, "PEXPIREAT h:600:300 99999999999999");
    }
    say(redis, "SELECT 0");
}

fn send(redis: &mut Raw, words: &[Vec<u8>]) {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let reply = redis.ask(&words);
    assert!(reply[0] != b'-', "{}", reply.escape_ascii());
}

/// Random writes of all types, for the stream.
pub fn write(redis: &mut Raw, random: &mut Rng) {
    let key = format!("k{}", random.usize(..40));
    let (a, b) = (random.usize(..30), random.usize(..1000));
    let line = match random.usize(..30) {
        0 => format!("SELECT {}", [0, 0, 1, 5][random.usize(..4)]),
        1 => format!("SET {key} {b}"),
        2 => format!("SET {key} {b} PX {}", 1 + b / 4),
        3 => format!("DEL {key}"),
        4 => format!("INCRBY s{key} {b}"),
        5 => format!("APPEND s{key} x{b}"),
        6 => format!("LPUSH l{key} {a} {b}"),
        7 => format!("RPOPLPUSH l{key} l{}", random.usize(..5)),
        8 => format!("LPOP l{key}"),
        9 => format!("SADD m{key} {a} {b}"),
        10 => format!("SPOP m{key} 2"),
        11 => format!("HSET h{key} {a} {b}"),
        12 => format!("HINCRBYFLOAT h{key} f {b}.5"),
        13 => format!("HDEL h{key} {a}"),
        14 => format!("ZADD z{key} {b} {a}"),
        15 => format!("ZINCRBY z{key} 1.25 {a}"),
        16 => format!("ZPOPMIN z{key}"),
        17 => format!("ZUNIONSTORE z{} 2 z{key} z1", random.usize(..5)),
        18 => format!("SUNIONSTORE m{} m{key} m1", random.usize(..5)),
        19 => format!("EXPIRE h{key} {}", 1000 + a),
        20 => format!("PERSIST h{key}"),
        21 => format!("PFADD p{key} {a} {b}"),
        22 => format!("SETBIT b{key} {b} 1"),
        23 => format!("RENAME l{key} l{}", random.usize(..5)),
        24 => format!("COPY h{key} h{} REPLACE", random.usize(..5)),
        25 => {
            say(redis, "MULTI");
            say(redis, &format!("INCR n{key}"));
            say(redis, &format!("RPUSH l{key} {b}"));
            "EXEC".to_string()
        }
        26 => {
            let script = b"redis.call('incr', KEYS[1]) redis.call('expire', KEYS[1], 100) return redis.call('spop', KEYS[2])";
            redis.ask(&[b"EVAL", script, b"2", b"n1", b"m1"]);
            "PING".to_string()
        }
        27 => format!("GETEX {key} PX {}", 10 + b / 4),
        28 => format!("MOVE {key} 3"),
        _ => format!("BITFIELD b{key} SET u8 {a} {a}"),
    };
    say(redis, &line);
}
