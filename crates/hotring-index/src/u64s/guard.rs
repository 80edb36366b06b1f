//! `Guard`: many operations of a `u64` session under one pin.

use crate::engine::Engine;
use crate::session::{Pinned, Session};
use crate::u64s::U64;
use std::mem::ManuallyDrop;

/// Operations after which a guard must renew its pin. Reads by the fast path do not count here; the strategy
/// counts them.
const OPERATIONS_PER_PIN: u32 = 64;

/// A session of `u64` items that stays pinned from one operation to the next. The fast way to do many operations
/// in a row, because each saves the cost of its own pin.
///
/// A guard in use renews its pin regularly, so it does not delay reclamation: after 64 operations, or, if all
/// are reads, after at most one and a half times R reads ([`Config::period`](field@crate::Config::period): at
/// most 384 by default). An idle guard blocks the reuse of all removed memory, as a slow callback does
/// ([`Session::admit`] describes the bound). Drop the guard before the thread waits for anything.
///
/// ```
/// use hotring_index::{Config, HotRing, U64};
///
/// let index: HotRing<U64> = HotRing::new(Config::default())?;
/// let mut session = index.session();
/// let mut guard = session.guard();
/// for key in 0..1000 {
///     guard.put(key, key * key);
/// }
/// let sum: u64 = (0..1000).filter_map(|key| guard.get(key)).sum();
/// assert_eq!(sum, 332_833_500);
/// # Ok::<(), hotring_index::ConfigError>(())
/// ```
pub struct Guard<'s, E: Engine> {
    // Must be the only field, and its address must not be taken, so that a loop keeps it in a register.
    session: &'s mut Session<U64, E>,
}

impl<E: Engine> Session<U64, E> {
    /// Pins the session for many operations in a row.
    pub fn guard(&mut self) -> Guard<'_, E> {
        self.begin_guard();
        Guard { session: self }
    }
}

impl<E: Engine> Guard<'_, E> {
    /// As [`Session::get`].
    #[inline(always)]
    pub fn get(&mut self, key: u64) -> Option<u64> {
        if !E::HAS_FAST_PATH {
            return with(self.session, |pinned| pinned.get(key));
        }
        match self.session.fast_get(key) {
            Some(answer) => answer,
            None => slow_get(self.session, key),
        }
    }

    /// As [`Session::put`].
    #[inline]
    pub fn put(&mut self, key: u64, value: u64) -> bool {
        with(self.session, |pinned| pinned.put(key, value))
    }

    /// As [`Session::insert`].
    pub fn insert(&mut self, key: u64, value: u64) -> bool {
        with(self.session, |pinned| pinned.insert(key, value))
    }

    /// As [`Session::fetch_add`].
    pub fn fetch_add(&mut self, key: u64, by: u64) -> Option<u64> {
        with(self.session, |pinned| pinned.fetch_add(key, by))
    }

    /// As [`Session::remove`].
    pub fn remove(&mut self, key: u64) -> bool {
        with(self.session, |pinned| pinned.remove(key))
    }
}

impl<E: Engine> Drop for Guard<'_, E> {
    #[inline(always)]
    fn drop(&mut self) {
        self.session.local().participant.end_guard();
    }
}

/// The slow path of a lookup. It is rare enough to renew the pin as well.
#[inline(never)]
fn slow_get<E: Engine>(session: &mut Session<U64, E>, key: u64) -> Option<u64> {
    let local = session.local();
    if local.countdown == 0 {
        local.guarded = 0;
    }
    local.not_counted();
    with(session, |pinned| pinned.get(key))
}

/// Runs one operation under the guard's pin. Items that the operation found must not be used after it.
#[inline(always)]
fn with<E: Engine, R>(
    session: &mut Session<U64, E>,
    operation: impl FnOnce(&mut Pinned<'_, U64, E>) -> R,
) -> R {
    let answer = operation(&mut ManuallyDrop::new(session.pinned()));
    let local = session.local();
    if local.guarded == 0 || local.participant.is_collection_due() {
        local.guarded = OPERATIONS_PER_PIN;
        session.renew_guard();
    } else {
        local.guarded -= 1;
    }
    answer
}
