//! The limit on removals from a container: removed elements are lost unless the reply has room for all of them.

use crate::error::StoreError;

/// Room for the elements taken out of a container, in the bytes of their receiver.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes in all.
    pub bytes: usize,
    /// Bytes that a part takes there.
    pub cost: fn(&[u8]) -> usize,
}

/// Room that is being filled.
#[derive(Debug)]
pub(crate) struct Filling {
    room: Room,
    left: usize,
    /// A single part fits in any room: it could not be taken otherwise.
    is_single: bool,
}

impl Room {
    /// Room for whatever there is.
    pub const ENDLESS: Room = Room { bytes: usize::MAX, cost: <[u8]>::len };

    /// Begins with room for that many parts.
    pub(crate) fn for_parts(self, n: usize) -> Filling {
        Filling { room: self, left: self.bytes, is_single: n == 1 }
    }
}

impl Filling {
    /// Adds a part.
    ///
    /// # Errors
    /// [`StoreError::ValuesTooLong`] if there is no room for it.
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<(), StoreError> {
        if self.is_single {
            return Ok(());
        }
        let left = self.left.checked_sub((self.room.cost)(part));
        self.left = left.ok_or(StoreError::ValuesTooLong { len_max: self.room.bytes })?;
        Ok(())
    }
}
