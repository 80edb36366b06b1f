//! Clients that keep copies (CLIENT TRACKING) behind a proxy, whose cluster changes meanwhile: no copy may stay old.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hotring_cluster::{ShardId, SlotSet, slot_of};
use hotring_protocol::Reply;
use hotring_proxy::{Proxy, Settings};
use rustix::process::{Signal, kill_process};

use super::faults::expendable;
use super::{connect, proxy, say, shown, wait_for};
use crate::cluster_demo::Demo;
use crate::cluster_moves::Keeper;
use crate::nemesis::clients::Wire;

const ALL: &str = "[invalidate nil]";

/// A client that keeps what it has read until it is told to drop it.
struct Cache {
    wire: Wire,
    copies: BTreeMap<String, String>,
}

impl Cache {
    fn new(proxy: &Proxy, options: &str) -> Cache {
        let mut wire = connect(proxy);
        assert!(say(&mut wire, "HELLO 3").starts_with("Map"));
        let mut cache = Cache { wire, copies: BTreeMap::new() };
        assert_eq!(cache.say(&format!("CLIENT TRACKING ON {options}")), "OK");
        cache
    }

    /// The reply to a request. Messages before it are heeded.
    fn say(&mut self, line: &str) -> String {
        self.wire.send(&format!("{line}\r\n")).unwrap();
        loop {
            match self.wire.reply().unwrap() {
                Reply::Push(parts) => self.drop_copies(&parts),
                reply => return shown(&reply),
            }
        }
    }

    fn drop_copies(&mut self, parts: &[Reply]) {
        assert_eq!(shown(&parts[0]), "invalidate");
        match &parts[1] {
            Reply::Null => self.copies.clear(),
            Reply::Array(keys) => keys.iter().for_each(|key| _ = self.copies.remove(&shown(key))),
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, key: &str) -> String {
        if !self.copies.contains_key(key) {
            let value = self.say(&format!("GET {key}"));
            if value.starts_with('-') {
                return value;
            }
            self.copies.insert(key.to_string(), value);
        }
        self.copies[key].clone()
    }

    /// Waits for messages until there is no copy of a key.
    #[track_caller]
    fn wait_until_dropped(&mut self, key: &str) {
        let begun = Instant::now();
        while self.copies.contains_key(key) {
            assert!(begun.elapsed() < Duration::from_secs(20), "{key} stays");
            if let Ok(Reply::Push(parts)) = self.wire.reply() {
                self.drop_copies(&parts);
            }
        }
    }

    /// The next message.
    #[track_caller]
    fn told(&mut self) -> String {
        shown(&self.wire.reply().unwrap())
    }
}

#[test]
fn clients_behind_a_proxy_hear_of_changes() {
    let demo = Demo::start(&["--copies", "1"]);
    let proxy = proxy(&demo, Settings::default());
    let mut other = connect(&proxy);
    let mut cache = Cache::new(&proxy, "");
    assert!(cache.say("CLIENT TRACKINGINFO").contains("Set([Bulk"));
    assert_eq!(cache.say("CLIENT GETREDIR"), "0");
    for key in ["a", "b", "c", "d"] {
        assert_eq!(say(&mut other, &format!("SET {key} 1")), "OK");
        assert_eq!(cache.say(&format!("GET {key}")), "1");
        assert_eq!(say(&mut other, &format!("INCR {key}")), "2");
        assert_eq!(cache.told(), format!("[invalidate [{key}]]"));
    }
    // By all kinds of reads, which are split, sent together, or go over other connections.
    assert_eq!(cache.say("MGET a b c"), "[2 2 2]");
    for line in ["MULTI", "GET d", "EXEC"] {
        cache.say(line);
    }
    assert_eq!(cache.say("EVAL return(redis.call([[get]],KEYS[1])) 1 e"), "nil");
    assert_eq!(say(&mut other, "MSET a 5 b 5 c 5 d 5 e 5"), "OK");
    let mut told: Vec<String> = (0..5).map(|_| cache.told()).collect();
    told.sort();
    let expected = ["a", "b", "c", "d", "e"].map(|key| format!("[invalidate [{key}]]"));
    assert_eq!(told, expected);
    for line in ["WATCH a", "MULTI", "GET a"] {
        cache.say(line);
    }
    assert_eq!(cache.say("EXEC"), "[5]");
    assert_eq!(cache.told(), ALL);
    assert_eq!(cache.say("WAITKEY a 1"), "0");
    assert_eq!(cache.told(), ALL);
    assert_eq!(say(&mut other, "FLUSHALL"), "OK");
    assert_eq!(cache.say("PING"), "PONG");
    // Its own writes, and what it may not do meanwhile.
    assert_eq!(cache.say("GET a"), "nil");
    assert_eq!(cache.say("SET a 7"), "OK");
    assert_eq!(cache.say("CLIENT CACHING YES").split(' ').next(), Some("-ERR"));
    assert!(cache.say("HELLO 2").starts_with("-ERR end WATCH, CLIENT TRACKING"));
    assert_eq!(cache.say("CLIENT TRACKING ON NOLOOP"), "OK");
    assert_eq!(cache.told(), ALL);
    assert_eq!(cache.say("GET a"), "7");
    assert_eq!(cache.say("SET a 8"), "OK");
    assert_eq!(cache.told_nothing(), "8");
    assert_eq!(cache.say("CLIENT TRACKING OFF"), "OK");
    assert_eq!(say(&mut other, "SET a 9"), "OK");
    assert_eq!(cache.told_nothing(), "9");
    for (options, words) in [("OPTIN", ["YES", "NO"]), ("OPTOUT", ["NO", "YES"])] {
        assert_eq!(cache.say(&format!("CLIENT TRACKING ON {options}")), "OK");
        assert!(cache.say(&format!("CLIENT CACHING {}", words[1])).starts_with("-ERR CLIENT"));
        if options == "OPTIN" {
            assert_eq!(cache.say("CLIENT CACHING YES"), "OK");
        }
        assert!(cache.say("GET a").parse::<u32>().is_ok());
        assert!(say(&mut other, "INCR a").parse::<u32>().is_ok());
        assert_eq!(cache.told(), "[invalidate [a]]");
        // As a node says it.
        assert!(cache.say("CLIENT TRACKING ON BCAST").starts_with("-ERR You can't switch BCAST"));
        assert_eq!(cache.say("RESET"), "RESET");
        assert!(cache.say("HELLO 3").starts_with("Map"));
    }
    // Where there is no place for messages.
    let mut plain = connect(&proxy);
    assert!(say(&mut plain, "CLIENT TRACKING ON").contains("use RESP3"));
    assert!(cache.say("CLIENT TRACKING ON REDIRECT 1").contains("without REDIRECT"));
    assert!(cache.say("CLIENT TRACKING ON PREFIX a").starts_with("-ERR PREFIX option"));
    assert!(cache.say("CLIENT TRACKING x").starts_with("-ERR syntax"));
    drop(proxy);
    demo.end();
}

impl Cache {
    /// Reads once more; no message may come.
    fn told_nothing(&mut self) -> String {
        self.wire.send("GET a\r\n").unwrap();
        shown(&self.wire.reply().unwrap())
    }
}

/// A message that overtakes the reply with the old value leaves an old copy for ever.
#[test]
fn no_message_overtakes_a_reply() {
    let demo = Demo::start(&["--copies", "1"]);
    let keeper = Keeper::of(&demo);
    let proxy = proxy(&demo, Settings::default());
    let doomed = expendable(&keeper, &demo);
    let [slow, quick] = keeper.keys_of(doomed);
    let mut cache = Cache::new(&proxy, "");
    let mut other = connect(&proxy);
    assert_eq!(say(&mut other, &format!("MSET {slow} 1 {quick} 1")), "OK");
    cache.read(&slow);
    cache.copies.clear();
    let node = demo.nodes[&keeper.primary(doomed)];
    kill_process(node, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    // The second has its reply, which waits behind the first.
    cache.wire.send(&format!("GET {slow}\r\nGET {quick}\r\n")).unwrap();
    let owner = keeper.directory().owners.of(slot_of(quick.as_bytes())).unwrap();
    let mut owner = Wire::connect(&keeper.primary(owner)).unwrap();
    wait_for("it is read", || say(&mut owner, "INFO stats").contains("tracking_total_keys:1"));
    assert_eq!(say(&mut other, &format!("SET {quick} 2")), "OK");
    std::thread::sleep(Duration::from_millis(100));
    kill_process(node, Signal::CONT).unwrap();
    let told: Vec<String> = (0..3).map(|_| cache.told()).collect();
    assert_eq!(told[1..], ["1".to_string(), format!("[invalidate [{quick}]]")], "{told:?}");
    drop(proxy);
    demo.end();
}

#[test]
fn copies_are_dropped_after_a_failover_and_a_move() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    let proxy = proxy(&demo, Settings::default());
    let doomed = expendable(&keeper, &demo);
    let [key, elsewhere] = keeper.keys_of(doomed);
    let mut other = connect(&proxy);
    let mut cache = Cache::new(&proxy, "");
    // It keeps what others have read.
    let mut broadcast = Cache::new(&proxy, "BCAST PREFIX key:");
    let keep = |cache: &mut Cache, broadcast: &mut Cache| {
        wait_for("it is served", || cache.read(&key).parse::<u32>().is_ok());
        broadcast.copies.insert(key.clone(), cache.read(&key));
    };
    let mut write = |cache: &mut Cache, broadcast: &mut Cache| {
        let mut write = || say(&mut other, &format!("INCR {key}")).parse::<u32>().is_ok();
        wait_for("it is written", &mut write);
        cache.wait_until_dropped(&key);
        broadcast.wait_until_dropped(&key);
    };
    write(&mut cache, &mut broadcast);
    // A move there and back. What is read after it is told again.
    let other_shard = keeper.directory().owners.of(slot_of(elsewhere.as_bytes())).unwrap();
    let slots: SlotSet = [slot_of(key.as_bytes())].into_iter().collect();
    for (id, from, to) in [(900, doomed, other_shard), (901, other_shard, doomed)] {
        keep(&mut cache, &mut broadcast);
        keeper.order(id, from, to, &slots);
        keeper.wait_until_moved(to, &slots);
        cache.wait_until_dropped(&key);
        broadcast.wait_until_dropped(&key);
        keep(&mut cache, &mut broadcast);
        write(&mut cache, &mut broadcast);
    }
    // A primary stands still, and another takes over.
    keeper.wait_for_replica(Some(doomed));
    keep(&mut cache, &mut broadcast);
    let node = demo.nodes[&keeper.primary(doomed)];
    kill_process(node, Signal::STOP).unwrap();
    cache.wait_until_dropped(&key);
    broadcast.wait_until_dropped(&key);
    // More often than all that has happened was told.
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(300));
        for it in [&mut cache, &mut broadcast] {
            it.say("PING");
        }
        keep(&mut cache, &mut broadcast);
        write(&mut cache, &mut broadcast);
    }
    kill_process(node, Signal::CONT).unwrap();
    drop(proxy);
    demo.end();
}

/// A node that is cut off from the proxy alone stays primary: nothing but its silence shows that messages are lost.
#[test]
fn copies_are_dropped_when_a_node_falls_silent() {
    let demo = Demo::start(&["--copies", "1"]);
    let keeper = Keeper::of(&demo);
    let node_timeout = Duration::from_millis(500);
    let proxy = proxy(&demo, Settings { node_timeout, ..Settings::default() });
    let doomed = expendable(&keeper, &demo);
    let [key, _] = keeper.keys_of(doomed);
    let mut cache = Cache::new(&proxy, "");
    cache.read(&key);
    let node = demo.nodes[&keeper.primary(doomed)];
    kill_process(node, Signal::STOP).unwrap();
    cache.wait_until_dropped(&key);
    kill_process(node, Signal::CONT).unwrap();
    drop(proxy);
    demo.end();
}

/// A change between the end of a connection and the next one is told by no node.
#[test]
fn a_broadcast_that_is_interrupted_misses_nothing() {
    let demo = Demo::start(&["--copies", "1"]);
    let keeper = Keeper::of(&demo);
    let proxy = proxy(&demo, Settings::default());
    let doomed = expendable(&keeper, &demo);
    let [key, _] = keeper.keys_of(doomed);
    let mut broadcast = Cache::new(&proxy, "BCAST");
    let mut node = Wire::connect(&keeper.primary(doomed)).unwrap();
    for n in 1..4 {
        assert!(say(&mut node, "CLIENT KILL TYPE normal").parse::<u32>().unwrap() > 0);
        assert_eq!(broadcast.told(), ALL);
        broadcast.copies.insert(key.clone(), "old".to_string());
        assert_eq!(say(&mut node, &format!("INCR {key}")), n.to_string());
        broadcast.wait_until_dropped(&key);
    }
    drop(proxy);
    demo.end();
}

/// In the end the copies are what the cluster has, whatever has happened.
#[test]
fn no_copy_stays_old_while_slots_move_and_a_primary_dies() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    let proxy = proxy(&demo, Settings::default());
    let ends = AtomicBool::new(false);
    let key = |n: u32| format!("key:{n}");
    const N: u32 = 30;
    let mut caches: Vec<Cache> =
        ["", "NOLOOP", "BCAST"].into_iter().map(|options| Cache::new(&proxy, options)).collect();
    std::thread::scope(|scope| {
        for (seed, cache) in caches.iter_mut().enumerate() {
            let ends = &ends;
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(seed as u64);
                while !ends.load(Ordering::Relaxed) {
                    cache.read(&key(rng.u32(..N)));
                    if rng.u32(..4) == 0 {
                        cache.say("PING");
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
        }
        scope.spawn(|| {
            let mut wire = connect(&proxy);
            let mut rng = fastrand::Rng::with_seed(9);
            while !ends.load(Ordering::Relaxed) {
                // Refused while no node has the slot.
                say(&mut wire, &format!("INCR {}", key(rng.u32(..N))));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let directory = keeper.directory();
        let shards: Vec<ShardId> = directory.shards.keys().copied().collect();
        for id in 0..4 {
            let (from, to) = (shards[id % 3], shards[(id + 1) % 3]);
            keeper.move_half(100 + id as u64, from, to);
        }
        let doomed = expendable(&keeper, &demo);
        keeper.wait_for_replica(Some(doomed));
        keeper.kill_primary(&demo, doomed);
        let [doomed_key, _] = keeper.keys_of(doomed);
        let mut wire = connect(&proxy);
        wait_for("another takes over", || {
            say(&mut wire, &format!("INCR {doomed_key}")).parse::<u32>().is_ok()
        });
        std::thread::sleep(Duration::from_millis(500));
        ends.store(true, Ordering::Relaxed);
    });
    let mut wire = connect(&proxy);
    let is_old = |cache: &mut Cache, wire: &mut Wire| {
        cache.say("PING");
        let copies = cache.copies.iter();
        copies.filter(|(key, copy)| say(wire, &format!("GET {key}")) != **copy).count()
    };
    for cache in &mut caches {
        wait_for("no copy is old", || is_old(cache, &mut wire) == 0);
    }
    drop(proxy);
    demo.end();
}
