//! What operators are told about a node and its cluster, from the records at one moment: for INFO, the metrics and the
//! status page.

use std::sync::Arc;

use hotring_cluster::directory::Directory;
use hotring_cluster::{SLOTS, Shard, ShardId};

use crate::state::cluster::CoordinatorStatus;
use crate::state::forwarding::ForwardingStatus;
use crate::state::mirrors::MirrorStatus;
use crate::state::moves::MoveStatus;
use crate::state::server::Server;

/// A node of a cluster at one moment.
pub struct ClusterFacts {
    /// The records.
    pub directory: Arc<Directory>,
    /// The shard of this node.
    pub shard: Option<ShardId>,
    /// `primary`, `replica`, or `idle` without a shard.
    pub role: &'static str,
    /// The last epoch of its shard; 0 without one.
    pub epoch: u64,
    /// The last epoch of which its own data has the beginning. Nodes of a shard are compared by it, then by their last
    /// record.
    pub data_epoch: u64,
    /// The slots of its shard.
    pub slots_owned: usize,
    /// Slots without a shard whose primary lives.
    pub slots_unserved: usize,
    /// The nodes of its shard, and those of them that have every acknowledged write.
    pub copies: usize,
    pub copies_in_sync: usize,
    /// Whether this node may answer requests for its data now.
    pub may_answer: bool,
    /// How often it has become the primary of its shard since its start, and how often of these as the node with the
    /// most after the loss of a whole set.
    pub promotions: u64,
    pub recoveries: u64,
    /// The replicas that this primary has given up before they were in sync, until they are.
    pub given_up: usize,
    /// How often this node has given one up, as primary or as controller.
    pub joins_given_up: u64,
    /// The bytes that it has sent to other shards since its start, to give them slots.
    pub move_bytes: u64,
    /// The moves of slots that the records want, by their numbers.
    pub moves: Vec<MoveStatus>,
    /// The mirrors of its keys.
    pub mirrors: MirrorStatus,
    pub coordinator: CoordinatorStatus,
    /// Messages for clients of the other nodes.
    pub messages: ForwardingStatus,
    /// Whether this node has a lease of the coordinator, as far as it knows.
    pub is_registered: bool,
}

impl ClusterFacts {
    /// The facts about this server, if it is a node of a cluster.
    pub fn collect(server: &Server) -> Option<ClusterFacts> {
        let cluster = server.cluster.as_ref()?;
        let directory = cluster.directory();
        let own = directory.shard_of_node(cluster.me);
        let shard = own.map(|(id, _)| id);
        let role = match own {
            Some((_, shard)) if shard.primary.node == cluster.me => "primary",
            Some(_) => "replica",
            None => "idle",
        };
        let coordinator = cluster.coordinator.status();
        let lease = server.settings.config().replication.lease();
        let is_registered = coordinator.lease_age.is_some_and(|age| age < lease);
        let (given_up, joins_given_up) = server.replication.given_up();
        let gives = shard.filter(|_| role == "primary");
        let owned = |slot: &u16| shard.is_some() && directory.owners.of(*slot) == shard;
        Some(ClusterFacts {
            shard,
            role,
            epoch: own.map_or(0, |(_, shard)| shard.epoch.0),
            data_epoch: server.replication.epoch().0,
            slots_owned: (0..SLOTS).filter(owned).count(),
            slots_unserved: (0..SLOTS).filter(|slot| !is_served(&directory, *slot)).count(),
            copies: own.map_or(0, |(_, shard)| 1 + shard.replicas.len()),
            copies_in_sync: own.map_or(0, |(_, shard)| 1 + in_sync(shard)),
            may_answer: server.replication.may_answer(),
            promotions: cluster.promotions(),
            recoveries: cluster.recoveries(),
            given_up: given_up.len(),
            joins_given_up: joins_given_up + cluster.replacements_given_up(),
            move_bytes: cluster.moves.sent_bytes(),
            moves: cluster.moves.statuses(&directory, gives),
            mirrors: cluster.mirrors.status(),
            coordinator,
            messages: cluster.forwarding.status(),
            is_registered,
            directory,
        })
    }

    /// The nodes that are known, and those of them whose leases live.
    pub fn nodes(&self) -> (usize, usize) {
        let nodes = &self.directory.nodes;
        (nodes.len(), nodes.keys().filter(|id| self.directory.is_alive(**id)).count())
    }

    /// The first `most` moves: those that are under way at this node first, each group by their numbers.
    pub fn first_moves(&self, most: usize) -> Vec<&MoveStatus> {
        let (now, later): (Vec<_>, Vec<_>) =
            self.moves.iter().partition(|status| status.sent.is_some());
        now.into_iter().chain(later).take(most).collect()
    }
}

/// The replicas that have every acknowledged write.
fn in_sync(shard: &Shard) -> usize {
    shard.replicas.iter().filter(|node| shard.in_sync.contains(node)).count()
}

/// Whether a slot has a shard whose primary lives.
fn is_served(directory: &Directory, slot: u16) -> bool {
    let shard = directory.shard_of_slot(slot);
    shard.is_some_and(|(_, shard)| directory.has_primary(shard))
}

#[cfg(test)]
mod tests {
    use hotring_cluster::Incarnation;
    use hotring_cluster::directory::Wanted;
    use hotring_cluster::moves::Phase;
    use hotring_store::Options;

    use super::*;
    use crate::settings::config::Config;
    use crate::state::cluster::tests::{node, three_shards};
    use crate::state::server::Parts;

    fn facts(n: u8, change: impl FnOnce(&mut Directory)) -> ClusterFacts {
        let server = Server::new(Parts::of_node(Options::default(), Config::default(), node(n)));
        let mut directory = three_shards();
        change(&mut directory);
        server.cluster.as_ref().unwrap().publish(directory);
        ClusterFacts::collect(&server).unwrap()
    }

    #[test]
    fn a_node_is_told_apart_by_its_records() {
        let primary = facts(1, |_| {});
        assert_eq!((primary.role, primary.shard, primary.epoch), ("primary", Some(1), 1));
        assert_eq!((primary.slots_owned, primary.slots_unserved), (5461, 16_384 - 15_000));
        assert_eq!((primary.copies, primary.copies_in_sync), (2, 2));
        assert_eq!(primary.nodes(), (5, 4), "node 4 is dead");
        let replica = facts(4, |directory| {
            directory.shards.get_mut(&2).unwrap().1.in_sync.clear();
        });
        assert_eq!((replica.role, replica.copies, replica.copies_in_sync), ("replica", 2, 1));
        let idle = facts(9, |_| {});
        assert_eq!((idle.role, idle.shard, idle.epoch, idle.slots_owned), ("idle", None, 0, 0));
        let cut = facts(1, |directory| _ = directory.alive.remove(&node(5)));
        assert_eq!(cut.slots_unserved, 16_384 - 2 * 5461, "the primary of shard 3 is dead");
        let again = facts(1, |directory| _ = directory.alive.insert(node(5), Incarnation(2)));
        assert_eq!(again.slots_unserved, 16_384 - 2 * 5461, "it serves nothing since its restart");
        let alone = Server::new(Parts::unconnected(Options::default(), Config::default()));
        assert!(ClusterFacts::collect(&alone).is_none());
    }

    #[test]
    fn moves_are_told_by_the_node_that_gives_the_slots() {
        let told = |n: u8, begun: &[u64]| {
            let server =
                Server::new(Parts::of_node(Options::default(), Config::default(), node(n)));
            let cluster = server.cluster.as_ref().unwrap();
            let mut directory = three_shards();
            for (id, from, to) in [(9, 1, 2), (4, 1, 3), (7, 3, 1)] {
                let slots = "5-7,9".parse().unwrap();
                directory.moves.insert(id, (1, Wanted { from, to, slots }));
            }
            cluster.publish(directory);
            for id in begun {
                let progress = cluster.moves.begin_attempt(*id);
                progress.set_phase(Phase::Copying);
                progress.begin_walk(3);
                progress.note_walk(5, 1);
                progress.note_sent(700);
            }
            let facts = ClusterFacts::collect(&server).unwrap();
            let line = |status: &&MoveStatus| {
                let sent = status.sent.map(|sent| (sent.keys_looked_at, sent.keys, sent.bytes));
                (status.id, status.phase_name(), sent)
            };
            facts.first_moves(3).iter().map(line).collect::<Vec<_>>()
        };
        let (waits, elsewhere) = (("waiting", None), ("elsewhere", None));
        let of = |id, (phase, sent)| (id, phase, sent);
        assert_eq!(told(1, &[]), [of(4, waits), of(7, elsewhere), of(9, waits)]);
        let copied = ("copying", Some((3, 1, 700)));
        assert_eq!(told(1, &[9]), [of(9, copied), of(4, waits), of(7, elsewhere)]);
        assert_eq!(told(2, &[9]), [of(4, elsewhere), of(7, elsewhere), of(9, elsewhere)]);
    }
}
