//! The shared state of an index, and what a session adds to it.

use crate::arena::{Arena, LocalArena};
use crate::config::{Config, ConfigError, Growth};
use crate::limit::{ADMIT_ROUNDS, Stalled};
use crate::reclaim::{Collector, Participant, Record};
use crate::ring::item::{Item, Kind};
use crate::ring::shrink::Resizing;
use crate::ring::table::Table;
use crate::ring::word::{Hint, Link, Next, UNLINKED};
use crate::sync::{Arc, AtomicU64, Ordering, TallyI64, TallyU64};
use std::ptr::NonNull;

/// Versions that a session draws from the shared counter at a time.
const VERSION_BLOCK: u64 = 1024;

pub(crate) struct Shared<K: Kind, const H: usize> {
    pub(crate) kind: K,
    pub(crate) table: Table<H>,
    pub(crate) config: Config,
    pub(crate) growth: Growth,
    pub(crate) resizing: Resizing,
    pub(crate) collector: Arc<Collector>,
    pub(crate) arena: Arc<Arena>,
    /// Anchors linked so far.
    pub(crate) splits: TallyU64,
    /// What the sums of lookups and visits were at the last doubling.
    pub(crate) lookups_before: TallyI64,
    pub(crate) visits_before: TallyI64,
    /// Where `expire_step` goes on.
    pub(crate) expire_cursor: TallyU64,
    versions: TallyU64,
    sessions: TallyU64,
}

impl<K: Kind, const H: usize> Shared<K, H> {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        config.check(H)?;
        let table = Table::new(&config)?;
        // ORDERING: Relaxed, nobody else sees the table yet. The empty ring is anchor 0 alone.
        table.slot(0).anchor.store(Link::END.address(), Ordering::Relaxed);
        Ok(Self {
            kind: K::with_seed(config.seed),
            table,
            growth: config.growth_for(H),
            resizing: Resizing::new(),
            collector: Arc::new(collector(&config)),
            arena: Arc::new(Arena::new(config.huge_pages)),
            splits: TallyU64::new(1),
            lookups_before: TallyI64::new(0),
            visits_before: TallyI64::new(0),
            expire_cursor: TallyU64::new(0),
            versions: TallyU64::new(1),
            sessions: TallyU64::new(0),
            config,
        })
    }

    pub(crate) fn sum(&self, counter: impl Fn(&Record) -> i64) -> i64 {
        self.collector.records().map(counter).sum()
    }

    /// The links of the chain from anchor 0 on. Only while no other thread uses the index.
    fn chain(&self) -> impl Iterator<Item = Link> {
        let mut at = Link::anchor(0);
        std::iter::from_fn(move || {
            let next = if at.is_anchor() {
                &self.table.slot(at.slot()).anchor
            } else {
                // SAFETY: P: an item is freed only after the walk has passed it.
                unsafe { Item::at(at.address()) }.next()
            };
            let here = at;
            // ORDERING: Relaxed, no other thread is left.
            at = Next(next.load(Ordering::Relaxed)).link();
            Some((here, at))
        })
        .scan(false, |ended, (here, next)| {
            let last = std::mem::replace(ended, next == Link::END);
            (!last).then_some(here)
        })
    }
}

#[cfg(not(any(loom, shuttle)))]
fn collector(config: &Config) -> Collector {
    Collector::new(config.limbo_max)
}

#[cfg(any(loom, shuttle))]
fn collector(config: &Config) -> Collector {
    let mut collector = match config.reclaim {
        crate::checks::Reclaim::Epochs => Collector::new(config.limbo_max),
        crate::checks::Reclaim::Oracle => Collector::oracle(),
    };
    collector.fault = config.fault;
    collector
}

impl<K: Kind, const H: usize> Drop for Shared<K, H> {
    /// Classed memory goes with the arena; large items must be found one by one: those that wait
    /// for readers, those that only a hint still holds, and those in the chain.
    fn drop(&mut self) {
        let orphans = self.collector.take_orphans();
        if !self.arena.has_large() {
            return;
        }
        // SAFETY: sessions hold the index, so none is left; each block is met once below: orphans
        // are out of chain and hints, an UNLINKED item is out of the chain and in one hint.
        let free = |block: NonNull<u8>, size| unsafe { self.arena.free_if_large(block, size) };
        for orphan in orphans {
            free(orphan.block, orphan.size);
        }
        for anchor in self.chain().filter(|link| link.is_anchor()) {
            for hint in &self.table.slot(anchor.slot()).hints {
                // ORDERING: Relaxed, no other thread is left.
                let address = Hint(hint.load(Ordering::Relaxed)).address();
                if address == 0 {
                    continue;
                }
                // SAFETY: P: a hinted item is not freed before its hint is cleared (I4).
                let item = unsafe { Item::at(address) };
                // ORDERING: Relaxed, as above.
                if Next(item.next().load(Ordering::Relaxed)).is(UNLINKED) {
                    free(item.start(), K::size(item));
                }
            }
        }
        for link in self.chain().filter(|link| !link.is_anchor()) {
            // SAFETY: P: in the chain, and freed only here.
            let item = unsafe { Item::at(link.address()) };
            free(item.start(), K::size(item));
        }
    }
}

/// A thread's access to an index: its pin, its memory, its luck.
///
/// Sessions are cheap to keep and meant to be kept: one per thread, not one per operation. A
/// session may move between threads but serves one at a time.
pub struct Session<K: Kind, const H: usize = 7> {
    /// Before the index, whose drop wants what the session leaves behind.
    local: Local,
    shared: Arc<Shared<K, H>>,
}

pub(crate) struct Local {
    pub(crate) participant: Participant,
    pub(crate) arena: LocalArena,
    /// Accesses until the next R-th one.
    pub(crate) countdown: u32,
    /// Inserts since growth was last considered.
    pub(crate) inserts: u32,
    /// Removals since shrinking was last considered.
    pub(crate) removals: u32,
    random: u64,
    versions: std::ops::Range<u64>,
}

impl<K: Kind, const H: usize> Session<K, H> {
    /// An unnamed session is called by its number.
    pub(crate) fn new(shared: Arc<Shared<K, H>>, name: Option<&str>) -> Self {
        // ORDERING: Relaxed, a number that only has to be unique.
        let number = shared.sessions.fetch_add(1, Ordering::Relaxed);
        let seed = shared.config.seed[0] ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = name.map_or_else(|| format!("session {number}"), str::to_string);
        let local = Local {
            participant: Participant::new(shared.collector.clone(), &name),
            arena: LocalArena::new(shared.arena.clone()),
            countdown: shared.config.period,
            inserts: 0,
            removals: 0,
            random: seed | 1,
            versions: 0..0,
        };
        let mut session = Self { local, shared };
        // What ended sessions left is freed by those that begin, or by those that go on.
        session.collect();
        session
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn local(&mut self) -> &mut Local {
        &mut self.local
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn shared(&self) -> &Shared<K, H> {
        &self.shared
    }

    /// Asks whether an operation that takes memory may begin: not while more than
    /// [`Config::limbo_max`] bytes of removed items wait for a session that stays pinned. Nothing
    /// else asks: without this call before each insert and each update, a stalled reader lets
    /// memory grow without bound. Removals and reads need not ask.
    ///
    /// Costs one load. Over the limit it costs up to four collections, each of which frees up to
    /// 1,024 items; and a look at every session's record, if all that is left waits for a reader.
    ///
    /// # Errors
    /// Who is in the way, and of how much. As soon as that session goes on, writes are admitted.
    #[inline(always)]
    pub fn admit(&mut self) -> Result<(), Box<Stalled>> {
        if self.local.participant.is_over_limit() { self.admit_over_limit() } else { Ok(()) }
    }

    #[cold]
    fn admit_over_limit(&mut self) -> Result<(), Box<Stalled>> {
        for _ in 0..ADMIT_ROUNDS {
            let freed = self.collect_garbage();
            if !self.shared.collector.weighs_too_much() {
                return Ok(());
            }
            if freed == 0
                && let Some(stalled) = self.shared.collector.stalled()
            {
                return Err(Box::new(stalled));
            }
        }
        // Nobody is stalled: it is a backlog, and it gets smaller.
        Ok(())
    }

    /// Frees removed memory as far as no session can see it any more, a bounded part at a time.
    /// Busy sessions do so by themselves; call this where a session goes idle. It also gives up
    /// the free memory that it has kept for itself, so that it can go back to the system.
    pub fn collect(&mut self) {
        if self.local.participant.has_garbage() || self.is_resizing() {
            self.collect_garbage();
        }
        self.local.arena.give_back();
    }

    /// Pins the session: until the guard drops, what it finds stays in memory.
    #[inline(always)]
    pub(crate) fn pin(&mut self) -> Pinned<'_, K, H> {
        if self.local.participant.is_due() {
            self.collect_garbage();
        }
        self.pin_only()
    }

    /// As `pin`, without looking for other work first.
    #[inline(always)]
    pub(crate) fn pin_only(&mut self) -> Pinned<'_, K, H> {
        self.local.participant.pin();
        Pinned { ring: &self.shared, local: &mut self.local }
    }

    /// Returns how many bytes became free.
    #[cold]
    fn collect_garbage(&mut self) -> i64 {
        let Local { participant, arena, .. } = &mut self.local;
        let mut freed = 0;
        participant.collect(|retired| {
            freed += retired.size as i64;
            // SAFETY: the collector hands out a block once, after its last reader (E3).
            unsafe { arena.free(retired.block, retired.size) };
        });
        participant.record().item_bytes.add(-freed);
        arena.age();
        self.step_resizing();
        freed
    }

    pub(crate) fn is_resizing(&self) -> bool {
        self.shared.resizing.is_busy()
    }
}

impl Local {
    /// A xorshift generator: chooses victims and intervals, nothing that needs more.
    pub(crate) fn random(&mut self) -> u64 {
        let mut x = self.random;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// A pinned session: the context of every operation on the ring.
pub(crate) struct Pinned<'s, K: Kind, const H: usize> {
    pub(crate) ring: &'s Shared<K, H>,
    pub(crate) local: &'s mut Local,
}

impl<K: Kind, const H: usize> Drop for Pinned<'_, K, H> {
    #[inline(always)]
    fn drop(&mut self) {
        self.local.participant.unpin();
    }
}

impl<'s, K: Kind, const H: usize> Pinned<'s, K, H> {
    #[inline(always)]
    pub(crate) fn record(&self) -> &Record {
        self.local.participant.record()
    }

    /// The `next` word behind a link.
    #[inline(always)]
    pub(crate) fn next(&self, link: Link) -> &'s AtomicU64 {
        if link.is_anchor() {
            &self.ring.table.slot(link.slot()).anchor
        } else {
            self.item(link).next()
        }
    }

    #[inline(always)]
    pub(crate) fn item(&self, link: Link) -> Item {
        debug_assert!(!link.is_anchor());
        #[cfg(any(loom, shuttle))]
        assert!(link.address() != 0, "a walk leads into a slot that is not in use");
        // SAFETY: P: the link was read from a node of a walk under this pin (P1, P3).
        let item = unsafe { Item::at(link.address()) };
        item.ghost().seen(self.local.participant.since());
        item
    }

    /// The item of a hint word that was loaded under this pin.
    #[inline(always)]
    pub(crate) fn hinted(&self, hint: Hint) -> Option<Item> {
        if hint.address() == 0 {
            return None;
        }
        // SAFETY: P: what a hint word contains is claimed, hence not freed under our pin (P4).
        let item = unsafe { Item::at(hint.address()) };
        item.ghost().seen(self.local.participant.since());
        Some(item)
    }

    pub(crate) fn alloc(&mut self, size: usize) -> NonNull<u8> {
        self.record().item_bytes.add(crate::arena::footprint(size) as i64);
        self.local.arena.alloc(size)
    }

    /// Frees an item that was never published.
    pub(crate) fn discard(&mut self, item: Item) {
        let size = K::size(item);
        self.record().item_bytes.add(-(crate::arena::footprint(size) as i64));
        item.ghost().free();
        // SAFETY: the item is its maker's alone, who gives it up here.
        unsafe { self.local.arena.free(item.start(), size) };
    }

    /// Hands an item that left both chain and hints to the collector (I5: once).
    pub(crate) fn retire(&mut self, item: Item) {
        let size = crate::arena::footprint(K::size(item));
        self.local.participant.retire(item, size);
    }

    /// A number that no earlier call on this index returned.
    pub(crate) fn fresh_version(&mut self) -> u64 {
        if self.local.versions.is_empty() {
            // ORDERING: Relaxed, only uniqueness is asked for.
            let start = self.ring.versions.fetch_add(VERSION_BLOCK, Ordering::Relaxed);
            self.local.versions = start..start + VERSION_BLOCK;
        }
        self.local.versions.next().expect("the block was refilled")
    }
}
