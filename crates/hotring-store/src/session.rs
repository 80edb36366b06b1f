//! A thread's handle to the store: every operation passes the gate here on its way to the index.
//!
//! The operations are in [`crate::ops`], one family per file. They must reach the index only through [`Session::read`],
//! [`Session::write`], [`Session::change`], [`Session::hold`], [`Session::read_all`] and their variants.

use std::cell::Cell;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hotring_index::AnySession as Index;
use hotring_index::{AnyIndex, Compacted, Entry, Key, Part, Refused};

use crate::changes::Change;
use crate::clearing::Clearing;
use crate::container::{ContainerOptions, Objects};
use crate::databases::{DATABASES_MAX, Databases, Parked};
use crate::error::StoreError;
use crate::evict::{Eviction, EvictionPolicy};
use crate::gate::{GateSession, Hold, Writing, stripe_of};
use crate::grounds::{Standing, Writes};
use crate::holds::{HoldInfo, Keys};
use crate::logged::{Logged, Logging};
use crate::long_text::LongTexts;
use crate::stripe::spread;
use crate::wait::Wait;
use crate::wheel::Wheels;
use crate::write::{ActiveHooks, Hooks, Write};

/// One thread's access to a [`Store`](crate::Store).
///
/// All operations take `now`, the caller's time in Unix milliseconds: the store reads no clock.
/// A key whose expiry is at or before `now` is absent for the operation.
///
/// Operations act on behalf of an [`Origin`](crate::Origin), which [`act`](Session::act) sets once for each batch of
/// requests. Their side effects are collected in an [`Effects`](crate::Effects), which the caller must take at the end
/// of the batch ([`take_effects`](Session::take_effects)).
///
/// A session can move to another thread but not be shared.
pub struct Session {
    pub(crate) index: Index,
    pub(crate) gate: GateSession,
    pub(crate) limits: Limits,
    pub(crate) hooks: Hooks,
    pub(crate) eviction: Arc<Eviction>,
    /// The index of the selected database, for state that all sessions share.
    pub(crate) store: AnyIndex,
    pub(crate) containers: Arc<ContainerOptions>,
    pub(crate) wheels: Arc<Wheels>,
    pub(crate) clearing: Arc<Clearing>,
    pub(crate) logged: Arc<Logged>,
    pub(crate) logging: Logging,
    pub(crate) databases: Arc<Databases>,
    /// The number of the selected database, and the ID of the database that operations use at present.
    pub(crate) selected: u8,
    pub(crate) database_id: u8,
    /// The count of swaps that `database_id` is up to date with.
    pub(crate) swaps: u64,
    /// Access to the databases that were selected before, by ID.
    pub(crate) parked: Box<[Option<Box<Parked>>]>,
    pub(crate) name: Option<Box<str>>,
    /// The recorded changes, if the origin asks for them.
    pub(crate) changes: Option<Vec<Change>>,
    /// Keys with waiting clients that a write may have served, with the IDs of their databases
    /// ([`Session::next_ready`]).
    pub(crate) ready: VecDeque<(u8, Box<[u8]>)>,
    /// The last unique number, shared by all sessions.
    pub(crate) last_unique: Arc<AtomicU64>,
    pub(crate) seed: u64,
    /// Items are verified, or changes are recorded: `Effects` may have more than a log position.
    pub(crate) has_rare_effects: bool,
    pub(crate) verifies: bool,
    /// Whether this session applies the stream of another store: only such sessions may write a replica.
    pub(crate) applies: bool,
    /// Whether this session runs the commands of a primary that is another kind of server: it writes a replica, too,
    /// but its writes are logged.
    pub(crate) follows: bool,
    /// Which keys it writes, as far as the grounds of the store say.
    pub(crate) writes: Writes,
    /// The version of the grounds by which it may write without a look at them ([`crate::grounds`]).
    pub(crate) relies_on: u64,
    /// Whether an operation that returns no error was refused ([`Session::take_refused`]).
    pub(crate) refused: bool,
    /// See [`Session::admitted`].
    admitted: Option<usize>,
    /// Buffer of `mget`.
    pub(crate) gathered: crate::gathered::Gathered,
    /// Buffer for the hashes of the keys of a hold.
    hashes: Vec<u64>,
    pub(crate) long_texts: LongTexts,
    not_sync: PhantomData<Cell<()>>,
}

impl Session {
    pub(crate) fn new(
        (index, gate): (Index, GateSession),
        limits: Limits,
        hooks: Hooks,
        (eviction, wheels, clearing): (Arc<Eviction>, Arc<Wheels>, Arc<Clearing>),
        (store, containers, databases): (AnyIndex, Arc<ContainerOptions>, Arc<Databases>),
        (logged, last_unique): (Arc<Logged>, Arc<AtomicU64>),
        (verifies, seed, name): (bool, u64, Option<&str>),
    ) -> Session {
        Session {
            index,
            gate,
            limits,
            hooks,
            eviction,
            store,
            containers,
            wheels,
            clearing,
            logged,
            logging: Logging::default(),
            selected: 0,
            database_id: 0,
            swaps: 0,
            databases,
            parked: std::iter::repeat_with(|| None).take(DATABASES_MAX).collect(),
            name: name.map(Box::from),
            changes: None,
            ready: VecDeque::new(),
            last_unique,
            seed,
            has_rare_effects: verifies,
            verifies,
            applies: false,
            follows: false,
            writes: Writes::Open,
            relies_on: 0,
            refused: false,
            admitted: None,
            gathered: Default::default(),
            hashes: Vec::new(),
            long_texts: LongTexts::default(),
            not_sync: PhantomData,
        }
    }

    /// Reads one key.
    #[inline]
    pub(crate) fn read<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let key = key.into();
        let _reading = self.gate.read(spread(self.seed, key.bytes()));
        self.clearing.settle(key, &mut self.index);
        self.index.get(key, now, f)
    }

    /// Like [`Session::read`], but does not count as an access to the key.
    pub(crate) fn peek<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let key = key.into();
        let _reading = self.gate.read(spread(self.seed, key.bytes()));
        self.clearing.settle(key, &mut self.index);
        self.index.peek(key, now, f)
    }

    /// Runs `f`, which may read any key of the index and remove expired items.
    pub(crate) fn read_all<R>(&mut self, f: impl FnOnce(&mut Index) -> R) -> R {
        let _reading = self.gate.read_all();
        f(&mut self.index)
    }

    /// Runs `f`, which may change this one key. Fails if the write is not admitted for lack of memory, or the store is
    /// a replica.
    #[inline(always)]
    pub(crate) fn write<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        f: impl FnOnce(Write<'_>) -> R,
    ) -> Result<R, StoreError> {
        self.admit()?;
        self.try_change(key, f)
    }

    /// Like [`Session::write`], for the operations of [`Session::admit_little`].
    pub(crate) fn write_little<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        f: impl FnOnce(Write<'_>) -> R,
    ) -> Result<R, StoreError> {
        self.admit_little()?;
        self.try_change(key, f)
    }

    /// Like [`Session::write`], for operations that take no memory, or were admitted before.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Displaced`]
    #[inline(always)]
    pub(crate) fn try_change<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        f: impl FnOnce(Write<'_>) -> R,
    ) -> Result<R, StoreError> {
        let changed = self.change_if::<_, false, true>(
            key.into(),
            |gate, hash| Some(gate.write(hash)),
            |write, _| f(write),
        );
        changed.ok_or_else(|| self.refusal())
    }

    /// Like [`Session::try_change`], under the key's order lock even without a log.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Displaced`]
    pub(crate) fn try_change_in_order<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(Write<'_>, Objects<'_>) -> R,
    ) -> Result<R, StoreError> {
        let changed = self.change_if::<_, true, true>(key, |gate, hash| Some(gate.write(hash)), f);
        changed.ok_or_else(|| self.refusal())
    }

    /// Like [`Session::try_change`], for operations that return no error: they change nothing if the store is a
    /// replica.
    pub(crate) fn change<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        f: impl FnOnce(Write<'_>) -> R,
    ) -> R {
        let changed = self.change_if::<_, false, false>(
            key.into(),
            |gate, hash| Some(gate.write(hash)),
            |write, _| f(write),
        );
        changed.expect("`write` waits until it may enter")
    }

    /// Like [`Session::change`], under the key's order lock even without a log.
    pub(crate) fn change_in_order<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(Write<'_>, Objects<'_>) -> R,
    ) -> R {
        let changed = self.change_if::<_, true, false>(key, |gate, hash| Some(gate.write(hash)), f);
        changed.expect("`write` waits until it may enter")
    }

    /// Like [`Session::change`], for a thread that must not wait; None if another session holds the key.
    pub(crate) fn change_unless_held<R>(
        &mut self,
        key: &[u8],
        f: impl FnOnce(Write<'_>) -> R,
    ) -> Option<R> {
        self.change_if::<_, false, false>(
            key.into(),
            |gate, hash| gate.write_unless_held(hash),
            |write, _| f(write),
        )
    }

    /// Like [`Session::change_unless_held`], under the key's order lock even without a log.
    pub(crate) fn change_in_order_unless_held<R>(
        &mut self,
        key: &[u8],
        f: impl FnOnce(Write<'_>, Objects<'_>) -> R,
    ) -> Option<R> {
        self.change_if::<_, true, false>(key.into(), |gate, hash| gate.write_unless_held(hash), f)
    }

    /// None if `enter` returns None, or if the write is refused and `FAILS`.
    #[inline(always)]
    fn change_if<R, const ORDERED: bool, const FAILS: bool>(
        &mut self,
        key: Key<'_>,
        enter: impl FnOnce(&mut GateSession, u64) -> Option<Writing<'_>>,
        f: impl FnOnce(Write<'_>, Objects<'_>) -> R,
    ) -> Option<R> {
        let hash = spread(self.seed, key.bytes());
        let stripe = stripe_of(hash) as u32;
        let writing = enter(&mut self.gate, hash)?;
        self.clearing.settle(key, &mut self.index);
        let mode = self.logged.modes.get();
        let mut hooks = if self.hooks.have_work(stripe, key.bytes()) {
            Some(ActiveHooks {
                all: &self.hooks,
                changes: self.changes.as_mut(),
                ready: &mut self.ready,
                refuses: None,
            })
        } else {
            None
        };
        let (index, wheels) = (&mut self.index, &*self.wheels);
        let objects = Objects { index: &self.store, options: &self.containers };
        if !ORDERED && mode.is_free(self.relies_on) {
            let write = Write { index, key, stripe, wheels, records: None, hooks, lasting: false };
            return Some(f(write, objects));
        }
        let mut refused = false;
        let mut is_barred = mode.is_replica() && !self.applies && !self.follows;
        if mode.version() != self.relies_on && !self.applies {
            is_barred |= !may_write(&self.logged, self.writes, key.bytes());
            // No observer is told what happens to hidden keys.
            hooks = hooks.filter(|_| self.writes == Writes::Open);
        }
        if is_barred {
            let refuses = Some(&mut refused);
            hooks = Some(ActiveHooks {
                all: &self.hooks,
                changes: None,
                ready: &mut self.ready,
                refuses,
            });
        }
        // Within a hold no other session writes the key, and the records are handed over together at the end of the
        // hold. Each key has one applier, whose records are in the log before they are applied.
        let is_held = writing.is_held();
        let is_alone = is_held || (self.applies && !ORDERED);
        let order = if is_alone { None } else { self.logged.order(hash) };
        let is_logged = mode.is_logged() && (!mode.is_replica() || self.follows);
        let records = (is_logged && !is_barred).then(|| self.logging.of_database(self.database_id));
        let lasting = mode.keeps_expired() && !self.applies && self.writes == Writes::Open;
        let is_marked = mode.is_marked() && !is_held;
        if is_marked {
            self.logged.marks.begin(hash);
        }
        let write = Write { index, key, stripe, wheels, records, hooks, lasting };
        let result = f(write, objects);
        if !is_held {
            let record = self.logging.hand_over(&self.logged);
            if is_marked {
                self.logged.marks.end(hash, record);
            }
        }
        drop(order);
        if FAILS && refused {
            return None;
        }
        self.refused |= refused;
        Some(result)
    }

    /// Runs `f` while this session alone holds the keys.
    pub(crate) fn hold<R>(
        &mut self,
        keys: &Keys,
        hold: Hold,
        f: impl FnOnce(&mut Session) -> R,
    ) -> R {
        /// Releases the keys even if `f` panics.
        struct Held<'a> {
            session: &'a mut Session,
            taken: bool,
            marked: Option<&'a Keys>,
        }
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                if self.taken {
                    let record = self.session.logging.hand_over(&self.session.logged);
                    if let Some(keys) = self.marked {
                        self.session.logged.marks.end_all(keys, record);
                    }
                    self.session.gate.release();
                }
            }
        }
        let taken = self.gate.acquire(keys, hold);
        // The mode may change in the hold only by what the hold is for.
        let is_marked = taken && hold != Hold::Read && self.logged.modes.get().is_marked();
        let marked = is_marked.then_some(keys);
        if let Some(keys) = marked {
            self.logged.marks.begin_all(keys);
        }
        let held = Held { session: self, taken, marked };
        f(held.session)
    }

    /// Checks whether operations that take memory are admitted. Each operation checks by itself; this is for a caller
    /// that must know before a series of operations, as in [`Session::exclusive`].
    ///
    /// # Errors
    /// [`StoreError::Stalled`], [`StoreError::OutOfMemory`]
    #[inline(always)]
    pub fn admit(&mut self) -> Result<(), StoreError> {
        self.enter_new();
        if self.index.is_refusing() { self.admit_more(0) } else { Ok(()) }
    }

    /// Like [`admit`](Self::admit), with this many bytes in addition to the present ones.
    #[cold]
    pub(crate) fn admit_more(&mut self, len: usize) -> Result<(), StoreError> {
        // What a clear has left goes before any key.
        for _ in 0..CLEARED_STEPS {
            if !self.clear_some() {
                break;
            }
        }
        if self.logged.modes.get().is_replica() {
            // Only a session that follows another kind of server writes; eviction is its primary's. Any other write is
            // refused within the gate, and must not evict before.
            return if self.follows {
                self.admit_unevicted(len).map_err(Into::into)
            } else {
                Ok(())
            };
        }
        let evicts = self.eviction.policy() != EvictionPolicy::NoEviction;
        if evicts && self.admitted.is_some_and(|admitted| len <= admitted) {
            // Memory was freed for all operations of the batch; evicting now could remove keys that the batch has
            // written.
            return Ok(());
        }
        let admitted = match self.eviction.policy() {
            EvictionPolicy::NoEviction => self.admit_unevicted(len),
            _ => self.make_room(len),
        };
        match admitted {
            Ok(()) => Ok(()),
            Err(refused) => self.refuse(refused, len),
        }
    }

    /// As [`hotring_index::Session::scan`] of the index, within the gate.
    pub(crate) fn scan_index(
        &mut self,
        cursor: u64,
        count: usize,
        now: u64,
        mut f: impl FnMut(Entry<'_>),
    ) -> u64 {
        let _reading = self.gate.read_all();
        if !self.clearing.is_on() {
            return self.index.scan(cursor, count, now, f);
        }
        let segments = self.clearing.freeze();
        self.index.scan_hashes(cursor, count, |hash, entry| {
            let is_past = entry.expire_at.is_some_and(|at| at <= now);
            if !is_past && !segments.is_stale(hash) {
                f(entry);
            }
        })
    }

    /// Number of items.
    pub(crate) fn index_len(&self) -> usize {
        self.store.len()
    }

    /// The current tick, by which accesses are dated.
    pub(crate) fn tick(&self) -> u8 {
        self.store.tick()
    }

    /// Whether accesses are dated by time.
    pub(crate) fn dates_accesses(&self) -> bool {
        self.store.stamp().is_some()
    }

    /// Like [`admit`](Self::admit), for operations that set an expiry or a number, or remove data: the memory limit
    /// does not refuse them.
    pub(crate) fn admit_little(&mut self) -> Result<(), StoreError> {
        match self.index.admit() {
            Ok(()) | Err(Refused::Full(_)) => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }

    #[cold]
    fn refuse(&self, refused: Refused, len: usize) -> Result<(), StoreError> {
        match refused {
            Refused::Full(_) if self.admitted.is_some_and(|admitted| len <= admitted) => Ok(()),
            refused => Err(refused.into()),
        }
    }

    /// Runs `f`, whose operations were admitted together to store up to this number of bytes: the memory limit refuses
    /// none of them, and nothing is evicted between them.
    pub fn admitted<R>(&mut self, bytes: usize, f: impl FnOnce(&mut Session) -> R) -> R {
        /// Ends the admission even if `f` panics.
        struct Admitted<'a>(&'a mut Session, Option<usize>);
        impl Drop for Admitted<'_> {
            fn drop(&mut self) {
                self.0.admitted = self.1;
            }
        }
        let before = self.admitted;
        self.admitted = before.max(Some(bytes));
        f(Admitted(self, before).0)
    }

    /// Like [`admit`](Self::admit), for an operation that stores this many bytes at once.
    ///
    /// # Errors
    /// Those of `admit`.
    #[inline(always)]
    pub fn admit_bytes(&mut self, len: usize) -> Result<(), StoreError> {
        if len < ASKED_LEN {
            return Ok(());
        }
        self.admit_more(len)
    }

    /// Whether this session holds all keys of the store ([`Session::exclusive`]).
    pub fn is_alone(&self) -> bool {
        self.gate.holds_all()
    }

    /// Flips one bit of a key's item while `f` runs; for tests of damage detection.
    #[doc(hidden)]
    pub fn with_damage<R>(
        &mut self,
        key: &[u8],
        part: Part,
        bit: usize,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        self.index.with_damage(key, part, bit, f)
    }

    /// Frees a bounded part of the removed memory that no session can access any more. Busy sessions do so by
    /// themselves; call this when a session goes idle. It includes the databases that this session had selected
    /// earlier: another session may have removed items there and then selected another database.
    pub fn collect(&mut self) {
        self.index.collect();
        self.parked.iter_mut().flatten().for_each(|parked| parked.index.collect());
    }

    /// Does a step of compaction if much allocated memory is unused, visiting about `budget` items
    /// ([`hotring_index::Session::compact_step`]). Waits for no operation and delays none.
    pub fn compact_step(&mut self, budget: usize) -> Compacted {
        self.index.compact_step(budget)
    }

    /// Sets the description that other sessions see while this session holds keys ([`Session::held_by`]).
    pub fn set_hold_info(&mut self, info: HoldInfo) {
        self.gate.set_info(info);
    }

    /// The description of another session's hold of the key, if there is one. Costs one load if no key of the stripe is
    /// held.
    #[inline]
    pub fn held_by(&self, key: &[u8]) -> Option<HoldInfo> {
        self.gate.held_by(self.gate_hash(key))
    }

    /// The description of another session's hold with this label, whatever its keys. Costs one load if no key is held.
    #[inline]
    pub fn any_held_with(&self, label: u32) -> Option<HoldInfo> {
        self.gate.any_held_with(label)
    }

    /// Whether a walk over keys would have to wait now because another session holds some. Costs one load.
    pub fn walk_must_wait(&self) -> bool {
        self.gate.is_any_held_by_others()
    }

    /// Sets how this session waits for keys that another session holds. The default blocks the thread.
    pub fn set_wait(&mut self, wait: Box<dyn Wait>) {
        self.gate.waiting = wait;
    }

    /// The stripe of a key, for tests that need keys of the same stripe.
    #[doc(hidden)]
    pub fn stripe(&self, key: &[u8]) -> u32 {
        stripe_of(self.gate_hash(key)) as u32
    }

    /// The hash by which the gate identifies the key.
    #[inline]
    pub(crate) fn gate_hash(&self, key: &[u8]) -> u64 {
        spread(self.seed, key)
    }

    /// Whether the grounds let this session write the key. The caller must hold it.
    pub fn may_write_key(&self, key: &[u8]) -> bool {
        may_write(&self.logged, self.writes, key)
    }

    /// The set of these keys' gate hashes.
    pub(crate) fn keys<'k>(&mut self, keys: impl IntoIterator<Item = &'k [u8]>) -> Keys {
        let mut hashes = std::mem::take(&mut self.hashes);
        hashes.clear();
        hashes.extend(keys.into_iter().map(|key| spread(self.seed, key)));
        let keys = Keys::new(&mut hashes);
        self.hashes = hashes;
        keys
    }

    /// The maximum length of a value ([`Options::value_len_max`](crate::Options::value_len_max)).
    pub fn value_len_max(&self) -> usize {
        self.limits.value_len_max
    }

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), StoreError> {
        let len_max = self.limits.key_len_max;
        if key.len() > len_max {
            return Err(StoreError::KeyTooLong { len: key.len(), len_max });
        }
        Ok(())
    }

    /// Checks whether a value of this length may be stored.
    pub(crate) fn check_value(&mut self, len: usize) -> Result<(), StoreError> {
        self.limits.check_value(len)?;
        self.admit_bytes(len)
    }
}

/// Whether the grounds let such a session write the key. The caller must be within the gate.
#[cold]
fn may_write(logged: &Logged, writes: Writes, key: &[u8]) -> bool {
    let grounds = logged.grounds.get();
    writes.may(grounds.map_or(Standing::Open, |grounds| grounds.standing(key)))
}

/// Steps of a clear ([`Session::clear_some`]) in an operation that needs memory, about a millisecond in all.
const CLEARED_STEPS: usize = 8;

/// Values of at least this length, in bytes, must fit below the memory limit; each session may exceed the limit by a
/// shorter value.
const ASKED_LEN: usize = 16 << 10;

/// Maximum lengths that a store accepts, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) key_len_max: usize,
    pub(crate) value_len_max: usize,
}

impl Limits {
    pub(crate) fn check_value(&self, len: usize) -> Result<(), StoreError> {
        if len > self.value_len_max {
            return Err(StoreError::ValueTooLong { len, len_max: self.value_len_max });
        }
        Ok(())
    }
}
