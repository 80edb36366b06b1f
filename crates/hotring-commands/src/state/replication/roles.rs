//! The machine of this server's role, and the replicas that are attached to it.
//!
//! The machines of `hotring-cluster` decide; this file keeps the one of the present role, passes it the time, and
//! carries out what it asks for: messages go to the links' tasks, the beginning of an epoch into the log. The lock of
//! this state is the innermost one: no code may wait for the store or the log while it holds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hotring_cluster::{
    FailoverEnd, FailoverRefused, Feed, Held, Hello, Identity, Kept, Moment, NodeId, Origin,
    Primary, PrimaryAct, Replica, Rules, Set, Stamp, Start, StoreId, TakeOver, ToPrimary,
    ToReplica, Told, Writes,
};
use hotring_log::{Effect, Log, Lsn, Records};
use sha1::{Digest, Sha1};

use super::attached::{Attached, ReplicaStatus};
use super::codec::epochs_to_bytes;
use super::recorded::Desk;
use crate::host::clock;
use crate::settings::config::{ReplicationSettings, Source};

/// The name under which a replica is known here: that of the address at which it listens. Operators name replicas by
/// their addresses, which stay the same over restarts.
pub fn node_of(ip: &str, port: u16) -> NodeId {
    NodeId(Sha1::digest(format!("{ip} {port}")).into())
}

/// What the server must do for the machine, outside of its lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Hold back all writes, and say where the log ends.
    PauseWrites,
    /// Let writes go on.
    ResumeWrites,
    /// Become a primary, as replies wait for replicas.
    BecomePrimary,
    /// Follow the server at this address, which is the primary now.
    Follow(Source),
    /// Become a primary, as the records say.
    TakeOver(Box<TakeOver>),
    /// Be a replica until the records say whose.
    StepDown,
}

/// The role of this server.
#[derive(Debug)]
pub(super) enum Role {
    /// It has never had a primary or a replica since its start.
    Alone(Held),
    Primary(Box<Primary>),
    Replica(Box<Replica>),
}

/// The role and the attached replicas.
#[derive(Debug)]
pub struct Roles {
    pub(super) me: Identity,
    /// The time since the boot at which this time began.
    started: Duration,
    pub(super) role: Role,
    attached: Vec<Attached>,
    /// The replicas for which replies wait by name, and whether replies wait for any.
    awaited: Vec<NodeId>,
    awaits: bool,
    pub(super) rules: Rules,
    pub(super) tasks: Vec<Task>,
    failover: Option<FailoverEnd>,
    /// How often replicas were given up before they were in sync.
    pub(super) joins_given_up: u64,
    /// The time up to which clients may be answered, in milliseconds since `started`; the maximum without a limit.
    pub(super) answers_until: Arc<AtomicU64>,
    /// The epoch in which this node of a cluster is primary, 0 while it is not; the maximum without records.
    pub(super) leads_in: Arc<AtomicU64>,
    /// Whether this server is primary and waits for no replica.
    pub(super) is_alone: Arc<AtomicBool>,
    /// What the link of this replica must do.
    pub(super) link_work: LinkWork,
    /// The machines' requests, if records say who is primary.
    pub(super) records: Option<Desk>,
}

impl Roles {
    /// A server without data; `store` identifies the data that it will have. A node of a cluster has `records`.
    pub(super) fn new(
        me: Identity,
        store: StoreId,
        started: Duration,
        records: Option<Desk>,
    ) -> Roles {
        let history = Default::default();
        let (repairing, adopt, indirect, caught_up) = (false, false, false, false);
        let (last, whole) = (0, true);
        let held = Held { store, history, last, whole, repairing, adopt, indirect, caught_up };
        Roles {
            me,
            started,
            role: Role::Alone(held),
            attached: Vec::new(),
            awaited: Vec::new(),
            awaits: false,
            rules: ReplicationSettings::default().rules(),
            tasks: Vec::new(),
            failover: None,
            joins_given_up: 0,
            answers_until: Arc::new(AtomicU64::new(if records.is_some() { 0 } else { u64::MAX })),
            leads_in: Arc::new(AtomicU64::new(if records.is_some() { 0 } else { u64::MAX })),
            is_alone: Arc::default(),
            link_work: LinkWork::default(),
            records,
        }
    }

    /// Applies changed settings.
    pub(super) fn set_rules(&mut self, settings: &ReplicationSettings, log: Option<&Log>) {
        let named = settings.awaited().iter().map(|source| node_of(&source.host, source.port));
        (self.awaited, self.rules) = (named.collect(), settings.rules());
        self.awaits = settings.awaits();
        self.apply_rules();
        if let Some(log) = log {
            self.carry_out(log);
        }
    }

    fn apply_rules(&mut self) {
        let (now, awaited, rules) = (self.now(), self.awaited.clone(), self.rules);
        let is_recorded = self.is_recorded();
        let Some(primary) = self.primary() else { return };
        primary.set_rules(rules);
        if !is_recorded
            && primary.in_sync() != awaited
            && let Err(why) = primary.name(now, awaited)
        {
            tracing::warn!(?why, "in-sync-replicas cannot be changed now");
        }
    }

    /// Whether replies wait for replicas.
    pub(super) fn awaits(&self) -> bool {
        self.awaits
    }

    pub(super) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// What the server must do.
    pub(super) fn take_tasks(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    /// Whether writes are accepted.
    pub(super) fn writes(&self) -> Writes {
        match &self.role {
            Role::Primary(primary) => primary.writes(self.now()),
            Role::Alone(_) if self.rules.min_in_sync > 0 || self.awaits() => Writes::NoReplicas,
            Role::Alone(_) | Role::Replica(_) => Writes::Open,
        }
    }

    /// Begins a failover to this replica, or to any.
    pub(super) fn fail_over(
        &mut self,
        to: Option<NodeId>,
        timeout: Option<Duration>,
        force: bool,
        log: &Log,
    ) -> Result<(), FailoverRefused> {
        let now = self.now();
        let primary = self.primary().ok_or(FailoverRefused::NoReplica)?;
        primary.fail_over(now, to, timeout, force)?;
        self.failover = None;
        self.carry_out(log);
        Ok(())
    }

    /// Ends a failover. False if there is none.
    pub(super) fn abort_failover(&mut self, log: &Log) -> bool {
        let ended = self.primary().is_some_and(Primary::abort_failover);
        self.carry_out(log);
        ended
    }

    /// All writes are held back.
    pub(super) fn paused(&mut self, log: &Log) {
        let now = self.now();
        if let Some(primary) = self.primary() {
            let last = tell_end(primary, now, log);
            primary.paused(now, last);
            self.carry_out(log);
        }
    }

    pub(super) fn now(&self) -> Moment {
        clock::since_boot().saturating_sub(self.started)
    }

    /// What this server holds, if the log ends at `last`.
    pub(super) fn held(&self, last: Lsn, adopt: bool) -> Held {
        match &self.role {
            Role::Alone(held) => Held { last, adopt, ..held.clone() },
            Role::Primary(primary) => Held { last, adopt, ..primary.held() },
            Role::Replica(replica) => Held { adopt, ..replica.held().clone() },
        }
    }

    /// States what was recovered from the disk.
    pub(super) fn recovered(&mut self, held: Held) {
        self.role = Role::Alone(held);
    }

    /// States that what was recovered came by another replica, if it is part of a stream at all.
    pub(super) fn recovered_by_a_replica(&mut self) {
        if let Role::Alone(held) = &mut self.role {
            held.indirect = !held.history.starts().is_empty();
        }
    }

    /// The history of the present role's stream, and its store.
    pub(super) fn epochs(&self) -> Vec<u8> {
        let held = self.held(0, false);
        epochs_to_bytes(held.store, &held.history)
    }

    /// Whether the stream has any epoch yet.
    pub(super) fn has_epochs(&self) -> bool {
        !self.held(0, false).history.starts().is_empty()
    }

    /// Becomes a replica. `adopt` if an operator has just asked for it: then it gives up its data for the primary's.
    pub(super) fn become_replica(&mut self, last: Lsn, adopt: bool, log: Option<&Log>) {
        let held = self.held(last, adopt);
        self.be_replica_with(held);
        if let Some(log) = log {
            self.publish(log);
        }
    }

    pub(super) fn be_replica_with(&mut self, held: Held) {
        self.attached.clear();
        self.begin_machine();
        let shard = self.shard();
        let replica = Replica::new(self.now(), self.me, self.rules, shard, held);
        self.role = Role::Replica(Box::new(replica));
    }

    /// Becomes a primary, unless it is one. The log must not grow meanwhile: no session is within the gate.
    pub(super) fn become_primary(&mut self, log: &Log) {
        if matches!(self.role, Role::Primary(_)) {
            return;
        }
        let Held { store, history, last, .. } = self.held(log.handed(), false);
        // Data that never had a replica can lack nothing that one has.
        let clean = history.starts().is_empty();
        let kept = Kept { store, history, last, clean };
        let set = Origin::Named(self.awaited.clone());
        let primary = Primary::start(self.now(), self.me, self.rules, kept, set);
        self.role = Role::Primary(Box::new(primary));
        self.carry_out(log);
    }

    /// Becomes a primary by a promotion, in the same circumstances. False if the log does not end where the machine
    /// believes: then this server stays a replica.
    pub(super) fn take_over(&mut self, from: TakeOver, log: &Log) -> bool {
        if !ends_with(log, from.last) {
            return false;
        }
        self.attached.clear();
        self.begin_machine();
        // The settings here name this server's replicas, from the first moment on: without any, all that there is
        // would count as acknowledged.
        let from = match self.is_recorded() {
            true => from,
            false => TakeOver { set: Set::Named(self.awaited.clone()), ..from },
        };
        let primary = Primary::take_over(self.now(), self.me, self.rules, from);
        self.role = Role::Primary(Box::new(primary));
        self.carry_out(log);
        true
    }

    /// Returns to the state of a server that was never part of anything.
    pub(super) fn be_alone(&mut self, last: Lsn) {
        let held = Held { indirect: false, ..self.held(last, false) };
        self.attached.clear();
        self.role = Role::Alone(held);
    }

    /// The data of this replica is about to be replaced by that of another kind of primary: from this record on it is
    /// part of no stream, also after a restart. The log must not grow meanwhile.
    pub(super) fn leave_stream(&mut self, log: &Log) {
        // After a full copy that was not finished the log may still have the epochs of the data before it.
        let is_whole = self.replica().is_none_or(|replica| replica.held().whole);
        if is_whole && !self.has_epochs() {
            return;
        }
        if let Some(replica) = self.replica() {
            replica.leave();
            self.end_links();
        }
        let (epochs, mut records) = (self.epochs(), Records::new());
        records.push(&Effect::Epochs { history: &epochs });
        log.append(&mut records);
    }

    /// The machine of a primary.
    pub(super) fn primary(&mut self) -> Option<&mut Primary> {
        match &mut self.role {
            Role::Primary(primary) => Some(primary),
            Role::Alone(_) | Role::Replica(_) => None,
        }
    }

    /// The machine of a replica.
    pub(super) fn replica(&mut self) -> Option<&mut Replica> {
        match &mut self.role {
            Role::Replica(replica) => Some(replica),
            Role::Alone(_) | Role::Primary(_) => None,
        }
    }

    /// The stream has grown.
    pub(super) fn grown(&mut self, log: &Log) {
        let now = self.now();
        if let Some(primary) = self.primary() {
            tell_end(primary, now, log);
            self.carry_out(log);
        }
    }

    /// The time has come to this.
    pub(super) fn tick(&mut self, told: Told, log: &Log) {
        let now = self.now();
        match &mut self.role {
            Role::Alone(_) if !self.awaited.is_empty() => self.tasks.push(Task::BecomePrimary),
            Role::Alone(_) => {}
            Role::Primary(primary) => {
                tell_end(primary, now, log);
                primary.tick(now, told);
                self.carry_out(log);
            }
            Role::Replica(replica) => {
                replica.tick(now);
                for (node, beat) in replica.beats_below(now, log.length()) {
                    self.send(node, ToReplica::Beat(beat));
                }
                if self.is_recorded() {
                    self.go_on_with_promotion();
                    self.publish(log);
                }
            }
        }
    }

    /// The replicas that the machine of the role feeds.
    fn feed(&self) -> Option<&Feed> {
        match &self.role {
            Role::Alone(_) => None,
            Role::Primary(primary) => Some(primary.feed()),
            Role::Replica(replica) => Some(replica.feed()),
        }
    }

    /// The connection of a replica, if the machine feeds it.
    fn stamp_of(&self, node: NodeId) -> Option<Stamp> {
        self.feed()?.follower(node).map(|follower| follower.stamp)
    }

    /// Ends the links that the machine has ended: their tasks lose their messages.
    pub(super) fn end_links(&mut self) {
        let mut attached = std::mem::take(&mut self.attached);
        attached.retain(|known| self.stamp_of(known.node) == Some(known.stamp));
        self.attached = attached;
    }

    /// Attaches a replica; the answer comes by its messages.
    pub(super) fn attach(
        &mut self,
        hello: &Hello,
        oldest: Lsn,
        log: &Log,
        mut attached: Attached,
    ) -> Option<Stamp> {
        let now = self.now();
        let node = attached.node;
        let answer = match &mut self.role {
            Role::Alone(_) => return None,
            Role::Primary(primary) => {
                tell_end(primary, now, log);
                primary.hello(now, hello, oldest);
                None
            }
            Role::Replica(replica) => Some(replica.hello_below(hello, oldest)),
        };
        let stamp = self.stamp_of(node);
        attached.stamp = stamp.unwrap_or(attached.stamp);
        // An earlier connection of the same node ends, as its task loses its messages.
        self.attached.retain(|known| known.node != node);
        self.attached.push(attached);
        answer.into_iter().for_each(|answer| self.send(node, answer));
        self.carry_out(log);
        if stamp.is_none() {
            self.attached.retain(|known| known.node != node);
        }
        stamp
    }

    /// The connection of a replica has ended.
    pub(super) fn detach(&mut self, stamp: Stamp) {
        self.attached.retain(|known| known.stamp != stamp);
        match &mut self.role {
            Role::Alone(_) => {}
            Role::Primary(primary) => primary.detach(stamp),
            Role::Replica(replica) => replica.detach_below(stamp),
        }
    }

    /// A message of an attached replica.
    pub(super) fn receive(&mut self, from: NodeId, message: &ToPrimary, log: &Log) {
        let now = self.now();
        match &mut self.role {
            Role::Alone(_) => {}
            Role::Primary(primary) => {
                tell_end(primary, now, log);
                primary.receive(now, from, message);
                self.carry_out(log);
            }
            Role::Replica(replica) => {
                if let ToPrimary::Ack(ack) = message {
                    replica.ack_below(from, ack);
                }
            }
        }
    }

    /// Does what the machine of the primary asks for.
    pub(super) fn carry_out(&mut self, log: &Log) {
        while let Some(primary) = self.primary() {
            let acts = primary.acts();
            if acts.is_empty() {
                break;
            }
            for act in acts {
                match act {
                    PrimaryAct::Send(to, message) => self.send(to, message),
                    PrimaryAct::Begin(start) => self.begin(start, log),
                    PrimaryAct::Superseded(epoch, by) => {
                        tracing::warn!(
                            epoch = epoch.0,
                            "another server is the primary of this data"
                        );
                        if self.is_recorded() {
                            self.tasks.push(Task::StepDown);
                            continue;
                        }
                        let by = self.attached.iter().find(|attached| Some(attached.node) == by);
                        let source = by.map(|by| Source { host: by.ip.clone(), port: by.port });
                        self.tasks.extend(source.map(Task::Follow));
                    }
                    // Neither happens without records.
                    PrimaryAct::Ask(request) => self.ask(request),
                    PrimaryAct::MustNotStart(why) => self.refuse_start(why),
                    PrimaryAct::GaveUp(node, why) => self.note_given_up(node, why),
                    PrimaryAct::PauseWrites => self.tasks.push(Task::PauseWrites),
                    PrimaryAct::ResumeWrites => self.tasks.push(Task::ResumeWrites),
                    PrimaryAct::FailoverEnded(end) => {
                        tracing::warn!(?end, "the failover has ended");
                        self.failover = Some(end);
                    }
                }
            }
        }
        self.publish(log);
    }

    /// States up to where replies need not wait for replicas.
    pub(super) fn publish(&self, log: &Log) {
        let (replicated, lacks) = match &self.role {
            Role::Primary(primary) if self.awaits() => {
                let lacks = match primary.writes(self.now()) {
                    // After a change of the primary the replicas come soon.
                    Writes::NoReplicas => !primary.is_fresh(self.now()),
                    writes => writes == Writes::Closed,
                };
                (primary.committed(), lacks)
            }
            // What still waits has an open fate: no replica of this server will acknowledge it.
            Role::Replica(_) if self.awaits() => (log.replicated(), true),
            _ => (Lsn::MAX, false),
        };
        log.set_replicated(replicated, lacks);
        let until = match &self.role {
            _ if !self.is_recorded() => Moment::MAX,
            Role::Primary(primary) => primary.answers_until().unwrap_or_default(),
            Role::Replica(replica) if replica.may_answer(self.now()) => Moment::MAX,
            Role::Alone(_) | Role::Replica(_) => Moment::ZERO,
        };
        let until = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        // ORDERING: Relaxed; nothing else is read through it, and whoever reads an older one stops earlier.
        self.answers_until.store(until, Ordering::Relaxed);
        let epoch = match &self.role {
            _ if !self.is_recorded() => u64::MAX,
            Role::Primary(primary) if primary.is_serving() => primary.epoch().0,
            _ => 0,
        };
        // ORDERING: Relaxed, as above.
        self.leads_in.store(epoch, Ordering::Relaxed);
        let is_alone = matches!(&self.role, Role::Primary(primary) if primary.is_alone());
        // ORDERING: Relaxed; whoever reads an older one asks the machine in vain, or waits for its next tick.
        self.is_alone.store(is_alone, Ordering::Relaxed);
    }

    fn send(&self, to: NodeId, message: ToReplica) {
        if let Some(attached) = self.attached.iter().find(|attached| attached.node == to) {
            // Its task has ended if it takes no messages.
            let _ = attached.messages.send(message);
        }
    }

    /// Puts the beginning of an epoch into the stream. Nothing serves an epoch that cannot be put where it begins.
    fn begin(&mut self, start: Start, log: &Log) {
        if !ends_with(log, start.first - 1) {
            self.tasks.push(Task::StepDown);
            return;
        }
        let epochs = self.epochs();
        let mut records = Records::new();
        records.push(&Effect::Epochs { history: &epochs });
        log.append(&mut records);
    }

    /// The attached replicas.
    pub(super) fn replicas(&self) -> Vec<ReplicaStatus> {
        let now = self.now();
        let Some(feed) = self.feed() else { return Vec::new() };
        let is_in_sync = |node: NodeId| match &self.role {
            Role::Primary(primary) => {
                primary.in_sync().contains(&node) && primary.keeps_up(now, node)
            }
            Role::Alone(_) | Role::Replica(_) => false,
        };
        let status = |attached: &Attached| {
            let follower = feed.follower(attached.node)?;
            let lag = feed.lag(now, follower);
            Some(ReplicaStatus {
                node: attached.node,
                ip: attached.ip.clone(),
                port: attached.port,
                stage: attached.progress.stage(),
                copied: attached.progress.copied(),
                applied: follower.positions.applied,
                written: follower.positions.written,
                synced: follower.positions.synced,
                lag: lag.time,
                lag_bytes: lag.bytes,
                is_in_sync: is_in_sync(attached.node),
                is_full: follower.is_full,
            })
        };
        self.attached.iter().filter_map(status).collect()
    }
}

/// Tells a primary where the stream ends, and returns that. Replicas get what is written: what waits for space on a
/// full disk is not acknowledged, and no replica lags behind it.
pub(super) fn tell_end(primary: &mut Primary, now: Moment, log: &Log) -> Lsn {
    let is_full = primary.is_serving() && log.error().is_some_and(|error| error.is_temporary);
    let last = if is_full { log.written() } else { log.handed() };
    primary.appended(now, last, log.length());
    last
}

/// Whether the log ends with this record, as it must before an epoch begins: else the records between
/// would belong to two epochs. A log that has failed for good takes no records at all.
fn ends_with(log: &Log, last: Lsn) -> bool {
    let end = log.handed();
    let ends = end == last || log.is_lost();
    if !ends {
        tracing::error!(
            end,
            last,
            "this server does not become primary: its log does not end with the last record that it has applied"
        );
    }
    ends
}

/// What a replica's link must do.
#[derive(Debug, Default)]
pub struct LinkWork {
    /// Messages to the primary.
    pub messages: Vec<ToPrimary>,
    /// The link must end.
    pub ends: bool,
    /// The role is there to be taken.
    pub take_over: Option<Box<TakeOver>>,
}
