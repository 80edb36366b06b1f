//! The replica: what it accepts from whom, when it may be read, and when it may become primary.
//!
//! 1. It follows no primary of a lower epoch, and none of another store, unless an operator has just told it
//!    to. So a primary that came back empty never empties it.
//! 2. It becomes primary only with all data, and only if it was in sync, unless it is forced.
//! 3. From the moment at which it asks for the role it accepts and acknowledges nothing more from the old
//!    primary, which therefore can acknowledge nothing more.
//! 4. It does not serve as primary before its last promise has ended, except by a handover.
//! 5. A batch is applied as a whole, once all of its records are there.
//!
//! The owner passes messages and the time, and carries out what [`Replica::acts`] returns after each call.

use crate::history::{History, OutOfOrder, Start};
use crate::ids::{Epoch, Identity, Incarnation, Lsn, Moment, NodeId, StoreId};
use crate::in_sync::Set;
use crate::message::{
    Ack, Answer, Beat, Course, Handover, Hello, Positions, Stamp, ToPrimary, ToReplica, Told,
};
use crate::records::{Request, ShardId};
use crate::relay::Relay;
use crate::rules::Rules;
use crate::succession::Promotion;

/// What the owner must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send a message to this primary.
    Send(NodeId, ToPrimary),
    /// Ask the records, and pass the outcome to [`Replica::outcome`].
    Ask(Request),
    /// Begin a machine for a primary with this. Records that are not applied are dropped. This machine has ended.
    TakeOver(Box<TakeOver>),
    /// The promotion is given up; the replica may connect again.
    GivenUp(PromoteRefused),
    /// Say hello again on a new connection: the primary does not know this one.
    Reconnect,
}

/// What a replica hands to the machine of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeOver {
    /// The store.
    pub store: StoreId,
    /// The epochs so far.
    pub history: History,
    /// The epoch that begins.
    pub epoch: Epoch,
    /// The last record that is applied.
    pub last: Lsn,
    /// The last record that is known to have been acknowledged.
    pub committed: Lsn,
    /// What the new primary must not fall behind.
    pub told: Told,
    /// The in-sync set.
    pub set: Set,
    /// The old primary, if it did not hand over: it must not be waited for.
    pub deposed: Option<NodeId>,
    /// Whether no node was known to have everything, and this one had the most.
    pub inherited: bool,
}

/// The reason why a replica does not accept an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerRefused {
    /// It answers no hello of this connection.
    Late,
    /// The primary's epoch is lower than one that this replica knows.
    LowerEpoch(Epoch),
    /// The primary has other data, and no operator said to give up this replica's.
    Foreign,
    /// The answer does not fit what the replica has told.
    Garbled,
    /// It follows this replica, itself or through others.
    Circle,
}

/// The reason why a replica does not become primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromoteRefused {
    /// It has received only a part of the data. Force does not help.
    HalfReceived,
    /// It is not known to have all that was acknowledged.
    NotInSync,
    /// There is no record of the shard.
    NoRecord,
    /// A promotion is under way.
    Underway,
}

/// What a replica has at the start of its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The store.
    pub store: StoreId,
    /// The epochs of its stream.
    pub history: History,
    /// The last record that is applied.
    pub last: Lsn,
    /// False if a full copy was not finished; then there must be no epochs and no records.
    pub whole: bool,
    /// Whether a divergent tail was cut off, and the keys in it do not have their values yet.
    pub repairing: bool,
    /// Whether an operator has just told it to follow, whatever data it has.
    pub adopt: bool,
    /// Whether the data came by another replica, so that no reply waited for this node to have it.
    pub indirect: bool,
    /// Whether it has all that was acknowledged while it was primary: see [`Primary::held`]. After a restart:
    /// true if records have the in-sync set, the last epoch is this node's own, and nothing was lost.
    ///
    /// [`Primary::held`]: crate::primary::Primary::held
    pub caught_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Following,
    Repairing,
    Copying,
}

#[derive(Debug)]
struct Link {
    primary: NodeId,
    stamp: Stamp,
    phase: Phase,
    /// The last beat that was answered.
    beat: u64,
    /// The handover after this beat was declined.
    declined: Option<u64>,
    /// The primary's epochs, which hold once a repair or copy is done.
    history: History,
    store: StoreId,
    /// The last record that arrived, and the last of them that ended a batch.
    received: Lsn,
    batch_end: Lsn,
}

/// The state machine of a replica.
#[derive(Debug)]
pub struct Replica {
    pub(crate) me: Identity,
    pub(crate) rules: Rules,
    pub(crate) shard: Option<ShardId>,
    pub(crate) copy: Held,
    positions: Positions,
    is_full: bool,
    link: Option<Link>,
    attempts: u64,
    not_ready: Option<Incarnation>,
    /// The epoch of the primary that was followed last.
    seen: Epoch,
    /// The highest epoch ever seen, even if an operator had it given up: no epoch is begun twice.
    pub(crate) highest: Epoch,
    bound_until: Moment,
    heard: Option<Moment>,
    /// What the last beat said: it is in the set and has caught up.
    is_in_sync: bool,
    /// Whether it has been caught up since the start of the node.
    pub(crate) was_caught_up: bool,
    pub(crate) committed: Lsn,
    pub(crate) told: Told,
    pub(crate) promotion: Option<Promotion>,
    /// The replicas of this replica. Their connections end before its data changes other than by the stream.
    pub(crate) relay: Relay,
    pub(crate) acts: Vec<Act>,
}

impl Replica {
    /// A node begins to follow. `shard` says whose record has the in-sync set; without, operators name it.
    pub fn new(
        now: Moment,
        me: Identity,
        rules: Rules,
        shard: Option<ShardId>,
        copy: Held,
    ) -> Self {
        // Before a restart it may have promised something.
        let bound_until = if rules.promises { now + rules.lease } else { now };
        let (last, caught_up) = (copy.last, copy.caught_up);
        Replica {
            me,
            rules,
            shard,
            seen: copy.history.epoch(),
            highest: copy.history.epoch(),
            copy,
            positions: Positions { applied: last, ..Positions::default() },
            is_full: false,
            link: None,
            attempts: 0,
            not_ready: None,
            bound_until,
            heard: None,
            is_in_sync: caught_up,
            was_caught_up: caught_up,
            committed: 0,
            told: Told::default(),
            promotion: None,
            relay: Relay::new(now),
            acts: Vec::new(),
        }
    }

    /// Takes what the owner must do, in order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// What this replica has now.
    pub fn held(&self) -> &Held {
        &self.copy
    }

    /// The last record that is applied.
    pub fn last(&self) -> Lsn {
        self.copy.last
    }

    /// The epochs of the stream.
    pub fn history(&self) -> &History {
        &self.copy.history
    }

    /// Whether all data is there.
    pub fn is_whole(&self) -> bool {
        self.copy.whole && (!self.copy.repairing || wrong!(ForgetRepair))
    }

    /// Whether the primary counts this replica as in sync, as far as is known.
    pub fn is_in_sync(&self) -> bool {
        self.is_in_sync
    }

    /// Whether the replica may answer reads: it has all data and has heard its primary lately.
    pub fn may_answer(&self, now: Moment) -> bool {
        let heard = self.heard.is_some_and(|heard| now <= heard + self.rules.stale_max);
        self.is_whole() && heard && self.promotion.is_none()
    }

    /// The first message of a new connection. `floor` is the lowest record to which the stream could be cut.
    /// None while a promotion is under way.
    pub fn hello(&mut self, floor: Lsn) -> Option<Hello> {
        if self.promotion.is_some() {
            return None;
        }
        self.link = None;
        self.attempts += 1;
        Some(Hello {
            from: self.me,
            attempt: self.attempts,
            not_ready: self.not_ready,
            store: self.copy.store,
            history: self.copy.history.clone(),
            last: self.copy.last,
            floor,
            whole: self.copy.whole,
            adopt: self.copy.adopt,
        })
    }

    /// An operator has the replica follow another primary, whatever data that has. What the old primary told
    /// holds until the new one has answered. False while a promotion is under way.
    pub fn adopt(&mut self) -> bool {
        if self.promotion.is_none() {
            self.link = None;
            self.copy.adopt = true;
            // An answer on its way is one of the old primary.
            self.attempts += 1;
        }
        self.promotion.is_none()
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.link.is_some()
    }

    /// Whether this is the connection to its primary.
    pub fn is_linked_by(&self, stamp: Stamp) -> bool {
        self.link.as_ref().is_some_and(|link| link.stamp == stamp)
    }

    /// The connection has ended.
    pub fn disconnected(&mut self) {
        self.link = None;
    }

    /// The primary's answer. It takes nothing away: on `Course::FullCopy` the owner must [drop](Self::drop_data) the
    /// data once the copy begins, on `Course::Repair` note the keys behind the point in common, and then
    /// [cut](Self::cut) the stream there.
    pub fn answer(&mut self, now: Moment, answer: Answer) -> Result<Course, AnswerRefused> {
        let is_asked = answer.to == self.me.incarnation && answer.attempt == self.attempts;
        if !is_asked || self.link.is_some() || self.promotion.is_some() {
            return Err(AnswerRefused::Late);
        }
        if answer.stamp.epoch != answer.history.epoch() {
            return Err(AnswerRefused::Garbled);
        }
        if answer.stamp.start == self.me.incarnation || answer.above.contains(&self.me.incarnation)
        {
            return Err(AnswerRefused::Circle);
        }
        self.judge(&answer)?;
        let phase = match answer.course {
            Course::Continue(after)
                if after == self.copy.last && self.copy.repairing && !wrong!(ForgetRepair) =>
            {
                Phase::Repairing
            }
            Course::Continue(after) if after == self.copy.last => Phase::Following,
            Course::Repair(after) if after < self.copy.last && self.copy.whole => Phase::Repairing,
            Course::FullCopy => Phase::Copying,
            Course::Continue(_) | Course::Repair(_) => return Err(AnswerRefused::Garbled),
        };
        if phase == Phase::Following {
            self.copy.adopt = false;
        }
        wrong!(DropEarly => if phase == Phase::Copying { self.forget_data() });
        // What the last beat said stays true while nothing is taken away: a primary that counts this replica can
        // acknowledge nothing without it, and the operator who named one that does not knows that.
        self.is_in_sync &= phase == Phase::Following;
        self.seen = answer.stamp.epoch;
        self.highest = self.highest.max(self.seen);
        self.heard = Some(now);
        self.relay.follow(&answer);
        // What a copy or a repair brings counts once it is there.
        self.copy.indirect |= phase == Phase::Following && !answer.leads;
        // The same answer, come twice, must not begin a copy again after this connection.
        self.attempts += 1;
        self.link = Some(Link {
            primary: answer.from,
            stamp: answer.stamp,
            phase,
            beat: 0,
            declined: None,
            history: answer.history,
            store: answer.store,
            received: self.copy.last,
            batch_end: self.copy.last,
        });
        self.acknowledge();
        Ok(answer.course)
    }

    /// Whether this replica may follow the primary that answers.
    fn judge(&mut self, answer: &Answer) -> Result<(), AnswerRefused> {
        if self.copy.adopt || wrong!(TrustEmpty) {
            return Ok(());
        }
        let epoch = answer.stamp.epoch;
        if epoch < self.seen {
            let fenced = ToPrimary::Fenced { epoch: self.seen, leads: false };
            self.acts.push(Act::Send(answer.from, fenced));
            return Err(AnswerRefused::LowerEpoch(self.seen));
        }
        let own = self.copy.history.last_start();
        let is_rival = own.is_some_and(|own| {
            own.epoch == epoch && answer.history.last_start().is_some_and(|start| start != own)
        });
        let is_foreign = own.is_some() && answer.store != self.copy.store;
        if is_rival || is_foreign { Err(AnswerRefused::Foreign) } else { Ok(()) }
    }

    /// The stream is cut behind the point in common. The keys in the records behind it do not have their values until
    /// [`repaired`](Self::repaired), even over several connections; meanwhile the records of the primary are applied.
    /// False if the connection has ended, or does not begin with a repair there.
    #[must_use]
    pub fn cut(&mut self, stamp: Stamp, last: Lsn) -> bool {
        let may = self.may_cut(stamp, last);
        let Some(link) = self.link.as_mut().filter(|_| may) else { return false };
        (link.received, link.batch_end) = (last, last);
        self.relay.end_all();
        self.copy.history.cut(last);
        (self.copy.last, self.copy.repairing) = (last, true);
        self.committed = self.committed.min(last);
        self.positions = Positions::default();
        true
    }

    /// The copy has begun to arrive, and the owner has durably noted that the data is not whole: from here on it is
    /// not. False if the connection has ended, or does not begin with a copy: then nothing may be dropped.
    #[must_use]
    pub fn drop_data(&mut self, stamp: Stamp) -> bool {
        let may = self.may_drop(stamp);
        if may && !wrong!(ForgetCopy) {
            self.forget_data();
        }
        may
    }

    /// Whether [`drop_data`](Self::drop_data) would say yes. The owner must ask before it notes anything.
    pub fn may_drop(&self, stamp: Stamp) -> bool {
        self.is_in(stamp, Phase::Copying)
    }

    /// Whether [`cut`](Self::cut) would say yes. The owner must ask before it stops reads.
    pub fn may_cut(&self, stamp: Stamp, last: Lsn) -> bool {
        self.is_in(stamp, Phase::Repairing) && last <= self.copy.last
    }

    fn is_in(&self, stamp: Stamp, phase: Phase) -> bool {
        let link = self.link.as_ref().filter(|link| link.stamp == stamp);
        link.is_some_and(|link| link.phase == phase) && self.promotion.is_none()
    }

    /// The data is replaced by that of a primary that has no epochs: it is part of no stream any more.
    pub fn leave(&mut self) {
        self.link = None;
        self.forget_data();
        self.copy.whole = true;
    }

    fn forget_data(&mut self) {
        self.relay.end_all();
        (self.copy.whole, self.copy.repairing, self.copy.indirect) = (false, false, false);
        self.copy.history = History::new();
        (self.copy.last, self.committed) = (0, 0);
        self.positions = Positions::default();
        self.was_caught_up = false;
    }

    /// Records `first` to `last` arrived, the last of which to end a batch is `batch_end`. Returns up to where
    /// they may be applied now; None if they must be dropped. What follows `batch_end` is kept until its batch
    /// has ended.
    pub fn records(&mut self, stamp: Stamp, first: Lsn, last: Lsn, batch_end: Lsn) -> Option<Lsn> {
        let link = self.link.as_mut().filter(|link| link.stamp == stamp)?;
        let takes = match link.phase {
            Phase::Following => true,
            Phase::Repairing => self.copy.repairing,
            Phase::Copying => false,
        };
        let fits = takes && first == link.received + 1 && last >= first;
        if !fits || self.promotion.is_some() {
            return None;
        }
        link.received = last;
        if (first..=last).contains(&batch_end) {
            link.batch_end = batch_end;
        }
        Some(if wrong!(HalfBatch) { last } else { link.batch_end })
    }

    /// A record that begins an epoch was applied.
    pub fn began(&mut self, start: Start) -> Result<(), OutOfOrder> {
        self.copy.history.learn(start)?;
        if !wrong!(FeedOverEpoch) {
            self.relay.end_all();
        }
        self.seen = self.seen.max(start.epoch);
        self.highest = self.highest.max(start.epoch);
        Ok(())
    }

    /// Whether this node's log cannot write at present. The next acknowledgement says so.
    pub fn note_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// The replica has come this far, or it is time to say so again.
    pub fn applied(&mut self, positions: Positions) {
        self.positions = positions;
        self.copy.last = self.copy.last.max(positions.applied);
        self.arrive();
        self.acknowledge();
    }

    /// A full copy is durable, and includes all records up to `last`.
    pub fn copied(&mut self, last: Lsn) {
        self.completed(Phase::Copying, last);
    }

    /// All keys of the divergent tail have their values, and the stream includes all records up to `last`.
    pub fn repaired(&mut self, last: Lsn) {
        self.completed(Phase::Repairing, last);
    }

    fn completed(&mut self, phase: Phase, last: Lsn) {
        let Some(link) = self.link.as_mut().filter(|link| link.phase == phase) else { return };
        link.phase = Phase::Following;
        (link.received, link.batch_end) = (last, last);
        self.copy = Held {
            store: link.store,
            history: link.history.clone(),
            last,
            whole: true,
            repairing: false,
            adopt: false,
            indirect: !self.relay.leads(),
            caught_up: false,
        };
        self.positions = Positions { applied: last, ..Positions::default() };
        self.acknowledge();
    }

    fn acknowledge(&mut self) {
        let Some(link) = self.link.as_ref().filter(|_| self.promotion.is_none()) else { return };
        let whole = link.phase == Phase::Following;
        let positions = if whole { self.positions } else { Positions::default() };
        let is_full = self.is_full;
        let ack = Ack { stamp: link.stamp, beat: link.beat, positions, whole, is_full };
        self.acts.push(Act::Send(link.primary, ToPrimary::Ack(ack)));
    }

    /// A message of a primary, other than its answer.
    pub fn receive(&mut self, now: Moment, from: NodeId, message: &ToReplica) {
        let stamp = match message {
            ToReplica::Beat(beat) => beat.stamp,
            ToReplica::Handover(handover) => handover.stamp,
            ToReplica::NotReady(incarnation) => return self.not_ready = Some(*incarnation),
            ToReplica::Answer(_) => return,
        };
        if stamp.epoch < self.seen {
            let fenced = ToPrimary::Fenced { epoch: self.seen, leads: false };
            return self.acts.push(Act::Send(from, fenced));
        }
        if self.promotion.is_some() || !self.link.as_ref().is_some_and(|link| link.stamp == stamp) {
            return;
        }
        match message {
            ToReplica::Beat(beat) => self.beat(now, beat),
            ToReplica::Handover(handover) => self.handover(now, handover),
            ToReplica::Answer(_) | ToReplica::NotReady(_) => {}
        }
    }

    fn beat(&mut self, now: Moment, beat: &Beat) {
        let Some(link) = self.link.as_mut().filter(|link| beat.number > link.beat) else { return };
        link.beat = beat.number;
        // Of what came before its epoch a primary does not know how much was acknowledged.
        let first = link.history.last_start().map_or(0, |start| start.first);
        self.relay.aim(beat.committed.max(first));
        self.arrive();
        self.heard = Some(now);
        self.bound_until = self.bound_until.max(now + beat.lease.min(Rules::LEASE_MAX));
        self.is_in_sync = beat.member && beat.caught_up;
        self.was_caught_up |= beat.caught_up;
        self.committed = self.committed.max(beat.committed);
        self.told.wall = self.told.wall.max(beat.told.wall);
        self.told.cas = self.told.cas.max(beat.told.cas);
        self.acknowledge();
    }

    fn handover(&mut self, now: Moment, handover: &Handover) {
        let Some(link) = &mut self.link else { return };
        let after = handover.after_beat;
        // The primary goes on, or knows that this was declined.
        if after < link.beat || link.declined.is_some_and(|declined| after <= declined) {
            return;
        }
        let has_all = handover.force || self.copy.last >= handover.last;
        // A late one may come from a primary that has started again since.
        let is_late = self.rules.promises && now >= self.bound_until;
        let may = has_all && !is_late && link.phase == Phase::Following;
        let (from, stamp) = (link.primary, link.stamp);
        if !may {
            link.declined = Some(after);
            return self.acts.push(Act::Send(from, ToPrimary::Declined(stamp, after)));
        }
        self.promote_by(handover.force, Some(from), Set::Named(handover.set.clone()));
        self.finish();
    }

    /// The time has come to this.
    pub fn tick(&mut self, now: Moment) {
        let is_silent = self.heard.is_none_or(|heard| now > heard + self.rules.lease);
        if self.link.is_some() && is_silent && self.promotion.is_none() {
            self.link = None;
            self.acts.push(Act::Reconnect);
        }
        if now >= self.bound_until || wrong!(BreakPromise) {
            self.finish();
        } else if self.promotion.as_ref().is_some_and(|promotion| promotion.from.is_some()) {
            // The old primary gave up its right.
            self.finish();
        }
    }
}
