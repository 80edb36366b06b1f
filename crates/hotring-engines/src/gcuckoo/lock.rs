//! The locks of a page: one for the page, and one word for each group of buckets, which is both its
//! lock and its version.
//!
//! ```text
//! group   63 ............. 2   1        0
//!         version              FROZEN   LOCKED
//! ```
//!
//! * LOCKED: a session changes buckets of the group.
//! * FROZEN: the group never changes again, as the page is being split; it may still be read. No
//!   other group of the page changes then, either.
//! * The version grows by one with each change if readers check versions ([`Atomicity::Optimistic`]). In
//!   the other modes a release must restore the previous word, or hardware elides nothing.
//!
//! A session must take the page's lock, if it needs it, before the locks of groups, and groups in
//! the order of their numbers, so that no two sessions wait for each other.

use super::htm;
use crate::settings::Atomicity;
use hotring_index::sync::spin::SpinWait;
use hotring_index::sync::{AtomicU64, Ordering};

pub(crate) const LOCKED: u64 = 1;
pub(crate) const FROZEN: u64 = 1 << 1;
const VERSION_ONE: u64 = 1 << 2;

/// The page is being replaced: look for it in the directory again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frozen;

/// The words of a page's groups.
pub(crate) struct Groups(Box<[AtomicU64]>);

impl Groups {
    pub(crate) fn new(n: u32) -> Self {
        Self((0..n).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// A group's word, before or after the group is read.
    #[inline(always)]
    pub(crate) fn load(&self, group: u32) -> u64 {
        // ORDERING: Acquire pairs with the Release of `release`: later loads read values at least
        // as new. As the second look this load comes after the Acquire loads of the slots, and a
        // slot that was changed meanwhile was changed after LOCKED was set.
        self.0[group as usize].load(Ordering::Acquire)
    }

    /// The bitwise or of the words of some groups.
    pub(crate) fn load_all(&self, groups: &[u32]) -> u64 {
        groups.iter().fold(0, |all, &group| all | self.load(group))
    }

    /// Locks some groups, in ascending order. Locks none if one is frozen.
    pub(crate) fn take(&self, groups: &[u32], mode: Atomicity) -> Result<(), Frozen> {
        debug_assert!(groups.is_sorted_by(|a, b| a < b), "or two sessions wait for each other");
        for (i, &group) in groups.iter().enumerate() {
            if self.take_one(group, mode).is_err() {
                self.release(&groups[..i], mode, false);
                return Err(Frozen);
            }
        }
        Ok(())
    }

    fn take_one(&self, group: u32, mode: Atomicity) -> Result<(), Frozen> {
        let word = &self.0[group as usize];
        let mut wait = SpinWait::default();
        loop {
            // ORDERING: Acquire pairs with the Release that froze it; else the compare-exchange
            // validates it.
            let now = word.load(Ordering::Acquire);
            if now & FROZEN != 0 {
                return Err(Frozen);
            }
            if now & LOCKED == 0 {
                let taken = if mode == Atomicity::Hle {
                    htm::acquire_elided(word, now, now | LOCKED)
                } else {
                    // ORDERING: Acquire pairs with the Release of `release`.
                    word.compare_exchange(now, now | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                };
                if taken {
                    return Ok(());
                }
            }
            wait.wait();
        }
    }

    /// Unlocks groups; `changed`: their content may have changed.
    pub(crate) fn release(&self, groups: &[u32], mode: Atomicity, changed: bool) {
        let bump = if changed && mode == Atomicity::Optimistic { VERSION_ONE } else { 0 };
        for &group in groups.iter().rev() {
            let word = &self.0[group as usize];
            // ORDERING: Relaxed, a word that is LOCKED is its holder's.
            let free = word.load(Ordering::Relaxed) & !LOCKED;
            if mode == Atomicity::Hle {
                htm::release_elided(word, free + bump);
            } else {
                // ORDERING: Release: the next session that takes or reads it sees the changes.
                word.store(free + bump, Ordering::Release);
            }
        }
    }

    /// Freezes all groups, once changes under way are done. All groups are locked before the first one is frozen, so a
    /// session that finds one frozen group knows that the entire page is at rest. Scans rely on that.
    pub(crate) fn freeze(&self) {
        for group in 0..self.len() {
            // The page's lock is held, so no other session freezes it.
            self.take_one(group, Atomicity::Lock).expect("it is frozen once");
        }
        for word in &self.0 {
            // ORDERING: Relaxed, a word that is LOCKED is its holder's.
            let now = word.load(Ordering::Relaxed);
            // ORDERING: Release, as in `release`. Changes in the groups locked before are published, too.
            word.store((now | FROZEN) & !LOCKED, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn no_group_is_frozen_while_another_one_is_still_being_changed() {
        let groups = Groups::new(3);
        groups.take(&[2], Atomicity::Lock).expect("nothing is frozen");
        let too_early = std::thread::scope(|scope| {
            scope.spawn(|| groups.freeze());
            while groups.load(1) == 0 {
                std::thread::yield_now();
            }
            // The other thread has come to the group that we hold, or is about to, and goes no
            // further.
            let frozen = groups.load_all(&[0, 1, 2]) & FROZEN;
            groups.release(&[2], Atomicity::Lock, false);
            frozen
        });
        assert_eq!(too_early, 0, "a scan that meets one takes the whole page to be at rest");
        assert!((0..3).all(|group| groups.load(group) == FROZEN), "no lock is left");
    }
}
