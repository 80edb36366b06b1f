//! APPEND and SETRANGE: single-key writes that build the new string from the old one.

use hotring_index::{Action, Entry, Expiry};

use crate::error::StoreError;
use crate::metadata::with_flags_of;
use crate::session::Session;
use crate::value::{encode, encode_owned, reborrow, view_string};

impl Session {
    /// Adds `tail` to the end of the value, an absent one counting as empty, and returns the new
    /// length. The expiry stays.
    pub fn append(&mut self, key: &[u8], tail: &[u8], now: u64) -> Result<usize, StoreError> {
        self.check_key(key)?;
        self.check_value(tail.len())?;
        let limits = self.limits;
        let alone = encode(tail);
        self.write(key, |key| {
            key.update(now, |entry| {
                let Some(entry) = entry else {
                    let put = Action::Put { value: reborrow(&alone), expiry: Expiry::Never };
                    return (put, Ok(tail.len()));
                };
                let appended = view_string(entry.value, |old| {
                    let len = old.len() + tail.len();
                    if let Err(error) = limits.check_value(len) {
                        return (Action::Keep, Err(error));
                    }
                    let mut text = Vec::with_capacity(len);
                    old.append_to(&mut text);
                    text.extend_from_slice(tail);
                    let value = with_flags_of(Some(entry), encode_owned(text));
                    (Action::Put { value, expiry: Expiry::Keep }, Ok(len))
                });
                appended.unwrap_or_else(|error| (Action::Keep, Err(error)))
            })
        })?
    }

    /// Overwrites the value from `offset` on with `patch`, padding with zero bytes up to the
    /// offset, and returns the new length. An empty patch changes nothing. The expiry stays.
    pub fn set_range(
        &mut self,
        key: &[u8],
        offset: usize,
        patch: &[u8],
        now: u64,
    ) -> Result<usize, StoreError> {
        self.check_key(key)?;
        if patch.is_empty() {
            return self.strlen(key, now);
        }
        let end = offset.saturating_add(patch.len());
        if let Err(error) = self.check_value(end) {
            // Redis tells of a wrong type first.
            return self.strlen(key, now).and(Err(error));
        }
        self.write(key, |key| {
            key.update(now, |entry| {
                let mut text = match grown(entry.as_ref(), end) {
                    Ok(text) => text,
                    Err(error) => return (Action::Keep, Err(error)),
                };
                text[offset..end].copy_from_slice(patch);
                let len = text.len();
                let value = with_flags_of(entry, encode_owned(text));
                (Action::Put { value, expiry: Expiry::Keep }, Ok(len))
            })
        })?
    }
}

/// A copy of the string, with zero bytes at its end if it is shorter than `len`.
///
/// # Errors
/// [`StoreError::WrongType`]
pub(crate) fn grown(entry: Option<&Entry<'_>>, len: usize) -> Result<Vec<u8>, StoreError> {
    let mut text = Vec::new();
    match entry {
        Some(entry) => view_string(entry.value, |old| {
            text.reserve_exact(old.len().max(len));
            old.append_to(&mut text);
        })?,
        None => text.reserve_exact(len),
    }
    if text.len() < len {
        text.resize(len, 0);
    }
    Ok(text)
}
