//! The server's place in a cluster: which node it is, the records of the cluster as last seen, the slots that are on
//! their way, and how its coordinator answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use hotring_cluster::directory::{Directory, MoveId};
use hotring_cluster::mirrors::{Key, MirrorAct};
use hotring_cluster::{Epoch, Lsn, NodeId, SLOTS, SlotSet, Tenure, slot_of};
use hotring_store::{Grounds, Standing};
use tokio::sync::{Notify, watch};

use crate::host::clock;
use crate::state::forwarding::Forwarding;
use crate::state::mirrors::Mirrors;
use crate::state::moves::Moves;

/// The shared state of a node of a cluster.
pub struct Cluster {
    /// This node.
    pub me: NodeId,
    /// The outcomes of the requests to the coordinator.
    pub coordinator: CoordinatorCounts,
    /// Messages for clients of the other nodes.
    pub forwarding: Forwarding,
    /// The moves of slots that come here.
    pub moves: Arc<Moves>,
    /// The mirrors of this node's keys.
    pub mirrors: Arc<Mirrors>,
    published: Notify,
    served: RwLock<Served>,
    version: AtomicU64,
    promotions: AtomicU64,
    /// Whoever changes the grounds of the store holds this.
    changing: Mutex<()>,
    /// The publication by which keys were forgotten last.
    forgotten: AtomicU64,
    /// What this node tells its replicas while it is primary, and the publication and epoch from which that was made.
    tenure: watch::Sender<Tenure>,
    told_from: Mutex<(u64, Option<Epoch>)>,
    /// What its primary has told this node while it is a replica, and the record up to which it has heeded that.
    heard: Mutex<(Tenure, Lsn)>,
    /// The version of the grounds under which a walk has met no hidden key.
    clean: AtomicU64,
}

/// What threads know of the slots that they serve.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    /// The records as last seen.
    pub directory: Arc<Directory>,
    /// Slots whose requests wait for the end of a move.
    pub held: BTreeMap<MoveId, Held>,
    /// Slots whose keys come here.
    imports: BTreeMap<MoveId, SlotSet>,
    /// Keys whose writes wait, because mirrors may answer reads of them.
    pub guarded: Arc<BTreeSet<Key>>,
    /// Slots whose keys this node has as a replica, by its primary's word.
    pub copied: SlotSet,
    /// The version of the store's grounds that goes with this, 0 before the first.
    pub grounds: u64,
    /// The number of the publication, and the role, that were last compared with the grounds.
    made_from: Option<(u64, bool)>,
}

/// Slots whose requests wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The slots.
    pub slots: SlotSet,
    /// Whether reads wait, too, and not writes only.
    pub reads: bool,
}

impl Cluster {
    /// A node that has not seen any records yet.
    pub fn new(me: NodeId) -> Self {
        Cluster {
            me,
            coordinator: CoordinatorCounts::default(),
            forwarding: Forwarding::default(),
            promotions: AtomicU64::new(0),
            moves: Arc::default(),
            mirrors: Arc::default(),
            published: Notify::new(),
            served: RwLock::default(),
            version: AtomicU64::new(1),
            changing: Mutex::default(),
            forgotten: AtomicU64::new(0),
            tenure: watch::Sender::default(),
            told_from: Mutex::default(),
            heard: Mutex::default(),
            clean: AtomicU64::new(0),
        }
    }

    /// Replaces the records that commands see.
    pub fn publish(&self, directory: Directory) {
        self.change(|served| served.directory = Arc::new(directory));
    }

    /// Waits until other records are published. One thread at a time must wait.
    pub async fn published(&self) {
        self.published.notified().await;
    }

    /// The records as last seen.
    pub fn directory(&self) -> Arc<Directory> {
        self.served().directory.clone()
    }

    pub(crate) fn served(&self) -> RwLockReadGuard<'_, Served> {
        self.served.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what threads know, and has them look at it.
    fn change<R>(&self, change: impl FnOnce(&mut Served) -> R) -> R {
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut served);
        // ORDERING: Release, pairs with `version`: whoever sees the number finds the change.
        self.version.fetch_add(1, Ordering::Release);
        drop(served);
        self.published.notify_one();
        result
    }

    /// A number that every publication raises, never 0. A thread that keeps a directory compares it.
    pub fn version(&self) -> u64 {
        // ORDERING: Acquire, pairs with `publish`.
        self.version.load(Ordering::Acquire)
    }

    /// The moves whose slots wait or come.
    pub fn moving(&self) -> Vec<MoveId> {
        let served = self.served.read().unwrap_or_else(PoisonError::into_inner);
        let all: BTreeSet<MoveId> =
            served.held.keys().chain(served.imports.keys()).copied().collect();
        all.into_iter().collect()
    }

    /// Keeps others from changing the grounds of the store.
    pub(super) fn lock_grounds(&self) -> MutexGuard<'_, ()> {
        lock(&self.changing)
    }

    /// Whether the present records and this role need other grounds than these.
    pub(super) fn needs_other_grounds(&self, present: Option<&Grounds>, follows: bool) -> bool {
        let from = (self.version(), follows);
        let mut served = self.served.write().unwrap_or_else(PoisonError::into_inner);
        if served.made_from == Some(from) {
            return false;
        }
        let needed = served.grounds_of(self.me, follows);
        let is_like = present.is_some_and(|present| present.is_like(&needed));
        if is_like {
            served.made_from = Some(from);
        }
        !is_like
    }

    /// Changes what waits and what comes, and makes the grounds of this version from it. The caller must hold all keys
    /// of the store.
    pub(super) fn make_grounds(
        &self,
        version: u64,
        follows: bool,
        change: impl FnOnce(&mut Served),
    ) -> Arc<Grounds> {
        self.change(|served| {
            change(served);
            (served.grounds, served.made_from) = (version, None);
            Arc::new(served.grounds_of(self.me, follows))
        })
    }

    /// Keys are forgotten that are hidden since this publication: whoever has checked a request by an earlier one, and
    /// has read keys since, may have missed some.
    pub fn note_forgetting(&self, version: u64) {
        // ORDERING: Release, before the keys are removed; pairs with `forgotten`.
        self.forgotten.fetch_max(version, Ordering::Release);
    }

    /// See [`note_forgetting`](Self::note_forgetting).
    pub(crate) fn forgotten(&self) -> u64 {
        // ORDERING: Acquire, pairs with `note_forgetting`.
        self.forgotten.load(Ordering::Acquire)
    }

    /// Has the replicas told which slots this shard has, by the records as last published if this node leads in their
    /// epoch. `last` is the end of the log, and must be read when it is called.
    pub(crate) fn renew_tenure(&self, led: Option<Epoch>, last: impl FnOnce() -> Lsn) {
        let mut told_from = lock(&self.told_from);
        // In this order: the records are at least as new as the number.
        let from = (self.version(), led);
        if *told_from == from {
            return;
        }
        let directory = self.directory();
        let mine = directory.shard_of_node(self.me);
        let mine = mine.filter(|(_, shard)| led == Some(shard.epoch)).map(|(id, _)| id);
        let is_own = |slot: &u16| mine.is_some() && directory.owners.of(*slot) == mine;
        let own = (0..SLOTS).filter(is_own).collect();
        self.tenure.send_if_modified(|tenure| tenure.renew(&own, last()));
        *told_from = from;
    }

    /// What this node tells its replicas, and each change of that.
    pub fn tenure(&self) -> watch::Receiver<Tenure> {
        self.tenure.subscribe()
    }

    /// The primary has told this replica which slots it has, up to this record of its stream. If some are gone, returns
    /// the publication that says so.
    pub fn hear_tenure(&self, tenure: Tenure, applied: Lsn) -> Option<u64> {
        let mut heard = lock(&self.heard);
        *heard = (tenure, applied);
        self.show_copied(&heard)
    }

    /// This replica has applied its primary's stream up to this record.
    pub fn note_applied(&self, applied: Lsn) {
        let mut heard = lock(&self.heard);
        let has_got_slots = heard.0.has_between(heard.1, applied);
        heard.1 = applied;
        if has_got_slots {
            self.show_copied(&heard);
        }
    }

    fn show_copied(&self, (tenure, applied): &(Tenure, Lsn)) -> Option<u64> {
        let now = tenure.upto(*applied);
        let before = self.served().copied.clone();
        if now == before {
            return None;
        }
        let are_gone = before.iter().any(|slot| !now.contains(slot));
        self.change(|served| served.copied = now);
        are_gone.then(|| self.version())
    }

    /// Whether no key is hidden under the grounds of this version.
    pub(crate) fn is_clean(&self, version: u64) -> bool {
        // ORDERING: Relaxed, a figure.
        self.clean.load(Ordering::Relaxed) == version
    }

    /// A whole walk under the grounds of this version has met no hidden key, and none can come.
    pub(crate) fn note_clean(&self, version: u64) {
        // ORDERING: Relaxed, a figure.
        self.clean.store(version, Ordering::Relaxed);
    }

    /// Counts that this node has become the primary of its shard.
    pub(super) fn count_promotion(&self) {
        // ORDERING: Relaxed, a figure.
        self.promotions.fetch_add(1, Ordering::Relaxed);
    }

    /// How often this node has become the primary of its shard since its start.
    pub fn promotions(&self) -> u64 {
        // ORDERING: Relaxed, a figure.
        self.promotions.load(Ordering::Relaxed)
    }
}

impl Served {
    /// Lets the requests for slots of a move wait, or with None no longer.
    pub(super) fn hold(&mut self, id: MoveId, held: Option<Held>) {
        match held {
            Some(held) => _ = self.held.insert(id, held),
            None => _ = self.held.remove(&id),
        }
    }

    /// Lets the keys of a move come, or with None no longer.
    pub(super) fn import(&mut self, id: MoveId, slots: Option<SlotSet>) {
        match slots {
            Some(slots) => _ = self.imports.insert(id, slots),
            None => _ = self.imports.remove(&id),
        }
    }

    /// Has writes of keys wait, or go on.
    pub(super) fn guard(&mut self, acts: &[MirrorAct]) {
        let guarded = Arc::make_mut(&mut self.guarded);
        for act in acts {
            match act {
                MirrorAct::Guard(key) => _ = guarded.insert(key.clone()),
                MirrorAct::Release(key) => _ = guarded.remove(key),
                MirrorAct::Revoke(..) => {}
            }
        }
    }

    /// What the store does with each slot. A replica does not know which imports its primary has begun, and takes all
    /// that are wanted for begun.
    fn grounds_of(&self, me: NodeId, follows: bool) -> Grounds {
        let mine = self.directory.shard_of_node(me).map(|(id, _)| id);
        let mut standings = vec![Standing::Hidden; usize::from(SLOTS)].into_boxed_slice();
        let mut set = |slots: &SlotSet, from: Standing, to: Standing| {
            for slot in slots.iter().map(usize::from) {
                if standings[slot] == from {
                    standings[slot] = to;
                }
            }
        };
        let own: SlotSet = (0..SLOTS)
            .filter(|slot| mine.is_some() && self.directory.owners.of(*slot) == mine)
            .collect();
        set(&own, Standing::Hidden, Standing::Open);
        for held in self.held.values() {
            set(&held.slots, Standing::Open, Standing::Held);
        }
        let wanted = self.directory.moves.values().map(|(_, wanted)| wanted);
        let wanted = wanted.filter(|wanted| follows && Some(wanted.to) == mine);
        for slots in self.imports.values().chain(wanted.map(|wanted| &wanted.slots)) {
            set(slots, Standing::Hidden, Standing::Importing);
        }
        Grounds::new(slot_of, standings).guarding(self.guarded.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What it guards is replaced as a whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outcomes of the requests to the coordinator.
#[derive(Debug, Default)]
pub struct CoordinatorCounts(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    requests: u64,
    failures: u64,
    answered: Option<Instant>,
    /// Unix milliseconds since which every request was answered.
    reachable_since: Option<u64>,
    /// When the present lease was granted or renewed.
    lease_kept: Option<Instant>,
}

/// The coordinator as this node sees it.
#[derive(Clone, Copy, Debug)]
pub struct CoordinatorStatus {
    /// Requests since the start, and those of them without an answer.
    pub requests: u64,
    pub failures: u64,
    /// Time since the last answer; None before the first.
    pub silent: Option<Duration>,
    /// Unix milliseconds since which every request was answered; None if the last one was not.
    pub reachable_since: Option<u64>,
    /// Time since the present lease was granted or renewed; None without a lease.
    pub lease_age: Option<Duration>,
}

impl CoordinatorCounts {
    /// Counts a request, which the coordinator has answered or not.
    pub fn count(&self, is_answered: bool) {
        let mut counted = self.counted();
        counted.requests += 1;
        if is_answered {
            counted.answered = Some(clock::monotonic());
            counted.reachable_since.get_or_insert_with(clock::unix_ms);
        } else {
            counted.failures += 1;
            counted.reachable_since = None;
        }
    }

    /// The lease of this node was granted or renewed, or has ended.
    pub fn note_lease(&self, lives: bool) {
        self.counted().lease_kept = lives.then(clock::monotonic);
    }

    /// The coordinator as this node sees it now.
    pub fn status(&self) -> CoordinatorStatus {
        let counted = self.counted();
        CoordinatorStatus {
            requests: counted.requests,
            failures: counted.failures,
            silent: counted.answered.map(|at| at.elapsed()),
            reachable_since: counted.reachable_since,
            lease_age: counted.lease_kept.map(|at| at.elapsed()),
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        // Figures, which no panic leaves half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hotring_cluster::directory::Node;
    use hotring_cluster::{Epoch, Identity, Incarnation, Shard};

    use super::*;

    /// The node of this number.
    pub(crate) fn node(n: u8) -> NodeId {
        NodeId([n; 20])
    }

    #[test]
    fn the_coordinator_is_reachable_from_its_first_answer_after_a_failure() {
        let counts = CoordinatorCounts::default();
        assert!(counts.status().silent.is_none() && counts.status().reachable_since.is_none());
        counts.count(true);
        let since = counts.status().reachable_since.unwrap();
        counts.count(true);
        assert_eq!(counts.status().reachable_since, Some(since));
        counts.count(false);
        let status = counts.status();
        assert_eq!((status.requests, status.failures, status.reachable_since), (3, 1, None));
        assert!(status.silent.is_some() && status.lease_age.is_none());
        counts.note_lease(true);
        assert!(counts.status().lease_age.is_some());
        counts.note_lease(false);
        counts.count(true);
        assert!(counts.status().lease_age.is_none() && counts.status().reachable_since.is_some());
    }

    /// Slots by the records from which on a shard has them.
    pub(crate) fn tenure(since: &[(Lsn, &str)]) -> Tenure {
        let since = since.iter().map(|(lsn, slots)| (*lsn, slots.parse().unwrap()));
        Tenure::of(since).unwrap()
    }

    /// Shard 1 has node 1, and 2 as its replica, and slots 0 to 5460; shard 2 has node 3, which speaks TLS, and 4 as
    /// its dead replica, and slots up to 10922; shard 3 has node 5 and slots up to 14999. The rest has no shard.
    pub(crate) fn three_shards() -> Directory {
        let mut directory = Directory::default();
        for n in 1..=5 {
            let host = format!("10.0.0.{n}");
            let tls_port = (n == 3).then_some(7443);
            let port = 7000 + u16::from(n);
            let node_n = Node { host, port, tls_port, zone: String::new(), weight: 100 };
            directory.nodes.insert(node(n), (1, node_n));
            if n != 4 {
                directory.alive.insert(node(n), Incarnation(1));
            }
        }
        for (id, primary, replicas) in [(1, 1, &[2][..]), (2, 3, &[4]), (3, 5, &[])] {
            let replicas: Vec<NodeId> = replicas.iter().copied().map(node).collect();
            let shard = Shard {
                epoch: Epoch(id.into()),
                promoted: Epoch(1),
                primary: Identity { node: node(primary), incarnation: Incarnation(1) },
                in_sync: replicas.clone(),
                replicas,
            };
            directory.shards.insert(id, (1, shard));
        }
        for slot in 0..15_000 {
            directory.owners.give(slot, [1, 2, 3][usize::from(slot) / 5461]);
        }
        directory
    }
}
