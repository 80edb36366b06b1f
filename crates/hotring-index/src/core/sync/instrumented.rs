//! A mutex that ThreadSanitizer can follow.
//!
//! The contended path of std's lock lies in the precompiled std, which is not instrumented: a lock
//! taken there orders nothing for the sanitizer, and it reports a race on what the lock protects.
//! The attempt without waiting is generic code, so it is compiled and instrumented with this crate.

use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, MutexGuard, TryLockError};

#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// As std's `lock`, but it tries and yields in a loop and never blocks.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Err(poisoned),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }
}

impl<T> Deref for Mutex<T> {
    type Target = std::sync::Mutex<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> DerefMut for Mutex<T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
