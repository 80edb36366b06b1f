//! The primary: its replicas, its in-sync set, what may be acknowledged, and its right to answer.
//!
//! 1. Nothing is acknowledged, or shown, that a counted member of the in-sync set has not applied.
//! 2. The primary answers only while the last promises of all counted members last. A member promises by
//!    answering a beat, and is not promoted before its promise ends.
//! 3. A primary goes on after a restart only if it lost nothing, or if every member has told that it has no
//!    more than the primary has.
//! 4. Once the role is handed over, the primary answers nothing until the other node has answered a beat
//!    that was sent later: such a node never takes up the handover.
//! 5. A node that the record counts as in sync is told to give up data only after a transaction has removed it.
//!    Otherwise the record would name a node that could not serve.
//!
//! The owner passes messages and the time, calls [`Primary::tick`] at least every beat, and carries out what
//! [`Primary::acts`] returns after each call. Waiting and sockets are the owner's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::failover::{Failover, FailoverEnd, Handed};
use crate::feed::{Feed, Lag, News, Source};
use crate::history::{History, Start};
use crate::ids::{Epoch, Identity, Lsn, Moment, NodeId, StoreId};
use crate::in_sync::{InSync, Set};
use crate::message::{Ack, Course, Hello, Stamp, ToPrimary, ToReplica, Told};
use crate::records::{Claim, Outcome, Request, ShardId};
use crate::replica::{Held, TakeOver};
use crate::rules::Rules;

/// What the owner must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send a message.
    Send(NodeId, ToReplica),
    /// Append this to the stream, at exactly this number, before any other record. From then on writes are
    /// accepted.
    Begin(Start),
    /// Ask the records, and pass the outcome to [`Primary::outcome`].
    Ask(Request),
    /// Hold back all writes, then call [`Primary::paused`] with the last record.
    PauseWrites,
    /// Let writes go on.
    ResumeWrites,
    /// Tell people that this replica is given up before it was in sync. It may try again at any time.
    GaveUp(NodeId, GivenUp),
    /// Tell the client that asked for it how the failover ended.
    FailoverEnded(FailoverEnd),
    /// Another node is primary, in this epoch. What is not acknowledged has an open fate. The machine has ended.
    Superseded(Epoch, Option<NodeId>),
    /// The node must not be primary of this data. The machine has ended.
    MustNotStart(StartRefused),
}

/// The reason why a node that starts is not primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartRefused {
    /// The record names another node, or there is none.
    NotNamed,
    /// The node may have lost records that it acknowledged.
    MayHaveLost,
}

/// The reason why a replica is given up before it was in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    /// It stood still, or fell behind, when writes waited for it already.
    Behind,
    /// Its connection ended.
    Disconnected,
}

/// The data with which a node starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The store.
    pub store: StoreId,
    /// Its epochs.
    pub history: History,
    /// Its last record.
    pub last: Lsn,
    /// Whether it has surely lost nothing since it began its last epoch: its log was synced before each reply,
    /// or was written under the same boot ID, or was closed. Every restart since then counts: after a power cut
    /// a log stays suspect until its node begins an epoch. So does the log of a node that has taken anything
    /// from another primary: it acknowledges records that it has applied and not yet logged, perhaps even the
    /// beginning of the other one's epoch. The node must note durably that it does, before the first record and
    /// until its next own epoch is logged. Where operators name the set, the same holds for a node that has sent a
    /// handover: it may be taken up long after.
    pub clean: bool,
}

/// Where the set of a node that starts as primary comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An operator's setting.
    Named(Vec<NodeId>),
    /// The record of this shard.
    Recorded(ShardId),
}

/// The reason why an operator cannot name the in-sync set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRefused {
    /// Records keep it.
    Recorded,
    /// The members have not told yet what they have, or this node is no longer primary.
    NotServing,
    /// A failover is under way, or it is not known yet whether the other node has taken up the role.
    FailingOver,
}

/// Whether writes are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Yes.
    Open,
    /// They wait for the end of a failover.
    Paused,
    /// `-NOREPLICAS`: too few nodes are in sync, or one that must acknowledge is not there.
    NoReplicas,
    /// The node serves nothing yet, or no more.
    Closed,
}

#[derive(Debug)]
pub(crate) enum State {
    /// Until every member has told what it has.
    Waiting {
        until: Moment,
        told: Vec<NodeId>,
        ahead: Option<NodeId>,
    },
    /// Until the record names this start.
    Claiming(Claim),
    Serving,
    Over,
}

/// The state machine of a primary.
#[derive(Debug)]
pub struct Primary {
    pub(crate) me: Identity,
    pub(crate) rules: Rules,
    pub(crate) feed: Feed,
    pub(crate) in_sync: InSync,
    pub(crate) last: Lsn,
    pub(crate) failover: Option<Failover>,
    pub(crate) handed: Option<Handed>,
    /// When the last beat was sent that each replica has answered.
    pub(crate) answered: BTreeMap<NodeId, Moment>,
    pub(crate) acts: Vec<Act>,
    pub(crate) state: State,
    store: StoreId,
    pub(crate) history: History,
    pub(crate) is_clean: bool,
    committed: Lsn,
    next_beat: Moment,
    ticked: Moment,
    /// Before this, no member is removed for its lag: it may be this node that was not there.
    pub(crate) grace: Moment,
    /// The old primary, which gets no such time until it follows.
    pub(crate) deposed: Option<NodeId>,
    /// Members that lack a copy or a repair, and are removed for it.
    pub(crate) unfit: BTreeSet<NodeId>,
    /// Replicas that were given up before they were in sync, until they are.
    pub(crate) given_up: BTreeSet<NodeId>,
    /// Whether the role went to the node to which it was handed over.
    is_handed_over: bool,
}

impl Primary {
    /// A node starts as primary.
    pub fn start(now: Moment, me: Identity, rules: Rules, kept: Kept, origin: Origin) -> Self {
        let was_primary = kept.history.last_start().is_some_and(|start| start.node == me.node);
        let is_clean = kept.clean && was_primary;
        let mut primary = Primary::new(now, me, rules, kept.store, kept.history, kept.last);
        primary.is_clean = is_clean;
        match origin {
            // Even if it lost nothing: without its members it could answer nothing, and a node that was
            // replaced meanwhile must not raise epochs on its own.
            Origin::Named(set) => {
                primary.in_sync.name(set);
                // It may have promised another primary something before the restart.
                let promised = rules.promises && !is_clean && !primary.in_sync.known().is_empty();
                let until = if promised { now + rules.lease } else { now };
                primary.state = State::Waiting { until, told: Vec::new(), ahead: None };
                primary.go_on_if_all_told(now);
            }
            Origin::Recorded(shard) => {
                let (claim, request) = Claim::read(shard);
                primary.acts.push(Act::Ask(request));
                primary.state = State::Claiming(claim);
            }
        }
        primary
    }

    /// A replica becomes primary.
    pub fn take_over(now: Moment, me: Identity, rules: Rules, from: TakeOver) -> Self {
        let mut primary = Primary::new(now, me, rules, from.store, from.history, from.last);
        primary.committed = from.committed.min(from.last);
        primary.deposed = from.deposed;
        primary.in_sync = InSync::new(from.set);
        primary.begin(now, from.epoch);
        primary
    }

    fn new(
        now: Moment,
        me: Identity,
        rules: Rules,
        store: StoreId,
        history: History,
        last: Lsn,
    ) -> Self {
        debug_assert!(!rules.promises || rules.are_consistent());
        Primary {
            me,
            rules,
            feed: Feed::new(now),
            in_sync: InSync::new(Set::Named(Vec::new())),
            last,
            failover: None,
            handed: None,
            answered: BTreeMap::new(),
            acts: Vec::new(),
            state: State::Over,
            store,
            history,
            is_clean: false,
            committed: 0,
            next_beat: now,
            ticked: now,
            grace: now + rules.in_sync_lag,
            deposed: None,
            unfit: BTreeSet::new(),
            given_up: BTreeSet::new(),
            is_handed_over: false,
        }
    }

    /// Takes what the owner must do, in order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    pub(crate) fn begin(&mut self, now: Moment, epoch: Epoch) {
        self.state = State::Serving;
        self.grace = now + self.rules.in_sync_lag;
        if wrong!(ForgetEpoch) && self.history.epoch() > Epoch(0) {
            return;
        }
        let first = self.last + 1;
        let Identity { node, incarnation } = self.me;
        let start = Start { epoch, node, incarnation, first };
        self.history.begin(start).expect("the epoch is later, and so is its record");
        self.acts.push(Act::Begin(start));
        self.appended(now, first, 0);
    }

    /// The epoch of this primary.
    pub fn epoch(&self) -> Epoch {
        self.history.epoch()
    }

    /// The store whose data the stream is.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// The epochs of the stream.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The replicas.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// An operator has changed the rules. Where replicas promise something the lease stays, because earlier beats have
    /// told them that one.
    pub fn set_rules(&mut self, rules: Rules) {
        let lease = if self.rules.promises { self.rules.lease } else { rules.lease };
        self.rules = Rules { lease, promises: self.rules.promises, ..rules };
    }

    /// What a replica begins with on this node, after the primary was superseded.
    pub fn held(&self) -> Held {
        Held {
            store: self.store,
            history: self.history.clone(),
            last: self.last,
            whole: true,
            repairing: false,
            adopt: false,
            indirect: false,
            // It acknowledged all there was in its epoch. If the new primary counts it as in sync, nothing is
            // acknowledged since without it: the record says so, or its own handover did.
            caught_up: self.in_sync.is_recorded() || self.is_handed_over,
        }
    }

    /// The members of the in-sync set, without this node.
    pub fn in_sync(&self) -> &[NodeId] {
        self.in_sync.known()
    }

    /// The last record that every counted member has applied: it may be acknowledged and shown. It never falls.
    pub fn committed(&self) -> Lsn {
        self.committed
    }

    /// Whether this machine serves and waits for no replica. Then [`Primary::appended`] alone commits more.
    pub fn is_alone(&self) -> bool {
        matches!(self.state, State::Serving) && self.needed().next().is_none()
    }

    /// Until when the primary may answer, by its own clock. None: not now. The clock must be read after the
    /// answer was made and before it leaves.
    pub fn answers_until(&self) -> Option<Moment> {
        if !matches!(self.state, State::Serving) || self.handed.is_some() {
            return None;
        }
        if !self.rules.promises {
            return Some(Moment::MAX);
        }
        let mut until = Moment::MAX;
        for member in self.in_sync.counted() {
            until = until.min(*self.answered.get(&member)? + self.rules.relied_on());
        }
        Some(until)
    }

    /// Whether writes are accepted now.
    pub fn writes(&self, now: Moment) -> Writes {
        if !matches!(self.state, State::Serving) {
            return Writes::Closed;
        }
        if self.failover.is_some() || self.handed.is_some() {
            return Writes::Paused;
        }
        if !self.in_sync.counted().all(|node| self.keeps_up(now, node)) {
            return Writes::NoReplicas;
        }
        let known = self.in_sync.known().iter().filter(|node| self.keeps_up(now, **node)).count();
        if known < self.rules.min_in_sync { Writes::NoReplicas } else { Writes::Open }
    }

    /// Whether a replica has all data, answers, and lags so little that writes need not be refused because of it.
    pub fn keeps_up(&self, now: Moment, node: NodeId) -> bool {
        // A member that a transaction can remove gets the time for it.
        let removal = if self.in_sync.is_recorded() { 2 } else { 1 };
        self.is_within(now, node, self.rules.in_sync_lag * removal)
    }

    /// Whether members may be missing only because this node has not been there for long, as primary or at all.
    pub fn is_fresh(&self, now: Moment) -> bool {
        now < self.grace
    }

    /// The member that has records which this node lacks, so that this node must not go on by itself.
    pub fn ahead(&self) -> Option<NodeId> {
        match &self.state {
            State::Waiting { ahead, .. } => *ahead,
            _ => None,
        }
    }

    /// An operator accepts that this node goes on with what it has.
    pub fn accept_loss(&mut self, now: Moment) {
        if matches!(self.state, State::Waiting { .. }) {
            self.begin(now, self.history.epoch().next());
        }
    }

    /// An operator names the in-sync set. A node that is taken out must not be promoted until this primary has
    /// told it that it is in sync again: no third party keeps the operator from that.
    pub fn name(&mut self, now: Moment, set: Vec<NodeId>) -> Result<(), NameRefused> {
        if self.in_sync.is_recorded() || matches!(self.state, State::Claiming(_)) {
            return Err(NameRefused::Recorded);
        }
        // A smaller set would hide that a member has more.
        let may = match self.state {
            State::Waiting { .. } => self.is_clean,
            State::Serving => true,
            State::Claiming(_) | State::Over => false,
        };
        if !may {
            return Err(NameRefused::NotServing);
        }
        if self.handed.is_some() || self.failover.is_some() {
            return Err(NameRefused::FailingOver);
        }
        self.in_sync.name(set);
        self.advance();
        self.go_on_if_all_told(now);
        Ok(())
    }

    /// A replica introduces itself. `oldest` is the first record that could be sent.
    pub fn hello(&mut self, now: Moment, hello: &Hello, oldest: Lsn) {
        let is_later = hello.history.epoch() > self.epoch() && hello.store == self.store;
        if matches!(self.state, State::Serving) && is_later && self.in_sync.is_recorded() {
            return self.supersede(hello.history.epoch(), None);
        }
        self.hear(hello);
        self.go_on_if_all_told(now);
        let node = hello.from.node;
        if !matches!(self.state, State::Serving) || node == self.me.node {
            return self.acts.push(Act::Send(node, ToReplica::NotReady(self.me.incarnation)));
        }
        let (store, last) = (self.store, self.last);
        let source = Source {
            node: self.me,
            store,
            history: &self.history,
            last,
            oldest,
            leads: true,
            above: &[],
        };
        let gives_up = !matches!(source.course(hello), Course::Continue(_));
        let is_recorded = self.in_sync.is_recorded() && !wrong!(RepairMembers);
        if gives_up && is_recorded && self.in_sync.counted().any(|member| member == node) {
            self.unfit.insert(node);
            self.feed.forget(node);
            return self.acts.push(Act::Send(node, ToReplica::NotReady(self.me.incarnation)));
        }
        self.unfit.remove(&node);
        self.deposed = self.deposed.filter(|deposed| *deposed != node);
        let answer = self.feed.hello(hello, source);
        self.acts.push(Act::Send(node, ToReplica::Answer(answer)));
    }

    /// A member tells what it has, while this node waits for that.
    fn hear(&mut self, hello: &Hello) {
        let State::Waiting { told, ahead, .. } = &mut self.state else { return };
        let node = hello.from.node;
        // A late hello may tell what the member had before this node was gone.
        let is_late = hello.not_ready != Some(self.me.incarnation);
        if is_late || !self.in_sync.known().contains(&node) {
            return;
        }
        let is_empty = !hello.whole || hello.history.starts().is_empty();
        let common = self.history.common(self.last, &hello.history, hello.last);
        let has_no_more = hello.store == self.store && common == Some(hello.last);
        if self.is_clean || is_empty || has_no_more || wrong!(TrustEmpty) {
            told.push(node);
        } else {
            *ahead = Some(node);
        }
    }

    fn go_on_if_all_told(&mut self, now: Moment) {
        let State::Waiting { until, told, .. } = &self.state else { return };
        if now >= *until && self.in_sync.known().iter().all(|member| told.contains(member)) {
            self.begin(now, self.history.epoch().next());
        }
    }

    /// A connection has ended.
    pub fn detach(&mut self, stamp: Stamp) {
        let node = self.feed.detach(stamp);
        node.into_iter().for_each(|node| self.give_replica_up(node, GivenUp::Disconnected));
    }

    /// A message of a replica, other than a hello.
    pub fn receive(&mut self, now: Moment, from: NodeId, message: &ToPrimary) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        match message {
            ToPrimary::Hello(_) => {}
            ToPrimary::Ack(ack) => self.ack(now, from, ack),
            ToPrimary::Declined(stamp, beat) if stamp.epoch == self.epoch() => {
                self.declined(from, *beat);
            }
            ToPrimary::Declined(..) => {}
            ToPrimary::Fenced { epoch, leads } => self.fenced(from, *epoch, *leads),
        }
    }

    /// Another node knows a later epoch, or `leads` in it. Records number epochs in the order of primaries.
    /// Operators do not: then only the word of a member counts, which leads and so will never acknowledge
    /// anything again.
    fn fenced(&mut self, from: NodeId, epoch: Epoch, leads: bool) {
        let is_heir = self.handed.as_ref().is_some_and(|handed| handed.to == from)
            || self.in_sync.counted().any(|member| member == from);
        if epoch > self.epoch() && (self.in_sync.is_recorded() || (leads && is_heir)) {
            self.supersede(epoch, leads.then_some(from));
        }
    }

    /// The answer to a message that another primary sent to this node, as if it were a replica.
    pub fn stray(&self, stamp: Stamp) -> Option<ToPrimary> {
        let is_lower = matches!(self.state, State::Serving) && stamp.epoch < self.epoch();
        is_lower.then(|| ToPrimary::Fenced { epoch: self.epoch(), leads: true })
    }

    fn ack(&mut self, now: Moment, from: NodeId, ack: &Ack) {
        let Some(follower) = self.feed.ack(from, ack) else { return };
        let (beat, promised) = (follower.answered, follower.promised);
        let handed = self.handed.as_ref().filter(|handed| handed.to == from);
        // A promise from before the handover is used up.
        if let Some(promised) = promised.filter(|_| handed.is_none_or(|h| beat > h.after_beat)) {
            let known = self.answered.entry(from).or_insert(promised);
            *known = promised.max(*known);
            if handed.is_some() {
                self.regain();
            }
        }
        self.advance();
        self.go_on_with_failover(now);
    }

    /// The stream has grown. `bytes` counts its bytes since this machine began.
    pub fn appended(&mut self, now: Moment, last: Lsn, bytes: u64) {
        self.last = last;
        self.feed.appended(now, last, bytes, self.rules.in_sync_lag / 8);
        self.advance();
    }

    pub(crate) fn advance(&mut self) {
        if !matches!(self.state, State::Serving) {
            return;
        }
        let feed = &self.feed;
        let applied =
            |node| feed.follower(node).filter(|f| f.whole).map_or(0, |f| f.positions.applied);
        let least = self.needed().map(applied).min().unwrap_or(Lsn::MAX);
        let least = if wrong!(AckEarly) { Lsn::MAX } else { least };
        self.committed = self.committed.max(least.min(self.last));
    }

    /// The replicas without which nothing is acknowledged: the members, and those that are about to be.
    fn needed(&self) -> impl Iterator<Item = NodeId> {
        let joining = self.feed.followers().iter().filter(|follower| follower.joins);
        self.in_sync.counted().chain(joining.map(|follower| follower.id.node))
    }

    /// What a replica must have applied at least to have all that may have been acknowledged: that includes
    /// all from before this epoch, of which this machine does not know how much was acknowledged.
    pub(crate) fn barrier(&self) -> Lsn {
        let first = self.history.last_start().map_or(0, |start| start.first);
        if wrong!(CaughtUpEarly) { self.committed } else { self.committed.max(first) }
    }

    /// How far a replica is behind, if it is attached.
    pub fn lag(&self, now: Moment, node: NodeId) -> Option<Lag> {
        Some(self.feed.lag(now, self.feed.follower(node)?))
    }

    pub(crate) fn is_within(&self, now: Moment, node: NodeId, lag: Duration) -> bool {
        let answers = self.answered.get(&node).is_some_and(|sent| now.saturating_sub(*sent) <= lag);
        let follower = self.feed.follower(node).filter(|follower| follower.whole);
        answers && follower.is_some_and(|follower| self.feed.lag(now, follower).time <= lag)
    }

    /// The time has come to this.
    pub fn tick(&mut self, now: Moment, told: Told) {
        self.go_on_if_all_told(now);
        if !matches!(self.state, State::Serving) {
            return;
        }
        self.note_time(now);
        if now >= self.next_beat {
            self.next_beat = now + self.rules.beat();
            self.beat(now, told);
        }
        self.go_on_with_failover(now);
        self.adapt_set(now, &[]);
    }

    /// Behind a pause of this node the answers of its replicas lie unread: they have time to be read.
    pub(crate) fn note_time(&mut self, now: Moment) {
        if now.saturating_sub(self.ticked) > self.rules.beat() * 2 {
            self.grace = now + self.rules.in_sync_lag;
        }
        self.ticked = now;
    }

    fn beat(&mut self, now: Moment, told: Told) {
        let barrier = self.barrier();
        let lease = if self.rules.promises { self.rules.lease } else { Duration::ZERO };
        let silent = self.handed.as_ref().filter(|handed| handed.is_open).map(|handed| handed.to);
        let news = News { lease, committed: self.committed, told };
        let known = self.in_sync.known();
        let beats = self.feed.beats(now, news, |follower| {
            let caught_up = follower.whole && follower.positions.applied >= barrier;
            (known.contains(&follower.id.node), caught_up)
        });
        let heard = beats.into_iter().filter(|(node, _)| silent != Some(*node));
        self.acts.extend(heard.map(|(node, beat)| Act::Send(node, ToReplica::Beat(beat))));
        // Only attached replicas and members are remembered.
        let feed = &self.feed;
        let members: Vec<NodeId> = self.in_sync.counted().collect();
        self.answered.retain(|node, _| members.contains(node) || feed.follower(*node).is_some());
    }

    /// The outcome of the last request.
    pub fn outcome(&mut self, now: Moment, outcome: Outcome) {
        match &mut self.state {
            State::Claiming(_) => self.go_on_claiming(now, outcome),
            State::Serving => self.go_on_changing(now, outcome),
            State::Waiting { .. } | State::Over => {}
        }
    }

    pub(crate) fn supersede(&mut self, epoch: Epoch, by: Option<NodeId>) {
        self.state = State::Over;
        self.is_handed_over = self.handed.as_ref().is_some_and(|handed| by == Some(handed.to));
        if self.failover.take().is_some() {
            let to = self.handed.as_ref().map(|handed| handed.to);
            let end = to.map_or(FailoverEnd::Superseded, FailoverEnd::HandedOver);
            self.acts.push(Act::FailoverEnded(end));
        }
        self.acts.push(Act::Superseded(epoch, by));
    }
}
