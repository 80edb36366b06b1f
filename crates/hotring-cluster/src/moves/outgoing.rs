//! The source's side of a move.

use std::time::Duration;

use super::{Ask, Attempt, Outcome, Owner, ToSource, ToTarget, View};
use crate::ids::{Epoch, Lsn, Moment};
use crate::records::Revision;

/// How a move goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Writes wait once less than this is left to send, in bytes.
    pub little: u64,
    /// How long after the question the target's word counts that it has synced what it has. Later changes may be lost
    /// with its power, as the last writes of any server may.
    pub synced_max: Duration,
    /// The longest wait of writes before the transaction is sent.
    pub pause_max: Duration,
    /// The time between two attempts.
    pub retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            little: 64 << 10,
            synced_max: Duration::from_secs(1),
            pause_max: Duration::from_millis(100),
            retry: Duration::from_secs(1),
        }
    }
}

/// How far an attempt is, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// It has not begun, or has ended.
    Waiting,
    /// The target has not agreed yet.
    Opening,
    /// Keys and changes are sent.
    Copying,
    /// The target syncs what it has.
    Syncing,
    /// Writes wait, and the target gets the last changes.
    Holding,
    /// The transaction is sent.
    Committing,
}

impl Phase {
    /// All of them, in their order.
    pub const ALL: [Phase; 6] = [
        Phase::Waiting,
        Phase::Opening,
        Phase::Copying,
        Phase::Syncing,
        Phase::Holding,
        Phase::Committing,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Opening => "opening",
            Phase::Copying => "copying",
            Phase::Syncing => "syncing",
            Phase::Holding => "holding",
            Phase::Committing => "committing",
        }
    }
}

/// Why a move ended without effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// Its record is gone.
    Cancelled,
    /// This node is not the source's primary any more, or the slots are not the source's.
    NotOwner,
}

/// What the source must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send this to the target.
    Send(ToTarget),
    /// Begin to send the keys of the slots, and their changes.
    Copy(Attempt),
    /// Send nothing more of this attempt.
    EndCopy(Attempt),
    /// Let writes to the slots wait, and say which change was the last.
    HoldWrites,
    /// Let reads of the slots wait, too.
    HoldReads,
    /// Let both go on.
    Resume,
    /// Ask the coordinator.
    Ask(Ask),
    /// The slots are the target's: send clients there, those that wait as well, and forget the keys.
    Redirect,
    /// The move has ended, and the slots stay.
    GiveUp(GivenUp),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between two attempts.
    Waiting(Moment),
    /// The records are being read: an earlier attempt may be through.
    Starting,
    Opening,
    /// The target may be asked to sync from this moment on.
    Copying(Moment),
    /// It was asked at this moment.
    Syncing(Moment),
    /// It has synced all that it had then. Writes may be held until this moment.
    Synced(Moment),
    /// Writes wait since this moment.
    Holding(Moment),
    /// This was the last change.
    Draining(Moment, Lsn),
    /// The target has everything; the records are being read.
    Checking(Moment),
    /// The transaction is sent.
    Committing(Moment, View),
    /// Its outcome was not known, or a conflict: the records are being read.
    Verifying(Moment, View),
    Over,
}

/// A move, at the primary that gives the slots.
#[derive(Debug)]
pub struct Outgoing {
    pace: Pace,
    attempt: Attempt,
    /// The epoch of the target in which the attempt began.
    target: Epoch,
    /// The revision of the move's record when the attempt began. Once that record is gone the target may give the
    /// import up, whatever record comes after it.
    record: Option<Revision>,
    stage: Stage,
    /// The connection ended after the transaction was sent.
    is_cut: bool,
    asked: u64,
    acts: Vec<Act>,
}

impl Outgoing {
    /// A move that begins after `before`: the primary's epoch, which its claim of the record gave it, and the last of
    /// all attempts that it made in this epoch, 0 if none. The shard must show the keys of the slots already, since
    /// the table names it a little earlier.
    pub fn new(before: Attempt, pace: Pace) -> Self {
        let attempt = before;
        let (stage, acts) = (Stage::Starting, Vec::new());
        let (target, record, is_cut, asked) = (Epoch(0), None, false, 0);
        let mut outgoing = Outgoing { pace, attempt, target, record, stage, is_cut, asked, acts };
        outgoing.start();
        outgoing
    }

    /// The present attempt.
    pub fn attempt(&self) -> Attempt {
        self.attempt
    }

    /// Whether the move has ended.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether an attempt has ended and the next one is not due. No transaction is on its way.
    pub fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting(_))
    }

    /// How far the attempt is.
    pub fn phase(&self) -> Phase {
        match self.stage {
            Stage::Waiting(_) | Stage::Starting | Stage::Over => Phase::Waiting,
            Stage::Opening => Phase::Opening,
            Stage::Copying(_) => Phase::Copying,
            Stage::Syncing(_) | Stage::Synced(_) => Phase::Syncing,
            Stage::Holding(_) | Stage::Draining(..) | Stage::Checking(_) => Phase::Holding,
            Stage::Committing(..) | Stage::Verifying(..) => Phase::Committing,
        }
    }

    /// Whether nothing goes on before the target answers, while clients do.
    pub fn awaits_target(&self) -> bool {
        matches!(self.stage, Stage::Opening | Stage::Syncing(_))
    }

    /// What the node must do, in this order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// The time has come to this.
    pub fn tick(&mut self, now: Moment) {
        match self.stage {
            Stage::Waiting(until) if now >= until => self.start(),
            Stage::Holding(since) | Stage::Draining(since, _) | Stage::Checking(since)
                if now >= since + self.pace.pause_max =>
            {
                self.step_back(now);
            }
            _ => {}
        }
    }

    /// The attempt has this many bytes still to send.
    pub fn left(&mut self, now: Moment, bytes: u64) {
        if matches!(self.stage, Stage::Synced(until) if now >= until) {
            self.stage = Stage::Copying(now);
        }
        if bytes > self.pace.little {
            return;
        }
        match self.stage {
            Stage::Copying(from) if now < from => {}
            // A sync may take longer than writes may wait, so none waits for it.
            Stage::Copying(_) if !wrong!(HoldUnsynced) => {
                self.send(ToTarget::Sync(self.attempt));
                self.stage = Stage::Syncing(now);
            }
            Stage::Copying(_) | Stage::Synced(_) => {
                self.acts.push(Act::HoldWrites);
                self.stage = Stage::Holding(now);
            }
            _ => {}
        }
    }

    /// Writes wait, and this change was the last.
    pub fn held(&mut self, last: Lsn) {
        if let Stage::Holding(since) = self.stage {
            self.send(ToTarget::Mark(self.attempt, last));
            self.stage = Stage::Draining(since, last);
        }
    }

    /// A message of the target.
    pub fn receive(&mut self, now: Moment, message: ToSource) {
        match (message, self.stage) {
            (ToSource::Opened(attempt, target), Stage::Opening) if attempt == self.attempt => {
                self.target = target;
                self.acts.push(Act::Copy(attempt));
                self.stage = Stage::Copying(now);
            }
            (ToSource::NotReady(attempt), Stage::Opening) if attempt == self.attempt => {
                self.stage = Stage::Waiting(now + self.pace.retry);
            }
            (ToSource::Synced(attempt), Stage::Syncing(asked)) if attempt == self.attempt => {
                self.stage = Stage::Synced(asked + self.pace.synced_max);
            }
            // It has given the import up.
            (ToSource::NotReady(attempt), _) if attempt == self.attempt => self.link_lost(now),
            (ToSource::Has(attempt, upto), Stage::Draining(since, last))
                if attempt == self.attempt && (upto >= last || wrong!(AnyMark)) =>
            {
                self.ask_read();
                self.stage = Stage::Checking(since);
            }
            _ => {}
        }
    }

    /// The connection to the target ended, or a watch saw the move's record go.
    pub fn link_lost(&mut self, now: Moment) {
        match self.stage {
            Stage::Opening | Stage::Copying(_) | Stage::Syncing(_) | Stage::Synced(_) => {
                self.end_attempt(now, false);
            }
            Stage::Holding(_) | Stage::Draining(..) | Stage::Checking(_) => {
                self.end_attempt(now, true);
            }
            // What is sent cannot be taken back, and what is read will tell.
            Stage::Committing(..) | Stage::Verifying(..) => self.is_cut = true,
            Stage::Waiting(_) | Stage::Starting | Stage::Over => {}
        }
    }

    /// All keys were removed, or must be: what the target has is not what it must have.
    pub fn flushed(&mut self, now: Moment) {
        self.link_lost(now);
    }

    /// What became of the request with this number.
    pub fn outcome(&mut self, now: Moment, number: u64, outcome: Outcome) {
        if number != self.asked {
            return;
        }
        match (self.stage, outcome) {
            (Stage::Starting, Outcome::Read(view)) => self.read_first(view),
            (Stage::Checking(since), Outcome::Read(view)) => self.decide(now, since, view),
            (Stage::Verifying(since, sent), Outcome::Read(view)) => {
                if view == sent {
                    // It may still be on its way.
                    self.commit(since, view);
                } else {
                    self.decide(now, since, view);
                }
            }
            (Stage::Starting | Stage::Checking(_) | Stage::Verifying(..), _) => self.ask_read(),
            (Stage::Committing(..), Outcome::Committed) => self.moved(),
            (Stage::Committing(..), Outcome::Unknown) if wrong!(StepBackUnknown) => {
                self.end_attempt(now, true);
            }
            (Stage::Committing(since, sent), _) => {
                self.ask_read();
                self.stage = Stage::Verifying(since, sent);
            }
            _ => {}
        }
    }

    fn start(&mut self) {
        self.attempt.number += 1;
        if wrong!(OpenUnread) {
            return self.open();
        }
        self.ask_read();
        self.stage = Stage::Starting;
    }

    fn read_first(&mut self, view: View) {
        match view.owner {
            Owner::Target => self.moved(),
            Owner::Source if self.is_mine(&view) && view.record.is_some() => {
                self.record = view.record;
                self.open();
            }
            Owner::Source if self.is_mine(&view) => self.give_up(GivenUp::Cancelled),
            Owner::Source | Owner::Other => self.give_up(GivenUp::NotOwner),
        }
    }

    fn open(&mut self) {
        self.is_cut = false;
        self.send(ToTarget::Open(self.attempt));
        self.stage = Stage::Opening;
    }

    /// Goes on with what was read while writes wait. No transaction of this attempt can still take effect: none was
    /// sent, or one that expected other revisions.
    fn decide(&mut self, now: Moment, since: Moment, view: View) {
        let is_same_target = view.target.1 == self.target || wrong!(AnyTarget);
        if view.owner == Owner::Target {
            self.moved();
        } else if view.owner == Owner::Other || !self.is_mine(&view) {
            self.acts.extend([Act::Resume, Act::EndCopy(self.attempt)]);
            self.give_up(GivenUp::NotOwner);
        } else if view.record.is_none() {
            self.send(ToTarget::Abort(self.attempt));
            self.acts.extend([Act::Resume, Act::EndCopy(self.attempt)]);
            self.give_up(GivenUp::Cancelled);
        } else if !is_same_target || (view.record != self.record && !wrong!(AnyRecord)) {
            self.send(ToTarget::Abort(self.attempt));
            self.end_attempt(now, true);
        } else if now >= since + self.pace.pause_max {
            self.step_back(now);
        } else {
            if !wrong!(ReadsGoOn) {
                self.acts.push(Act::HoldReads);
            }
            self.commit(since, view);
        }
    }

    fn is_mine(&self, view: &View) -> bool {
        view.source.1 == self.attempt.epoch
    }

    fn commit(&mut self, since: Moment, view: View) {
        self.asked += 1;
        self.acts.push(Act::Ask(Ask::Commit(self.asked, view)));
        self.stage = Stage::Committing(since, view);
    }

    fn moved(&mut self) {
        self.send(ToTarget::Committed(self.attempt));
        self.acts.extend([Act::EndCopy(self.attempt), Act::Redirect]);
        self.stage = Stage::Over;
    }

    fn give_up(&mut self, why: GivenUp) {
        self.acts.push(Act::GiveUp(why));
        self.stage = Stage::Over;
    }

    /// Lets clients go on; the attempt goes on later, if its connection still does.
    fn step_back(&mut self, now: Moment) {
        if self.is_cut {
            return self.end_attempt(now, true);
        }
        self.acts.push(Act::Resume);
        self.stage = Stage::Copying(now + self.pace.retry);
    }

    /// Ends the attempt. Another one follows.
    fn end_attempt(&mut self, now: Moment, holds: bool) {
        self.acts.push(Act::EndCopy(self.attempt));
        if holds {
            self.acts.push(Act::Resume);
        }
        self.stage = Stage::Waiting(now + self.pace.retry);
    }

    fn ask_read(&mut self) {
        self.asked += 1;
        self.acts.push(Act::Ask(Ask::Read(self.asked)));
    }

    fn send(&mut self, message: ToTarget) {
        self.acts.push(Act::Send(message));
    }
}
