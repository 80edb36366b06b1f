//! The hand-over: sessions append records, one writer takes them, and who must not answer before its records are
//! safe waits for the writer's word.
//!
//! Records get their numbers by their place in the queue. One mutex guards it: it is held for a copy of the records,
//! by sessions that hold no other lock which the writer needs.
//!
//! No wake-up is missed: the writer stores how far it has come before it looks for waiting sessions, and a session that
//! waits looks at that again with its waker in the list. `tests/model_log` has this code in every order of its steps.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::record::{Group, Lsn, Records};
use crate::sync::{
    AtomicBool, AtomicU8, AtomicU64, Condvar, Mutex, MutexGuard, Step, is_left_out, wait_while,
};

/// When a write may be acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum When {
    /// At once: its record is in the queue. If the process is killed, what was handed over within
    /// [`Log::LINGER`] before and what the queue may hold is lost.
    Handed = 0,
    /// Its record was written to the file: nothing is lost if the process is killed. The file is synced each second.
    #[default]
    Written = 1,
    /// Its record is on the disk: nothing is lost if the power fails.
    Synced = 2,
}

impl When {
    fn of(number: u8) -> When {
        match number {
            0 => When::Handed,
            1 => When::Written,
            _ => When::Synced,
        }
    }
}

/// Why records cannot be written.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// What was being done.
    pub what: &'static str,
    /// What the system said.
    pub error: Arc<io::Error>,
    /// It is tried again: the disk is full, and nothing that was written is in doubt. Otherwise it is not, as what
    /// was written may be lost although a second attempt succeeds; what is handed over from now on is dropped.
    pub may_pass: bool,
}

impl Trouble {
    /// The trouble that an error of `what` is.
    pub(crate) fn during(what: &'static str) -> impl FnOnce(io::Error) -> Trouble {
        move |error| {
            let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
            let may_pass = full.contains(&error.kind());
            Trouble { what, error: Arc::new(error), may_pass }
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl std::error::Error for Trouble {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.error)
    }
}

/// The queue between sessions and the writer.
pub struct Log {
    queue: Mutex<Queue>,
    /// The writer waits here.
    work: Condvar,
    /// Bytes that were handed over, and those of them that were written or dropped.
    bytes_handed: AtomicU64,
    bytes_done: AtomicU64,
    unwritten_max: AtomicU64,
    /// Bytes that have been written.
    length: AtomicU64,
    when: AtomicU8,
    /// The last record that was handed over, written, synced.
    handed: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    /// How often the system was asked to sync, and did.
    syncs: AtomicU64,
    /// Whether there is trouble: the cheap form of the question.
    troubled: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
    waiters: Mutex<Vec<Waiter>>,
    /// The writer is to begin a segment.
    wants_segment: AtomicBool,
    /// The writer is to sync what has been handed over.
    wants_sync: AtomicBool,
}

struct Queue {
    group: Group,
    /// The number of the last record that was handed over.
    last: Lsn,
    writer: Attention,
    closed: bool,
}

/// What the writer is to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attention {
    /// Nothing: it comes by itself.
    Busy,
    /// Somebody waits for a record or for room, or there is much to write.
    Hurry,
    /// A record.
    Any,
}

struct Waiter {
    /// The record that is waited for; None is for room in the queue.
    lsn: Option<Lsn>,
    waker: Waker,
}

impl Log {
    /// How long a record may be in the queue while nobody waits for it, before the writer takes it.
    pub const LINGER: Duration = Duration::from_millis(10);

    /// Queued bytes that the writer is woken for although nobody waits.
    const HURRY_LEN: usize = 256 << 10;

    /// A log whose last record so far was `last`, with room for about so many bytes that are not written yet.
    pub fn new(last: Lsn, when: When, unwritten_max: u64) -> Log {
        let group = Group::default();
        Log {
            queue: Mutex::new(Queue { group, last, writer: Attention::Busy, closed: false }),
            work: Condvar::new(),
            bytes_handed: AtomicU64::new(0),
            bytes_done: AtomicU64::new(0),
            unwritten_max: AtomicU64::new(unwritten_max),
            length: AtomicU64::new(0),
            when: AtomicU8::new(when as u8),
            handed: AtomicU64::new(last),
            written: AtomicU64::new(last),
            synced: AtomicU64::new(last),
            syncs: AtomicU64::new(0),
            troubled: AtomicBool::new(false),
            trouble: Mutex::new(None),
            waiters: Mutex::new(Vec::new()),
            wants_segment: AtomicBool::new(false),
            wants_sync: AtomicBool::new(false),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics between its changes. So for the other mutexes.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over the records, which are empty afterwards, and returns the number of the last one. They take effect
    /// together. Never waits for the disk. If nothing is written any more they are dropped, and the number is one
    /// that is never reached.
    pub fn append(&self, records: &mut Records) -> Lsn {
        if self.is_lost() {
            records.reset();
            return Lsn::MAX;
        }
        let (count, bytes) = (records.count(), records.len() as u64);
        let mut queue = self.queue();
        queue.group.append(records);
        queue.last += count;
        let last = queue.last;
        // ORDERING: Release, for who reads it without the mutex: what the records tell of was done before.
        self.handed.store(last, Ordering::Release);
        // ORDERING: Relaxed, a figure that changes under the mutex only.
        let before = self.bytes_handed.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        self.bytes_handed.store(before + bytes, Ordering::Relaxed);
        let wakes = match queue.writer {
            Attention::Busy => false,
            Attention::Hurry => queue.group.len() >= Self::HURRY_LEN,
            Attention::Any => true,
        };
        self.wake_writer(queue, wakes);
        last
    }

    /// Somebody waits, for whatever.
    fn hurry(&self) {
        let queue = self.queue();
        let wakes = queue.writer != Attention::Busy && !is_left_out(Step::Hurry);
        self.wake_writer(queue, wakes);
    }

    fn wake_writer(&self, mut queue: MutexGuard<'_, Queue>, wakes: bool) {
        if wakes {
            queue.writer = Attention::Busy;
            drop(queue);
            self.work.notify_one();
        }
    }

    /// When a write may be acknowledged.
    pub fn when(&self) -> When {
        // ORDERING: Relaxed, a setting.
        When::of(self.when.load(Ordering::Relaxed))
    }

    /// Changes when a write may be acknowledged, also for those that wait.
    pub fn set_when(&self, when: When) {
        // ORDERING: Relaxed; who waits meanwhile looks again once it is woken, by way of the mutex.
        self.when.store(when as u8, Ordering::Relaxed);
        self.wake_waiters(|_| true);
    }

    /// Bytes of records that have been written since this was made.
    pub fn length(&self) -> u64 {
        // ORDERING: Relaxed, a figure.
        self.length.load(Ordering::Relaxed)
    }

    /// Changes how many bytes may be unwritten.
    pub fn set_unwritten_max(&self, bytes: u64) {
        // ORDERING: Relaxed, a setting.
        self.unwritten_max.store(bytes, Ordering::Relaxed);
        self.wake_waiters(|waiter| waiter.lsn.is_none());
    }

    /// The last record that was handed over.
    pub fn handed(&self) -> Lsn {
        // ORDERING: Acquire pairs with the Release in `append`.
        self.handed.load(Ordering::Acquire)
    }

    /// The last record that was written: a kill of the process does not lose it.
    pub fn written(&self) -> Lsn {
        // ORDERING: Acquire pairs with the Release in `wrote`.
        self.written.load(Ordering::Acquire)
    }

    /// The last record that was synced: a power cut does not lose it.
    pub fn synced(&self) -> Lsn {
        // ORDERING: Acquire pairs with the Release in `has_synced`.
        self.synced.load(Ordering::Acquire)
    }

    /// How often what was written has been synced: with the records, how many share a sync.
    pub fn syncs(&self) -> u64 {
        // ORDERING: Relaxed, a figure.
        self.syncs.load(Ordering::Relaxed)
    }

    /// Bytes that were handed over and are not written yet.
    pub fn unwritten(&self) -> u64 {
        // ORDERING: Relaxed, figures.
        let done = self.bytes_done.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        self.bytes_handed.load(Ordering::Relaxed).saturating_sub(done)
    }

    /// Why nothing is written at present, if so.
    pub fn trouble(&self) -> Option<Trouble> {
        // ORDERING: Relaxed; who finds it false before its record was handed over is told by `poll_reached`.
        if !self.troubled.load(Ordering::Relaxed) {
            return None;
        }
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether nothing will be written any more.
    pub(crate) fn is_lost(&self) -> bool {
        self.trouble().is_some_and(|trouble| !trouble.may_pass)
    }

    /// Whether writes up to this record may be acknowledged.
    #[inline]
    pub fn has_reached(&self, lsn: Lsn) -> bool {
        match self.when() {
            When::Handed => self.handed() >= lsn,
            When::Written => self.written() >= lsn,
            When::Synced => self.synced() >= lsn,
        }
    }

    /// Ready once writes up to this record may be acknowledged, or with the reason why they must not be.
    pub fn poll_reached(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<(), Trouble>> {
        if self.has_reached(lsn) {
            return Poll::Ready(Ok(()));
        }
        let mut waiters = self.waiters();
        // Again: from here on the writer finds the waker.
        if self.has_reached(lsn) && !is_left_out(Step::SecondLook) {
            return Poll::Ready(Ok(()));
        }
        if let Some(trouble) = self.trouble() {
            return Poll::Ready(Err(trouble));
        }
        add(&mut waiters, Some(lsn), waker);
        drop(waiters);
        self.hurry();
        Poll::Pending
    }

    /// Whether more is unwritten than may be.
    #[inline]
    pub fn is_full(&self) -> bool {
        // ORDERING: Relaxed, figures.
        self.unwritten() > self.unwritten_max.load(Ordering::Relaxed)
    }

    /// Ready once there is room in the queue, or when there is none to be had.
    pub fn poll_room(&self, waker: &Waker) -> Poll<()> {
        let is_ready = || !self.is_full() || self.trouble().is_some();
        if is_ready() {
            return Poll::Ready(());
        }
        let mut waiters = self.waiters();
        if is_ready() && !is_left_out(Step::SecondLook) {
            return Poll::Ready(());
        }
        add(&mut waiters, None, waker);
        drop(waiters);
        self.hurry();
        Poll::Pending
    }

    fn wake_waiters(&self, which: impl Fn(&Waiter) -> bool) {
        let woken: Vec<Waiter> = self.waiters().extract_if(.., |waiter| which(waiter)).collect();
        woken.into_iter().for_each(|waiter| waiter.waker.wake());
    }

    /// Asks for a new segment for what is handed over from now on, so that those before can go once a snapshot has them.
    pub fn begin_segment(&self) {
        // ORDERING: Relaxed; the mutex orders it for the writer that is woken. Another one begins the segment later.
        self.wants_segment.store(true, Ordering::Relaxed);
        self.hurry();
    }

    /// Whether a segment was asked for and is not there yet. If it cannot be made there is trouble, or, for want of room,
    /// the log goes on in the present one.
    pub fn wants_segment(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `ends_segment_wish`: who finds it false finds the file.
        self.wants_segment.load(Ordering::Acquire)
    }

    /// Asks for a sync of what has been handed over, and does not wait for it.
    pub fn sync_soon(&self) {
        // ORDERING: Release pairs with the Acquire in `takes_sync_wish`: what was handed over before is taken then.
        self.wants_sync.store(true, Ordering::Release);
        self.hurry();
    }

    /// Says that nothing more will be handed over: the writer is to write what there is.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        self.wake_writer(queue, true);
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.queue().closed
    }
}

/// The writer's side.
impl Log {
    /// Waits until there is something to write, `max` at most; if `hurried`, only what is in a hurry ends it earlier.
    pub(crate) fn wait(&self, max: Duration, hurried: bool) {
        let mut queue = self.queue();
        let has_work = queue.closed || (!hurried && !queue.group.is_empty());
        // ORDERING: Relaxed; who sets them looks at `queue.writer` afterwards, under the mutex.
        let is_asked =
            [&self.wants_sync, &self.wants_segment].map(|ask| ask.load(Ordering::Relaxed));
        if has_work || self.is_waited_for() || is_asked.contains(&true) {
            return;
        }
        queue.writer = if hurried { Attention::Hurry } else { Attention::Any };
        let goes_on = |queue: &mut Queue| queue.writer != Attention::Busy;
        wait_while(&self.work, queue, max, goes_on).writer = Attention::Busy;
    }

    /// Whether somebody waits for a record, or for room.
    fn is_waited_for(&self) -> bool {
        !self.waiters().is_empty() && !is_left_out(Step::LookForWaiters)
    }

    /// Takes what has been handed over, in exchange for an empty group; returns the number of its first record.
    pub(crate) fn take(&self, group: &mut Group) -> Lsn {
        debug_assert!(group.is_empty());
        let mut queue = self.queue();
        std::mem::swap(&mut queue.group, group);
        queue.last + 1 - group.count()
    }

    /// The segment that was asked for is there, or there is trouble.
    pub(crate) fn ends_segment_wish(&self) {
        // ORDERING: Release pairs with the Acquire in `wants_segment`.
        self.wants_segment.store(false, Ordering::Release);
    }

    /// Whether a sync was asked for, once.
    pub(crate) fn takes_sync_wish(&self) -> bool {
        // ORDERING: Acquire, see `sync_soon`.
        self.wants_sync.swap(false, Ordering::Acquire)
    }

    /// So many bytes of the queue, up to this record, were written.
    pub(crate) fn has_written(&self, last: Lsn, bytes: u64) {
        // ORDERING: Relaxed, a figure.
        self.length.fetch_add(bytes, Ordering::Relaxed);
        // ORDERING: Relaxed, a figure.
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
        if is_left_out(Step::StoreFirst) {
            self.wake_reached();
        }
        // ORDERING: Release pairs with the Acquire in `written`. The mutex in `wake_waiters` orders it for who waits.
        self.written.store(last, Ordering::Release);
        if !is_left_out(Step::StoreFirst) {
            self.wake_reached();
        }
    }

    /// So many bytes of the queue were dropped, as nothing will be written any more.
    pub(crate) fn has_dropped(&self, bytes: u64) {
        // ORDERING: Relaxed, a figure.
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All records up to this one were synced.
    pub(crate) fn has_synced(&self, last: Lsn) {
        // ORDERING: Release pairs with the Acquire in `synced`.
        self.synced.fetch_max(last, Ordering::Release);
        // ORDERING: Relaxed, a figure.
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.wake_reached();
    }

    fn wake_reached(&self) {
        let has_room = !self.is_full();
        self.wake_waiters(|waiter| waiter.lsn.map_or(has_room, |lsn| self.has_reached(lsn)));
    }

    /// There is trouble, or it has passed: what cannot pass stays. All who wait are told.
    pub(crate) fn set_trouble(&self, trouble: Option<Trouble>) {
        let mut present = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if present.as_ref().is_some_and(|trouble| !trouble.may_pass) {
            return;
        }
        let is_troubled = trouble.is_some();
        *present = trouble;
        // ORDERING: Relaxed, see `trouble`; the mutex in `wake_waiters` orders it for who waits.
        self.troubled.store(is_troubled, Ordering::Relaxed);
        drop(present);
        self.wake_waiters(|_| true);
    }
}

/// Adds who waits, once: a task that is polled again for another reason is there already.
fn add(waiters: &mut Vec<Waiter>, lsn: Option<Lsn>, waker: &Waker) {
    let is_it = |w: &&mut Waiter| w.lsn.is_some() == lsn.is_some() && w.waker.will_wake(waker);
    match waiters.iter_mut().find(is_it) {
        Some(known) => known.lsn = known.lsn.min(lsn),
        None => waiters.push(Waiter { lsn, waker: waker.clone() }),
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (handed, written, synced) = (self.handed(), self.written(), self.synced());
        f.debug_struct("Log")
            .field("when", &self.when())
            .field("handed", &handed)
            .field("written", &written)
            .field("synced", &synced)
            .finish_non_exhaustive()
    }
}
