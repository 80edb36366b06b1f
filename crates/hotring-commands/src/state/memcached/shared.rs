//! What all connections of this protocol share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_store::Session;

use super::counts::Sums;
use super::detail::Detail;
use super::users::Users;
use crate::host::fiber;
use crate::host::start_error::StartError;
use crate::observe::throttle::Throttle;
use crate::settings::config::MemcachedSettings;
use crate::state::pause::ClientPause;
use crate::state::thread_shared::ThreadShared;

/// The shared state of the protocol.
#[derive(Debug, Default)]
pub struct Shared {
    /// Where it is spoken.
    pub addresses: Vec<SocketAddr>,
    /// A client wants to know when items were accessed.
    pub accesses: AtomicBool,
    /// Who may ask for everything; None if everybody may.
    pub users: Option<Users>,
    /// Counts by the prefixes of keys.
    pub detail: Detail,
    /// Keeps log lines about wrong passwords apart.
    pub login_log: Throttle,
    /// And those about clients of the binary protocol.
    pub binary_log: Throttle,
    /// Unix milliseconds of the next flush_all with a delay; 0 if there is none, or once it is done.
    flush_at: AtomicU64,
    /// Held by a thread that changes that or empties the store. Never asked for inside the store's gate.
    flushing: Mutex<()>,
    /// What is not counted any more.
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

    /// Empties the store at this Unix millisecond, in place of what was to be done before.
    pub(crate) fn flush_at(&self, at: u64) {
        let _alone = self.alone();
        // ORDERING: Relaxed, a moment: nothing else is read through it.
        self.flush_at.store(at, Ordering::Relaxed);
    }

    /// Empties the store now, in place of what was to be done before.
    pub(crate) fn flush_now(&self, store: &mut Session) {
        let _alone = self.alone();
        store.clear();
        // ORDERING: Release, as in `flush`.
        self.flush_at.store(0, Ordering::Release);
    }

    /// Empties the store if the time has come, and no pause holds that back: true if one does. Asked before each run
    /// of requests of either protocol, so that nothing that is stored after that time goes with it.
    #[inline]
    pub fn flush_if_due(&self, store: &mut Session, pause: &ClientPause, now: u64) -> bool {
        // ORDERING: Acquire pairs with the Release in `flush`: who finds it done writes behind it.
        let at = self.flush_at.load(Ordering::Acquire);
        at != 0 && at <= now && !self.flush(at, pause.lasts(now).is_some(), || store.clear())
    }

    /// One of those who come at the same time does it. The others wait: what they are about to store must not
    /// go with it. False if it is held back.
    #[cold]
    fn flush(&self, at: u64, is_paused: bool, clear: impl FnOnce()) -> bool {
        if is_paused {
            return false;
        }
        let _alone = self.alone();
        // ORDERING: Relaxed, changed under the lock alone.
        if self.flush_at.load(Ordering::Relaxed) == at {
            clear();
            // ORDERING: Release pairs with the Acquire in `flush_if_due`.
            self.flush_at.store(0, Ordering::Release);
        }
        true
    }

    fn alone(&self) -> MutexGuard<'_, ()> {
        // Who empties the store waits for those who hold keys.
        fiber::lock(&self.flushing)
    }

    /// What the threads have counted since the start, or since the last reset.
    pub(crate) fn sums(&self, threads: &[ThreadShared]) -> Sums {
        let base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = sums_ever(threads);
        sums.iter_mut().zip(base.iter()).for_each(|(sum, base)| *sum = sum.saturating_sub(*base));
        sums
    }

    /// Counts from zero again.
    pub(crate) fn reset(&self, threads: &[ThreadShared]) {
        *self.base.lock().unwrap_or_else(PoisonError::into_inner) = sums_ever(threads);
        self.detail.reset();
    }
}

fn sums_ever(threads: &[ThreadShared]) -> Sums {
    let mut sums = Sums::default();
    threads.iter().for_each(|thread| thread.memcached.add_to(&mut sums));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment was forgotten before the store was empty: others went on and lost what they stored.
    #[test]
    fn a_flush_is_due_for_others_until_it_is_done_and_done_once() {
        let shared = Shared::default();
        shared.flush_at(7);
        let mut n = 0;
        for _ in 0..2 {
            shared.flush(7, false, || {
                n += 1;
                assert_eq!(shared.flush_at.load(Ordering::Relaxed), 7);
            });
        }
        assert_eq!((n, shared.flush_at.load(Ordering::Relaxed)), (1, 0));
        shared.flush_at(9);
        shared.flush(7, false, || panic!("that one is done"));
        assert_eq!(shared.flush_at.load(Ordering::Relaxed), 9);
    }
}
