//! Keys that have been removed because their time was over, until somebody is told of them: in the order of what
//! happened.
//!
//! # The order
//! Whoever removes such a key does it and enters it here as one step under the mutex. Who has written a key and is
//! about to tell others of that has first told, under the mutex, of what is here ([`Session::tell_expired`]). If the
//! write came after the removal, the removal's step was over before that: had it begun later, it
//! would have come after the write. So the key is here, or has been told of.

use std::sync::PoisonError;

use crate::session::Session;
use crate::sync::{Mutex, MutexGuard};

/// Those that nobody has been told of yet; see the header.
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

impl Session {
    /// Calls `f` with each key that [`Session::expire_due`] has removed, by whatever session, for which no call of the
    /// two has called it yet, and with how many milliseconds its time was over then. Others that do so meanwhile wait.
    /// So what expired before a write is told of before the write, if who tells of that calls this first.
    pub fn tell_expired(&mut self, mut f: impl FnMut(&[u8], u64)) {
        for Gone { key, late } in self.wheels.expired.lock().drain(..) {
            self.besides.watchers.tell_observer(&key, 0);
            f(&key, late);
        }
    }
}
