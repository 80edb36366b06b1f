//! Sessions: the shared state of an index, the state of a session, and pins, which keep items in memory
//! during an operation.

mod admit;
mod clear;
pub(crate) mod compact;

use crate::core::arena::{Arena, Compaction, LocalArena, footprint};
use crate::core::block::Blocks;
use crate::core::config::{Config, ConfigError};
use crate::core::item::{Damaged, Item, Kind};
use crate::core::limbo::ADMIT_ROUNDS;
use crate::core::memory_limit::{Budget, CHECK_INTERVAL, CHECK_INTERVAL_SHORT, Refused};
use crate::core::reclaim::{Collector, Participant, Record, Retired};
use crate::core::sync::spin::is_over;
use crate::core::sync::{Arc, Mutex, Ordering, TallyU64};
use crate::engine::Engine;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Added to the size of a retired item that owns memory outside its block. Footprints are even, so the low bit
/// is free.
const HAS_MORE: usize = 1;

/// Releases the memory that a retired item has outside its block; returns the size of the block.
#[inline(always)]
fn released<K: Kind>(kind: &K, retired: &Retired) -> usize {
    if retired.size & HAS_MORE == 0 { retired.size } else { release_more(kind, retired) }
}

#[cold]
#[inline(never)]
fn release_more<K: Kind>(kind: &K, retired: &Retired) -> usize {
    // SAFETY: P: no session has freed it.
    let item = unsafe { Item::new(retired.block) };
    K::release(item);
    footprint(kind.size(item))
}

/// Versions that a session draws from the shared counter at a time.
const VERSION_BLOCK: u64 = 1024;

/// The state that all sessions of an index share.
pub struct Shared<K: Kind, E: Engine> {
    /// The kind of items.
    pub kind: K,
    /// The engine.
    pub engine: E,
    /// The settings.
    pub config: Config,
    /// The rule by which removed memory becomes free.
    pub collector: Arc<Collector>,
    pub(crate) arena: Arc<Arena>,
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) budget: Budget,
    /// `None` while a session compacts.
    pub(crate) compaction: Mutex<Option<Compaction>>,
    /// The position of `expire_step`.
    pub(crate) expire_cursor: TallyU64,
    /// The position of `sweep_some`.
    sweep_cursor: TallyU64,
    versions: TallyU64,
    sessions: TallyU64,
}

impl<K: Kind, E: Engine> Shared<K, E> {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        config.check(E::NAME)?;
        Ok(Self {
            kind: K::new(&config)?,
            engine: E::new(&config)?,
            collector: Arc::new(collector(&config)),
            arena: Arc::new(Arena::new(config.huge_pages, E::PRIVATE_CHUNKS)),
            blocks: Arc::new(Blocks::new()),
            budget: Budget::new(),
            compaction: Mutex::new(Some(Compaction::default())),
            expire_cursor: TallyU64::new(0),
            sweep_cursor: TallyU64::new(0),
            versions: TallyU64::new(1),
            sessions: TallyU64::new(0),
            config,
        })
    }

    pub(crate) fn sum(&self, counter: impl Fn(&Record) -> i64) -> i64 {
        self.collector.records().map(counter).sum()
    }

    /// The number of items present, summed over the sessions' counts. O(sessions).
    pub fn items(&self) -> i64 {
        self.sum(|record| record.items.load())
    }

    /// Bytes of all items, including removed items that wait for readers.
    pub(crate) fn item_bytes(&self) -> u64 {
        self.sum(|record| record.item_bytes.load()).max(0).cast_unsigned()
    }
}

#[cfg(not(any(loom, shuttle)))]
fn collector(config: &Config) -> Collector {
    Collector::new(config.limbo_max)
}

#[cfg(any(loom, shuttle))]
fn collector(config: &Config) -> Collector {
    let mut collector = match config.reclaim {
        crate::core::faults::Reclaim::Epochs => Collector::new(config.limbo_max),
        crate::core::faults::Reclaim::Oracle => Collector::oracle(),
    };
    collector.fault = config.fault;
    collector
}

impl<K: Kind, E: Engine> Drop for Shared<K, E> {
    /// Classed memory is freed with the arena. Large items must be freed one by one: items that wait for readers,
    /// and items that the engine still holds.
    fn drop(&mut self) {
        let orphans = self.collector.take_orphans();
        if !self.arena.has_large() && self.blocks.bytes() == 0 {
            return;
        }
        // SAFETY: sessions hold the index, so none is left; an item is either an orphan or still held by the
        // engine, which hands out each item once.
        let free = |block: NonNull<u8>, size| unsafe { self.arena.free_if_large(block, size) };
        for orphan in orphans {
            free(orphan.block, released(&self.kind, &orphan));
        }
        self.engine.drain::<K>(|item| {
            let (size, has_more) = self.kind.extent(item);
            if has_more {
                K::release(item);
            }
            free(item.start(), size);
        });
    }
}

/// A thread's access to an index, with its pin, its cache of free memory and its random numbers.
///
/// Sessions are cheap to keep. Create one per thread, not one per operation. A session may move between
/// threads but serves one thread at a time.
pub struct Session<K: Kind, E: Engine> {
    /// Must be dropped before the index, which frees the session's orphans.
    local: Local<E>,
    shared: Arc<Shared<K, E>>,
}

pub struct Local<E: Engine> {
    pub participant: Participant,
    pub(crate) arena: LocalArena,
    /// Accesses until the next R-th one.
    pub countdown: u32,
    /// The number of consecutive R-th accesses that changed nothing, up to a maximum. Each doubles the next period.
    pub(crate) calm: u32,
    /// Operations until a guard renews its pin.
    pub(crate) guarded: u32,
    /// Inserts since growth was last considered.
    pub inserts: u32,
    /// Removals since shrinking was last considered.
    pub(crate) removals: u32,
    /// Bytes that may be taken before the next check of the memory limit.
    until_check: i64,
    /// The value of `until_check` after the last check.
    check_interval: i64,
    random: u64,
    versions: std::ops::Range<u64>,
    /// Whether accesses are noted in items.
    pub(crate) noted: bool,
    /// The hashes of new keys, for an eviction policy.
    pub(crate) entered: Vec<u64>,
    /// The first damaged item met and not yet reported; `damages` counts all damaged items met.
    pub(crate) damage: Option<Box<Damaged>>,
    pub(crate) damages: u64,
    /// The engine's state in this session.
    pub engine: E::Local,
}

impl<K: Kind, E: Engine> Session<K, E> {
    /// A new session. Without a name, its number is its name.
    pub(crate) fn new(shared: Arc<Shared<K, E>>, name: Option<&str>) -> Result<Self, ConfigError> {
        // ORDERING: Relaxed, the number must only be unique.
        let number = shared.sessions.fetch_add(1, Ordering::Relaxed);
        let seed = shared.config.seed[0] ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = name.map_or_else(|| format!("session {number}"), str::to_string);
        let local = Local {
            participant: Participant::new(shared.collector.clone(), &name),
            arena: LocalArena::new(shared.arena.clone()),
            countdown: shared.config.period(),
            calm: 0,
            guarded: 0,
            inserts: 0,
            removals: 0,
            until_check: CHECK_INTERVAL as i64,
            check_interval: CHECK_INTERVAL as i64,
            random: seed | 1,
            versions: 0..0,
            noted: true,
            entered: Vec::new(),
            damage: None,
            damages: 0,
            engine: shared.engine.local()?,
        };
        let mut session = Self { local, shared };
        // New and active sessions free the memory left by ended sessions.
        session.collect();
        Ok(session)
    }

    pub(crate) fn local(&mut self) -> &mut Local<E> {
        &mut self.local
    }

    pub(crate) fn shared(&self) -> &Shared<K, E> {
        &self.shared
    }

    fn admit_over_limit(&mut self) -> Result<(), Refused> {
        for _ in 0..ADMIT_ROUNDS {
            let freed = self.collect_garbage();
            if !self.shared.collector.weighs_too_much() {
                return Ok(());
            }
            if freed == 0
                && let Some(stalled) = self.shared.collector.stalled()
            {
                return Err(Refused::Stalled(Box::new(stalled)));
            }
        }
        // No session is stalled: the removed memory is a backlog, and it shrinks.
        Ok(())
    }

    /// Frees a bounded part of the removed memory that no session can see, and returns this session's cache of
    /// free memory, so that it can return to the system. Busy sessions collect automatically; call this when a
    /// session goes idle.
    pub fn collect(&mut self) {
        if self.local.participant.has_garbage() || self.shared.engine.is_busy() {
            self.collect_garbage();
        }
        self.shared.blocks.step();
        self.local.arena.give_back();
    }

    /// As [`collect`](Self::collect), and leaves the rest to the next session that collects. Call this if the
    /// session will not be used for a while.
    pub fn give_away(&mut self) {
        E::catch_up(&mut self.pin());
        self.collect();
        self.local.participant.hand_over();
    }

    /// Records that an object has grown by this many bytes. Like the allocation of items, this checks the memory
    /// limit at intervals. Returns up to the same number of free bytes to the system.
    pub fn grew(&mut self, bytes: usize) {
        self.shared.blocks.give_back(bytes as u64);
        self.local.until_check -= bytes as i64;
        if self.local.until_check < 0 {
            self.pin().check_memory();
        }
    }

    /// Collects, and returns the session's cached memory, so that the arena chooses the memory of the next items.
    pub(crate) fn leave_caches(&mut self) {
        if self.local.participant.has_garbage() {
            self.collect_garbage();
        }
        self.local.arena.give_back();
    }

    /// Pins the session: items that it finds stay in memory until the result is dropped.
    #[inline(always)]
    pub(crate) fn pin(&mut self) -> Pinned<'_, K, E> {
        if !self.pins_at_once() {
            self.pin_in_full();
        }
        self.pinned()
    }

    /// Pins the session for a guard: until `end_guard` of the participant.
    pub(crate) fn begin_guard(&mut self) {
        if self.local.participant.is_collection_due() {
            self.collect_garbage();
        }
        self.local.participant.begin_guard();
    }

    /// Renews the pin of the current guard, with a collection in between if one is due.
    #[cold]
    #[inline(never)]
    pub(crate) fn renew_guard(&mut self) {
        /// Pins again in any case: if the collection panics, the guard may still be used.
        struct Pins<'s, K: Kind, E: Engine>(&'s mut Session<K, E>);
        impl<K: Kind, E: Engine> Drop for Pins<'_, K, E> {
            fn drop(&mut self) {
                self.0.local.participant.begin_guard();
            }
        }
        self.local.participant.end_guard();
        let pins = Pins(self);
        if pins.0.local.participant.is_collection_due() {
            pins.0.collect_garbage();
        }
    }

    #[cold]
    #[inline(never)]
    fn pin_in_full(&mut self) {
        self.local.participant.end_forgotten_guard();
        if self.local.participant.is_collection_due() {
            self.collect_garbage();
        }
        self.local.participant.pin();
    }

    /// Pins the session if no other work must be done first. False: the caller must use `pin`.
    #[inline(always)]
    pub(crate) fn pins_at_once(&mut self) -> bool {
        let at_once = self.local.participant.can_pin_fast();
        if at_once {
            self.local.participant.pin_fast();
        }
        at_once
    }

    /// The session, which must be pinned already.
    #[inline(always)]
    pub(crate) fn pinned(&mut self) -> Pinned<'_, K, E> {
        Pinned { shared: &self.shared, engine: &self.shared.engine, local: &mut self.local }
    }

    /// As `pin`, without checking for other work first.
    #[inline(always)]
    pub(crate) fn pin_only(&mut self) -> Pinned<'_, K, E> {
        self.local.participant.pin();
        self.pinned()
    }

    /// Collects removed memory, and returns the number of bytes freed.
    #[cold]
    fn collect_garbage(&mut self) -> i64 {
        let Local { participant, arena, .. } = &mut self.local;
        participant.end_forgotten_guard();
        let (kind, mut freed) = (&self.shared.kind, 0);
        participant.collect(|retired| {
            let size = released(kind, &retired);
            freed += size as i64;
            // SAFETY: the collector hands out a block once, after its last reader (E3).
            unsafe { arena.free(retired.block, size) };
        });
        self.shared.blocks.step();
        participant.record().item_bytes.add(-freed);
        arena.age();
        if self.shared.engine.is_busy() {
            E::step(&mut self.pin_only());
        }
        freed
    }

    /// Does pending work of the table's growth on `buckets` buckets (at least one), under one pin, about 100 ns
    /// each. False: no work can be done at the moment.
    ///
    /// Operations do this work, too, in small portions. Call this after a bulk load until it returns false, or
    /// while a thread is idle: lookups are faster once the work is done.
    pub fn growth_step(&mut self, buckets: u32) -> bool {
        if self.shared.engine.is_busy() {
            self.collect_garbage();
        }
        E::growth_step(&mut self.pin(), u64::from(buckets.max(1)))
    }

    /// Doubles the table, if the engine can and no other resize is in progress; true if it did. An engine that
    /// grows in steps only begins to; later operations and [`Session::collect`] do the rest.
    ///
    /// Tables grow automatically ([`crate::Growth`]); this is for callers that know the future size.
    pub fn grow(&mut self) -> bool {
        E::grow(&mut self.pin())
    }

    /// Whether the load alone would make the table grow for this number of items, so that the caller may
    /// [`Session::grow`] it in advance. False for engines with other criteria.
    pub fn is_small_for(&mut self, items: u64) -> bool {
        self.pin().engine.is_small_for(items)
    }

    /// Begins to halve the table, if the engine can, the table has more than its initial slots, and no other
    /// resize is in progress; true if it did. Later operations and [`Session::collect`] do the rest in small
    /// steps.
    ///
    /// Tables that can shrink do so automatically ([`crate::Growth`]); this is for callers that know the future
    /// size.
    pub fn shrink(&mut self) -> bool {
        E::shrink(&mut self.pin())
    }
}

impl<K: Kind, E: Engine> Drop for Session<K, E> {
    fn drop(&mut self) {
        if !is_over() {
            E::catch_up(&mut self.pin());
        }
    }
}

impl<E: Engine> Local<E> {
    /// Counts an access. False: this is the R-th access. The caller must call `not_counted` and then pass the
    /// access to the strategy.
    #[inline(always)]
    pub(crate) fn count_down(&mut self) -> bool {
        self.countdown -= 1;
        self.countdown != 0
    }

    /// Takes back a count that came to the R-th access.
    #[inline(always)]
    pub(crate) fn not_counted(&mut self) {
        self.countdown = self.countdown.max(1);
    }

    /// The next number of a xorshift generator. Accesses draw from it, so it must cost only a few instructions.
    /// It chooses victims and intervals, which need no better randomness.
    pub fn random(&mut self) -> u64 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A pinned session: the context of every operation.
pub struct Pinned<'s, K: Kind, E: Engine> {
    /// The index.
    pub shared: &'s Shared<K, E>,
    /// The engine of the index.
    pub engine: &'s E,
    /// The session's state.
    pub local: &'s mut Local<E>,
}

impl<K: Kind, E: Engine> Drop for Pinned<'_, K, E> {
    #[inline(always)]
    fn drop(&mut self) {
        self.local.participant.unpin();
    }
}

impl<K: Kind, E: Engine> Pinned<'_, K, E> {
    /// The same pin for a rarely called function, so that the common path's pin stays in registers.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> ManuallyDrop<Pinned<'_, K, E>> {
        ManuallyDrop::new(Pinned { shared: self.shared, engine: self.engine, local: self.local })
    }

    /// The session's counts.
    #[inline(always)]
    pub fn record(&self) -> &Record {
        self.local.participant.record()
    }

    /// Memory for an item, 8-aligned.
    pub fn alloc(&mut self, size: usize) -> NonNull<u8> {
        let len = footprint(size) as i64;
        self.record().item_bytes.add(len);
        self.local.until_check -= len;
        if self.local.until_check < 0 {
            self.check_memory();
        }
        self.local.arena.alloc(size)
    }

    /// Counts memory that the next item owns outside its block.
    pub(crate) fn took(&mut self, bytes: usize) {
        self.local.until_check -= bytes as i64;
    }

    #[cold]
    fn check_memory(&mut self) {
        self.shared
            .kind
            .wrote((self.local.check_interval - self.local.until_check).cast_unsigned());
        self.local.check_interval = CHECK_INTERVAL as i64;
        if self.shared.budget.is_short(self.shared.held_bytes()) {
            // A cached block keeps its chunk, and a few items may begin a new chunk.
            self.local.arena.give_back();
            self.local.check_interval = CHECK_INTERVAL_SHORT as i64;
        }
        self.local.until_check = self.local.check_interval;
        // The result is published for the next `admit`.
        let _ = self.shared.check_memory(0);
    }

    /// Frees an item that was never published.
    pub fn discard(&mut self, item: Item) {
        let (size, has_more) = self.shared.kind.extent(item);
        self.record().item_bytes.add(-(footprint(size) as i64));
        item.lifetime().free();
        // As in `retire`: the copy of a damaged item is damaged, too.
        if size > 0 {
            // SAFETY: as below.
            unsafe { self.shared.arena.check_end(item.start(), size) };
            if has_more {
                K::release(item);
            }
            // SAFETY: the item is private to its maker, which gives it up here.
            unsafe { self.local.arena.free(item.start(), size) };
        }
    }

    /// Retires an item that no session can find any more. Must be called once per item.
    pub fn retire(&mut self, item: Item) {
        let (size, has_more) = self.shared.kind.extent(item);
        if size > 0 {
            // SAFETY: allocated with this size, and freed by the collector, later.
            unsafe { self.shared.arena.check_end(item.start(), size) };
        }
        let size = footprint(size);
        // A damaged item of unknown size is leaked: freeing it with a wrong size would be worse.
        if size > 0 {
            let size = if has_more { size + K::elsewhere(item) + HAS_MORE } else { size };
            self.local.participant.retire(item, size);
        }
    }

    /// Counts an item that was added to the table.
    pub fn count_in(&self, item: Item) {
        self.record().items.add(1);
        if K::expires(item) {
            self.record().expiring.add(1);
        }
    }

    /// Counts an item that was removed from the table.
    pub fn count_out(&self, item: Item) {
        self.record().items.add(-1);
        if K::expires(item) {
            self.record().expiring.add(-1);
        }
    }

    /// Updates the counts after `copy` has replaced `old` in the table.
    pub fn count_replaced(&self, old: Item, copy: Item) {
        let expiring = i64::from(K::expires(copy)) - i64::from(K::expires(old));
        if expiring != 0 {
            self.record().expiring.add(expiring);
        }
    }

    /// A number that no earlier call on this index returned.
    pub(crate) fn fresh_version(&mut self) -> u64 {
        if self.local.versions.is_empty() {
            // ORDERING: Relaxed, the versions must only be unique.
            let start = self.shared.versions.fetch_add(VERSION_BLOCK, Ordering::Relaxed);
            self.local.versions = start..start + VERSION_BLOCK;
        }
        self.local.versions.next().expect("the block was refilled")
    }
}
