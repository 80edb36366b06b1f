//! The orderly end of a primary: it hands its role over first, so that its shard goes on at once.

use std::sync::Arc;
use std::time::Duration;

use hotring_cluster::NodeId;
use hotring_commands::host::clock;
use hotring_commands::state::server::Server;
use hotring_log::Log;

/// Time between two looks whether the role is handed over.
const LOOK: Duration = Duration::from_millis(5);

/// Hands the role over once the server [retires](Server::retire), and stops the server then, unless that is cancelled.
pub(crate) async fn keep(server: Arc<Server>) {
    loop {
        server.process.retiring().await;
        if let Some(log) = server.persist.durability.stream() {
            hand_over(&server, log, None, || server.process.is_retiring()).await;
        }
        if server.process.is_retiring() {
            return server.stop();
        }
        tracing::warn!("SHUTDOWN ABORT: this server goes on");
    }
}

/// Hands the role of a cluster's primary over to this replica, or to any that has everything. Ends when that has
/// succeeded or failed, at most after two leases: by then the handover is taken up or surely never will be. It is
/// aborted once it is not wanted any more. One that is under way already ends first, within as much time.
pub(super) async fn hand_over(
    server: &Server,
    log: &Log,
    to: Option<NodeId>,
    is_wanted: impl Fn() -> bool,
) {
    let lease = server.settings.config().replication.lease();
    let began = clock::monotonic();
    while server.replication.is_failing_over() && began.elapsed() < 2 * lease && is_wanted() {
        tokio::time::sleep(LOOK).await;
    }
    if server.replication.is_replica() {
        return;
    }
    let began = clock::monotonic();
    if let Err(why) = server.replication.fail_over(to, Some(lease), false, log) {
        return tracing::warn!(?why, "the role cannot be handed over");
    }
    while server.replication.is_failing_over() && began.elapsed() < 2 * lease {
        if !is_wanted() {
            server.replication.abort_failover(log);
        }
        tokio::time::sleep(LOOK).await;
    }
}
