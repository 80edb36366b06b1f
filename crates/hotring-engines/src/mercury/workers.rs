//! The thread locks: a change of the table's state takes the lock of every session, and a session takes its
//! own while it uses tables (Mercury section 3, "Hash table expansion").

use crate::mercury::locking::Locking;
use hotring_index::sync::Arc;
use hotring_index::sync::spin::{SpinLock, SpinMutex, is_over};
use std::marker::PhantomData;

/// A session's lock, on cache lines of its own: other sessions write to them only at a change of
/// state.
#[repr(align(128))]
#[derive(Default)]
struct ThreadLock(SpinLock);

/// The locks of all sessions.
#[derive(Default)]
pub(crate) struct Workers(SpinMutex<Vec<Arc<ThreadLock>>>);

impl Workers {
    /// Registers a new session; None if the locking scheme allows only one session and there is
    /// one.
    pub(crate) fn join<L: Locking>(self: &Arc<Self>) -> Option<Worker<L>> {
        let lock = Arc::new(ThreadLock::default());
        let mut all = self.0.lock();
        if !L::IS_SHARED && !all.is_empty() {
            return None;
        }
        all.push(lock.clone());
        drop(all);
        Some(Worker { lock, workers: self.clone(), locking: PhantomData })
    }

    /// Calls `f` while no session is inside an operation, begins one, or ends. The caller must hold no thread lock and
    /// no bucket's.
    pub(crate) fn stop_all<R>(&self, f: impl FnOnce() -> R) -> R {
        let all = self.0.lock();
        all.iter().for_each(|worker| worker.0.lock());
        let result = f();
        all.iter().for_each(|worker| worker.0.unlock());
        result
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
impl Workers {
    /// Whether a session changes the state, begins, or ends.
    pub(crate) fn is_stopping(&self) -> bool {
        self.0.try_lock().is_none()
    }
}

/// A session's part of the engine.
pub struct Worker<L: Locking> {
    lock: Arc<ThreadLock>,
    workers: Arc<Workers>,
    locking: PhantomData<fn() -> L>,
}

impl<L: Locking> Worker<L> {
    /// The tables do not change from here on until the result is dropped (M1).
    #[inline(always)]
    pub(crate) fn enter(&self) -> Entered<'_, L> {
        if L::IS_SHARED {
            self.lock.0.lock();
        }
        Entered(self)
    }
}

impl<L: Locking> Drop for Worker<L> {
    fn drop(&mut self) {
        if !is_over() {
            self.workers.0.lock().retain(|other| !Arc::ptr_eq(other, &self.lock));
        }
    }
}

/// A session inside an operation: it holds its thread lock.
pub(crate) struct Entered<'w, L: Locking>(&'w Worker<L>);

impl<L: Locking> Drop for Entered<'_, L> {
    #[inline(always)]
    fn drop(&mut self) {
        if L::IS_SHARED && !is_over() {
            self.0.lock.0.unlock();
        }
    }
}
