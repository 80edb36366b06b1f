//! The queue between sessions and the log's writer: sessions append records, one writer takes them,
//! and a session whose reply depends on durability waits for the writer.
//!
//! A record's number is its position in the queue. One mutex guards the queue and is held only
//! while records are copied. A session that locks the queue must not hold any lock that the writer
//! needs.
//!
//! The writer publishes its position before it scans the waiters; a waiter re-checks the position
//! after registering its waker. So no wake-up is lost. `tests/model_log` model-checks this code
//! under every interleaving.

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
pub enum AckWhen {
    /// At once, when the record is in the queue. A kill of the process loses the records of the
    /// last [`Log::LINGER`], at most a full queue.
    Handed = 0,
    /// When the record has been written to the file: a kill of the process loses nothing. The file
    /// is synced each second.
    #[default]
    Written = 1,
    /// When the record has been synced to disk: a power cut loses nothing.
    Synced = 2,
}

impl AckWhen {
    fn of(number: u8) -> AckWhen {
        match number {
            0 => AckWhen::Handed,
            1 => AckWhen::Written,
            _ => AckWhen::Synced,
        }
    }
}

/// Why records cannot be written.
#[derive(Clone, Debug)]
pub struct LogError {
    /// The operation that failed.
    pub operation: &'static str,
    /// The system's error.
    pub source: Arc<io::Error>,
    /// Whether the operation is retried: the disk is full, and no written data is in doubt. Any
    /// other failure is permanent, because written data may be lost even if a second attempt
    /// succeeds; records handed over after such a failure are dropped.
    pub is_temporary: bool,
    /// A replica is missing whose acknowledgement a reply needs. The log itself is in order.
    pub of_replicas: bool,
}

impl LogError {
    /// Makes a `LogError` from an error of the operation `operation`.
    pub(crate) fn during(operation: &'static str) -> impl FnOnce(io::Error) -> LogError {
        move |error| {
            let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
            let is_temporary = full.contains(&error.kind());
            LogError { operation, source: Arc::new(error), is_temporary, of_replicas: false }
        }
    }

    /// A replica is missing whose acknowledgement a reply needs.
    fn of_replicas() -> LogError {
        let source = Arc::new(io::Error::from(io::ErrorKind::NotConnected));
        LogError {
            operation: "waiting for replicas",
            source,
            is_temporary: true,
            of_replicas: true,
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.source)
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

/// The queue between sessions and the writer.
pub struct Log {
    queue: Mutex<Queue>,
    /// The writer waits here.
    work: Condvar,
    /// Bytes handed over, and those of them that were written or dropped.
    bytes_handed: AtomicU64,
    bytes_done: AtomicU64,
    unwritten_max: AtomicU64,
    /// Bytes written.
    length: AtomicU64,
    when: AtomicU8,
    /// The last record that was handed over, written, synced.
    handed: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    /// Successful syncs.
    syncs: AtomicU64,
    /// Whether there is an error, readable without the mutex.
    has_error: AtomicBool,
    error: Mutex<Option<LogError>>,
    waiters: Mutex<Vec<Waiter>>,
    /// The writer must begin a segment.
    wants_segment: AtomicBool,
    /// The writer must sync the records handed over.
    wants_sync: AtomicBool,
    /// The last record that all replicas have for which a reply must wait; the maximum if none must.
    replicated: AtomicU64,
    /// Such a replica is missing, so that replies may have to wait for ever.
    lacks_replicas: AtomicBool,
    /// The record behind which the writer must start over, [`NO_RESTART`] for none; and whether those before it stay.
    restart_at: AtomicU64,
    restart_keeps: AtomicBool,
}

/// No restart is requested.
const NO_RESTART: Lsn = Lsn::MAX;

struct Queue {
    group: Group,
    /// The number of the last record that was handed over.
    last: Lsn,
    writer: Attention,
    closed: bool,
}

/// The events for which the writer must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attention {
    /// None: the writer is running.
    Busy,
    /// A session waits for a record or for space, or many bytes are queued.
    Urgent,
    /// Any record.
    Any,
}

struct Waiter {
    /// The record that is awaited; None for space in the queue.
    lsn: Option<Lsn>,
    waker: Waker,
}

impl Log {
    /// The longest time that a record may stay queued while no session waits for it.
    pub const LINGER: Duration = Duration::from_millis(10);

    /// Queued bytes above which the writer is woken although no session waits.
    const URGENT_LEN: usize = 256 << 10;

    /// A log whose last record so far was `last`, with space for about `unwritten_max` unwritten
    /// bytes.
    pub fn new(last: Lsn, when: AckWhen, unwritten_max: u64) -> Log {
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
            has_error: AtomicBool::new(false),
            error: Mutex::new(None),
            waiters: Mutex::new(Vec::new()),
            wants_segment: AtomicBool::new(false),
            wants_sync: AtomicBool::new(false),
            replicated: AtomicU64::new(Lsn::MAX),
            lacks_replicas: AtomicBool::new(false),
            restart_at: AtomicU64::new(NO_RESTART),
            restart_keeps: AtomicBool::new(false),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code panics while it changes the queue. The same holds for the other mutexes.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Waiter>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over the records, which take effect together, and empties them. Returns the number of
    /// the last one. Never waits for the disk. After a permanent failure they are dropped, and the
    /// returned number is never reached.
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
        // ORDERING: Release, for readers without the mutex: the operations of the records
        // happened before.
        self.handed.store(last, Ordering::Release);
        // ORDERING: Relaxed, a figure that changes under the mutex only.
        let before = self.bytes_handed.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        self.bytes_handed.store(before + bytes, Ordering::Relaxed);
        let wakes = match queue.writer {
            Attention::Busy => false,
            Attention::Urgent => queue.group.len() >= Self::URGENT_LEN,
            Attention::Any => true,
        };
        self.wake_writer(queue, wakes);
        last
    }

    /// Wakes the writer because a session or a replica waits for the records.
    pub fn wake_for_waiter(&self) {
        let queue = self.queue();
        let wakes = queue.writer != Attention::Busy && !is_left_out(Step::Urgent);
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
    pub fn when(&self) -> AckWhen {
        // ORDERING: Relaxed, a setting.
        AckWhen::of(self.when.load(Ordering::Relaxed))
    }

    /// Changes when a write may be acknowledged; applies to sessions that are already waiting.
    pub fn set_when(&self, when: AckWhen) {
        // ORDERING: Relaxed; waiters re-check once they are woken, and the mutex orders that.
        self.when.store(when as u8, Ordering::Relaxed);
        self.wake_waiters(|_| true);
    }

    /// Bytes of records written since the log was created.
    pub fn length(&self) -> u64 {
        // ORDERING: Relaxed, a figure.
        self.length.load(Ordering::Relaxed)
    }

    /// Changes the limit of unwritten bytes.
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
        // ORDERING: Acquire pairs with the Release in `set_written`.
        self.written.load(Ordering::Acquire)
    }

    /// The last record that was synced: a power cut does not lose it.
    pub fn synced(&self) -> Lsn {
        // ORDERING: Acquire pairs with the Release in `set_synced`.
        self.synced.load(Ordering::Acquire)
    }

    /// The number of successful syncs. Records divided by syncs is the mean size of a group commit.
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

    /// The reason why nothing can be written at present, if any.
    pub fn error(&self) -> Option<LogError> {
        // ORDERING: Relaxed; a caller that reads false too early learns of the error from
        // `poll_reached`.
        if !self.has_error.load(Ordering::Relaxed) {
            return None;
        }
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether writing has failed permanently: nothing more is written until the log is opened again.
    pub fn is_lost(&self) -> bool {
        self.error().is_some_and(|error| !error.is_temporary)
    }

    /// Whether writes up to this record may be acknowledged.
    #[inline]
    pub fn has_reached(&self, lsn: Lsn) -> bool {
        self.is_as_safe_here(lsn) && self.is_replicated(lsn)
    }

    fn is_as_safe_here(&self, lsn: Lsn) -> bool {
        match self.when() {
            AckWhen::Handed => self.handed() >= lsn,
            AckWhen::Written => self.written() >= lsn,
            AckWhen::Synced => self.synced() >= lsn,
        }
    }

    fn is_replicated(&self, lsn: Lsn) -> bool {
        // ORDERING: Acquire pairs with the Release in `set_replicated`.
        self.replicated.load(Ordering::Acquire) >= lsn
    }

    /// States up to which record the replicas have everything for which replies wait; the maximum if none waits.
    /// `lacks` states that one of them is missing: then what waits for replicas fails.
    pub fn set_replicated(&self, last: Lsn, lacks: bool) {
        // ORDERING: Relaxed, only one thread at a time sets it, under a lock of its own.
        let lacked = self.lacks_replicas.swap(lacks, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `is_replicated`.
        let before = self.replicated.swap(last, Ordering::Release);
        if before < last || (lacks && !lacked) {
            self.wake_waiters(|_| true);
        }
    }

    /// The record up to which replies need not wait for replicas.
    pub fn replicated(&self) -> Lsn {
        // ORDERING: Acquire, as in `is_replicated`.
        self.replicated.load(Ordering::Acquire)
    }

    /// The reason why this record cannot be acknowledged at present, if any.
    pub fn error_for(&self, lsn: Lsn) -> Option<LogError> {
        // ORDERING: Relaxed; waiters are woken after each change, and the mutex orders that.
        let lacks = self.lacks_replicas.load(Ordering::Relaxed) && !self.is_replicated(lsn);
        self.error().or_else(|| lacks.then(LogError::of_replicas))
    }

    /// Ready once writes up to this record may be acknowledged, or with the reason why they must
    /// not be.
    pub fn poll_reached(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<(), LogError>> {
        if self.has_reached(lsn) {
            return Poll::Ready(Ok(()));
        }
        let mut waiters = self.waiters();
        // Re-check: from here on the writer finds the waker.
        if self.has_reached(lsn) && !is_left_out(Step::SecondLook) {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = self.error_for(lsn) {
            return Poll::Ready(Err(error));
        }
        add_waiter(&mut waiters, Some(lsn), waker);
        drop(waiters);
        self.wake_for_waiter();
        Poll::Pending
    }

    /// Whether the limit of unwritten bytes is exceeded.
    #[inline]
    pub fn is_full(&self) -> bool {
        // ORDERING: Relaxed, figures.
        self.unwritten() > self.unwritten_max.load(Ordering::Relaxed)
    }

    /// Ready once there is space in the queue, or when there can be none.
    pub fn poll_space(&self, waker: &Waker) -> Poll<()> {
        let is_ready = || !self.is_full() || self.error().is_some();
        if is_ready() {
            return Poll::Ready(());
        }
        let mut waiters = self.waiters();
        if is_ready() && !is_left_out(Step::SecondLook) {
            return Poll::Ready(());
        }
        add_waiter(&mut waiters, None, waker);
        drop(waiters);
        self.wake_for_waiter();
        Poll::Pending
    }

    fn wake_waiters(&self, which: impl Fn(&Waiter) -> bool) {
        let woken: Vec<Waiter> = self.waiters().extract_if(.., |waiter| which(waiter)).collect();
        woken.into_iter().for_each(|waiter| waiter.waker.wake());
    }

    /// Requests a new segment for later records, so that earlier segments can be removed once a
    /// snapshot covers them.
    pub fn begin_segment(&self) {
        // ORDERING: Relaxed; the mutex orders it for the writer that is woken. A writer that runs
        // already begins the segment later.
        self.wants_segment.store(true, Ordering::Relaxed);
        self.wake_for_waiter();
    }

    /// Whether a requested segment has not been created yet. If it cannot be created, the request
    /// ends with [`error`](Self::error) or, on a full disk, with the log continuing in the
    /// present segment.
    pub fn wants_segment(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `end_segment_request`: a caller that reads
        // false finds the file.
        self.wants_segment.load(Ordering::Acquire)
    }

    /// Requests a sync of everything handed over, without waiting for it.
    pub fn sync_soon(&self) {
        // ORDERING: Release pairs with the Acquire in `take_sync_request`: earlier records are
        // included in the sync.
        self.wants_sync.store(true, Ordering::Release);
        self.wake_for_waiter();
    }

    /// Requests that the log drops everything, files included, and starts over behind this record: the store gets its
    /// content from elsewhere. No session may hand over records until [`is_restarting`](Self::is_restarting) is false.
    pub fn restart(&self, last: Lsn) {
        self.request_restart(last, false);
    }

    /// Requests that the log drops the records behind this one, on the disk, too, and goes on there. It must be the
    /// last of its batch, and be in the log. Otherwise like [`restart`](Self::restart).
    pub fn cut(&self, last: Lsn) {
        self.request_restart(last, true);
    }

    fn request_restart(&self, last: Lsn, keeps: bool) {
        // ORDERING: Relaxed, published by the next store.
        self.restart_keeps.store(keeps, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `restart_wish`.
        self.restart_at.store(last, Ordering::Release);
        self.wake_for_waiter();
    }

    /// Whether a requested restart or cut has not happened yet. If it fails, there is [`error`](Self::error).
    pub fn is_restarting(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `has_restarted`.
        self.restart_at.load(Ordering::Acquire) != NO_RESTART
    }

    /// Declares that no more records will come; the writer writes the rest and ends.
    pub fn close(&self) {
        let mut queue = self.queue();
        queue.closed = true;
        self.wake_writer(queue, true);
    }

    /// Whether the log was closed.
    pub fn is_closed(&self) -> bool {
        self.queue().closed
    }
}

/// The writer's side.
impl Log {
    /// Waits until there is something to write, `max` at most; if `only_urgent`, only urgent work ends
    /// the wait earlier.
    pub(crate) fn wait(&self, max: Duration, only_urgent: bool) {
        self.wait_unless(max, only_urgent, || self.is_restarting());
    }

    /// Waits for `max` before what failed is tried again, also a restart or a cut.
    pub(crate) fn wait_to_retry(&self, max: Duration) {
        self.wait_unless(max, true, || false);
    }

    fn wait_unless(&self, max: Duration, only_urgent: bool, is_due: impl FnOnce() -> bool) {
        let mut queue = self.queue();
        let has_work = queue.closed || (!only_urgent && !queue.group.is_empty());
        // ORDERING: Relaxed; a session that sets them checks `queue.writer` afterwards, under the
        // mutex.
        let requests =
            [&self.wants_sync, &self.wants_segment].map(|wants| wants.load(Ordering::Relaxed));
        if has_work || self.is_waited_for() || requests.contains(&true) || is_due() {
            return;
        }
        queue.writer = if only_urgent { Attention::Urgent } else { Attention::Any };
        let goes_on = |queue: &mut Queue| queue.writer != Attention::Busy;
        wait_while(&self.work, queue, max, goes_on).writer = Attention::Busy;
    }

    /// Whether a session waits for something that the writer can give: a record, or space.
    fn is_waited_for(&self) -> bool {
        let waits = |waiter: &Waiter| waiter.lsn.is_none_or(|lsn| !self.is_as_safe_here(lsn));
        self.waiters().iter().any(waits) && !is_left_out(Step::LookForWaiters)
    }

    /// Takes the queued records in exchange for an empty group; returns the number of the first.
    pub(crate) fn take(&self, group: &mut Group) -> Lsn {
        debug_assert!(group.is_empty());
        let mut queue = self.queue();
        std::mem::swap(&mut queue.group, group);
        queue.last + 1 - group.count()
    }

    /// Ends the request for a segment: it exists, or there is an error.
    pub(crate) fn end_segment_request(&self) {
        // ORDERING: Release pairs with the Acquire in `wants_segment`.
        self.wants_segment.store(false, Ordering::Release);
    }

    /// The record behind which the writer must start over, if that was requested, and whether what is before it stays.
    pub(crate) fn restart_wish(&self) -> Option<(Lsn, bool)> {
        // ORDERING: Acquire, see `request_restart`.
        let last = self.restart_at.load(Ordering::Acquire);
        // ORDERING: Relaxed, as above.
        (last != NO_RESTART).then(|| (last, self.restart_keeps.load(Ordering::Relaxed)))
    }

    /// Ends a restart or a cut: the next record has the number after this one. Queued records are dropped.
    pub(crate) fn has_restarted(&self, last: Lsn) {
        let mut queue = self.queue();
        self.count_dropped(queue.group.len() as u64);
        queue.group.reset(0);
        queue.last = last;
        for position in [&self.handed, &self.written, &self.synced] {
            // ORDERING: Release, as for each of them.
            position.store(last, Ordering::Release);
        }
        drop(queue);
        // ORDERING: Release pairs with the Acquire in `is_restarting`.
        self.restart_at.store(NO_RESTART, Ordering::Release);
        self.wake_waiters(|_| true);
    }

    /// Whether a sync was requested; clears the request.
    pub(crate) fn take_sync_request(&self) -> bool {
        // ORDERING: Acquire, see `sync_soon`.
        self.wants_sync.swap(false, Ordering::Acquire)
    }

    /// Records that `bytes` of the queue, up to this record, were written.
    pub(crate) fn set_written(&self, last: Lsn, bytes: u64) {
        // ORDERING: Relaxed, a figure.
        self.length.fetch_add(bytes, Ordering::Relaxed);
        // ORDERING: Relaxed, a figure.
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
        if is_left_out(Step::StoreFirst) {
            self.wake_reached();
        }
        // ORDERING: Release pairs with the Acquire in `written`. The mutex in `wake_waiters` orders
        // it for waiters.
        self.written.store(last, Ordering::Release);
        if !is_left_out(Step::StoreFirst) {
            self.wake_reached();
        }
    }

    /// Records that `bytes` of the queue were dropped after a permanent failure.
    pub(crate) fn count_dropped(&self, bytes: u64) {
        // ORDERING: Relaxed, a figure.
        self.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Records that everything up to this record was synced.
    pub(crate) fn set_synced(&self, last: Lsn) {
        // ORDERING: Release pairs with the Acquire in `synced`.
        self.synced.fetch_max(last, Ordering::Release);
        // ORDERING: Relaxed, a figure.
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.wake_reached();
    }

    fn wake_reached(&self) {
        let has_space = !self.is_full();
        self.wake_waiters(|waiter| waiter.lsn.map_or(has_space, |lsn| self.has_reached(lsn)));
    }

    /// Sets or clears the error and wakes all waiters. A permanent error must stay.
    pub(crate) fn set_error(&self, error: Option<LogError>) {
        let mut current = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_some_and(|error| !error.is_temporary) {
            return;
        }
        let has_error = error.is_some();
        *current = error;
        // ORDERING: Relaxed, see `error`; the mutex in `wake_waiters` orders it for waiters.
        self.has_error.store(has_error, Ordering::Relaxed);
        drop(current);
        self.wake_waiters(|_| true);
    }
}

/// Adds a waiter unless it is registered already: a task may be polled again for another reason.
fn add_waiter(waiters: &mut Vec<Waiter>, lsn: Option<Lsn>, waker: &Waker) {
    let is_same = |w: &&mut Waiter| w.lsn.is_some() == lsn.is_some() && w.waker.will_wake(waker);
    match waiters.iter_mut().find(is_same) {
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
