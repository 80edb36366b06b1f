//! The server's place in a cluster: which node it is, and the records of the cluster as last seen.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hotring_cluster::NodeId;
use hotring_cluster::directory::Directory;

/// The shared state of a node of a cluster.
#[derive(Debug)]
pub struct Cluster {
    /// This node.
    pub me: NodeId,
    directory: RwLock<Arc<Directory>>,
    version: AtomicU64,
}

impl Cluster {
    /// A node that has not seen any records yet.
    pub fn new(me: NodeId) -> Self {
        Cluster { me, directory: RwLock::default(), version: AtomicU64::new(1) }
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
