//! HISTORY and ROLLBACK: a key's earlier values. Reading them is a single-key read, restoring one is a single-key
//! write.

use hotring_index::{Action, Expiry};

use crate::error::StoreError;
use crate::history::History;
use crate::metadata::with_flags_of;
use crate::session::Session;
use crate::value::encode_owned;

impl Session {
    /// Calls `f` with the key's version and earlier values. None if the key is absent. While the history is off
    /// ([`Options::history`](crate::Options::history) is 0) there are no earlier values and the version is always 1.
    ///
    /// The value, its version and the earlier values change atomically. O(n) in the bytes kept.
    pub fn history<R>(
        &mut self,
        key: &[u8],
        now: u64,
        f: impl FnOnce(History<'_>) -> R,
    ) -> Option<R> {
        self.read(key, now, |entry| f(History::of(entry.value)))
    }

    /// Restores the earlier value of this version: a write like any other, which keeps the present value as an earlier
    /// one and gets the next version. The expiry stays. False if the key is absent or does not have this version.
    ///
    /// # Errors
    /// [`StoreError::HistoryOff`], [`StoreError::Stalled`]
    pub fn roll_back(&mut self, key: &[u8], version: u64, now: u64) -> Result<bool, StoreError> {
        if self.hooks.history.is_off() {
            return Err(StoreError::HistoryOff);
        }
        self.write(key, |key| {
            key.update(now, |entry| {
                let earlier = entry.and_then(|entry| {
                    History::of(entry.value).earlier().find(|earlier| earlier.version == version)
                });
                match earlier {
                    Some(earlier) => {
                        let value = with_flags_of(entry, encode_owned(earlier.value.to_vec()));
                        (Action::Put { value, expiry: Expiry::Keep }, true)
                    }
                    None => (Action::Keep, false),
                }
            })
        })
    }
}

#[cfg(test)]
mod tests;
