//! Operations on hashes: single-key reads, and single-key writes that decide on changes of fields. A key without fields
//! is absent. The expiry of the key stays.

use hotring_index::Key;

use crate::container::Changes;
use crate::decimal;
use crate::decimal::parse_int;
use crate::error::{NumberKind, StoreError};
use crate::hash::{Change, Hash, HashRef, NewText, To};
use crate::ops::counter::Decimal;
use crate::session::Session;

impl Session {
    /// Calls `f` with the hash. None if the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn hash<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(HashRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        Ok(self.read_container::<Hash, _>(key, now, |hash| shown(hash, now).map(f))?.flatten())
    }

    /// Like [`hash`](Self::hash), for a walk over the entire hash: writers of a large hash do not wait for `f`.
    ///
    /// # Errors
    /// Those of `hash`.
    pub fn hash_walk<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(HashRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        Ok(self.walk_container::<Hash, _>(key, now, |hash| shown(hash, now).map(f))?.flatten())
    }

    /// Sets fields to values, and returns the number of new fields. The last of equal fields wins.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], [`StoreError::ValueTooLong`] if the hash would be too long, and those of every write.
    pub fn hash_set<'k, 'p>(
        &mut self,
        key: impl Into<Key<'k>>,
        pairs: &[(&'p [u8], &'p [u8])],
        now: u64,
    ) -> Result<usize, StoreError> {
        self.admit_bytes(pairs.iter().map(|(field, value)| field.len() + value.len()).sum())?;
        let change = |pair: &(&'p [u8], &'p [u8])| (pair.0, To::Value(NewText::Given(pair.1)));
        let (one, many);
        let changes: &[Change<'_>] = match pairs {
            [pair] => {
                one = [change(pair)];
                &one
            }
            _ => {
                many = pairs.iter().map(change).collect::<Vec<_>>();
                &many
            }
        };
        let (tally, ()) = self.update_hash(key, now, |_| Ok((Changes::Given(changes), ())))?;
        Ok(tally.added)
    }

    /// Sets a field if it is absent; true if it was set.
    ///
    /// # Errors
    /// Those of [`hash_set`](Self::hash_set).
    pub fn hash_set_nx(
        &mut self,
        key: &[u8],
        field: &[u8],
        value: &[u8],
        now: u64,
    ) -> Result<bool, StoreError> {
        let (tally, ()) = self.update_hash(key, now, |hash| {
            let change = (field, To::Value(NewText::Given(value)));
            Ok((hash.get(field).is_none().then_some(change).into(), ()))
        })?;
        Ok(tally.added > 0)
    }

    /// Removes fields and returns the number of removed ones. Removes the key with its last field.
    ///
    /// # Errors
    /// Those of [`hash_set`](Self::hash_set) except [`StoreError::OutOfMemory`]: the shorter hash takes less memory.
    pub fn hash_remove(
        &mut self,
        key: &[u8],
        fields: &[&[u8]],
        now: u64,
    ) -> Result<usize, StoreError> {
        let changes: Vec<Change<'_>> = fields.iter().map(|field| (*field, To::Removed)).collect();
        self.check_key(key)?;
        self.admit_little()?;
        let (tally, ()) = self.change_hash(key, now, |_| Ok((Changes::Given(&changes), ())))?;
        Ok(tally.removed)
    }

    /// Adds to the integer of a field (0 if the field is absent), and returns the sum.
    ///
    /// # Errors
    /// [`StoreError::NotANumber`], [`StoreError::Overflow`], and those of [`hash_set`](Self::hash_set).
    pub fn hash_incr_by<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        field: &[u8],
        delta: i64,
        now: u64,
    ) -> Result<i64, StoreError> {
        let (_, sum) = self.update_hash(key, now, |hash| {
            let found = hash.get_with_expiry(field);
            let old = found.map_or(Some(0), |(value, _)| parse_int(value));
            let old = old.ok_or(StoreError::NotANumber(NumberKind::Integer))?;
            let sum = old.checked_add(delta).ok_or(StoreError::Overflow(NumberKind::Integer))?;
            let to = To::value_until(NewText::of_int(sum), found.and_then(|(_, at)| at));
            Ok((Changes::One((field, to)), sum))
        })?;
        Ok(sum)
    }

    /// Adds to the decimal number of a field (0 if the field is absent), and returns the sum as
    /// [`incr_by_float`](Self::incr_by_float) does.
    ///
    /// # Errors
    /// [`StoreError::NotANumber`] for the field, [`StoreError::Overflow`], and those of [`hash_set`](Self::hash_set).
    pub fn hash_incr_by_float(
        &mut self,
        key: &[u8],
        field: &[u8],
        delta: Decimal,
        now: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let (_, sum) = self.update_hash(key, now, |hash| {
            let found = hash.get_with_expiry(field);
            let old = found.map_or(Ok(decimal::ZERO), |(value, _)| decimal::parse(value));
            let sum = decimal::add_to_text(old?, delta.number())?;
            let to = To::value_until(NewText::Made(sum.clone()), found.and_then(|(_, at)| at));
            Ok((Changes::One((field, to)), sum))
        })?;
        Ok(sum)
    }
}

/// The hash without expired fields; None if no field is left.
fn shown(hash: HashRef<'_>, now: u64) -> Option<HashRef<'_>> {
    if !hash.expires() {
        return Some(hash);
    }
    Some(hash.at(now)).filter(|hash| !hash.is_empty())
}
