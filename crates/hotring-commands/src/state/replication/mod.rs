//! The role of this server in replication, and the state of its links. The links' I/O is in `hotring-server`'s
//! `tasks/replicate`; what the roles promise is in `docs/design/replication.md`.

pub mod attached;
pub mod codec;
pub mod link;
pub mod recorded;
pub mod redis;
pub mod roles;
pub mod tail;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotring_cluster::{
    Epoch, FailoverRefused, Held, Hello, Identity, NodeId, Replica, Stamp, StoreId, TakeOver,
    ToPrimary, Told, Writes,
};
use hotring_log::{Backlog, Log, Lsn};
use hotring_store::Session;
use tokio::sync::{Notify, watch};

use crate::host::{clock, fiber};
use crate::settings::config::{Config, ReplicationSettings, Source};
use attached::Attached;
pub use attached::{ReplicaStatus, Stage};
use link::{Link, LinkStatus};
use recorded::Desk;
use redis::RedisLink;
use roles::{LinkWork, Role, Roles, Task};
use tail::DivergentTail;

/// The error of a write on a replica. Clients know the code and the text from Redis.
pub const READONLY: &str = "READONLY You can't write against a read only replica.";

/// The error of a write that too few replicas would get. Clients know the code and the text from Redis.
pub const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// Why a replica does not become a primary.
pub(crate) const HALF_RECEIVED: &str = "ERR this replica has received only a part of its primary's data and cannot be a primary of it. Let the copy end, or \
     restart the server without replicaof to begin empty";

/// Why a replica of a replica does not become a primary.
const BELOW_A_REPLICA: &str = "ERR the data of this server came by a replica: no in-sync-replicas waited for it, and it may lack acknowledged \
     writes. Promote a replica of the primary, or this one with REPLICAOF NO ONE FORCE";

/// Why a replica with a log that is ahead of its data does not become a primary.
const UNEVEN_LOG: &str = "ERR the log of this replica does not end with the last record that it has applied. Let it link to its primary or \
     restart it, and try again";

/// Why a replica of a Redis does not become a primary.
pub(crate) const UNFINISHED_COPY: &str = "ERR the copy of the primary's data is unfinished: most keys may be missing. Follow a primary until it is complete, \
     or keep what is there with REPLICAOF NO ONE FORCE";

/// What a server is called in replication; drawn at its start.
#[derive(Clone, Debug)]
pub struct Names {
    /// The server in this start.
    pub me: Identity,
    /// The data that the server will have, if it is the first to have it.
    pub store: StoreId,
    /// What seeds the hash of the store. Clients must not learn it.
    pub seed: StoreId,
    /// 40 hexadecimal digits that name the stream to operators and tools.
    pub stream: String,
    /// The epoch of a node of a cluster since whose beginning it has lost nothing that it acknowledged as primary, if
    /// its log has that beginning.
    pub kept: Option<Epoch>,
}

/// Figures of replication since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Full copies that were begun, and links that needed none.
    pub full: AtomicU64,
    pub partial: AtomicU64,
}

/// The state of replication.
pub struct Replication {
    pub counts: Counts,
    is_replica: AtomicBool,
    /// The time since the boot at which the roles' time began.
    started: Duration,
    /// The time up to which clients may be answered, in milliseconds since `started`; the maximum without a limit.
    answers_until: Arc<AtomicU64>,
    /// The epoch in which this node is primary, see [`Roles::leads_in`].
    leads_in: Arc<AtomicU64>,
    /// How often the role was changed.
    changes: AtomicU64,
    /// Whether this node is primary and waits for no replica.
    is_alone: Arc<AtomicBool>,
    /// What writes get, as a [`Writes`].
    writes: AtomicU8,
    /// Tells the thread of the links that the machine has something for it.
    work: Notify,
    /// Tells the thread of the records that a machine asks them for something.
    asks: Arc<Notify>,
    /// The primary to follow; None on a primary. Each change begins a new link, even to the same primary.
    source: watch::Sender<Option<Arc<Source>>>,
    link: Mutex<Link>,
    /// What only a link to a Redis has.
    pub redis: RedisLink,
    /// What seeds the hash of the store. Only a link that has authenticated may learn it.
    pub(crate) seed: StoreId,
    /// The records that the primary does not have.
    pub tail: DivergentTail,
    /// The records up to this one cannot be sent from the log's files: one of them is damaged.
    unreadable: AtomicU64,
    id: Mutex<String>,
    roles: Mutex<Roles>,
    /// Held while received records are handed to the log and applied, so that a change of the role comes between them.
    applying: Mutex<()>,
}

impl Replication {
    pub(super) fn new(config: &Config, names: Names) -> Self {
        let started = clock::since_boot();
        let source = config.replication.source.clone().map(Arc::new);
        let asks = Arc::new(Notify::new());
        let is_recorded = config.replication.is_recorded();
        let records = is_recorded.then(|| Desk::new(names.kept, asks.clone()));
        let is_replica = source.is_some() || records.is_some();
        let mut roles = Roles::new(names.me, names.store, started, records);
        roles.set_rules(&config.replication, None);
        Replication {
            counts: Counts::default(),
            is_replica: AtomicBool::new(is_replica),
            started,
            answers_until: roles.answers_until.clone(),
            leads_in: roles.leads_in.clone(),
            changes: AtomicU64::new(0),
            is_alone: roles.is_alone.clone(),
            writes: AtomicU8::new(roles.writes() as u8),
            work: Notify::new(),
            asks,
            source: watch::Sender::new(source),
            link: Mutex::new(Link::default()),
            redis: RedisLink::default(),
            seed: names.seed,
            tail: DivergentTail::default(),
            unreadable: AtomicU64::new(0),
            id: Mutex::new(names.stream),
            roles: Mutex::new(roles),
            applying: Mutex::new(()),
        }
    }

    /// Applies changed settings.
    pub(super) fn set_rules(&self, settings: &ReplicationSettings, log: Option<&Log>) {
        let mut roles = self.roles();
        roles.set_rules(settings, log);
        // Now, not at the next tick: until then writes would be applied for which a replica is missing.
        self.publish_writes(roles.writes());
        drop(roles);
        self.work.notify_one();
    }

    /// The error of a write, if writes are refused because of the role or for lack of replicas.
    pub(crate) fn refuses_writes(&self) -> Option<&'static str> {
        if self.is_replica() {
            return Some(READONLY);
        }
        self.lacks_replicas().then_some(NO_REPLICAS)
    }

    /// Whether a primary refuses writes for lack of replicas.
    pub fn lacks_replicas(&self) -> bool {
        // ORDERING: Relaxed; a thread learns of a change from the version of the settings.
        let writes = self.writes.load(Ordering::Relaxed);
        writes == Writes::NoReplicas as u8 || writes == Writes::Closed as u8
    }

    /// Publishes whether writes are accepted; true if that has changed.
    fn publish_writes(&self, writes: Writes) -> bool {
        // ORDERING: Relaxed, as above.
        self.writes.swap(writes as u8, Ordering::Relaxed) != writes as u8
    }

    /// Whether clients may be answered now. The clock is read if that depends on it.
    #[inline]
    pub fn may_answer(&self) -> bool {
        // ORDERING: Relaxed, see `Roles::publish`.
        match self.answers_until.load(Ordering::Relaxed) {
            u64::MAX => true,
            until => {
                let now = clock::since_boot().saturating_sub(self.started);
                now.as_millis() < u128::from(until)
            }
        }
    }

    /// Whether this server is primary in this epoch, as the record of its shard has it. A record of an earlier epoch
    /// may be older than a transaction of the primary before, which gave slots away. Without records any epoch will do.
    #[inline]
    pub(crate) fn leads_in(&self, epoch: Epoch) -> bool {
        // ORDERING: Relaxed, see `Roles::publish`.
        let leads_in = self.leads_in.load(Ordering::Relaxed);
        leads_in == epoch.0 || leads_in == u64::MAX
    }

    /// The epoch in which this node of a cluster is primary.
    pub fn led_epoch(&self) -> Option<Epoch> {
        // ORDERING: Relaxed, see `Roles::publish`.
        let epoch = self.leads_in.load(Ordering::Relaxed);
        (epoch != 0 && epoch != u64::MAX && !self.is_replica()).then_some(Epoch(epoch))
    }

    /// Whether all in-sync replicas of this primary have applied a record, whatever `ack` waits for.
    pub fn has_committed(&self, lsn: Lsn, log: &Log) -> bool {
        self.grown(log);
        matches!(&self.roles().role, Role::Primary(primary) if primary.committed() >= lsn)
    }

    /// Waits until the machine has something for the thread of the links.
    pub async fn worked(&self) {
        self.work.notified().await;
    }

    /// Whether this server is no primary, and so refuses writes.
    #[inline]
    pub fn is_replica(&self) -> bool {
        // ORDERING: Relaxed; a thread learns of a change from the version of the settings.
        self.is_replica.load(Ordering::Relaxed)
    }

    /// The primary to follow; None on a primary.
    pub fn source(&self) -> Option<Arc<Source>> {
        self.source.borrow().clone()
    }

    /// The primary to follow, as it is shown: without an address if this replica of a cluster has none yet.
    pub(crate) fn shown_source(&self) -> Option<Arc<Source>> {
        let nobody = || Arc::new(Source { host: String::new(), port: 0 });
        self.source().or_else(|| self.is_replica().then(nobody))
    }

    /// A view of the primary to follow that tells of changes.
    pub fn watch_source(&self) -> watch::Receiver<Option<Arc<Source>>> {
        self.source.subscribe()
    }

    /// Changes the primary to follow, and the flag that refuses writes: a replica may have no primary for a time.
    pub(super) fn set_source(&self, source: Option<Source>, is_replica: bool) {
        // ORDERING: Relaxed, see `is_replica`.
        self.is_replica.store(is_replica, Ordering::Relaxed);
        // ORDERING: Release, see `told_epoch`.
        self.changes.fetch_add(1, Ordering::Release);
        self.link().restart();
        self.source.send_replace(source.map(Arc::new));
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        // No code panics between changes of the link's state.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn roles(&self) -> MutexGuard<'_, Roles> {
        // A panic within a machine leaves it as it was before the message, or with the message taken.
        self.roles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks out changes of the role while received records are handed to the log and applied.
    pub fn lock_applying(&self) -> MutexGuard<'_, ()> {
        // What is applied may wait for keys that a suspended batch of this thread holds.
        fiber::lock(&self.applying)
    }

    /// Changes the state of the link to the primary.
    pub fn update_link(&self, change: impl FnOnce(&mut Link)) {
        change(&mut self.link());
    }

    /// The state of the link to the primary.
    pub fn link_status(&self) -> LinkStatus {
        self.link().status()
    }

    /// The public id of the stream.
    pub fn id(&self) -> String {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the public id of the stream: a replica shows that of its primary.
    pub fn set_id(&self, id: &str) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id.to_string();
    }

    /// A record of epochs was recovered from the disk; the last one counts.
    pub fn recovered(&self, epochs: &[u8]) {
        if let Some((store, history)) = codec::epochs_of(epochs) {
            self.roles().recovered(Held {
                store,
                history,
                last: 0,
                whole: true,
                repairing: false,
                adopt: false,
                indirect: false,
                caught_up: false,
            });
        }
    }

    /// The recovered data came by another replica.
    pub fn recovered_by_a_replica(&self) {
        self.roles().recovered_by_a_replica();
    }

    /// The content of the record of epochs, if the stream has any.
    pub fn epochs(&self) -> Option<Vec<u8>> {
        let roles = self.roles();
        roles.has_epochs().then(|| roles.epochs())
    }

    /// The present epoch of the stream.
    pub(super) fn epoch(&self) -> Epoch {
        self.roles().held(0, false).history.epoch()
    }

    /// Whether the stream has any epoch yet.
    pub(super) fn has_epochs(&self) -> bool {
        self.roles().has_epochs()
    }

    /// Takes the role for which the settings ask, once the server's own data is loaded. Nothing is written yet.
    pub fn begin(&self, session: &mut Session, log: &Log, backlog: &Backlog) {
        if self.roles().is_recorded() {
            return self.begin_idle(session, log, backlog);
        }
        let has_epochs = self.has_epochs();
        if self.is_replica() || self.roles().awaits() {
            session.switch_log(true);
        }
        if self.is_replica() {
            session.switch_role(hotring_store::Role::Replica, clock::unix_ms());
        } else if has_epochs || self.roles().awaits() {
            session.follow(true);
        }
        if self.is_replica() || has_epochs {
            // A replica of this server may be about to come back.
            backlog.turn_on(log);
        }
        if !self.is_replica() {
            self.mark_from_now(session);
        }
        let mut roles = self.roles();
        match self.is_replica() {
            true => roles.become_replica(log.handed(), false, Some(log)),
            // A server that never was a part of anything needs no epochs.
            false if has_epochs || roles.awaits() => roles.become_primary(log),
            false => {}
        }
    }

    /// Whether the store must mark writes, because replies wait for replicas. None: as before.
    fn marks_writes(&self) -> Option<bool> {
        let roles = self.roles();
        match roles.role {
            Role::Primary(_) | Role::Alone(_) => Some(roles.awaits()),
            // What a former primary alone has may still be there.
            Role::Replica(_) => None,
        }
    }

    /// Begins or ends to mark writes, as the settings and the role ask for.
    pub fn mark_writes(&self, session: &mut Session) {
        if let Some(on) = self.marks_writes().filter(|on| *on != session.marks_writes()) {
            session.mark_writes(on);
        }
    }

    /// Ends the marking at a replica, because from here on it has nothing that its primary has not. The caller must
    /// have [locked](Self::lock_applying) what is applied, so that a promotion comes before or after.
    pub fn end_marks(&self, session: &mut Session, _applying: &MutexGuard<'_, ()>) {
        if self.is_replica() && session.marks_writes() {
            session.mark_writes(false);
        }
    }

    /// Has writes marked if replies wait for replicas, before the time as a primary begins. It is unknown which of
    /// the earlier writes the replicas have.
    fn mark_from_now(&self, session: &mut Session) {
        let roles = self.roles();
        let (awaits, is_primary) = (roles.awaits(), matches!(roles.role, Role::Primary(_)));
        drop(roles);
        if !is_primary {
            session.mark_writes(awaits);
        }
    }

    /// Becomes a primary for its first replica. True if writes are logged from now on.
    pub fn become_primary(&self, session: &mut Session, log: &Log) -> bool {
        if self.is_replica() {
            return false;
        }
        session.switch_log(true);
        // What expires from here on is removed in the stream.
        let is_followed = session.follow(true).is_some();
        self.mark_from_now(session);
        is_followed
            && session
                .at_end_of_log(|_, _| {
                    let is_primary = !self.is_replica();
                    if is_primary {
                        self.roles().become_primary(log);
                    }
                    is_primary
                })
                .unwrap_or(false)
    }

    /// Becomes a replica at a moment without writes; `last` is the end of the log.
    pub(super) fn become_replica(&self, last: Lsn, log: Option<&Log>) {
        self.roles().become_replica(last, true, log);
    }

    /// The data is about to be replaced by that of another kind of primary, so no primary's records may follow on it.
    /// The caller must have locked changes of the role out.
    pub fn leave_stream(&self, log: &Log) {
        self.tail.end();
        self.roles().leave_stream(log);
    }

    /// Becomes a primary by promotion, at a moment without writes.
    ///
    /// # Errors
    /// Only a part of the primary's data is there, or it came by another replica and nothing is forced.
    pub(super) fn promote(
        &self,
        session: &mut Session,
        log: Option<&Log>,
        is_forced: bool,
    ) -> Result<(), &'static str> {
        if !is_forced && self.roles().replica().is_some_and(|replica| replica.is_indirect()) {
            return Err(BELOW_A_REPLICA);
        }
        self.mark_from_now(session);
        let mut roles = self.roles();
        let now = roles.now();
        let Role::Replica(replica) = &mut roles.role else { return Ok(()) };
        let has_history = !replica.history().starts().is_empty();
        // An operator who asks for this has decided about the rest; FAILOVER is the way that checks.
        replica.promote(now, Vec::new(), true).map_err(|_| HALF_RECEIVED)?;
        let taken = replica.acts().into_iter().find_map(|act| match act {
            hotring_cluster::ReplicaAct::TakeOver(from) => Some(from),
            _ => None,
        });
        match (taken, log) {
            (Some(from), Some(log)) if has_history => {
                begin_numbers(session, from.told);
                if !roles.take_over(*from, log) {
                    return Err(UNEVEN_LOG);
                }
            }
            _ => roles.be_alone(log.map_or(0, Log::handed)),
        }
        // Not only at the next tick: a write before would be applied, and its replica is most likely not there.
        self.publish_writes(roles.writes());
        Ok(())
    }

    /// Passes the time to the machine of the role. Returns what the server must do, and whether what writes get has
    /// changed.
    pub fn tick(&self, told: Told, log: &Log) -> (Vec<Task>, bool) {
        let mut roles = self.roles();
        roles.tick(told, log);
        (roles.take_tasks(), self.publish_writes(roles.writes()))
    }

    /// The stream has grown. Where replicas are waited for, their answers tell; else the machine must hear of it here,
    /// or what waits for it waits for the next tick.
    pub fn grown(&self, log: &Log) {
        // ORDERING: Relaxed, see `Roles::publish`.
        if self.is_alone.load(Ordering::Relaxed) {
            self.roles().grown(log);
        }
    }

    /// All writes are held back.
    pub(super) fn paused(&self, log: &Log) {
        self.roles().paused(log);
        self.work.notify_one();
    }

    /// Begins a failover.
    pub fn fail_over(
        &self,
        to: Option<NodeId>,
        timeout: Option<Duration>,
        force: bool,
        log: &Log,
    ) -> Result<(), FailoverRefused> {
        self.roles().fail_over(to, timeout, force, log)?;
        self.work.notify_one();
        Ok(())
    }

    /// Ends a failover; false if there is none.
    pub fn abort_failover(&self, log: &Log) -> bool {
        let ended = self.roles().abort_failover(log);
        self.work.notify_one();
        ended
    }

    /// Whether a failover is under way.
    pub fn is_failing_over(&self) -> bool {
        self.roles().writes() == Writes::Paused
    }

    /// Becomes a primary by a handover, at a moment without writes. False if this server stays a replica.
    pub(super) fn take_over(&self, session: &mut Session, from: TakeOver, log: &Log) -> bool {
        self.mark_from_now(session);
        begin_numbers(session, from.told);
        let mut roles = self.roles();
        let has_begun = roles.take_over(from, log);
        self.publish_writes(roles.writes());
        has_begun
    }

    /// Runs `f` on the machine of a replica with the time; None if this server is none.
    pub fn with_replica<R>(
        &self,
        f: impl FnOnce(&mut Replica, hotring_cluster::Moment) -> R,
    ) -> Option<R> {
        let mut roles = self.roles();
        let now = roles.now();
        let result = roles.replica().map(|replica| f(replica, now));
        roles.end_links();
        result
    }

    /// The first message of a new link; None if this server is no replica, or is becoming a primary.
    pub fn hello(&self, floor: Lsn) -> Option<Hello> {
        let mut roles = self.roles();
        // What the machine wanted of an earlier link.
        roles.link_work.messages.clear();
        roles.link_work.ends = false;
        roles.replica()?.hello(floor)
    }

    /// What the link of this replica must do.
    pub fn link_work(&self) -> LinkWork {
        self.roles().take_link_work()
    }

    /// The first record that could be sent, if the backlog begins with `in_memory` and the log's files with `on_disk`.
    pub fn oldest(&self, in_memory: Lsn, on_disk: Option<Lsn>) -> Lsn {
        // ORDERING: Relaxed; a link that learns of it late meets the damage itself.
        let unreadable = self.unreadable.load(Ordering::Relaxed);
        let first = on_disk.map_or(in_memory, |first| first.max(unreadable + 1));
        first.min(in_memory)
    }

    /// This record cannot be read from the log's files.
    pub fn note_unreadable(&self, lsn: Lsn) {
        // ORDERING: Relaxed, as above.
        self.unreadable.fetch_max(lsn, Ordering::Relaxed);
    }

    /// Attaches a replica that has said hello; `oldest` is the first record that could be sent. None if this server
    /// feeds no replicas now.
    pub fn attach(
        &self,
        hello: &Hello,
        oldest: Lsn,
        log: &Log,
        attached: Attached,
    ) -> Option<Stamp> {
        self.roles().attach(hello, oldest, log, attached)
    }

    /// The connection of a replica has ended.
    pub fn detach(&self, stamp: Stamp) {
        self.roles().detach(stamp);
    }

    /// A message of an attached replica.
    pub fn receive(&self, from: NodeId, message: &ToPrimary, log: &Log) {
        let mut roles = self.roles();
        roles.receive(from, message, log);
        if roles.has_tasks() {
            self.work.notify_one();
        }
    }

    /// The number of replicas that have applied a record.
    pub(crate) fn applied_by(&self, lsn: Lsn) -> usize {
        self.roles().primary().map_or(0, |primary| primary.feed().applied_by(lsn))
    }

    /// The number of replicas that have synced a record.
    pub(crate) fn synced_by(&self, lsn: Lsn) -> usize {
        self.roles().primary().map_or(0, |primary| primary.feed().synced_by(lsn))
    }

    /// The attached replicas.
    pub fn replicas(&self) -> Vec<ReplicaStatus> {
        self.roles().replicas()
    }

    /// The last record that this replica has applied; None on a primary.
    pub fn applied(&self) -> Option<Lsn> {
        self.roles().replica().map(|replica| replica.last())
    }
}

/// Has compare-and-swap numbers begin above those of the old primary, which has told its last one in each beat, and may
/// have given more since.
fn begin_numbers(session: &Session, told: Told) {
    const SINCE: u64 = 1 << 40;
    // Some clients hold them as signed numbers.
    const MAX: u64 = 1 << 62;
    session.unique_numbers().begin_above(told.cas.saturating_add(SINCE).min(MAX));
}

#[cfg(any(test, fuzzing, feature = "testing"))]
impl Names {
    /// The names of a server without sockets.
    pub(super) fn unconnected() -> Names {
        let me = Identity { node: NodeId([1; 20]), incarnation: hotring_cluster::Incarnation(1) };
        Names { me, store: [1; 16], seed: [2; 16], stream: "1".repeat(40), kept: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source { host: "h".into(), port: 1 }
    }

    #[test]
    fn a_change_of_the_source_is_seen_even_if_it_is_the_same() {
        let replication = Replication::new(&Config::default(), Names::unconnected());
        let mut watched = replication.watch_source();
        assert!(!replication.is_replica() && replication.source().is_none());
        for _ in 0..2 {
            replication.set_source(Some(source()), true);
            assert!(watched.has_changed().unwrap());
            assert_eq!(watched.borrow_and_update().as_deref(), Some(&source()));
            assert!(replication.is_replica());
        }
        replication.set_source(None, false);
        assert!(watched.has_changed().unwrap() && !replication.is_replica());
    }
}
