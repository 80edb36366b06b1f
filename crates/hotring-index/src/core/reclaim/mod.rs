//! Epoch-based reclamation: the only module that decides when item memory may be reused.
//!
//! A session that may hold references must be *pinned*: its record shows `epoch << 1 | 1`. Memory that left
//! the index is *retired* with an epoch, and freed once the global epoch is two further.
//!
//! * E1 The global epoch goes from e to e + 1 only if every pinned record shows e.
//! * E2 A session that loads the epoch as L after its pin keeps the global epoch at L + 1 or below until it
//!   unpins. Reason: an advance from a higher epoch begins, with its heavy barrier, after an epoch that our
//!   load missed, so our pin precedes that barrier and the scan finds our pin with an older epoch. (The
//!   pinned value itself may be older than L: the thread can be held up between loading the epoch and
//!   storing it.)
//! * E3 Retired memory is tagged t = L + 1, with L loaded at the retire, and freed when the global epoch is
//!   t + 2 or more. Two advances lie between. The advance from t found the retiring session unpinned (E2), so
//!   it happens after the unlinking. The advance from t + 1 scans after a heavy barrier. A reader that this
//!   scan does not see pinned pins later and finds the memory unlinked. A reader that it sees pinned shows
//!   t + 1, which the reader loaded from the first advance, hence also after the unlinking.
//!
//! A pin is a plain store ([`barrier::light`]); advancing the epoch is expensive ([`barrier::heavy`]).
//! `docs/decisions/0001-reclamation.md` has figures. A session that stays pinned keeps all memory that is
//! retired after its pin; `limbo.rs` bounds this memory.

mod participant;
mod record;

pub use participant::Participant;
pub use record::{Counter, Record};

use crate::core::barrier;
use crate::core::limbo::{Limit, Shown, Stalled};
use crate::core::sync::{AtomicPtr, AtomicU64, Mutex, Ordering, TallyI64};
use std::collections::VecDeque;
use std::ptr::{NonNull, null_mut};

/// Retired blocks after which a session tries to advance the epoch.
const ADVANCE_BLOCKS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 256 };
/// Blocks freed by one collection, so that no operation pays for a long queue. Must be more than
/// `ADVANCE_BLOCKS`, so that queues get shorter.
const FREE_STEP: usize = 4 * ADVANCE_BLOCKS as usize;
/// The number of advances after a tag that end its grace period (E3).
const GRACE: u64 = 2;

/// A block that left the index and waits for its readers.
pub(crate) struct Retired {
    tag: u64,
    pub(crate) block: NonNull<u8>,
    pub(crate) size: usize,
}

// SAFETY: a retired block belongs to the queue that holds it.
unsafe impl Send for Retired {}

/// Read by every operation and rarely written. Must not share cache lines with other data.
#[repr(align(128))]
struct Front {
    epoch: AtomicU64,
    shown: Shown,
}

pub struct Collector {
    front: Front,
    records: AtomicPtr<Record>,
    /// Blocks retired by ended sessions, and by others while memory is short. Each keeps its tag, whichever
    /// session frees it (E3). Roughly ordered, the oldest first.
    orphans: Mutex<VecDeque<VecDeque<Retired>>>,
    orphan_bytes: TallyI64,
    limit: Limit,
    /// Replaces the epochs, if a checker asks for it.
    #[cfg(any(loom, shuttle))]
    oracle: Option<crate::core::lifetime::Oracle>,
    /// The wrong variant to run, for checkers.
    #[cfg(any(loom, shuttle))]
    pub(crate) fault: crate::core::faults::Fault,
}

impl Collector {
    pub(crate) fn new(limbo_max: u64) -> Self {
        barrier::init();
        Self {
            front: Front { epoch: AtomicU64::new(1), shown: Shown::new() },
            records: AtomicPtr::new(null_mut()),
            orphans: Mutex::default(),
            orphan_bytes: TallyI64::new(0),
            limit: Limit::new(limbo_max),
            #[cfg(any(loom, shuttle))]
            oracle: None,
            #[cfg(any(loom, shuttle))]
            fault: crate::core::faults::Fault::None,
        }
    }

    /// A collector that never frees, and panics on every access that epochs might not cover.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn oracle() -> Self {
        let mut collector = Self::new(u64::MAX);
        collector.oracle = Some(crate::core::lifetime::Oracle::default());
        collector
    }

    pub(crate) fn epoch(&self) -> u64 {
        // ORDERING: Acquire pairs with the CAS in `try_advance`: whatever was unlinked before the
        // advance is unlinked for us, too (E3).
        self.front.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        // ORDERING: Acquire pairs with the Release that published the record in `register`.
        let mut at = self.records.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: records are freed only with the collector, which `self` keeps alive.
            let record = unsafe { at.as_ref() }?;
            // ORDERING: Acquire, as above; links never change once published.
            at = record.next.load(Ordering::Acquire);
            Some(record)
        })
    }

    /// A record for a new session: one that an ended session left, or a fresh one.
    fn register(&self) -> NonNull<Record> {
        for record in self.records() {
            // ORDERING: Acquire pairs with the Release in Participant::drop: the old owner's plain
            // writes are over before ours begin.
            if record
                .taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return NonNull::from(record);
            }
        }
        let record = Box::leak(Box::new(Record::default()));
        // ORDERING: Relaxed, not published yet.
        record.taken.store(true, Ordering::Relaxed);
        let record = NonNull::from(record);
        // ORDERING: Relaxed, the CAS below validates it.
        let mut head = self.records.load(Ordering::Relaxed);
        loop {
            // SAFETY: the record was just leaked and lives as long as the collector.
            // ORDERING: Relaxed, published by the CAS.
            unsafe { record.as_ref() }.next.store(head, Ordering::Relaxed);
            // ORDERING: Release publishes the record; pairs with the Acquire in `records`.
            match self.records.compare_exchange_weak(
                head,
                record.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return record,
                Err(now) => head = now,
            }
        }
    }

    /// Advances the epoch by one if every pinned session has seen the current epoch (E1).
    pub(crate) fn try_advance(&self) -> bool {
        let epoch = self.epoch();
        let limbo = self.weigh();
        // While much memory waits, a session may be stalled. Finding such a session needs no barrier, so
        // refused writers do not slow down all others with barriers.
        if self.front.shown.is_short() && self.blocker(epoch).is_some() {
            self.limit.refused();
            return false;
        }
        barrier::heavy();
        if self.blocker(epoch).is_some() {
            self.limit.refused();
            return false;
        }
        // ORDERING: AcqRel; Release pairs with `epoch`, Acquire chains earlier advances (E3).
        let cas = self.front.epoch.compare_exchange(
            epoch,
            epoch + 1,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        if cas.is_ok() {
            self.limit.moved(limbo);
        }
        cas.is_ok()
    }

    /// As `try_advance`, but without a barrier if a pinned session is known to prevent the advance.
    pub(crate) fn try_advance_unhindered(&self) {
        if self.blocker(self.epoch()).is_none() {
            self.try_advance();
        }
    }

    /// A session that is pinned and has not seen this epoch.
    fn blocker(&self, epoch: u64) -> Option<&Record> {
        self.records().find(|record| {
            // ORDERING: Acquire pairs with the Release in `unpin`: the session's last accesses
            // happen before the memory is reused.
            let state = record.state.load(Ordering::Acquire);
            state & 1 == 1 && state >> 1 != epoch
        })
    }

    /// Sums the bytes in limbo, and publishes the resulting pressure to all sessions.
    fn weigh(&self) -> i64 {
        let limbo = self.limbo_bytes();
        self.limit.weighed(limbo);
        self.front.shown.show_pressure(self.limit.pressure(limbo));
        limbo
    }

    /// The limits as all sessions see them.
    #[inline(always)]
    pub(crate) fn shown(&self) -> &Shown {
        &self.front.shown
    }

    /// Whether limbo exceeds the limit, by a new sum.
    pub(crate) fn weighs_too_much(&self) -> bool {
        self.weigh();
        self.front.shown.is_over_limit()
    }

    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The session that prevents the freeing of much memory, if there is one.
    pub(crate) fn stalled(&self) -> Option<Stalled> {
        let limbo = self.limbo_bytes();
        let record = self.blocker(self.epoch())?;
        self.limit.blame(limbo, || record.name.lock().expect("nothing panics here").clone())
    }

    /// Bytes that are retired and not yet free.
    pub(crate) fn limbo_bytes(&self) -> i64 {
        // ORDERING: Relaxed, a report.
        let orphaned = self.orphan_bytes.load(Ordering::Relaxed);
        self.records().map(|record| record.limbo_bytes.load()).sum::<i64>() + orphaned
    }

    /// Whether a grace period is over at an epoch (E3).
    fn is_past(&self, tag: u64, epoch: u64) -> bool {
        #[cfg(any(loom, shuttle))]
        if self.fault == crate::core::faults::Fault::FreeEarly {
            return tag < epoch + 2 - GRACE;
        }
        tag + GRACE <= epoch
    }

    /// Whether every session that was pinned when `grace` returned `tag` has unpinned (E3).
    pub fn is_over(&self, tag: u64) -> bool {
        #[cfg(any(loom, shuttle))]
        if self.oracle.is_some() {
            // Under the oracle the records do not hold the pins.
            return false;
        }
        self.is_past(tag, self.epoch())
    }

    fn has_orphans(&self) -> bool {
        // ORDERING: Relaxed, a hint; the mutex orders the contents.
        self.orphan_bytes.load(Ordering::Relaxed) != 0
    }

    /// A bounded number of orphans that no reader can reach any more.
    fn take_free_orphans(&self, epoch: u64) -> Vec<Retired> {
        let mut bags = self.orphans.lock().expect("no code panics under this lock");
        let mut free: Vec<Retired> = Vec::new();
        // A block that is not free yet delays older blocks behind it, by one or two epochs: a session
        // retires all its blocks at or before the epoch at which it hands them over.
        while free.len() < FREE_STEP
            && let Some(bag) = bags.front_mut()
        {
            match bag.pop_front_if(|orphan| self.is_past(orphan.tag, epoch)) {
                Some(orphan) => free.push(orphan),
                None if bag.is_empty() => drop(bags.pop_front()),
                None => break,
            }
        }
        drop(bags);
        let bytes: usize = free.iter().map(|retired| retired.size).sum();
        // ORDERING: Relaxed, as in `has_orphans`.
        self.orphan_bytes.fetch_sub(bytes as i64, Ordering::Relaxed);
        free
    }

    /// The number of epochs by which the oldest pinned session is behind (0: none is pinned).
    pub(crate) fn oldest_pin(&self) -> u64 {
        let epoch = self.epoch();
        self.records()
            // ORDERING: Relaxed, a report.
            .map(|r| r.state.load(Ordering::Relaxed))
            .filter(|state| state & 1 == 1)
            .map(|state| epoch.saturating_sub(state >> 1))
            .max()
            .unwrap_or(0)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // ORDERING: Relaxed, no other thread is left.
        let mut at = self.records.load(Ordering::Relaxed);
        while !at.is_null() {
            // SAFETY: made by Box::leak in `register`; with the collector the last user is gone.
            let record = unsafe { Box::from_raw(at) };
            // ORDERING: Relaxed, as above.
            at = record.next.load(Ordering::Relaxed);
        }
    }
}

impl Collector {
    /// Blocks of ended sessions, for the last owner of the index to free.
    pub(crate) fn take_orphans(&self) -> impl Iterator<Item = Retired> {
        let bags =
            std::mem::take(&mut *self.orphans.lock().expect("no code panics under this lock"));
        bags.into_iter().flatten()
    }
}
