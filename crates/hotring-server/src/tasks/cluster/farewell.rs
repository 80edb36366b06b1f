//! The orderly end of a primary: it hands its role over first, so that its shard goes on at once.

use std::time::Duration;

use hotring_commands::host::clock;
use hotring_commands::state::server::Server;

/// Time between two looks whether the role is handed over.
const LOOK: Duration = Duration::from_millis(5);

/// Hands the role of a cluster's primary over to a replica that has everything, if there is one. Blocks until that has
/// succeeded or failed, at most for two leases: until the handover is taken up or surely never will be.
pub(crate) fn hand_over(server: &Server) {
    let Some(log) = server.persist.durability.stream() else { return };
    if server.cluster.is_none() || server.replication.is_replica() {
        return;
    }
    let (began, lease) = (clock::monotonic(), server.settings.config().replication.lease());
    if let Err(why) = server.replication.fail_over(None, Some(lease), false, log) {
        return tracing::warn!(?why, "the role cannot be handed over before the end");
    }
    while server.replication.is_failing_over() && began.elapsed() < 2 * lease {
        std::thread::sleep(LOOK);
    }
}
