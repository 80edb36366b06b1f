//! Expired keys that have been removed but not yet reported to observers, in the order of their removal.
//!
//! # The order
//!
//! The removal of such a key and its entry here are one step under the mutex. A session that has written a
//! key and is about to report that must first report the keys listed here, under the mutex
//! ([`Session::tell_expired`]). If the write came after the removal, the step of the removal was over
//! before: had it begun later, it would have come after the write. So the key is here, or has been
//! reported.

use std::sync::PoisonError;

use crate::sync::{Mutex, MutexGuard};

/// Those that observers have not been told of yet; see the header.
pub(crate) struct Expired(Mutex<Vec<Gone>>);

/// A key that was removed.
pub(crate) struct Gone {
    pub(crate) key: Vec<u8>,
    /// How many milliseconds its time was over then.
    pub(crate) late: u64,
}

impl Expired {
    pub(crate) fn new() -> Expired {
        Expired(Mutex::new(Vec::new()))
    }

    /// Held for as long as a key is removed and entered, or those that are here are told of.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Gone>> {
        // An entry more or less is whole whatever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
