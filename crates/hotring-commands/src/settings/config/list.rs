//! `list-max-listpack-size`: up to where a list is kept as one value.

use super::Config;

/// Most bytes of a list whose elements are counted.
const SAFE_LEN: usize = 8 << 10;

impl Config {
    /// Most elements and bytes of a list that is kept as one value.
    pub fn list_packed_max(&self) -> (usize, usize) {
        match self.list_packed_max {
            // -1 for 4 KiB, to -5 for 64 KiB.
            size if size < 0 => (usize::MAX, (2 << 10) << size.unsigned_abs().min(5)),
            count => (usize::try_from(count).unwrap_or(usize::MAX).max(1), SAFE_LEN),
        }
    }
}
