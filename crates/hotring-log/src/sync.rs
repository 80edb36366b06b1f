//! Primitives of the queue: atomics, locks, waiting. The model in `tests/model_log` compiles the
//! same queue with a model checker's primitives, and with steps left out.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;
use std::time::Duration;

/// A step of the queue without which a wake-up is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The writer publishes its position before it wakes the waiters.
    StoreFirst,
    /// A waiter re-checks the position after registering its waker.
    SecondLook,
    /// The writer looks for waiters before it sleeps.
    LookForWaiters,
    /// A waiter wakes the writer.
    Urgent,
}

/// Whether a step is left out: never, except by the model.
#[inline(always)]
pub(crate) fn is_left_out(_step: Step) -> bool {
    false
}

/// Waits while `goes_on`, `max` at most.
pub(crate) fn wait_while<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    max: Duration,
    goes_on: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    let waited = condvar.wait_timeout_while(guard, max, goes_on);
    waited.unwrap_or_else(PoisonError::into_inner).0
}
