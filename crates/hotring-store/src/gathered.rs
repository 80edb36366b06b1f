//! The values of several keys at one moment (`mget`), copied or, if long, shared.

use hotring_index::AnySession as Index;
use hotring_index::{Block, BlockRef, Key, LONG_LEN};

use crate::value::{ValueRef, view_string};

/// Keys whose cache lines are prefetched as one batch.
pub(crate) const PREFETCH_KEYS: usize = 64;
/// A smaller batch is faster without prefetching.
const PREFETCH_KEYS_MIN: usize = 4;

/// The values of one `mget`: copies of short ones, shared blocks of long ones.
#[derive(Default)]
pub(crate) struct Gathered {
    parts: Vec<Part>,
    pub(crate) bytes: Vec<u8>,
    /// Total length of the shared values.
    pub(crate) shared_len: usize,
}

enum Part {
    Absent,
    Int(i64),
    Bytes { start: usize, end: usize },
    Shared(Block),
}

impl Gathered {
    /// Reads the values of the keys; false if they are longer than `bytes_max` together.
    pub(crate) fn fill(
        &mut self,
        index: &mut Index,
        keys: &[&[u8]],
        bytes_max: usize,
        now: u64,
    ) -> bool {
        self.parts.clear();
        self.bytes.clear();
        self.shared_len = 0;
        let mut space = no_keys();
        for batch in keys.chunks(PREFETCH_KEYS) {
            for &key in prefetched(index, batch, &mut space) {
                let part = index.get(key, now, |entry| {
                    view_string(&entry, |value| self.push(value, entry.block()))
                        .unwrap_or(Part::Absent)
                });
                self.parts.push(part.unwrap_or(Part::Absent));
                if self.bytes.len() + self.shared_len > bytes_max {
                    return false;
                }
            }
        }
        true
    }

    fn push(&mut self, value: ValueRef<'_>, block: Option<BlockRef<'_>>) -> Part {
        match value {
            ValueRef::Int(n) => Part::Int(n),
            ValueRef::Bytes(bytes) => {
                let block = block.filter(|_| bytes.len() > LONG_LEN);
                if let Some(part) = block.and_then(|block| block.to_block().part(bytes)) {
                    self.shared_len += part.len();
                    return Part::Shared(part);
                }
                let start = self.bytes.len();
                self.bytes.extend_from_slice(bytes);
                Part::Bytes { start, end: self.bytes.len() }
            }
            ValueRef::Text(text) => {
                let start = self.bytes.len();
                text.append_to(&mut self.bytes);
                Part::Bytes { start, end: self.bytes.len() }
            }
            _ => Part::Absent,
        }
    }

    pub(crate) fn part(&self, i: usize) -> (Option<ValueRef<'_>>, Option<BlockRef<'_>>) {
        match &self.parts[i] {
            Part::Absent => (None, None),
            Part::Int(n) => (Some(ValueRef::Int(*n)), None),
            Part::Bytes { start, end } => (Some(ValueRef::Bytes(&self.bytes[*start..*end])), None),
            Part::Shared(block) => (Some(ValueRef::Bytes(block)), Some(block.lend())),
        }
    }
}

/// An empty buffer for the keys of a batch.
pub(crate) fn no_keys<'k>() -> [Key<'k>; PREFETCH_KEYS] {
    [Key::from(b""); PREFETCH_KEYS]
}

/// Converts a batch of keys, and prefetches the memory that reading them touches if the batch is large enough.
pub(crate) fn prefetched<'r, 'k>(
    index: &mut Index,
    batch: &[&'k [u8]],
    space: &'r mut [Key<'k>; PREFETCH_KEYS],
) -> &'r [Key<'k>] {
    let keys = &mut space[..batch.len()];
    keys.iter_mut().zip(batch).for_each(|(slot, &key)| *slot = key.into());
    if keys.len() >= PREFETCH_KEYS_MIN {
        index.prefetch(keys);
    }
    keys
}
