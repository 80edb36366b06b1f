//! Fuzzes RESTORE of every type. Nothing panics. A refused value leaves the key unchanged. A stored value is like any
//! other: it can be read, changed and removed, and DUMP and RESTORE preserve it, also with low limits of the packed
//! forms.
//!
//! The input is a value as in an RDB file, without its key: the byte of its type, then the value. The target appends
//! the version and the checksum, which a fuzzer would hardly find.
#![no_main]

use std::cell::RefCell;

use hotring_commands::rdb::seal;
use hotring_protocol::read_part;
use hotring_server::Config;
use hotring_server::fuzzing::{Connection, InProcess};
use libfuzzer_sys::fuzz_target;

/// The settings that limit the packed forms of containers.
const LIMITS: &[&[u8]] = &[
    b"hash-max-listpack-entries",
    b"zset-max-listpack-entries",
    b"set-max-intset-entries",
    b"set-max-listpack-entries",
    b"list-max-listpack-size",
];

struct World {
    server: InProcess,
    client: Connection,
}

impl World {
    fn new() -> Self {
        let server = InProcess::new(Config { bulk_len_max: 1 << 20, ..Config::default() });
        let client = server.connect();
        World { server, client }
    }

    fn ask(&mut self, request: &[&[u8]]) -> Vec<u8> {
        self.server.ask(&mut self.client, request).expect("it stays connected")
    }

    fn set_limits(&mut self, value: &[u8]) {
        for name in LIMITS {
            assert_eq!(self.ask(&[b"CONFIG", b"SET", name, value]), b"+OK\r\n");
        }
    }

    fn run(&mut self, value: &[u8]) {
        let mut payload = value.to_vec();
        seal(&mut payload);
        self.ask(&[b"FLUSHALL"]);
        self.set_limits(b"128");
        let restored = self.ask(&[b"RESTORE", b"value", b"0", &payload]);
        if restored != b"+OK\r\n" {
            assert!(restored.starts_with(b"-"), "{}", restored.escape_ascii());
            assert_eq!(self.ask(&[b"EXISTS", b"value"]), b":0\r\n");
            return;
        }
        if self.ask(&[b"EXISTS", b"value"]) == b":0\r\n" {
            // All its fields had expired.
            return;
        }
        let first = self.show(b"value");
        for limit in [&b"2"[..], b"128"] {
            self.set_limits(limit);
            let dump = self.ask(&[b"DUMP", b"value"]);
            let start = dump.iter().position(|byte| *byte == b'\n').expect("a payload") + 1;
            let dump = &dump[start..dump.len() - 2];
            let again = self.ask(&[b"RESTORE", b"again", b"0", dump, b"REPLACE"]);
            assert_eq!(again, b"+OK\r\n", "{}", dump.escape_ascii());
            assert_eq!(self.show(b"again"), first);
        }
        self.change(b"again");
        // The changes may have emptied the copy.
        assert_eq!(self.ask(&[b"DEL", b"value"]), b":1\r\n");
        self.ask(&[b"DEL", b"again"]);
    }

    /// The type, the number of parts, and the parts, sorted if the type has no order.
    fn show(&mut self, key: &[u8]) -> Vec<String> {
        let kind = self.ask(&[b"TYPE", key]);
        let (len, read): (&[u8], Vec<&[u8]>) = match &kind[..] {
            b"+string\r\n" => (b"STRLEN", vec![b"GET", key]),
            b"+list\r\n" => (b"LLEN", vec![b"LRANGE", key, b"0", b"-1"]),
            b"+set\r\n" => (b"SCARD", vec![b"SMEMBERS", key]),
            b"+zset\r\n" => (b"ZCARD", vec![b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]),
            b"+hash\r\n" => (b"HLEN", vec![b"HGETALL", key]),
            other => panic!("of type {}", other.escape_ascii()),
        };
        let (len, reply) = (self.ask(&[len, key]), self.ask(&read));
        let (mut rest, mut parts) = (&reply[..], Vec::new());
        while let Some(part) = read_part(&mut rest) {
            parts.push(format!("{part:?}"));
        }
        assert!(rest.is_empty(), "not a reply: {}", reply.escape_ascii());
        let group = match &kind[..] {
            b"+set\r\n" => 1,
            b"+hash\r\n" => 2,
            _ => parts.len(),
        };
        let head = parts.remove(0);
        let mut groups: Vec<_> = parts.chunks(group.max(1)).map(|group| group.join(" ")).collect();
        groups.sort();
        groups.push(format!("{head} {} {}", kind.escape_ascii(), len.escape_ascii()));
        groups
    }

    /// Changes the value by commands of its type: adds to it and, except for a string, removes from it.
    fn change(&mut self, key: &[u8]) {
        let requests: &[&[&[u8]]] = match &self.ask(&[b"TYPE", key])[..] {
            b"+string\r\n" => &[&[b"APPEND", key, b"x"]],
            b"+list\r\n" => &[&[b"RPUSH", key, b"x"], &[b"LPUSH", key, b"x"], &[b"RPOP", key]],
            b"+set\r\n" => &[&[b"SADD", key, b"new member"], &[b"SREM", key, b"new member", b"1"]],
            b"+zset\r\n" => &[&[b"ZADD", key, b"1", b"new member"], &[b"ZPOPMIN", key]],
            _ => &[&[b"HSET", key, b"new field", b"x"], &[b"HDEL", key, b"f"]],
        };
        for request in requests {
            let reply = self.ask(request);
            assert!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
        }
    }
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

fuzz_target!(|input: &[u8]| WORLD.with_borrow_mut(|world| world.run(input)));
