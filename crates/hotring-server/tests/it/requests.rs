//! Random requests for data commands: mostly meaningful ones on few keys, so that they interact,
//! and some with wrong options, numbers or argument counts.

use std::time::{SystemTime, UNIX_EPOCH};

use fastrand::Rng;

/// Random numbers from a seed.
pub struct Random(Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Rng::with_seed(seed))
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, list: &[&'a [u8]]) -> &'a [u8] {
        list[self.below(list.len() as u64) as usize]
    }
}

/// The words of a request.
pub fn show(args: &[Vec<u8>]) -> String {
    args.iter().map(|arg| format!("\"{}\" ", arg.escape_ascii())).collect()
}

/// What was asked, with the reply of the other server. It becomes text only when a comparison fails: to show a request
/// takes longer than to ask for it.
#[derive(Default)]
pub struct History(Vec<(Vec<Vec<u8>>, Vec<u8>)>);

impl History {
    pub fn push(&mut self, args: &[Vec<u8>], reply: &[u8]) {
        self.0.push((args.to_vec(), reply.to_vec()));
    }

    pub fn lines(&self) -> impl DoubleEndedIterator<Item = String> {
        self.0.iter().map(|(args, reply)| format!("{} -> {}", show(args), reply.escape_ascii()))
    }

    /// The latest `n` lines.
    pub fn last(&self, n: usize) -> String {
        let mut lines: Vec<String> = self.lines().rev().take(n).collect();
        lines.reverse();
        lines.join("\n")
    }
}

const KEYS: &[&[u8]] =
    &[b"k0", b"k1", b"k2", b"k3", b"k4", b"k5", b"", b"\0\xff\r\n", b"user:1000:a-rather-long-key"];

/// Numbers, near-numbers and text.
const VALUES: &[&[u8]] = &[
    b"0",
    b"1",
    b"-5",
    b"10",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"123456789012345678901234567890",
    b"007",
    b"+1",
    b" 1",
    b"1 ",
    b"-0",
    b"",
    b"a",
    b"abcdefgh",
    b"abcdefghi",
    b"\0\0\0",
    b"\r\n",
    b"\xff\xfe",
    b"3.14",
    b"-1.5",
    b"1e3",
    b"the quick brown fox jumps over the lazy dog and does so again and again and again, 0123456789",
];

const NUMBERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"2",
    b"5",
    b"-3",
    b"10",
    b"100",
    b"-100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"-9223372036854775807",
];

const NO_NUMBERS: &[&[u8]] = &[b"abc", b"", b"1.5", b"+1", b"007", b"-0", b" 1", b"1 ", b"\0"];

/// Keys whose values are always fractions that both servers add exactly: Redis adds in 80-bit
/// floating point, this server in decimal, and for others the last digits differ.
const FLOAT_KEYS: &[&[u8]] = &[b"f0", b"f1"];

const FLOATS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"0.5",
    b"-2.25",
    b"3.0",
    b"5.0e3",
    b"2.5e-1",
    b"100.125",
    b".5",
    b"5.",
    b"+1.5",
    b"-0.0",
    b"1E2",
    b"00.50",
    b"-.75",
    b"17179869184.0625",
];

const NO_FLOATS: &[&[u8]] = &[
    b"abc",
    b"",
    b" 1",
    b"1 ",
    b"inf",
    b"-inf",
    b"+inf",
    b"Infinity",
    b"nan",
    b"1.5.2",
    b"1e",
    b"e1",
    b".",
    b"--1",
    b"1,5",
    b"0.5\0",
    b"+",
];

const TIME_OPTIONS: &[&[u8]] = &[b"EX", b"PX", b"EXAT", b"PXAT", b"ex", b"Px", b"eXAt", b"pxat"];

/// A number: valid, at a limit, or malformed.
fn number(random: &mut Random) -> Vec<u8> {
    let list = if random.chance(12) { NO_NUMBERS } else { NUMBERS };
    random.pick(list).to_vec()
}

fn key(random: &mut Random) -> Vec<u8> {
    random.pick(KEYS).to_vec()
}

fn value(random: &mut Random) -> Vec<u8> {
    if random.chance(30) {
        return (random.below(2_000_000) as i64 - 1_000_000).to_string().into_bytes();
    }
    random.pick(VALUES).to_vec()
}

/// A time in the unit of `option`: far from now, so that the reply does not depend on the moment,
/// or expired, or one that no server accepts.
fn time(random: &mut Random, option: &[u8]) -> Vec<u8> {
    let option = option.to_ascii_lowercase();
    if random.chance(15) {
        let odd: &[&[u8]] = &[
            b"0",
            b"-1",
            b"abc",
            b"",
            b"+5",
            b"1.5",
            b"9223372036854775807",
            b"9223372036854775808",
            b"-9223372036854775808",
            b"9223372036854775",
            b"9223372036854776",
            b"-9223372036854776",
            b"-9223372036854775",
        ];
        let number = random.pick(odd);
        // This server's clock ends after 2^62 milliseconds, Redis's after 2^63.
        return match (option.as_slice(), number) {
            (b"pxat", b"9223372036854775807") => b"4611686018427387903".to_vec(),
            (b"exat", b"9223372036854775") => b"4611686018427387".to_vec(),
            _ => number.to_vec(),
        };
    }
    if option.ends_with(b"at") && random.chance(10) {
        return b"1".to_vec();
    }
    let in_ms = 1_000_000 + random.below(1_000_000_000_000);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let base = if option.ends_with(b"at") { now } else { 0 };
    let unit = if option.starts_with(b"p") { 1 } else { 1000 };
    ((base + in_ms) / unit).to_string().into_bytes()
}

/// Options of SET or GETEX, often in combinations that are refused.
fn set_options(random: &mut Random, words: &[&'static [u8]], args: &mut Vec<Vec<u8>>) {
    for _ in 0..random.below(4) {
        if random.chance(40) {
            let option = random.pick(TIME_OPTIONS);
            args.push(option.to_vec());
            if !random.chance(4) {
                args.push(time(random, option));
            }
        } else {
            args.push(random.pick(words).to_vec());
        }
    }
}

fn expire_options(random: &mut Random, args: &mut Vec<Vec<u8>>) {
    if random.chance(60) {
        let words: &[&[u8]] = &[b"NX", b"XX", b"GT", b"LT", b"nx", b"xX", b"gt", b"lt", b"QQ"];
        for _ in 0..1 + random.below(2) {
            args.push(random.pick(words).to_vec());
        }
    }
}

fn words(name: &str) -> Vec<Vec<u8>> {
    vec![name.as_bytes().to_vec()]
}

/// Fragments of requests: in random order most inputs are malformed somewhere. There is no zero
/// byte, at which Redis ends the input, and no count between the two servers' limits.
const PIECES: &[&[u8]] = &[
    b"*1\r\n",
    b"*2\r\n",
    b"*2\r\n",
    b"*3\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*-2\r\n",
    b"*",
    b"$",
    b"$4\r\nPING\r\n",
    b"$4\r\nPING\r\n",
    b"$4\r\nECHO\r\n",
    b"$5\r\nwords\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"$007\r\n",
    b"$+4\r\n",
    b"$ 4\r\n",
    b"*+1\r\n",
    b"*01\r\n",
    b"*1 \r\n",
    b"*4294967296\r\n",
    b"$536870913\r\n",
    b"$9223372036854775808\r\n",
    b"*99999999999999999999\r\n",
    b"*\r\n",
    b"$\r\n",
    b"PING\r\n",
    b"PING\n",
    b"ECHO ",
    b"\"a b\"",
    b"'c'",
    b"\"",
    b"'",
    b"\\",
    b"\\x41",
    b"x",
    b" ",
    b"\t",
    b"\r",
    b"\n",
    b"\r\n",
    b"+OK\r\n",
    b":1\r\n",
    b"%1\r\n",
    b"_\r\n",
    b"echo hi\r\n",
    b"12",
    b"-",
];

/// Input that is as likely malformed as not.
pub fn random_frames(random: &mut Random) -> Vec<u8> {
    (0..1 + random.below(10)).flat_map(|_| random.pick(PIECES)).copied().collect()
}

/// One request.
pub fn random_request(random: &mut Random) -> Vec<Vec<u8>> {
    let mut args = match random.below(13) {
        0..=3 => string_request(random),
        10 => match random.below(2) {
            0 => return bit_reading(random),
            _ => bit_writing(random),
        },
        11 | 12 => hash_request(random),
        4 => number_request(random),
        5 => part_request(random),
        6 => several_request(random),
        7 => key_request(random),
        _ => expiry_request(random),
    };
    if random.chance(3) {
        args.truncate(1 + random.below(args.len() as u64) as usize);
    }
    if random.chance(2) {
        // Text, because Redis ends a repeated name in an error at a zero byte. Nor a small number:
        // behind PX it would be a race.
        args.push(random.pick(&[b"more", b"", b"0", b"NX", b"with spaces"]).to_vec());
    }
    if random.chance(20) {
        args[0].make_ascii_lowercase();
    }
    args
}

fn string_request(random: &mut Random) -> Vec<Vec<u8>> {
    let names =
        ["GET", "SET", "SET", "SET", "SETNX", "SETEX", "PSETEX", "GETSET", "GETDEL", "GETEX"];
    let name = names[random.below(10) as usize];
    let mut args = words(name);
    args.push(key(random));
    match name {
        "SET" => {
            args.push(value(random));
            let options: &[&[u8]] = &[b"NX", b"XX", b"GET", b"KEEPTTL", b"nx", b"Get", b"PERSIST"];
            set_options(random, options, &mut args);
        }
        "GETEX" => {
            let options: &[&[u8]] = &[b"PERSIST", b"persist", b"KEEPTTL", b"NX"];
            set_options(random, options, &mut args);
        }
        "SETEX" => args.extend([time(random, b"EX"), value(random)]),
        "PSETEX" => args.extend([time(random, b"PX"), value(random)]),
        "SETNX" | "GETSET" => args.push(value(random)),
        _ => {}
    }
    args
}

fn number_request(random: &mut Random) -> Vec<Vec<u8>> {
    let name = ["INCR", "DECR", "INCRBY", "DECRBY", "INCRBYFLOAT"][random.below(5) as usize];
    let mut args = words(name);
    args.push(key(random));
    match name {
        "INCRBY" | "DECRBY" => args.push(number(random)),
        "INCRBYFLOAT" => return float_request(random),
        _ => {}
    }
    args
}

fn float_request(random: &mut Random) -> Vec<Vec<u8>> {
    let key_and_float =
        |random: &mut Random| vec![random.pick(FLOAT_KEYS).to_vec(), random.pick(FLOATS).to_vec()];
    match random.below(10) {
        0 => [words("SET"), key_and_float(random)].concat(),
        1 => [words("PEXPIREAT"), vec![b"f0".to_vec(), time(random, b"PXAT")]].concat(),
        2 => {
            let any = if random.chance(50) { key(random) } else { b"f1".to_vec() };
            [words("INCRBYFLOAT"), vec![any, random.pick(NO_FLOATS).to_vec()]].concat()
        }
        _ => [words("INCRBYFLOAT"), key_and_float(random)].concat(),
    }
}

fn part_request(random: &mut Random) -> Vec<Vec<u8>> {
    let name = ["APPEND", "STRLEN", "GETRANGE", "SUBSTR", "SETRANGE"][random.below(5) as usize];
    let mut args = words(name);
    args.push(key(random));
    match name {
        "APPEND" => args.push(value(random)),
        "GETRANGE" | "SUBSTR" => args.extend([number(random), number(random)]),
        "SETRANGE" => {
            let offset = match random.below(4) {
                0 => number(random),
                // Just above the longest value.
                1 => b"536870912".to_vec(),
                _ => random.below(60).to_string().into_bytes(),
            };
            args.extend([offset, value(random)]);
        }
        _ => {}
    }
    args
}

fn bit_writing(random: &mut Random) -> Vec<Vec<u8>> {
    let offset = |random: &mut Random| match random.below(6) {
        0 => number(random),
        1 => b"4294967296".to_vec(),
        _ => random.below(200).to_string().into_bytes(),
    };
    match random.below(4) {
        0 => [words("GETBIT"), vec![key(random), offset(random)]].concat(),
        1 => {
            let mut args = words("BITOP");
            args.push(random.pick(&[b"AND", b"OR", b"XOR", b"NOT", b"xor", b"NAND"]).to_vec());
            args.extend((0..2 + random.below(3)).map(|_| key(random)));
            args
        }
        _ => {
            let bit = random.pick(&[b"0", b"1", b"1", b"2", b"x"]).to_vec();
            [words("SETBIT"), vec![key(random), offset(random), bit]].concat()
        }
    }
}

/// Without mistakes: Redis 7.0, unlike later versions, does not report them if the key is missing.
fn bit_reading(random: &mut Random) -> Vec<Vec<u8>> {
    let place = |random: &mut Random| (random.below(240) as i64 - 120).to_string().into_bytes();
    let (name, bit) = match random.below(3) {
        0 => ("BITCOUNT", None),
        1 => ("BITPOS", Some(b"0".to_vec())),
        _ => ("BITPOS", Some(b"1".to_vec())),
    };
    let mut args = [words(name), vec![key(random)]].concat();
    let n_places = match (random.below(3), &bit) {
        (n, Some(_)) => n,
        (n, None) => n / 2 * 2,
    };
    args.extend(bit);
    args.extend((0..n_places).map(|_| place(random)));
    if n_places == 2 && random.chance(60) {
        args.push(random.pick(&[b"BIT", b"bit", b"BYTE", b"Byte"]).to_vec());
    }
    args
}

/// Mostly on hashes, sometimes on strings.
fn hash_request(random: &mut Random) -> Vec<Vec<u8>> {
    const HASHES: &[&[u8]] = &[b"h0", b"h1", b"k0"];
    const FIELDS: &[&[u8]] = &[b"f0", b"f1", b"f2", b"f3", b"", b"\0\xff"];
    let field = |random: &mut Random| random.pick(FIELDS).to_vec();
    let names = [
        "HSET",
        "HSET",
        "HMSET",
        "HSETNX",
        "HGET",
        "HMGET",
        "HGETALL",
        "HKEYS",
        "HVALS",
        "HLEN",
        "HEXISTS",
        "HSTRLEN",
        "HDEL",
        "HINCRBY",
        "HINCRBYFLOAT",
        "HSCAN",
        "EXPIRE",
        "TYPE",
    ];
    let name = names[random.below(names.len() as u64) as usize];
    let mut args = [words(name), vec![random.pick(HASHES).to_vec()]].concat();
    match name {
        "HSET" | "HMSET" => {
            for _ in 0..1 + random.below(12) {
                args.extend([field(random), value(random)]);
            }
        }
        "HSETNX" => args.extend([field(random), value(random)]),
        "HGET" | "HEXISTS" | "HSTRLEN" => args.push(field(random)),
        "HMGET" | "HDEL" => args.extend((0..1 + random.below(10)).map(|_| field(random))),
        "HINCRBY" => args.extend([field(random), number(random)]),
        // A field whose value is always a fraction that both servers add exactly.
        "HINCRBYFLOAT" => {
            let floats = if random.chance(20) { NO_FLOATS } else { FLOATS };
            args.extend([b"float".to_vec(), random.pick(floats).to_vec()]);
        }
        "HSCAN" => {
            args.push(random.pick(&[b"0", b"0", b"x", b""]).to_vec());
            let options: &[&[u8]] = &[b"MATCH", b"f*", b"COUNT", b"5", b"0", b"x"];
            args.extend((0..random.below(5)).map(|_| random.pick(options).to_vec()));
        }
        "EXPIRE" => args.push(time(random, b"EX")),
        _ => {}
    }
    args
}

fn several_request(random: &mut Random) -> Vec<Vec<u8>> {
    let names = ["MGET", "MSET", "MSETNX", "DEL", "UNLINK", "EXISTS", "TOUCH"];
    let name = names[random.below(7) as usize];
    let mut args = words(name);
    for _ in 0..1 + random.below(3) {
        args.push(key(random));
        if name.starts_with("MSET") {
            args.push(value(random));
        }
    }
    args
}

fn key_request(random: &mut Random) -> Vec<Vec<u8>> {
    match random.below(7) {
        6 => match random.below(3) {
            0 => {
                // Compared where the encodings have one name: not where Redis remembers an APPEND.
                let words = [&b"HELP me"[..], b"ENCODING", b"freq"];
                let word = random.pick(&words).to_vec();
                vec![b"OBJECT".to_vec(), word, b"no-such-key".to_vec()]
            }
            1 => [words("RESTORE"), vec![key(random), number(random), value(random)]].concat(),
            _ => [words("WAIT"), vec![random.pick(NO_NUMBERS).to_vec(), number(random)]].concat(),
        },
        0 => [words("TYPE"), vec![key(random)]].concat(),
        // Sometimes a hash is put among the strings.
        1 if random.chance(20) => [words("COPY"), vec![b"h0".to_vec(), key(random)]].concat(),
        1 => [words("RENAME"), vec![key(random), key(random)]].concat(),
        2 => [words("RENAMENX"), vec![key(random), key(random)]].concat(),
        3 => {
            let cursors: &[&[u8]] = &[b"x", b"1x", b"18446744073709551616", b" 1"];
            let options: &[&[u8]] = &[b"MATCH", b"COUNT", b"TYPE", b"0", b"abc", b"-1"];
            let mut args = [words("SCAN"), vec![random.pick(cursors).to_vec()]].concat();
            if random.chance(70) {
                // With a valid cursor, only refusals have a unique reply.
                args[1] = b"0".to_vec();
                args.extend([b"COUNT".to_vec(), random.pick(&[b"0", b"-1", b"abc", b""]).to_vec()]);
                args.extend((0..random.below(3)).map(|_| random.pick(options).to_vec()));
            }
            args
        }
        _ => {
            let mut args = [words("COPY"), vec![key(random), key(random)]].concat();
            let options: &[&[u8]] = &[b"REPLACE", b"replace", b"DB", b"db", b"0", b"0", b"1", b"x"];
            let numbers: &[&[u8]] =
                &[b"0", b"0", b"0", b"1", b"-1", b"x", b"2147483648", b"9223372036854775808"];
            match random.below(4) {
                0 => {}
                1 => args.push(b"REPLACE".to_vec()),
                2 => args.extend([b"DB".to_vec(), random.pick(numbers).to_vec()]),
                _ => args.extend((0..random.below(4)).map(|_| random.pick(options).to_vec())),
            }
            args
        }
    }
}

fn expiry_request(random: &mut Random) -> Vec<Vec<u8>> {
    let names = [
        "EXPIRE",
        "PEXPIRE",
        "EXPIREAT",
        "PEXPIREAT",
        "TTL",
        "PTTL",
        "EXPIRETIME",
        "PEXPIRETIME",
        "PERSIST",
    ];
    let name = names[random.below(9) as usize];
    let mut args = words(name);
    args.push(key(random));
    let option: &[u8] = match name {
        "EXPIRE" => b"EX",
        "PEXPIRE" => b"PX",
        "EXPIREAT" => b"EXAT",
        "PEXPIREAT" => b"PXAT",
        _ => return args,
    };
    args.push(time(random, option));
    expire_options(random, &mut args);
    args
}
