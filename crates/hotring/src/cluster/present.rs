//! The cluster of the records as a description of which plans are made, and nodes by what people call them.

use hotring_cluster::directory::{Directory, sets};
use hotring_cluster::{NodeId, Owners, SLOTS, ShardId, USUAL_WEIGHT};

use super::file::{Cluster, Node, Shard};

/// The shortest beginning of a node's name.
const NAME_MIN: usize = 4;

/// A description, and the node at each of its positions.
pub(super) struct Present {
    pub(super) cluster: Cluster,
    pub(super) ids: Vec<NodeId>,
}

/// The shards of the records, and nodes that join. The nodes of those shards leave for which `leaves` says so.
pub(super) fn present(
    directory: &Directory,
    joining: &[NodeId],
    copies: usize,
    leaves: impl Fn(ShardId) -> bool,
) -> Present {
    let mut sets = sets(&directory.owners);
    let (mut cluster, mut ids) = (Cluster { copies, ..Cluster::default() }, Vec::new());
    let mut add = |cluster: &mut Cluster, id: NodeId, shard: Option<ShardId>| {
        let (zone, weight) = directory
            .node(id)
            .map_or((String::new(), USUAL_WEIGHT), |node| (node.zone.clone(), node.weight));
        let leaves = shard.is_some_and(&leaves);
        cluster.nodes.push(Node { name: called(directory, id), shard, zone, weight, leaves });
        ids.push(id);
    };
    for (number, (_, record)) in &directory.shards {
        let slots = sets.remove(number).unwrap_or_default();
        cluster.shards.insert(*number, Shard { slots, ids: None });
        let nodes = [record.primary.node].into_iter().chain(record.replicas.iter().copied());
        nodes.for_each(|id| add(&mut cluster, id, Some(*number)));
    }
    joining.iter().for_each(|id| add(&mut cluster, *id, None));
    Present { cluster, ids }
}

/// A node in texts: its name and address.
pub(super) fn called(directory: &Directory, id: NodeId) -> String {
    match directory.node(id) {
        Some(node) => format!("{id} at {}:{}", node.host, node.port),
        None => format!("{id} at an unknown address"),
    }
}

/// The node that the text names: by the beginning of its name, or by its address.
pub(super) fn find(directory: &Directory, text: &str) -> Result<NodeId, String> {
    let placed = directory.shards.values().flat_map(|(_, shard)| {
        [shard.primary.node].into_iter().chain(shard.replicas.iter().copied())
    });
    let mut ids: Vec<NodeId> = directory.nodes.keys().copied().chain(placed).collect();
    ids.sort_unstable();
    ids.dedup();
    let begins = |id: &NodeId| {
        text.len() >= NAME_MIN && id.to_string().starts_with(&text.to_ascii_lowercase())
    };
    let is_at = |id: &NodeId| {
        directory.node(*id).is_some_and(|node| {
            let ports = [Some(node.port), node.tls_port];
            ports.into_iter().flatten().any(|port| format!("{}:{port}", node.host) == text)
        })
    };
    ids.retain(|id| begins(id) || is_at(id));
    match ids[..] {
        [id] => Ok(id),
        [] => Err(format!(
            "no node is called {text}: write its HOST:PORT, or at least {NAME_MIN} digits of its name, as 'hotring \
             cluster status' shows them"
        )),
        _ => Err(format!("{} nodes are called {text}: write more of the name", ids.len())),
    }
}

/// The nodes that live, have no shard, and were not drained.
pub(super) fn idle(directory: &Directory) -> Vec<NodeId> {
    let nodes = directory.nodes.keys().copied();
    nodes.filter(|id| directory.is_idle(*id) && !directory.leaving.contains_key(id)).collect()
}

/// An error if moves are under way, since a plan begins with slots at rest.
pub(super) fn at_rest(directory: &Directory) -> Result<(), String> {
    match directory.moves.len() {
        0 => Ok(()),
        count => Err(format!(
            "{count} moves of slots are under way: wait until 'hotring cluster status' shows none, or take them back with \
             'hotring cluster move --cancel all'"
        )),
    }
}

/// An error if there is no cluster.
pub(super) fn exists(directory: &Directory) -> Result<(), String> {
    match directory.cluster.is_some() {
        true => Ok(()),
        false => Err("there is no cluster: 'hotring cluster create' makes one".to_string()),
    }
}

/// How many slots a shard has.
pub(super) fn count(owners: &Owners, shard: ShardId) -> usize {
    (0..SLOTS).filter(|slot| owners.of(*slot) == Some(shard)).count()
}
