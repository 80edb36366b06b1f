//! SET with its conditions, and the other single-key operations that replace or remove an entire string.

use hotring_index::{Action, Buffer, Entry, Expiry, Key};
use twox_hash::XxHash3_64;

use crate::error::StoreError;
use crate::logged::Puts;
use crate::session::Session;
use crate::sync::Arc;
use crate::value::{Text, copied, encode, encode_block, is_string, reborrow, view_entry};

/// The condition of a set.
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
    /// Only if the key is absent or its value is not this string.
    IfNotEqual(&'a [u8]),
    /// Only if the value's [`digest`](crate::digest) is this.
    IfDigest(u64),
    /// Only if the key is absent or its value's digest is not this.
    IfNotDigest(u64),
    /// Only if [`Session::version`] gave this number and nothing has written the key since.
    IfVersion(u64),
}

impl SetCondition<'_> {
    /// Whether the condition compares the string, so that the value must be one.
    fn is_on_string(self) -> bool {
        match self {
            Self::Always | Self::IfAbsent | Self::IfPresent | Self::IfVersion(_) => false,
            Self::IfEqual(_) | Self::IfNotEqual(_) | Self::IfDigest(_) | Self::IfNotDigest(_) => {
                true
            }
        }
    }

    fn holds(self, old: Option<&Entry<'_>>) -> bool {
        match self {
            Self::Always => true,
            Self::IfAbsent => old.is_none(),
            Self::IfPresent => old.is_some(),
            Self::IfEqual(text) => old.is_some_and(|entry| is_equal(entry, text)),
            Self::IfNotEqual(text) => old.is_none_or(|entry| !is_equal(entry, text)),
            Self::IfDigest(number) => old.is_some_and(|entry| digest_of(entry) == number),
            Self::IfNotDigest(number) => old.is_none_or(|entry| digest_of(entry) != number),
            Self::IfVersion(version) => old.is_some_and(|entry| entry.version == Some(version)),
        }
    }
}

fn is_equal(entry: &Entry<'_>, text: &[u8]) -> bool {
    view_entry(entry, |value| value.with_bytes(|bytes| bytes == text))
}

fn digest_of(entry: &Entry<'_>) -> u64 {
    view_entry(entry, |value| value.with_bytes(digest))
}

/// The hash that stands for a value in comparisons: 64-bit XXH3 without a seed, as in Redis. Equal values have equal
/// digests. The hash is not cryptographic, so an attacker can build different values with equal digests.
pub fn digest(value: &[u8]) -> u64 {
    XxHash3_64::oneshot(value)
}

/// The effect of a set on the key's expiry.
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

impl SetExpiry {
    /// The item's new expiry; None if the item must be removed.
    pub(crate) fn of_item(self, now: u64) -> Option<Expiry> {
        match self {
            Self::Clear => Some(Expiry::Never),
            Self::Keep => Some(Expiry::Keep),
            Self::At(at) => (at > now).then_some(Expiry::At(at)),
        }
    }
}

/// Options of [`Session::set`]. The default is a plain SET.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetOptions<'a> {
    /// The condition of the set.
    pub condition: SetCondition<'a>,
    /// The new expiry.
    pub expiry: SetExpiry,
    /// Whether to return the old value, even if the condition fails.
    pub return_old: bool,
    /// The buffer of this store that contains the value, if there is one: a long value that fills most of the buffer is
    /// shared instead of copied ([`Buffer::share`]).
    pub buffer: Option<&'a Arc<Buffer>>,
}

impl SetOptions<'_> {
    /// Options that set only an absent key.
    pub fn if_absent() -> Self {
        SetOptions { condition: SetCondition::IfAbsent, ..Self::default() }
    }

    /// Options that set only a present key.
    pub fn if_present() -> Self {
        SetOptions { condition: SetCondition::IfPresent, ..Self::default() }
    }
}

/// The result of [`Session::set`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOutcome {
    /// Whether the condition held and the set took place.
    pub stored: bool,
    /// The old value, if it was requested and existed.
    pub old: Option<Text>,
}

impl Session {
    /// Sets the key to `value` under the options' condition.
    pub fn set<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        value: &[u8],
        options: SetOptions<'_>,
        now: u64,
    ) -> Result<SetOutcome, StoreError> {
        let key = key.into();
        self.check_key(key.bytes())?;
        let block = options.buffer.and_then(|buffer| buffer.share(value));
        let new = match block {
            Some(block) => {
                self.limits.check_value(value.len())?;
                self.admit_more(0)?;
                encode_block(block)
            }
            None => {
                self.check_value(value.len())?;
                encode(value)
            }
        };
        let expiry = options.expiry.of_item(now);
        // An expiry in the past makes this a removal, which needs no memory.
        if expiry.is_some() {
            self.admit()?;
        }
        if let (SetCondition::Always, false, Some(expiry)) =
            (options.condition, options.return_old, expiry)
        {
            self.try_change(key, |key| key.put(new, expiry, now))?;
            return Ok(SetOutcome { stored: true, old: None });
        }
        let needs_string = options.return_old || options.condition.is_on_string();
        // Under the order lock: a long string may change in place, which no compare-and-swap notices.
        self.try_change_in_order(key, |key, _| {
            key.run(now, |entry| {
                if needs_string && entry.is_some_and(|entry| !is_string(entry.value)) {
                    return (Puts::Value, Action::Keep, Err(StoreError::WrongType));
                }
                let stored = options.condition.holds(entry.as_ref());
                let old = if options.return_old { copied(entry.as_ref()) } else { Ok(None) };
                let (puts, action) = match expiry {
                    _ if !stored => (Puts::Value, Action::Keep),
                    Some(expiry) => (Puts::Value, Action::Put { value: reborrow(&new), expiry }),
                    None => (Puts::Over, Action::Remove),
                };
                (puts, action, old.map(|old| SetOutcome { stored, old }))
            })
        })?
    }

    /// Sets the key, clears its expiry and returns the old value.
    pub fn get_set(
        &mut self,
        key: &[u8],
        value: &[u8],
        now: u64,
    ) -> Result<Option<Text>, StoreError> {
        let options = SetOptions { return_old: true, ..SetOptions::default() };
        self.set(key, value, options, now).map(|outcome| outcome.old)
    }

    /// Removes the key and returns its value.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn get_del(&mut self, key: &[u8], now: u64) -> Result<Option<Text>, StoreError> {
        self.try_change_in_order(key.into(), |key, _| {
            key.update(now, |entry| match copied(entry.as_ref()) {
                Ok(old) => (Action::Remove, Ok(old)),
                Err(error) => (Action::Keep, Err(error)),
            })
        })?
    }

    /// Removes the key if it is present and the condition holds. True if it did.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn remove_if(
        &mut self,
        key: &[u8],
        condition: SetCondition<'_>,
        now: u64,
    ) -> Result<bool, StoreError> {
        let needs_string = condition.is_on_string();
        self.try_change_in_order(key.into(), |key, _| {
            key.update(now, |entry| {
                if needs_string && entry.is_some_and(|entry| !is_string(entry.value)) {
                    return (Action::Keep, Err(StoreError::WrongType));
                }
                let removes = entry.is_some() && condition.holds(entry.as_ref());
                (if removes { Action::Remove } else { Action::Keep }, Ok(removes))
            })
        })?
    }

    /// Removes the key. True if it was present.
    pub fn remove(&mut self, key: &[u8], now: u64) -> bool {
        self.change(key, |key| key.remove(now))
    }
}
