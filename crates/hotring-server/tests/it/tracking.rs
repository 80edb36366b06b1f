//! Tests of CLIENT TRACKING with readers and writers on several threads. At the end all cached
//! copies are compared with the data: a lost message shows as a stale copy.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::requests::Random;
use crate::wire::{Reply, TestServer, Wire, bulk, ok};

const N_KEYS: u64 = 20;

/// A client that caches values until they are invalidated.
struct Cache {
    wire: Wire,
    copies: BTreeMap<String, Reply>,
    told: usize,
}

impl Cache {
    fn new(server: &TestServer, options: &str) -> Self {
        let mut wire = server.connect();
        wire.say("HELLO 3");
        assert_eq!(wire.say(&format!("CLIENT TRACKING on {options}")), ok());
        Cache { wire, copies: BTreeMap::new(), told: 0 }
    }

    /// The reply to a request; earlier messages are processed at once.
    fn ask(&mut self, line: &str) -> Reply {
        self.wire.send(format!("{line}\r\n").as_bytes());
        loop {
            match self.wire.reply() {
                Reply::Push(parts) => self.forget(&parts),
                reply => return reply,
            }
        }
    }

    fn forget(&mut self, parts: &[Reply]) {
        assert_eq!(parts[0], bulk("invalidate"));
        self.told += 1;
        match &parts[1] {
            Reply::Null => self.copies.clear(),
            keys => keys.items().iter().for_each(|key| _ = self.copies.remove(&key.text())),
        }
    }

    fn read(&mut self, key: &str) {
        if !self.copies.contains_key(key) {
            let value = self.ask(&format!("GET {key}"));
            self.copies.insert(key.to_string(), value);
        }
    }

    /// Compares all copies with the data, once all writers have ended.
    #[track_caller]
    fn check(&mut self, other: &mut Wire) {
        self.ask("PING");
        for (key, copy) in &self.copies {
            assert_eq!(*copy, other.say(&format!("GET {key}")), "an old copy of {key}");
        }
    }
}

/// Reads by `cache` until `end`.
fn read_until(end: &AtomicBool, cache: &mut Cache, mut random: Random) {
    while !end.load(Ordering::Relaxed) {
        cache.read(&format!("k{}", random.below(N_KEYS)));
        if random.below(4) == 0 {
            // A cache that never sends a request never reads its messages.
            cache.ask("PING");
        }
    }
}

/// Readers with caches beside writers; `write` writes once.
fn readers_and_writers(
    options: &str,
    change: impl FnOnce(&mut hotring_server::Config),
    write: impl Fn(&mut Wire, &mut Random) + Sync,
) {
    const WRITES: usize = 1_000;
    let server = TestServer::with(change);
    let mut caches: Vec<Cache> = (0..4).map(|_| Cache::new(&server, options)).collect();
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        for (i, cache) in caches.iter_mut().enumerate() {
            let end = &end;
            scope.spawn(move || read_until(end, cache, Random::new(i as u64)));
        }
        let writers: Vec<_> = (0..2)
            .map(|i| {
                let (server, write) = (&server, &write);
                scope.spawn(move || {
                    let (mut wire, mut random) = (server.connect(), Random::new(100 + i));
                    (0..WRITES).for_each(|_| write(&mut wire, &mut random));
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        end.store(true, Ordering::Relaxed);
    });
    let mut other = server.connect();
    for cache in &mut caches {
        cache.check(&mut other);
        assert!(cache.told > 0, "nothing was ever told");
    }
}

fn write_some(wire: &mut Wire, random: &mut Random) {
    let (a, b) = (random.below(N_KEYS), random.below(N_KEYS));
    let reply = match random.below(8) {
        0 => wire.say(&format!("DEL k{a}")),
        1 => wire.say(&format!("MSET k{a} {b} k{b} {a}")),
        2 => wire.ask(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", &format!("k{a}")]),
        3 => {
            wire.say("MULTI");
            wire.say(&format!("INCR k{a}"));
            wire.say(&format!("INCR k{b}"));
            wire.say("EXEC")
        }
        _ => wire.say(&format!("INCR k{a}")),
    };
    assert!(!reply.is_error(), "{reply:?}");
}

#[test]
fn no_change_is_missed_by_client_caches() {
    readers_and_writers("", |_| {}, write_some);
}

#[test]
fn no_change_is_missed_by_broadcast_tracking() {
    readers_and_writers("BCAST PREFIX k", |_| {}, write_some);
}

#[test]
fn no_change_is_missed_where_there_is_little_room() {
    readers_and_writers("", |config| config.tracking_keys_max = 10, write_some);
    readers_and_writers("", |config| config.tracking_memory_max = 1_000, write_some);
}

#[test]
fn no_flush_is_missed() {
    readers_and_writers(
        "",
        |_| {},
        |wire, random| {
            match random.below(10) {
                0 => wire.say("FLUSHALL"),
                _ => wire.say(&format!("SET k{} {}", random.below(N_KEYS), random.below(100))),
            };
        },
    );
}

#[test]
fn an_expired_key_is_reported() {
    let server = TestServer::new();
    let mut cache = Cache::new(&server, "");
    let mut writer = server.connect();
    for i in 0..100 {
        writer.say(&format!("SET k{i} v PX {}", 1 + i));
        cache.read(&format!("k{i}"));
    }
    // A missing key that was read is not invalidated. The other keys are not requested any more.
    cache.copies.retain(|_, copy| *copy != Reply::Null);
    while !cache.copies.is_empty() {
        cache.ask("PING");
    }
}

#[test]
fn tracking_started_under_writes_misses_nothing() {
    let server = TestServer::new();
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut wire = server.connect();
            while !end.load(Ordering::Relaxed) {
                wire.send(&b"INCR k\r\n".repeat(50));
                (0..50).for_each(|_| _ = wire.reply());
            }
        });
        for i in 0..300 {
            // Each is the first.
            let options = if i % 2 == 0 { "" } else { "BCAST" };
            let mut cache = Cache::new(&server, options);
            cache.read("k");
            // The counter keeps growing: eventually the copy is invalidated.
            while !cache.copies.is_empty() {
                cache.ask("PING");
            }
        }
        end.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

/// Messages redirected to another connection may come only while that is subscribed.
#[test]
fn no_invalidation_comes_behind_the_end_of_listening() {
    const ROUNDS: usize = 1_000;
    let server = TestServer::with(|config| config.threads = 2);
    let mut listener = server.connect();
    let id = listener.say("CLIENT ID").int();
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut reader, mut writer) = (server.connect(), server.connect());
            assert_eq!(reader.say(&format!("CLIENT TRACKING on BCAST REDIRECT {id}")), ok());
            while !end.load(Ordering::Relaxed) {
                writer.send(&b"INCR k\r\n".repeat(50));
                (0..50).for_each(|_| _ = writer.reply());
            }
        });
        let mut round = |i: usize| {
            listener.send(b"SUBSCRIBE __redis__:invalidate\r\n");
            while i.is_multiple_of(10) && listener.reply().items()[0] != bulk("message") {}
            listener.send(b"UNSUBSCRIBE\r\n");
            while listener.reply().items()[0] != bulk("unsubscribe") {}
            listener.say("PING")
        };
        let replies = (0..ROUNDS).map(&mut round);
        let wrong = replies.enumerate().find(|(_, reply)| *reply != Reply::Simple("PONG".into()));
        end.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
}
