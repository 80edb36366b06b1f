//! Reading a snapshot: block by block, by as many threads as take part.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::{
    CLASS_AT, FOOTER_LEN, FOOTER_MAGIC, HEAD_LEN, HEADER_LEN, Header, SnapshotError, long, name,
    number, word,
};
use crate::log::Lsn;
use crate::packed::unpack;
use crate::record::Effect;
use crate::segment::Id;
use crate::storage::{File, Storage};

/// A snapshot that is to be read. Its header and its footer have been.
pub struct Snapshot {
    place: String,
    name: String,
    file: Arc<dyn File>,
    /// The header's checksum.
    seed: u32,
    header: Header,
    end: Lsn,
    blocks: u64,
    items: u64,
    /// Where the footer begins.
    blocks_end: u64,
    next: Mutex<Next>,
}

/// The block that is read next.
struct Next {
    at: u64,
    block: u64,
    /// In the blocks before.
    items: u64,
}

/// A block, and where it is.
struct Block {
    at: u64,
    head: [u8; HEAD_LEN],
    len: u64,
}

impl Snapshot {
    /// The newest one of a directory, if there is any.
    pub fn newest(storage: &dyn Storage) -> Result<Option<Snapshot>, SnapshotError> {
        let names = storage.list();
        let names = names.map_err(|error| SnapshotError::Io { name: storage.place(), error })?;
        let newest = names.iter().filter_map(|name| number(name, ".hrs")).max();
        newest.map(|after| Snapshot::open(storage, after)).transpose()
    }

    fn open(storage: &dyn Storage, after: Lsn) -> Result<Snapshot, SnapshotError> {
        let (place, name) = (storage.place(), name(after));
        let damaged = |at: u64, what| {
            let (place, name) = (place.clone(), name.clone());
            SnapshotError::Damaged { place, name, at, what }
        };
        let failed = |error| SnapshotError::Io { name: name.clone(), error };
        let file = storage.open(&name).map_err(failed)?;
        let len = file.size().map_err(failed)?;
        if len < (HEADER_LEN + FOOTER_LEN) as u64 {
            return Err(damaged(len, "it is too short"));
        }
        let mut bytes = [0; HEADER_LEN];
        read(&*file, &mut bytes, 0).map_err(failed)?;
        let header = match Header::read(&bytes) {
            None => return Err(damaged(0, "the header cannot be read")),
            Some(Err(format)) => return Err(SnapshotError::Format { name, format }),
            Some(Ok(header)) if header.after != after => {
                return Err(damaged(32, "the header belongs to another name"));
            }
            Some(Ok(header)) => header,
        };
        let seed = word(&bytes, HEADER_LEN - 4);
        let blocks_end = len - FOOTER_LEN as u64;
        let mut footer = [0; FOOTER_LEN];
        read(&*file, &mut footer, blocks_end).map_err(failed)?;
        let crc = crc32c::crc32c_append(seed, &footer[..FOOTER_LEN - 4]);
        if footer[..8] != *FOOTER_MAGIC || crc != word(&footer, FOOTER_LEN - 4) {
            return Err(damaged(blocks_end, "the end of the file cannot be read"));
        }
        let [blocks, items, end] = [8, 16, 24].map(|at| long(&footer, at));
        let next = Mutex::new(Next { at: HEADER_LEN as u64, block: 0, items: 0 });
        let snapshot =
            Snapshot { place, name, file, seed, header, end, blocks, items, blocks_end, next };
        Ok(snapshot)
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The store's id.
    pub fn id(&self) -> Id {
        self.header.id
    }

    /// The record behind which the log goes on.
    pub fn after(&self) -> Lsn {
        self.header.after
    }

    /// The record up to which the log is needed at least.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Items in it.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Bytes in it.
    #[expect(clippy::len_without_is_empty, reason = "it has a header")]
    pub fn len(&self) -> u64 {
        self.blocks_end + FOOTER_LEN as u64
    }

    /// Reads the next block and hands over its items, once all of it is known to be as it was written. Returns its
    /// length, None behind the last one of this class and those before. Any number of threads may do so at one time;
    /// `buffer` is each one's own.
    pub fn read_block(
        &self,
        class: u8,
        buffer: &mut Vec<u8>,
        apply: &mut dyn FnMut(&Effect<'_>),
    ) -> Result<Option<u64>, SnapshotError> {
        let Some(Block { at, head, len }) = self.take(class)? else { return Ok(None) };
        // The file has that many.
        let len = usize::try_from(len).map_err(|_| self.damaged(at, "a block is too long"))?;
        buffer.resize(len, 0);
        self.read(buffer, at + HEAD_LEN as u64)?;
        let crc = crc32c::crc32c_append(self.seed, &head[12..]);
        if crc32c::crc32c_append(crc, buffer) != word(&head, 8) {
            return Err(self.damaged(at, "the checksum of a block is wrong"));
        }
        if unpack(buffer, apply) != Some(word(&head, 16)) {
            return Err(self.damaged(at, "an item of a block cannot be understood"));
        }
        Ok(Some((HEAD_LEN + len) as u64))
    }

    /// Where the next block begins.
    pub(super) fn next_at(&self) -> u64 {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).at
    }

    /// The next block is the caller's to read, if it is of this class or one before.
    fn take(&self, class: u8) -> Result<Option<Block>, SnapshotError> {
        // Nothing panics between its changes.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let at = next.at;
        if at == self.blocks_end {
            return match (next.block, next.items) == (self.blocks, self.items) {
                true => Ok(None),
                false => Err(self.damaged(at, "blocks are missing")),
            };
        }
        let mut head = [0; HEAD_LEN];
        let room = (self.blocks_end - at).checked_sub(HEAD_LEN as u64);
        let room = room.ok_or_else(|| self.damaged(at, "a block is cut off"))?;
        self.read(&mut head, at)?;
        // Should it be damaged, that is noticed when the block is read, sooner or later.
        if head[CLASS_AT] > class {
            return Ok(None);
        }
        let len = long(&head, 0);
        if len > room {
            return Err(self.damaged(at, "a block is cut off"));
        }
        if u64::from(word(&head, 12)) != next.block {
            return Err(self.damaged(at, "another block is expected here"));
        }
        next.at += HEAD_LEN as u64 + len;
        next.block += 1;
        next.items += u64::from(word(&head, 16));
        Ok(Some(Block { at, head, len }))
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), SnapshotError> {
        let failed = |error| SnapshotError::Io { name: self.name.clone(), error };
        read(&*self.file, bytes, at).map_err(failed)
    }

    fn damaged(&self, at: u64, what: &'static str) -> SnapshotError {
        let (place, name) = (self.place.clone(), self.name.clone());
        SnapshotError::Damaged { place, name, at, what }
    }
}

/// Reads all of it.
fn read(file: &dyn File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => (bytes, at) = (&mut bytes[len..], at + len as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
