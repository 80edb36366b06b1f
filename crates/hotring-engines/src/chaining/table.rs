//! The table: a reserved range of bucket words, of which the first `mask + 1` are in use.

use crate::chaining::word::Head;
use hotring_index::sync::{AtomicU64, Ordering, TallyU64};
#[cfg(not(any(loom, shuttle)))]
use hotring_index::toolkit::{HUGE_PAGE, Mapping};
use hotring_index::{Config, ConfigError};
use std::io;

/// Bytes of a bucket.
pub(crate) const BUCKET: usize = size_of::<u64>();

/// A word that shares its cache line with no other data.
#[repr(align(128))]
struct Alone<T>(T);

pub(crate) struct Table {
    /// Read by every operation, written at a doubling.
    mask: Alone<AtomicU64>,
    /// Buckets that are ready: `mask + 1` when the last doubling is complete.
    ready: Alone<AtomicU64>,
    /// The bucket at which the next share of the splits begins, modulo the number of buckets to
    /// split.
    cursor: Alone<TallyU64>,
    initial: u64,
    words: Words,
}

impl Table {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        let initial = config.slots_initial.max(1).next_power_of_two();
        let mut len = config.slots_max.next_power_of_two();
        let words = loop {
            match Words::reserve(len, config.huge_pages) {
                Ok(words) => break words,
                // The system limits addresses (ulimit -v, overcommit): a smaller table will do.
                Err(_) if len / 2 >= initial && len > 1 => len /= 2,
                Err(error) => return Err(ConfigError::NoMemory(error)),
            }
        };
        let initial = initial as u64;
        let empty = Head::new(initial.trailing_zeros(), 0);
        for index in 0..initial {
            // ORDERING: Relaxed, no other session sees the table yet.
            words.word(index).store(empty.0, Ordering::Relaxed);
        }
        Ok(Self {
            mask: Alone(AtomicU64::new(initial - 1)),
            ready: Alone(AtomicU64::new(initial)),
            cursor: Alone(TallyU64::new(0)),
            initial,
            words,
        })
    }

    #[inline(always)]
    pub(crate) fn word(&self, index: u64) -> &AtomicU64 {
        self.words.word(index)
    }

    /// The present word of a bucket.
    #[inline(always)]
    pub(crate) fn head(&self, index: u64) -> Head {
        // ORDERING: Acquire pairs with the CASes that link, unlink, freeze and publish.
        Head(self.word(index).load(Ordering::Acquire))
    }

    #[inline(always)]
    pub(crate) fn mask(&self) -> u64 {
        // ORDERING: Acquire pairs with `double`: every bucket of the table before is ready.
        self.mask.0.load(Ordering::Acquire)
    }

    /// The level that buckets have, or are about to get.
    pub(crate) fn level(&self) -> u32 {
        self.mask().trailing_ones()
    }

    /// Whether a doubling still has splits to do.
    #[inline(always)]
    pub(crate) fn is_growing(&self) -> bool {
        // ORDERING: Acquire, as in `double`.
        self.ready.0.load(Ordering::Acquire) <= self.mask()
    }

    /// Doubles the table of `mask + 1` buckets if all of them are ready and the reserved range suffices;
    /// the new words are 0 already.
    pub(crate) fn double(&self, mask: u64) -> bool {
        // ORDERING: Acquire pairs with `count_split`, of all splits (a release sequence).
        if self.ready.0.load(Ordering::Acquire) != mask + 1 || mask + 1 >= self.words.len() {
            return false;
        }
        let after = mask << 1 | 1;
        // ORDERING: AcqRel: a session that sees the larger table sees the smaller one complete.
        self.mask.0.compare_exchange(mask, after, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Counts a finished split; must be called once for each split.
    pub(crate) fn count_split(&self) {
        // ORDERING: AcqRel, see `double`.
        self.ready.0.fetch_add(1, Ordering::AcqRel);
    }

    /// The next `n` buckets to split (of a table with at least two).
    pub(crate) fn next_to_split(&self, n: u64) -> impl Iterator<Item = u64> {
        let half = self.mask() >> 1;
        // ORDERING: Relaxed, a counter through which nothing is read.
        let from = self.cursor.0.fetch_add(n, Ordering::Relaxed);
        (from..from + n).map(move |turn| turn & half)
    }

    /// Doublings since the start, and splits.
    pub(crate) fn history(&self) -> (u64, u64) {
        // ORDERING: Relaxed, statistics.
        let ready = self.ready.0.load(Ordering::Relaxed);
        let doublings = self.level() - self.initial.trailing_zeros();
        (u64::from(doublings), ready - self.initial)
    }
}

/// The words, in zeroed memory from the system, of which only used pages are touched.
#[cfg(not(any(loom, shuttle)))]
struct Words {
    start: *const AtomicU64,
    len: u64,
    _mapping: Mapping,
}

// SAFETY: the words are atomics in memory that this owns.
#[cfg(not(any(loom, shuttle)))]
unsafe impl Send for Words {}
// SAFETY: as above.
#[cfg(not(any(loom, shuttle)))]
unsafe impl Sync for Words {}

#[cfg(not(any(loom, shuttle)))]
impl Words {
    fn reserve(len: usize, huge_pages: bool) -> io::Result<Self> {
        let mapping = Mapping::reserve((len * BUCKET).next_multiple_of(HUGE_PAGE), huge_pages)?;
        Ok(Self { start: mapping.start().as_ptr().cast(), len: len as u64, _mapping: mapping })
    }

    fn len(&self) -> u64 {
        self.len
    }

    #[inline(always)]
    fn word(&self, index: u64) -> &AtomicU64 {
        debug_assert!(index < self.len, "bucket numbers are masked");
        // SAFETY: index < len: every caller masks a hash, or takes a bucket that a ready one names
        // as its sibling, which is below twice the number of ready ones. Zeroed memory is valid.
        unsafe { &*self.start.add(index as usize) }
    }
}

/// The words under a checker, which must know each atomic.
#[cfg(any(loom, shuttle))]
struct Words(Box<[AtomicU64]>);

#[cfg(any(loom, shuttle))]
impl Words {
    fn reserve(len: usize, _huge_pages: bool) -> io::Result<Self> {
        Ok(Self((0..len).map(|_| AtomicU64::new(0)).collect()))
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn word(&self, index: u64) -> &AtomicU64 {
        &self.0[index as usize]
    }
}
