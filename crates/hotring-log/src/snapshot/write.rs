//! Writes a snapshot: one block in memory at a time, then the footer, then the name.

use std::io;
use std::sync::Arc;

use super::{CLASS_AT, FOOTER_MAGIC, HEAD_CRC_AT, HEAD_LEN, HEADER_LEN, Header, prune};
use crate::names;
use crate::packed::pack;
use crate::record::{Effect, Lsn, Records};
use crate::segment::Id;
use crate::storage::{File, Storage};

/// Length at which a block is written: large for a disk, small in memory, and short enough for
/// parallel reading.
const BLOCK_LEN: usize = 512 << 10;

/// Bytes between two syncs, so that the log's own syncs do not have to wait for the entire file.
const SYNC_LEN: u64 = 32 << 20;

/// Writes a snapshot. Removes the file if it is dropped before it is finished.
pub struct SnapshotWriter {
    unfinished: Unfinished,
    file: Arc<dyn File>,
    /// The header's checksum, which all other checksums continue.
    seed: u32,
    after: Lsn,
    /// The offset at which the current block will be written.
    at: u64,
    /// Space for the block's head, and its items.
    block: Vec<u8>,
    class: u8,
    database: u8,
    block_items: u32,
    /// The length at the last sync.
    synced: u64,
    blocks: u32,
    items: u64,
    scratch: Records,
}

/// A file that is removed on drop.
struct Unfinished {
    storage: Arc<dyn Storage>,
    name: String,
    is_done: bool,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_done {
            // If that fails, the next start removes it.
            let _ = self.storage.remove(&self.name);
        }
    }
}

impl SnapshotWriter {
    /// Begins a snapshot that covers the records up to `after`.
    pub fn create(storage: Arc<dyn Storage>, id: Id, after: Lsn) -> io::Result<SnapshotWriter> {
        let name = names::unfinished_snapshot(after);
        let file = storage.create(&name)?;
        let unfinished = Unfinished { storage, name, is_done: false };
        let header = Header { id, after }.to_bytes();
        file.write_all_at(&header, 0)?;
        Ok(SnapshotWriter {
            unfinished,
            file,
            seed: super::u32_at(&header, HEADER_LEN - 4),
            after,
            at: HEADER_LEN as u64,
            block: vec![0; HEAD_LEN],
            class: 0,
            database: 0,
            block_items: 0,
            synced: 0,
            blocks: 0,
            items: 0,
            scratch: Records::new(),
        })
    }

    /// Adds an item, in memory.
    pub fn push(&mut self, effect: &Effect<'_>) {
        if self.block_items == 0 && self.database != 0 {
            // Each block is read on its own, so it must name its database.
            let database = Effect::Database { number: self.database };
            pack(&database, &mut self.scratch, &mut self.block);
            self.block_items += 1;
        }
        pack(effect, &mut self.scratch, &mut self.block);
        self.block_items += 1;
    }

    /// Bytes so far, including those in memory.
    pub fn written(&self) -> u64 {
        self.at + self.block.len() as u64
    }

    /// Whether the items in memory are enough for a block.
    pub fn is_full(&self) -> bool {
        self.block.len() >= BLOCK_LEN
    }

    /// Starts a block of this class.
    pub fn set_class(&mut self, class: u8) -> io::Result<()> {
        if class != self.class {
            self.write_block()?;
            self.class = class;
        }
        Ok(())
    }

    /// Starts a block of this database. The first block is of database 0.
    pub fn set_database(&mut self, number: u8) -> io::Result<()> {
        if number != self.database {
            self.write_block()?;
            self.database = number;
        }
        Ok(())
    }

    /// Writes the items in memory as a block, if there are any.
    pub fn write_block(&mut self) -> io::Result<()> {
        let SnapshotWriter { block, seed, .. } = self;
        if self.block_items > 0 {
            let len = (block.len() - HEAD_LEN) as u64;
            block[..8].copy_from_slice(&len.to_le_bytes());
            block[12..16].copy_from_slice(&self.blocks.to_le_bytes());
            block[16..20].copy_from_slice(&self.block_items.to_le_bytes());
            block[CLASS_AT] = self.class;
            let crc = crc32c::crc32c_append(*seed, &block[HEAD_LEN..]);
            block[8..12].copy_from_slice(&crc.to_le_bytes());
            let crc = crc32c::crc32c_append(*seed, &block[..HEAD_CRC_AT]);
            block[HEAD_CRC_AT..HEAD_LEN].copy_from_slice(&crc.to_le_bytes());
            self.file.write_all_at(block, self.at)?;
            self.at += block.len() as u64;
            self.items += u64::from(self.block_items);
            let more = self.blocks.checked_add(1);
            self.blocks = more.ok_or_else(|| io::Error::other("too many blocks"))?;
            self.block_items = 0;
            block.truncate(HEAD_LEN);
            // One of the items may have been long.
            block.shrink_to(2 * BLOCK_LEN);
            if self.at - self.synced >= SYNC_LEN {
                self.file.sync()?;
                self.synced = self.at;
            }
        }
        Ok(())
    }

    /// Ends the file and syncs it. All keys must have been pushed; `end` is the last record handed
    /// over by then.
    pub fn finish(mut self, end: Lsn) -> io::Result<Finished> {
        self.write_block()?;
        let mut footer = FOOTER_MAGIC.to_vec();
        footer.extend_from_slice(&u64::from(self.blocks).to_le_bytes());
        footer.extend_from_slice(&self.items.to_le_bytes());
        footer.extend_from_slice(&end.to_le_bytes());
        let crc = crc32c::crc32c_append(self.seed, &footer);
        footer.extend_from_slice(&crc.to_le_bytes());
        self.file.write_all_at(&footer, self.at)?;
        self.file.sync()?;
        let (after, items, len) = (self.after, self.items, self.at + footer.len() as u64);
        Ok(Finished { unfinished: self.unfinished, after, end, items, len })
    }
}

/// A complete snapshot on the disk that is not valid for recovery yet. Removed on drop unless
/// published.
pub struct Finished {
    unfinished: Unfinished,
    after: Lsn,
    end: Lsn,
    items: u64,
    len: u64,
}

impl Finished {
    /// The record up to which the log must be synced before the snapshot may count.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// The number of items.
    pub fn items(&self) -> u64 {
        self.items
    }

    /// The length of the file in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it has a header")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Makes the snapshot count, and removes the files that it replaces. The log is synced up to `synced`.
    /// Returns the number of removed files.
    ///
    /// # Panics
    ///
    /// The log is not synced up to [`end`](Self::end).
    pub fn publish(self, synced: Lsn) -> io::Result<usize> {
        assert!(synced >= self.end, "a snapshot needs the log up to {}", self.end);
        let Finished { mut unfinished, after, .. } = self;
        unfinished.storage.rename(&unfinished.name, &names::snapshot(after))?;
        unfinished.is_done = true;
        // Before older files are removed; otherwise a power cut could lose both.
        unfinished.storage.sync()?;
        let removed = prune(&*unfinished.storage, after)?;
        unfinished.storage.sync()?;
        Ok(removed)
    }
}
