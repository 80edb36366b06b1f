//! The in-sync set of a primary, as an operator names it or as the records keep it.
//!
//! A replica counts from before the transaction that adds it is sent until the one that removes it is known
//! to be through: while an outcome is unknown, both the old and the new set may be what others see.
//!
//! An answer to a reading shows that this node is heard and hears, and only of the time around the question. So one
//! that is old counts as none, and lets only those be removed that were silent when it was asked for.

use std::time::Duration;

use crate::ids::{Moment, NodeId};
use crate::records::{Claim, Next, Outcome, Request, Revision, Shard, ShardId};

/// Where the in-sync set comes from. The set never has the primary itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    /// An operator named the members, and only an operator changes them.
    Named(Vec<NodeId>),
    /// The record of this shard, last seen at this revision, has it.
    Recorded(ShardId, Revision, Shard),
}

/// The set and its changes.
#[derive(Debug)]
pub(crate) struct InSync {
    set: Set,
    claim: Option<Claim>,
    /// When the last request was made.
    asked: Moment,
    /// The members that were silent when a reading was asked for.
    silent: Vec<NodeId>,
}

/// What an outcome leads to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// The next request.
    pub(crate) request: Option<Request>,
    /// Members that may be removed: they were silent when a reading was asked for that was answered soon.
    pub(crate) removable: Vec<NodeId>,
}

impl InSync {
    pub(crate) fn new(set: Set) -> Self {
        InSync { set, claim: None, asked: Moment::ZERO, silent: Vec::new() }
    }

    /// The members as last known.
    pub(crate) fn known(&self) -> &[NodeId] {
        match &self.set {
            Set::Named(members) => members,
            Set::Recorded(_, _, shard) => &shard.in_sync,
        }
    }

    /// The members whose acknowledgement is needed; some may be named twice.
    pub(crate) fn counted(&self) -> impl Iterator<Item = NodeId> {
        let sent = self.claim.as_ref().and_then(Claim::sent).map(|shard| &shard.in_sync[..]);
        let known = self.known().iter().copied();
        let stays = move |node: &NodeId| sent.is_none_or(|sent| sent.contains(node));
        let known = known.filter(move |node| !wrong!(RemoveEarly) || stays(node));
        let added = sent.filter(|_| !wrong!(AddLate)).unwrap_or_default();
        known.chain(added.iter().copied())
    }

    /// The members and the record, if a record has them and no change of it is on its way.
    pub(crate) fn settled(&self) -> Option<&Shard> {
        match &self.set {
            Set::Recorded(_, _, shard) if self.claim.is_none() => Some(shard),
            _ => None,
        }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        matches!(self.set, Set::Recorded(..))
    }

    /// An operator names the set.
    pub(crate) fn name(&mut self, members: Vec<NodeId>) {
        self.set = Set::Named(members);
    }

    /// Begins a change of the recorded set.
    pub(crate) fn change(&mut self, now: Moment, in_sync: Vec<NodeId>) -> Option<Request> {
        let Set::Recorded(shard, revision, record) = &self.set else { return None };
        let to = Shard { in_sync, ..record.clone() };
        let (claim, request) = Claim::write(*shard, *revision, to);
        (self.claim, self.asked, self.silent) = (Some(claim), now, Vec::new());
        Some(request)
    }

    /// Begins a reading of the record, after which a change can follow that removes some of the silent.
    pub(crate) fn read(&mut self, now: Moment, silent: Vec<NodeId>) -> Option<Request> {
        let Set::Recorded(shard, ..) = &self.set else { return None };
        let (claim, request) = Claim::read(*shard);
        (self.claim, self.asked, self.silent) = (Some(claim), now, silent);
        Some(request)
    }

    /// Goes on after an outcome; the record may have changed. An answer to a reading counts for `answer_max`.
    pub(crate) fn outcome(
        &mut self,
        now: Moment,
        answer_max: Duration,
        outcome: Outcome,
    ) -> Result<Heard, Gone> {
        let Set::Recorded(_, revision, record) = &mut self.set else { return Ok(Heard::default()) };
        let Some(claim) = &mut self.claim else { return Ok(Heard::default()) };
        let is_old = now.saturating_sub(self.asked) > answer_max && !wrong!(HeedOldAnswers);
        let outcome = match outcome {
            Outcome::Records(_) if is_old => Outcome::Unknown,
            outcome => outcome,
        };
        if outcome == Outcome::Unknown && claim.sent().is_none() {
            // Who is silent may have changed: another reading is asked for by those who are silent then.
            self.claim = None;
            return Ok(Heard::default());
        }
        self.asked = now;
        // A change that met another one is given up: the next one begins with the record found here.
        let found = |found: Option<(Revision, &Shard)>| {
            Err::<Shard, _>(found.map(|(revision, shard)| (revision, shard.clone())))
        };
        let (at, shard) = match claim.outcome(outcome, found) {
            Next::Ask(request) => return Ok(Heard { request: Some(request), ..Heard::default() }),
            Next::Through(revision, shard) => (revision, shard),
            Next::Refused(Some((revision, shard))) => (revision, shard),
            Next::Refused(None) => return Err(Gone),
        };
        self.claim = None;
        (*revision, *record) = (at, shard);
        let removable = std::mem::take(&mut self.silent);
        Ok(Heard { request: None, removable })
    }

    /// Someone else has changed the record. False while a change of this node is on its way: its outcome will tell.
    pub(crate) fn learn(&mut self, at: Revision, now: &Shard) -> bool {
        let Set::Recorded(_, revision, record) = &mut self.set else { return false };
        if self.claim.is_some() || wrong!(HeedNobody) {
            return false;
        }
        (*revision, *record) = (at, now.clone());
        true
    }

    /// The revision of the record, if there is one.
    pub(crate) fn revision(&self) -> Option<Revision> {
        match &self.set {
            Set::Recorded(_, revision, _) => Some(*revision),
            Set::Named(_) => None,
        }
    }

    /// The record, if there is one.
    pub(crate) fn record(&self) -> Option<&Shard> {
        match &self.set {
            Set::Recorded(_, _, shard) => Some(shard),
            Set::Named(_) => None,
        }
    }
}

/// The shard has no record any more.
#[derive(Debug)]
pub(crate) struct Gone;
