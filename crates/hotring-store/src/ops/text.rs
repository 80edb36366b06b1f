//! APPEND and SETRANGE, and the shared code of all operations that change a part of a string: single-key writes.

use hotring_index::{Action, Expiry};

use crate::container::{Changes, Decision, Type};
use crate::error::StoreError;
use crate::long_text::{LongText, Patch, TextRef, is_long, is_object};
use crate::metadata::with_flags_of;
use crate::session::Session;
use crate::stripe::spread;
use crate::value::{encode_owned, view_string};

impl Session {
    /// Appends `tail` to the value (empty if the key is absent), and returns the new length. The expiry stays.
    pub fn append(&mut self, key: &[u8], tail: &[u8], now: u64) -> Result<usize, StoreError> {
        self.check_key(key)?;
        self.check_value(tail.len())?;
        self.change_text(key, now, |text| {
            let patch = Patch { at: text.len(), bytes: tail.into() };
            Ok((Changes::One(patch), text.len() + tail.len()))
        })
    }

    /// Overwrites the value from `offset` on with `patch`, padding with zero bytes up to the offset, and returns the
    /// new length. An empty patch changes nothing. The expiry stays.
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
        if let Err(error) = self.check_text(end, patch.len()) {
            // Redis reports a wrong type first.
            return self.strlen(key, now).and(Err(error));
        }
        self.change_text(key, now, |text| {
            let patch = Patch { at: offset, bytes: patch.into() };
            Ok((Changes::One(patch), text.len().max(end)))
        })
    }

    /// Checks whether writing `written` bytes may make a string this long.
    pub(crate) fn check_text(&mut self, len: usize, written: usize) -> Result<(), StoreError> {
        // A plain string is stored in full; zeros of a string in chunks take no memory.
        let is_plain = len <= self.containers.text_plain_max();
        self.limits.check_value(len)?;
        self.admit_bytes(if is_plain { len } else { written })
    }

    /// Decides on the key's string (an empty one if the key is absent) and applies the patches; writes nothing if there
    /// are none. `decide` may be called several times, and should be short, because writers of a long string wait for
    /// it. The expiry stays.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], [`StoreError::ValueTooLong`], and those of every write.
    pub(crate) fn change_text<'c, R>(
        &mut self,
        key: &[u8],
        now: u64,
        mut decide: impl FnMut(TextRef<'_>) -> Decision<'c, LongText, R>,
    ) -> Result<R, StoreError> {
        self.admit()?;
        let hash = spread(self.seed, key);
        let mut may_be_plain = !self.long_texts.has(hash);
        loop {
            if may_be_plain && let Some(result) = self.change_plain_text(key, now, &mut decide)? {
                return Ok(result);
            }
            let limits = self.limits;
            let changed = self.try_change_in_order(key.into(), |write, objects| {
                write.change_long_text(objects, limits, now, &mut decide)
            })?;
            // The string is plain if another session has replaced it meanwhile.
            self.long_texts.set(hash, matches!(changed, Ok(Some(_))));
            if let Some(result) = changed? {
                return Ok(result);
            }
            may_be_plain = true;
        }
    }

    /// Changes a string that is plain and stays so; None otherwise.
    fn change_plain_text<'c, R>(
        &mut self,
        key: &[u8],
        now: u64,
        decide: &mut impl FnMut(TextRef<'_>) -> Decision<'c, LongText, R>,
    ) -> Result<Option<R>, StoreError> {
        let (limits, plain_max) = (self.limits, self.containers.text_plain_max());
        self.try_change(key, |key| {
            key.update(now, |entry| {
                let mut run = |bytes: &[u8]| {
                    let text = TextRef::plain(bytes);
                    let (patches, result) = decide(text)?;
                    let len = text.len_after(&patches);
                    if patches.is_empty() {
                        return Ok((Action::Keep, Some(result)));
                    }
                    limits.check_value(len)?;
                    if is_long(len, entry.as_ref(), plain_max) {
                        return Ok((Action::Keep, None));
                    }
                    let (_, after) = LongText::changed(text, &patches);
                    let value = with_flags_of(entry, encode_owned(after.unwrap_or_default()));
                    Ok((Action::Put { value, expiry: Expiry::Keep }, Some(result)))
                };
                let changed = match &entry {
                    None => run(b""),
                    Some(entry) if is_object(entry) => Ok((Action::Keep, None)),
                    Some(entry) => view_string(entry, |value| value.with_bytes(&mut run))
                        .and_then(|changed| changed),
                };
                match changed {
                    Ok((action, result)) => (action, Ok(result)),
                    Err(error) => (Action::Keep, Err(error)),
                }
            })
        })?
    }
}
