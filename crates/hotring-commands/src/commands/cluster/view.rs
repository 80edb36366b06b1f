//! The records of a cluster in the forms that clients of Redis Cluster read.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use hotring_cluster::directory::{Directory, Node, sets};
use hotring_cluster::{NodeId, SLOTS, Shard, ShardId, Slot, SlotSet};
use hotring_protocol::Writer;

use crate::state::cluster::Cluster;
use crate::state::context::Context;
use crate::state::routes::port_for;

/// Redis's distance between the ports of clients and of its bus. Clients read the number and never use it: nothing
/// listens there.
const BUS_PORT: u32 = 10_000;

/// The records as one client sees them.
pub(super) struct View {
    me: NodeId,
    directory: Arc<Directory>,
    slots: BTreeMap<ShardId, SlotSet>,
    /// The shard of each node that belongs to one.
    shard_of: BTreeMap<NodeId, ShardId>,
    /// The own port, until the own node is in the records.
    own_port: u16,
    uses_tls: bool,
}

/// What a node does.
enum Role<'a> {
    Primary(ShardId, &'a Shard),
    Replica(&'a Shard),
    /// It belongs to no shard.
    Free,
}

impl View {
    pub(super) fn new(cluster: &Cluster, c: &Context<'_>) -> Self {
        let directory = cluster.directory();
        let shards = directory.shards.iter();
        let members = shards.flat_map(|(id, (_, shard))| {
            let nodes = shard.replicas.iter().copied().chain([shard.primary.node]);
            nodes.map(move |node| (node, *id))
        });
        View {
            shard_of: members.collect(),
            me: cluster.me,
            slots: sets(&directory.owners),
            directory,
            own_port: c.server.settings.config().port,
            uses_tls: c.client.uses_tls,
        }
    }

    /// All nodes, this one included even before it is in the records.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        let unknown = !self.directory.nodes.contains_key(&self.me);
        self.directory.nodes.keys().copied().chain(unknown.then_some(self.me))
    }

    /// The node of this name, in any case of letters.
    pub(super) fn find(&self, name: &[u8]) -> Option<NodeId> {
        let id = NodeId::parse(std::str::from_utf8(name).ok()?)?;
        self.nodes().find(|node| *node == id)
    }

    /// The replicas of a node, unless it is a replica.
    pub(super) fn replicas_of(&self, node: NodeId) -> Option<Vec<NodeId>> {
        match self.role(node) {
            Role::Primary(_, shard) => Some(self.known(&shard.replicas)),
            Role::Replica(_) => None,
            Role::Free => Some(Vec::new()),
        }
    }

    /// CLUSTER INFO.
    pub(super) fn info(&self) -> String {
        let Directory { shards, .. } = &*self.directory;
        let is_live = |id: &ShardId| {
            let shard = shards.get(id);
            shard.is_some_and(|(_, shard)| self.directory.has_primary(shard))
        };
        let assigned: usize = self.slots.values().map(SlotSet::len).sum();
        let live = self.slots.iter().filter(|(id, _)| is_live(id));
        let served: usize = live.map(|(_, slots)| slots.len()).sum();
        let epochs = shards.values().map(|(_, shard)| shard.epoch.0);
        let own = self.shard_of.get(&self.me).and_then(|id| shards.get(id));
        let mut text = String::new();
        let mut line = |name: &str, value: &dyn std::fmt::Display| {
            write!(text, "{name}:{value}\r\n").expect("writing to a string cannot fail");
        };
        let is_whole = served == usize::from(SLOTS);
        line("cluster_state", if is_whole { &"ok" } else { &"fail" });
        line("cluster_slots_assigned", &assigned);
        line("cluster_slots_ok", &served);
        line("cluster_slots_pfail", &0);
        line("cluster_slots_fail", &(assigned - served));
        line("cluster_known_nodes", &self.nodes().count());
        line("cluster_size", &self.slots.len());
        line("cluster_current_epoch", &epochs.max().unwrap_or(0));
        line("cluster_my_epoch", &own.map_or(0, |(_, shard)| shard.epoch.0));
        line("cluster_stats_messages_sent", &0);
        line("cluster_stats_messages_received", &0);
        line("total_cluster_links_buffer_limit_exceeded", &0);
        text
    }

    /// A node's line of CLUSTER NODES, without the line end.
    pub(super) fn line(&self, id: NodeId) -> String {
        let (host, port) = match self.directory.node(id) {
            Some(node) => (&*node.host, port_for(node, self.uses_tls)),
            None => ("", self.own_port),
        };
        let bus = Some(u32::from(port) + BUS_PORT).filter(|bus| *bus <= u32::from(u16::MAX));
        let role = self.role(id);
        let is_me = id == self.me;
        let is_up = is_me || self.directory.is_alive(id);
        let mut text = format!("{id} {host}:{port}@{} ", bus.unwrap_or(0));
        text.push_str(if is_me { "myself," } else { "" });
        text.push_str(if matches!(role, Role::Replica(_)) { "slave" } else { "master" });
        text.push_str(if is_up { "" } else { ",fail" });
        let (primary, epoch, slots) = match role {
            Role::Primary(id, shard) => (None, shard.epoch.0, self.ranges(id)),
            Role::Replica(shard) => (Some(shard.primary.node), shard.epoch.0, &[][..]),
            Role::Free => (None, 0, &[][..]),
        };
        match primary {
            Some(primary) => text.push_str(&format!(" {primary}")),
            None => text.push_str(" -"),
        }
        let link = if is_up { "connected" } else { "disconnected" };
        text.push_str(&format!(" 0 0 {epoch} {link}"));
        for (first, last) in slots {
            match first == last {
                true => text.push_str(&format!(" {first}")),
                false => text.push_str(&format!(" {first}-{last}")),
            }
        }
        text
    }

    /// CLUSTER SLOTS: each range with the primary and the replicas that live.
    pub(super) fn write_slots(&self, reply: &mut Writer<'_>) {
        let mut ranges: Vec<(Slot, Slot, &Shard)> = Vec::new();
        for (id, (_, shard)) in &self.directory.shards {
            let ranges_of = self.ranges(*id).iter();
            ranges.extend(ranges_of.map(|(first, last)| (*first, *last, shard)));
        }
        ranges.retain(|(.., shard)| self.directory.node(shard.primary.node).is_some());
        ranges.sort_unstable_by_key(|(first, ..)| *first);
        reply.array(ranges.len());
        for (first, last, shard) in ranges {
            let live = |id: &NodeId| *id == self.me || self.directory.is_alive(*id);
            let replicas = self.known(&shard.replicas).into_iter().filter(live);
            let nodes: Vec<_> = [shard.primary.node].into_iter().chain(replicas).collect();
            reply.array(2 + nodes.len());
            reply.int(first.into());
            reply.int(last.into());
            for (id, node) in nodes.iter().filter_map(|id| Some((id, self.directory.node(*id)?))) {
                reply.array(4);
                reply.bulk(node.host.as_bytes());
                reply.int(port_for(node, self.uses_tls).into());
                reply.bulk_fmt(format_args!("{id}"));
                // No other addresses.
                reply.map(0);
            }
        }
    }

    /// CLUSTER SHARDS. `position` is this node's in its stream; the others' are not known here.
    pub(super) fn write_shards(&self, position: u64, reply: &mut Writer<'_>) {
        let Directory { shards, .. } = &*self.directory;
        reply.array(shards.len());
        for (id, (_, shard)) in shards {
            let ranges = self.ranges(*id);
            reply.map(2);
            reply.bulk(b"slots");
            reply.array(2 * ranges.len());
            for slot in ranges.iter().flat_map(|(first, last)| [first, last]) {
                reply.int((*slot).into());
            }
            reply.bulk(b"nodes");
            let all = [&[shard.primary.node][..], &shard.replicas].concat();
            let nodes = self.known(&all);
            reply.array(nodes.len());
            for id in nodes {
                let node = self.directory.node(id).expect("only known nodes were taken");
                let is_primary = id == shard.primary.node;
                let position = if id == self.me { position } else { 0 };
                self.write_node(id, node, is_primary, position, reply);
            }
        }
    }

    fn write_node(
        &self,
        id: NodeId,
        node: &Node,
        is_primary: bool,
        position: u64,
        reply: &mut Writer<'_>,
    ) {
        let Node { host, port, tls_port, .. } = node;
        let is_up = id == self.me || self.directory.is_alive(id);
        let texts = |fields: &[(&str, &str)], reply: &mut Writer<'_>| {
            fields.iter().for_each(|(name, value)| {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            });
        };
        reply.map(7 + usize::from(tls_port.is_some()));
        texts(&[("id", &id.to_string())], reply);
        reply.bulk(b"port");
        reply.int((*port).into());
        if let Some(port) = tls_port {
            reply.bulk(b"tls-port");
            reply.int((*port).into());
        }
        let role = if is_primary { "master" } else { "replica" };
        texts(&[("ip", host), ("endpoint", host), ("role", role)], reply);
        reply.bulk(b"replication-offset");
        reply.int(position as i64);
        texts(&[("health", if is_up { "online" } else { "fail" })], reply);
    }

    fn role(&self, node: NodeId) -> Role<'_> {
        let id = self.shard_of.get(&node);
        match id.and_then(|id| Some((*id, &self.directory.shards.get(id)?.1))) {
            Some((id, shard)) if shard.primary.node == node => Role::Primary(id, shard),
            Some((_, shard)) => Role::Replica(shard),
            None => Role::Free,
        }
    }

    /// Those of the nodes that are in the records.
    fn known(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        nodes.iter().copied().filter(|id| self.directory.node(*id).is_some()).collect()
    }

    /// The ranges of a shard's slots, both ends included.
    fn ranges(&self, shard: ShardId) -> &[(Slot, Slot)] {
        self.slots.get(&shard).map_or(&[], SlotSet::ranges)
    }
}
