//! The model checker's side of `src/sync.rs`.

use std::sync::{OnceLock, PoisonError};
use std::time::Duration;

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

/// As in `src/sync.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    StoreFirst,
    SecondLook,
    LookForWaiters,
    Urgent,
}

/// The variable that names the step to leave out.
pub(crate) const LEFT_OUT: &str = "HOTRING_LOG_LEFT_OUT";

pub(crate) fn is_left_out(step: Step) -> bool {
    static NAME: OnceLock<Option<String>> = OnceLock::new();
    let name = NAME.get_or_init(|| std::env::var(LEFT_OUT).ok());
    name.as_deref() == Some(&format!("{step:?}"))
}

/// Time does not pass here: a thread that is not woken waits for ever, which loom reports.
pub(crate) fn wait_while<'a, T>(
    condvar: &Condvar,
    mut guard: MutexGuard<'a, T>,
    _max: Duration,
    mut goes_on: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'a, T> {
    while goes_on(&mut guard) {
        guard = condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
    }
    guard
}
