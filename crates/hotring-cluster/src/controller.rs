//! The controller: the one node that gives a spare node to a shard whose replica has been dead for long.
//!
//! ```text
//!   replicas A, D      D is dead for replace-after        S or D is in sync
//!   in sync  A         --> replicas A, D, S               --> the other one leaves
//!                          replacing/N  D by S                replacing/N is gone
//! ```
//! 1. Each change is one transaction. It compares the controller's record, so that a node that no longer is the
//!    controller changes nothing, and all that the decision rests on: the shard, the spare node, that D is dead.
//! 2. The dead replica stays until the other one has everything: it may be the quicker one to come back.
//! 3. How long a node has been dead only the controller itself knows. A new one begins to count.
//! 4. Moves need no controller: the primaries of their sources carry them out.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::changes::{place, put};
use crate::directory::{
    CONTROLLER, Directory, Replacing, alive_name, controller_value, replacing_name,
    replacing_value, shard_name, shard_value,
};
use crate::ids::{Moment, NodeId};
use crate::kept::{Change, LeaseId, Transaction};
use crate::records::{Shard, ShardId};

/// What the controller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// This node becomes the controller.
    Elect,
    /// This node is not to be the controller any more.
    Resign,
    /// The spare node becomes a replica of the shard.
    Replace(ShardId, Replacing),
    /// This replica leaves the shard: the other one of the two is in sync.
    Leave(ShardId, NodeId),
    /// This replica leaves the shard: it died before it had everything.
    GiveUp(ShardId, NodeId),
    /// The replacement is over, as others have changed the shard.
    Settle(ShardId),
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Deed::Elect => write!(f, "this node is the controller"),
            Deed::Resign => write!(f, "this node is no longer the controller"),
            Deed::Replace(shard, Replacing { dead, spare }) => {
                write!(f, "shard {shard} gets node {spare}, as node {dead} has been dead for long")
            }
            Deed::Leave(shard, node) => write!(f, "node {node} leaves shard {shard}"),
            Deed::GiveUp(shard, node) => write!(
                f,
                "node {node} leaves shard {shard}, as it died before it had everything: start it again as a spare node, \
                 or remove it ('hotring cluster remove')"
            ),
            Deed::Settle(shard) => write!(f, "shard {shard} needs no replacement any more"),
        }
    }
}

/// The controller, or a node that would be.
#[derive(Debug)]
pub struct Controller {
    me: NodeId,
    /// Since when this controller has seen each node of a shard dead.
    dead: BTreeMap<NodeId, Moment>,
}

impl Controller {
    /// A node that may become the controller.
    pub fn new(me: NodeId) -> Self {
        Controller { me, dead: BTreeMap::new() }
    }

    /// The next change by these records, with its transaction; `lease` is that of this node. Whether a change without
    /// an answer is through is seen in the records: if they do not show it yet, the same transaction is refused.
    pub fn look(
        &mut self,
        now: Moment,
        replace_after: Duration,
        lease: LeaseId,
        directory: &Directory,
    ) -> Option<(Deed, Transaction)> {
        directory.cluster.as_ref()?;
        let revision = match directory.controller {
            None => {
                self.dead.clear();
                let may_be = !replace_after.is_zero();
                return may_be.then(|| (Deed::Elect, self.election(lease)));
            }
            Some((_, node)) if node != self.me => {
                self.dead.clear();
                return None;
            }
            Some((revision, _)) => revision,
        };
        if replace_after.is_zero() {
            let (name, changes) =
                (CONTROLLER.to_owned(), Change::Delete { name: CONTROLLER.to_owned() });
            let transaction =
                Transaction { expect: vec![(name, revision)], changes: vec![changes] };
            return Some((Deed::Resign, transaction));
        }
        self.count(now, directory);
        let is_long_dead = |node: NodeId| {
            let since = self.dead.get(&node);
            since.is_some_and(|since| now.saturating_sub(*since) >= replace_after)
        };
        let (deed, mut transaction) = directory.shards.iter().find_map(|(id, (_, shard))| {
            match directory.replacing.get(id) {
                Some((_, replacing)) => finish(directory, *id, *replacing, is_long_dead),
                None => begin(directory, *id, shard, is_long_dead),
            }
        })?;
        if !wrong!(AnyController) {
            transaction.expect.push((CONTROLLER.to_owned(), revision));
        }
        Some((deed, transaction))
    }

    fn election(&self, lease: LeaseId) -> Transaction {
        let (name, value) = (CONTROLLER.to_owned(), controller_value(self.me));
        Transaction {
            expect: vec![(name.clone(), 0)],
            changes: vec![Change::Put { name, value, lease: Some(lease) }],
        }
    }

    /// Notes which nodes of shards are dead, and since when.
    fn count(&mut self, now: Moment, directory: &Directory) {
        let shards = directory.shards.values().map(|(_, shard)| shard);
        let nodes = shards.flat_map(|shard| shard.replicas.iter().chain([&shard.primary.node]));
        let dead: Vec<NodeId> = nodes.copied().filter(|node| !directory.is_alive(*node)).collect();
        if !wrong!(CountOn) {
            self.dead.retain(|node, _| dead.contains(node));
        }
        for node in dead {
            self.dead.entry(node).or_insert(now);
        }
    }
}

/// Gives a spare node to a shard with a replica that has been dead for long.
fn begin(
    directory: &Directory,
    id: ShardId,
    shard: &Shard,
    is_long_dead: impl Fn(NodeId) -> bool,
) -> Option<(Deed, Transaction)> {
    // Without a primary there is nothing to copy from; and the primary first takes the dead one out of the in-sync set.
    if !directory.is_alive(shard.primary.node) {
        return None;
    }
    let is_lost = |node: &NodeId| is_long_dead(*node) && !shard.in_sync.contains(node);
    let dead = shard.replicas.iter().copied().find(is_lost)?;
    let spare = spare(directory, shard, dead)?;
    let replacing = Replacing { dead, spare };
    let after = shard.with_replica(spare);
    let after = if wrong!(ReplaceAtOnce) { after.without(dead) } else { after };
    let mut transaction = Transaction {
        expect: vec![
            (shard_name(id), directory.shards[&id].0),
            (replacing_name(id), 0),
            (alive_name(dead), 0),
        ],
        changes: vec![
            put(shard_name(id), shard_value(&after)),
            put(replacing_name(id), replacing_value(&replacing)),
        ],
    };
    wrong!(AnyShard => transaction.expect.remove(0));
    wrong!(AnyDeath => transaction.expect.retain(|(name, _)| *name != alive_name(dead)));
    place(directory, spare, &mut transaction).ok()?;
    Some((Deed::Replace(id, replacing), transaction))
}

/// The best idle node: in a zone with as few other nodes of the shard as possible, then the strongest.
fn spare(directory: &Directory, shard: &Shard, dead: NodeId) -> Option<NodeId> {
    let zone = |node| directory.node(node).map(|node| &node.zone[..]);
    let beside = |node| {
        let others = shard.replicas.iter().chain([&shard.primary.node]);
        others.filter(|other| **other != dead && zone(**other) == zone(node)).count()
    };
    let weight = |node| directory.node(node).map_or(0, |node| node.weight);
    let nodes = directory.nodes.keys().copied();
    let idle =
        nodes.filter(|node| directory.is_idle(*node) && !directory.leaving.contains_key(node));
    idle.min_by_key(|node| (beside(*node), Reverse(weight(*node)), *node))
}

/// Ends a replacement once one of the two is in sync, or the spare node is dead itself.
fn finish(
    directory: &Directory,
    id: ShardId,
    replacing: Replacing,
    is_long_dead: impl Fn(NodeId) -> bool,
) -> Option<(Deed, Transaction)> {
    let Replacing { dead, spare } = replacing;
    let (revision, shard) = &directory.shards[&id];
    let has_all = |node| shard.primary.node == node || shard.in_sync.contains(&node);
    let is_listed = |node: NodeId| shard.replicas.contains(&node) || shard.primary.node == node;
    let deed = match () {
        () if !is_listed(dead) || !is_listed(spare) => Deed::Settle(id),
        () if has_all(dead) && directory.is_alive(dead) => Deed::Leave(id, spare),
        () if has_all(spare) => Deed::Leave(id, dead),
        () if is_long_dead(spare) => Deed::GiveUp(id, spare),
        () => return None,
    };
    let deed = match deed {
        // The primary leaves only after another node has its role.
        Deed::Leave(_, node) if node == shard.primary.node => Deed::Settle(id),
        // It may have what no other one has.
        Deed::Leave(_, node) if shard.in_sync.contains(&node) && !directory.has_primary(shard) => {
            return None;
        }
        deed => deed,
    };
    let mut transaction = Transaction {
        expect: vec![(shard_name(id), *revision), (replacing_name(id), directory.replacing[&id].0)],
        changes: vec![Change::Delete { name: replacing_name(id) }],
    };
    if let Deed::Leave(_, leaves) | Deed::GiveUp(_, leaves) = deed {
        transaction.changes.push(put(shard_name(id), shard_value(&shard.without(leaves))));
    }
    Some((deed, transaction))
}
