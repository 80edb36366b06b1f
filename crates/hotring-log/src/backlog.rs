//! The backlog: the latest records, in memory, for replicas. The writer adds each group once it is written; each
//! replica's link takes from it at its own pace.
//!
//! It holds all records after [`Status::start`], and drops the oldest above its limit. It is off until there is a
//! replica, so that a server without one pays nothing.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::log::Log;
use crate::record::{Chunk, Lsn};

/// Bytes that a chunk takes in addition to its records.
const CHUNK_OVERHEAD: u64 = 192;

/// The latest records.
pub struct Backlog {
    is_on: AtomicBool,
    max: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Arc<Chunk>>,
    bytes: u64,
    /// All records after this one, up to `last`, are in `chunks`; None if no record is expected yet.
    start: Option<Lsn>,
    last: Lsn,
    wakers: Vec<Waker>,
}

/// The state of a backlog at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// All records after this one are there.
    pub start: Lsn,
    /// The last record.
    pub last: Lsn,
    /// Bytes in memory.
    pub bytes: u64,
}

/// Records that a replica needs are no longer in the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the next records are no longer in the backlog")
    }
}

impl std::error::Error for Gone {}

impl Backlog {
    /// A backlog that is off, of at most this many bytes. The latest group is kept, however long.
    pub fn new(max: u64) -> Backlog {
        Backlog { is_on: AtomicBool::new(false), max: AtomicU64::new(max), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it changes the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether groups are added.
    #[inline]
    pub fn is_on(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `turn_on`.
        self.is_on.load(Ordering::Acquire)
    }

    /// Begins to add the groups of this log: from here on every record that is handed over later will be there.
    pub fn turn_on(&self, log: &Log) {
        // ORDERING: Release, see `is_on`.
        self.is_on.store(true, Ordering::Release);
        // A group that the writer took before it could see the flag is left out, and has no later record than this.
        self.begin(log.handed());
    }

    fn begin(&self, last: Lsn) {
        let mut state = self.state();
        if state.start.is_none() {
            (state.start, state.last) = (Some(last), last);
        }
    }

    /// Forgets all records, because the log starts over behind this one.
    pub fn restart(&self, last: Lsn) {
        let mut state = self.state();
        let wakers = std::mem::take(&mut state.wakers);
        *state = State { start: Some(last), last, ..State::default() };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Changes the limit.
    pub fn set_max(&self, max: u64) {
        // ORDERING: Relaxed, a setting.
        self.max.store(max, Ordering::Relaxed);
        self.state().trim(max);
    }

    /// Adds a group.
    pub(crate) fn push(&self, chunk: Chunk) {
        let mut state = self.state();
        if state.start.is_none() || chunk.first() != state.last + 1 {
            // Records before this group were not added.
            state.chunks.clear();
            (state.bytes, state.start) = (0, Some(chunk.first() - 1));
        }
        state.last = chunk.last();
        state.bytes += chunk.len() as u64 + CHUNK_OVERHEAD;
        state.chunks.push_back(Arc::new(chunk));
        // ORDERING: Relaxed, a setting.
        state.trim(self.max.load(Ordering::Relaxed));
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    #[cfg(test)]
    fn has_after(&self, lsn: Lsn) -> bool {
        self.state().has_after(lsn)
    }

    /// Ready with the chunk that has the record after this one.
    pub fn poll_after(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<Arc<Chunk>, Gone>> {
        let mut state = self.state();
        if !state.has_after(lsn) {
            return Poll::Ready(Err(Gone));
        }
        if lsn < state.last {
            let at = state.chunks.partition_point(|chunk| chunk.last() <= lsn);
            return Poll::Ready(Ok(state.chunks[at].clone()));
        }
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    /// The present state.
    pub fn status(&self) -> Status {
        let state = self.state();
        Status { start: state.start.unwrap_or(state.last), last: state.last, bytes: state.bytes }
    }
}

impl State {
    fn has_after(&self, lsn: Lsn) -> bool {
        // A record that was handed over may not have been written yet: those after it will come.
        self.start.is_some_and(|start| start <= lsn)
    }

    /// Drops the oldest groups above the limit, but never the latest.
    fn trim(&mut self, max: u64) {
        while self.bytes > max && self.chunks.len() > 1 {
            let Some(oldest) = self.chunks.pop_front() else { return };
            self.bytes -= oldest.len() as u64 + CHUNK_OVERHEAD;
            self.start = Some(oldest.last());
        }
    }
}

impl fmt::Debug for Backlog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backlog")
            .field("is_on", &self.is_on())
            .field("status", &self.status())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Effect, Group, Records, read};

    fn value(lsn: Lsn) -> Vec<u8> {
        vec![lsn as u8; lsn as usize % 7]
    }

    /// A group of these records; each third value is attached.
    fn chunk(lsns: std::ops::RangeInclusive<Lsn>) -> Chunk {
        let (mut group, mut records) = (Group::default(), Records::new());
        for lsn in lsns.clone() {
            match lsn % 3 {
                0 => records.push_attached(b"k", 1, None, Arc::new(value(lsn))),
                _ => records.push(&Effect::Put {
                    key: b"k",
                    form: 1,
                    expire_at: None,
                    value: &value(lsn),
                }),
            }
            group.append(&mut records);
        }
        group.seal(*lsns.start(), Some((1, 2)));
        Chunk::of(&mut group, *lsns.start())
    }

    /// The numbers of the records after this one, read until none is left.
    fn numbers(backlog: &Backlog, after: Lsn) -> Vec<Lsn> {
        numbers_to(backlog, after, Lsn::MAX)
    }

    /// The same, up to `last`.
    fn numbers_to(backlog: &Backlog, mut after: Lsn, last: Lsn) -> Vec<Lsn> {
        let mut found = Vec::new();
        while after < last
            && let Poll::Ready(Ok(chunk)) = backlog.poll_after(after, Waker::noop())
        {
            let bytes: Vec<u8> = chunk.pieces(after, last).collect::<Vec<_>>().concat();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let record = read(rest).expect("it was sealed");
                let Effect::Put { value: bytes, .. } = record.effect else { panic!("{record:?}") };
                assert_eq!(bytes, value(record.lsn));
                found.push(record.lsn);
                rest = &rest[record.len..];
            }
            after = chunk.last().min(last);
        }
        found
    }

    #[test]
    fn a_reader_gets_every_record_behind_its_own_from_anywhere() {
        let backlog = Backlog::new(u64::MAX);
        backlog.begin(4);
        assert!(backlog.poll_after(4, Waker::noop()).is_pending());
        for lsns in [5..=5, 6..=11, 12..=13] {
            backlog.push(chunk(lsns));
        }
        for after in 4..=13 {
            assert_eq!(numbers(&backlog, after), (after + 1..=13).collect::<Vec<_>>(), "{after}");
        }
        for last in 5..=13 {
            assert_eq!(numbers_to(&backlog, 4, last), (5..=last).collect::<Vec<_>>(), "{last}");
        }
        // The writer may be behind the sessions, whose last record a full copy begins with.
        assert!(backlog.poll_after(14, Waker::noop()).is_pending());
        backlog.push(chunk(14..=17));
        assert_eq!(numbers(&backlog, 14), [15, 16, 17]);
        for lost in [0, 3] {
            assert!(
                matches!(backlog.poll_after(lost, Waker::noop()), Poll::Ready(Err(Gone))),
                "{lost}"
            );
        }
    }

    #[test]
    fn the_oldest_groups_go_but_never_the_latest() {
        let backlog = Backlog::new(1);
        backlog.begin(0);
        backlog.push(chunk(1..=6));
        assert_eq!(numbers(&backlog, 0), [1, 2, 3, 4, 5, 6]);
        backlog.push(chunk(7..=8));
        assert!(!backlog.has_after(5) && backlog.has_after(6));
        assert_eq!(numbers(&backlog, 6), [7, 8]);
        backlog.set_max(u64::MAX);
        backlog.push(chunk(9..=9));
        assert_eq!((numbers(&backlog, 6), backlog.status().start), (vec![7, 8, 9], 6));
    }

    /// The writer may have begun a group before it saw that the backlog is on.
    #[test]
    fn a_group_that_was_left_out_leaves_no_hole() {
        let backlog = Backlog::new(u64::MAX);
        backlog.push(chunk(1..=2));
        backlog.push(chunk(5..=6));
        assert!(!backlog.has_after(1) && !backlog.has_after(3));
        assert_eq!(numbers(&backlog, 4), [5, 6]);
        backlog.restart(1);
        assert!(!backlog.has_after(0) && backlog.has_after(1));
        backlog.push(chunk(2..=3));
        assert_eq!(numbers(&backlog, 1), [2, 3]);
    }
}
