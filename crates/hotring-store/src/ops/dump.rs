//! DUMP and RESTORE: a single-key read, and a single-key write that takes place of all that was there.

use hotring_index::{Action, Expiry};

use crate::dump;
use crate::error::StoreError;
use crate::session::Session;
use crate::value::{len_of, reborrow, view};

impl Session {
    /// The value as bytes that [`restore`](Self::restore) takes, and Redis's RESTORE too. None if the
    /// key is absent. The expiry is not among them.
    pub fn dump(&mut self, key: &[u8], now: u64) -> Option<Vec<u8>> {
        self.read(key, now, |entry| view(entry.value, dump::dump))
    }

    /// Stores the value of such bytes, of this store or of Redis up to 7.4, if the key is absent or
    /// `replace`. False if it was not. A key whose expiry has passed is removed.
    ///
    /// # Errors
    /// [`StoreError::DumpSum`], [`StoreError::DumpFormat`] also for values of other types, and those of
    /// every write.
    pub fn restore(
        &mut self,
        key: &[u8],
        payload: &[u8],
        expire_at: Option<u64>,
        replace: bool,
        now: u64,
    ) -> Result<bool, StoreError> {
        self.check_key(key)?;
        let value = dump::restore(payload, self.limits)?;
        self.admit_bytes(len_of(&value))?;
        self.write(key, |key| {
            key.update(now, |entry| match expire_at {
                _ if entry.is_some() && !replace => (Action::Keep, false),
                Some(at) if at <= now => (Action::Remove, true),
                at => {
                    let expiry = at.map_or(Expiry::Never, Expiry::At);
                    (Action::Put { value: reborrow(&value), expiry }, true)
                }
            })
        })
    }
}
