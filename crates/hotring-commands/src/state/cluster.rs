//! The server's place in a cluster: which node it is, the records of the cluster as last seen, and how its coordinator
//! answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hotring_cluster::NodeId;
use hotring_cluster::directory::Directory;

use crate::host::clock;
use crate::state::forwarding::Forwarding;

/// The shared state of a node of a cluster.
#[derive(Debug)]
pub struct Cluster {
    /// This node.
    pub me: NodeId,
    /// The outcomes of the requests to the coordinator.
    pub coordinator: CoordinatorCounts,
    /// Messages for clients of the other nodes.
    pub forwarding: Forwarding,
    directory: RwLock<Arc<Directory>>,
    version: AtomicU64,
    promotions: AtomicU64,
}

impl Cluster {
    /// A node that has not seen any records yet.
    pub fn new(me: NodeId) -> Self {
        Cluster {
            me,
            coordinator: CoordinatorCounts::default(),
            forwarding: Forwarding::default(),
            directory: RwLock::default(),
            version: AtomicU64::new(1),
            promotions: AtomicU64::new(0),
        }
    }

    /// Replaces the records that commands see.
    pub fn publish(&self, directory: Directory) {
        let mut present = self.directory.write().unwrap_or_else(PoisonError::into_inner);
        *present = Arc::new(directory);
        // ORDERING: Release, pairs with `version`: whoever sees the number finds these records.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The records as last seen.
    pub fn directory(&self) -> Arc<Directory> {
        self.directory.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A number that every publication raises, never 0. A thread that keeps a directory compares it.
    pub fn version(&self) -> u64 {
        // ORDERING: Acquire, pairs with `publish`.
        self.version.load(Ordering::Acquire)
    }

    /// Counts that this node has become the primary of its shard.
    pub(super) fn count_promotion(&self) {
        // ORDERING: Relaxed, a figure.
        self.promotions.fetch_add(1, Ordering::Relaxed);
    }

    /// How often this node has become the primary of its shard since its start.
    pub fn promotions(&self) -> u64 {
        // ORDERING: Relaxed, a figure.
        self.promotions.load(Ordering::Relaxed)
    }
}

/// The outcomes of the requests to the coordinator.
#[derive(Debug, Default)]
pub struct CoordinatorCounts(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    requests: u64,
    failures: u64,
    answered: Option<Instant>,
    /// Unix milliseconds since which every request was answered.
    reachable_since: Option<u64>,
    /// When the present lease was granted or renewed.
    lease_kept: Option<Instant>,
}

/// The coordinator as this node sees it.
#[derive(Clone, Copy, Debug)]
pub struct CoordinatorStatus {
    /// Requests since the start, and those of them without an answer.
    pub requests: u64,
    pub failures: u64,
    /// Time since the last answer; None before the first.
    pub silent: Option<Duration>,
    /// Unix milliseconds since which every request was answered; None if the last one was not.
    pub reachable_since: Option<u64>,
    /// Time since the present lease was granted or renewed; None without a lease.
    pub lease_age: Option<Duration>,
}

impl CoordinatorCounts {
    /// Counts a request, which the coordinator has answered or not.
    pub fn count(&self, is_answered: bool) {
        let mut counted = self.counted();
        counted.requests += 1;
        if is_answered {
            counted.answered = Some(clock::monotonic());
            counted.reachable_since.get_or_insert_with(clock::unix_ms);
        } else {
            counted.failures += 1;
            counted.reachable_since = None;
        }
    }

    /// The lease of this node was granted or renewed, or has ended.
    pub fn note_lease(&self, lives: bool) {
        self.counted().lease_kept = lives.then(clock::monotonic);
    }

    /// The coordinator as this node sees it now.
    pub fn status(&self) -> CoordinatorStatus {
        let counted = self.counted();
        CoordinatorStatus {
            requests: counted.requests,
            failures: counted.failures,
            silent: counted.answered.map(|at| at.elapsed()),
            reachable_since: counted.reachable_since,
            lease_age: counted.lease_kept.map(|at| at.elapsed()),
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        // Figures, which no panic leaves half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hotring_cluster::directory::Node;
    use hotring_cluster::{Epoch, Identity, Incarnation, Shard};

    use super::*;

    /// The node of this number.
    pub(crate) fn node(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    #[test]
    fn the_coordinator_is_reachable_from_its_first_answer_after_a_failure() {
        let counts = CoordinatorCounts::default();
        assert!(counts.status().silent.is_none() && counts.status().reachable_since.is_none());
        counts.count(true);
        let since = counts.status().reachable_since.unwrap();
        counts.count(true);
        assert_eq!(counts.status().reachable_since, Some(since));
        counts.count(false);
        let status = counts.status();
        assert_eq!((status.requests, status.failures, status.reachable_since), (3, 1, None));
        assert!(status.silent.is_some() && status.lease_age.is_none());
        counts.note_lease(true);
        assert!(counts.status().lease_age.is_some());
        counts.note_lease(false);
        counts.count(true);
        assert!(counts.status().lease_age.is_none() && counts.status().reachable_since.is_some());
    }

    /// Shard 1 has node 1, and 2 as its replica, and slots 0 to 5460; shard 2 has node 3, which speaks TLS, and 4 as
    /// its dead replica, and slots up to 10922; shard 3 has node 5 and slots up to 14999. The rest has no shard.
    pub(crate) fn three_shards() -> Directory {
        let mut directory = Directory::default();
        for n in 1..=5 {
            let host = format!("10.0.0.{n}");
            let tls_port = (n == 3).then_some(7443);
            let port = 7000 + u16::from(n);
            let node_n = Node { host, port, tls_port, zone: String::new(), weight: 100 };
            directory.nodes.insert(node(n), (1, node_n));
            if n != 4 {
                directory.alive.insert(node(n), Incarnation(1));
            }
        }
        for (id, primary, replicas) in [(1, 1, &[2][..]), (2, 3, &[4]), (3, 5, &[])] {
            let replicas: Vec<NodeId> = replicas.iter().copied().map(node).collect();
            let shard = Shard {
                epoch: Epoch(id.into()),
                promoted: Epoch(1),
                primary: Identity { node: node(primary), incarnation: Incarnation(1) },
                in_sync: replicas.clone(),
                replicas,
            };
            directory.shards.insert(id, (1, shard));
        }
        for slot in 0..15_000 {
            directory.owners.give(slot, [1, 2, 3][usize::from(slot) / 5461]);
        }
        directory
    }
}
