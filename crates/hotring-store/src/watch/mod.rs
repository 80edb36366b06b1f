//! Watches of keys: waiters for changes, and their notification by writes (RHKV, FGCS 2018, section 4.8: the callback
//! operation).
//!
//! # Picture
//! ```text
//!   stripes   one word; bit s: a session waits for a key of stripe s, or all changes are observed
//!      ^ read by every write, changed when a stripe gets its first waiter or loses its last
//!   shards[s] under a mutex: key -> its waiters
//! ```
//! *Waiting*: hold the key; look at it; enter the waiter and set the bit of its stripe; release the key.
//! *A write*: within the gate, look at the bit; if it is set, search the shard for the key; write; notify the waiters,
//! still within the gate.
//!
//! # Why no change is missed, and none from before the first look is reported
//! A hold excludes the writes of its key (G2 in [`crate::gate`]). So each write either has ended before the first look,
//! which then shows it, or begins after the waiter has entered. In the second case the write has found the key free
//! after the hold: that Acquire pairs with the Release of the holder, who had set the bit before. So a write needs no
//! barrier for this, only a Relaxed load, and it knows before it changes the key whether a session waits. The
//! notification is within the gate, too: it is about a write that came after the first look, and never about one
//! before.
//!
//! A notification sets a mark in the waiter, which stays. A value that changes and changes back before the waiter looks
//! has changed: values are not compared, except with an expected value, by the write that stores it.
//!
//! Clients that wait for an element of a list or a sorted set have a line: [`line`].
//!
//! Expiry is not a write. A waiter for any change must look again when the key expires.
//!
//! # Observers
//! An [`Observer`] is notified of all changes while that is enabled ([`crate::Session::observe`]): then all bits are
//! set, and stay. A session that holds all keys sets them, so that the argument above applies: a write has ended before
//! the hold, or finds its bit. Therefore, after the hold, a read sees the write's value, or the observer is notified of
//! the write.
//!
//! # Cost
//! Writes of keys in stripes without a waiter pay for the load. Other writes lock the shard for a search; a write of a
//! key with waiters copies its value, and wakes those concerned. While all changes are observed, every write pays for
//! the call of the observer.

mod line;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{OnceLock, PoisonError};
use std::task::Waker;

use crate::gate::{Lines, stripes_of};
use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, STRIPES};

use line::Line;
pub(crate) use line::{Home, StripeOf};
pub use line::{LineEntry, Taker, Turn};

/// The waiters of one stripe, by key: for changes, and for elements.
#[derive(Default)]
struct Shard {
    waiters: BTreeMap<Box<[u8]>, Vec<Arc<Waiter>>>,
    lines: BTreeMap<Box<[u8]>, Line>,
}

impl Shard {
    fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.lines.is_empty()
    }

    fn has(&self, key: &[u8]) -> bool {
        self.waiters.contains_key(key) || self.lines.contains_key(key)
    }
}

/// All waiters for keys of a database.
pub(crate) struct Watchers {
    stripes: Lines<AtomicU64>,
    shards: [Mutex<Shard>; STRIPES],
    /// Number of open watches.
    open: AtomicU64,
    open_max: AtomicU64,
    /// The number of the next entry in a line.
    entries: AtomicU64,
    /// 1 while the observer is notified of all changes.
    observed: AtomicU64,
    observer: OnceLock<std::sync::Arc<dyn Observer>>,
}

/// An observer of all changes, called while [`Session::observe`](crate::Session::observe) has enabled it.
pub trait Observer: Send + Sync {
    /// The key has got another value or expiry, or was removed, by `actor` ([`Origin::actor`](crate::Origin::actor)).
    /// Called within the write, by its thread: it must neither use the store nor wait for a session that does.
    fn changed(&self, key: &[u8], actor: u64);

    /// All keys were removed. Called under the rules of [`changed`](Self::changed).
    fn cleared(&self, actor: u64);
}

/// A waiter for a change of one key.
struct Waiter {
    /// The expected value; None for any change.
    expected: Option<Box<[u8]>>,
    /// Whether the key was present at the first look.
    present: bool,
    /// 1 once the awaited change has happened.
    fired: AtomicU64,
    waker: Waker,
}

/// The effect of a write on a key.
pub(crate) enum Event<'a> {
    /// A value was stored: this string, or a value of another type.
    Stored(Option<&'a [u8]>),
    /// The key was removed.
    Removed,
    /// The expiry changed.
    Expiry,
}

impl Event<'_> {
    fn fires(&self, waiter: &Waiter) -> bool {
        match (self, &waiter.expected) {
            (Event::Stored(value), Some(expected)) => *value == Some(&**expected),
            (Event::Stored(_), None) => true,
            // The removal of an absent key is that of a hash whose fields had all expired, which is not a write.
            (Event::Removed, None) => waiter.present,
            _ => false,
        }
    }
}

/// The state that a waiter found when it entered.
pub(crate) struct FirstLook {
    /// Whether the key was present.
    pub(crate) present: bool,
    /// Whether the key had the expected value.
    pub(crate) expected: bool,
}

impl Watchers {
    pub(crate) fn new(open_max: u64) -> Watchers {
        Watchers {
            stripes: Lines(AtomicU64::new(0)),
            shards: std::array::from_fn(|_| Mutex::new(Shard::default())),
            open: AtomicU64::new(0),
            open_max: AtomicU64::new(open_max),
            entries: AtomicU64::new(0),
            observed: AtomicU64::new(0),
            observer: OnceLock::new(),
        }
    }

    /// Sets the observer, which cannot be replaced; false if there is one.
    pub(crate) fn set_observer(&self, observer: std::sync::Arc<dyn Observer>) -> bool {
        self.observer.set(observer).is_ok()
    }

    /// Begins or ends the notification of the observer. The caller must hold all keys.
    pub(crate) fn observe(&self, on: bool) {
        // ORDERING: Relaxed; the release of the hold makes it visible to later writes, and a shard's mutex to a session
        // that would clear its bit.
        self.observed.store(on.into(), Relaxed);
        for stripe in 0..STRIPES {
            let shard = self.shard(stripe);
            // ORDERING: Relaxed, as for the bits in `enter` and `tidy`.
            if on {
                self.stripes.0.fetch_or(1 << stripe, Relaxed);
            } else if shard.is_empty() {
                self.stripes.0.fetch_and(!(1 << stripe), Relaxed);
            }
        }
    }

    /// Whether the observer is notified of all changes. Exact only for a session within the gate.
    pub(crate) fn is_observed(&self) -> bool {
        // ORDERING: Relaxed; the gate orders it after the hold in which it was set.
        self.observed.load(Relaxed) == 1
    }

    /// Notifies the observer of a change, if enabled. Called within the gate of the write.
    pub(crate) fn notify_observer(&self, key: &[u8], actor: u64) {
        if let Some(observer) = self.observer.get().filter(|_| self.is_observed()) {
            observer.changed(key, actor);
        }
    }

    /// Number of open watches.
    pub(crate) fn open(&self) -> u64 {
        // ORDERING: Relaxed, a number that publishes no other memory.
        self.open.load(Relaxed)
    }

    /// Maximum number of open watches.
    pub(crate) fn open_max(&self) -> u64 {
        // ORDERING: Relaxed, as `open`.
        self.open_max.load(Relaxed)
    }

    pub(crate) fn set_open_max(&self, open_max: u64) {
        // ORDERING: Relaxed, as `open`.
        self.open_max.store(open_max, Relaxed);
    }

    /// Whether a waiter or the observer must be notified of a change of the key. The caller must be within the gate of
    /// the write.
    #[inline]
    pub(crate) fn is_watched(&self, stripe: u32, key: &[u8]) -> bool {
        // ORDERING: Relaxed; the gate orders it after every waiter that entered before this write.
        self.stripes.0.load(Relaxed) >> stripe & 1 == 1 && self.has(stripe, key)
    }

    #[cold]
    fn has(&self, stripe: u32, key: &[u8]) -> bool {
        self.is_observed() || self.is_waited_for(stripe, key)
    }

    /// Whether a session waits for the key. Called under the rules of [`is_watched`](Self::is_watched).
    pub(crate) fn is_waited_for(&self, stripe: u32, key: &[u8]) -> bool {
        self.shard(stripe as usize).has(key)
    }

    /// Notifies the waiters of the key of a change. Called within the gate of the write. True if the key may have an
    /// element now, and has a line to be served.
    #[must_use]
    pub(crate) fn notify(&self, stripe: u32, key: &[u8], event: &Event<'_>) -> bool {
        let mut woken = Vec::new();
        self.retain(stripe as usize, key, |waiter| {
            let fires = event.fires(waiter);
            let must_check = matches!(event, Event::Expiry) && waiter.expected.is_none();
            if fires || must_check {
                woken.push(waiter.waker.clone());
            }
            if fires {
                waiter.fire();
            }
            !fires
        });
        woken.iter().for_each(Waker::wake_by_ref);
        matches!(event, Event::Stored(_)) && self.has_line(stripe, key)
    }

    /// Notifies all waiters and the observer that all keys were removed. The caller must hold all keys.
    pub(crate) fn notify_cleared(&self, actor: u64) {
        self.notify_all(actor, |waiter| waiter.present);
    }

    /// Notifies all waiters and the observer that all keys were exchanged. The caller must hold all keys.
    pub(crate) fn notify_swapped(&self, actor: u64) {
        self.notify_all(actor, |_| true);
    }

    fn notify_all(&self, actor: u64, concerns: impl Fn(&Waiter) -> bool) {
        if let Some(observer) = self.observer.get().filter(|_| self.is_observed()) {
            observer.cleared(actor);
        }
        // ORDERING: Relaxed, the hold orders it as the gate does in `is_watched`.
        for stripe in stripes_of(self.stripes.0.load(Relaxed)) {
            let keys: Vec<_> = self.shard(stripe).waiters.keys().cloned().collect();
            for key in keys {
                let mut woken = Vec::new();
                self.retain(stripe, &key, |waiter| {
                    let fires = concerns(waiter) && waiter.expected.is_none();
                    if fires {
                        waiter.fire();
                        woken.push(waiter.waker.clone());
                    }
                    !fires
                });
                woken.iter().for_each(Waker::wake_by_ref);
            }
        }
    }

    /// Drops the waiters of the key for which `stays` is false.
    fn retain(&self, stripe: usize, key: &[u8], mut stays: impl FnMut(&Arc<Waiter>) -> bool) {
        let mut shard = self.shard(stripe);
        let Some(waiters) = shard.waiters.get_mut(key) else { return };
        waiters.retain(|waiter| stays(waiter));
        if waiters.is_empty() {
            shard.waiters.remove(key);
        }
        self.tidy(stripe, &shard);
    }

    /// Clears the stripe's bit if no waiter is left in the shard.
    fn tidy(&self, stripe: usize, shard: &Shard) {
        if shard.is_empty() && !self.is_observed() {
            // ORDERING: Relaxed; the bit changes under the shard's mutex, and a session that still sees it set finds no
            // waiter in the shard.
            self.stripes.0.fetch_and(!(1 << stripe), Relaxed);
        }
    }

    fn shard(&self, stripe: usize) -> MutexGuard<'_, Shard> {
        // A panic in a change leaves a valid map.
        self.shards[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    fn fire(&self) {
        // ORDERING: Release pairs with the Acquire in `has_fired`: a session that sees the mark sees the write.
        self.fired.store(1, Release);
    }

    fn has_fired(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `fire`.
        self.fired.load(Acquire) == 1
    }
}

/// Permission to wait. A permission from [`ask`](Self::ask) counts as an open watch until it is dropped.
pub(crate) struct Leave {
    watchers: Arc<Watchers>,
    counts: bool,
}

impl Leave {
    /// None if the maximum number of watches is open.
    pub(crate) fn ask(watchers: &Arc<Watchers>) -> Option<Leave> {
        let max = watchers.open_max();
        let one_more = |open| (open < max).then_some(open + 1);
        // ORDERING: Relaxed, as `open`.
        watchers.open.fetch_update(Relaxed, Relaxed, one_more).ok()?;
        Some(Leave { watchers: Arc::clone(watchers), counts: true })
    }

    /// Permission for a waiter that the caller limits in another way.
    pub(crate) fn unasked(watchers: &Arc<Watchers>) -> Leave {
        Leave { watchers: Arc::clone(watchers), counts: false }
    }

    /// Enters a waiter, whose `waker` is called on all changes of the key from now on. The caller must hold the key,
    /// and have looked at it.
    pub(crate) fn enter(
        self,
        (database_id, stripe): (u8, u32),
        key: &[u8],
        expected: Option<&[u8]>,
        waker: Waker,
        first: FirstLook,
    ) -> Watch {
        let waiter = Arc::new(Waiter {
            expected: expected.map(Box::from),
            present: first.present,
            fired: AtomicU64::new(first.expected.into()),
            waker,
        });
        if !first.expected {
            let mut shard = self.watchers.shard(stripe as usize);
            shard.waiters.entry(key.into()).or_default().push(Arc::clone(&waiter));
            // ORDERING: Relaxed; the release of the hold makes the bit visible to later writes.
            self.watchers.stripes.0.fetch_or(1 << stripe, Relaxed);
        }
        Watch { key: key.into(), stripe, database_id, waiter, leave: self }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if self.counts {
            // ORDERING: Relaxed, as `open`.
            self.watchers.open.fetch_sub(1, Relaxed);
        }
    }
}

/// A wait for a change of a key, or for a value of it, from [`Session::watch`](crate::Session::watch). Dropping it ends
/// the wait.
pub struct Watch {
    key: Box<[u8]>,
    stripe: u32,
    /// The ID of its database.
    pub(crate) database_id: u8,
    waiter: Arc<Waiter>,
    leave: Leave,
}

impl Watch {
    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether a write has made the awaited change. Stays true, whatever happens to the key later. Does not cover
    /// expiry: [`Session::poll_watch`](crate::Session::poll_watch) does.
    pub fn has_fired(&self) -> bool {
        self.waiter.has_fired()
    }

    /// Whether the key was present when the watch began.
    pub(crate) fn began_with_the_key(&self) -> bool {
        self.waiter.present
    }

    /// Whether the watch fires when the key is absent, although no write has removed it.
    pub(crate) fn ends_with_the_key(&self) -> bool {
        self.waiter.present && self.waiter.expected.is_none()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The session that fired a waiter has removed it from the shard.
        if !self.has_fired() {
            let other = |waiter: &Arc<Waiter>| !Arc::ptr_eq(waiter, &self.waiter);
            self.leave.watchers.retain(self.stripe as usize, &self.key, other);
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("has_fired", &self.has_fired()).finish_non_exhaustive()
    }
}
