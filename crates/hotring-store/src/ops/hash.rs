//! Hashes: single-key reads, and single-key writes that decide on changes of fields. A key without fields is
//! absent. The expiry stays.

use std::borrow::Cow;

use crate::decimal;
use crate::error::{NumberKind, StoreError};
use crate::hash::{Change, Hash, HashRef};
use crate::ops::counter::Decimal;
use crate::session::Session;
use crate::value::parse_int;

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
        self.read_container::<Hash, R>(key, now, f)
    }

    /// As [`hash`](Self::hash), for a walk over all of it: writers of a large hash do not wait for `f`.
    ///
    /// # Errors
    /// As there.
    pub fn hash_walk<R>(
        &mut self,
        key: &[u8],
        now: u64,
        f: impl FnOnce(HashRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        self.walk_container::<Hash, R>(key, now, f)
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
        self.admit_bytes(pairs.iter().map(|(field, value)| field.len() + value.len()).sum())?;
        let set = pairs.iter().map(|(field, value)| (*field, Some(Cow::Borrowed(*value))));
        let changes: Vec<Change<'_>> = set.collect();
        let (tally, ()) =
            self.update_container::<Hash, _>(key, now, |_| Ok((Cow::Borrowed(&changes), ())))?;
        Ok(tally.added)
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
        let (tally, ()) = self.update_container::<Hash, _>(key, now, |hash| {
            let change = (field, Some(Cow::Borrowed(value)));
            let changes = if hash.get(field).is_none() { vec![change] } else { Vec::new() };
            Ok((Cow::Owned(changes), ()))
        })?;
        Ok(tally.added > 0)
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
        let (tally, ()) =
            self.change_container::<Hash, _>(key, now, |_| Ok((Cow::Borrowed(&changes), ())))?;
        Ok(tally.removed)
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
        let (_, sum) = self.update_container::<Hash, _>(key, now, |hash| {
            let old = hash.get(field).map_or(Some(0), parse_int);
            let old = old.ok_or(StoreError::NotANumber(NumberKind::Integer))?;
            let sum = old.checked_add(delta).ok_or(StoreError::Overflow(NumberKind::Integer))?;
            let mut text = itoa::Buffer::new();
            let text = text.format(sum).as_bytes().to_vec();
            Ok((Cow::Owned(vec![(field, Some(Cow::Owned(text)))]), sum))
        })?;
        Ok(sum)
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
        let (_, sum) = self.update_container::<Hash, _>(key, now, |hash| {
            let old = hash.get(field).map_or(Ok(decimal::ZERO), decimal::parse);
            let sum = decimal::add_to_text(old?, delta.number())?;
            Ok((Cow::Owned(vec![(field, Some(Cow::Owned(sum.clone())))]), sum))
        })?;
        Ok(sum)
    }
}
