//! Keys that have been removed because their time was over, until observers are told of them: in the order of what
//! happened.
//!
//! # The order
//! Whoever removes such a key does it and enters it here as one step under the mutex. Who has written a key and is
//! about to tell others of that has first told, under the mutex, of what is here ([`Session::tell_expired`]). If the
//! write came after the removal, the removal's step was over before that: had it begun later, it
//! would have come after the write. So the key is here, or has been told of.

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
