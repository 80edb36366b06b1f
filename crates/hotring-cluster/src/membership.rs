//! The primary's record: it names this start, and the in-sync set in it follows what the replicas do.

use crate::feed::Follower;
use crate::ids::{Moment, NodeId};
use crate::in_sync::{InSync, Set};
use crate::primary::{Act, GivenUp, Primary, StartRefused, State};
use crate::records::{Next, Outcome, Revision, Shard};

impl Primary {
    /// Asks the records to remove members that lag and to add replicas that have caught up. `removable`: those that
    /// were silent when a reading was asked for that has just been answered. A primary that is heard and hears nothing
    /// would otherwise take out the very replicas that could replace it.
    pub(crate) fn adapt_set(&mut self, now: Moment, removable: &[NodeId]) {
        let joining = self.joining(now);
        let joined = self.feed.followers().iter().filter(|follower| follower.joins);
        let joined: Vec<NodeId> = joined.map(|follower| follower.id.node).collect();
        self.feed.join(&joining);
        let stopped = joined.into_iter().filter(|node| !joining.contains(node));
        stopped.for_each(|node| self.give_replica_up(node, GivenUp::Behind));
        if let Some(record) = self.in_sync.record() {
            let stays =
                |node: &NodeId| record.replicas.contains(node) && !record.in_sync.contains(node);
            self.given_up.retain(stays);
        }
        self.advance();
        let Some(record) = self.in_sync.settled() else { return };
        let barrier = self.barrier();
        let is_ready = |node: NodeId| self.is_within(now, node, self.rules.in_sync_lag);
        let has_time = |node: &NodeId| now < self.grace && self.deposed != Some(*node);
        let is_fit = |node: &NodeId| !self.unfit.contains(node);
        // It gets no beats meanwhile, and could not become primary from outside of the set.
        let heir = self.handed.as_ref().filter(|handed| handed.is_open).map(|handed| handed.to);
        let stays = |node: &NodeId| {
            is_fit(node) && (has_time(node) || heir == Some(*node) || is_ready(*node))
        };
        let silent = record.in_sync.iter().copied().filter(|node| !stays(node));
        let silent: Vec<NodeId> = silent.collect();
        let may_go = |node: &NodeId| removable.contains(node) || wrong!(RemoveUnheard);
        if !silent.is_empty() && !silent.iter().any(may_go) {
            let request = self.in_sync.read(now, silent);
            return self.acts.extend(request.map(Act::Ask));
        }
        let goes = |node: &NodeId| silent.contains(node) && may_go(node);
        let mut wanted = record.in_sync.clone();
        wanted.retain(|node| !goes(node));
        for follower in self.feed.followers() {
            let has_all = follower.positions.applied >= barrier;
            // One that has not heard that it has caught up would refuse the role if this primary died now.
            let can_lead = follower.knows() || wrong!(NameUnaware);
            if joining.contains(&follower.id.node) && has_all && can_lead {
                wanted.push(follower.id.node);
            }
        }
        if wanted != record.in_sync {
            let request = self.in_sync.change(now, wanted);
            self.acts.extend(request.map(Act::Ask));
            self.advance();
        }
    }

    /// The replicas that are about to be members. From here on nothing more is acknowledged without them: beside
    /// writers that never pause, a replica would not have everything for the time of a beat and its answer.
    fn joining(&self, now: Moment) -> Vec<NodeId> {
        let Some(record) = self.in_sync.record() else { return Vec::new() };
        let most = self.rules.in_sync_lag;
        let may = |follower: &&Follower| {
            let node = follower.id.node;
            let is_outside = record.replicas.contains(&node) && !record.in_sync.contains(&node);
            // Writes wait for what it lacks at that moment, and for one that stands still half as long as for a member:
            // nothing is promised yet that would have to end before.
            let near = if follower.joins { most / 2 } else { most / 4 };
            let is_near = self.feed.lag(now, follower).time <= near;
            is_outside && is_near && self.is_within(now, node, most)
        };
        self.feed.followers().iter().filter(may).map(|follower| follower.id.node).collect()
    }

    /// A replica does not come to be in sync for now. It is told once, until it is in sync.
    pub(crate) fn give_replica_up(&mut self, node: NodeId, why: GivenUp) {
        let record = self.in_sync.record();
        let is_listed = record.is_some_and(|record| record.replicas.contains(&node));
        let is_counted = self.in_sync.counted().any(|member| member == node);
        if is_listed && !is_counted && self.given_up.insert(node) {
            self.acts.push(Act::GaveUp(node, why));
        }
    }

    /// The replicas that were given up before they were in sync, and are not since.
    pub fn given_up(&self) -> impl Iterator<Item = NodeId> {
        self.given_up.iter().copied()
    }

    /// A node's lease has ended. If it is not attached either, it is removed from the set without further time.
    pub fn miss(&mut self, node: NodeId) {
        if self.feed.follower(node).is_none() && self.in_sync.known().contains(&node) {
            self.unfit.insert(node);
        }
    }

    /// Whether this node waits for the record to name its start.
    pub fn is_claiming(&self) -> bool {
        matches!(self.state, State::Claiming(_))
    }

    /// Whether this node is the primary, as far as it knows.
    pub fn is_serving(&self) -> bool {
        matches!(self.state, State::Serving)
    }

    pub(crate) fn go_on_claiming(&mut self, now: Moment, outcome: Outcome) {
        let State::Claiming(claim) = &mut self.state else { return };
        let (me, own) = (self.me, self.history.last_start().copied());
        let is_clean = self.is_clean;
        let step = claim.outcome(outcome, |found| {
            let record = found.map(|(_, record)| record);
            let record = record.filter(|record| record.primary.node == me.node);
            let record = record.ok_or(StartRefused::NotNamed)?;
            // The log has the record by which this node began its reign, so it has all before.
            let has_begun = own.is_some_and(|own| own.epoch >= record.promoted);
            if (is_clean && has_begun) || wrong!(TrustEmpty) {
                return Ok(Shard { epoch: record.epoch.next(), primary: me, ..record.clone() });
            }
            Err(StartRefused::MayHaveLost)
        });
        let shard_id = claim.shard();
        match step {
            Next::Ask(request) => self.acts.push(Act::Ask(request)),
            Next::Through(revision, record) => {
                let epoch = record.epoch;
                self.in_sync = InSync::new(Set::Recorded(shard_id, revision, record));
                self.begin(now, epoch);
            }
            Next::Refused(why) => {
                self.state = State::Over;
                self.acts.push(Act::MustNotStart(why));
            }
        }
    }

    /// A watch showed this record. A primary that needs no other node learns only so that it was replaced by force, or
    /// that replicas were added and removed: by an operator, or by the controller. It must be told until it has taken
    /// that over.
    pub fn saw(&mut self, revision: Revision, shard: &Shard) {
        let is_later = self.in_sync.revision().is_some_and(|known| revision > known);
        if !matches!(self.state, State::Serving) || !is_later {
            return;
        }
        if shard.primary != self.me {
            return self.supersede(shard.epoch, Some(shard.primary.node));
        }
        if self.in_sync.learn(revision, shard) {
            self.settle_handover();
            self.advance();
        }
    }

    pub(crate) fn go_on_changing(&mut self, now: Moment, outcome: Outcome) {
        self.note_time(now);
        let Ok(heard) = self.in_sync.outcome(now, self.rules.answer_max(), outcome) else {
            return self.supersede(self.epoch(), None);
        };
        self.acts.extend(heard.request.map(Act::Ask));
        let Some(record) = self.in_sync.record() else { return };
        if record.primary != self.me {
            let (epoch, by) = (record.epoch, record.primary.node);
            return self.supersede(epoch, Some(by));
        }
        self.settle_handover();
        self.advance();
        if !heard.removable.is_empty() {
            let all = self.in_sync.known().to_vec();
            let removable = if wrong!(HeedOldAnswers) { all } else { heard.removable };
            self.adapt_set(now, &removable);
        }
    }
}
