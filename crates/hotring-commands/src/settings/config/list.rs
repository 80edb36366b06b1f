//! `list-max-listpack-size`: the limit up to which a list is stored as one value.

use super::Config;

/// The maximum bytes of a list stored as one value, if the setting limits the number of elements.
const SAFE_LEN: usize = 8 << 10;

impl Config {
    /// The maximum elements and bytes of a list that is stored as one value.
    pub fn list_packed_max(&self) -> (usize, usize) {
        match self.list_packed_max {
            // -1 for 4 KiB, to -5 for 64 KiB.
            size if size < 0 => (usize::MAX, (2 << 10) << size.unsigned_abs().min(5)),
            count => (usize::try_from(count).unwrap_or(usize::MAX).max(1), SAFE_LEN),
        }
    }
}
