//! FAILOVER: the primary gives its role to a replica that has everything.
//!
//! ```text
//!  asked --writes paused--> catching up --the target has all--> handed --Fenced--> superseded
//!                               |                                  |
//!                     time over, abort                 time over, abort, declined
//!                               v                                  v
//!                            serving  <--a later beat answered--  silent
//! ```
//!
//! Once the handover is sent, its fate is open, so a primary that gives up stays silent until it knows: the
//! target ignores the handover as soon as it has answered a later beat, and answers none after it has taken
//! up the handover.
//!
//! A primary that restarts forgets what it has handed over. That harms nothing if the target is a member of its
//! in-sync set, whose promise it needs; without a set nothing is promised, and such a restart within `lease` of
//! the handover may leave two primaries.

use std::time::Duration;

use crate::ids::{Lsn, Moment, NodeId};
use crate::message::{Handover, ToReplica};
use crate::primary::{Act, Primary};

/// How a failover ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverEnd {
    /// This node is primary now.
    HandedOver(NodeId),
    /// Another node became primary meanwhile.
    Superseded,
    /// The time was over.
    TimedOut,
    /// The replica could not take over.
    Declined,
    /// An operator ended it.
    Aborted,
}

/// The reason why a failover does not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverRefused {
    /// One is under way, or this node is not serving.
    NotNow,
    /// No such replica is attached.
    NoReplica,
    /// The replica is not in the in-sync set.
    NotInSync,
    /// Force needs a target and a time after which it applies.
    NeedsTargetAndTime,
}

#[derive(Debug)]
pub(crate) struct Failover {
    target: Option<NodeId>,
    deadline: Option<Moment>,
    force: bool,
    /// The last record before writes were paused, as soon as they are.
    last: Option<Lsn>,
}

/// A handover whose fate is open.
#[derive(Debug)]
pub(crate) struct Handed {
    pub(crate) to: NodeId,
    pub(crate) after_beat: u64,
    /// Whether the primary still hopes for it, and sends the target no beats.
    pub(crate) is_open: bool,
    was_member: bool,
}

impl Primary {
    /// An operator wants a replica to take over: `target`, or the first one that has everything. With `force`
    /// the target takes over at the end of `timeout` even if it lacks records.
    pub fn fail_over(
        &mut self,
        now: Moment,
        target: Option<NodeId>,
        timeout: Option<Duration>,
        force: bool,
    ) -> Result<(), FailoverRefused> {
        if self.failover.is_some() || self.handed.is_some() || self.answers_until().is_none() {
            return Err(FailoverRefused::NotNow);
        }
        if force && (target.is_none() || timeout.is_none()) {
            return Err(FailoverRefused::NeedsTargetAndTime);
        }
        let mut nodes = self.feed.followers().iter().map(|follower| follower.id.node);
        if !nodes.any(|node| target.is_none_or(|target| target == node)) {
            return Err(FailoverRefused::NoReplica);
        }
        if !force && target.is_some_and(|target| !self.may_succeed(target)) {
            return Err(FailoverRefused::NotInSync);
        }
        let deadline = timeout.map(|timeout| now + timeout);
        self.failover = Some(Failover { target, deadline, force, last: None });
        self.acts.push(Act::PauseWrites);
        Ok(())
    }

    /// All writes are held back, and this is the last record.
    pub fn paused(&mut self, now: Moment, last: Lsn) {
        if let Some(failover) = &mut self.failover {
            failover.last = Some(last);
        }
        self.go_on_with_failover(now);
    }

    /// An operator ends the failover.
    pub fn abort_failover(&mut self) -> bool {
        let is_there = self.failover.is_some();
        if is_there {
            self.give_up(FailoverEnd::Aborted);
        }
        is_there
    }

    /// Without an in-sync set any replica may.
    fn may_succeed(&self, node: NodeId) -> bool {
        let set = self.in_sync.known();
        set.contains(&node) || (set.is_empty() && !self.in_sync.is_recorded())
    }

    pub(crate) fn go_on_with_failover(&mut self, now: Moment) {
        let Some(failover) = &self.failover else { return };
        let is_over = failover.deadline.is_some_and(|deadline| now >= deadline);
        if self.handed.is_some() {
            if is_over {
                self.give_up(FailoverEnd::TimedOut);
            }
            return;
        }
        let (target, force) = (failover.target, failover.force);
        let has_all = |last: Lsn| {
            let may = self.feed.followers().iter().filter(|follower| {
                let node = follower.id.node;
                let is_target = target.is_none_or(|target| target == node);
                let has_all = follower.whole && follower.positions.applied >= last;
                is_target && has_all && (self.may_succeed(node) || force)
            });
            // With a full disk it would refuse writes.
            may.min_by_key(|follower| follower.is_full).map(|follower| follower.id.node)
        };
        if let Some(node) = failover.last.and_then(has_all) {
            self.hand_over(now, node, false);
        } else if is_over {
            match target.filter(|_| force && failover.last.is_some()) {
                Some(target) => self.hand_over(now, target, true),
                None => self.give_up(FailoverEnd::TimedOut),
            }
        }
    }

    fn hand_over(&mut self, now: Moment, to: NodeId, force: bool) {
        let Some(stamp) = self.feed.follower(to).map(|follower| follower.stamp) else {
            return self.give_up(FailoverEnd::Declined);
        };
        let after_beat = self.feed.last_beat();
        let others = self.in_sync.known().iter().copied().filter(|node| *node != to);
        let mut set: Vec<NodeId> = others.collect();
        if !self.in_sync.known().is_empty() {
            set.push(self.me.node);
        }
        let was_member = self.in_sync.known().contains(&to);
        self.handed = Some(Handed { to, after_beat, is_open: true, was_member });
        self.answered.remove(&to);
        if let Some(failover) = &mut self.failover {
            failover.deadline = Some(now + self.rules.lease);
        }
        let handover = Handover { stamp, after_beat, last: self.last, set, force };
        self.acts.push(Act::Send(to, ToReplica::Handover(handover)));
    }

    /// The target says that it will not take over.
    pub(crate) fn declined(&mut self, from: NodeId, after_beat: u64) {
        let is_it = |handed: &Handed| handed.to == from && handed.after_beat == after_beat;
        if self.handed.as_ref().is_some_and(is_it) {
            self.give_up(FailoverEnd::Declined);
            self.regain();
        }
    }

    fn give_up(&mut self, end: FailoverEnd) {
        if self.failover.take().is_some() {
            self.acts.push(Act::FailoverEnded(end));
        }
        match &mut self.handed {
            Some(handed) => handed.is_open = false,
            None => self.acts.push(Act::ResumeWrites),
        }
    }

    /// The handover is surely not taken up.
    pub(crate) fn regain(&mut self) {
        self.handed = None;
        self.acts.push(Act::ResumeWrites);
    }

    /// A target that the record no longer names can't be promoted.
    pub(crate) fn settle_handover(&mut self) {
        let Some(handed) = self.handed.as_ref().filter(|handed| handed.was_member) else { return };
        let to = handed.to;
        if self.in_sync.counted().all(|node| node != to) {
            self.give_up(FailoverEnd::TimedOut);
            self.regain();
        }
    }

    /// An operator has made sure that the node to which the role was handed over is not primary and will not
    /// be: it was stopped, or its promotion was undone.
    pub fn take_back(&mut self) {
        if self.handed.is_some() {
            self.give_up(FailoverEnd::Aborted);
            self.regain();
        }
    }
}
