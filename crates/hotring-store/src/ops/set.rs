//! SET with its conditions, and the single-key operations that replace or remove a value whole.

use hotring_index::{Action, Entry, Expiry};

use crate::error::StoreError;
use crate::session::Session;
use crate::value::{copied, encode, reborrow, view};

/// When a set takes place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetCondition<'a> {
    /// Always.
    #[default]
    Always,
    /// Only if the key is absent (NX).
    IfAbsent,
    /// Only if the key is present (XX).
    IfPresent,
    /// Only if the value is this string.
    IfEqual(&'a [u8]),
    /// Only if [`Session::version`] gave this number and nothing has written the key since.
    IfVersion(u64),
}

impl SetCondition<'_> {
    fn holds(self, old: Option<&Entry<'_>>) -> bool {
        match self {
            Self::Always => true,
            Self::IfAbsent => old.is_none(),
            Self::IfPresent => old.is_some(),
            Self::IfEqual(text) => {
                old.is_some_and(|entry| view(entry.value, |v| v.with_bytes(|bytes| bytes == text)))
            }
            Self::IfVersion(version) => old.is_some_and(|entry| entry.version == Some(version)),
        }
    }
}

/// What a set does to the key's expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetExpiry {
    /// The key never expires.
    #[default]
    Clear,
    /// The old expiry stays (KEEPTTL).
    Keep,
    /// The key expires at this Unix millisecond; if that is not after `now`, the key is removed.
    At(u64),
}

/// Options of [`Session::set`]. The default is a plain SET.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetOptions<'a> {
    /// When the set takes place.
    pub condition: SetCondition<'a>,
    /// What becomes of the expiry.
    pub expiry: SetExpiry,
    /// Return the old value, also when the condition fails.
    pub return_old: bool,
}

impl SetOptions<'_> {
    /// Set only an absent key.
    pub fn if_absent() -> Self {
        SetOptions { condition: SetCondition::IfAbsent, ..Self::default() }
    }

    /// Set only a present key.
    pub fn if_present() -> Self {
        SetOptions { condition: SetCondition::IfPresent, ..Self::default() }
    }
}

/// What [`Session::set`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOutcome {
    /// The condition held and the set took place.
    pub stored: bool,
    /// The old value, if it was asked for and there was one.
    pub old: Option<Vec<u8>>,
}

impl Session {
    /// Sets the key to `value` under the options' condition.
    pub fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        options: SetOptions<'_>,
        now: u64,
    ) -> Result<SetOutcome, StoreError> {
        self.check_key(key)?;
        self.check_value(value.len())?;
        let expiry = match options.expiry {
            SetExpiry::Clear => Some(Expiry::Never),
            SetExpiry::Keep => Some(Expiry::Keep),
            SetExpiry::At(at) => (at > now).then_some(Expiry::At(at)),
        };
        // Without one this is a removal.
        if expiry.is_some() {
            self.admit()?;
        }
        let new = encode(value);
        if let (SetCondition::Always, false, Some(expiry)) =
            (options.condition, options.return_old, expiry)
        {
            self.change(key, |key| key.put(new, expiry, now));
            return Ok(SetOutcome { stored: true, old: None });
        }
        Ok(self.change(key, |key| {
            key.update(now, |entry| {
                let stored = options.condition.holds(entry.as_ref());
                let old = if options.return_old { copied(entry.as_ref()) } else { None };
                let action = match expiry {
                    _ if !stored => Action::Keep,
                    Some(expiry) => Action::Put { value: reborrow(&new), expiry },
                    None => Action::Remove,
                };
                (action, SetOutcome { stored, old })
            })
        }))
    }

    /// Sets the key, clears its expiry and returns the old value.
    pub fn get_set(
        &mut self,
        key: &[u8],
        value: &[u8],
        now: u64,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let options = SetOptions { return_old: true, ..SetOptions::default() };
        self.set(key, value, options, now).map(|outcome| outcome.old)
    }

    /// Removes the key and returns its value.
    pub fn get_del(&mut self, key: &[u8], now: u64) -> Option<Vec<u8>> {
        self.change(key, |key| key.update(now, |entry| (Action::Remove, copied(entry.as_ref()))))
    }

    /// Removes the key. True if it was present.
    pub fn remove(&mut self, key: &[u8], now: u64) -> bool {
        self.change(key, |key| key.remove(now))
    }
}
