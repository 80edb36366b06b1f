//! A size limit for elements removed from a container: they would be lost if the reply could not hold all of them.

use crate::error::StoreError;

/// The capacity of a reply for removed elements, in the bytes of its format.
#[derive(Clone, Copy, Debug)]
pub struct ReplyCapacity {
    /// Total capacity in bytes.
    pub bytes: usize,
    /// Bytes that a part takes in the reply.
    pub cost: fn(&[u8]) -> usize,
}

/// A capacity that is being used up.
#[derive(Debug)]
pub(crate) struct CapacityLeft {
    capacity: ReplyCapacity,
    left: usize,
    /// A single part always fits: otherwise it could never be removed.
    is_single: bool,
}

impl ReplyCapacity {
    /// No limit.
    pub const UNLIMITED: ReplyCapacity = ReplyCapacity { bytes: usize::MAX, cost: <[u8]>::len };

    /// Begins to fill the capacity with this many parts.
    pub(crate) fn for_parts(self, n: usize) -> CapacityLeft {
        CapacityLeft { capacity: self, left: self.bytes, is_single: n == 1 }
    }
}

impl CapacityLeft {
    /// Accounts for a part.
    ///
    /// # Errors
    /// [`StoreError::ValuesTooLong`] if the part does not fit.
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<(), StoreError> {
        if self.is_single {
            return Ok(());
        }
        let left = self.left.checked_sub((self.capacity.cost)(part));
        self.left = left.ok_or(StoreError::ValuesTooLong { len_max: self.capacity.bytes })?;
        Ok(())
    }
}
