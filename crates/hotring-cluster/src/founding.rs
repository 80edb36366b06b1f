//! The first records of a cluster.

use std::fmt;

use crate::directory::{
    CLUSTER, Directory, SLOT_TABLE, cluster_value, shard_name, shard_value, slots_value,
};
use crate::ids::{Identity, NodeId};
use crate::plan::Owners;
use crate::records::{Shard, ShardId};

/// The reason why a cluster cannot be founded with these nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFounded {
    /// This node is not alive, or not registered.
    NotAlive(NodeId),
    /// A shard has no node.
    Empty(ShardId),
    /// There is a cluster already.
    Exists,
}

impl fmt::Display for NotFounded {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            NotFounded::NotAlive(node) => write!(f, "node {node} is not alive"),
            NotFounded::Empty(shard) => write!(f, "shard {shard} has no node"),
            NotFounded::Exists => write!(f, "there is a cluster already"),
        }
    }
}

/// Names and values of the first records of a cluster: none of these names must exist. The first node of a shard is its
/// primary, in its present start; the others are in sync as soon as that has seen it.
///
/// # Errors
/// The nodes are not there, or there is a cluster already.
pub fn founding_records(
    directory: &Directory,
    id: &str,
    shards: &[(ShardId, Vec<NodeId>)],
    owners: &Owners,
) -> Result<Vec<(String, Vec<u8>)>, NotFounded> {
    if directory.cluster.is_some() || !directory.shards.is_empty() || directory.slots_revision > 0 {
        return Err(NotFounded::Exists);
    }
    let mut records =
        vec![(CLUSTER.to_owned(), cluster_value(id)), (SLOT_TABLE.to_owned(), slots_value(owners))];
    for (shard, nodes) in shards {
        let record = first_record(directory, *shard, nodes)?;
        records.push((shard_name(*shard), shard_value(&record)));
    }
    Ok(records)
}

/// The first record of a shard: the first node is its primary, in its present start.
pub(crate) fn first_record(
    directory: &Directory,
    shard: ShardId,
    nodes: &[NodeId],
) -> Result<Shard, NotFounded> {
    let not_alive =
        |node: &&NodeId| !directory.is_alive(**node) || directory.node(**node).is_none();
    if let Some(node) = nodes.iter().find(not_alive) {
        return Err(NotFounded::NotAlive(*node));
    }
    let (node, replicas) = nodes.split_first().ok_or(NotFounded::Empty(shard))?;
    let primary = Identity { node: *node, incarnation: directory.alive[node] };
    // Above every epoch that the nodes may have seen: they may have been in other shards, or in this one.
    let present = directory.shards.values().map(|(_, shard)| shard.epoch);
    let highest = present.chain(directory.leaving.values().copied()).max();
    let (epoch, replicas) = (highest.unwrap_or_default().next(), replicas.to_vec());
    Ok(Shard { epoch, promoted: epoch, primary, in_sync: Vec::new(), replicas })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Node;
    use crate::ids::Incarnation;

    #[test]
    fn a_cluster_is_founded_once_by_nodes_that_live() {
        let (one, two) = (NodeId([1; 20]), NodeId([2; 20]));
        let mut directory = Directory::default();
        let node =
            Node { host: "h".into(), port: 1, tls_port: None, zone: String::new(), weight: 100 };
        directory.nodes.insert(one, (1, node.clone()));
        directory.nodes.insert(two, (1, node));
        directory.alive.insert(one, Incarnation(7));
        let mut owners = Owners::default();
        owners.give(9, 0);
        let found = |directory: &Directory| {
            founding_records(directory, "c", &[(0, vec![one, two])], &owners)
        };
        assert_eq!(found(&directory), Err(NotFounded::NotAlive(two)));
        directory.alive.insert(two, Incarnation(8));
        let records = found(&directory).unwrap();
        let read = records.iter().map(|(name, value)| (&name[..], 5, &value[..]));
        let mut read = Directory::read(read).unwrap();
        let (shard, record) = read.shard_of_slot(9).unwrap();
        assert_eq!((shard, record.primary.incarnation), (0, Incarnation(7)));
        assert_eq!((&record.replicas[..], record.in_sync.len()), (&[two][..], 0));
        (read.nodes, read.alive) = (directory.nodes, directory.alive);
        assert_eq!(found(&read), Err(NotFounded::Exists));
    }
}
