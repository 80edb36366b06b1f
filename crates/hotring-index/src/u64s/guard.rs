//! Many operations under one pin.

use crate::engine::Engine;
use crate::session::{Pinned, Session};
use crate::u64s::U64;
use std::mem::ManuallyDrop;

/// Operations after which a guard must pin again. Reads by the fast path do not count here: the
/// strategy counts them.
const OPERATIONS_A_PIN: u32 = 64;

/// A session of `u64` items that stays pinned from one operation to the next: the fast way to do many
/// one after the other, as each saves the cost of its own pin.
///
/// A guard that is used pins again and again, and so holds nothing up for long: after 64
/// operations, or, as long as there are only reads, one and a half times R of them
/// ([`Config::period`](field@crate::Config::period): 384 at most by default). One that is kept and not used
/// holds up the reuse of all removed memory, as a slow callback does ([`Session::admit`] has the
/// bound): drop it before the thread waits for anything.
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
    // Nothing else, and no session takes its address: so a loop has it in a register.
    session: &'s mut Session<U64, E>,
}

impl<E: Engine> Session<U64, E> {
    /// Pins the session for many operations one after the other.
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

/// The slow path of a lookup; rare enough to be also the time to pin again.
#[inline(never)]
fn slow_get<E: Engine>(session: &mut Session<U64, E>, key: u64) -> Option<u64> {
    let local = session.local();
    if local.countdown == 0 {
        local.guarded = 0;
    }
    local.not_counted();
    with(session, |pinned| pinned.get(key))
}

/// One operation under the guard's pin. Nothing that it has found may be used after it.
#[inline(always)]
fn with<E: Engine, R>(
    session: &mut Session<U64, E>,
    operation: impl FnOnce(&mut Pinned<'_, U64, E>) -> R,
) -> R {
    let answer = operation(&mut ManuallyDrop::new(session.pinned()));
    let local = session.local();
    if local.guarded == 0 || local.participant.is_collection_due() {
        local.guarded = OPERATIONS_A_PIN;
        session.renew_guard();
    } else {
        local.guarded -= 1;
    }
    answer
}
