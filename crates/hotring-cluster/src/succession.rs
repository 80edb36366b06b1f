//! The record of a shard after a replica has become its primary.

use crate::ids::{Epoch, Identity, NodeId};
use crate::records::{Revision, Shard};
use crate::replica::PromoteRefused;

/// The record after `me` has become primary.
pub(crate) fn succession(
    me: Identity,
    highest: Epoch,
    force: bool,
    found: Option<(Revision, &Shard)>,
) -> Result<Shard, PromoteRefused> {
    let (_, record) = found.ok_or(PromoteRefused::NoRecord)?;
    let is_member = record.in_sync.contains(&me.node);
    if !is_member && !force {
        return Err(PromoteRefused::NotInSync);
    }
    let old = record.primary.node;
    let others = |nodes: &[NodeId]| -> Vec<NodeId> {
        nodes.iter().copied().filter(|node| *node != me.node && *node != old).collect()
    };
    let (mut in_sync, mut replicas) = (others(&record.in_sync), others(&record.replicas));
    if old != me.node {
        // It has everything, and stays the other choice until this node serves.
        in_sync.push(old);
        replicas.push(old);
    }
    let epoch = record.epoch.max(highest).next();
    Ok(Shard { epoch, promoted: epoch, primary: me, in_sync, replicas })
}
