//! The keys of a full copy on their way from the thread that reads the file to those that store them, within one budget
//! of memory: a single value may have gigabytes.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotring_commands::rdb::Item;

use super::wire::Ended;

/// Bytes of keys and values that are handed over and not stored yet, unless a single one is longer. No more is read
/// while there are more.
const BYTES_MAX: usize = 16 << 20;

/// Time between two looks at what else there is to do while a thread waits.
const TICK: Duration = Duration::from_millis(100);

/// Keys that are handed over together.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) items: Vec<Item>,
    /// Bytes of the keys and values.
    pub(super) len: usize,
}

/// The queue.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Bytes of these and of what is being stored.
    bytes: usize,
    /// No more pieces will come.
    is_closed: bool,
    failure: Option<Ended>,
    has_failed: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics between changes of the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Hands over keys, and waits while there are too many; `live` is called meanwhile. False if no thread takes any.
    pub(super) fn push(
        &self,
        piece: Piece,
        live: &mut dyn FnMut() -> Result<(), Ended>,
    ) -> Result<bool, Ended> {
        let mut state = self.state();
        state.bytes += piece.len;
        state.pieces.push_back(piece);
        self.changed.notify_all();
        self.settle(state, BYTES_MAX, live)
    }

    /// Waits until all keys are stored, as [`push`](Self::push) does.
    pub(super) fn finish(
        &self,
        live: &mut dyn FnMut() -> Result<(), Ended>,
    ) -> Result<bool, Ended> {
        self.settle(self.state(), 0, live)
    }

    fn settle<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        bytes_max: usize,
        live: &mut dyn FnMut() -> Result<(), Ended>,
    ) -> Result<bool, Ended> {
        while state.bytes > bytes_max && !state.has_failed {
            state = self.wait(state);
            drop(state);
            live()?;
            state = self.state();
        }
        Ok(!state.has_failed)
    }

    /// The next keys; None if there will be no more. Then [`stored`](Self::stored) must be called.
    pub(super) fn take(&self) -> Option<Piece> {
        let mut state = self.state();
        loop {
            if state.has_failed {
                return None;
            }
            match state.pieces.pop_front() {
                Some(piece) => return Some(piece),
                None if state.is_closed => return None,
                None => state = self.wait(state),
            }
        }
    }

    /// Keys of this many bytes are stored.
    pub(super) fn stored(&self, len: usize) {
        self.state().bytes -= len;
        self.changed.notify_all();
    }

    /// A thread cannot go on.
    pub(super) fn fail(&self, why: Ended) {
        let mut state = self.state();
        state.has_failed = true;
        state.failure.get_or_insert(why);
        self.changed.notify_all();
    }

    /// No more keys will come: the threads end.
    pub(super) fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }

    /// Why a thread could not go on.
    pub(super) fn take_failure(&self) -> Option<Ended> {
        self.state().failure.take()
    }
}

/// Closes a queue, also if its filling fails: or its threads would wait for ever.
pub(super) struct Closes<'a>(pub(super) &'a Queue);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Tells a queue if a thread of it panics: or the others would wait for what it has taken.
pub(super) struct Fails<'a>(pub(super) &'a Queue);

impl Drop for Fails<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(Ended::Lost("a thread that stores keys panicked".into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use hotring_commands::rdb::Value;

    fn piece(len: usize) -> Piece {
        let value = Value::String(Vec::new());
        let item = Item { database: 0, key: vec![0], value, expire_at: None, is_pinned: false };
        Piece { items: vec![item], len }
    }

    /// Values of gigabytes are in memory one by one, and the primary hears from this server while it waits.
    #[test]
    fn long_values_wait_for_each_other() {
        let (queue, held, most) = (Queue::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let mut lives = 0;
        std::thread::scope(|scope| {
            let _closes = Closes(&queue);
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(piece) = queue.take() {
                        std::thread::sleep(Duration::from_millis(30));
                        held.fetch_sub(piece.len, Relaxed);
                        queue.stored(piece.len);
                    }
                });
            }
            for _ in 0..8 {
                let now = held.fetch_add(2 << 30, Relaxed) + (2 << 30);
                most.fetch_max(now, Relaxed);
                let mut live = || {
                    lives += 1;
                    Ok(())
                };
                assert!(queue.push(piece(2 << 30), &mut live).unwrap());
            }
            assert!(queue.finish(&mut || Ok(())).unwrap());
        });
        assert_eq!(most.into_inner(), 2 << 30);
        assert!(lives >= 8, "{lives} signs of life");
    }

    #[test]
    fn a_thread_that_fails_ends_all() {
        let queue = Queue::default();
        std::thread::scope(|scope| {
            let _closes = Closes(&queue);
            scope.spawn(|| {
                assert!(queue.take().is_some());
                queue.fail(Ended::Lost("full".into()));
            });
            let went_on = queue.push(piece(1 << 30), &mut || Ok(())).unwrap();
            assert!(!went_on && queue.take().is_none());
        });
        assert!(matches!(queue.take_failure(), Some(Ended::Lost(why)) if why == "full"));
        let stops = queue.push(piece(1), &mut || Err(Ended::Asked));
        assert!(matches!(stops, Ok(false)), "nobody takes it");
    }
}
