//! Many operations under one pin.

use crate::engine::Engine;
use crate::reclaim::{GUARDED, Participant};
use crate::ring::Ring;
use crate::session::{Pinned, Session};
use crate::u64s::U64;
use std::mem::ManuallyDrop;

/// Operations after which a guard pins again at the latest, reads by a glance aside: those are counted
/// by the strategy.
const OPERATIONS_A_PIN: u32 = 64;

/// A session of `u64` items that stays pinned from one operation to the next: the fast way to do many
/// one after the other, as each leaves out what a pin of its own costs.
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
pub struct Guard<'s, E: Engine = Ring<7>> {
    // Nothing else, and no session takes its address: so a loop has it in a register.
    session: &'s mut Session<U64, E>,
}

impl<'s, E: Engine> Guard<'s, E> {
    pub(crate) fn new(session: &'s mut Session<U64, E>) -> Self {
        session.begin_guard();
        Self { session }
    }

    /// As [`Session::get`].
    #[inline(always)]
    pub fn get(&mut self, key: u64) -> Option<u64> {
        if !E::GLANCES {
            return with(self.session, |pinned| pinned.get(key));
        }
        match self.session.glance(key) {
            Some(answer) => answer,
            None => get_in_full(self.session, key),
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

/// What a glance leaves; now and then, so that it is also the time to pin again.
#[inline(never)]
fn get_in_full<E: Engine>(session: &mut Session<U64, E>, key: u64) -> Option<u64> {
    let local = session.local();
    if local.countdown == 0 {
        local.guarded = 0;
    }
    local.not_counted();
    with(session, |pinned| pinned.get(key))
}

/// One operation under a pin that is there and stays, after which nothing of what it has seen is used.
#[inline(always)]
fn with<E: Engine, R>(
    session: &mut Session<U64, E>,
    operation: impl FnOnce(&mut Pinned<'_, U64, E>) -> R,
) -> R {
    let answer = operation(&mut ManuallyDrop::new(session.pinned()));
    let local = session.local();
    if local.guarded == 0 || local.participant.is_due() {
        local.guarded = OPERATIONS_A_PIN;
        session.renew_guard();
    } else {
        local.guarded -= 1;
    }
    answer
}

impl Participant {
    /// Pins for a guard.
    pub(crate) fn begin_guard(&mut self) {
        self.pin();
        self.reasons |= GUARDED;
    }

    /// Unpins for it.
    #[inline(always)]
    pub(crate) fn end_guard(&mut self) {
        self.reasons &= !GUARDED;
        self.unpin();
    }

    /// To be called where a pin begins, or must not be.
    pub(crate) fn end_forgotten_guard(&mut self) {
        if self.reasons & GUARDED != 0 {
            self.end_guard();
        }
    }
}
