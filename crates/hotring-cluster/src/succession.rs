//! The record of a shard after a replica has become its primary.

use crate::ids::{Epoch, Identity};
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
    if is_member || force {
        Ok(record.with_primary(me, highest))
    } else {
        Err(PromoteRefused::NotInSync)
    }
}
