//! A session's side of reclamation: pins, retired items, and collections.

use super::{ADVANCE_BLOCKS, Collector, FREE_STEP, Record, Retired};
use crate::core::barrier;
use crate::core::hooks::sometimes;
use crate::core::item::Item;
use crate::core::limbo::tidy_name;
use crate::core::sync::{Arc, Ordering, compiler_fence};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// Retired bytes after which a session tries to advance the epoch.
const ADVANCE_BYTES: usize = 256 << 10;
/// An empty queue with a larger capacity is dropped.
const QUEUE_KEPT: usize = 16 * FREE_STEP;
/// Small queues of orphans are joined up to this many blocks.
const BAG_LEN: usize = FREE_STEP;
/// Accesses after which a session without further retirements tries again to free its queue.
const IDLE_ACCESSES: u32 = 320;

/// Reason for a slow pin: a collection is due.
const COLLECT: u8 = 1;
/// Reason for a slow pin: this process has no membarrier, so a pin needs a fence.
const FENCE: u8 = 2;
/// Reason for a slow pin: a guard holds the pin. Only seen if the guard was forgotten.
const GUARDED: u8 = 4;

/// One session's side of the collector.
pub struct Participant {
    collector: Arc<Collector>,
    record: NonNull<Record>,
    queue: VecDeque<Retired>,
    blocks_since: u32,
    bytes_since: usize,
    /// Accesses counted by `count_accesses` since the last collection.
    accesses: u32,
    /// The reasons why the next pin must be slow: `COLLECT`, `FENCE`, `GUARDED`; usually none.
    slow_pin: u8,
}

// SAFETY: only the owner of the Participant writes the record, one thread at a time.
unsafe impl Send for Participant {}

impl Participant {
    pub(crate) fn new(collector: Arc<Collector>, name: &str) -> Self {
        let record = collector.register();
        // SAFETY: records live as long as the collector, which we hold.
        let shown = unsafe { &record.as_ref().name };
        *shown.lock().expect("nothing panics here") = tidy_name(name);
        Self {
            collector,
            record,
            queue: VecDeque::new(),
            blocks_since: 0,
            bytes_since: 0,
            accesses: 0,
            slow_pin: if barrier::is_asymmetric() { 0 } else { FENCE },
        }
    }

    #[inline(always)]
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: records live as long as the collector, which we hold.
        unsafe { self.record.as_ref() }
    }

    /// Pins the session: memory that is reachable at any moment until `unpin` is not freed before `unpin`.
    #[inline(always)]
    pub(crate) fn pin(&self) {
        #[cfg(any(loom, shuttle))]
        if self.pin_for_checker() {
            return;
        }
        let epoch = self.collector.epoch();
        // ORDERING: Release pairs with the Acquire in `blocker`: a scan that reads this store and missed
        // the `unpin` before it must still come after the accesses of that earlier pin. (Where `light`
        // is a fence, as under the checkers, the fences of the pins in between order them, too.) `light`
        // orders this store before the loads that follow; it pairs with `heavy` in `try_advance`.
        self.record().state.store(epoch << 1 | 1, Ordering::Release);
        #[cfg(any(loom, shuttle))]
        if self.collector.fault == crate::core::faults::Fault::NoPinFence {
            return;
        }
        barrier::light();
    }

    /// As `pin`, for a process whose pins need no fence.
    #[inline(always)]
    pub(crate) fn pin_fast(&self) {
        debug_assert!(self.slow_pin & FENCE == 0, "this process has no membarrier");
        let epoch = self.collector.epoch();
        // ORDERING: Release, as in `pin`; ordered before the loads that follow by the compiler fence,
        // which is the side of `barrier::light` for processes with membarrier.
        self.record().state.store(epoch << 1 | 1, Ordering::Release);
        compiler_fence(Ordering::SeqCst);
    }

    #[inline(always)]
    pub(crate) fn unpin(&self) {
        #[cfg(any(loom, shuttle))]
        if self.unpin_for_checker() {
            return;
        }
        // ORDERING: Release, our accesses end before; pairs with the Acquire in `try_advance`.
        self.record().state.store(0, Ordering::Release);
    }

    /// Pins the session for a guard, which must end with `end_guard`.
    pub(crate) fn begin_guard(&mut self) {
        self.pin();
        self.slow_pin |= GUARDED;
    }

    #[inline(always)]
    pub(crate) fn end_guard(&mut self) {
        self.slow_pin &= !GUARDED;
        self.unpin();
    }

    /// Ends the guard that was passed to `mem::forget`, if there is one. Must be called before a slow pin, and
    /// before code that requires an unpinned session.
    pub(crate) fn end_forgotten_guard(&mut self) {
        if self.slow_pin & GUARDED != 0 {
            self.end_guard();
        }
    }

    /// The tag of a grace period that begins now. Once `Collector::is_over` is true for it, every
    /// session that may have missed the caller's earlier writes has unpinned. The caller must be
    /// pinned (E2).
    pub fn grace(&self) -> u64 {
        self.collector.epoch() + 1
    }

    /// Queues a block that can no longer be reached. The session must be pinned.
    pub(crate) fn retire(&mut self, item: Item, size: usize) {
        debug_assert!(self.is_pinned(), "E2 needs a pin");
        #[cfg(any(loom, shuttle))]
        if let Some(oracle) = &self.collector.oracle {
            item.lifetime().retire(oracle.tick());
            return;
        }
        item.lifetime().retire(u64::MAX - 1);
        let (tag, block) = (self.grace(), item.start());
        self.queue.push_back(Retired { tag, block, size });
        self.record().limbo_bytes.add(size as i64);
        self.blocks_since += 1;
        self.bytes_since += size;
        if self.blocks_since >= ADVANCE_BLOCKS || self.bytes_since >= ADVANCE_BYTES {
            self.slow_pin |= COLLECT;
        }
    }

    #[cfg(not(any(loom, shuttle)))]
    fn is_pinned(&self) -> bool {
        // ORDERING: Relaxed, our own store.
        self.record().state.load(Ordering::Relaxed) & 1 == 1
    }

    /// The moment of the pin, by a checker's clock.
    #[cfg(not(any(loom, shuttle)))]
    #[inline(always)]
    #[allow(clippy::unused_self)]
    pub fn pinned_at(&self) -> u64 {
        0
    }

    /// Whether enough has been retired to pay for an advance.
    #[inline(always)]
    pub(crate) fn is_collection_due(&self) -> bool {
        self.slow_pin & COLLECT != 0
    }

    /// Whether the next pin may be [`Participant::pin_fast`].
    #[inline(always)]
    pub(crate) fn can_pin_fast(&self) -> bool {
        self.slow_pin == 0
    }

    /// Counts accesses and requests a collection at intervals. So a session without further retirements still frees
    /// its queue, and does the engine's pending work (`busy`).
    pub fn count_accesses(&mut self, busy: bool, accesses: u32) {
        if self.queue.is_empty() && !busy && !self.collector.shown().is_pressed() {
            return;
        }
        self.accesses = self.accesses.saturating_add(accesses);
        if self.accesses >= IDLE_ACCESSES {
            self.request_collection();
        }
    }

    /// Makes the next pin collect first.
    pub(crate) fn request_collection(&mut self) {
        self.slow_pin |= COLLECT;
    }

    #[inline(always)]
    pub(crate) fn is_refusing(&self) -> bool {
        self.collector.shown().is_refusing()
    }

    pub fn is_over_limit(&self) -> bool {
        self.collector.shown().is_over_limit()
    }

    /// Whether a collection could free anything.
    pub(crate) fn has_garbage(&self) -> bool {
        !self.queue.is_empty() || self.collector.has_orphans()
    }

    /// Tries to advance the epoch, then hands a bounded number of free blocks to `free`. The session
    /// must not be pinned.
    #[cold]
    pub(crate) fn collect(&mut self, mut free: impl FnMut(Retired)) {
        debug_assert!(!self.is_pinned(), "a pin would hold up the epoch it waits for");
        self.blocks_since = 0;
        self.bytes_since = 0;
        self.accesses = 0;
        self.slow_pin &= !COLLECT;
        self.collector.try_advance();
        let epoch = self.collector.epoch();
        for _ in 0..FREE_STEP {
            match self.queue.front() {
                Some(oldest) if self.collector.is_past(oldest.tag, epoch) => {}
                _ => break,
            }
            let retired = self.queue.pop_front().expect("just seen");
            // SAFETY: P: the memory is freed only below.
            unsafe { Item::new(retired.block) }.lifetime().free();
            self.record().limbo_bytes.add(-(retired.size as i64));
            free(retired);
        }
        if self.collector.has_orphans() {
            for orphan in self.collector.take_free_orphans(epoch) {
                sometimes!(OrphansFreed);
                // SAFETY: as above.
                unsafe { Item::new(orphan.block) }.lifetime().free();
                free(orphan);
            }
        }
        if self.collector.shown().is_short() {
            self.hand_over();
        } else if self.queue.is_empty() && self.queue.capacity() > QUEUE_KEPT {
            self.queue = VecDeque::new();
        }
    }

    /// Makes the queue available to all sessions, as orphans.
    pub(crate) fn hand_over(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let bytes = self.queue.iter().map(|retired| retired.size).sum::<usize>() as i64;
        // Add the bytes to the orphans before subtracting them from the record: a concurrent sum must not be too
        // small.
        // ORDERING: Relaxed, see `has_orphans`.
        self.collector.orphan_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.record().limbo_bytes.add(-bytes);
        let mut bags = self.collector.orphans.lock().expect("no code panics under this lock");
        match bags.back_mut() {
            Some(bag) if bag.len() + self.queue.len() <= BAG_LEN => bag.append(&mut self.queue),
            _ => bags.push_back(std::mem::take(&mut self.queue)),
        }
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.end_forgotten_guard();
        debug_assert!(!self.is_pinned(), "a guard outlived its session");
        self.hand_over();
        // ORDERING: Release pairs with the CAS in `register`: our plain writes are over.
        self.record().taken.store(false, Ordering::Release);
    }
}

#[cfg(any(loom, shuttle))]
impl Participant {
    fn is_pinned(&self) -> bool {
        self.pinned_at() != 0
    }

    /// The moment of the pin, by the oracle's clock (with epochs, any moment above 0).
    pub fn pinned_at(&self) -> u64 {
        // ORDERING: Relaxed, our own store.
        self.record().since.load(Ordering::Relaxed)
    }

    /// Records the pin; true if the oracle replaces the epochs.
    fn pin_for_checker(&self) -> bool {
        let since = self.collector.oracle.as_ref().map_or(1, crate::core::lifetime::Oracle::tick);
        // ORDERING: Relaxed, as in `pinned_at`.
        self.record().since.store(since, Ordering::Relaxed);
        self.collector.oracle.is_some()
    }

    /// Records the end of the pin. True if nothing must follow: under the oracle, or in a failed run,
    /// which must get no further accesses.
    fn unpin_for_checker(&self) -> bool {
        if std::thread::panicking() {
            return true;
        }
        if let Some(oracle) = &self.collector.oracle {
            // A client may pass the answer on to another client. Orders across keys are checked relative to
            // happens-before, so the answer must happen before later operations.
            oracle.tick();
        }
        // ORDERING: Relaxed, as in `pinned_at`.
        self.record().since.store(0, Ordering::Relaxed);
        self.collector.oracle.is_some()
    }
}
