//! The controller beside a keeper of records: nodes die and come back, primaries change, an operator adds and drains
//! nodes, views are old, transactions come late. And its wrong variants.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use fastrand::Rng;

use crate::changes::{join, leave};
use crate::controller::{Controller, Deed};
use crate::directory::{
    CLUSTER, Directory, Life, Node, Replacing, alive_name, alive_value, cluster_value,
    leaving_name, node_name, node_value, shard_name, shard_value,
};
use crate::faults::{self, Fault};
use crate::ids::{Epoch, Identity, Incarnation, Moment, NodeId};
use crate::keeper::Keeper;
use crate::kept::{Change, LeaseId, Outcome, Transaction};
use crate::records::{Shard, ShardId};

const SCHEDULES: u64 = 150;
const STEPS: u32 = 400;
const REPLACE_AFTER: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(3_600);

/// Nodes 1 to 3 are shard 0 and 4 to 6 are shard 1; the others are spare.
const NODES: u8 = 9;

fn id(n: u8) -> NodeId {
    NodeId([n; 20])
}

fn put(name: String, value: Vec<u8>, lease: Option<LeaseId>) -> Change {
    Change::Put { name, value, lease }
}

fn node(n: u8, zone: &str, weight: u32) -> Node {
    let (host, zone) = ("h".to_string(), zone.to_string());
    Node { host, port: n.into(), tls_port: None, zone, weight }
}

fn shard(primary: u8, replicas: &[u8], in_sync: &[u8]) -> Shard {
    let ids = |nodes: &[u8]| nodes.iter().copied().map(id).collect();
    let primary = Identity { node: id(primary), incarnation: Incarnation(1) };
    let (epoch, in_sync, replicas) = (Epoch(1), ids(in_sync), ids(replicas));
    Shard { epoch, promoted: epoch, primary, in_sync, replicas }
}

/// A node as a controller.
struct Desk {
    controller: Controller,
    view: Directory,
    lease: Option<LeaseId>,
}

struct World {
    rng: Rng,
    now: Moment,
    keeper: Keeper,
    desks: Vec<Desk>,
    /// Transactions on their way, with who sent them and why.
    late: Vec<(NodeId, Deed, Transaction)>,
    replaced: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut keeper = Keeper::new(1);
        let zones = ["a", "b", "c"];
        let nodes = (1..=NODES).map(|n| {
            let node = node(n, zones[usize::from(n) % 3], 100);
            put(node_name(id(n)), node_value(&node), None)
        });
        let shards = [shard(1, &[2, 3], &[2, 3]), shard(4, &[5, 6], &[5, 6])];
        let shards =
            (0..).zip(shards).map(|(at, shard)| put(shard_name(at), shard_value(&shard), None));
        let cluster = put(CLUSTER.to_string(), cluster_value("c"), None);
        let changes = nodes.chain(shards).chain([cluster]).collect();
        keeper.transact(&Transaction { expect: vec![], changes }).unwrap();
        let desk = |n| Desk {
            controller: Controller::new(id(n)),
            view: Directory::default(),
            lease: None,
        };
        let desks = (1..=NODES).map(desk).collect();
        let (rng, now) = (Rng::with_seed(seed), Duration::ZERO);
        let mut world = World { rng, now, keeper, desks, late: Vec::new(), replaced: 0 };
        (0..usize::from(NODES)).for_each(|at| world.come_back(at));
        world
    }

    fn read(&self) -> Directory {
        let records = self.keeper.read().records;
        let records = records.iter().map(|r| (&r.name[..], r.revision, &r.value[..]));
        Directory::read(records).unwrap()
    }

    fn come_back(&mut self, at: usize) {
        if self.desks[at].lease.is_none() {
            let lease = self.keeper.grant(self.now, LEASE).unwrap().id;
            let life = Life { incarnation: Incarnation(1), ..Life::default() };
            let (name, value) = (alive_name(id(at as u8 + 1)), alive_value(&life));
            let changes = vec![put(name, value, Some(lease))];
            self.keeper.transact(&Transaction { expect: vec![], changes }).unwrap();
            self.desks[at].lease = Some(lease);
        }
    }

    fn die(&mut self, at: usize) {
        if let Some(lease) = self.desks[at].lease.take() {
            self.keeper.revoke(lease).unwrap();
        }
    }

    fn write(&mut self, shard: ShardId, record: &Shard) {
        let changes = vec![put(shard_name(shard), shard_value(record), None)];
        self.keeper.transact(&Transaction { expect: vec![], changes }).unwrap();
    }

    /// What the nodes of a shard do: a replica takes over, or the primary adapts its in-sync set.
    fn serve(&mut self, at: ShardId) {
        let directory = self.read();
        let (_, shard) = &directory.shards[&at];
        let lives = |node: &NodeId| directory.is_alive(*node);
        if !lives(&shard.primary.node) {
            let heir = shard.in_sync.iter().copied().find(lives);
            let heir = heir.map(|node| Identity { node, incarnation: Incarnation(1) });
            if let Some(heir) = heir {
                let after = shard.with_primary(heir, Epoch(0));
                return self.write(at, &after);
            }
            return;
        }
        let mut in_sync = shard.in_sync.clone();
        in_sync.retain(lives);
        // A copy takes its time.
        let behind = shard.replicas.iter().find(|node| lives(node) && !in_sync.contains(node));
        in_sync.extend(behind.filter(|_| self.rng.u8(..4) == 0));
        if in_sync != shard.in_sync {
            let after = Shard { in_sync, ..shard.clone() };
            self.write(at, &after);
        }
    }

    fn operate(&mut self) {
        let (directory, node) = (self.read(), id(self.rng.u8(1..=NODES)));
        let change = match self.rng.bool() {
            true => join(&directory, self.rng.u32(..2), &[node]),
            false => leave(&directory, node),
        };
        if let Ok(transaction) = change {
            self.keeper.transact(&transaction).unwrap();
        }
        if self.rng.u8(..2) == 0 {
            let changes = vec![Change::Delete { name: leaving_name(node) }];
            self.keeper.transact(&Transaction { expect: vec![], changes }).unwrap();
        }
    }

    /// A node looks at the records as it knows them.
    fn look(&mut self, at: usize, is_calm: bool) -> Result<(), String> {
        if is_calm || self.rng.bool() {
            self.desks[at].view = self.read();
        }
        let Desk { controller, view, lease: Some(lease) } = &mut self.desks[at] else {
            return Ok(());
        };
        let found = controller.look(self.now, REPLACE_AFTER, *lease, view);
        let Some((deed, transaction)) = found else { return Ok(()) };
        let sent = (id(at as u8 + 1), deed, transaction);
        if !is_calm && self.rng.u8(..4) == 0 {
            self.late.push(sent);
            return Ok(());
        }
        self.arrive(sent)
    }

    /// A transaction takes effect, or not; what it did must be right by the records of that moment.
    fn arrive(
        &mut self,
        (by, deed, transaction): (NodeId, Deed, Transaction),
    ) -> Result<(), String> {
        let before = self.read();
        if !matches!(self.keeper.transact(&transaction), Ok(Outcome::Done(_))) {
            return Ok(());
        }
        if deed == Deed::Elect {
            return before.controller.map_or(Ok(()), |_| Err("two controllers".to_string()));
        }
        if before.controller.map(|(_, node)| node) != Some(by) {
            return Err(format!("{by} is not the controller: {deed}"));
        }
        let after = self.read();
        for node in (1..=NODES).map(id) {
            let belongs = |(_, shard): &&(u64, Shard)| {
                shard.primary.node == node || shard.replicas.contains(&node)
            };
            if after.shards.values().filter(belongs).count() > 1 {
                return Err(format!("{node} has two shards: {deed}"));
            }
        }
        let wanted = match deed {
            Deed::Replace(shard, Replacing { dead, spare }) => {
                self.replaced += 1;
                if before.is_alive(dead) {
                    return Err(format!("the replica lives: {deed}"));
                }
                (shard, before.shards[&shard].1.with_replica(spare))
            }
            Deed::Leave(shard, node) | Deed::GiveUp(shard, node) => {
                (shard, before.shards[&shard].1.without(node))
            }
            Deed::Settle(shard) => (shard, before.shards[&shard].1.clone()),
            Deed::Elect | Deed::Resign => return Ok(()),
        };
        match after.shards[&wanted.0].1 == wanted.1 {
            true => Ok(()),
            false => Err(format!("the shard has become something else: {deed}")),
        }
    }

    fn step(&mut self) -> Result<(), String> {
        self.now += Duration::from_secs(self.rng.u64(..20));
        let at = self.rng.usize(..usize::from(NODES));
        match self.rng.u8(..20) {
            0 => self.die(at),
            1..3 => self.come_back(at),
            3 => self.operate(),
            4..8 => {
                let shard = self.rng.u32(..2);
                self.serve(shard);
            }
            8..10 if !self.late.is_empty() => {
                let sent = self.late.swap_remove(self.rng.usize(..self.late.len()));
                return self.arrive(sent);
            }
            _ => return self.look(at, false),
        }
        Ok(())
    }

    fn run(mut self) -> Result<u64, String> {
        for _ in 0..STEPS {
            self.step()?;
        }
        while let Some(sent) = self.late.pop() {
            self.arrive(sent)?;
        }
        // Whoever is dead stays so; the others go on.
        for _ in 0..60 {
            self.now += Duration::from_secs(10);
            (0..2).for_each(|shard| self.serve(shard));
            for at in 0..usize::from(NODES) {
                self.look(at, true)?;
            }
        }
        let end = self.read();
        let has_spare =
            (1..=NODES).map(id).any(|n| end.is_idle(n) && !end.leaving.contains_key(&n));
        for (at, (_, shard)) in end.shards.iter().filter(|(_, (_, s))| end.is_alive(s.primary.node))
        {
            let dead = shard.replicas.iter().find(|node| !end.is_alive(**node));
            if let Some(dead) = dead.filter(|_| has_spare) {
                return Err(format!("shard {at} keeps the dead {dead} beside a spare node"));
            }
            if end.replacing.contains_key(at) && has_spare {
                return Err(format!("the replacement of shard {at} does not end"));
            }
        }
        Ok(self.replaced)
    }
}

#[test]
fn the_controller_replaces_dead_replicas_and_harms_nothing() {
    let replaced = (0..SCHEDULES)
        .map(|seed| World::new(seed).run().unwrap_or_else(|why| panic!("seed {seed}: {why}")));
    let replaced: u64 = replaced.sum();
    println!("{replaced} replacements");
    assert!(replaced > SCHEDULES / 2);
}

#[test]
fn every_wrong_variant_of_the_controller_is_found() {
    let variants = [
        Fault::PlaceTwice,
        Fault::AnyController,
        Fault::ReplaceAtOnce,
        Fault::AnyShard,
        Fault::AnyDeath,
    ];
    for fault in variants {
        faults::set(Some(fault));
        let found = (0..3 * SCHEDULES).find_map(|seed| {
            let result = catch_unwind(AssertUnwindSafe(|| World::new(seed).run()));
            match result {
                Ok(Ok(_)) => None,
                Ok(Err(why)) => Some((seed, why)),
                Err(_) => Some((seed, "a panic".to_string())),
            }
        });
        faults::set(None);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}

/// Shard 0 of nodes 1 to 3 in zones a, b and c; 3 is dead. Nodes 7 and 8 are idle in zones a and c, 9 in c, too.
fn with_a_dead_replica() -> Directory {
    let mut directory = Directory { cluster: Some((1, "c".into())), ..Directory::default() };
    for (n, zone, weight) in
        [(1, "a", 1), (2, "b", 1), (3, "c", 1), (7, "a", 900), (8, "c", 1), (9, "c", 2)]
    {
        directory.nodes.insert(id(n), (1, node(n, zone, weight)));
        directory.alive.insert(id(n), Incarnation(1));
    }
    directory.alive.remove(&id(3));
    directory.shards.insert(0, (1, shard(1, &[2, 3], &[2])));
    directory.controller = Some((4, id(1)));
    directory
}

fn counts_anew_after_a_return() {
    let (mut controller, mut directory) = (Controller::new(id(1)), with_a_dead_replica());
    let look = |controller: &mut Controller, seconds, directory: &Directory| {
        let found = controller.look(Duration::from_secs(seconds), REPLACE_AFTER, 1, directory);
        found.map(|(deed, _)| deed)
    };
    assert_eq!(look(&mut controller, 100, &directory), None);
    directory.alive.insert(id(3), Incarnation(2));
    assert_eq!(look(&mut controller, 130, &directory), None);
    directory.alive.remove(&id(3));
    assert_eq!(look(&mut controller, 150, &directory), None);
    assert_eq!(look(&mut controller, 209, &directory), None, "it was back meanwhile");
    let (dead, spare) = (id(3), id(9));
    let replaced = Some(Deed::Replace(0, Replacing { dead, spare }));
    assert_eq!(
        look(&mut controller, 210, &directory),
        replaced,
        "another zone, then the strongest"
    );
    directory.leaving.insert(id(9), Epoch(1));
    let replaced = Some(Deed::Replace(0, Replacing { dead, spare: id(8) }));
    assert_eq!(look(&mut controller, 210, &directory), replaced, "9 was drained");
    // Another controller begins to count, and this one when it is that again.
    directory.controller = Some((5, id(2)));
    assert_eq!(look(&mut controller, 300, &directory), None);
    directory.controller = Some((6, id(1)));
    assert_eq!(look(&mut controller, 301, &directory), None);
    assert_eq!(look(&mut controller, 361, &directory), replaced);
    let never = controller.look(Duration::from_secs(999), Duration::ZERO, 1, &directory);
    assert_eq!(never.map(|(deed, _)| deed), Some(Deed::Resign), "0 is never");
}

#[test]
fn only_time_that_the_controller_has_seen_counts() {
    crate::assert_variants_are_found(&[(counts_anew_after_a_return, &[Fault::CountOn])]);
    counts_anew_after_a_return();
}

#[test]
fn a_replica_that_waits_for_its_primary_is_not_replaced() {
    let (mut controller, mut directory) = (Controller::new(id(1)), with_a_dead_replica());
    let mut look = |seconds, directory: &Directory| {
        controller
            .look(Duration::from_secs(seconds), REPLACE_AFTER, 1, directory)
            .map(|(deed, _)| deed)
    };
    // The primary counts it as in sync: it may be that it lives, cut off from the coordinator.
    directory.shards.insert(0, (2, shard(1, &[2, 3], &[2, 3])));
    assert_eq!(look(0, &directory), None);
    assert_eq!(look(100, &directory), None);
    directory.shards.insert(0, (3, shard(1, &[2, 3], &[2])));
    directory.alive.remove(&id(1));
    assert_eq!(look(200, &directory), None, "nobody could copy anything");
    directory.alive.insert(id(1), Incarnation(1));
    assert!(look(201, &directory).is_some());
    // The dead one comes back first.
    let (dead, spare) = (id(3), id(9));
    directory.replacing.insert(0, (5, Replacing { dead, spare }));
    directory.shards.insert(0, (6, shard(1, &[2, 3, 9], &[2])));
    directory.alive.insert(dead, Incarnation(2));
    assert_eq!(look(210, &directory), None);
    directory.shards.insert(0, (7, shard(1, &[2, 3, 9], &[2, 3])));
    assert_eq!(look(220, &directory), Some(Deed::Leave(0, spare)));
    directory.shards.insert(0, (8, shard(1, &[2, 3, 9], &[2, 9])));
    assert_eq!(look(230, &directory), Some(Deed::Leave(0, dead)));
    directory.shards.insert(0, (9, shard(9, &[1, 2, 3], &[1, 2])));
    assert_eq!(
        look(240, &directory),
        Some(Deed::Leave(0, dead)),
        "the spare node has become primary"
    );
    directory.shards.insert(0, (10, shard(9, &[1, 2, 3], &[1, 2, 3])));
    assert_eq!(look(245, &directory), Some(Deed::Settle(0)), "neither may leave");
    directory.shards.insert(0, (11, shard(9, &[1, 2], &[1, 2])));
    assert_eq!(look(250, &directory), Some(Deed::Settle(0)));
    // The spare node dies before it has anything, and the other one is still dead.
    directory.shards.insert(0, (12, shard(1, &[2, 3, 9], &[2])));
    [dead, spare].iter().for_each(|node| _ = directory.alive.remove(node));
    assert_eq!(look(300, &directory), None);
    assert_eq!(look(360, &directory), Some(Deed::GiveUp(0, spare)));
}

/// The primary was started again, and none is known to have everything.
#[test]
fn a_replacement_takes_no_member_out_of_a_lost_set() {
    let (mut controller, mut directory) = (Controller::new(id(1)), with_a_dead_replica());
    let (dead, spare) = (id(3), id(9));
    directory.replacing.insert(0, (5, Replacing { dead, spare }));
    directory.shards.insert(0, (6, shard(1, &[2, 3, 9], &[2, 3, 9])));
    let mut look = |directory: &Directory| {
        let found = controller.look(Duration::from_secs(100), REPLACE_AFTER, 1, directory);
        found.map(|(deed, _)| deed)
    };
    for (is_back, leaves) in [(true, spare), (false, dead)] {
        directory.alive.insert(dead, Incarnation(1));
        if !is_back {
            directory.alive.remove(&dead);
        }
        directory.alive.insert(id(1), Incarnation(1));
        assert_eq!(look(&directory), Some(Deed::Leave(0, leaves)));
        directory.alive.insert(id(1), Incarnation(2));
        assert_eq!(look(&directory), None);
    }
}
