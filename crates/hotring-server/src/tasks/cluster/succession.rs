//! Who takes over when a primary has died: one of the in-sync replicas, chosen by each of them in the same way.
//!
//! 1. A primary counts as dead while its lease is over, and, after a grace, while the record names an earlier start.
//! 2. The candidates are the in-sync replicas that live: those in zones with fewer primaries first, then by name.
//!    Each waits [`STEP`] longer than the one before it, so that one alone asks as a rule.
//! 3. If no node is known to have everything, because all were started again, they tell how far their data goes, and
//!    the one with the most asks once all members of the set have (`hotring_cluster::lost`).
//! 4. The order saves time. That one at most succeeds is the records' doing, and that none answers beside the old
//!    primary is the work of the promises.

use std::rc::Rc;
use std::time::{Duration, Instant};

use hotring_cluster::directory::Directory;
use hotring_cluster::{Identity, NodeId, PromoteRefused, Shard, ShardId};
use hotring_commands::host::clock;

use super::Member;

/// How long a candidate waits for the one before it.
const STEP: Duration = Duration::from_millis(300);

/// How long a primary that was started again may take to claim its record.
const RETURN_MAX: Duration = Duration::from_secs(1);

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Takes the role of this node when it is due, and asks for that of a dead primary.
pub(super) async fn keep(member: Rc<Member>) {
    let mut session = member.server.store.session_named(super::THREAD);
    let mut heirs = Heirs { member: member.clone(), death: None, loss: None, missing: None };
    // One promotion needs its time.
    let mut asked: Option<Instant> = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(cluster) = &member.server.cluster else { continue };
        member.server.take_recorded_role(&mut session);
        let directory = cluster.directory();
        let found = directory.shard_of_node(cluster.me);
        let is_asking = asked.is_some_and(|asked| asked.elapsed() < member.lease());
        if heirs.look(&directory, cluster.me, found, is_asking) {
            asked = Some(clock::monotonic());
        }
    }
}

/// What this node knows of a primary that does not serve.
struct Heirs {
    member: Rc<Member>,
    /// The dead primary, and since when it is that.
    death: Option<(Identity, Instant)>,
    /// The record of a lost set of which this node has the most, and since when it has.
    loss: Option<(Shard, Instant)>,
    /// The members for which a lost set waits, as they were logged last.
    missing: Option<Vec<NodeId>>,
}

impl Heirs {
    /// Asks for the role if it is due, unless it is being asked for. True if this node has asked.
    fn look(
        &mut self,
        directory: &Directory,
        me: NodeId,
        found: Option<(ShardId, &Shard)>,
        is_asking: bool,
    ) -> bool {
        let shard = found.map(|(_, shard)| shard);
        let wait = shard.and_then(|shard| wait(directory, shard, me));
        let primary = shard.map(|shard| shard.primary).filter(|_| wait.is_some());
        let dead = since(&mut self.death, primary);
        // The records may still tell how far an earlier start went.
        let is_told = directory.extent(me) == self.member.server.extent();
        let own = shard.filter(|shard| is_told && directory.heir(shard) == Some(me));
        let lost = since(&mut self.loss, own.cloned());
        if let Some((id, shard)) = found {
            self.tell_missing(directory, me, id, shard);
        }
        if is_asking {
            return false;
        }
        let replication = &self.member.server.replication;
        // Others that were not in sync, and yet have more, get the same time.
        if let Some(shard) = own.filter(|_| lost.is_some_and(|lost| lost >= RETURN_MAX)) {
            tracing::warn!(
                "all members of this shard's in-sync set are back and none is known to have everything: this node has the \
                 most, and asks for the role"
            );
            return has_asked(replication.inherit(shard));
        }
        let is_due = dead.zip(wait).is_some_and(|(dead, wait)| dead >= wait);
        if let Some(primary) = primary.filter(|_| is_due && !hears_primary(&self.member)) {
            tracing::warn!(primary = %primary.node, "the primary is gone: this node asks for its role");
            return has_asked(replication.promote_recorded(false));
        }
        false
    }

    /// Logs for whom a lost set waits, at the node of its primary.
    fn tell_missing(&mut self, directory: &Directory, me: NodeId, id: ShardId, shard: &Shard) {
        let missing = directory
            .missing(shard)
            .filter(|missing| shard.primary.node == me && !missing.is_empty());
        if let Some(missing) = missing.as_ref().filter(|_| missing != self.missing) {
            let names: Vec<String> = missing.iter().map(NodeId::to_string).collect();
            tracing::error!(
                "nobody serves shard {id} before these nodes are back with their data: {}. Start them, or go on without \
                 what they alone have: hotring cluster failover {id} --force",
                names.join(", ")
            );
        }
        self.missing = missing;
    }
}

fn has_asked(asked: Result<(), PromoteRefused>) -> bool {
    if let Err(why) = &asked {
        tracing::warn!(?why, "this node cannot be primary");
    }
    asked.is_ok()
}

/// Notes what is so now, and returns for how long it has been.
fn since<T: PartialEq>(known: &mut Option<(T, Instant)>, now: Option<T>) -> Option<Duration> {
    let same = known.take().filter(|(known, _)| now.as_ref() == Some(known));
    *known = now.map(|now| same.unwrap_or_else(|| (now, clock::monotonic())));
    known.as_ref().map(|(_, since)| since.elapsed())
}

/// Whether the primary is there all the same: then it has only lost its lease. One that was started again and refused
/// as primary answers as a replica.
fn hears_primary(member: &Member) -> bool {
    let replication = &member.server.replication;
    let status = replication.link_status();
    status.is_up()
        && !replication.follows_replica()
        && status.silent.is_some_and(|silent| silent < member.lease() / 2)
}

/// How long `me` waits before it asks for the role; None if it must not, or the primary lives.
fn wait(directory: &Directory, shard: &Shard, me: NodeId) -> Option<Duration> {
    let primary = shard.primary;
    let grace = match directory.alive.get(&primary.node) {
        Some(incarnation) if *incarnation == primary.incarnation => return None,
        Some(_) => RETURN_MAX,
        None => Duration::ZERO,
    };
    let mut candidates: Vec<NodeId> = shard.in_sync.clone();
    candidates.retain(|node| directory.is_alive(*node));
    candidates.sort_by_key(|node| (primaries_beside(directory, shard, *node), *node));
    let rank = candidates.iter().position(|node| *node == me)?;
    Some(grace + STEP * rank as u32)
}

/// The other shards' primaries in the zone of a node.
fn primaries_beside(directory: &Directory, shard: &Shard, node: NodeId) -> usize {
    let zone = |node| directory.node(node).map(|node| &node.zone[..]);
    let others = directory.shards.values().filter(|(_, other)| other != shard);
    others.filter(|(_, other)| zone(other.primary.node) == zone(node)).count()
}

#[cfg(test)]
mod tests {
    use hotring_cluster::directory::Node;
    use hotring_cluster::{Epoch, Incarnation};

    use super::*;

    fn id(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    fn shard(primary: u8, in_sync: &[u8]) -> Shard {
        let in_sync: Vec<NodeId> = in_sync.iter().copied().map(id).collect();
        let primary = Identity { node: id(primary), incarnation: Incarnation(7) };
        let replicas = in_sync.clone();
        Shard { epoch: Epoch(1), promoted: Epoch(1), primary, in_sync, replicas }
    }

    /// Nodes 1 to 6 in these zones, all of them alive; shard 0 is led by node 1, shard 1 by node 5 in zone b.
    fn directory() -> Directory {
        let mut directory = Directory::default();
        for (n, zone) in [(1, "a"), (2, "b"), (3, "c"), (4, "c"), (5, "b"), (6, "a")] {
            let zone = zone.to_string();
            let node = Node { host: "h".into(), port: 1, tls_port: None, zone, weight: 100 };
            directory.nodes.insert(id(n), (1, node));
            directory.alive.insert(id(n), Incarnation(7));
        }
        directory.shards.insert(0, (1, shard(1, &[2, 3, 4])));
        directory.shards.insert(1, (1, shard(5, &[6])));
        directory
    }

    #[test]
    fn the_candidates_go_in_one_order_while_the_primary_is_gone() {
        let mut directory = directory();
        let shard = directory.shards[&0].1.clone();
        let waits = |directory: &Directory| [2, 3, 4, 6].map(|n| wait(directory, &shard, id(n)));
        assert_eq!(waits(&directory), [None; 4], "the primary lives");
        directory.alive.remove(&id(1));
        // Zone b has a primary already, and node 6 is not of the shard.
        let steps = |n: u32| Some(STEP * n);
        assert_eq!(waits(&directory), [steps(2), steps(0), steps(1), None]);
        directory.alive.remove(&id(3));
        assert_eq!(waits(&directory), [steps(1), None, steps(0), None], "the dead are passed over");
    }

    #[test]
    fn a_primary_that_was_started_again_gets_a_grace() {
        let mut directory = directory();
        let shard = directory.shards[&0].1.clone();
        directory.alive.insert(id(1), Incarnation(8));
        assert_eq!(wait(&directory, &shard, id(3)), Some(RETURN_MAX));
        assert_eq!(wait(&directory, &shard, id(2)), Some(RETURN_MAX + 2 * STEP));
    }
}
