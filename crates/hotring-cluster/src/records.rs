//! The records that several nodes agree on, and transactions on them.
//!
//! Whoever keeps them is behind [`Records`]. A request is started here and its outcome is handed to the
//! machine later, because the outcome of a transaction may be unknown: it may still take effect. [`Claim`]
//! is the one way to make a change under this rule.

use crate::ids::{Epoch, Identity, NodeId};

/// The number of a record's version, which only transactions compare. It is never an epoch: it falls when the
/// records are restored from a backup.
pub type Revision = u64;

/// The number of a shard: one primary and its replicas.
pub type ShardId = u32;

/// The record of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The present epoch, raised by each promotion and each start of a primary.
    pub epoch: Epoch,
    /// The epoch in which the primary took the role from another node. Its restarts do not change it.
    pub promoted: Epoch,
    /// The primary, in its last start.
    pub primary: Identity,
    /// The other nodes that have every acknowledged write.
    pub in_sync: Vec<NodeId>,
    /// All nodes that may follow, in sync or not.
    pub replicas: Vec<NodeId>,
}

impl Shard {
    /// The record after another node has become primary, in an epoch above all that it knows.
    pub fn with_primary(&self, primary: Identity, highest: Epoch) -> Shard {
        let (new, old) = (primary.node, self.primary.node);
        let others = |nodes: &[NodeId]| -> Vec<NodeId> {
            nodes.iter().copied().filter(|node| *node != new && *node != old).collect()
        };
        let (mut in_sync, mut replicas) = (others(&self.in_sync), others(&self.replicas));
        if old != new {
            // It has everything, and stays the other choice until the new one serves.
            in_sync.push(old);
            replicas.push(old);
        }
        let epoch = self.epoch.max(highest).next();
        Shard { epoch, promoted: epoch, primary, in_sync, replicas }
    }

    /// The record with one more replica. It is not in sync: only the primary knows when it has everything.
    pub fn with_replica(&self, node: NodeId) -> Shard {
        let mut shard = self.clone();
        shard.replicas.push(node);
        wrong!(AddAsMember => shard.in_sync.push(node));
        shard
    }

    /// The record without a replica. The primary need not know of it: until then it waits for one node more than it
    /// must.
    pub fn without(&self, node: NodeId) -> Shard {
        let others =
            |nodes: &[NodeId]| nodes.iter().copied().filter(|other| *other != node).collect();
        let (in_sync, replicas) = (others(&self.in_sync), others(&self.replicas));
        Shard { in_sync, replicas, ..self.clone() }
    }
}

/// If all these records have these revisions, all these are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// The revisions that the records must have.
    pub expect: Vec<(ShardId, Revision)>,
    /// What is written.
    pub write: Vec<(ShardId, Shard)>,
}

/// What a machine asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// All records.
    ReadAll,
    /// A transaction.
    Transact(Transaction),
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All records with their revisions, as they were at some time after the request.
    Records(Vec<(ShardId, Revision, Shard)>),
    /// The transaction is through, and its records have this revision.
    Done(Revision),
    /// The transaction did not take effect and never will.
    Conflict,
    /// There was no answer: the request may have taken effect, or may yet. A time-out is this, never more.
    Unknown,
}

/// What keeps the records. It must answer each request exactly once, in the order of the requests, with
/// `Outcome::Unknown` at the latest when its own time is over.
pub trait Records {
    /// Starts a request.
    fn start(&mut self, request: Request);

    /// The next outcome, if one is there.
    fn outcome(&mut self) -> Option<Outcome>;
}

/// A change of one shard's record on its way: repeated until its outcome is known.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    shard: ShardId,
    sent: Option<(Revision, Shard)>,
}

/// The next step of a change.
#[derive(Debug)]
pub(crate) enum Next<E> {
    /// Ask this, and pass the outcome on.
    Ask(Request),
    /// The change is through.
    Through(Revision, Shard),
    /// The change did not take effect and never will.
    Refused(E),
}

impl Claim {
    /// A change that begins with a reading of the record.
    pub(crate) fn read(shard: ShardId) -> (Self, Request) {
        (Claim { shard, sent: None }, Request::ReadAll)
    }

    /// A change of the record that was last seen at `revision`.
    pub(crate) fn write(shard: ShardId, revision: Revision, to: Shard) -> (Self, Request) {
        let claim = Claim { shard, sent: Some((revision, to)) };
        let request = claim.request();
        (claim, request)
    }

    pub(crate) fn shard(&self) -> ShardId {
        self.shard
    }

    /// What the record may have become already.
    pub(crate) fn sent(&self) -> Option<&Shard> {
        self.sent.as_ref().map(|(_, shard)| shard)
    }

    /// Goes on after an outcome. `propose` makes the wanted record of the present one, with its revision, or
    /// gives the reason why there is none.
    pub(crate) fn outcome<E>(
        &mut self,
        outcome: Outcome,
        propose: impl FnOnce(Option<(Revision, &Shard)>) -> Result<Shard, E>,
    ) -> Next<E> {
        let records = match outcome {
            Outcome::Records(records) => records,
            Outcome::Done(revision) => {
                let Some((_, shard)) = self.sent.take() else { return Next::Ask(Request::ReadAll) };
                return Next::Through(revision, shard);
            }
            // After a conflict, too: an earlier copy of the same transaction may be what it met.
            Outcome::Conflict | Outcome::Unknown => return Next::Ask(Request::ReadAll),
        };
        let found = records.into_iter().find(|(shard, ..)| *shard == self.shard);
        if let (Some((expected, to)), Some((_, revision, now))) = (&self.sent, &found) {
            if now == to && revision > expected {
                let (revision, now) = (*revision, now.clone());
                self.sent = None;
                return Next::Through(revision, now);
            }
            if revision == expected {
                return Next::Ask(self.request());
            }
        }
        self.sent = None;
        let found = found.as_ref().map(|(_, revision, shard)| (*revision, shard));
        let revision = found.map_or(0, |(revision, _)| revision);
        match propose(found) {
            Ok(to) => {
                self.sent = Some((revision, to));
                Next::Ask(self.request())
            }
            Err(refused) => Next::Refused(refused),
        }
    }

    fn request(&self) -> Request {
        let (revision, shard) = self.sent.clone().expect("a request is made of a change");
        Request::Transact(Transaction {
            expect: vec![(self.shard, revision)],
            write: vec![(self.shard, shard)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Incarnation;

    fn shard(epoch: u64, in_sync: &[u8]) -> Shard {
        let node = |n: u8| NodeId([n; 20]);
        let primary = Identity { node: node(1), incarnation: Incarnation(1) };
        let in_sync: Vec<NodeId> = in_sync.iter().copied().map(node).collect();
        let replicas = vec![node(2), node(3)];
        Shard { epoch: Epoch(epoch), promoted: Epoch(1), primary, in_sync, replicas }
    }

    fn found(revision: Revision, shard: &Shard) -> Outcome {
        Outcome::Records(vec![(6, 1, shard.clone()), (7, revision, shard.clone())])
    }

    fn never(_: Option<(Revision, &Shard)>) -> Result<Shard, ()> {
        panic!("the transaction may yet take effect")
    }

    #[test]
    fn an_unknown_transaction_is_repeated_until_it_is_known() {
        let (old, new) = (shard(1, &[2, 3]), shard(1, &[2]));
        let (mut claim, first) = Claim::write(7, 5, new.clone());
        for _ in 0..2 {
            let read = claim.outcome(Outcome::Unknown, never);
            assert!(matches!(read, Next::Ask(Request::ReadAll)));
            // Unchanged: it may still be on its way, so nothing else may be tried.
            let Next::Ask(again) = claim.outcome(found(5, &old), never) else { panic!() };
            assert_eq!(again, first);
            assert_eq!(claim.sent(), Some(&new));
        }
        assert!(matches!(claim.outcome(Outcome::Conflict, never), Next::Ask(Request::ReadAll)));
        let through = claim.outcome(found(6, &new), never);
        assert!(matches!(through, Next::Through(6, shard) if shard == new));
    }

    #[test]
    fn a_transaction_that_met_another_change_begins_with_that() {
        let (mut claim, _) = Claim::write(7, 5, shard(1, &[2]));
        claim.outcome(Outcome::Conflict, never);
        let other = shard(2, &[3]);
        let next = claim.outcome(found(6, &other), |now| {
            assert_eq!(now, Some((6, &other)));
            Ok::<_, ()>(shard(3, &[]))
        });
        let Next::Ask(Request::Transact(next)) = next else { panic!() };
        assert_eq!((next.expect, next.write), (vec![(7, 6)], vec![(7, shard(3, &[]))]));
        assert!(matches!(claim.outcome(Outcome::Done(7), never), Next::Through(7, _)));
        let (mut claim, _) = Claim::read(7);
        let gone = claim.outcome(Outcome::Records(vec![]), |now| now.map(|_| other).ok_or("gone"));
        assert!(matches!(gone, Next::Refused("gone")));
    }
}
