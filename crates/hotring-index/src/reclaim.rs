//! Epoch-based reclamation: the only file that decides when item memory is free again.
//!
//! A session that may hold references is *pinned*: its record shows `epoch << 1 | 1`. Memory that
//! left the index is *retired* with an epoch and freed once the global epoch is two further.
//!
//! * E1 The global epoch goes from e to e + 1 only if every pinned record shows e.
//! * E2 A session that loads the epoch as L after its pin keeps the global epoch at L + 1 or below
//!   until it unpins: an advance from a higher one begins, with its heavy barrier, after an epoch
//!   that our load missed, so our pin precedes that barrier and the scan finds it with an older
//!   epoch. (The pinned value itself may be older than that: the thread can be held up between
//!   loading the epoch and storing it.)
//! * E3 Retired memory is tagged t = L + 1, with L loaded at the retire, and freed when the global
//!   epoch is t + 2 or more. Two advances lie between. The one from t saw the retiring session gone
//!   (E2), so it happens after the unlinking. The next one scans after a heavy barrier: a reader
//!   that it does not see pinned pins later and finds the memory unlinked; a reader that it sees
//!   pinned shows t + 1, which it read from the first of the two, hence also after the unlinking.
//!
//! A pin is a plain store ([`barrier::light`]); who advances pays ([`barrier::heavy`]). Figures in
//! `docs/decisions/0001-reclamation.md`. A session that stays pinned keeps everything that is
//! retired after its pin; `limit.rs` says what bounds that.

use crate::barrier;
use crate::item::Item;
use crate::limit::{Limit, Shown, Stalled, tidy_name};
use crate::rare::sometimes;
#[cfg(any(loom, shuttle))]
use crate::sync::TallyU64;
use crate::sync::{
    Arc, AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering, TallyI64, compiler_fence,
};
use std::collections::VecDeque;
use std::ptr::{NonNull, null_mut};

/// Retired blocks (or bytes) after which a session tries to advance the epoch.
const ADVANCE_BLOCKS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 256 };
const ADVANCE_BYTES: usize = 256 << 10;
/// Blocks freed at a time, so that no single operation pays for a long queue. More than are retired
/// between two times, so that a queue gets shorter.
const FREE_STEP: usize = 4 * ADVANCE_BLOCKS as usize;
/// An empty queue that has had room for more than this gives it back.
const QUEUE_KEPT: usize = 16 * FREE_STEP;
/// Small leavings are put together up to this many blocks.
const BAG_LEN: usize = FREE_STEP;
/// Advances from a tag on after which a grace period is over (E3).
const GRACE: u64 = 2;
/// Enough has been retired to pay for an advance.
const DUE: u8 = 1;
/// A pin costs a fence in this process.
const FENCED: u8 = 2;
/// A guard has the pin; no other session sees this, unless the guard was forgotten.
pub(crate) const GUARDED: u8 = 4;
/// Accesses after which a session that retires nothing more tries again to free what it has queued.
const NUDGE_ACCESSES: u32 = 320;

/// Counters that their session writes with plain loads and stores and anybody may sum.
#[derive(Default)]
pub struct Counter(TallyI64);

impl Counter {
    /// Adds to it. By the owner alone.
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

/// What one session shows to the others. On lines of its own: neighbours must not share them.
#[repr(align(128))]
#[derive(Default)]
pub struct Record {
    /// `epoch << 1 | 1` while pinned, 0 otherwise.
    state: AtomicU64,
    taken: AtomicBool,
    next: AtomicPtr<Record>,
    pub(crate) items: Counter,
    pub(crate) expiring: Counter,
    pub(crate) item_bytes: Counter,
    pub(crate) limbo_bytes: Counter,
    /// Bytes of the dead versions that the session has left in chains, less those that it has taken out.
    pub(crate) left_bytes: Counter,
    pub lookups: Counter,
    pub visits: Counter,
    pub(crate) head_moves: Counter,
    pub(crate) sampling_rounds: Counter,
    /// For people; what the present owner is called.
    name: Mutex<String>,
    /// The moment of the pin, 0 while there is none, for checkers.
    #[cfg(any(loom, shuttle))]
    since: TallyU64,
}

/// A block that left the index and waits for its readers.
pub(crate) struct Retired {
    tag: u64,
    pub(crate) block: NonNull<u8>,
    pub(crate) size: usize,
}

// SAFETY: a retired block belongs to the queue that holds it.
unsafe impl Send for Retired {}

/// What every operation looks at and few change. On lines of its own.
#[repr(align(128))]
struct Front {
    epoch: AtomicU64,
    shown: Shown,
}

pub struct Collector {
    front: Front,
    records: AtomicPtr<Record>,
    /// What ended sessions left behind, and what others handed over because too much was waiting.
    /// Each block keeps its tag, whoever frees it (E3). The oldest are in front, nearly.
    orphans: Mutex<VecDeque<VecDeque<Retired>>>,
    orphan_bytes: TallyI64,
    limit: Limit,
    /// In the place of epochs, if a checker asks for it.
    #[cfg(any(loom, shuttle))]
    oracle: Option<crate::ghost::Oracle>,
    /// Which wrong variant a checker wants.
    #[cfg(any(loom, shuttle))]
    pub(crate) fault: crate::checks::Fault,
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
            fault: crate::checks::Fault::None,
        }
    }

    /// A collector that never frees, and complains about every access that epochs might not cover.
    #[cfg(any(loom, shuttle))]
    pub(crate) fn oracle() -> Self {
        let mut collector = Self::new(u64::MAX);
        collector.oracle = Some(crate::ghost::Oracle::default());
        collector
    }

    pub(crate) fn epoch(&self) -> u64 {
        // ORDERING: Acquire pairs with the advance in `try_advance`: what the advance had seen
        // unlinked is unlinked for us too (E3).
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

    /// Moves the epoch on by one if every pinned session has seen the current one (E1).
    pub(crate) fn try_advance(&self) -> bool {
        let epoch = self.epoch();
        let limbo = self.weigh();
        // While much is waiting, a session may well be stalled: one seen without a barrier is
        // there, and writers that are refused do not disturb all the others by barriers.
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

    /// As `try_advance`, for a session with nothing to free: without a barrier if it would be for nothing.
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

    /// Looks how much is in limbo, and shows all sessions what that means for them.
    fn weigh(&self) -> i64 {
        let limbo = self.limbo_bytes();
        self.limit.weighed(limbo);
        self.front.shown.show_pressure(self.limit.pressure(limbo));
        limbo
    }

    /// What all sessions see of the limits.
    #[inline(always)]
    pub(crate) fn shown(&self) -> &Shown {
        &self.front.shown
    }

    /// Whether limbo is above the limit, weighed again.
    pub(crate) fn weighs_too_much(&self) -> bool {
        self.weigh();
        self.front.shown.is_over_limit()
    }

    pub(crate) fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The session that memory is waiting for, if it is much.
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
        if self.fault == crate::checks::Fault::FreeEarly {
            return tag < epoch + 2 - GRACE;
        }
        tag + GRACE <= epoch
    }

    /// Whether everybody who was pinned when `grace` returned `tag` has gone (E3).
    pub fn is_over(&self, tag: u64) -> bool {
        #[cfg(any(loom, shuttle))]
        if self.oracle.is_some() {
            // Who is pinned is not in the records.
            return false;
        }
        self.is_past(tag, self.epoch())
    }

    fn has_orphans(&self) -> bool {
        // ORDERING: Relaxed, a hint; the mutex orders the contents.
        self.orphan_bytes.load(Ordering::Relaxed) != 0
    }

    /// Those orphans that no reader can reach any more, up to a bounded number.
    fn take_free_orphans(&self, epoch: u64) -> Vec<Retired> {
        let mut bags = self.orphans.lock().expect("no code panics under this lock");
        let mut free: Vec<Retired> = Vec::new();
        // One that is not free holds up those behind it, which are at most an epoch or two older:
        // all that a session leaves was retired at or before that time's epoch.
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

    /// How many epochs behind the global one the oldest pinned session is (0: none is pinned).
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

/// One session's side of the collector.
pub struct Participant {
    collector: Arc<Collector>,
    record: NonNull<Record>,
    queue: VecDeque<Retired>,
    blocks_since: u32,
    bytes_since: usize,
    /// Accesses that were noted by `nudge`.
    nudged: u32,
    /// Why the next pin is not [`Participant::pin_lightly`] and nothing else: `DUE`, `FENCED`,
    /// `GUARDED`; mostly none.
    pub(crate) reasons: u8,
}

// SAFETY: the record is written by whoever owns the Participant, one thread at a time.
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
            nudged: 0,
            reasons: if barrier::is_asymmetric() { 0 } else { FENCED },
        }
    }

    #[inline(always)]
    pub(crate) fn record(&self) -> &Record {
        // SAFETY: records live as long as the collector, which we hold.
        unsafe { self.record.as_ref() }
    }

    /// From here to `unpin` nothing that was reachable at some moment in between is freed.
    #[inline(always)]
    pub(crate) fn pin(&self) {
        #[cfg(any(loom, shuttle))]
        if self.pin_for_checker() {
            return;
        }
        let epoch = self.collector.epoch();
        // ORDERING: Release: a scan that meets this store and not that of the `unpin` before takes our
        // accesses until then for over, too; pairs with the Acquire in `blocker`. (Where `light` is a
        // fence, as under the checkers, those of the pins in between say as much.) It is ordered before
        // the loads that follow by `light`, which pairs with the `heavy` in `try_advance`.
        self.record().state.store(epoch << 1 | 1, Ordering::Release);
        #[cfg(any(loom, shuttle))]
        if self.collector.fault == crate::checks::Fault::NoPinFence {
            return;
        }
        barrier::light();
    }

    /// As `pin`, where that needs no fence.
    #[inline(always)]
    pub(crate) fn pin_lightly(&self) {
        debug_assert!(self.reasons & FENCED == 0, "this process has no membarrier");
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

    /// The tag of a grace period that begins now: when `Collector::is_over` says so, everybody has
    /// unpinned who may have missed what the caller did before. Must be pinned (E2).
    pub fn grace(&self) -> u64 {
        self.collector.epoch() + 1
    }

    /// Queues a block that no session can reach any more. Must be pinned.
    pub(crate) fn retire(&mut self, item: Item, size: usize) {
        debug_assert!(self.is_pinned(), "E2 needs a pin");
        #[cfg(any(loom, shuttle))]
        if let Some(oracle) = &self.collector.oracle {
            item.ghost().retire(oracle.tick());
            return;
        }
        item.ghost().retire(u64::MAX - 1);
        let (tag, block) = (self.grace(), item.start());
        self.queue.push_back(Retired { tag, block, size });
        self.record().limbo_bytes.add(size as i64);
        self.blocks_since += 1;
        self.bytes_since += size;
        if self.blocks_since >= ADVANCE_BLOCKS || self.bytes_since >= ADVANCE_BYTES {
            self.reasons |= DUE;
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
    pub fn since(&self) -> u64 {
        0
    }

    /// Whether enough has been retired to pay for an advance.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.reasons & DUE != 0
    }

    /// Whether the next pin is [`Participant::pin_lightly`], and nothing else is to be done.
    #[inline(always)]
    pub(crate) fn pins_lightly(&self) -> bool {
        self.reasons == 0
    }

    /// Called now and then, about once in this many accesses: a session that retires nothing more still
    /// frees what it has queued, and does the other work that waits for a collection (`busy`).
    pub fn nudge(&mut self, busy: bool, accesses: u32) {
        if self.queue.is_empty() && !busy && !self.collector.shown().is_pressed() {
            return;
        }
        self.nudged = self.nudged.saturating_add(accesses);
        if self.nudged >= NUDGE_ACCESSES {
            self.hurry();
        }
    }

    /// Lets the next pin begin with a collection, and the other work that waits for one.
    pub(crate) fn hurry(&mut self) {
        self.reasons |= DUE;
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

    /// Tries to advance, then hands a bounded number of free blocks to `free`. Not pinned.
    #[cold]
    pub(crate) fn collect(&mut self, mut free: impl FnMut(Retired)) {
        debug_assert!(!self.is_pinned(), "a pin would hold up the epoch it waits for");
        self.blocks_since = 0;
        self.bytes_since = 0;
        self.nudged = 0;
        self.reasons &= !DUE;
        self.collector.try_advance();
        let epoch = self.collector.epoch();
        for _ in 0..FREE_STEP {
            match self.queue.front() {
                Some(oldest) if self.collector.is_past(oldest.tag, epoch) => {}
                _ => break,
            }
            let retired = self.queue.pop_front().expect("just seen");
            // SAFETY: P: the memory is freed only below.
            unsafe { Item::new(retired.block) }.ghost().free();
            self.record().limbo_bytes.add(-(retired.size as i64));
            free(retired);
        }
        if self.collector.has_orphans() {
            for orphan in self.collector.take_free_orphans(epoch) {
                sometimes!(OrphansFreed);
                // SAFETY: as above.
                unsafe { Item::new(orphan.block) }.ghost().free();
                free(orphan);
            }
        }
        if self.collector.shown().is_short() {
            self.hand_over();
        } else if self.queue.is_empty() && self.queue.capacity() > QUEUE_KEPT {
            self.queue = VecDeque::new();
        }
    }

    /// Lets everybody free what is queued here.
    fn hand_over(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let bytes = self.queue.iter().map(|retired| retired.size).sum::<usize>() as i64;
        // Here before it is gone there: who weighs meanwhile finds too much rather than too little.
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

impl Collector {
    /// Blocks of ended sessions, for the last owner of the index to free.
    pub(crate) fn take_orphans(&self) -> impl Iterator<Item = Retired> {
        let bags =
            std::mem::take(&mut *self.orphans.lock().expect("no code panics under this lock"));
        bags.into_iter().flatten()
    }
}

#[cfg(any(loom, shuttle))]
impl Participant {
    fn is_pinned(&self) -> bool {
        self.since() != 0
    }

    /// The moment of the pin, by the oracle's clock (with epochs, any moment above 0).
    pub fn since(&self) -> u64 {
        // ORDERING: Relaxed, our own store.
        self.record().since.load(Ordering::Relaxed)
    }

    /// Notes the pin; true if the oracle stands for the epochs.
    fn pin_for_checker(&self) -> bool {
        let since = self.collector.oracle.as_ref().map_or(1, crate::ghost::Oracle::tick);
        // ORDERING: Relaxed, as in `since`.
        self.record().since.store(since, Ordering::Relaxed);
        self.collector.oracle.is_some()
    }

    /// Notes the end of the pin; true if there is nothing more to do: under the oracle, or after a
    /// complaint, when no access must be added to the failed run.
    fn unpin_for_checker(&self) -> bool {
        if std::thread::panicking() {
            return true;
        }
        if let Some(oracle) = &self.collector.oracle {
            // Who has seen the answer may tell another client: orders across keys are checked
            // relative to happens-before, so an answer is a moment that others come after.
            oracle.tick();
        }
        // ORDERING: Relaxed, as in `since`.
        self.record().since.store(0, Ordering::Relaxed);
        self.collector.oracle.is_some()
    }
}
