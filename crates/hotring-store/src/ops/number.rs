//! Increments: single-key writes that read the value as a number. The expiry stays.

use hotring_index::{Action, Expiry, Key};

use crate::decimal;
use crate::error::{NumberKind, StoreError};
use crate::metadata::with_flags_of;
use crate::session::Session;
use crate::value::{ValueRef, encode_owned, int, view, view_string};

impl Session {
    /// Adds `delta` to the integer (0 if the key is absent), and returns the sum.
    pub fn incr_by<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        delta: i64,
        now: u64,
    ) -> Result<i64, StoreError> {
        let key = key.into();
        self.check_key(key.bytes())?;
        self.write(key, |key| {
            key.update(now, |entry| {
                let old = entry.map_or(Ok(0), |entry| {
                    view(entry.value, |value| match value {
                        ValueRef::Int(n) => Ok(n),
                        // A canonical integer would be stored as one.
                        ValueRef::Bytes(_) | ValueRef::Text(_) => {
                            Err(StoreError::NotANumber(NumberKind::Integer))
                        }
                        _ => Err(StoreError::WrongType),
                    })
                });
                match old.and_then(|n| {
                    n.checked_add(delta).ok_or(StoreError::Overflow(NumberKind::Integer))
                }) {
                    Ok(sum) => {
                        let value = with_flags_of(entry, int(sum));
                        (Action::Put { value, expiry: Expiry::Keep }, Ok(sum))
                    }
                    Err(error) => (Action::Keep, Err(error)),
                }
            })
        })?
    }

    /// Adds the decimal number `delta` to the decimal number of the key (0 if it is absent), and returns the sum as it
    /// is stored: at most 17 digits after the point, no exponent, no trailing zeros.
    pub fn incr_by_float(
        &mut self,
        key: &[u8],
        delta: &[u8],
        now: u64,
    ) -> Result<Vec<u8>, StoreError> {
        self.check_key(key)?;
        let delta = match decimal::parse(delta) {
            Ok(delta) => delta,
            // Redis reports a wrong type first.
            Err(error) => return self.strlen(key, now).and(Err(error)),
        };
        let limits = self.limits;
        self.write(key, |key| {
            key.update(now, |entry| {
                let old = entry.map_or(Ok(decimal::ZERO), |entry| {
                    view_string(&entry, |value| value.with_bytes(decimal::parse))?
                });
                let sum = old.and_then(|old| decimal::add_to_text(old, delta));
                match sum.and_then(|text| limits.check_value(text.len()).map(|()| text)) {
                    Ok(text) => {
                        let value = with_flags_of(entry, encode_owned(text.clone()));
                        (Action::Put { value, expiry: Expiry::Keep }, Ok(text))
                    }
                    Err(error) => (Action::Keep, Err(error)),
                }
            })
        })?
    }
}
