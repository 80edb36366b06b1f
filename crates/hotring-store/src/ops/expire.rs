//! Operations on a key's expiry: single-key writes that leave the value as it is.

use hotring_index::{Action, BlockRef, Expiry, Value};

use crate::error::StoreError;
use crate::session::Session;
use crate::value::{ValueRef, copied, detach};

/// The condition of [`Session::expire_at`]. A key without an expiry counts as one that expires after every other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpireCondition {
    /// Always.
    #[default]
    Always,
    /// Only if the key has no expiry (NX).
    IfNone,
    /// Only if the key has an expiry (XX).
    IfSome,
    /// Only if the new expiry is later (GT): never for a key without one.
    IfLater,
    /// Only if the new expiry is earlier (LT): always for a key without one.
    IfEarlier,
    /// Only if the key has an expiry and the new one is earlier (XX and LT).
    IfSomeAndEarlier,
}

impl ExpireCondition {
    pub(super) fn holds(self, old: Option<u64>, new: u64) -> bool {
        match self {
            Self::Always => true,
            Self::IfNone => old.is_none(),
            Self::IfSome => old.is_some(),
            Self::IfLater => old.is_some_and(|old| new > old),
            Self::IfEarlier => old.is_none_or(|old| new < old),
            Self::IfSomeAndEarlier => old.is_some_and(|old| new < old),
        }
    }
}

/// The effect of [`Session::get_ex`] on the expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TtlChange {
    /// The expiry stays.
    Leave,
    /// The expiry is removed.
    Persist,
    /// The key expires at this Unix millisecond; if that is not after `now`, it is removed.
    At(u64),
}

impl Session {
    /// Sets the key's expiry to the Unix millisecond `at`, or removes the key if that is not after `now`. True if the
    /// key was present and the condition held.
    pub fn expire_at(
        &mut self,
        key: &[u8],
        at: u64,
        condition: ExpireCondition,
        now: u64,
    ) -> Result<bool, StoreError> {
        // An item without an expiry is copied to one with space for it.
        if at > now {
            self.admit_little()?;
        }
        self.try_change(key, |key| {
            key.update(now, |entry| {
                let changes = entry.is_some_and(|entry| condition.holds(entry.expire_at, at));
                let action = match changes {
                    false => Action::Keep,
                    true if at <= now => Action::Remove,
                    true => Action::Expire(Expiry::At(at)),
                };
                (action, changes)
            })
        })
    }

    /// Removes the key's expiry. True if it had one.
    pub fn persist(&mut self, key: &[u8], now: u64) -> Result<bool, StoreError> {
        self.write_little(key, |key| {
            key.update(now, |entry| {
                let changes = entry.is_some_and(|entry| entry.expire_at.is_some());
                (if changes { Action::Expire(Expiry::Never) } else { Action::Keep }, changes)
            })
        })
    }

    /// Calls `f` with the value, as [`get_shared`](Self::get_shared), and changes the expiry. None if the key is
    /// absent.
    pub fn get_ex<R>(
        &mut self,
        key: &[u8],
        change: TtlChange,
        now: u64,
        f: impl FnOnce(ValueRef<'_>, Option<BlockRef<'_>>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let at = match change {
            TtlChange::Leave => return self.get_shared(key, now, f),
            TtlChange::Persist => None,
            TtlChange::At(at) => Some(at),
        };
        if at.is_none_or(|at| at > now) {
            self.admit_little()?;
        }
        // A copy, because `f` can run only once, while the update may read several values.
        let value = self.try_change(key, |key| {
            key.update_expiry(now, |entry| {
                let (Some(entry), Ok(value)) = (entry, copied(entry.as_ref())) else {
                    let is_there = entry.is_some();
                    return (
                        Action::Keep,
                        if is_there { Err(StoreError::WrongType) } else { Ok(None) },
                    );
                };
                let action = match at {
                    None if entry.expire_at.is_none() => Action::Keep,
                    None => change_expiry(entry.value, Expiry::Never),
                    Some(at) if at <= now => Action::Remove,
                    Some(at) => change_expiry(entry.value, Expiry::At(at)),
                };
                (action, Ok(value))
            })
        })??;
        Ok(value.map(|value| f(ValueRef::Bytes(&value), value.block())))
    }
}

/// Changes the expiry of an item whose value is being returned.
fn change_expiry(value: Value<'_>, expiry: Expiry) -> Action<'static> {
    match value {
        // With `Expire` alone, a word could change between the read and the change of expiry.
        Value::Word { .. } => Action::Put { value: detach(value), expiry },
        Value::Bytes { .. } => Action::Expire(expiry),
    }
}
