//! The state that all connections of memcached's protocol share: addresses, users, the scheduled flush, and counters.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_store::{Session, StoreError};

use super::counts::Sums;
use super::detail::Detail;
use super::users::Users;
use crate::host::fiber;
use crate::host::start_error::StartError;
use crate::observe::throttle::Throttle;
use crate::settings::config::MemcachedSettings;
use crate::state::pause::ClientPause;
use crate::state::thread_shared::ThreadShared;

/// The state that all connections of memcached's protocol share.
#[derive(Debug, Default)]
pub struct Shared {
    /// The addresses on which the server listens for this protocol.
    pub addresses: Vec<SocketAddr>,
    /// A client has asked for access times of items.
    pub accesses: AtomicBool,
    /// The users of `memcached-auth-file`; None if no authentication is needed.
    pub users: Option<Users>,
    /// Counters by the prefixes of keys.
    pub detail: Detail,
    /// Limits log lines about wrong passwords.
    pub login_log: Throttle,
    /// Limits log lines about clients of the binary protocol.
    pub binary_log: Throttle,
    /// Unix milliseconds of the next delayed flush_all; 0 if there is none, or once it is done.
    flush_at: AtomicU64,
    /// Held by a thread that changes `flush_at` or empties the store. Must not be taken inside the store's gate.
    flushing: Mutex<()>,
    /// The sums of the counters at the last reset.
    base: Mutex<Sums>,
}

impl Shared {
    /// The state at the start.
    pub fn new(
        addresses: Vec<SocketAddr>,
        settings: &MemcachedSettings,
    ) -> Result<Self, StartError> {
        let users = settings.auth_file.as_deref().map(Users::read).transpose()?;
        Ok(Shared { addresses, users, ..Shared::default() })
    }

    /// Schedules a flush at this Unix millisecond, in place of an earlier schedule.
    pub(crate) fn flush_at(&self, at: u64) {
        let _alone = self.alone();
        // ORDERING: Relaxed, a time alone: no other memory is read through it.
        self.flush_at.store(at, Ordering::Relaxed);
    }

    /// Empties the store now and drops the schedule.
    pub(crate) fn flush_now(&self, store: &mut Session) {
        let _alone = self.alone();
        clear(store);
        // ORDERING: Release, as in `flush`.
        self.flush_at.store(0, Ordering::Release);
    }

    /// Empties the store if a flush is due; true if a pause holds the flush back. Must be called before each run of
    /// requests of either protocol: values that are stored after the scheduled time must survive.
    #[inline]
    pub fn flush_if_due(&self, store: &mut Session, pause: &ClientPause, now: u64) -> bool {
        // ORDERING: Acquire pairs with the Release in `flush`: a thread that finds the flush done writes after it.
        let at = self.flush_at.load(Ordering::Acquire);
        at != 0 && at <= now && {
            let is_held_back = pause.lasts(now).is_some() || is_moving(store);
            !self.flush(at, is_held_back, || {
                clear(store);
                // A replica is flushed by its primary. A primary whose keys began to move tries again.
                store.take_refused() != Err(StoreError::Displaced)
            })
        }
    }

    /// Performs the flush; false if a pause or a move of slots holds it back.
    ///
    /// If several threads call this at the same time, one of them
    /// empties the store. The others must wait, because the flush must not remove values that they are about to store.
    #[cold]
    fn flush(&self, at: u64, is_paused: bool, clear: impl FnOnce() -> bool) -> bool {
        if is_paused {
            return false;
        }
        let _alone = self.alone();
        // ORDERING: Relaxed, changed only under the lock.
        if self.flush_at.load(Ordering::Relaxed) == at {
            if !clear() {
                return false;
            }
            // ORDERING: Release pairs with the Acquire in `flush_if_due`.
            self.flush_at.store(0, Ordering::Release);
        }
        true
    }

    fn alone(&self) -> MutexGuard<'_, ()> {
        // Must be a fiber lock: a flush waits for sessions that hold keys.
        fiber::lock(&self.flushing)
    }

    /// The sums of all threads since the start or the last reset.
    pub(crate) fn sums(&self, threads: &[ThreadShared]) -> Sums {
        let base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = sums_since_start(threads);
        sums.iter_mut().zip(base.iter()).for_each(|(sum, base)| *sum = sum.saturating_sub(*base));
        sums
    }

    /// Resets the sums to zero.
    pub(crate) fn reset(&self, threads: &[ThreadShared]) {
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = sums_since_start(threads);
        self.detail.reset();
    }
}

/// Whether keys are about to move to another node, so that not all may be removed now.
#[cold]
fn is_moving(store: &Session) -> bool {
    store.is_displaced() || store.grounds().is_some_and(|grounds| grounds.is_holding())
}

/// Removes all keys of database 0, which holds memcached's keys.
fn clear(store: &mut Session) {
    store.within(store.database_id_of(0), Session::clear);
}

fn sums_since_start(threads: &[ThreadShared]) -> Sums {
    let mut sums = Sums::default();
    threads.iter().for_each(|thread| thread.memcached.add_to(&mut sums));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment was once cleared before the store was empty: other threads proceeded and lost new values.
    #[test]
    fn a_flush_is_due_for_others_until_it_is_done_and_done_once() {
        let shared = Shared::default();
        shared.flush_at(7);
        let mut n = 0;
        // A move of slots was in the way.
        assert!(!shared.flush(7, false, || false));
        assert_eq!(shared.flush_at.load(Ordering::Relaxed), 7);
        for _ in 0..2 {
            shared.flush(7, false, || {
                n += 1;
                assert_eq!(shared.flush_at.load(Ordering::Relaxed), 7);
                true
            });
        }
        assert_eq!((n, shared.flush_at.load(Ordering::Relaxed)), (1, 0));
        shared.flush_at(9);
        shared.flush(7, false, || panic!("that one is done"));
        assert_eq!(shared.flush_at.load(Ordering::Relaxed), 9);
    }
}
