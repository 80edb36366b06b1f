//! What the coordinator's records say of a move, and the transaction that ends one.
//!
//! A move's record is written by whoever wants the move, and removed by the transaction that changes the owner, or by
//! whoever cancels it.

use super::{Owner, View};
use crate::directory::{Directory, MoveId, SLOT_TABLE, Wanted, move_name, shard_name, slots_value};
use crate::ids::Epoch;
use crate::kept::{Change, Transaction};

/// What the records show of a move. A shard without a record has revision and epoch 0, in which no attempt began.
pub fn view(directory: &Directory, id: MoveId, wanted: &Wanted) -> View {
    let shard = |id| {
        let found = directory.shards.get(&id);
        found.map_or((0, Epoch(0)), |(revision, shard)| (*revision, shard.epoch))
    };
    let all_of = |shard| wanted.slots.iter().all(|slot| directory.owners.of(slot) == Some(shard));
    let owner = match () {
        () if all_of(wanted.from) => Owner::Source,
        () if all_of(wanted.to) => Owner::Target,
        () => Owner::Other,
    };
    // A later move may have the number again.
    let record = directory.moves.get(&id).filter(|(_, found)| found == wanted);
    View {
        source: shard(wanted.from),
        target: shard(wanted.to),
        table: directory.slots_revision,
        owner,
        record: record.map(|(revision, _)| *revision),
    }
}

/// The transaction that gives the slots to the target and removes the record, on condition that the records are still
/// those of this directory, which showed [`View`]. None if it does not have the move.
pub fn commit(directory: &Directory, id: MoveId) -> Option<Transaction> {
    let (revision, wanted) = directory.moves.get(&id)?;
    let view = view(directory, id, wanted);
    let mut owners = directory.owners.clone();
    wanted.slots.iter().for_each(|slot| owners.give(slot, wanted.to));
    Some(Transaction {
        expect: vec![
            (shard_name(wanted.from), view.source.0),
            (shard_name(wanted.to), view.target.0),
            (SLOT_TABLE.to_owned(), view.table),
            (move_name(id), *revision),
        ],
        changes: vec![
            Change::Put { name: SLOT_TABLE.to_owned(), value: slots_value(&owners), lease: None },
            Change::Delete { name: move_name(id) },
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{move_value, shard_value};
    use crate::ids::{Identity, Incarnation, NodeId};
    use crate::keeper::Keeper;
    use crate::kept::Outcome;
    use crate::records::Shard;
    use crate::slots::SlotSet;

    fn put(name: String, value: Vec<u8>) -> Change {
        Change::Put { name, value, lease: None }
    }

    fn read(keeper: &Keeper) -> Directory {
        let records = keeper.read().records;
        Directory::read(records.iter().map(|r| (&r.name[..], r.revision, &r.value[..]))).unwrap()
    }

    fn make(keeper: &mut Keeper, changes: Vec<Change>) {
        let made = keeper.transact(&Transaction { expect: vec![], changes });
        assert!(matches!(made, Ok(Outcome::Done(_))));
    }

    fn shard(epoch: u64) -> Shard {
        let primary = Identity { node: NodeId([1; 20]), incarnation: Incarnation(1) };
        let epoch = Epoch(epoch);
        Shard { epoch, promoted: epoch, primary, in_sync: vec![], replicas: vec![] }
    }

    #[test]
    fn a_commit_moves_the_slots_unless_a_record_has_changed() {
        let mut directory = Directory::default();
        (0..100).for_each(|slot| directory.owners.give(slot, 1));
        let slots: SlotSet = "10-19".parse().unwrap();
        let wanted = Wanted { from: 1, to: 2, slots };
        let all = || {
            vec![
                put(shard_name(1), shard_value(&shard(3))),
                put(shard_name(2), shard_value(&shard(5))),
                put(SLOT_TABLE.to_owned(), slots_value(&directory.owners)),
                put(move_name(7), move_value(&wanted)),
            ]
        };
        for changed in 0..4 {
            let mut keeper = Keeper::new(1);
            make(&mut keeper, all());
            let seen = read(&keeper);
            let before = view(&seen, 7, &wanted);
            assert_eq!((before.source.1, before.target.1), (Epoch(3), Epoch(5)));
            assert_eq!((before.owner, before.record.is_some()), (Owner::Source, true));
            make(&mut keeper, vec![all().swap_remove(changed)]);
            let late = keeper.transact(&commit(&seen, 7).unwrap());
            assert_eq!(late, Ok(Outcome::Conflict), "record {changed}");
            let through = keeper.transact(&commit(&read(&keeper), 7).unwrap());
            assert!(matches!(through, Ok(Outcome::Done(_))));
            let after = read(&keeper);
            let seen = view(&after, 7, &wanted);
            assert_eq!((seen.owner, seen.record), (Owner::Target, None));
            assert_eq!((after.owners.of(9), after.owners.of(10)), (Some(1), Some(2)));
            assert_eq!(commit(&after, 7), None);
            // A shard may end right after it has given its last slots.
            let mut ended = after;
            ended.shards.remove(&1);
            let seen = view(&ended, 7, &wanted);
            assert_eq!((seen.owner, seen.source), (Owner::Target, (0, Epoch(0))));
        }
    }
}
