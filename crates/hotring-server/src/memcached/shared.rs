//! What all connections of this protocol share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hotring_store::Session;

use super::auth::Users;
use super::counts::Sums;
use super::detail::Detail;
use crate::config::StartError;
use crate::server::ThreadShared;
use crate::settings::MemcachedSettings;

/// The shared state of the protocol.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Where it is spoken.
    pub addresses: Vec<SocketAddr>,
    /// Somebody wants to know when items were accessed.
    pub accesses: AtomicBool,
    /// Who may ask for everything; None if everybody may.
    pub users: Option<Users>,
    /// Counts by the prefixes of keys.
    pub detail: Detail,
    /// Unix milliseconds of the next flush_all with a delay; 0 if there is none.
    flush_at: AtomicU64,
    /// What is not counted any more.
    base: Mutex<Sums>,
}

impl Shared {
    /// The state at the start.
    pub(crate) fn new(
        addresses: Vec<SocketAddr>,
        settings: &MemcachedSettings,
    ) -> Result<Self, StartError> {
        let users = settings.auth_file.as_deref().map(Users::read).transpose()?;
        Ok(Shared { addresses, users, ..Shared::default() })
    }

    /// Empties the store at this Unix millisecond, in place of what was to be done before.
    pub(crate) fn flush_at(&self, at: u64) {
        // ORDERING: Relaxed, here and below: a moment, nothing else is read through it.
        self.flush_at.store(at, Ordering::Relaxed);
    }

    /// Empties the store if the time has come. Asked before each run of requests, so that nothing that is
    /// stored after that time goes with it.
    #[inline]
    pub(crate) fn flush_if_due(&self, store: &mut Session, now: u64) {
        let at = self.flush_at.load(Ordering::Relaxed);
        if at != 0 && at <= now {
            self.flush(store, at);
        }
    }

    #[cold]
    fn flush(&self, store: &mut Session, at: u64) {
        // One of those who come at the same time does it.
        if self.flush_at.compare_exchange(at, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            store.clear();
        }
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
    }
}

fn sums_ever(threads: &[ThreadShared]) -> Sums {
    let mut sums = Sums::default();
    threads.iter().for_each(|thread| thread.memcached.add_to(&mut sums));
    sums
}
