//! A hot key that two proxies and a third one in a process of its own mirror: no read shows less than what was answered
//! before it began, while the key is written, a proxy stands still, the slot moves, and its primary dies.

use std::net::TcpListener;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use hotring_cluster::{ShardId, SlotSet, slot_of};
use hotring_protocol::Reply;
use hotring_proxy::Settings;
use rustix::process::{Pid, Signal, kill_process};

use super::faults::expendable;
use super::memcached::Client;
use super::{address, connect, counted, proxy, say, wait_for};
use crate::cluster_demo::Demo;
use crate::cluster_moves::Keeper;
use crate::hotring;
use crate::nemesis::clients::Wire;

/// Clients of each proxy.
const READERS: usize = 2;

/// Pause of a client. Enough of them make a key hot, and few leave room for other tests.
const PAUSE: Duration = Duration::from_micros(500);

/// A counter that clients read all the while.
struct Counter {
    key: String,
    addresses: Vec<String>,
    /// The greatest value that was answered to any client.
    seen: AtomicU64,
    reads: AtomicU64,
    stops: AtomicBool,
}

impl Counter {
    fn read(&self, address: &str) {
        let mut wire = None;
        while !self.stops.load(SeqCst) {
            std::thread::sleep(PAUSE);
            let Some(open) = &mut wire else {
                wire = Wire::connect(address).ok();
                continue;
            };
            let floor = self.seen.load(SeqCst);
            match open.say(&format!("GET {}", self.key)) {
                Ok(Reply::Bulk(text)) => {
                    let value: u64 = String::from_utf8(text).unwrap().parse().unwrap();
                    assert!(value >= floor, "{address} showed {value}, but {floor} was seen");
                    self.seen.fetch_max(value, SeqCst);
                    self.reads.fetch_add(1, SeqCst);
                }
                Ok(Reply::Error(_)) | Err(_) => wire = None,
                Ok(other) => panic!("{other:?}"),
            }
        }
    }

    /// Adds one, and returns how long that took.
    fn add(&self, wire: &mut Wire) -> Duration {
        let begun = Instant::now();
        loop {
            match wire.say(&format!("INCR {}", self.key)).unwrap() {
                Reply::Int(value) => {
                    self.seen.fetch_max(value as u64, SeqCst);
                    return begun.elapsed();
                }
                Reply::Error(why) => assert!(begun.elapsed().as_secs() < 30, "{why}"),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Runs `f` beside the readers.
    fn beside(&self, f: impl FnOnce()) {
        std::thread::scope(|scope| {
            for address in &self.addresses {
                (0..READERS).for_each(|_| _ = scope.spawn(move || self.read(address)));
            }
            /// Stops them, also if the test fails.
            struct Stopping<'a>(&'a AtomicBool);
            impl Drop for Stopping<'_> {
                fn drop(&mut self) {
                    self.0.store(true, SeqCst);
                }
            }
            let _stopping = Stopping(&self.stops);
            f();
        });
    }
}

/// A proxy in a process of its own.
struct Apart {
    process: Child,
    address: String,
}

impl Apart {
    fn start(demo: &Demo) -> Apart {
        let bound = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = bound.local_addr().unwrap().to_string();
        drop(bound);
        let words = ["proxy", "--listen", &address, "--node", &demo.first, "--threads", "1"];
        let process = hotring(&words).spawn().unwrap();
        let apart = Apart { process, address };
        wait_for("the proxy listens", || Wire::connect(&apart.address).is_ok());
        apart
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[test]
fn no_mirror_of_a_hot_key_shows_anything_old() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    for node in demo.nodes.keys() {
        assert_eq!(say(&mut Wire::connect(node).unwrap(), "CONFIG SET mirror auto"), "OK");
    }
    let (two, apart) = ([0; 2].map(|_| proxy(&demo, Settings::default())), Apart::start(&demo));
    let doomed = expendable(&keeper, &demo);
    let directory = keeper.directory();
    let owner = |key: &str| directory.owners.of(slot_of(key.as_bytes()));
    let mut keys = (0..).map(|n: u32| format!("key:{n}"));
    let key = keys.find(|key| owner(key) != Some(doomed)).expect("endless");
    let (slot, from) = (slot_of(key.as_bytes()), owner(&key).unwrap());
    let addresses = vec![address(&two[0]), address(&two[1]), apart.address.clone()];
    let (seen, reads, stops) = Default::default();
    let counter = Counter { key, addresses, seen, reads, stops };
    let mut wires = [connect(&two[0]), connect(&two[1]), Wire::connect(&apart.address).unwrap()];
    counter.add(&mut wires[0]);
    counter.beside(|| {
        let wait_for_mirrors = |wires: &mut [Wire; 3]| {
            let count = |wires: &mut [Wire; 3]| {
                wires.each_mut().map(|wire| counted(wire, "proxy_mirrored_reads"))
            };
            let before = count(wires);
            wait_for("all proxies answer reads", || {
                let now = count(wires);
                now.iter().zip(before).all(|(now, before)| *now > before + 20)
            });
        };
        wait_for_mirrors(&mut wires);
        let waited: Vec<Duration> = (0..6)
            .map(|n| {
                std::thread::sleep(Duration::from_millis(700));
                counter.add(&mut wires[n % 2])
            })
            .collect();
        println!("writes: {waited:?}");
        wait_for_mirrors(&mut wires);
        // A holder that stands still delays a write, and shows nothing old when it goes on.
        apart.signal(Signal::STOP);
        let took = counter.add(&mut wires[0]);
        println!("beside a holder that stands still: {took:?}");
        std::thread::sleep(Duration::from_millis(50));
        counter.add(&mut wires[1]);
        apart.signal(Signal::CONT);
        wait_for_mirrors(&mut wires);
        let slots: SlotSet = [slot].into_iter().collect();
        keeper.order(1, from, doomed, &slots);
        keeper.wait_until_moved(doomed, &slots);
        counter.add(&mut wires[1]);
        wait_for_mirrors(&mut wires);
        keeper.wait_for_replica(Some(doomed));
        keeper.kill_primary(&demo, doomed);
        for n in 0..4 {
            counter.add(&mut wires[n % 2]);
        }
        wait_for_mirrors(&mut wires);
        // Hits come with the next question, and those since the last one are lost if a write ends the mirror before.
        let mut node = Wire::connect(&primary_of(&keeper, doomed)).unwrap();
        wait_for("the new primary hears of hits", || counted(&mut node, "cluster_mirror_hits") > 0);
        counter.add(&mut wires[0]);
    });
    assert!(counter.reads.load(SeqCst) > 1000);
    let new = primary_of(&keeper, doomed);
    let mut node = Wire::connect(&new).unwrap();
    println!("grants of the new primary: {}", counted(&mut node, "cluster_mirror_grants"));
    assert_eq!(say(&mut node, "CONFIG SET mirror off"), "OK");
    wait_for("no key is mirrored", || say(&mut node, "HOTRING.MIRROR LIST") == "[]");
    drop(two);
    demo.end();
}

/// Has a proxy answer this read of a key.
fn warm_up(wire: &mut Wire, read: &str, reply: &str) {
    let begin = counted(wire, "proxy_mirrored_reads");
    wait_for("the proxy answers reads", || {
        (0..200).for_each(|_| assert_eq!(say(wire, read), reply));
        counted(wire, "proxy_mirrored_reads") > begin + 100
    });
}

/// Writes that end a key's mirror at all or not, seen through the proxy that has it.

#[test]
fn what_may_write_any_key_ends_the_mirrors_of_the_proxy_that_sends_it() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    for node in demo.nodes.keys() {
        assert_eq!(say(&mut Wire::connect(node).unwrap(), "CONFIG SET mirror auto"), "OK");
    }
    let memcached = vec!["127.0.0.1:0".parse().unwrap()];
    let proxy = proxy(&demo, Settings { threads: 1, memcached, ..Settings::default() });
    let directory = keeper.directory();
    let owner = |key: &str| directory.owners.of(slot_of(key.as_bytes()));
    // Another slot of the same shard than those by which the proxy sends the requests.
    let mut keys = (0..).map(|n: u32| format!("key:{n}"));
    let key = keys.find(|key| owner(key) == owner("a")).expect("endless");
    let script = format!("return redis.call('SET', '{key}', 'new')");
    let (mut wire, get) = (connect(&proxy), format!("GET {key}"));
    for (request, becomes) in [
        ("FLUSHALL", "nil"),
        (&*format!("EVAL \"{script}\" 1 a"), "new"),
        (&*format!("SORT {{{key}}}list STORE {key}"), "-WRONGTYPE"),
    ] {
        assert_eq!(say(&mut wire, &format!("SET {key} old")), "OK");
        say(&mut wire, &format!("DEL {{{key}}}list"));
        say(&mut wire, &format!("RPUSH {{{key}}}list 1"));
        warm_up(&mut wire, &get, "old");
        wait_for("it is done", || !say(&mut wire, request).starts_with('-'));
        let shown = say(&mut wire, &get);
        assert!(shown.starts_with(becomes), "{request}: {shown}");
    }
    assert_eq!(say(&mut wire, &format!("SET {key} old")), "OK");
    warm_up(&mut wire, &get, "old");
    let mut node = Wire::connect(&primary_of(&keeper, owner(&key).unwrap())).unwrap();
    let before = counted(&mut node, "cluster_mirror_revocations");
    (0..10).for_each(|_| assert_eq!(say(&mut wire, &format!("SORT {{{key}}}list")), "[1]"));
    assert_eq!(counted(&mut node, "cluster_mirror_revocations"), before, "SORT reads");
    let life = format!("EXPIRETIME {key}");
    warm_up(&mut wire, &life, "-1");
    let mut memcached = Client::to(&proxy.addresses().last().unwrap().to_string());
    assert_eq!(memcached.say(&format!("mg {key} T1000")), "HD¶");
    assert_ne!(say(&mut wire, &life), "-1");
    drop(proxy);
    demo.end();
}

#[test]
fn a_role_that_comes_back_brings_mirrors_again() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    for node in demo.nodes.keys() {
        assert_eq!(say(&mut Wire::connect(node).unwrap(), "CONFIG SET mirror auto"), "OK");
    }
    let proxy = proxy(&demo, Settings { threads: 1, ..Settings::default() });
    let shard = keeper.directory().owners.of(slot_of(b"a")).unwrap();
    let mut wire = connect(&proxy);
    assert_eq!(say(&mut wire, "SET a old"), "OK");
    for _ in 0..2 {
        keeper.wait_for_replica(Some(shard));
        let before = primary_of(&keeper, shard);
        let mut node = Wire::connect(&before).unwrap();
        wait_for("it may hand over", || say(&mut node, "FAILOVER") == "OK");
        wait_for("the role is handed over", || primary_of(&keeper, shard) != before);
    }
    warm_up(&mut wire, "GET a", "old");
    drop(proxy);
    demo.end();
}

/// Too few reads to make a key hot.
fn read_slowly(wire: &mut Wire, reply: &str, reads: usize) -> u64 {
    let before = counted(wire, "proxy_mirrored_reads");
    for _ in 0..reads {
        assert_eq!(say(wire, "GET a"), reply);
        std::thread::sleep(Duration::from_millis(40));
    }
    counted(wire, "proxy_mirrored_reads") - before
}

#[test]
fn a_named_key_is_mirrored_however_cold_through_writes_and_a_failover() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    let everywhere = |request: &str| {
        for node in demo.nodes.keys() {
            assert_eq!(say(&mut Wire::connect(node).unwrap(), request), "OK", "{request}");
        }
    };
    everywhere("CONFIG SET mirror auto");
    let proxy = proxy(&demo, Settings { threads: 1, ..Settings::default() });
    let mut wire = connect(&proxy);
    assert_eq!(say(&mut wire, "SET a 0"), "OK");
    assert_eq!(read_slowly(&mut wire, "0", 25), 0, "it is cold");
    everywhere("CONFIG SET mirror-always a");
    wait_for("it is mirrored", || read_slowly(&mut wire, "0", 5) > 0);
    let shard = keeper.directory().owners.of(slot_of(b"a")).unwrap();
    for value in ["1", "2", "3"] {
        assert_eq!(say(&mut wire, &format!("SET a {value}")), "OK");
        wait_for("it is mirrored again", || read_slowly(&mut wire, value, 5) > 0);
    }
    keeper.wait_for_replica(Some(shard));
    let before = primary_of(&keeper, shard);
    let mut node = Wire::connect(&before).unwrap();
    wait_for("it may hand over", || say(&mut node, "FAILOVER") == "OK");
    wait_for("the role is handed over", || primary_of(&keeper, shard) != before);
    wait_for("the next primary serves", || say(&mut wire, "GET a") == "3");
    wait_for("it mirrors the key, too", || read_slowly(&mut wire, "3", 5) > 0);
    assert_eq!(say(&mut wire, "DEL a"), "1");
    assert_eq!(say(&mut wire, "GET a"), "nil");
    assert_eq!(say(&mut wire, "SET a 4"), "OK");
    wait_for("it is mirrored with its new value", || read_slowly(&mut wire, "4", 5) > 0);
    everywhere("CONFIG SET mirror-always ''");
    let mut node = Wire::connect(&primary_of(&keeper, shard)).unwrap();
    wait_for("its mirrors end", || say(&mut node, "HOTRING.MIRROR LIST") == "[]");
    drop(proxy);
    demo.end();
}

#[test]
fn a_right_that_is_withdrawn_ends_the_mirrors_and_only_proxies_may_hold_any() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    let everywhere = |request: &str| {
        for node in demo.nodes.keys() {
            assert_eq!(say(&mut Wire::connect(node).unwrap(), request), "OK", "{request}");
        }
    };
    everywhere("CONFIG SET mirror auto");
    everywhere("ACL SETUSER reader on >secret ~* +@all");
    everywhere("ACL SETUSER plain on >secret ~* +@read +@connection");
    let proxy = proxy(&demo, Settings { threads: 1, ..Settings::default() });
    let mut wire = connect(&proxy);
    assert_eq!(say(&mut wire, "AUTH reader secret"), "OK");
    assert_eq!(say(&mut wire, "SET a old"), "OK");
    warm_up(&mut wire, "GET a", "old");
    let shard = keeper.directory().owners.of(slot_of(b"a")).unwrap();
    let node = primary_of(&keeper, shard);
    let mut admin = Wire::connect(&node).unwrap();
    let hits = counted(&mut admin, "cluster_mirror_hits");
    let named = say(&mut admin, "HOTRING.MIRROR ASK a 1000000");
    assert!(named.contains('a'), "{named}");
    assert!(counted(&mut admin, "cluster_mirror_hits") < hits + 1_000_000, "it held nothing");
    let mut plain = Wire::connect(&node).unwrap();
    assert_eq!(say(&mut plain, "AUTH plain secret"), "OK");
    assert!(say(&mut plain, "HOTRING.MIRROR LIST").starts_with("-NOPERM"));
    everywhere("ACL SETUSER reader -get");
    wait_for("the right has ended", || say(&mut wire, "GET a").starts_with("-NOPERM"));
    drop(proxy);
    demo.end();
}

fn primary_of(keeper: &Keeper, shard: ShardId) -> String {
    let directory = keeper.directory();
    let node = directory.node(directory.shards[&shard].1.primary.node).unwrap();
    format!("{}:{}", node.host, node.port)
}
