//! The controller: each node would be it, and the one that the records name gives spare nodes to shards.

use std::rc::Rc;
use std::time::Duration;

use hotring_cluster::controller::{Controller, Deed};
use hotring_commands::host::clock;
use hotring_coordinator::{Failure, Outcome};

use super::Member;
use super::registry::Registered;

/// Time between two looks. Nothing here is urgent.
const LOOK: Duration = Duration::from_millis(500);

/// Looks at the records, and makes one change after the other.
pub(super) async fn keep(member: Rc<Member>, registered: Rc<Registered>) {
    let (began, me) = (clock::monotonic(), member.server.replication.me().node);
    let mut controller = Controller::new(me);
    loop {
        tokio::time::sleep(LOOK).await;
        let (Some(cluster), Some(lease)) = (&member.server.cluster, registered.get()) else {
            continue;
        };
        let replace_after = member.server.settings.config().replication.cluster.replace_after();
        let directory = cluster.directory();
        let found = controller.look(began.elapsed(), replace_after, lease, &directory);
        let Some((deed, transaction)) = found else { continue };
        match member.ask(member.coordinator.transact(&transaction)).await {
            Ok(Outcome::Done(_)) => {
                tracing::warn!("controller: {deed}");
                if matches!(deed, Deed::GiveUp(..)) {
                    cluster.count_given_up();
                }
            }
            Ok(Outcome::Conflict) => tracing::debug!("other records than known, not done: {deed}"),
            Err(Failure::Refused(why)) => tracing::error!("controller: {deed}: refused: {why}"),
            Err(why) => tracing::debug!("controller: {deed}: {why}"),
        }
    }
}
