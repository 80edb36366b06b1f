//! A primary whose disk is full. Where a tmpfs cannot be mounted, the tests print so and do nothing.

use super::moves::tags_of;
use super::power::begin_move;
use super::*;
use crate::full_disk::Tmpfs;

/// Length of each value.
const VALUE_LEN: i64 = 2_000;

/// A shard of a primary and a replica, each on a small disk of its own.
fn pair(name: &str) -> Option<(Keeper, [Node; 2], [Tmpfs; 2])> {
    let keeper = Keeper::new();
    let node = |part: &str| {
        let mut node = Node::unstarted(&keeper, &format!("{name}-{part}"), Some(AckWhen::Written));
        let disk = Tmpfs::mount_at(node.folder.path())?;
        node.start(&keeper);
        Some((node, disk))
    };
    let ((one, disk), (other, other_disk)) = (node("one")?, node("other")?);
    found(&keeper, &[vec![&one, &other]]);
    Some((keeper, [one, other], [disk, other_disk]))
}

/// Sets one key after the other until a write is refused; returns how many were acknowledged.
fn fill(node: &Node, prefix: &str) -> usize {
    let mut wire = node.wire();
    for key in 0.. {
        let reply = wire.say(&format!("SET {prefix}{key} {}", "x".repeat(VALUE_LEN as usize)));
        if reply != ok() {
            assert!(reply.text().starts_with("MISCONF "), "{reply:?}");
            return key;
        }
    }
    unreachable!("the disk has an end")
}

fn assert_has_all(node: &Node, count: usize) {
    let mut wire = node.wire();
    for key in 0..count {
        assert_eq!(wire.say(&format!("STRLEN k{key}")), Reply::Int(VALUE_LEN), "{key} of {count}");
    }
}

fn epoch(keeper: &Keeper) -> Epoch {
    keeper.directory().shards[&0].1.epoch
}

/// The primary took its replica out of the in-sync set, as that lacked what the full disk kept back, and refused writes
/// until there was space.
#[test]
fn a_primary_with_a_full_disk_hands_its_role_over_and_comes_back() {
    let Some((keeper, [one, other], [disk, _other])) = pair("full") else { return };
    disk.shrink(1 << 20);
    let before = epoch(&keeper);
    let count = fill(&one, "k");
    let began = Instant::now();
    wait_until_it_serves(&other);
    println!("the replica serves after {:?}", began.elapsed());
    assert!(began.elapsed() < FAILOVER_MAX, "{:?}", began.elapsed());
    assert_has_all(&other, count);
    wait_for("it follows", || role(&one) == "slave");
    // It cannot give up what the other one lacks before its log can be written.
    assert_eq!(keeper.directory().shards[&0].1.primary.node, other.id(&keeper));
    disk.make_room();
    wait_for("it is in sync again", || all_in_sync(&keeper.directory()));
    assert_has_all(&other, count);
    assert_eq!(epoch(&keeper), before.next(), "the role went over once");
    // And the way back, at whose end it has everything.
    let mut other = other;
    other.kill();
    wait_until_it_serves(&one);
    assert_has_all(&one, count);
}

/// A role that goes to another full disk only costs time.
#[test]
fn a_primary_stays_if_no_replica_can_write_and_goes_on_once_there_is_space() {
    let Some((keeper, [one, other], [disk, other_disk])) = pair("both-full") else { return };
    disk.shrink(1 << 20);
    // Full first.
    other_disk.shrink(3 << 19);
    let before = epoch(&keeper);
    let count = fill(&one, "k");
    // Longer than a handover takes.
    let began = Instant::now();
    while began.elapsed() < LEASE {
        let refused = one.wire().say("SET k0 1");
        assert!(refused.text().starts_with("MISCONF "), "{refused:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(all_in_sync(&keeper.directory()), "the replica lacks nothing");
    disk.make_room();
    other_disk.make_room();
    wait_until_it_serves(&one);
    assert_has_all(&one, count);
    assert_eq!((epoch(&keeper), &role(&other)[..]), (before, "slave"));
}

/// The target took the whole import before it failed, again and again.
#[test]
fn a_move_to_a_full_disk_begins_once_there_is_space() {
    let keeper = Keeper::new();
    let source = Node::new(&keeper, "space-source", Some(AckWhen::Written));
    let mut target = Node::unstarted(&keeper, "space-target", Some(AckWhen::Written));
    let Some(disk) = Tmpfs::mount_at(target.folder.path()) else { return };
    target.start(&keeper);
    found(&keeper, &[vec![&source], vec![&target]]);
    for primary in [&source, &target] {
        wait_until_it_serves(primary);
    }
    let [tag, other] = [0, 1].map(|shard| tags_of(shard, 1).remove(0));
    let mut wire = source.wire();
    (0..100).for_each(|n| assert_eq!(wire.say(&format!("SET {{{tag}}}{n} v")), ok()));
    disk.shrink(1 << 20);
    fill(&target, &format!("{{{other}}}"));
    let keys = || info(&mut target.wire(), "db0");
    let (before, began) = (keys(), Instant::now());
    begin_move(&keeper, &tag);
    while began.elapsed() < Duration::from_secs(3) {
        assert_eq!(keys(), before, "it has taken keys");
        std::thread::sleep(Duration::from_millis(5));
    }
    disk.make_room();
    wait_for("the slot moves", || {
        target.wire().say(&format!("GET {{{tag}}}99")) == Reply::Bulk(b"v".to_vec())
    });
}
