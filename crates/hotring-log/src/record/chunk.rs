//! Sealed records that stay in memory for replicas.

use super::{Attached, DURABLE_LEN, Group, HEAD_LEN, Lsn, word};

/// The records of one group, with their numbers and checksums, as they are in the file.
pub struct Chunk {
    first: Lsn,
    last: Lsn,
    bytes: Box<[u8]>,
    /// Values and their offsets in `bytes`, each at the end of a record.
    attached: Vec<(usize, Attached)>,
    len: usize,
}

impl Chunk {
    /// Takes the sealed records of a group, of which the first has this number.
    pub(crate) fn of(group: &mut Group, first: Lsn) -> Chunk {
        let bytes = group.bytes[DURABLE_LEN..].into();
        let attached = group.attached.drain(..).map(|(at, value)| (at - DURABLE_LEN, value));
        Chunk {
            first,
            last: first - 1 + group.count,
            bytes,
            attached: attached.collect(),
            len: group.len(),
        }
    }

    /// The number of the first record.
    pub fn first(&self) -> Lsn {
        self.first
    }

    /// The number of the last record.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// Bytes of the records.
    #[expect(clippy::len_without_is_empty, reason = "it has a record")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes of the records after the number `after`, up to `last`, in pieces.
    pub fn pieces(&self, after: Lsn, last: Lsn) -> impl Iterator<Item = &[u8]> {
        let (mut from, skipped) = self.place_after(after);
        let (end, upto) = match last < self.last {
            true => self.place_after(last),
            false => (self.bytes.len(), self.attached.len()),
        };
        let attached = self.attached[skipped..upto.max(skipped)].iter();
        let ends = attached.map(|(at, value)| (*at, Some((**value).as_ref())));
        let pieces = ends.chain([(end.max(from), None)]).flat_map(move |(end, value)| {
            let inline = &self.bytes[from..end];
            from = end;
            [inline].into_iter().chain(value)
        });
        pieces.filter(|piece| !piece.is_empty())
    }

    /// The offset of the first record after this number, and the number of values attached before it.
    fn place_after(&self, lsn: Lsn) -> (usize, usize) {
        let (mut at, mut attached, mut next) = (0, 0, self.first);
        while next <= lsn && at < self.bytes.len() {
            let end = at + HEAD_LEN + u32::from_le_bytes(word(&self.bytes[at..])) as usize;
            at = match self.attached.get(attached) {
                Some((place, _)) if *place <= end => {
                    attached += 1;
                    *place
                }
                _ => end,
            };
            next += 1;
        }
        (at, attached)
    }
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Chunk { first, last, len, .. } = self;
        f.debug_struct("Chunk").field("first", first).field("last", last).field("len", len).finish()
    }
}
