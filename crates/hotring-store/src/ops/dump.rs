//! DUMP and RESTORE: a single-key read, and a single-key write that takes place of all that was there.

use crate::dump::{self, Undumped};
use crate::error::StoreError;
use crate::session::Session;
use crate::value::view;

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
        let len_max = self.limits.value_len_max;
        let content = dump::undump(payload, len_max).map_err(|why| match why {
            Undumped::Sum => StoreError::DumpSum,
            Undumped::Format => StoreError::DumpFormat,
            Undumped::TooLong { len } => StoreError::ValueTooLong { len, len_max },
        })?;
        self.put_content(key, content, expire_at, replace, now)
    }
}
