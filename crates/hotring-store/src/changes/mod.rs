//! The [`Origin`] on whose behalf a session acts, and the [`Effects`] that its operations leave for the
//! caller.
//!
//! Changes of keys are recorded only if the origin asks for them; otherwise recording costs writes nothing. A change is
//! recorded once it has taken effect, in order. [`Session::clear`](crate::Session::clear) is not recorded.
//! Independently, every session notifies the [`Observer`](crate::Observer) of a change within the write.

use hotring_index::{Action, Damaged};
use hotring_log::Lsn;

use hotring_index::AnySession as Index;

use crate::container::is_present;
use crate::list::End;

/// The connection on whose behalf a session acts, until the next [`Session::act`](crate::Session::act).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The author of the changes, as reported to the [`Observer`](crate::Observer).
    pub actor: u64,
    /// Whether operations count as accesses to their keys for the eviction policy.
    pub marks_accesses: bool,
    /// Whether changes are recorded in [`Effects::changes`].
    pub records_changes: bool,
}

impl Default for Origin {
    /// The store's owner: marks accesses, and records no changes.
    fn default() -> Self {
        Origin { actor: 0, marks_accesses: true, records_changes: false }
    }
}

/// Side effects of operations, which the caller must pass on.
#[derive(Debug, Default)]
#[must_use]
pub struct Effects {
    /// The log position of the last record, if writes are logged: [`hotring_log::Log::poll_reached`] tells when the
    /// writes may be acknowledged.
    pub logged: Option<Lsn>,
    /// The first damaged item found, if items are verified.
    pub damage: Option<Damaged>,
    /// The changes of keys, in order, if the origin records them.
    pub changes: Vec<Change>,
}

/// One write that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The ID of its database ([`Session::number_of_database`](crate::Session::number_of_database)).
    pub database_id: u8,
    /// The key.
    pub key: Box<[u8]>,
    /// The change.
    pub kind: Changed,
    /// A detail that the command does not determine.
    pub step: Option<Step>,
}

/// A detail of a change: the affected end of a list or sorted set (the front of a sorted set has the lowest scores), or
/// the kind of a member's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Elements were added.
    Pushed(End),
    /// Elements were removed.
    Popped(End),
    /// A score was incremented.
    Raised,
    /// A member came from another set.
    MovedIn,
    /// A member went to another set.
    MovedOut,
    /// An element moved from an end to an end of the same list.
    Moved {
        /// Its end before.
        from: End,
        /// Its end afterwards.
        to: End,
    },
}

/// The effect of a write on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// A value was stored.
    Stored {
        /// Whether the key was absent before.
        is_new: bool,
        /// Whether the write gave the key an expiry.
        expires: bool,
    },
    /// The key was removed.
    Removed,
    /// Only the key's expiry changed.
    Expiry {
        /// Whether the key has an expiry after the change.
        expires: bool,
    },
    /// Fields of its hash changed in a way that is not reported as a stored value.
    Fields(FieldsChanged),
    /// The key had expired when a write came to it.
    Expired,
    /// The key was evicted ([`EvictionPolicy`](crate::EvictionPolicy)).
    Evicted,
}

/// The effect of a write on fields of a hash. The hash itself stays unless the effect says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsChanged {
    /// They got an expiry.
    Expire,
    /// They lost their expiry.
    Persist,
    /// They were removed.
    Removed,
    /// They expired.
    Expired,
    /// The last fields expired, so the key was removed, too.
    LastExpired,
}

/// Removes the key if it has expired. Returns the key's expiry.
pub(crate) fn remove_expired(index: &mut Index, key: &[u8], now: u64) -> Option<u64> {
    // At time 0 the index shows expired entries, too.
    index.update(key, 0, |entry| {
        let at = entry.and_then(|entry| entry.expire_at);
        (if at.is_some_and(|at| at <= now) { Action::Remove } else { Action::Keep }, at)
    })
}

/// Removes a key whose parts have all expired; true if it was removed.
pub(crate) fn remove_emptied(index: &mut Index, key: &[u8], now: u64) -> bool {
    index.update(key, now, |entry| {
        let is_emptied = entry.is_some_and(|entry| !is_present(&entry, now));
        (if is_emptied { Action::Remove } else { Action::Keep }, is_emptied)
    })
}

#[cfg(test)]
mod tests;
