//! Outcomes of calls that do not wait.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::output::{Outcome, Owned};

/// `hotring_queue`: outcomes that were not taken yet. Calls under way have it, too, so that it may be freed before
/// them.
pub struct Queue(Arc<Outcomes>);

/// What a queue and the calls that end in it share.
#[derive(Default)]
pub struct Outcomes {
    ended: Mutex<VecDeque<Owned>>,
    more: Condvar,
}

impl Outcomes {
    /// Adds an outcome.
    pub fn push(&self, owned: Owned) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push_back(owned);
        self.more.notify_one();
    }

    /// Takes up to `max` outcomes; waits for the first until the deadline, for ever if there is none.
    fn take(&self, max: usize, deadline: Option<Instant>) -> Vec<Owned> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        while ended.is_empty() {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            ended = match left {
                Some(Duration::ZERO) => return Vec::new(),
                Some(left) => {
                    self.more.wait_timeout(ended, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.more.wait(ended).unwrap_or_else(PoisonError::into_inner),
            };
        }
        let len = max.min(ended.len());
        let taken = ended.drain(..len).collect();
        // One wake-up may have been meant for another thread, which waits for what is left.
        if !ended.is_empty() {
            self.more.notify_one();
        }
        taken
    }
}

impl Queue {
    /// What calls add their outcomes to.
    pub fn outcomes(&self) -> Arc<Outcomes> {
        self.0.clone()
    }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hotring_queue_new() -> *mut Queue {
    Box::into_raw(Box::new(Queue(Arc::default())))
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_queue_free(queue: *mut Queue) {
    if !queue.is_null() {
        // SAFETY: `hotring_queue_new` made it of a box.
        drop(unsafe { Box::from_raw(queue) });
    }
}

/// See `hotring.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hotring_poll(
    queue: *mut Queue,
    results: *mut *mut Outcome,
    max: usize,
    wait_ms: i64,
) -> usize {
    // SAFETY: as the crate says, it is NULL or a queue.
    let Some(queue) = (unsafe { queue.as_ref() }) else { return 0 };
    if results.is_null() || max == 0 {
        return 0;
    }
    let wait = u64::try_from(wait_ms).ok().map(Duration::from_millis);
    // A wait beyond all clocks has no end.
    let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
    let taken = queue.0.take(max, deadline);
    let count = taken.len();
    for (at, owned) in taken.into_iter().enumerate() {
        // SAFETY: there is room for `max`, and `at` is below.
        unsafe { results.add(at).write(owned.into_c()) };
    }
    count
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use hotring_messages::Outcome as Told;

    use super::*;
    use crate::output::hotring_result_free;

    #[test]
    fn outcomes_come_in_order_and_wake_who_waits() {
        let queue = hotring_queue_new();
        // SAFETY: it is freed at the end, when no thread uses it.
        let outcomes = unsafe { &*queue }.outcomes();
        let push =
            |tag: usize| outcomes.push(Owned::new(Told::Unknown, ptr::without_provenance_mut(tag)));
        let mut results = [ptr::null_mut(); 2];
        let mut poll = |wait_ms| {
            // SAFETY: there is room for two.
            let count =
                unsafe { hotring_poll(queue, results.as_mut_ptr(), results.len(), wait_ms) };
            let tags = results[..count].iter().map(|&result| {
                // SAFETY: it is there.
                let tag = unsafe { (*result).tag }.addr();
                // SAFETY: it is freed once.
                unsafe { hotring_result_free(result) };
                tag
            });
            tags.collect::<Vec<_>>()
        };
        assert_eq!(poll(0), [0; 0]);
        assert_eq!(poll(5), [0; 0]);
        (1..=3).for_each(&push);
        assert_eq!(poll(0), [1, 2]);
        assert_eq!(poll(-1), [3]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                push(4);
            });
            assert_eq!(poll(-1), [4]);
        });
        push(5);
        // SAFETY: no thread uses it any more. What is in it is freed with it.
        unsafe { hotring_queue_free(queue) };
    }
}
