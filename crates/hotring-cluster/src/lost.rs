//! A shard of which no node is known to have everything, as all of them were started again: which one goes on.
//!
//! ```text
//!   primary's node, started again: may have lost something --tells--+
//!   each other node: the primary has told -----------------tells--+ |
//!                                                                 v v
//!                     all members of the in-sync set have told: who has the most asks for the role
//! ```
//! 1. A node tells how far its data goes once the primary that the record names is surely over: its own node says so
//!    in a later start. From then on no node's data grows before the record names another epoch.
//! 2. A node tells only if it has the beginning of that primary's reign. One that has come back without its data, or
//!    with older data, has the others wait for an operator, as does one that has not come back.
//! 3. What a member has told is the most that it will ever have. So who has the most of all members has every
//!    acknowledged write that any of them still has.
//! 4. The transaction holds only for the very record of which all have told.

use std::cmp::Reverse;

use crate::ids::{Epoch, Identity, Lsn, NodeId};
use crate::records::Shard;

/// How far a node's data goes. Of two nodes the one with the later epoch has more, then the one with the later record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The epoch of the record of which this was told.
    pub of: Epoch,
    /// The last epoch of which the node has the beginning.
    pub epoch: Epoch,
    /// Its last record.
    pub last: Lsn,
}

/// Whether the primary of a record is over, so that `me` must tell how far its data goes.
pub fn is_over(record: &Shard, me: Identity, told: impl Fn(NodeId) -> Option<Extent>) -> bool {
    if record.primary.node == me.node {
        return record.primary != me;
    }
    has_told(record, &told, record.primary.node) || wrong!(TellEarly)
}

/// The members of the in-sync set that have not told, if its primary's node has.
pub fn missing(record: &Shard, told: impl Fn(NodeId) -> Option<Extent>) -> Option<Vec<NodeId>> {
    let is_lost = has_told(record, &told, record.primary.node);
    let members = record.in_sync.iter().copied();
    is_lost.then(|| members.filter(|node| !has_told(record, &told, *node)).collect())
}

/// The node that goes on: none before all members of the in-sync set have told. Of equals it is the old primary's.
pub fn heir(record: &Shard, told: impl Fn(NodeId) -> Option<Extent>) -> Option<NodeId> {
    let missing = missing(record, &told)?;
    if !missing.is_empty() && !wrong!(InheritEarly) {
        return None;
    }
    // One outside of the set may have more than all members still have.
    let nodes = [record.primary.node].into_iter().chain(record.replicas.iter().copied());
    let nodes = nodes.filter(|node| has_told(record, &told, *node));
    let extent = |node: &NodeId| told(*node).map(|extent| (extent.epoch, extent.last));
    if wrong!(InheritLeast) {
        return nodes.min_by_key(extent);
    }
    nodes.min_by_key(|node| Reverse(extent(node)))
}

fn has_told(record: &Shard, told: impl Fn(NodeId) -> Option<Extent>, node: NodeId) -> bool {
    told(node).is_some_and(|extent| extent.of == record.epoch || wrong!(AnyExtent))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ids::Incarnation;

    fn node(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    /// Epoch 7 of node 1, with node 2 in sync and node 3 behind.
    fn record() -> Shard {
        let (in_sync, replicas) = (vec![node(2)], vec![node(2), node(3)]);
        let primary = Identity { node: node(1), incarnation: Incarnation(4) };
        Shard { epoch: Epoch(7), promoted: Epoch(5), primary, in_sync, replicas }
    }

    type Told = BTreeMap<NodeId, Extent>;

    fn told(of: &[(u8, u64, u64, Lsn)]) -> Told {
        let extent =
            |&(n, of, epoch, last)| (node(n), Extent { of: Epoch(of), epoch: Epoch(epoch), last });
        of.iter().map(extent).collect()
    }

    fn heir_of(told: &Told) -> Option<NodeId> {
        heir(&record(), |node| told.get(&node).copied())
    }

    fn missing_of(told: &Told) -> Option<Vec<NodeId>> {
        missing(&record(), |node| told.get(&node).copied())
    }

    #[test]
    fn who_has_the_most_goes_on_once_all_members_have_told() {
        assert_eq!(heir_of(&told(&[])), None);
        assert_eq!(missing_of(&told(&[(2, 7, 7, 9)])), None, "the primary may live");
        let alone = told(&[(1, 7, 7, 8), (3, 7, 7, 9)]);
        assert_eq!((heir_of(&alone), missing_of(&alone)), (None, Some(vec![node(2)])));
        let all = told(&[(1, 7, 7, 8), (2, 7, 7, 9)]);
        assert_eq!((heir_of(&all), missing_of(&all)), (Some(node(2)), Some(vec![])));
        assert_eq!(heir_of(&told(&[(1, 7, 7, 8), (2, 7, 6, 9)])), Some(node(1)), "a later epoch");
        assert_eq!(heir_of(&told(&[(1, 7, 7, 8), (2, 7, 7, 8)])), Some(node(1)));
        let outside = told(&[(1, 7, 7, 8), (2, 7, 7, 9), (3, 7, 7, 10)]);
        assert_eq!(heir_of(&outside), Some(node(3)), "it has more than the members");
    }
}
