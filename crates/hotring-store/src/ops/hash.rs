//! Hashes: single-key reads, and single-key writes that build the new hash from the old one. A key
//! without fields is absent. The expiry stays.

use hotring_index::{Action, Entry, Expiry};

use crate::decimal;
use crate::error::{NumberKind, StoreError};
use crate::hash::{Change, Changed, HashRef, value_of};
use crate::ops::counter::Decimal;
use crate::session::Session;
use crate::value::{ValueRef, parse_int, view};

impl Session {
    /// Hands the hash to `f`. None if the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn hash<R>(
        &mut self,
        key: &[u8],
        now: u64,
        f: impl FnOnce(HashRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        self.read(key, now, |entry| view_hash(entry, f)).transpose()
    }

    /// Sets fields to values, the last of equal fields wins, and returns how many were not there.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], [`StoreError::ValueTooLong`] if the hash would be, and those of every
    /// write.
    pub fn hash_set(
        &mut self,
        key: &[u8],
        pairs: &[(&[u8], &[u8])],
        now: u64,
    ) -> Result<usize, StoreError> {
        let changes: Vec<Change<'_>> = pairs.iter().map(|(f, v)| (*f, Some(*v))).collect();
        self.update_hash(key, now, |hash| {
            let changed = hash.changed(&changes);
            let added = changed.added;
            Ok((Some(changed), added))
        })
    }

    /// Sets a field that is not there. True if it did.
    ///
    /// # Errors
    /// As [`hash_set`](Self::hash_set).
    pub fn hash_set_nx(
        &mut self,
        key: &[u8],
        field: &[u8],
        value: &[u8],
        now: u64,
    ) -> Result<bool, StoreError> {
        self.update_hash(key, now, |hash| {
            let is_new = hash.get(field).is_none();
            Ok((is_new.then(|| hash.changed(&[(field, Some(value))])), is_new))
        })
    }

    /// Removes fields and returns how many were there. With the last field goes the key.
    ///
    /// # Errors
    /// As [`hash_set`](Self::hash_set), but for [`StoreError::OutOfMemory`]: the hash without them is stored again, and
    /// takes less.
    pub fn hash_remove(
        &mut self,
        key: &[u8],
        fields: &[&[u8]],
        now: u64,
    ) -> Result<usize, StoreError> {
        let changes: Vec<Change<'_>> = fields.iter().map(|field| (*field, None)).collect();
        self.check_key(key)?;
        self.admit_little()?;
        self.change_hash(key, now, |hash| {
            let changed = hash.changed(&changes);
            let removed = changed.removed;
            Ok(((removed > 0).then_some(changed), removed))
        })
    }

    /// Adds to the integer that a field has, an absent one counting as 0, and returns the sum.
    ///
    /// # Errors
    /// [`StoreError::NotANumber`], [`StoreError::Overflow`], and as [`hash_set`](Self::hash_set).
    pub fn hash_incr_by(
        &mut self,
        key: &[u8],
        field: &[u8],
        delta: i64,
        now: u64,
    ) -> Result<i64, StoreError> {
        self.update_hash(key, now, |hash| {
            let old = hash.get(field).map_or(Some(0), parse_int);
            let old = old.ok_or(StoreError::NotANumber(NumberKind::Integer))?;
            let sum = old.checked_add(delta).ok_or(StoreError::Overflow(NumberKind::Integer))?;
            let mut text = itoa::Buffer::new();
            let text = text.format(sum).as_bytes();
            Ok((Some(hash.changed(&[(field, Some(text))])), sum))
        })
    }

    /// Adds to the decimal number that a field has, an absent one counting as 0, and returns the sum as
    /// [`incr_by_float`](Self::incr_by_float) does.
    ///
    /// # Errors
    /// [`StoreError::NotANumber`] for the field,
    /// [`StoreError::Overflow`], and as [`hash_set`](Self::hash_set).
    pub fn hash_incr_by_float(
        &mut self,
        key: &[u8],
        field: &[u8],
        delta: Decimal,
        now: u64,
    ) -> Result<Vec<u8>, StoreError> {
        self.update_hash(key, now, |hash| {
            let old = hash.get(field).map_or(Ok(decimal::ZERO), decimal::parse);
            let sum = decimal::add_to_text(old?, delta.number())?;
            Ok((Some(hash.changed(&[(field, Some(&sum))])), sum))
        })
    }

    /// Decides on the hash that the key holds, an empty one if it is absent, and stores what has become
    /// of it, if anything has.
    fn update_hash<R>(
        &mut self,
        key: &[u8],
        now: u64,
        decide: impl FnMut(HashRef<'_>) -> Result<(Option<Changed>, R), StoreError>,
    ) -> Result<R, StoreError> {
        self.check_key(key)?;
        self.admit()?;
        self.change_hash(key, now, decide)
    }

    /// As `update_hash`, for what has been admitted.
    fn change_hash<R>(
        &mut self,
        key: &[u8],
        now: u64,
        mut decide: impl FnMut(HashRef<'_>) -> Result<(Option<Changed>, R), StoreError>,
    ) -> Result<R, StoreError> {
        let limits = self.limits;
        let mut decide = |entry: Option<Entry<'_>>| {
            let (changed, result) = match entry {
                Some(entry) => view_hash(entry, &mut decide)??,
                None => decide(HashRef::EMPTY)?,
            };
            let action = match changed.map(|changed| changed.value) {
                None => Action::Keep,
                Some(None) => Action::Remove,
                Some(Some(held)) => {
                    limits.check_value(held.len())?;
                    Action::Put { value: value_of(held), expiry: Expiry::Keep }
                }
            };
            Ok((action, result))
        };
        self.change(key, |key| {
            key.update(now, |entry| match decide(entry) {
                Ok((action, result)) => (action, Ok(result)),
                Err(error) => (Action::Keep, Err(error)),
            })
        })
    }
}

/// Shows a hash.
///
/// # Errors
/// [`StoreError::WrongType`]
fn view_hash<R>(entry: Entry<'_>, f: impl FnOnce(HashRef<'_>) -> R) -> Result<R, StoreError> {
    view(entry.value, |value| match value {
        ValueRef::Hash(hash) => Ok(f(hash)),
        _ => Err(StoreError::WrongType),
    })
}
