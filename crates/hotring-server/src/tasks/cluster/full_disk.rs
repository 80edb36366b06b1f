//! A primary whose disk is full: it hands its role to a replica that can write, so that its shard goes on.
//!
//! 1. The log must have been tried again in vain: a disk may be full for a moment.
//! 2. Only an in-sync replica that has written all that this node has gets the role. So the role never goes to another
//!    full disk, and a node whose disk was full gets it back only once its log has caught up.
//! 3. Without such a replica the primary stays, refuses writes, and accepts them again once there is space.
//! 4. After an attempt the next one must wait, so that two small disks do not pass the role to and fro.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_cluster::NodeId;
use hotring_commands::host::clock;
use hotring_commands::state::server::Server;
use hotring_log::Log;

use super::farewell::hand_over;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// How long the disk must have been full: the log is tried again each second.
const FULL_MIN: Duration = Duration::from_millis(1_200);

/// Time between two attempts.
const PAUSE: Duration = Duration::from_secs(10);

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
        if full.get_or_insert_with(clock::monotonic).elapsed() < FULL_MIN {
            continue;
        }
        match heir(&server, log) {
            Some(heir) => {
                tracing::error!("this node's disk is full: it hands its role to node {heir}");
                hand_over(&server, log, Some(heir), || true).await;
                tokio::time::sleep(PAUSE).await;
            }
            None if !is_told => {
                is_told = true;
                tracing::error!(
                    "this node's disk is full and no in-sync replica has written all that this node has: it stays primary, \
                     and refuses writes until there is space"
                );
            }
            None => {}
        }
    }
}

/// Whether this node is primary and refuses writes, as its disk is full.
fn is_full(server: &Server, log: &Log) -> bool {
    let settings = server.settings.config();
    let is_refused = server.persist.durability.refuses(&settings.log).is_some();
    is_refused && !server.replication.is_replica() && log.error().is_some_and(|e| e.is_temporary)
}

/// The in-sync replica that has written the most, and no less than this node.
fn heir(server: &Server, log: &Log) -> Option<NodeId> {
    let replicas = server.replication.replicas().into_iter();
    let healthy = replicas.filter(|it| it.is_in_sync && it.written >= log.written());
    healthy.max_by_key(|it| it.written).map(|it| it.node)
}
