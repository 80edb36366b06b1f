//! Slots move between processes, whose primaries are killed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hotring_cluster::directory::{Directory, MoveId, Wanted, move_name, move_value};
use hotring_cluster::{ShardId, SlotSet, slot_of};
use hotring_commands::settings::config::CoordinatorAddress;
use hotring_coordinator::{Change, Coordinator, Outcome, Transaction};
use hotring_server::Config;
use rustix::process::{Signal, kill_process};
use tokio::runtime::Runtime;

use crate::cluster_demo::{Demo, Seen, count_up, wait_for_more};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// The records of a demo.
pub struct Keeper {
    coordinator: Arc<dyn Coordinator>,
    runtime: Runtime,
}

impl Keeper {
    pub fn of(demo: &Demo) -> Keeper {
        let mut config = Config::default();
        config.replication.cluster.coordinator = Some(CoordinatorAddress::Node(demo.first.clone()));
        let coordinator = hotring_server::coordinator(&config).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Keeper { coordinator, runtime }
    }

    pub fn directory(&self) -> Directory {
        let begun = Instant::now();
        // A busy machine may keep the coordinator from answering in time.
        let snapshot = loop {
            match self.runtime.block_on(self.coordinator.read()) {
                Ok(snapshot) => break snapshot,
                Err(failure) => assert!(begun.elapsed() < PATIENCE, "{failure:?}"),
            }
        };
        let records = snapshot.records.iter();
        let records = records.map(|record| (&record.name[..], record.revision, &record.value[..]));
        Directory::read(records).unwrap()
    }

    /// Wants slots moved.
    pub fn order(&self, id: MoveId, from: ShardId, to: ShardId, slots: &SlotSet) {
        let value = move_value(&Wanted { from, to, slots: slots.clone() });
        let changes = vec![Change::Put { name: move_name(id), value, lease: None }];
        let transaction = Transaction { expect: Vec::new(), changes };
        let done = self.runtime.block_on(self.coordinator.transact(&transaction));
        assert!(matches!(done, Ok(Outcome::Done(_))), "{done:?}");
    }

    pub fn wait_until_moved(&self, to: ShardId, slots: &SlotSet) {
        let begun = Instant::now();
        loop {
            let directory = self.directory();
            if slots.iter().all(|slot| directory.owners.of(slot) == Some(to)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "the slots are not moved: {:?}", directory.moves);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a replica of the shard may take over.
    pub fn wait_for_replica(&self, shard: Option<ShardId>) {
        let begun = Instant::now();
        while shard.is_some_and(|shard| self.directory().shards[&shard].1.in_sync.is_empty()) {
            assert!(begun.elapsed() < PATIENCE, "no replica is in sync");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills the primary of a shard.
    pub fn kill_primary(&self, demo: &Demo, shard: ShardId) {
        let address = self.primary(shard);
        assert!(address != demo.first, "it keeps the records");
        kill_process(demo.nodes[&address], Signal::KILL).unwrap();
    }

    /// The address of a shard's primary.
    pub fn primary(&self, shard: ShardId) -> String {
        let directory = self.directory();
        let node = directory.node(directory.shards[&shard].1.primary.node).unwrap();
        format!("{}:{}", node.host, node.port)
    }

    /// A key of a shard, and one of another.
    pub fn keys_of(&self, shard: ShardId) -> [String; 2] {
        let directory = self.directory();
        [true, false].map(|is_of_it| {
            let mut keys = (0..).map(|n: u32| format!("key:{n}"));
            let owner = |key: &String| directory.owners.of(slot_of(key.as_bytes()));
            keys.find(|key| (owner(key) == Some(shard)) == is_of_it).expect("endless")
        })
    }

    /// Moves every second slot of a shard to another, and waits until that is done.
    pub fn move_half(&self, id: u64, from: ShardId, to: ShardId) {
        let now = self.directory();
        let slots = (0..16_384).filter(|slot| now.owners.of(*slot) == Some(from));
        let slots: SlotSet = slots.step_by(2).collect();
        self.order(id, from, to, &slots);
        self.wait_until_moved(to, &slots);
    }
}

/// Counters of two shards that do not have the first node, which keeps the records.
fn counters(directory: &Directory, shards: [ShardId; 2]) -> Vec<String> {
    let of = |shard| {
        let keys = (0..).map(|n: u32| format!("counter:{n}"));
        keys.filter(move |key| directory.owners.of(slot_of(key.as_bytes())) == Some(shard)).take(3)
    };
    shards.into_iter().flat_map(of).collect()
}

#[test]
fn slots_move_while_primaries_are_killed() {
    let demo = Demo::start(&[]);
    let keeper = Keeper::of(&demo);
    let directory = keeper.directory();
    let is_first = |shard: &ShardId| {
        let node = directory.shards[shard].1.primary.node;
        demo.first.ends_with(&format!(":{}", directory.node(node).unwrap().port))
    };
    let others: Vec<ShardId> =
        directory.shards.keys().copied().filter(|shard| !is_first(shard)).collect();
    let (one, other) = (others[0], others[1]);
    let keys = counters(&directory, [one, other]);
    let slots: SlotSet = keys[..3].iter().map(|key| slot_of(key.as_bytes())).collect();
    let seen: Vec<Seen> = keys.iter().map(|_| Seen::default()).collect();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (key, seen) in keys.iter().zip(&seen) {
            let (demo, ends) = (&demo, &ends);
            scope.spawn(move || count_up(demo, key, seen, ends));
        }
        wait_for_more(&seen, 50);
        for id in 0..4 {
            let (from, to) = if id % 2 == 0 { (one, other) } else { (other, one) };
            keeper.order(id, from, to, &slots);
            keeper.wait_until_moved(to, &slots);
            wait_for_more(&seen, 20);
        }
        let gap = seen.iter().map(|seen| seen.gap.swap(0, Ordering::Relaxed)).max().unwrap();
        println!("without a kill the longest wait was {gap} ms");
        // The source dies, and later the target: each shard has one copy then.
        for (id, doomed) in [(4, Some(one)), (5, None), (6, Some(other))] {
            let (from, to) = if id % 2 == 0 { (one, other) } else { (other, one) };
            keeper.wait_for_replica(doomed);
            keeper.order(id, from, to, &slots);
            if let Some(shard) = doomed {
                std::thread::sleep(Duration::from_millis(8));
                keeper.kill_primary(&demo, shard);
            }
            keeper.wait_until_moved(to, &slots);
            wait_for_more(&seen, 50);
        }
        ends.store(true, Ordering::Relaxed);
    });
    demo.end();
}
