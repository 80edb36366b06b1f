//! The role of a node of a cluster: the coordinator's records say it, and the machines ask for changes of them.
//!
//! ```text
//!   idle --a record lists it--> replica --promoted--+
//!    |                                              v
//!    +--a record names it--> claiming -----------> primary --superseded--> replica
//!                               |                                             ^
//!                               +---------------may have lost something-------+
//! ```
//! A node that is no serving primary refuses writes within the gate, so its log grows by its primary's records alone,
//! and an epoch begins at exactly the record that the machine names.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_cluster::lost::Extent;
use hotring_cluster::{
    Epoch, GivenUp, Held, History, Identity, Kept, Moment, NodeId, Origin, Outcome, Primary,
    PromoteRefused, Replica, ReplicaAct, Request, Revision, Set, Shard, ShardId, StartRefused,
    TakeOver, Told,
};
use hotring_log::{Backlog, Log, Lsn};
use hotring_store::Session;
use tokio::sync::Notify;

use super::Replication;
use super::roles::{LinkWork, Role, Roles, Task, tell_end};
use crate::host::clock;

/// What the machines ask of the records.
#[derive(Debug)]
pub(super) struct Desk {
    /// The shard of this node, once a record has it.
    shard: Option<ShardId>,
    /// Counts machines: the outcome of a request belongs to the machine that asked.
    machine: u64,
    requests: VecDeque<Asked>,
    /// The present machine's request was taken, and the machine has not heard the outcome.
    is_asking: bool,
    /// Tells that there is a request.
    asks: Arc<Notify>,
    /// The own data is loaded, and the store refuses writes.
    is_ready: bool,
    /// The epoch before this start since whose beginning the node has lost nothing, if its log has that beginning.
    kept: Option<Epoch>,
}

/// A request of a machine to the records.
#[derive(Debug)]
pub struct Asked {
    /// The machine, which [`Replication::hear_outcome`] must be told.
    pub machine: u64,
    /// The request.
    pub request: Request,
}

/// What a record makes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// The record names it as primary, and it has no role yet.
    Begins,
    /// Its machine is that of a primary.
    Leads,
    /// It follows the primary of the record.
    Follows,
    /// It leads another shard, whose record is gone.
    Leaves,
    /// It waits for another record.
    Waits,
}

/// What an outcome has led to.
#[derive(Debug)]
pub enum Heard {
    Nothing,
    /// The epoch of this node has begun.
    Serves,
    /// The role is there to be taken.
    TakesOver(Box<TakeOver>),
}

impl Desk {
    /// The desk of a node that has lost nothing since this epoch of its own began, or may have.
    pub(super) fn new(kept: Option<Epoch>, asks: Arc<Notify>) -> Desk {
        let (shard, machine, requests) = (None, 0, VecDeque::new());
        let (is_asking, is_ready) = (false, false);
        Desk { shard, machine, requests, is_asking, asks, is_ready, kept }
    }
}

impl Replication {
    /// When this primary must no longer answer clients, as the time since the boot. None if it is no primary.
    pub(crate) fn leads_until(&self) -> Option<Moment> {
        let epoch = self.led_epoch()?;
        // ORDERING: Relaxed, see `Roles::publish`.
        let until = match self.answers_until.load(Ordering::Relaxed) {
            u64::MAX => Moment::MAX,
            until => self.started + Duration::from_millis(until),
        };
        // A replica's may be longer.
        (self.led_epoch() == Some(epoch)).then_some(until)
    }

    /// The time since this server's start.
    pub(in crate::state) fn uptime(&self) -> Duration {
        clock::since_boot().saturating_sub(self.started)
    }

    /// This node in this start.
    pub fn me(&self) -> Identity {
        self.roles().me
    }

    /// The epoch of what clients were told: what was told in another one may be undone. Without records it is the
    /// number of changes of the role.
    pub fn told_epoch(&self) -> Epoch {
        // ORDERING: Relaxed, see `Roles::publish`.
        match self.leads_in.load(Ordering::Relaxed) {
            // ORDERING: Acquire pairs with the Release in `set_source`: what is met of a new role has its epoch.
            u64::MAX => Epoch(self.changes.load(Ordering::Acquire)),
            epoch => Epoch(epoch),
        }
    }

    /// The own data of a node of a cluster is loaded. It serves nothing until a record gives it a role.
    pub(super) fn begin_idle(&self, session: &mut Session, log: &Log, backlog: &Backlog) {
        session.switch_log(true);
        session.follow(true);
        session.switch_role(hotring_store::Role::Replica, clock::unix_ms());
        backlog.turn_on(log);
        if let Some(records) = &mut self.roles().records {
            records.is_ready = true;
        }
    }

    /// Waits until a machine asks the records for something.
    pub async fn asked(&self) {
        self.asks.notified().await;
    }

    /// The next request to the records.
    pub fn next_asked(&self) -> Option<Asked> {
        let mut roles = self.roles();
        let desk = roles.records.as_mut()?;
        let asked = desk.requests.pop_front()?;
        desk.is_asking = true;
        Some(asked)
    }

    /// The machine whose request was taken and which has heard no outcome. While no request is being passed on, a
    /// panic has lost that outcome.
    pub fn unanswered(&self) -> Option<u64> {
        self.roles().records.as_ref().filter(|desk| desk.is_asking).map(|desk| desk.machine)
    }

    /// What became of a request of this machine. The caller must have locked changes of the role out.
    pub(in crate::state) fn hear_outcome(
        &self,
        machine: u64,
        outcome: Outcome,
        session: &mut Session,
        log: &Log,
    ) -> Heard {
        let mut roles = self.roles();
        let awaits = roles.awaits();
        if roles.is_claiming() {
            drop(roles);
            // It is unknown which of the earlier writes the replicas have.
            session.mark_writes(awaits);
            roles = self.roles();
        }
        let heard = roles.outcome(machine, outcome, log);
        self.publish_writes(roles.writes());
        if roles.has_tasks() {
            self.work.notify_one();
        }
        heard
    }

    /// What a record makes of this node, while the leases of the `missing` nodes have ended. None before its data is
    /// loaded.
    pub(in crate::state) fn stand(
        &self,
        shard: ShardId,
        revision: Revision,
        record: &Shard,
        missing: impl Iterator<Item = NodeId>,
        log: &Log,
    ) -> Option<Stand> {
        let mut roles = self.roles();
        if let Role::Primary(primary) = &mut roles.role {
            missing.for_each(|node| primary.miss(node));
        }
        let stand = roles.stand(shard, revision, record, log);
        if roles.has_tasks() {
            self.work.notify_one();
        }
        stand
    }

    /// Whether this node is a replica of this shard.
    pub(in crate::state) fn is_replica_of(&self, shard: ShardId) -> bool {
        let roles = self.roles();
        matches!(roles.role, Role::Replica(_)) && roles.shard() == Some(shard)
    }

    /// Becomes a replica of this shard. Its data ends with this record, and `adopts` says that it gives them up if the
    /// shard has others.
    pub(in crate::state) fn follow_recorded(
        &self,
        shard: ShardId,
        adopts: bool,
        last: Lsn,
        log: &Log,
    ) {
        let mut roles = self.roles();
        roles.set_shard(Some(shard));
        roles.be_recorded_replica(last, adopts, log);
    }

    /// No record has a place for this node. True if it leads.
    pub(in crate::state) fn leave_shard(&self) -> bool {
        let mut roles = self.roles();
        let leads = matches!(roles.role, Role::Primary(_));
        if !leads {
            roles.set_shard(None);
        }
        leads
    }

    /// Becomes a replica, after it was primary or was refused as one.
    pub(in crate::state) fn step_down(&self, last: Lsn, log: &Log) {
        let mut roles = self.roles();
        roles.be_recorded_replica(last, false, log);
        self.publish_writes(roles.writes());
    }

    /// Asks the records for the role that they gave this node before it started again.
    pub(in crate::state) fn claim(&self, shard: ShardId, log: &Log) {
        self.roles().claim(shard, log);
    }

    /// What makes this node the first primary of a shard, whose record names it in this start; None if its data has
    /// had another one.
    pub(in crate::state) fn founds(
        &self,
        shard: ShardId,
        revision: Revision,
        record: &Shard,
        log: &Log,
    ) -> Option<TakeOver> {
        self.roles().founds(shard, revision, record, log)
    }

    /// Whether this replica follows another one, which no longer is the primary, or is not again.
    pub fn follows_replica(&self) -> bool {
        self.roles().replica().is_some_and(|replica| replica.is_indirect())
    }

    /// Asks the records for the role of the primary, which this replica takes once they have it and its promise to the
    /// present one has ended.
    ///
    /// # Errors
    /// This node is no replica that has all that was acknowledged. With `accepts_loss` it need not have all.
    pub fn promote_recorded(&self, accepts_loss: bool) -> Result<(), PromoteRefused> {
        self.ask_for_role(|replica, now| replica.promote(now, Vec::new(), accepts_loss))
    }

    /// Asks for the role after the loss of a whole set, as the node of it with the most.
    ///
    /// # Errors
    /// This node is no replica that has told how far its data goes.
    pub fn inherit(&self, record: &Shard) -> Result<(), PromoteRefused> {
        self.ask_for_role(|replica, now| replica.inherit(now, record))
    }

    fn ask_for_role(
        &self,
        ask: impl FnOnce(&mut Replica, Moment) -> Result<(), PromoteRefused>,
    ) -> Result<(), PromoteRefused> {
        let mut roles = self.roles();
        let now = roles.now();
        let asked = roles.replica().map_or(Err(PromoteRefused::NoRecord), |it| ask(it, now));
        roles.go_on_with_promotion();
        drop(roles);
        self.work.notify_one();
        asked
    }

    /// The replicas that this primary has given up before they were in sync, until they are, and how often it has.
    pub fn given_up(&self) -> (Vec<NodeId>, u64) {
        let mut roles = self.roles();
        let nodes = roles.primary().map_or_else(Vec::new, |primary| primary.given_up().collect());
        (nodes, roles.joins_given_up)
    }

    /// How far the data of this node of the shard goes, if it is a replica that is not known to have everything.
    pub(in crate::state) fn extent(&self, shard: ShardId, record: &Shard) -> Option<Extent> {
        let mut roles = self.roles();
        let is_placed = roles.shard() == Some(shard);
        roles.replica().filter(|_| is_placed)?.extent(record)
    }
}

impl Roles {
    /// Whether this server is a node of a cluster.
    pub(super) fn is_recorded(&self) -> bool {
        self.records.is_some()
    }

    /// The shard whose record has the in-sync set.
    pub(super) fn shard(&self) -> Option<ShardId> {
        self.records.as_ref()?.shard
    }

    fn set_shard(&mut self, shard: Option<ShardId>) {
        if let Some(records) = &mut self.records {
            records.shard = shard;
        }
    }

    /// A machine begins: the outcomes of earlier ones' requests are not its own, nor is their link.
    pub(super) fn begin_machine(&mut self) {
        self.link_work = LinkWork::default();
        if let Some(records) = &mut self.records {
            records.machine += 1;
            records.requests.clear();
            records.is_asking = false;
        }
    }

    /// A machine asks the records.
    pub(super) fn ask(&mut self, request: Request) {
        if let Some(records) = &mut self.records {
            let machine = records.machine;
            records.requests.push_back(Asked { machine, request });
            records.asks.notify_one();
        }
    }

    /// Whether this node waits for the records to name its start.
    fn is_claiming(&self) -> bool {
        matches!(&self.role, Role::Primary(primary) if primary.is_claiming())
    }

    /// What became of a request. While this node is no primary, the store refuses writes: so the log ends as the
    /// machine knows when an epoch begins.
    fn outcome(&mut self, machine: u64, outcome: Outcome, log: &Log) -> Heard {
        if self.records.as_ref().is_none_or(|records| records.machine != machine) {
            return Heard::Nothing;
        }
        let (now, was_claiming) = (self.now(), self.is_claiming());
        match &mut self.role {
            Role::Alone(_) => Heard::Nothing,
            Role::Primary(primary) => {
                tell_end(primary, now, log);
                primary.outcome(now, outcome);
                let serves = was_claiming && primary.is_serving();
                self.end_asking();
                self.carry_out(log);
                if !serves || self.tasks.contains(&Task::StepDown) {
                    return Heard::Nothing;
                }
                self.forget_kept();
                Heard::Serves
            }
            Role::Replica(replica) => {
                replica.outcome(now, outcome);
                self.end_asking();
                self.sort_acts();
                self.link_work.take_over.take().map_or(Heard::Nothing, Heard::TakesOver)
            }
        }
    }

    /// The machine has heard the outcome. Before that a panic must leave it unanswered.
    fn end_asking(&mut self) {
        if let Some(records) = &mut self.records {
            records.is_asking = false;
        }
    }

    /// Sorts what the machine of a replica asks for: requests go to the records, the rest waits for the link.
    fn sort_acts(&mut self) {
        let Some(replica) = self.replica() else { return };
        for act in replica.acts() {
            match act {
                ReplicaAct::Send(_, message) => self.link_work.messages.push(message),
                ReplicaAct::Reconnect => self.link_work.ends = true,
                ReplicaAct::TakeOver(from) => self.link_work.take_over = Some(from),
                ReplicaAct::Ask(request) => self.ask(request),
                ReplicaAct::GivenUp(why) => {
                    tracing::warn!(?why, "this node does not become primary");
                    self.link_work.ends = true;
                }
            }
        }
    }

    /// What the link of this replica must do.
    pub(super) fn take_link_work(&mut self) -> LinkWork {
        self.sort_acts();
        std::mem::take(&mut self.link_work)
    }

    /// A promotion whose promise has ended is carried out, also without a link.
    pub(super) fn go_on_with_promotion(&mut self) {
        self.sort_acts();
        self.tasks.extend(self.link_work.take_over.take().map(Task::TakeOver));
    }

    fn stand(
        &mut self,
        shard: ShardId,
        revision: Revision,
        record: &Shard,
        log: &Log,
    ) -> Option<Stand> {
        let (me, is_ready) = (self.me, self.records.as_ref()?.is_ready);
        let (leads, is_new) = (record.primary.node == me.node, self.shard() != Some(shard));
        match &mut self.role {
            _ if !is_ready => None,
            Role::Primary(_) if is_new => Some(Stand::Leaves),
            Role::Primary(primary) => {
                primary.saw(revision, record);
                self.carry_out(log);
                Some(Stand::Leads)
            }
            Role::Alone(_) if leads => Some(Stand::Begins),
            Role::Replica(_) if leads && is_new => Some(Stand::Begins),
            // It was refused as primary, or has just asked for the role.
            Role::Replica(_) if leads => Some(Stand::Waits),
            Role::Alone(_) | Role::Replica(_) if record.replicas.contains(&me.node) => {
                Some(Stand::Follows)
            }
            Role::Alone(_) | Role::Replica(_) => Some(Stand::Waits),
        }
    }

    /// Becomes a replica. Unless it `adopts`, it gives up its data for no other primary than one of the same stream.
    fn be_recorded_replica(&mut self, last: Lsn, adopts: bool, log: &Log) {
        let held = self.held(last, adopts);
        let is_clean = self.is_clean(&held.history);
        self.forget_kept();
        let caught_up = !adopts && (held.caught_up || is_clean);
        self.be_replica_with(Held { caught_up, ..held });
        self.publish(log);
    }

    /// Whether nothing was lost since the last epoch of this node, which was before this start. What was kept is from
    /// the epoch of the note on: a log that ends in an earlier one has lost that epoch, and perhaps others' before it.
    fn is_clean(&self, history: &History) -> bool {
        let kept = self.records.as_ref().and_then(|records| records.kept);
        let own = history.last_start().filter(|start| start.node == self.me.node);
        kept.zip(own).is_some_and(|(kept, own)| own.epoch >= kept)
    }

    /// Another epoch has begun, or may begin unseen.
    fn forget_kept(&mut self) {
        if let Some(records) = &mut self.records {
            records.kept = None;
        }
    }

    fn claim(&mut self, shard: ShardId, log: &Log) {
        self.set_shard(Some(shard));
        self.begin_machine();
        let Held { store, history, last, .. } = self.held(log.handed(), false);
        // A refusal must not forget it: the node may then be a replica that has everything.
        let clean = self.is_clean(&history);
        let kept = Kept { store, history, last, clean };
        let origin = Origin::Recorded(shard);
        let primary = Primary::start(self.now(), self.me, self.rules, kept, origin);
        self.role = Role::Primary(Box::new(primary));
        self.carry_out(log);
    }

    fn founds(
        &mut self,
        shard: ShardId,
        revision: Revision,
        record: &Shard,
        log: &Log,
    ) -> Option<TakeOver> {
        self.set_shard(Some(shard));
        let Held { store, history, last, whole, .. } = self.held(log.handed(), false);
        if !whole || history.epoch() >= record.epoch {
            return None;
        }
        let (epoch, committed, told, deposed) = (record.epoch, 0, Told::default(), None);
        let (set, inherited) = (Set::Recorded(shard, revision, record.clone()), false);
        Some(TakeOver { store, history, epoch, last, committed, told, set, deposed, inherited })
    }

    /// A replica is given up before it was in sync.
    pub(super) fn note_given_up(&mut self, node: NodeId, why: GivenUp) {
        self.joins_given_up += 1;
        let why = match why {
            GivenUp::Behind => "it stood still while writes waited for it",
            GivenUp::Disconnected => "its link has ended",
        };
        tracing::warn!(
            %node,
            "a replica is not in sync, and is no longer waited for: {why}. It tries again by itself. Look at its log, its disk \
             and its network; if it is too slow, a larger repl-backlog or in-sync-lag helps"
        );
    }

    /// The node does not become the primary that it was before this start.
    pub(super) fn refuse_start(&mut self, why: StartRefused) {
        match why {
            StartRefused::NotNamed => {
                tracing::warn!("the records name another primary meanwhile: this node follows it");
            }
            StartRefused::MayHaveLost => tracing::error!(
                "the records name this node as primary, but it may have lost writes that it acknowledged: it serves \
                 nothing until another node of its shard is primary"
            ),
        }
        self.tasks.push(Task::StepDown);
    }
}

#[cfg(test)]
mod tests {
    use hotring_cluster::Epoch;
    use hotring_log::{AckWhen, Effect, Records};

    use super::super::Names;
    use super::*;

    /// Records that were applied but not yet told to the machine would have been part of the old epoch and the new one.
    #[test]
    fn no_epoch_begins_inside_the_log() {
        let Names { me, store, .. } = Names::unconnected();
        let mut roles = Roles::new(me, store, clock::since_boot(), None);
        let log = Log::new(4, AckWhen::Written, 1 << 20);
        roles.become_replica(log.handed(), false, Some(&log));
        let mut records = Records::new();
        records.push(&Effect::Epochs { history: &[] });
        log.append(&mut records);
        let from = |last| {
            let (epoch, set, deposed) = (Epoch(1), Set::Named(Vec::new()), None);
            let (history, told, committed) = (Default::default(), Told::default(), 0);
            let inherited = false;
            TakeOver { store, history, epoch, last, committed, told, set, deposed, inherited }
        };
        assert!(!roles.take_over(from(4), &log), "record 5 is in the log");
        assert!(roles.replica().is_some() && log.handed() == 5);
        assert!(roles.take_over(from(5), &log));
        assert!(roles.primary().is_some() && log.handed() == 6);
    }
}
