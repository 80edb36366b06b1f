//! Moves that meet what is in their way: targets without a primary, and the removal of all keys.

use hotring_cluster::SlotSet;
use hotring_cluster::directory::{Wanted, move_name, move_value};

use super::moves::{Shards, slots, tags_of};
use super::*;
use crate::wire::bulk;

#[test]
fn flushes_at_both_sides_remove_what_they_must() {
    let shards = Shards::new("flush");
    let tag = &tags_of(0, 1)[0];
    let mut client = shards.client();
    for round in 0..6 {
        let (from, to) = (round % 2, 1 - round % 2);
        client.say(&format!("SET {{{tag}}}k {round}"));
        // The target's does not touch what comes.
        shards.order(round.into(), from, to, &slots(&[tag]));
        if round < 4 {
            let target = &shards.nodes[if to == 0 { 0 } else { 2 }];
            assert_eq!(target.wire().say("FLUSHALL"), ok());
            shards.wait_until_moved(to, &slots(&[tag]));
            // It may have come after the slots had.
            let got = client.say(&format!("GET {{{tag}}}k"));
            assert!(got == bulk(&round.to_string()) || got == Reply::Null, "{got:?}");
        } else {
            let source = &shards.nodes[if from == 0 { 0 } else { 2 }];
            assert_eq!(source.wire().say("FLUSHALL"), ok());
            shards.wait_until_moved(to, &slots(&[tag]));
            let got = client.say(&format!("GET {{{tag}}}k"));
            assert!(got == bulk(&round.to_string()) || got == Reply::Null, "{got:?}");
        }
        client.say(&format!("DEL {{{tag}}}k"));
    }
}

/// The keys that were coming stayed when the target was emptied, and were its own a moment later: by then its source
/// had removed none, as they were not its own any more.
#[test]
fn a_flush_while_a_shard_takes_slots_over_removes_their_keys() {
    let shards = Shards::new("flush-late");
    let tag = &tags_of(0, 1)[0];
    let mut client = shards.client();
    client.say(&format!("SET {{{tag}}}k 1"));
    let [source, _, target, _] = &shards.nodes;
    // The target hears late that the slot is its own.
    target.door.delay_watches(true);
    shards.order(1, 0, 1, &slots(&[tag]));
    wait_for("the target sees the move", || {
        target.door.delay_watches(false);
        std::thread::sleep(Duration::from_millis(10));
        target.door.delay_watches(true);
        let owners = shards.keeper.directory().owners;
        slots(&[tag]).iter().all(|slot| owners.of(slot) == Some(1))
    });
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| target.wire().say("FLUSHALL"));
        assert_eq!(source.wire().say("FLUSHALL"), ok());
        std::thread::sleep(Duration::from_millis(200));
        target.door.delay_watches(false);
        assert_eq!(flush.join().unwrap(), ok());
    });
    assert_eq!(client.say(&format!("GET {{{tag}}}k")), Reply::Null);
}

/// Four moves to a shard that has no primary took all places of their source for ever.
#[test]
fn moves_to_a_shard_without_a_primary_keep_no_others_waiting() {
    let keeper = Keeper::new();
    // With a log, so that the third may lead again.
    let node = |part| Node::new(&keeper, &format!("ends-{part}"), Some(AckWhen::Synced));
    let mut nodes = ["a", "b", "c"].map(node);
    found(&keeper, &nodes.each_ref().map(|node| vec![node]));
    nodes[2].kill();
    let order = |id, to, slots: &SlotSet| {
        let value = move_value(&Wanted { from: 0, to, slots: slots.clone() });
        let changes = vec![Change::Put { name: move_name(id), value, lease: None }];
        let done = keeper.transact(Transaction { expect: Vec::new(), changes });
        assert!(matches!(done, Ok(Outcome::Done(_))), "{done:?}");
    };
    // Each third slot is shard 0's.
    let slot = |n: u16| SlotSet::from_iter([3 * n]);
    (0..6).for_each(|n| order(n.into(), 2, &slot(n)));
    let wait = |n: u16| {
        wait_for("the other moves are made", || {
            slot(n).iter().all(|slot| keeper.directory().owners.of(slot) == Some(1))
        });
    };
    order(6, 1, &slot(6));
    wait(6);
    // Once its lease has ended it is not even asked.
    let dead = nodes[2].id(&keeper);
    wait_for("its lease ends", || !keeper.directory().is_alive(dead));
    order(7, 1, &slot(7));
    wait(7);
    // It comes back, and gets what it was to get.
    nodes[2].start(&keeper);
    wait_for("the waiting moves are over", || {
        let directory = keeper.directory();
        let owner = directory.owners.of(0);
        directory.moves.is_empty() && owner == Some(2)
    });
}
