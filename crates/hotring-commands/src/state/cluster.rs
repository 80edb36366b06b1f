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
