//! How often the keys of each hash slot are used, from the requests that are noted for the list of hot keys.
//!
//! A noted request stands for several, so the numbers are estimates, and nothing is counted for the others. They only
//! grow: a reader looks twice to know what was in between. Of a thread with 3,000 notes a second, of which a slot has a
//! share `p`, the error after `t` seconds is about `1 / sqrt(3000 p t)`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_cluster::{SLOTS, slot_of};

use crate::state::thread_shared::ThreadShared;

/// The sums of one thread. The thread itself writes; other threads read occasionally.
#[derive(Debug, Default)]
pub(crate) struct SlotAccesses(Mutex<Vec<f64>>);

impl SlotAccesses {
    /// Notes a request for these keys, each of which it uses. The request stands for `weight` requests.
    #[cold]
    pub(crate) fn note<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, weight: f64) {
        // If a reader holds the lock, this note is dropped: the thread must not wait.
        let Ok(mut sums) = self.0.try_lock() else { return };
        // Nothing of it is needed outside of a cluster.
        sums.resize(usize::from(SLOTS), 0.0);
        keys.for_each(|key| sums[usize::from(slot_of(key))] += weight);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<f64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The accesses of each slot by all threads, since the start or since the counters were reset.
pub(crate) fn all<'t>(threads: impl Iterator<Item = &'t ThreadShared>) -> Vec<u64> {
    let mut all = vec![0.0; usize::from(SLOTS)];
    for thread in threads {
        let sums = thread.slot_accesses.lock();
        all.iter_mut().zip(&*sums).for_each(|(all, sum)| *all += sum);
    }
    all.into_iter().map(|sum| sum.round() as u64).collect()
}

/// Begins at nothing again.
pub(crate) fn reset<'t>(threads: impl Iterator<Item = &'t ThreadShared>) {
    threads.for_each(|thread| thread.slot_accesses.lock().clear());
}
