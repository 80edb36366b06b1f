//! What a node of a cluster does when the coordinator's records give it a role, or take it away.

use hotring_cluster::directory::{Directory, Node};
use hotring_cluster::mirrors;
use hotring_cluster::{NodeId, Outcome, Revision, Shard, ShardId, Tenure};
use hotring_store::{Role, Session};

use crate::host::clock;
use crate::settings::config::Source;
use crate::state::replication::recorded::{Heard, Stand};
use crate::state::replication::roles::node_of;
use crate::state::server::Server;

/// Why a replica cannot follow the primary of its shard.
const UNKNOWN_PRIMARY: &str =
    "the records have no address of its shard's primary: start that node, so that it registers";
const PRIMARY_WITHOUT_TLS: &str = "its shard's primary has no port for TLS, and tls-replication is on here: set tls-port there, or tls-replication no here";

impl Server {
    /// Takes the role that the records give to this node. To be called after each change of them, and regularly.
    pub fn take_recorded_role(&self, session: &mut Session) {
        let Some(cluster) = &self.cluster else { return };
        let loading = &self.persist.loading;
        let Some(log) = self.persist.durability.stream() else { return };
        if loading.is_on() && !loading.is_unfinished_copy() {
            return;
        }
        self.renew_grounds(session);
        let directory = cluster.directory();
        let Some((shard, record)) = directory.shard_of_node(cluster.me) else {
            return self.leave_shard(&directory, session);
        };
        // What its earlier start has let others mirror is not known.
        let is_of_earlier =
            record.primary.node == cluster.me && record.primary != self.replication.me();
        if is_of_earlier && self.replication.uptime() < mirrors::GRANT {
            return;
        }
        let revision = directory.shards.get(&shard).map_or(0, |(revision, _)| *revision);
        let missing = record.in_sync.iter().copied().filter(|node| !directory.is_alive(*node));
        match self.replication.stand(shard, revision, record, missing, log) {
            Some(Stand::Begins) => self.begin_to_lead(shard, revision, record, session),
            Some(Stand::Leaves) => self.step_down(session),
            Some(Stand::Follows) => self.follow_recorded(shard, record, &directory),
            Some(Stand::Leads | Stand::Waits) | None => {}
        }
    }

    /// Whether this server may take the data of this node, which says whether it leads: in a cluster only that of its
    /// shard's primary. A primary that was refused after a restart feeds others as a replica does, and could make a
    /// member of the in-sync set give up its data.
    pub fn may_follow(&self, node: NodeId, leads: bool) -> bool {
        let Some(cluster) = &self.cluster else { return true };
        let directory = cluster.directory();
        let is_primary = |shard: &Shard| shard.primary.node == node;
        leads && directory.shard_of_node(cluster.me).is_some_and(|(_, shard)| is_primary(shard))
    }

    /// Passes on what became of a request of a machine.
    pub fn hear_outcome(&self, machine: u64, outcome: Outcome, session: &mut Session) {
        let _applying = self.replication.lock_applying();
        let Some(log) = self.persist.durability.stream() else { return };
        match self.replication.hear_outcome(machine, outcome, session, log) {
            Heard::Nothing => {}
            Heard::Serves => {
                self.serve_as_primary(session);
                tracing::warn!("this node is the primary of its shard again");
            }
            Heard::TakesOver(from) => self.take_over_locked(*from, session),
        }
    }

    /// No record has a place for this node. A primary goes on if nothing says that there is a cluster: then all records
    /// are gone, and its shard's record with them.
    fn leave_shard(&self, directory: &Directory, session: &mut Session) {
        if self.replication.source().is_some() {
            self.set_source_alone(None);
        }
        if directory.cluster.is_some() && self.replication.leave_shard() {
            tracing::warn!("the shard of this node has ended: it is idle");
            self.step_down(session);
        }
    }

    /// The record names this node, which has no role yet.
    fn begin_to_lead(
        &self,
        shard: ShardId,
        revision: Revision,
        record: &Shard,
        session: &mut Session,
    ) {
        let _applying = self.replication.lock_applying();
        let Some(log) = self.persist.durability.stream() else { return };
        if record.primary != self.replication.me() {
            return self.replication.claim(shard, log);
        }
        match self.replication.founds(shard, revision, record, log) {
            Some(from) => self.take_over_locked(from, session),
            None => {
                tracing::error!(
                    "this node has data of an earlier primary and cannot begin a shard: start it with an empty folder"
                );
                self.replication.step_down(log.handed(), log);
            }
        }
    }

    /// The record names another node as primary.
    fn follow_recorded(&self, shard: ShardId, record: &Shard, directory: &Directory) {
        let source = match self.source_of(record, directory) {
            Ok(source) => source,
            Err(why) => return self.follow_none(why),
        };
        let is_placed = self.replication.is_replica_of(shard);
        if is_placed && self.replication.source().as_deref() == Some(&source) {
            return;
        }
        let Some(log) = self.persist.durability.stream() else { return };
        if !is_placed {
            let _applying = self.replication.lock_applying();
            // What it has may be another shard's. While the set does not count it, no node needs that.
            let adopts = !record.in_sync.contains(&self.replication.me().node);
            self.replication.follow_recorded(shard, adopts, log.handed(), log);
            self.forget_copied();
        }
        if let Err(why) = self.reign.end() {
            let why = format!("cannot note that this node follows another, so it does not: {why}");
            if self.replication.link_status().failure.as_ref() != Some(&why) {
                tracing::error!("{why}");
                self.replication.update_link(|link| link.fail(why));
            }
            return;
        }
        tracing::warn!(primary = %source, shard, "this node is a replica");
        self.set_source_alone(Some(source));
    }

    /// The address of a shard's primary, or why there is none.
    ///
    /// # Errors
    /// The records have none, or none for TLS.
    pub fn source_of(&self, record: &Shard, directory: &Directory) -> Result<Source, &'static str> {
        let node = directory.node(record.primary.node).ok_or(UNKNOWN_PRIMARY)?;
        let is_tls = self.settings.config().replication.tls;
        let port = if is_tls { node.tls_port.ok_or(PRIMARY_WITHOUT_TLS)? } else { node.port };
        Ok(Source { host: node.host.clone(), port })
    }

    /// The primary cannot be reached, and the one before it must not be followed any longer.
    fn follow_none(&self, why: &str) {
        if self.replication.source().is_some() {
            self.set_source_alone(None);
        }
        if self.replication.link_status().failure.as_deref() != Some(why) {
            tracing::error!("this replica follows no primary: {why}");
            self.replication.update_link(|link| link.fail(why.to_string()));
        }
    }

    fn set_source_alone(&self, source: Option<Source>) {
        let _applying = self.replication.lock_applying();
        // It may have become primary meanwhile.
        if self.replication.is_replica() {
            self.set_source(source, true);
        }
    }

    /// Becomes a replica that waits for the records to say whose.
    pub(super) fn step_down(&self, session: &mut Session) {
        let _applying = self.replication.lock_applying();
        let Some(log) = self.persist.durability.stream() else { return };
        self.set_source(None, true);
        let last = session.switch_role(Role::Replica, clock::unix_ms());
        self.replication.step_down(last.unwrap_or_else(|| log.handed()), log);
        self.forget_copied();
        self.clients.unblock_demoted();
        // What clients keep may be old from here on.
        self.push.tracking.forget_all();
        self.resume_writes();
    }

    /// What an earlier primary has told about its slots counts no more.
    fn forget_copied(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.hear_tenure(Tenure::default(), 0);
        }
    }

    /// The node at this address: as the records know it, or else as operators name replicas.
    pub(crate) fn node_at(&self, host: &str, port: u16) -> NodeId {
        let cluster = self.cluster.as_ref();
        let found = cluster.and_then(|cluster| {
            let directory = cluster.directory();
            let mut nodes = directory.nodes.iter();
            let is_it = |node: &Node| {
                node.host == host && (node.port == port || node.tls_port == Some(port))
            };
            nodes.find(|(_, (_, node))| is_it(node)).map(|(id, _)| *id)
        });
        found.unwrap_or_else(|| node_of(host, port))
    }

    /// The name of a replica that has said hello from this address: its own, if the records have it in this node's
    /// shard, or else that of the address.
    pub fn name_of_replica(&self, hello: NodeId, ip: &str, port: u16) -> NodeId {
        let is_member = self.cluster.as_ref().is_some_and(|cluster| {
            let directory = cluster.directory();
            let shard = |node| directory.shard_of_node(node).map(|(shard, _)| shard);
            shard(hello).is_some() && shard(hello) == shard(cluster.me)
        });
        if is_member { hello } else { node_of(ip, port) }
    }

    /// Notes that an epoch of this node has begun.
    pub(super) fn note_reign(&self) {
        let epoch = self.replication.epoch();
        if let Err(why) = self.reign.begin(epoch, self.settings.config().log.when) {
            tracing::error!("after a restart this node will not be primary by itself: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use hotring_store::Options;

    use crate::settings::config::Config;
    use crate::state::cluster::tests::{node, three_shards};
    use crate::state::server::{Parts, Server};

    #[test]
    fn a_node_of_a_cluster_takes_data_of_its_shards_primary_alone() {
        let parts = Parts::of_node(Options::default(), Config::default(), node(2));
        let server = Server::new(parts);
        assert!(!server.may_follow(node(1), true), "it has seen no records");
        server.cluster.as_ref().unwrap().publish(three_shards());
        let may_follow = [1, 2, 3, 4, 5].map(|n| server.may_follow(node(n), true));
        assert_eq!(may_follow, [true, false, false, false, false]);
        assert!(!server.may_follow(node(1), false), "it does not lead");
        let alone = Server::new(Parts::unconnected(Options::default(), Config::default()));
        assert!(alone.may_follow(node(9), false));
    }
}
