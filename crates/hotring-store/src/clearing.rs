//! Clearing a database without a pause: at one moment all its keys become absent, and their items go later, one segment
//! after the other.
//!
//! A *segment* is a range of positions, the order in which every engine is scanned (a position is a hash with its bits
//! reversed). [`Clearing::begin`] makes all segments *stale*. To *settle* a segment is to remove its items and to clear
//! its bit. Each operation on a key settles the key's segment first, and [`Clearing::step`] settles the rest.
//!
//! # Invariants
//! * C1 No operation that enters the gate after the clear sees an item of a stale segment.
//! * C2 No item enters a stale segment: a write settles the segment before it looks for its key.
//! * C3 Segments become stale only while one session holds all keys, so no write is in progress. Whoever settles a
//!   segment meanwhile has locked `segments`, which `begin` locks exclusively. A read that is in progress may still see
//!   a stale item, and is ordered before the clear; why that is right if each key changes once, [`crate::gate`] says.
//! * C4 While a scan skips stale items, no segment is settled ([`Clearing::freeze`]): an item that was met in a stale
//!   segment would look like a new one afterwards.
//!
//! Removing an item of a stale segment is no change that anyone could see, so it needs no gate, record or notification.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hotring_index::{AnySession as Index, Key};

/// Items of a segment, on average. Settling one takes about 100 microseconds.
const SEGMENT_ITEMS: u64 = 256;

/// Fewest segments, as a power of two: one word of bits.
const SEGMENTS_MIN_LOG: u32 = 6;

/// Most segments, as a power of two. Hashes have 48 bits.
const SEGMENTS_MAX_LOG: u32 = 32;

/// Locks among which the segments are divided.
const TURNS: usize = 64;

/// What a clear has left in a database.
pub(crate) struct Clearing {
    /// Whether there are stale segments. Each operation reads it.
    is_on: AtomicBool,
    segments: RwLock<Segments>,
    /// See [`Options::cleared_at_once_max`](crate::Options::cleared_at_once_max).
    at_once_max: u64,
}

/// The segments of the last clear.
pub(crate) struct Segments {
    /// The segment of a position is the position shifted by this.
    shift: u32,
    /// A bit for each segment: it is stale.
    stale: Box<[AtomicU64]>,
    /// Number of stale segments.
    left: AtomicU64,
    /// Items in stale segments, and those with an expiry.
    items: AtomicU64,
    expiring: AtomicU64,
    /// The word of `stale` at which the next step begins.
    next: AtomicUsize,
    /// A segment is settled under the lock of its number, modulo [`TURNS`].
    turns: [Mutex<()>; TURNS],
}

impl Segments {
    /// As many segments as this much work needs, in items.
    fn new(work: u64, (items, expiring): (u64, u64)) -> Segments {
        let log = (work / SEGMENT_ITEMS).max(1).ilog2() + 1;
        let log = log.clamp(SEGMENTS_MIN_LOG, SEGMENTS_MAX_LOG);
        Segments {
            shift: u64::BITS - log,
            stale: (0..1 << (log - SEGMENTS_MIN_LOG)).map(|_| AtomicU64::new(!0)).collect(),
            left: AtomicU64::new(1 << log),
            items: AtomicU64::new(items),
            expiring: AtomicU64::new(expiring),
            next: AtomicUsize::new(0),
            turns: std::array::from_fn(|_| Mutex::new(())),
        }
    }

    /// No segments, none of which is stale.
    fn none() -> Segments {
        let segments = Segments::new(0, (0, 0));
        // ORDERING: Relaxed, no other thread has them yet.
        segments.stale.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        segments
    }

    fn of(&self, hash: u64) -> u64 {
        hash.reverse_bits() >> self.shift
    }

    /// Whether the segment of this hash is stale.
    pub(crate) fn is_stale(&self, hash: u64) -> bool {
        self.has(self.of(hash))
    }

    fn has(&self, segment: u64) -> bool {
        let (word, bit) = (segment as usize / 64, segment % 64);
        // ORDERING: Acquire pairs with the Release in `settle`: the items are gone.
        self.stale[word].load(Ordering::Acquire) >> bit & 1 != 0
    }

    /// Removes the items of a segment if it is stale. True if it was the last one.
    fn settle(&self, segment: u64, index: &mut Index) -> bool {
        if !self.has(segment) {
            return false;
        }
        let turn = self.turns[segment as usize % TURNS].lock();
        // A panic within the lock leaves the segment stale.
        let _turn = turn.unwrap_or_else(PoisonError::into_inner);
        if !self.has(segment) {
            return false;
        }
        let from = segment << self.shift;
        let (items, expiring) = index.clear_range(from, from.wrapping_add(1 << self.shift));
        // ORDERING: Relaxed, statistics.
        self.items.fetch_sub(items, Ordering::Relaxed);
        self.expiring.fetch_sub(expiring, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `has`.
        self.stale[segment as usize / 64].fetch_and(!(1 << (segment % 64)), Ordering::Release);
        // ORDERING: AcqRel; the last one has seen all others settle, and publishes that in `is_on`.
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// A stale segment, from the place on where the last step has found one.
    fn any(&self) -> Option<u64> {
        // ORDERING: Relaxed, here and below: a hint, as `settle` looks again.
        let first = self.next.load(Ordering::Relaxed);
        let n = self.stale.len();
        (first..first + n).map(|at| at % n).find_map(|at| {
            let word = self.stale[at].load(Ordering::Relaxed);
            if word == 0 {
                return None;
            }
            self.next.store(at, Ordering::Relaxed);
            Some(at as u64 * 64 + u64::from(word.trailing_zeros()))
        })
    }
}

impl Clearing {
    pub(crate) fn new(at_once_max: u64) -> Clearing {
        let segments = RwLock::new(Segments::none());
        Clearing { is_on: AtomicBool::new(false), segments, at_once_max }
    }

    /// Whether this number of items may go while all keys are held.
    pub(crate) fn is_small(&self, items: u64) -> bool {
        items <= self.at_once_max
    }

    /// Whether there may be stale segments.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `after`: all stale items are gone. An operation within the gate
        // sees `begin`, because that happened in a hold.
        self.is_on.load(Ordering::Acquire)
    }

    /// Makes all keys absent. `work` is the number of items that take as long to remove; `counts` gives the numbers of
    /// items, and of those with an expiry. The caller must hold all keys. The result should be dropped when no session
    /// waits.
    #[must_use]
    pub(crate) fn begin(&self, work: u64, counts: impl FnOnce() -> (u64, u64)) -> Segments {
        let mut segments = self.freeze();
        let before = std::mem::replace(&mut *segments, Segments::new(work, counts()));
        // ORDERING: Release pairs with the Acquire in `is_on`: whoever settles a segment before the hold ends has seen
        // the hold, as have all that see the items gone.
        self.is_on.store(true, Ordering::Release);
        before
    }

    /// Records that there are no items. The caller must hold all keys.
    pub(crate) fn end(&self) -> Segments {
        let mut segments = self.freeze();
        // ORDERING: Relaxed; the end of the hold publishes it.
        self.is_on.store(false, Ordering::Relaxed);
        std::mem::replace(&mut *segments, Segments::none())
    }

    /// Settles the segment of a key. Each operation must call it within the gate before it looks for the key.
    #[inline(always)]
    pub(crate) fn settle(&self, key: Key<'_>, index: &mut Index) {
        if self.is_on() {
            self.settle_stale(key, index);
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_stale(&self, key: Key<'_>, index: &mut Index) {
        let segments = self.read();
        let segment = segments.of(index.key_hash(key));
        self.after(segments.settle(segment, index));
    }

    /// Settles one of the stale segments, if there are any.
    pub(crate) fn step(&self, index: &mut Index) {
        let segments = self.read();
        if let Some(segment) = segments.any() {
            self.after(segments.settle(segment, index));
        }
    }

    /// Keeps the segments as they are until the result is dropped.
    pub(crate) fn freeze(&self) -> RwLockWriteGuard<'_, Segments> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of items, and of those with an expiry, without what is left in stale segments. `counts` gives those
    /// of the index.
    pub(crate) fn present(&self, counts: impl FnOnce() -> (u64, u64)) -> (u64, u64) {
        if !self.is_on() {
            return counts();
        }
        // A step would lower the index's counts before its own.
        let left = self.freeze();
        let (items, expiring) = counts();
        // ORDERING: Relaxed, the lock orders them.
        let left = (left.items.load(Ordering::Relaxed), left.expiring.load(Ordering::Relaxed));
        (items.saturating_sub(left.0), expiring.saturating_sub(left.1))
    }

    fn after(&self, was_last: bool) {
        if was_last {
            // ORDERING: Release pairs with the Acquire in `is_on`.
            self.is_on.store(false, Ordering::Release);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Segments> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner)
    }
}
