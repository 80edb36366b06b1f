//! Slots move to a shard whose disk is slow, fails, or loses what was not synced.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hotring_cluster::directory::{Wanted, move_name, move_value};
use hotring_cluster::slot_of;
use hotring_log::storage::memory::{Cut, Step};

use super::moves::{slots, tags_of};
use super::*;

pub(super) const KEYS: u32 = 200;

/// How long the disk holds a sync up: longer than a move takes, and shorter than the log lets its writer go on.
const STUCK: Duration = Duration::from_secs(2);

/// Two shards of one node each, whose logs are synced each second. The first has keys; the disk of the second is in
/// memory.
pub(super) struct Shards {
    keeper: Keeper,
    pub(super) source: Node,
    pub(super) target: Node,
    disk: Memory,
    pub(super) tag: String,
}

/// While it lives, the disk takes no sync.
pub(super) struct Stuck(Arc<AtomicBool>);

impl Drop for Stuck {
    fn drop(&mut self) {
        // ORDERING: Relaxed, as in `hold_syncs_up`.
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The slot of this tag must go from the first shard to the second.
pub(super) fn begin_move(keeper: &Keeper, tag: &str) {
    let value = move_value(&Wanted { from: 0, to: 1, slots: slots(&[tag]) });
    let change = Change::Put { name: move_name(1), value, lease: None };
    let transaction = Transaction { expect: Vec::new(), changes: vec![change] };
    let done = keeper.transact(transaction);
    assert!(matches!(done, Ok(Outcome::Done(_))), "{done:?}");
}

impl Shards {
    pub(super) fn new(name: &str) -> Shards {
        let (keeper, disk) = (Keeper::new(), Memory::new());
        let when = Some(AckWhen::Written);
        let source = Node::new(&keeper, &format!("power-{name}-source"), when);
        let on = Some(disk.clone());
        let target = Node::on(on, &keeper, &format!("power-{name}-target"), when);
        found(&keeper, &[vec![&source], vec![&target]]);
        for primary in [&source, &target] {
            wait_until_it_serves(primary);
        }
        let shards = Shards { keeper, source, target, disk, tag: tags_of(0, 1).remove(0) };
        let mut wire = shards.source.wire();
        (0..KEYS).for_each(|n| assert_eq!(wire.say(&shards.set(n)), ok()));
        wait_for("the target's own epoch is safe", || shards.disk.unsynced() == 0);
        shards
    }

    fn set(&self, n: u32) -> String {
        format!("SET {{{}}}k{n} {n}", self.tag)
    }

    pub(super) fn begin_move(&self) {
        begin_move(&self.keeper, &self.tag);
    }

    /// From here on the target's disk takes no sync.
    pub(super) fn hold_syncs_up(&self) -> Stuck {
        let is_stuck = Arc::new(AtomicBool::new(true));
        let stuck = Stuck(is_stuck.clone());
        self.disk.before_each(move |_, step| {
            // ORDERING: Relaxed, nothing else is read through it.
            while step == Step::Sync && is_stuck.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        stuck
    }

    fn has_moved(&self) -> bool {
        self.keeper.directory().owners.of(slot_of(self.tag.as_bytes())) == Some(1)
    }

    /// Clients write at the source for a while, or until the slot has moved. None of them waits for a disk.
    fn write_for(&self, time: Duration) {
        let (begun, mut wire) = (Instant::now(), self.source.wire());
        while begun.elapsed() < time && !self.has_moved() {
            let asked = Instant::now();
            let reply = wire.say(&self.set(0));
            assert!(reply == ok() || self.has_moved(), "{reply:?}");
            assert!(asked.elapsed() < STUCK / 2, "a write waited for {:?}", asked.elapsed());
        }
    }

    /// The target ends, and is started again with this disk.
    fn restart_target(&mut self, disk: Memory) {
        self.target.kill();
        self.target.folder.write("reign", "another-boot everysec 1\n");
        self.target.disk = Some(disk);
        self.target.start(&self.keeper);
        wait_until_it_serves(&self.target);
    }

    fn assert_target_has_all(&self) {
        let mut wire = self.target.wire();
        for n in 0..KEYS {
            let value = Reply::Bulk(n.to_string().into_bytes());
            let get = format!("GET {{{}}}k{n}", self.tag);
            wait_for("the target shows the keys", || !wire.say(&get).is_error());
            assert_eq!(wire.say(&get), value, "k{n}");
        }
    }
}

/// The target had only written the keys when the source forgot them.
#[test]
fn a_move_takes_no_keys_to_a_disk_that_may_lose_them() {
    let mut shards = Shards::new("cut");
    let mut stuck = Some(shards.hold_syncs_up());
    shards.begin_move();
    shards.write_for(STUCK);
    if !shards.has_moved() {
        stuck = None;
        wait_for("the slot moves once the disk has its keys", || shards.has_moved());
    }
    let left = shards.disk.image(&Cut { kept: Vec::new(), torn: None });
    drop(stuck);
    shards.restart_target(left);
    shards.assert_target_has_all();
}

/// Keys stay where they are while the target's log has failed, and move once it is in order.
#[test]
fn a_move_waits_for_a_target_whose_disk_has_failed() {
    let mut shards = Shards::new("failed");
    shards.disk.fail(Step::Sync, 0, usize::MAX, ErrorKind::Other);
    shards.begin_move();
    shards.write_for(STUCK);
    assert!(!shards.has_moved());
    let mut wire = shards.target.wire();
    // Besides the one by which it has shown that it serves.
    wait_for("the target keeps nothing", || info(&mut wire, "db0").starts_with("keys=1,"));
    let left = shards.disk.killed();
    shards.restart_target(left);
    wait_for("the slot moves", || shards.has_moved());
    shards.assert_target_has_all();
}
