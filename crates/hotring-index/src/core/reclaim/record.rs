//! The published part of a session: its epoch, and counters that only it writes.

#[cfg(any(loom, shuttle))]
use crate::core::sync::TallyU64;
use crate::core::sync::{AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering, TallyI64};

/// A counter with one writer, its session, which needs no read-modify-write. Any thread may read it.
#[derive(Default)]
pub struct Counter(TallyI64);

impl Counter {
    /// Adds to it. Only the owner may.
    #[inline]
    pub fn add(&self, n: i64) {
        // ORDERING: Relaxed, statistics with one writer; no other memory is read through them.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Its value.
    pub fn load(&self) -> i64 {
        // ORDERING: Relaxed, as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}

/// One session's record. Must not share cache lines with other records.
#[repr(align(128))]
#[derive(Default)]
pub struct Record {
    /// `epoch << 1 | 1` while pinned, 0 otherwise.
    pub(super) state: AtomicU64,
    pub(super) taken: AtomicBool,
    pub(super) next: AtomicPtr<Record>,
    pub(crate) items: Counter,
    pub(crate) expiring: Counter,
    pub(crate) item_bytes: Counter,
    pub(crate) limbo_bytes: Counter,
    /// Bytes of the dead versions that the session left in chains, less those that it unlinked.
    pub(crate) left_bytes: Counter,
    pub lookups: Counter,
    pub visits: Counter,
    pub(crate) head_moves: Counter,
    pub(crate) sampling_rounds: Counter,
    /// The name of the owner, for reports.
    pub(super) name: Mutex<String>,
    /// For checkers: the moment of the pin, 0 while there is none.
    #[cfg(any(loom, shuttle))]
    pub(super) since: TallyU64,
}
