//! What a session's writes have done to keys, noted for callers that tell others, as Redis's keyspace
//! notifications do. Off by default; then nothing is noted, and writes pay nothing for it.
//!
//! Item is what took effect, in its order. FLUSHALL ([`Session::clear`]) is not.
//!
//! An [`Observer`](crate::Observer) is told at once instead, within the write, whatever session it is of.

use hotring_index::Action;

use hotring_index::AnySession as Index;

/// One write that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Box<[u8]>,
    /// What became of it.
    pub what: Changed,
}

/// What a write did to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It has a value that was stored.
    Stored {
        /// There was none before.
        is_new: bool,
        /// The write gave it an expiry of its own.
        expires: bool,
    },
    /// It was removed.
    Removed,
    /// It has the value from before and another expiry, or none.
    Expiry {
        /// It has one.
        expires: bool,
    },
    /// Its time was over when a write came to it.
    Expired,
    /// It was removed to make room ([`EvictionPolicy`](crate::EvictionPolicy)).
    Evicted,
}

/// Removes a key whose time is over. Returns the expiry that it had, or has.
pub(crate) fn remove_expired(index: &mut Index, key: &[u8], now: u64) -> Option<u64> {
    // At time 0 the entry is shown although it has expired.
    index.update(key, 0, |entry| {
        let at = entry.and_then(|entry| entry.expire_at);
        (if at.is_some_and(|at| at <= now) { Action::Remove } else { Action::Keep }, at)
    })
}

#[cfg(test)]
mod tests;
