//! Reads a snapshot block by block, on any number of threads.

use std::sync::{Arc, Mutex, PoisonError};

use super::{
    CLASS_AT, FOOTER_LEN, FOOTER_MAGIC, HEAD_CRC_AT, HEAD_LEN, HEADER_LEN, Header, SnapshotError,
    u32_at, u64_at,
};
use crate::names;
use crate::packed::unpack;
use crate::record::{Effect, Lsn};
use crate::segment::{BadHeader, Id};
use crate::storage::{File, Storage, read_all_at};

/// An open snapshot whose header and footer have been read.
pub struct Snapshot {
    location: String,
    name: String,
    file: Arc<dyn File>,
    len: u64,
    /// The header's checksum.
    seed: u32,
    header: Header,
    end: Lsn,
    /// Blocks and items, if the footer is readable.
    counts: Option<[u64; 2]>,
    /// The offset of the footer, or the end of the file if the footer is unreadable.
    blocks_end: u64,
    next: Mutex<Next>,
}

/// The block that is read next.
struct Next {
    at: u64,
    block: u64,
    /// Items in earlier blocks.
    items: u64,
}

/// A block's offset, head, and length of its items.
struct Block {
    at: u64,
    head: [u8; HEAD_LEN],
    len: u64,
}

impl Snapshot {
    /// Opens the newest snapshot of a directory, if any.
    pub fn newest(storage: &dyn Storage) -> Result<Option<Snapshot>, SnapshotError> {
        let Some((after, ends)) = Ends::newest(storage)? else { return Ok(None) };
        let (header, counts) = ends.check(after)?;
        let seed = ends.seed();
        Ok(Some(ends.snapshot(header, seed, Some(counts))))
    }

    /// Opens the newest snapshot despite damage to its header, footer or length, and returns that
    /// damage too. Each block can be read on its own, and the log behind the snapshot is valid even
    /// if no block is. `id` is the log's ID, if known; without an ID, a file cannot be salvaged if
    /// its header is unreadable and it is too short for a header and a footer.
    pub fn salvage(
        storage: &dyn Storage,
        id: Option<Id>,
    ) -> Result<Option<(Snapshot, Option<SnapshotError>)>, SnapshotError> {
        let Some((after, ends)) = Ends::newest(storage)? else { return Ok(None) };
        let fault = match ends.check(after) {
            Ok((header, counts)) => {
                let seed = ends.seed();
                return Ok(Some((ends.snapshot(header, seed, Some(counts)), None)));
            }
            Err(fault @ SnapshotError::Damaged { .. }) if after < Lsn::MAX => fault,
            Err(error) => return Err(error),
        };
        let header = Header { id: id.unwrap_or_default(), after };
        let (header, seed) = match Header::read(&ends.header) {
            Ok(header) if header.after == after => (header, ends.seed()),
            // With the ID, the header's content and hence its checksum are known.
            _ if id.is_some() => (header, u32_at(&header.to_bytes(), HEADER_LEN - 4)),
            _ if ends.footer_at.is_none() => return Err(fault),
            _ => (header, ends.seed()),
        };
        Ok(Some((ends.snapshot(header, seed, None), Some(fault))))
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store's id.
    pub fn id(&self) -> Id {
        self.header.id
    }

    /// The last record that the snapshot covers.
    pub fn after(&self) -> Lsn {
        self.header.after
    }

    /// The record up to which the log is needed at least.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// The number of items; 0 if the footer is unreadable.
    pub fn items(&self) -> u64 {
        self.counts.map_or(0, |[_, items]| items)
    }

    /// The length of the file in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it has a header")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reads the next block and hands over its items, once its checksum has been verified. Returns
    /// its length, None behind the last block of this class or a hotter one. Any number of threads
    /// may call this, each with its own `buffer`.
    pub fn read_block(
        &self,
        class: u8,
        buffer: &mut Vec<u8>,
        apply: &mut dyn FnMut(&[Effect<'_>]),
    ) -> Result<Option<u64>, SnapshotError> {
        let Some(Block { at, head, len }) = self.take(class)? else { return Ok(None) };
        // `take` has checked that the file has this many bytes.
        let len = usize::try_from(len).map_err(|_| self.damaged(at, "a block is too long"))?;
        buffer.resize(len, 0);
        self.read(buffer, at + HEAD_LEN as u64)?;
        if crc32c::crc32c_append(self.seed, buffer) != u32_at(&head, 8) {
            return Err(self.damaged(at, "the checksum of a block is wrong"));
        }
        if unpack(buffer, apply) != Some(u32_at(&head, 16)) {
            return Err(self.damaged(at, "an item of a block cannot be decoded"));
        }
        Ok(Some((HEAD_LEN + len) as u64))
    }

    /// The offset of the next block.
    pub(super) fn next_at(&self) -> u64 {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).at
    }

    /// Takes the next block, if it is of this class or a hotter one.
    fn take(&self, class: u8) -> Result<Option<Block>, SnapshotError> {
        // No code panics while it changes `next`.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let at = next.at;
        if at == self.blocks_end {
            return match self.counts.is_none_or(|counts| counts == [next.block, next.items]) {
                true => Ok(None),
                false => Err(self.damaged(at, "blocks are missing")),
            };
        }
        let mut head = [0; HEAD_LEN];
        // The footer is already known to be unreadable.
        let is_footer = self.counts.is_none() && self.blocks_end - at <= FOOTER_LEN as u64;
        let Some(available) = (self.blocks_end - at).checked_sub(HEAD_LEN as u64) else {
            return if is_footer { Ok(None) } else { Err(self.damaged(at, "a block is cut off")) };
        };
        self.read(&mut head, at)?;
        let crc = crc32c::crc32c_append(self.seed, &head[..HEAD_CRC_AT]);
        if crc != u32_at(&head, HEAD_CRC_AT) {
            let fault = "the head of a block cannot be read";
            return if is_footer { Ok(None) } else { Err(self.damaged(at, fault)) };
        }
        if head[CLASS_AT] > class {
            return Ok(None);
        }
        let len = u64_at(&head, 0);
        if len > available {
            return Err(self.damaged(at, "a block is cut off"));
        }
        if u64::from(u32_at(&head, 12)) != next.block {
            return Err(self.damaged(at, "another block is expected here"));
        }
        next.at += HEAD_LEN as u64 + len;
        next.block += 1;
        next.items += u64::from(u32_at(&head, 16));
        Ok(Some(Block { at, head, len }))
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), SnapshotError> {
        let failed = |error| SnapshotError::Io { name: self.name.clone(), error };
        read_all_at(&*self.file, bytes, at).map_err(failed)
    }

    fn damaged(&self, at: u64, fault: &'static str) -> SnapshotError {
        let (location, name) = (self.location.clone(), self.name.clone());
        SnapshotError::Damaged { location, name, at, fault }
    }
}

/// The two ends of a file: header and footer.
struct Ends {
    location: String,
    name: String,
    file: Arc<dyn File>,
    header: [u8; HEADER_LEN],
    footer: [u8; FOOTER_LEN],
    len: u64,
    /// The offset of the footer; None if the file is too short for header and footer.
    footer_at: Option<u64>,
}

impl Ends {
    /// Reads the ends of the newest snapshot, and the number in its name.
    fn newest(storage: &dyn Storage) -> Result<Option<(Lsn, Ends)>, SnapshotError> {
        let files = storage.list();
        let files = files.map_err(|error| SnapshotError::Io { name: storage.location(), error })?;
        let newest = files.iter().filter_map(|name| names::snapshot_after(name)).max();
        newest.map(|after| Ok((after, Ends::of(storage, after)?))).transpose()
    }

    fn of(storage: &dyn Storage, after: Lsn) -> Result<Ends, SnapshotError> {
        let (location, name) = (storage.location(), names::snapshot(after));
        let failed = |error| SnapshotError::Io { name: name.clone(), error };
        let file = storage.open(&name).map_err(failed)?;
        let len = file.size().map_err(failed)?;
        let (mut header, mut footer) = ([0; HEADER_LEN], [0; FOOTER_LEN]);
        let header_len = usize::try_from(len).map_or(HEADER_LEN, |len| len.min(HEADER_LEN));
        read_all_at(&*file, &mut header[..header_len], 0).map_err(failed)?;
        let footer_at = len.checked_sub(FOOTER_LEN as u64).filter(|at| *at >= HEADER_LEN as u64);
        if let Some(at) = footer_at {
            read_all_at(&*file, &mut footer, at).map_err(failed)?;
        }
        Ok(Ends { location, name, file, header, footer, len, footer_at })
    }

    /// The stored checksum of the header.
    fn seed(&self) -> u32 {
        u32_at(&self.header, HEADER_LEN - 4)
    }

    /// Verifies header and footer; returns the header and the footer's numbers: blocks, items,
    /// `end`.
    fn check(&self, after: Lsn) -> Result<(Header, [u64; 3]), SnapshotError> {
        let Some(footer_at) = self.footer_at else {
            return Err(self.damaged(self.len, "it is too short"));
        };
        let header = match Header::read(&self.header) {
            Err(BadHeader::Damaged) => return Err(self.damaged(0, "the header cannot be read")),
            Err(BadHeader::Format(format)) => {
                return Err(SnapshotError::Format { name: self.name.clone(), format });
            }
            Ok(header) if header.after != after || after == Lsn::MAX => {
                return Err(self.damaged(32, "the header does not match the file's name"));
            }
            Ok(header) => header,
        };
        let crc = crc32c::crc32c_append(self.seed(), &self.footer[..FOOTER_LEN - 4]);
        if self.footer[..8] != *FOOTER_MAGIC || crc != u32_at(&self.footer, FOOTER_LEN - 4) {
            return Err(self.damaged(footer_at, "the end of the file cannot be read"));
        }
        Ok((header, [8, 16, 24].map(|at| u64_at(&self.footer, at))))
    }

    fn damaged(&self, at: u64, fault: &'static str) -> SnapshotError {
        let (location, name) = (self.location.clone(), self.name.clone());
        SnapshotError::Damaged { location, name, at, fault }
    }

    /// Makes the snapshot, with the footer's numbers if they are known.
    fn snapshot(self, header: Header, seed: u32, footer: Option<[u64; 3]>) -> Snapshot {
        let Ends { location, name, file, len, footer_at, .. } = self;
        // Without a footer, the rest of the file may be blocks.
        let blocks_end = footer.and(footer_at).unwrap_or(len).max(HEADER_LEN as u64);
        let next = Mutex::new(Next { at: HEADER_LEN as u64, block: 0, items: 0 });
        let end = footer.map_or(header.after, |[.., end]| end);
        let counts = footer.map(|[blocks, items, _]| [blocks, items]);
        Snapshot { location, name, file, len, seed, header, end, counts, blocks_end, next }
    }
}
