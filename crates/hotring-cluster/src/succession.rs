//! The promotion of a replica, and the record of its shard afterwards.

use crate::ids::{Epoch, Identity, NodeId};
use crate::in_sync::Set;
use crate::records::{Claim, Revision, Shard};
use crate::replica::PromoteRefused;

/// A promotion under way.
#[derive(Debug)]
pub(crate) struct Promotion {
    pub(crate) force: bool,
    /// The old primary, if it has handed over.
    pub(crate) from: Option<NodeId>,
    /// The old primary, if it is in the record and did not hand over.
    pub(crate) deposed: Option<NodeId>,
    pub(crate) stage: Stage,
}

/// What a promotion waits for.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Until the record names this node.
    Claiming(Claim),
    /// Until the last promise has ended.
    Promised(Set, Epoch),
}

/// The record after `me` has become primary.
pub(crate) fn succession(
    me: Identity,
    highest: Epoch,
    force: bool,
    found: Option<(Revision, &Shard)>,
) -> Result<Shard, PromoteRefused> {
    let (_, record) = found.ok_or(PromoteRefused::NoRecord)?;
    let is_member = record.in_sync.contains(&me.node);
    if is_member || force {
        Ok(record.with_primary(me, highest))
    } else {
        Err(PromoteRefused::NotInSync)
    }
}
