//! Mirrors of hot keys, as the threads of their owner share them: who holds which, and which writes wait for that. What
//! decides is in [`hotring_cluster::mirrors`]; `hotring-server`'s `tasks/cluster/mirrors` drives that.
//!
//! The store refuses writes of a guarded key ([`hotring_store::Grounds::guarding`]). A request that would write one is
//! checked before it runs, wants the guard to end, and waits as for the end of a move. What was not checked so, such as
//! the undeclared key of a script, is refused by the store all the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotring_cluster::mirrors::{
    Ask, Budget, Choice, Closing, Dropped, GRANT, Grants, Heat, HolderId, Key, MirrorAct, Owner,
    Version,
};
use hotring_cluster::{Epoch, Moment, SlotSet};
use hotring_protocol::{Version as Protocol, Writer};
use tokio::sync::Notify;

use crate::host::clock;
use crate::state::client::ClientShared;

/// The first word of what a holder is told.
const REVOKED: &[u8] = b"hotring.mirror";

/// The mirrors of a node's keys.
#[derive(Default)]
pub struct Mirrors {
    inner: Mutex<Inner>,
    /// Held from [`Mirrors::take_guards`] to [`Mirrors::changed`], so that the store follows the owner in order.
    guarding: Mutex<()>,
    work: Notify,
    grants: AtomicU64,
    hits: AtomicU64,
    revocations: AtomicU64,
    waited_us: AtomicU64,
}

#[derive(Default)]
struct Inner {
    /// None while this node is no primary or mirrors nothing.
    owner: Option<Owner>,
    epoch: Option<Epoch>,
    /// The last number of earlier owners.
    numbers: u64,
    /// No key is mirrored before this: an earlier owner's grants may last.
    quiet_until: Moment,
    /// The store may guard keys of an earlier owner.
    is_stale: bool,
    choice: Choice,
    /// Slots that are closed, also for the owner to come.
    closed: BTreeMap<Closing, SlotSet>,
    holders: HashMap<HolderId, Arc<ClientShared>>,
    /// What is to change in the store.
    guards: Vec<MirrorAct>,
    /// Since when a write waits for each key.
    waits: BTreeMap<Key, Moment>,
}

/// Figures since the start, and the present state.
#[derive(Clone, Copy, Debug, Default)]
pub struct MirrorStatus {
    /// Keys that are mirrored, and the grants of them that last.
    pub keys: usize,
    pub held: usize,
    /// Grants that were given, reads that mirrors have answered, mirrors that a write has ended, and the time for which
    /// these writes have waited.
    pub grants: u64,
    pub hits: u64,
    pub revocations: u64,
    pub waited: Duration,
}

impl Mirrors {
    /// A write waits for this key, which may be guarded. A holder that writes has dropped the key before.
    pub(crate) fn want(&self, key: &[u8], by: HolderId) {
        let (mut inner, now) = (self.lock(), clock::since_boot());
        let Some(owner) = inner.owner.as_mut().filter(|owner| owner.is_guarded(key)) else {
            return;
        };
        owner.gave_up(now, by, key);
        owner.revoke(now, key);
        inner.choice.written(now, key);
        inner.waits.entry(key.into()).or_insert(now);
        self.pass_on(&mut inner);
    }

    /// All mirrors are to end: their holders may have lost the right to read.
    pub(crate) fn end_all(&self) {
        let (mut inner, now) = (self.lock(), clock::since_boot());
        let Some(owner) = &mut inner.owner else { return };
        let keys: Vec<Key> = owner.guarded().map(|(key, _)| key.into()).collect();
        keys.iter().for_each(|key| owner.revoke(now, key));
        self.pass_on(&mut inner);
    }

    /// The version of a key that may be granted. While it is the same, so is the key's expiry.
    pub(crate) fn version(&self, key: &[u8]) -> Option<Version> {
        self.lock().owner.as_ref().and_then(|owner| owner.version(key))
    }

    /// A holder asks. The values must be read after this. The right to answer is that of an epoch, until a moment.
    pub(crate) fn ask(
        &self,
        holder: &Arc<ClientShared>,
        ask: &Ask,
        (epoch, answers_until): (Option<Epoch>, Option<Moment>),
        expires_in: impl Fn(&[u8]) -> Option<Duration>,
    ) -> Grants {
        let mut inner = self.lock();
        let Inner { owner, holders, epoch: own, .. } = &mut *inner;
        // The driving thread may not know yet that another reign has begun.
        let Some(owner) = owner.as_mut().filter(|_| *own == epoch) else {
            return Grants { number: ask.number, grants: Vec::new() };
        };
        let grants = owner.ask(clock::since_boot(), holder.id, ask, answers_until, expires_in);
        if !grants.grants.is_empty() {
            holders.entry(holder.id).or_insert_with(|| holder.clone());
            // ORDERING: Relaxed, here and below: figures.
            self.grants.fetch_add(grants.grants.len() as u64, Ordering::Relaxed);
        }
        grants
    }

    /// A holder has dropped a key.
    pub(crate) fn dropped(&self, holder: HolderId, dropped: &Dropped) {
        let mut inner = self.lock();
        if let Some(owner) = &mut inner.owner {
            owner.dropped(clock::since_boot(), holder, dropped);
            self.pass_on(&mut inner);
        }
    }

    /// Whether a grant of the key to this holder may last.
    pub(crate) fn is_held(&self, key: &[u8], holder: HolderId) -> bool {
        self.lock().owner.as_ref().is_some_and(|owner| owner.is_held(key, holder))
    }

    /// Counts reads that mirrors have answered.
    pub(crate) fn note_hits(&self, hits: u64) {
        self.hits.fetch_add(hits, Ordering::Relaxed);
    }

    /// The mirrored keys, each with the number of its holders.
    pub(crate) fn keys(&self) -> Vec<(Key, usize)> {
        let inner = self.lock();
        let guarded = inner.owner.iter().flat_map(Owner::guarded);
        guarded.map(|(key, holders)| (key.into(), holders)).collect()
    }

    /// Ends all mirrors of some slots, and begins none until [`Mirrors::open`].
    pub fn close(&self, closing: Closing, slots: SlotSet) {
        let mut inner = self.lock();
        if let Some(owner) = &mut inner.owner {
            owner.close(clock::since_boot(), closing, slots.clone());
        }
        inner.closed.insert(closing, slots);
        self.pass_on(&mut inner);
    }

    /// Whether no grant of closed slots lasts.
    pub fn is_clear(&self, closing: Closing) -> bool {
        let (inner, now) = (self.lock(), clock::since_boot());
        now >= inner.quiet_until
            && inner.owner.as_ref().is_none_or(|owner| owner.is_clear(now, closing))
    }

    /// The slots stay here after all, or are another shard's.
    pub fn open(&self, closing: Closing) {
        let mut inner = self.lock();
        inner.closed.remove(&closing);
        if let Some(owner) = &mut inner.owner {
            owner.open(closing);
        }
    }

    /// The node is primary in this epoch and may mirror keys. Returns whether the store must guard nothing any more.
    pub(crate) fn lead(&self, epoch: Option<Epoch>) -> bool {
        let (mut inner, now) = (self.lock(), clock::since_boot());
        if inner.epoch != epoch {
            inner.epoch = epoch;
            if let Some(owner) = inner.owner.take() {
                inner.numbers = owner.numbers();
                (inner.quiet_until, inner.is_stale) = (now + GRANT, true);
            }
            (inner.choice, inner.guards) = Default::default();
            inner.waits.clear();
        }
        if now < inner.quiet_until {
            return false;
        }
        if inner.owner.is_none()
            && let Some(epoch) = epoch
        {
            let mut owner = Owner::promoted(epoch, inner.numbers);
            for (closing, slots) in &inner.closed {
                owner.close(now, *closing, slots.clone());
            }
            inner.owner = Some(owner);
        }
        std::mem::take(&mut inner.is_stale)
    }

    /// Chooses keys, hottest first.
    pub(crate) fn choose(&self, budget: Budget, heats: Vec<Heat>) {
        let (mut inner, now) = (self.lock(), clock::since_boot());
        let Inner { owner: Some(owner), choice, .. } = &mut *inner else { return };
        choice.keep_only(|key| owner.is_guarded(key));
        let changes = choice.decide(now, budget, heats);
        changes.end.iter().for_each(|key| owner.revoke(now, key));
        changes.begin.iter().for_each(|key| _ = owner.begin(key));
        self.pass_on(&mut inner);
    }

    /// Keeps others from changing what the store guards.
    pub(crate) fn lock_guards(&self) -> MutexGuard<'_, ()> {
        self.guarding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time has passed. Returns what is to change in the store.
    pub(crate) fn take_guards(&self) -> Vec<MirrorAct> {
        let (mut inner, now) = (self.lock(), clock::since_boot());
        inner.holders.retain(|_, holder| !holder.has_left());
        if let Some(owner) = &mut inner.owner {
            owner.tick(now);
            self.pass_on(&mut inner);
        }
        std::mem::take(&mut inner.guards)
    }

    /// The store guards what it was to guard, but not these keys, which cannot be mirrored.
    pub(crate) fn changed(&self, acts: &[MirrorAct], unfit: &[Key]) {
        let (mut inner, now) = (self.lock(), clock::since_boot());
        let Inner { owner: Some(owner), waits, .. } = &mut *inner else { return };
        for act in acts {
            match act {
                MirrorAct::Guard(key) => {
                    if unfit.contains(key) {
                        owner.revoke(now, key);
                    }
                    owner.has_guard(now, key);
                }
                MirrorAct::Release(key) => {
                    if let Some(since) = waits.remove(key) {
                        let waited = now.saturating_sub(since).as_micros() as u64;
                        self.revocations.fetch_add(1, Ordering::Relaxed);
                        self.waited_us.fetch_add(waited, Ordering::Relaxed);
                    }
                }
                MirrorAct::Revoke(..) => {}
            }
        }
        self.pass_on(&mut inner);
    }

    /// Waits until the store must guard other keys.
    pub async fn worked(&self) {
        self.work.notified().await;
    }

    /// Whether time matters: some key is mirrored, or is about to be.
    pub fn is_any(&self) -> bool {
        let inner = self.lock();
        let guards = |owner: &Owner| owner.guarded().next().is_some();
        inner.is_stale || inner.owner.as_ref().is_some_and(guards)
    }

    /// The present state, and figures since the start.
    pub fn status(&self) -> MirrorStatus {
        let keys = self.keys();
        MirrorStatus {
            keys: keys.len(),
            held: keys.iter().map(|(_, holders)| holders).sum(),
            grants: self.grants.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
            revocations: self.revocations.load(Ordering::Relaxed),
            waited: Duration::from_micros(self.waited_us.load(Ordering::Relaxed)),
        }
    }

    /// Tells the holders what to drop, and the driving thread what the store is to guard.
    fn pass_on(&self, inner: &mut Inner) {
        let Some(owner) = &mut inner.owner else { return };
        let before = inner.guards.len();
        for act in owner.acts() {
            match act {
                MirrorAct::Revoke(holder, dropped) => {
                    if let Some(holder) = inner.holders.get(&holder) {
                        // Without the message the write waits until the grant is over.
                        holder.deliver_if_room(&revocation(&dropped));
                    }
                }
                act => inner.guards.push(act),
            }
        }
        if inner.guards.len() > before {
            self.work.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // After a panic a guard may last too long, which only costs time.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A push, also to a connection in RESP2, which asked for it.
fn revocation(Dropped { key, version }: &Dropped) -> Vec<u8> {
    let mut message = b">4\r\n".to_vec();
    let mut writer = Writer::new(&mut message, Protocol::Resp2);
    writer.bulk(REVOKED);
    writer.bulk(key);
    writer.bulk_int(version.epoch.0 as i64);
    writer.bulk_int(version.number as i64);
    message
}
