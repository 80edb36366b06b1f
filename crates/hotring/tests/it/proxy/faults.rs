//! Faults of the nodes behind two proxies: nothing that was acknowledged may be lost or undone, and no client may wait
//! for a node that has none of its keys.

use std::time::{Duration, Instant};

use hotring_cluster::{ShardId, SlotSet, slot_of};
use hotring_proxy::{Proxy, Settings};
use rustix::process::{Signal, kill_process};

use super::{address, connect, counted, proxy, say, wait_for};
use crate::cluster_demo::Demo;
use crate::cluster_moves::Keeper;
use crate::nemesis::clients::Load;

/// Two proxies, and clients that use both.
fn proxies(demo: &Demo) -> ([Proxy; 2], Load) {
    let merge_window = Duration::from_millis(1);
    let two = [
        proxy(demo, Settings { merge_window, ..Settings::default() }),
        proxy(demo, Settings::default()),
    ];
    let load = Load::of_proxies([address(&two[0]), address(&two[1])]);
    (two, load)
}

#[track_caller]
fn wait_for_more(load: &Load, more: u64) {
    let before = load.answered();
    wait_for("clients go on", || load.answered() >= before + more);
}

/// A shard whose primary is not the node that keeps the records.
pub(super) fn expendable(keeper: &Keeper, demo: &Demo) -> ShardId {
    let directory = keeper.directory();
    let keeps_records = |shard: &ShardId| keeper.primary(*shard) == demo.first;
    *directory.shards.keys().find(|shard| !keeps_records(shard)).expect("there are three")
}

#[test]
fn nothing_is_lost_behind_proxies_while_slots_move_and_a_primary_dies() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    let (two, load) = proxies(&demo);
    load.beside(1, || {
        wait_for_more(&load, 200);
        let directory = keeper.directory();
        let shards: Vec<ShardId> = directory.shards.keys().copied().collect();
        // Half of each shard's slots go to the next one, and back.
        for id in 0..6 {
            let (from, to) = (shards[id % 3], shards[(id + 1) % 3]);
            keeper.move_half(100 + id as u64, from, to);
            wait_for_more(&load, 50);
        }
        let doomed = expendable(&keeper, &demo);
        keeper.wait_for_replica(Some(doomed));
        keeper.kill_primary(&demo, doomed);
        wait_for_more(&load, 500);
    });
    let mut wire = connect(&two[0]);
    let numbers =
        ["proxy_redirects", "proxy_retries", "proxy_unknown_writes", "proxy_merged_reads"];
    numbers.iter().for_each(|name| println!("{name}: {}", counted(&mut wire, name)));
    println!("{:?}", load.check(&address(&two[1])));
    drop(two);
    demo.end();
}

#[test]
fn a_node_that_stands_still_costs_its_own_keys_only() {
    let demo = Demo::start(&["--copies", "1"]);
    let keeper = Keeper::of(&demo);
    let retry_for = Duration::from_millis(500);
    let node_timeout = Duration::from_secs(2);
    let proxy = proxy(&demo, Settings { retry_for, node_timeout, ..Settings::default() });
    let doomed = expendable(&keeper, &demo);
    let [dead, alive] = keeper.keys_of(doomed);
    let (mut one, mut other) = (connect(&proxy), connect(&proxy));
    assert_eq!(say(&mut one, &format!("SET {dead} 1")), "OK");
    // Their connections to the node do not come about.
    let mut alone = ["BLPOP", "WATCH"].map(|verb| (verb, connect(&proxy)));
    for (_, wire) in &mut alone {
        assert!(say(wire, "HELLO 3").starts_with("Map"));
    }
    let node = demo.nodes[&keeper.primary(doomed)];
    kill_process(node, Signal::STOP).unwrap();
    // Its threads stop one after the other.
    std::thread::sleep(Duration::from_millis(100));
    one.send(&format!("GET {dead}\r\n")).unwrap();
    let mut writer = connect(&proxy);
    writer.send(&format!("INCR {dead}\r\n")).unwrap();
    let mut waits = connect(&proxy);
    waits.send(&format!("BLPOP {dead} 1\r\n")).unwrap();
    for (verb, wire) in &mut alone {
        let time = if *verb == "BLPOP" { " 1" } else { "" };
        wire.send(&format!("{verb} {dead}{time}\r\n")).unwrap();
    }
    for _ in 0..20 {
        let begun = Instant::now();
        assert_eq!(say(&mut other, &format!("SET {alive} 1")), "OK");
        assert!(begun.elapsed() < node_timeout / 2, "{:?}", begun.elapsed());
    }
    // The fate of a write that was sent is unknown; a read is tried again, and then given up.
    let unknown = super::shown(&writer.reply().unwrap());
    assert!(unknown.starts_with("-UNKNOWN"), "{unknown}");
    let unknown = super::shown(&waits.reply().expect("it ends in time"));
    assert!(unknown.starts_with("-UNKNOWN"), "{unknown}");
    let given_up = super::shown(&one.reply().unwrap());
    assert!(given_up.starts_with("-CLUSTERDOWN"), "{given_up}");
    for (verb, wire) in &mut alone {
        let given_up = super::shown(&wire.reply().unwrap());
        assert!(given_up.starts_with("-CLUSTERDOWN"), "{verb}: {given_up}");
    }
    kill_process(node, Signal::CONT).unwrap();
    wait_for("the node serves again", || {
        let reply = say(&mut one, &format!("GET {dead}"));
        reply == "1" || reply == "2"
    });
    drop(proxy);
    demo.end();
}

/// Its time once began again at the node that got the slot.
#[test]
fn a_client_that_waits_keeps_its_time_when_its_slot_moves() {
    let demo = Demo::start(&["--copies", "1"]);
    let keeper = Keeper::of(&demo);
    let proxy = proxy(&demo, Settings::default());
    let (mut wire, mut other) = (connect(&proxy), connect(&proxy));
    assert_eq!(say(&mut wire, "SET {l}x 1"), "OK");
    let slot = slot_of(b"l");
    let directory = keeper.directory();
    let from = directory.owners.of(slot).unwrap();
    let to = *directory.shards.keys().find(|shard| **shard != from).unwrap();
    let begun = Instant::now();
    wire.send("BLPOP {l}ist 3\r\n").unwrap();
    other.send("WAITKEY {l}x 3000\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    let slots: SlotSet = [slot].into_iter().collect();
    keeper.order(1, from, to, &slots);
    keeper.wait_until_moved(to, &slots);
    assert_eq!(super::shown(&wire.reply().unwrap()), "nil");
    assert_eq!(super::shown(&other.reply().unwrap()), "0");
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(2) && took < Duration::from_millis(4_200), "{took:?}");
    drop(proxy);
    demo.end();
}
