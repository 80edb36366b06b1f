//! Changes of the nodes of shards, and moves that are wanted: transactions on the records as they were read.
//!
//! A shard's record is its primary's. Others change its replicas only, by comparing the revision, and its in-sync set
//! only by taking a node out of both. A node's own record is written again when it gets a shard, so that two
//! transactions cannot give it two.

use std::collections::BTreeMap;
use std::fmt;

use crate::directory::{
    Directory, MoveId, SLOT_TABLE, Wanted, alive_name, leaving_name, leaving_value, move_name,
    move_value, node_name, node_value, replacing_name, shard_name, shard_value,
};
use crate::founding::{NotFounded, first_record};
use crate::ids::NodeId;
use crate::kept::{Change, Transaction};
use crate::records::{Shard, ShardId};
use crate::slots::Slot;

/// Most moves of one transaction; the coordinators' limits allow some more changes.
pub const MOVES_MAX: usize = 100;

/// The reason why a change cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such shard.
    NoShard(ShardId),
    /// The shard exists.
    Exists(ShardId),
    /// The node is not registered, or not alive.
    NotAlive(NodeId),
    /// The node lives.
    Alive(NodeId),
    /// The node belongs to this shard.
    Placed(NodeId, ShardId),
    /// The node belongs to no shard.
    Idle(NodeId),
    /// The node is the primary of this shard.
    Leads(NodeId, ShardId),
    /// The primary of this shard does not serve, and the node may be the one that has everything.
    MayBeNeeded(NodeId, ShardId),
    /// Other nodes belong to the shard.
    NotAlone(NodeId, ShardId),
    /// The shard has slots.
    OwnsSlots(ShardId),
    /// A move of this shard is under way.
    Moves(ShardId, MoveId),
    /// The shard does not own the slot.
    NotOwner(ShardId, Slot),
    /// The slot is part of this move.
    Moving(Slot, MoveId),
    /// There is no such move.
    NoMove(MoveId),
    /// A shard would have no node.
    Empty(ShardId),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refused::NoShard(shard) => write!(f, "there is no shard {shard}"),
            Refused::Exists(shard) => write!(f, "there is a shard {shard} already"),
            Refused::NotAlive(node) => write!(f, "node {node} is not alive"),
            Refused::Alive(node) => {
                write!(f, "node {node} is alive and would register again: stop it first")
            }
            Refused::Placed(node, shard) => write!(f, "node {node} belongs to shard {shard}"),
            Refused::Idle(node) => write!(f, "node {node} belongs to no shard"),
            Refused::Leads(node, shard) => {
                write!(f, "node {node} is the primary of shard {shard}")
            }
            Refused::MayBeNeeded(node, shard) => write!(
                f,
                "the primary of shard {shard} does not serve, and node {node} may have the only copy of some writes"
            ),
            Refused::NotAlone(node, shard) => {
                write!(f, "shard {shard} has other nodes than {node}")
            }
            Refused::OwnsSlots(shard) => write!(f, "shard {shard} still has slots"),
            Refused::Moves(shard, id) => write!(f, "move {id} of shard {shard} is under way"),
            Refused::NotOwner(shard, slot) => write!(f, "shard {shard} does not own slot {slot}"),
            Refused::Moving(slot, id) => write!(f, "slot {slot} is part of move {id}"),
            Refused::NoMove(id) => write!(f, "there is no move {id}"),
            Refused::Empty(shard) => write!(f, "shard {shard} has no node"),
        }
    }
}

impl std::error::Error for Refused {}

impl From<NotFounded> for Refused {
    fn from(why: NotFounded) -> Self {
        match why {
            NotFounded::NotAlive(node) => Refused::NotAlive(node),
            NotFounded::Empty(shard) => Refused::Empty(shard),
            NotFounded::Exists => unreachable!("only a cluster's foundation says so"),
        }
    }
}

pub(crate) fn put(name: String, value: Vec<u8>) -> Change {
    Change::Put { name, value, lease: None }
}

fn found(directory: &Directory, shard: ShardId) -> Result<(u64, &Shard), Refused> {
    let record = directory.shards.get(&shard).ok_or(Refused::NoShard(shard))?;
    Ok((record.0, &record.1))
}

/// The shard that a node follows, with its revision.
fn followed(directory: &Directory, node: NodeId) -> Result<(ShardId, u64, &Shard), Refused> {
    let (id, shard) = directory.shard_of_node(node).ok_or(Refused::Idle(node))?;
    match shard.primary.node == node {
        true => Err(Refused::Leads(node, id)),
        false => Ok((id, directory.shards[&id].0, shard)),
    }
}

/// Takes hold of a node that is to get a shard: its record lasts from here on.
pub(crate) fn place(
    directory: &Directory,
    node: NodeId,
    transaction: &mut Transaction,
) -> Result<(), Refused> {
    if let Some((shard, _)) = directory.shard_of_node(node) {
        return Err(Refused::Placed(node, shard));
    }
    let (revision, known) = directory.nodes.get(&node).ok_or(Refused::NotAlive(node))?;
    if !directory.is_alive(node) {
        return Err(Refused::NotAlive(node));
    }
    if !wrong!(PlaceTwice) {
        transaction.expect.push((node_name(node), *revision));
    }
    transaction.changes.push(put(node_name(node), node_value(known)));
    if directory.leaving.contains_key(&node) {
        transaction.changes.push(Change::Delete { name: leaving_name(node) });
    }
    Ok(())
}

/// Adds replicas to a shard.
///
/// # Errors
/// The shard is not there, or a node is not alive or has a shard.
pub fn join(
    directory: &Directory,
    shard: ShardId,
    nodes: &[NodeId],
) -> Result<Transaction, Refused> {
    let (revision, record) = found(directory, shard)?;
    let after = nodes.iter().fold(record.clone(), |record, node| record.with_replica(*node));
    let mut transaction = Transaction {
        expect: vec![(shard_name(shard), revision)],
        changes: vec![put(shard_name(shard), shard_value(&after))],
    };
    nodes.iter().try_for_each(|node| place(directory, *node, &mut transaction))?;
    Ok(transaction)
}

/// Makes a new shard without slots of these nodes, the first one its primary.
///
/// # Errors
/// The shard exists, or a node is not alive or has a shard.
pub fn found_shard(
    directory: &Directory,
    shard: ShardId,
    nodes: &[NodeId],
) -> Result<Transaction, Refused> {
    if directory.shards.contains_key(&shard) {
        return Err(Refused::Exists(shard));
    }
    let record = first_record(directory, shard, nodes)?;
    let mut transaction = Transaction {
        expect: vec![(shard_name(shard), 0)],
        changes: vec![put(shard_name(shard), shard_value(&record))],
    };
    nodes.iter().try_for_each(|node| place(directory, *node, &mut transaction))?;
    Ok(transaction)
}

/// Takes a replica out of its shard, which it then no longer follows, and notes that it is not to get another one by
/// itself.
///
/// # Errors
/// The node is no replica, or no primary serves and the node is in sync: it may have what no other one has.
pub fn leave(directory: &Directory, node: NodeId) -> Result<Transaction, Refused> {
    let (shard, revision, record) = followed(directory, node)?;
    if record.in_sync.contains(&node) && !directory.has_primary(record) {
        return Err(Refused::MayBeNeeded(node, shard));
    }
    Ok(Transaction {
        expect: vec![(shard_name(shard), revision)],
        changes: vec![
            put(shard_name(shard), shard_value(&record.without(node))),
            put(leaving_name(node), leaving_value(record.epoch)),
        ],
    })
}

/// Removes the records of a dead node.
///
/// # Errors
/// It lives, is a primary, or is a replica of a shard whose primary does not serve.
pub fn forget(directory: &Directory, node: NodeId) -> Result<Transaction, Refused> {
    if directory.is_alive(node) {
        return Err(Refused::Alive(node));
    }
    let revision = directory.nodes.get(&node).map_or(0, |(revision, _)| *revision);
    let mut transaction = Transaction {
        expect: vec![(alive_name(node), 0), (node_name(node), revision)],
        changes: vec![
            Change::Delete { name: node_name(node) },
            Change::Delete { name: leaving_name(node) },
        ],
    };
    if directory.shard_of_node(node).is_some() {
        let (shard, revision, record) = followed(directory, node)?;
        if !directory.has_primary(record) {
            return Err(Refused::MayBeNeeded(node, shard));
        }
        transaction.expect.push((shard_name(shard), revision));
        let after = shard_value(&record.without(node));
        transaction.changes.push(put(shard_name(shard), after));
    }
    Ok(transaction)
}

/// Gives a shard, whose only node is dead and whose data is lost, to another node, which is empty.
///
/// # Errors
/// The dead node lives or is not the only one of its shard, or the other one is not alive or has a shard.
pub fn found_again(
    directory: &Directory,
    dead: NodeId,
    empty: NodeId,
) -> Result<Transaction, Refused> {
    let (shard, record) = directory.shard_of_node(dead).ok_or(Refused::Idle(dead))?;
    if directory.is_alive(dead) {
        return Err(Refused::Alive(dead));
    }
    if record.primary.node != dead || !record.replicas.is_empty() {
        return Err(Refused::NotAlone(dead, shard));
    }
    let revision = directory.shards[&shard].0;
    let first = first_record(directory, shard, &[empty])?;
    let mut transaction = Transaction {
        expect: vec![(alive_name(dead), 0), (shard_name(shard), revision)],
        changes: vec![
            put(shard_name(shard), shard_value(&first)),
            Change::Delete { name: node_name(dead) },
        ],
    };
    place(directory, empty, &mut transaction)?;
    Ok(transaction)
}

/// Ends a shard that has no slots. Its nodes are left over, and not to get another shard by themselves.
///
/// # Errors
/// The shard is not there, has slots, or is part of a move.
pub fn end_shard(directory: &Directory, shard: ShardId) -> Result<Transaction, Refused> {
    let (revision, record) = found(directory, shard)?;
    if (0..crate::slots::SLOTS).any(|slot| directory.owners.of(slot) == Some(shard)) {
        return Err(Refused::OwnsSlots(shard));
    }
    let is_part = |wanted: &Wanted| wanted.from == shard || wanted.to == shard;
    if let Some((id, _)) = directory.moves.iter().find(|(_, (_, wanted))| is_part(wanted)) {
        return Err(Refused::Moves(shard, *id));
    }
    let nodes = record.replicas.iter().chain([&record.primary.node]);
    let left = nodes.map(|node| put(leaving_name(*node), leaving_value(record.epoch)));
    let ends = [shard_name(shard), replacing_name(shard)].map(|name| Change::Delete { name });
    Ok(Transaction {
        // Whoever wants a move to this shard meanwhile takes that number.
        expect: vec![
            (shard_name(shard), revision),
            (SLOT_TABLE.to_owned(), directory.slots_revision),
            (move_name(next_move(directory)), 0),
        ],
        changes: ends.into_iter().chain(left).collect(),
    })
}

/// The number of the next move. Who uses it compares that it is free, and so meets whoever else does.
fn next_move(directory: &Directory) -> MoveId {
    directory.moves.keys().last().map_or(1, |last| last + 1)
}

/// Writes down moves that are wanted, and returns their numbers.
///
/// # Errors
/// A shard is not there or does not own a slot, or a slot is moving already.
pub fn want(
    directory: &Directory,
    moves: &[Wanted],
) -> Result<(Vec<MoveId>, Transaction), Refused> {
    assert!(moves.len() <= MOVES_MAX, "the caller makes several transactions");
    let mut transaction = Transaction {
        expect: vec![(SLOT_TABLE.to_owned(), directory.slots_revision)],
        changes: Vec::new(),
    };
    let known = directory.moves.iter();
    let slots = known.flat_map(|(id, (_, wanted))| wanted.slots.iter().map(|slot| (slot, *id)));
    let (mut moving, mut ids): (BTreeMap<Slot, MoveId>, _) = (slots.collect(), Vec::new());
    for (wanted, id) in moves.iter().zip(next_move(directory)..) {
        found(directory, wanted.from)?;
        // The target must not end meanwhile.
        let (revision, _) = found(directory, wanted.to)?;
        let target = (shard_name(wanted.to), revision);
        if !transaction.expect.contains(&target) {
            transaction.expect.push(target);
        }
        for slot in wanted.slots.iter() {
            if directory.owners.of(slot) != Some(wanted.from) {
                return Err(Refused::NotOwner(wanted.from, slot));
            }
            if let Some(other) = moving.insert(slot, id) {
                return Err(Refused::Moving(slot, other));
            }
        }
        transaction.expect.push((move_name(id), 0));
        transaction.changes.push(put(move_name(id), move_value(wanted)));
        ids.push(id);
    }
    Ok((ids, transaction))
}

/// Takes a move back, unless it is through.
///
/// # Errors
/// There is none.
pub fn cancel(directory: &Directory, id: MoveId) -> Result<Transaction, Refused> {
    let (revision, _) = directory.moves.get(&id).ok_or(Refused::NoMove(id))?;
    Ok(Transaction {
        expect: vec![(move_name(id), *revision)],
        changes: vec![Change::Delete { name: move_name(id) }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{Life, Node};
    use crate::ids::{Epoch, Identity, Incarnation};
    use crate::keeper::Keeper;
    use crate::kept::Outcome;
    use crate::slots::SlotSet;

    fn id(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    fn read(keeper: &Keeper) -> Directory {
        let records = keeper.read().records;
        Directory::read(records.iter().map(|r| (&r.name[..], r.revision, &r.value[..]))).unwrap()
    }

    fn make(transaction: Transaction, keeper: &mut Keeper) -> bool {
        matches!(keeper.transact(&transaction), Ok(Outcome::Done(_)))
    }

    /// Shard 0 has nodes 1 and 2 and all slots; nodes 3 and 4 are idle; 5 is registered and dead.
    fn keeper() -> Keeper {
        let mut keeper = Keeper::new(1);
        let node = |n: u8| Node {
            host: "h".into(),
            port: n.into(),
            tls_port: None,
            zone: String::new(),
            weight: 100,
        };
        let nodes = (1..=5).map(|n| put(node_name(id(n)), node_value(&node(n))));
        let life = Life { incarnation: Incarnation(1), ..Life::default() };
        let alive = crate::directory::alive_value(&life);
        let alive = (1..=4).map(|n| put(alive_name(id(n)), alive.clone()));
        let primary = Identity { node: id(1), incarnation: Incarnation(1) };
        let (in_sync, replicas) = (vec![id(2)], vec![id(2)]);
        let epoch = Epoch(7);
        let shard = Shard { epoch, promoted: epoch, primary, in_sync, replicas };
        let mut owners = crate::plan::Owners::default();
        (0..crate::slots::SLOTS).for_each(|slot| owners.give(slot, 0));
        let rest = [
            put(shard_name(0), shard_value(&shard)),
            put(SLOT_TABLE.to_owned(), crate::directory::slots_value(&owners)),
        ];
        let changes = nodes.chain(alive).chain(rest).collect();
        assert!(make(Transaction { expect: vec![], changes }, &mut keeper));
        keeper
    }

    fn wanted(from: ShardId, to: ShardId, slots: &str) -> Wanted {
        Wanted { from, to, slots: slots.parse::<SlotSet>().unwrap() }
    }

    #[test]
    fn a_node_gets_one_shard() {
        let mut keeper = keeper();
        let seen = read(&keeper);
        assert_eq!(join(&seen, 9, &[id(3)]), Err(Refused::NoShard(9)));
        assert_eq!(join(&seen, 0, &[id(5)]), Err(Refused::NotAlive(id(5))));
        assert_eq!(join(&seen, 0, &[id(2)]), Err(Refused::Placed(id(2), 0)));
        assert_eq!(found_shard(&seen, 0, &[id(3)]), Err(Refused::Exists(0)));
        assert_eq!(found_shard(&seen, 1, &[]), Err(Refused::Empty(1)));
        assert!(make(found_shard(&seen, 1, &[id(3), id(4)]).unwrap(), &mut keeper));
        // By the records as they were the other transaction would give node 4 two shards.
        assert!(!make(join(&seen, 0, &[id(4)]).unwrap(), &mut keeper));
        let now = read(&keeper);
        let (_, shard) = &now.shards[&1];
        assert_eq!((shard.epoch, shard.primary.node), (Epoch(8), id(3)), "above all others");
        assert_eq!((&shard.replicas[..], shard.in_sync.len()), (&[id(4)][..], 0));
    }

    #[test]
    fn a_node_leaves_and_is_forgotten() {
        let mut keeper = keeper();
        assert!(make(join(&read(&keeper), 0, &[id(3)]).unwrap(), &mut keeper));
        let seen = read(&keeper);
        assert_eq!(leave(&seen, id(1)), Err(Refused::Leads(id(1), 0)));
        assert_eq!(leave(&seen, id(4)), Err(Refused::Idle(id(4))));
        assert!(make(leave(&seen, id(2)).unwrap(), &mut keeper));
        let now = read(&keeper);
        assert_eq!(
            (&now.shards[&0].1.replicas[..], now.shards[&0].1.in_sync.len()),
            (&[id(3)][..], 0)
        );
        assert!(now.leaving.contains_key(&id(2)));
        assert!(make(join(&now, 0, &[id(2)]).unwrap(), &mut keeper));
        assert!(!read(&keeper).leaving.contains_key(&id(2)));
        let kill = |keeper: &mut Keeper, n| {
            let changes = vec![Change::Delete { name: alive_name(id(n)) }];
            assert!(make(Transaction { expect: vec![], changes }, keeper));
        };
        assert_eq!(forget(&read(&keeper), id(2)), Err(Refused::Alive(id(2))));
        kill(&mut keeper, 2);
        let seen = read(&keeper);
        kill(&mut keeper, 1);
        assert_eq!(forget(&read(&keeper), id(2)), Err(Refused::MayBeNeeded(id(2), 0)));
        assert_eq!(forget(&read(&keeper), id(1)), Err(Refused::Leads(id(1), 0)));
        assert!(make(forget(&seen, id(2)).unwrap(), &mut keeper));
        let now = read(&keeper);
        assert!(now.node(id(2)).is_none() && now.shard_of_node(id(2)).is_none());
        assert_eq!(found_again(&now, id(1), id(4)), Err(Refused::NotAlone(id(1), 0)));
        assert!(make(leave(&now, id(3)).unwrap(), &mut keeper));
        assert!(make(found_again(&read(&keeper), id(1), id(4)).unwrap(), &mut keeper));
        let now = read(&keeper);
        assert_eq!(now.shards[&0].1.primary.node, id(4));
        assert!(now.shards[&0].1.epoch > Epoch(7) && now.node(id(1)).is_none());
    }

    /// All nodes of a shard were started again, and each member may be the one that has the most.
    #[test]
    fn no_member_of_a_lost_set_leaves_or_is_forgotten() {
        let mut keeper = keeper();
        let life = Life { incarnation: Incarnation(2), ..Life::default() };
        let changes = vec![put(alive_name(id(1)), crate::directory::alive_value(&life))];
        assert!(make(Transaction { expect: vec![], changes }, &mut keeper));
        assert_eq!(leave(&read(&keeper), id(2)), Err(Refused::MayBeNeeded(id(2), 0)));
        let changes = vec![Change::Delete { name: alive_name(id(2)) }];
        assert!(make(Transaction { expect: vec![], changes }, &mut keeper));
        assert_eq!(forget(&read(&keeper), id(2)), Err(Refused::MayBeNeeded(id(2), 0)));
    }

    #[test]
    fn moves_are_wanted_once_and_a_shard_ends_without_them() {
        let mut keeper = keeper();
        assert_eq!(want(&read(&keeper), &[wanted(0, 1, "5")]), Err(Refused::NoShard(1)));
        assert!(make(found_shard(&read(&keeper), 1, &[id(3)]).unwrap(), &mut keeper));
        let seen = read(&keeper);
        assert_eq!(want(&seen, &[wanted(1, 0, "5")]), Err(Refused::NotOwner(1, 5)));
        let twice = [wanted(0, 1, "5-9"), wanted(0, 1, "9")];
        assert_eq!(want(&seen, &twice), Err(Refused::Moving(9, 1)));
        assert_eq!(end_shard(&seen, 0), Err(Refused::OwnsSlots(0)));
        let ends = end_shard(&seen, 1).unwrap();
        let (ids, transaction) = want(&seen, &[wanted(0, 1, "5-9"), wanted(0, 1, "20")]).unwrap();
        assert_eq!(ids, [1, 2]);
        assert!(make(transaction.clone(), &mut keeper));
        assert!(!make(transaction, &mut keeper), "somebody else has taken the numbers");
        assert!(!make(ends, &mut keeper), "its move is wanted");
        let seen = read(&keeper);
        assert_eq!(want(&seen, &[wanted(0, 1, "20-21")]), Err(Refused::Moving(20, 2)));
        assert_eq!(end_shard(&seen, 1), Err(Refused::Moves(1, 1)));
        assert_eq!(cancel(&seen, 3), Err(Refused::NoMove(3)));
        for id in ids {
            assert!(make(cancel(&read(&keeper), id).unwrap(), &mut keeper));
        }
        let seen = read(&keeper);
        let (_, late) = want(&seen, &[wanted(0, 1, "5")]).unwrap();
        assert!(make(end_shard(&seen, 1).unwrap(), &mut keeper));
        assert!(!make(late, &mut keeper), "the target is gone");
        let seen = read(&keeper);
        assert_eq!(seen.leaving[&id(3)], Epoch(8));
        assert!(make(found_shard(&seen, 1, &[id(3)]).unwrap(), &mut keeper));
        assert_eq!(read(&keeper).shards[&1].1.epoch, Epoch(9), "above those of shards that ended");
    }
}
