//! The promotion of a replica, and the record of its shard afterwards.

use crate::ids::{Epoch, Identity, Moment, NodeId};
use crate::in_sync::Set;
use crate::message::ToPrimary;
use crate::records::{Claim, Next, Outcome, Revision, Shard};
use crate::replica::{Act, PromoteRefused, Replica, TakeOver};

/// A promotion under way.
#[derive(Debug)]
pub(crate) struct Promotion {
    force: bool,
    /// The old primary, if it has handed over.
    pub(crate) from: Option<NodeId>,
    /// The old primary, if it is in the record and did not hand over.
    deposed: Option<NodeId>,
    stage: Stage,
}

/// What a promotion waits for.
#[derive(Debug)]
enum Stage {
    /// Until the record names this node.
    Claiming(Claim),
    /// Until the last promise has ended.
    Promised(Set, Epoch),
}

impl Replica {
    /// An operator, or who repairs the shard, wants this node to be primary. `set` is the in-sync set if operators
    /// name it. Force skips the question whether this replica has all that was acknowledged.
    pub fn promote(
        &mut self,
        now: Moment,
        set: Vec<NodeId>,
        force: bool,
    ) -> Result<(), PromoteRefused> {
        if self.promotion.is_some() {
            return Err(PromoteRefused::Underway);
        }
        if !self.is_whole() {
            return Err(PromoteRefused::HalfReceived);
        }
        let has_all = match self.shard {
            // The record says whether it is a member.
            Some(_) => self.was_caught_up,
            None => self.is_in_sync(),
        };
        if !has_all && !force && !wrong!(PromoteOutside) {
            return Err(PromoteRefused::NotInSync);
        }
        self.promote_by(force, None, Set::Named(set));
        self.tick(now);
        Ok(())
    }

    /// From here on nothing of the old primary is accepted.
    pub(crate) fn promote_by(&mut self, force: bool, from: Option<NodeId>, set: Set) {
        self.relay.end_all();
        let stage = match self.shard {
            Some(shard) => {
                let (claim, request) = Claim::read(shard);
                self.acts.push(Act::Ask(request));
                Stage::Claiming(claim)
            }
            None => Stage::Promised(set, self.highest.next()),
        };
        self.promotion = Some(Promotion { force, from, deposed: None, stage });
    }

    /// Becomes primary, if the record is there; the promise must have ended.
    pub(crate) fn finish(&mut self) {
        let Some(Promotion { stage, from, deposed, .. }) = &self.promotion else { return };
        let Stage::Promised(set, epoch) = stage else { return };
        if let Some(from) = *from {
            let fenced = ToPrimary::Fenced { epoch: *epoch, leads: true };
            self.acts.push(Act::Send(from, fenced));
        }
        self.acts.push(Act::TakeOver(Box::new(TakeOver {
            store: self.copy.store,
            history: self.copy.history.clone(),
            epoch: *epoch,
            last: self.copy.last,
            committed: self.committed,
            told: self.told,
            set: set.clone(),
            deposed: *deposed,
        })));
        self.disconnected();
        self.promotion = None;
    }

    /// The outcome of the last request.
    pub fn outcome(&mut self, now: Moment, outcome: Outcome) {
        let (me, highest) = (self.me, self.highest);
        let Some(promotion) = &mut self.promotion else { return };
        let Stage::Claiming(claim) = &mut promotion.stage else { return };
        let (force, from) = (promotion.force || wrong!(PromoteOutside), promotion.from);
        let deposed = &mut promotion.deposed;
        let step = claim.outcome(outcome, |found| {
            // A record that names this node is its own, which went through unseen: it deposed whom it did before.
            let old = found.map(|(_, record)| record.primary.node).filter(|old| *old != me.node);
            *deposed = old.or(*deposed).filter(|_| from.is_none());
            succession(me, highest, force, found)
        });
        let shard = claim.shard();
        match step {
            Next::Ask(request) => self.acts.push(Act::Ask(request)),
            Next::Through(revision, record) => {
                let epoch = record.epoch;
                promotion.stage = Stage::Promised(Set::Recorded(shard, revision, record), epoch);
                self.tick(now);
            }
            Next::Refused(why) => {
                self.promotion = None;
                self.disconnected();
                self.acts.push(Act::GivenUp(why));
            }
        }
    }
}

/// The record after `me` has become primary.
fn succession(
    me: Identity,
    highest: Epoch,
    force: bool,
    found: Option<(Revision, &Shard)>,
) -> Result<Shard, PromoteRefused> {
    let (_, record) = found.ok_or(PromoteRefused::NoRecord)?;
    // It may name this node already: its transaction went through unseen, and others have changed the record since.
    let is_named = record.primary == me || record.in_sync.contains(&me.node);
    if is_named || force {
        Ok(record.with_primary(me, highest))
    } else {
        Err(PromoteRefused::NotInSync)
    }
}
