//! What replicas answer to `READONLY` readers while slots move: never nil for a key that is there.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::moves::{Shards, slots, tags_of};
use hotring_cluster::{SlotSet, slot_of};

use super::*;

/// Keys of each tag: enough for a removal that takes some time.
const KEYS: usize = 300;

/// A connection to a replica for reads.
fn reader(node: &Node) -> Wire {
    let mut wire = node.wire();
    assert_eq!(wire.say("READONLY"), ok());
    wire
}

fn key(tag: &str, n: usize) -> String {
    format!("{{{tag}}}{n}")
}

/// Writes the keys of these tags, which one shard has.
fn fill(shards: &Shards, tags: &[String]) {
    let mut client = shards.client();
    for tag in tags {
        (0..KEYS).for_each(|n| assert_eq!(client.say(&format!("SET {} {n}", key(tag, n))), ok()));
    }
}

/// Whether the replica answers a read; it must not miss the key.
fn reads(wire: &mut Wire, key: &str) -> bool {
    match wire.say(&format!("GET {key}")) {
        Reply::Bulk(_) => true,
        Reply::Error(why) => {
            let may_pass = ["MOVED", "TRYAGAIN", "CLUSTERDOWN"];
            assert!(may_pass.iter().any(|word| why.starts_with(word)), "{why}");
            false
        }
        other => panic!("{key}: {other:?}"),
    }
}

/// A replica went by its own watch of the records. If that was late, it applied the removal of the keys that its
/// primary had given away, and answered nil for them.
#[test]
fn a_replica_with_old_records_does_not_miss_keys_that_were_given_away() {
    let shards = Shards::new("copies-source");
    let tags = tags_of(0, 1);
    fill(&shards, &tags);
    let [primary, replica, ..] = &shards.nodes;
    let mut copy = reader(replica);
    wait_for("the replica serves", || reads(&mut copy, &key(&tags[0], 0)));
    replica.door.delay_watches(true);
    shards.move_slots(1, 0, 1, &slots(&[&tags[0]]));
    // One key is there by which the shard showed that it serves. The replica takes the others for its own.
    wait_for("the replica has removed the keys", || {
        (0..KEYS).for_each(|n| _ = reads(&mut copy, &key(&tags[0], n)));
        copy.say("DBSIZE") == Reply::Int(1)
    });
    let read = copy.say(&format!("GET {}", key(&tags[0], 0)));
    let here = format!("MOVED {} 127.0.0.1:{}", slot_of(tags[0].as_bytes()), primary.port);
    assert_eq!(read, Reply::Error(here), "its primary knows more");
    replica.door.delay_watches(false);
    let mut other = reader(&shards.nodes[3]);
    wait_for("the other replica serves", || reads(&mut other, &key(&tags[0], 0)));
}

#[test]
fn replicas_never_miss_keys_of_slots_that_move_back_and_forth() {
    let shards = Shards::new("copies-load");
    let tags = tags_of(0, 3);
    fill(&shards, &tags);
    let moving: SlotSet = tags.iter().map(|tag| slot_of(tag.as_bytes())).collect();
    let (ends, served) = (AtomicBool::new(false), [0; 2].map(AtomicUsize::new));
    std::thread::scope(|scope| {
        for at in 0..4 {
            let (ends, tags, served, node) =
                (&ends, &tags, &served[at % 2], &shards.nodes[at % 2 * 2 + 1]);
            let mut wire = reader(node);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(at as u64);
                while !ends.load(Ordering::Relaxed) {
                    let key = key(&tags[random.usize(..tags.len())], random.usize(..KEYS));
                    served.fetch_add(reads(&mut wire, &key).into(), Ordering::Relaxed);
                    // Readers that never rest take the processors from the servers.
                    std::thread::sleep(Duration::from_micros(200));
                }
            });
        }
        struct Ends<'a>(&'a AtomicBool);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _ends = Ends(&ends);
        for round in 0..12 {
            let (from, to) = (round % 2, 1 - round % 2);
            // Every third time a replica sees the records late.
            let late = &shards.nodes[(2 * (round / 3 % 2) + 1) as usize].door;
            late.delay_watches(round % 3 == 2);
            shards.move_slots(round.into(), from, to, &moving);
            std::thread::sleep(Duration::from_millis(if round % 3 == 2 { 300 } else { 0 }));
            late.delay_watches(false);
            let before = served[to as usize].load(Ordering::Relaxed);
            wait_for("the replica of the owner serves", || {
                served[to as usize].load(Ordering::Relaxed) > before + 20
            });
        }
    });
    println!("{served:?} reads of the two replicas");
}
