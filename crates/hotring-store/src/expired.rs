//! Expired keys that have been removed but not yet reported to observers, in the order of their removal.
//!
//! # The order
//!
//! The removal of an expired key and its entry in this list are one step under the mutex. A session that has written a
//! key must first report the keys listed here, under the mutex, before it reports its own write
//! (`Session::report_expired`). If the write came after the removal, the removal's step was complete before the write:
//! had the step begun later, the removal would have come after the write. So the key is in the list, or has been
//! reported.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// The expired keys that have not been reported to observers; see the header.
pub(crate) struct Expired(Mutex<Vec<Gone>>);

/// A key that was removed.
pub(crate) struct Gone {
    pub(crate) key: Vec<u8>,
    /// Milliseconds between its expiry and its removal.
    pub(crate) late: u64,
}

impl Expired {
    pub(crate) fn new() -> Expired {
        Expired(Mutex::new(Vec::new()))
    }

    /// The guard must be held while a key is removed and entered, and while the listed keys are reported.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Gone>> {
        // A panic cannot leave a half-written entry, so a poisoned lock is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
