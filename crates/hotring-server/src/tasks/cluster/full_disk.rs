//! A primary whose disk is full: it hands its role to a replica that can write, so that its shard goes on.
//!
//! 1. The log must have been tried again in vain: a disk may be full for a moment.
//! 2. Only an in-sync replica that has written all that this node has gets the role, and does not say that its own disk
//!    is full. So a node whose disk was full gets it back only once its log has caught up.
//! 3. Without such a replica the primary stays, refuses writes, and accepts them again once there is space.
//! 4. After an attempt the next one must wait, so that two small disks do not pass the role to and fro.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_cluster::NodeId;
use hotring_commands::host::clock;
use hotring_commands::state::replication::ReplicaStatus;
use hotring_commands::state::server::Server;
use hotring_log::{Log, Lsn};

use super::farewell::hand_over;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Looks after the log of a cluster's node until the server ends.
pub(crate) async fn keep(server: Arc<Server>) {
    if server.cluster.is_none() {
        return;
    }
    let (mut full, mut is_told) = (None::<Instant>, false);
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(log) = server.persist.durability.log().filter(|log| is_full(&server, log)) else {
            (full, is_told) = (None, false);
            continue;
        };
        let full_disk = server.settings.config().replication.cluster.full_disk;
        if full.get_or_insert_with(clock::monotonic).elapsed() < full_disk.after() {
            continue;
        }
        match heir(&server.replication.replicas(), log.written()) {
            Ok(heir) => {
                tracing::error!("this node's disk is full: it hands its role to node {heir}");
                hand_over(&server, log, Some(heir), || true).await;
                tokio::time::sleep(full_disk.pause()).await;
            }
            Err(why) if !is_told => {
                is_told = true;
                tracing::error!(
                    "this node's disk is full and {why}: it stays primary, and refuses writes until there is space"
                );
            }
            Err(_) => {}
        }
    }
}

/// Whether this node is primary and refuses writes, as its disk is full.
fn is_full(server: &Server, log: &Log) -> bool {
    let settings = server.settings.config();
    let is_refused = server.persist.durability.refuses(&settings.log).is_some();
    is_refused && !server.replication.is_replica() && log.error().is_some_and(|e| e.is_temporary)
}

/// The in-sync replica that has written the most, and no less than this node, or why there is none.
fn heir(replicas: &[ReplicaStatus], written: Lsn) -> Result<NodeId, &'static str> {
    let in_sync = || replicas.iter().filter(|it| it.is_in_sync);
    let healthy = in_sync().filter(|it| it.written >= written && !it.is_full);
    if let Some(heir) = healthy.max_by_key(|it| it.written) {
        return Ok(heir.node);
    }
    Err(match in_sync().next() {
        None => "it has no in-sync replica",
        Some(_) if in_sync().all(|it| it.is_full) => "those of all its in-sync replicas are, too",
        Some(_) => "no in-sync replica has written all that this node has",
    })
}

#[cfg(test)]
mod tests {
    use hotring_commands::state::replication::Stage;

    use super::*;

    fn replica(node: u8, written: Lsn, is_full: bool) -> ReplicaStatus {
        ReplicaStatus {
            node: NodeId([node; 20]),
            ip: String::new(),
            port: 0,
            stage: Stage::Online,
            copied: 0,
            applied: 9,
            written,
            synced: 0,
            lag: Duration::ZERO,
            lag_bytes: 0,
            is_in_sync: true,
            is_full,
        }
    }

    /// The role went to another full disk if that had been filled at the same record.
    #[test]
    fn a_replica_that_can_write_gets_the_role() {
        let full = replica(1, 8, true);
        assert_eq!(heir(&[full.clone(), replica(2, 7, false)], 7), Ok(NodeId([2; 20])));
        assert_eq!(heir(&[replica(1, 7, false), replica(2, 8, false)], 7), Ok(NodeId([2; 20])));
        assert!(heir(&[full.clone(), full.clone()], 7).unwrap_err().contains("all its in-sync"));
        assert!(heir(&[full, replica(2, 6, false)], 7).unwrap_err().contains("has written all"));
        let lags = ReplicaStatus { is_in_sync: false, ..replica(1, 9, false) };
        assert!(heir(&[lags], 7).unwrap_err().contains("no in-sync replica"));
    }
}
