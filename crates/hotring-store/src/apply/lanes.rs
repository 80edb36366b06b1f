//! The queues between an applier and its workers, and the position that all of them have passed.
//!
//! Each lane has the records of its keys, in the order of the stream. A batch with keys in several lanes is a
//! *meeting*: the last of these lanes to arrive applies it, and the others wait for that. All lanes have their meetings
//! in the order of the stream, so they cannot wait for each other in a circle. Nor can the applier, which waits
//! for space in a lane: what the lane has before that was sent to all others.
//!
//! # The position
//! A lane publishes the last record that it was sent, and the last one that it has passed. The applier publishes the
//! last record of a group after it has sent all of it. A lane that has passed all that it was sent has passed
//! everything up to that record, if it was read first. So the lowest position of all lanes is one that all have passed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use hotring_log::{Effect, Lsn, batch_at, effect_at};

use super::ApplyError;
use super::batch::Pending;
use crate::logged::{Logged, UnknownForm};
use crate::session::Session;

/// Spans that a worker applies before it says so.
const SPANS_AT_ONCE: usize = 256;
/// Bytes of groups that may wait for a lane.
const WAITING_MAX: usize = 8 << 20;
/// Bytes that a meeting takes in addition to its batch.
const MEETING_LEN: usize = 256;

/// A record or a batch of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    at: usize,
    lsn: Lsn,
    /// The ID of the only record's database; None for a batch.
    database_id: Option<u8>,
}

impl Span {
    pub(super) fn single(at: usize, database_id: u8, lsn: Lsn) -> Span {
        Span { at, lsn, database_id: Some(database_id) }
    }

    pub(super) fn batch(at: usize, lsn: Lsn) -> Span {
        Span { at, lsn, database_id: None }
    }
}

/// Work for a lane.
enum Piece {
    Spans { group: Arc<Vec<u8>>, spans: Vec<Span>, now: u64 },
    Meeting(Arc<Meeting>),
}

/// A batch that concerns several lanes.
struct Meeting {
    group: Arc<Vec<u8>>,
    span: Span,
    /// Bytes of the batch.
    len: usize,
    now: u64,
    /// Lanes that have not arrived.
    missing: Mutex<Option<usize>>,
    done: Condvar,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    /// Bytes of records in `pieces`, roughly.
    bytes: usize,
    is_closed: bool,
    /// Its worker has ended before its time.
    is_dead: bool,
}

struct Lane {
    queue: Mutex<Queue>,
    /// Signals work, room and the end.
    changed: Condvar,
    sent: AtomicU64,
    passed: AtomicU64,
}

/// The lanes of an applier.
pub(super) struct Lanes {
    logged: Arc<Logged>,
    lanes: Box<[Lane]>,
    /// The last record of the groups that were sent as a whole.
    sent: AtomicU64,
    failed: OnceLock<ApplyError>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it changes what these mutexes protect.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(changed: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

impl Lanes {
    pub(super) fn new(logged: Arc<Logged>, count: usize) -> Lanes {
        let lane = || Lane {
            queue: Mutex::default(),
            changed: Condvar::new(),
            sent: AtomicU64::new(0),
            passed: AtomicU64::new(0),
        };
        let lanes = std::iter::repeat_with(lane).take(count).collect();
        Lanes { logged, lanes, sent: AtomicU64::new(0), failed: OnceLock::new() }
    }

    /// Begins behind this record. All lanes must be idle.
    pub(super) fn begin_at(&self, last: Lsn) {
        // ORDERING: Relaxed; the lanes are idle, and their mutexes order it before their next work.
        self.sent.store(last, Ordering::Relaxed);
        for lane in &self.lanes {
            // ORDERING: Relaxed, as above.
            lane.sent.store(last, Ordering::Relaxed);
            // ORDERING: Relaxed, as above.
            lane.passed.store(last, Ordering::Relaxed);
        }
        self.logged.modes.begin_at(last);
    }

    /// Sends the spans of a group to a lane, and leaves none. Waits if the lane has much to do.
    pub(super) fn send(&self, lane: usize, group: &Arc<Vec<u8>>, spans: &mut Vec<Span>, now: u64) {
        let Some(last) = spans.last() else { return };
        let (last, spans) = (last.lsn, std::mem::take(spans));
        self.push(lane, last, Piece::Spans { group: group.clone(), spans, now });
    }

    /// Sends a batch to these lanes.
    pub(super) fn meet(
        &self,
        wanted: &[bool],
        count: usize,
        group: &Arc<Vec<u8>>,
        (span, len): (Span, usize),
        now: u64,
    ) {
        let (missing, done) = (Mutex::new(Some(count)), Condvar::new());
        let meeting = Arc::new(Meeting { group: group.clone(), span, len, now, missing, done });
        for lane in (0..self.lanes.len()).filter(|lane| wanted[*lane]) {
            self.push(lane, span.lsn, Piece::Meeting(meeting.clone()));
        }
    }

    fn push(&self, lane: usize, last: Lsn, piece: Piece) {
        let lane = &self.lanes[lane];
        let bytes = piece.bytes();
        let mut queue = lock(&lane.queue);
        while queue.bytes > WAITING_MAX && !queue.is_dead {
            queue = wait(&lane.changed, queue);
        }
        if queue.is_dead {
            drop(queue);
            return piece.give_up();
        }
        // ORDERING: Relaxed; `Lanes::sent` publishes it.
        lane.sent.store(last, Ordering::Relaxed);
        queue.bytes += bytes;
        queue.pieces.push_back(piece);
        drop(queue);
        lane.changed.notify_all();
    }

    /// All records up to this one were sent.
    pub(super) fn sent_all(&self, last: Lsn) {
        // ORDERING: Release pairs with the Acquire in `note_position`: whoever sees it sees what each lane was sent.
        self.sent.store(last, Ordering::Release);
        // The lanes may have passed everything before.
        self.note_position();
    }

    /// Without lanes: all records up to this one are applied.
    pub(super) fn pass(&self, last: Lsn) {
        self.logged.modes.pass(last);
    }

    /// Publishes the position that all lanes have passed.
    fn note_position(&self) {
        // ORDERING: Acquire pairs with the Release in `sent_all`. It must be read before the positions of the lanes.
        let all = self.sent.load(Ordering::Acquire);
        let position = |lane: &Lane| {
            // ORDERING: Acquire pairs with the Release in `Worker::has_passed`: what the records did is visible.
            let passed = lane.passed.load(Ordering::Acquire);
            // ORDERING: Relaxed; at least what it was when `all` was published. A later value only makes the lane seem
            // further behind.
            let is_idle = passed >= lane.sent.load(Ordering::Relaxed);
            if is_idle { all.max(passed) } else { passed }
        };
        if let Some(position) = self.lanes.iter().map(position).min() {
            self.logged.modes.pass(position.min(all));
        }
    }

    /// Waits until all lanes are idle, or one has failed.
    pub(super) fn settle(&self) {
        for lane in &self.lanes {
            let mut queue = lock(&lane.queue);
            // ORDERING: Acquire, as in `note_position`; the mutex orders the wait.
            while !self.is_over()
                && lane.passed.load(Ordering::Acquire) < lane.sent.load(Ordering::Relaxed)
            {
                queue = wait(&lane.changed, queue);
            }
        }
    }

    /// Fails if a worker has failed.
    pub(super) fn check(&self) -> Result<(), ApplyError> {
        self.failed.get().map_or(Ok(()), |why| Err(*why))
    }

    /// Whether a worker has failed.
    fn is_over(&self) -> bool {
        self.failed.get().is_some()
    }

    /// Nothing passes any more.
    fn fail(&self, why: ApplyError) {
        let _ = self.failed.set(why);
        for lane in &self.lanes {
            // Under the mutex, or a wait that begins now could miss it.
            drop(lock(&lane.queue));
            lane.changed.notify_all();
        }
    }

    /// The worker of a lane ends. If work is left, or may come, the others must not wait for it.
    fn leave(&self, lane: usize) {
        let mut queue = lock(&self.lanes[lane].queue);
        if queue.is_closed && queue.pieces.is_empty() {
            return;
        }
        queue.is_dead = true;
        let left = std::mem::take(&mut queue.pieces);
        drop(queue);
        self.fail(ApplyError::Worker);
        left.into_iter().for_each(Piece::give_up);
    }

    /// No more work will come.
    pub(super) fn close(&self) {
        for lane in &self.lanes {
            lock(&lane.queue).is_closed = true;
            lane.changed.notify_all();
        }
    }
}

impl Piece {
    fn bytes(&self) -> usize {
        match self {
            Piece::Meeting(meeting) => meeting.len + MEETING_LEN,
            Piece::Spans { group, spans, .. } => match (spans.first(), spans.last()) {
                (Some(first), Some(last)) => last.at - first.at + group.len() / spans.len().max(1),
                _ => 0,
            },
        }
    }

    /// The lane will not do this. Other lanes that have arrived at a meeting go on.
    fn give_up(self) {
        if let Piece::Meeting(meeting) = self {
            meeting.end();
        }
    }
}

impl Meeting {
    /// Lets all lanes go on.
    fn end(&self) {
        *lock(&self.missing) = None;
        self.done.notify_all();
    }
}

/// Applies the records of one lane.
pub struct Worker {
    session: Session,
    lanes: Arc<Lanes>,
    lane: usize,
}

impl Worker {
    pub(super) fn new(session: Session, lanes: Arc<Lanes>, lane: usize) -> Worker {
        Worker { session, lanes, lane }
    }

    /// The session that applies the records: for its [`Origin`](crate::Origin).
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Applies records until the [`Applier`](super::Applier) is dropped. `after` is called after some records, to take
    /// the session's [`Effects`](crate::Effects).
    pub fn run(mut self, mut after: impl FnMut(&mut Session)) {
        let lanes = self.lanes.clone();
        let lane = &lanes.lanes[self.lane];
        loop {
            let mut queue = lock(&lane.queue);
            let piece = loop {
                match queue.pieces.pop_front() {
                    Some(piece) => break piece,
                    None if queue.is_closed => return,
                    None => queue = wait(&lane.changed, queue),
                }
            };
            queue.bytes -= piece.bytes();
            drop(queue);
            lane.changed.notify_all();
            match piece {
                Piece::Spans { group, spans, now } => self.apply(&group, &spans, now, &mut after),
                Piece::Meeting(meeting) => {
                    self.join(&meeting, &mut after);
                    self.has_passed(meeting.span.lsn);
                }
            }
            self.session.collect();
        }
    }

    fn apply(
        &mut self,
        group: &[u8],
        spans: &[Span],
        now: u64,
        after: &mut impl FnMut(&mut Session),
    ) {
        // Some at a time, so that the position and the effects of the first are not late.
        for spans in spans.chunks(SPANS_AT_ONCE) {
            if self.lanes.is_over() {
                return;
            }
            let done = self.apply_some(group, spans, now);
            if !self.goes_on(done) {
                return;
            }
            after(&mut self.session);
            if let Some(last) = spans.last() {
                self.has_passed(last.lsn);
            }
        }
    }

    fn apply_some(&mut self, group: &[u8], spans: &[Span], now: u64) -> Result<(), UnknownForm> {
        let mut pending = Pending::new();
        for span in spans {
            match span.database_id {
                Some(number) => {
                    let effects = [Effect::Database { number }, effect_at(group, span.at)];
                    pending.add(&effects, &mut self.session, now)?;
                }
                None => pending.add(&batch_at(group, span.at), &mut self.session, now)?,
            }
        }
        pending.flush(&mut self.session, now)
    }

    /// Whether this lane and all others may go on. Otherwise nothing passes any more.
    fn goes_on(&self, done: Result<(), UnknownForm>) -> bool {
        let Err(form) = done else { return true };
        self.lanes.fail(form.into());
        false
    }

    /// Arrives at a batch: applies it if this is the last lane to arrive, or waits until it is applied.
    fn join(&mut self, meeting: &Meeting, after: &mut impl FnMut(&mut Session)) {
        let mut missing = lock(&meeting.missing);
        // A lane that has given up has ended it.
        let Some(left) = missing.map(|missing| missing - 1) else { return };
        *missing = Some(left);
        if left > 0 {
            while missing.is_some() {
                missing = wait(&meeting.done, missing);
            }
            return;
        }
        drop(missing);
        /// Lets the others go on even if this panics.
        struct Over<'a>(&'a Meeting);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        let _over = Over(meeting);
        if self.lanes.is_over() {
            return;
        }
        let effects = batch_at(&meeting.group, meeting.span.at);
        let done = self.session.replay_batch(&effects, meeting.now);
        if self.goes_on(done) {
            after(&mut self.session);
        }
    }

    /// All records of this lane up to this one are applied.
    fn has_passed(&self, lsn: Lsn) {
        if self.lanes.is_over() {
            return;
        }
        let lane = &self.lanes.lanes[self.lane];
        // ORDERING: Release pairs with the Acquire in `note_position`.
        lane.passed.store(lsn, Ordering::Release);
        self.lanes.note_position();
        // ORDERING: Relaxed; only the applier changes it.
        if lsn >= lane.sent.load(Ordering::Relaxed) {
            // Under the mutex, or a wait that begins now could miss it.
            drop(lock(&lane.queue));
            lane.changed.notify_all();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.lanes.leave(self.lane);
    }
}
