//! Nodes of a cluster in one process, with a coordinator beside them: they take the roles of its records, replace a
//! primary that has died, and go on while the coordinator is away. Kills of processes are in the tests of the command
//! line.

mod coordinator;
mod copies;
mod ends;
mod failover;
mod full_disk;
mod messages;
mod moves;
mod power;
mod registry;
mod shown;
mod shutdown;

use std::time::{Duration, Instant};

use hotring_cluster::directory::Directory;
use hotring_cluster::{Epoch, NodeId, Owners, SLOTS, founding_records};
use hotring_coordinator::{Change, Outcome, Transaction};
use hotring_log::AckWhen;
use hotring_log::storage::Memory;
use hotring_server::Config;

use crate::replication::{Folder, info};
use crate::wire::{Reply, TestServer, Wire, ok};
use coordinator::{Door, Keeper};

/// Longest wait for anything, on a machine that does ten other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// The lease, how far a replica may be behind, and how long a new primary may take after a death. The lag is longer
/// than usual: a replica that a busy disk held up for a second may not take over, and nothing would serve. A promise
/// that began when the death is noticed would take two leases.
const LEASE: Duration = Duration::from_secs(4);
const IN_SYNC_LAG: Duration = Duration::from_secs(3);
const FAILOVER_MAX: Duration = Duration::from_secs(8);

/// A node: its server, its way to the coordinator, and where it keeps its data: on `disk`, if there is one.
struct Node {
    server: Option<TestServer>,
    door: Door,
    folder: Folder,
    disk: Option<Memory>,
    log: Option<AckWhen>,
    port: u16,
}

impl Node {
    fn new(keeper: &Keeper, name: &str, log: Option<AckWhen>) -> Node {
        Node::on(None, keeper, name, log)
    }

    fn on(disk: Option<Memory>, keeper: &Keeper, name: &str, log: Option<AckWhen>) -> Node {
        let mut node = Node { disk, ..Node::unstarted(keeper, name, log) };
        node.start(keeper);
        node
    }

    fn unstarted(keeper: &Keeper, name: &str, log: Option<AckWhen>) -> Node {
        let folder = Folder::new(&format!("cluster-{name}"));
        Node { server: None, door: keeper.door(), folder, disk: None, log, port: 0 }
    }

    /// Starts the node, at the address that it had before.
    fn start(&mut self, keeper: &Keeper) {
        self.door = keeper.door();
        self.start_by_its_door();
    }

    /// The same, with the door that it has.
    fn start_by_its_door(&mut self) {
        let settings = self.log.map(|when| self.folder.log(when));
        let listen = format!("127.0.0.1:{}", self.port);
        let change = |config: &mut Config| {
            config.listen = vec![listen];
            config.admin = Some("127.0.0.1:0".to_string());
            config.replication.lease_ms = Some(LEASE.as_millis() as u64);
            config.replication.in_sync_lag_ms = Some(IN_SYNC_LAG.as_millis() as u64);
            if let Some(settings) = settings {
                config.log = settings;
            }
        };
        let coordinator = self.door.coordinator();
        let server = match &self.disk {
            Some(disk) => TestServer::in_cluster_on(disk, coordinator, change),
            None => TestServer::in_cluster(coordinator, change),
        };
        self.port = server.address.port();
        self.server = Some(server);
    }

    /// Ends the node as a kill does for the others: its lease lives on until its time is over.
    fn kill(&mut self) {
        self.door.shut();
        self.server = None;
    }

    fn wire(&self) -> Wire {
        self.server.as_ref().expect("it runs").connect()
    }

    fn id(&self, keeper: &Keeper) -> NodeId {
        let directory = keeper.directory();
        let mut nodes = directory.nodes.iter();
        let found = nodes.find(|(_, (_, node))| node.port == self.port);
        *found.expect("it is registered").0
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Founds a cluster of these shards, the first node of each as its primary, and waits until all replicas are in sync.
fn found(keeper: &Keeper, shards: &[Vec<&Node>]) {
    let count: usize = shards.iter().map(Vec::len).sum();
    wait_for("the nodes register", || keeper.directory().alive.len() == count);
    let mut owners = Owners::default();
    (0..SLOTS).for_each(|slot| owners.give(slot, u32::from(slot) % shards.len() as u32));
    let ids = |nodes: &Vec<&Node>| nodes.iter().map(|node| node.id(keeper)).collect();
    let shards: Vec<_> = (0..).zip(shards.iter().map(ids)).collect();
    let records = founding_records(&keeper.directory(), "test", &shards, &owners).unwrap();
    let expect = records.iter().map(|(name, _)| (name.clone(), 0)).collect();
    let put = |(name, value)| Change::Put { name, value, lease: None };
    let changes = records.into_iter().map(put).collect();
    let done = keeper.transact(Transaction { expect, changes });
    assert!(matches!(done, Ok(Outcome::Done(_))), "{done:?}");
    wait_for("the replicas are in sync", || all_in_sync(&keeper.directory()));
}

fn all_in_sync(directory: &Directory) -> bool {
    let mut shards = directory.shards.values();
    shards.all(|(_, shard)| shard.in_sync.len() == shard.replicas.len())
}

/// Waits until the node accepts a write of a key of its shard, of two at most; returns how long that took.
fn wait_until_it_serves(node: &Node) -> Duration {
    let (began, mut wire) = (Instant::now(), node.wire());
    // These keys are in slots of both remainders.
    wait_for("it serves", || {
        ["a", "b"].iter().any(|key| {
            let reply = wire.try_say(&format!("SET {key} 1"));
            if reply.is_err() {
                // A write whose fate is open when the role changes ends its connection.
                wire = node.wire();
            }
            reply.is_ok_and(|reply| reply == ok())
        })
    });
    began.elapsed()
}

fn role(node: &Node) -> String {
    info(&mut node.wire(), "role")
}

/// Writes numbered keys; each write must be acknowledged.
fn write(node: &Node, keys: std::ops::Range<u32>) {
    let mut wire = node.wire();
    keys.for_each(|key| assert_eq!(wire.say(&format!("SET k{key} {key}")), ok()));
}

/// Checks that all these keys are there.
fn assert_has(node: &Node, keys: std::ops::Range<u32>) {
    let mut wire = node.wire();
    for key in keys {
        let value = Reply::Bulk(key.to_string().into_bytes());
        assert_eq!(wire.say(&format!("GET k{key}")), value, "k{key}");
    }
}
