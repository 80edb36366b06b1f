//! What a session's writes have done to keys, noted for who wants to tell others, as Redis's keyspace
//! notifications do. Off by default; then nothing is noted, and writes pay nothing for it.
//!
//! Noted is what took effect, in its order. FLUSHALL ([`Session::clear`]) is not.
//!
//! An [`Observer`](crate::Observer) is told at once instead, within the write, whatever session it is of.

use hotring_index::Action;

use crate::gate::Hold;
use crate::holds::Keys;
use crate::session::{Index, Session};

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

impl Session {
    /// Begins to note changes, or ends it.
    pub fn note_changes(&mut self, on: bool) {
        self.changes = on.then(Vec::new);
        self.besides.set_noting(on);
    }

    /// Whether changes are noted.
    pub fn notes_changes(&self) -> bool {
        self.changes.is_some()
    }

    /// What this session's writes have done since this was last asked for.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Begins to tell the store's observer ([`Store::set_observer`](crate::Store::set_observer)) of all changes,
    /// or ends it, as `wanted` says, which is asked while nobody else is at the store. Once this has returned,
    /// what a change has done is seen by all who read the key from now on, or the observer is told of it.
    pub fn observe(&mut self, wanted: impl FnOnce() -> bool) {
        // Exclusive, so that the reads are over that drop what they find expired.
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            session.besides.watchers.observe(wanted());
        });
    }

    /// Whether the observer is told of all changes.
    pub fn is_observed(&self) -> bool {
        self.besides.watchers.is_observed()
    }

    /// From now on this session's changes are those of `actor`, which the observer is told. At first it is 0.
    #[inline]
    pub fn act_for(&mut self, actor: u64) {
        self.besides.actor = actor;
    }
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
