//! Snapshots: the state of all keys in one file, so that the log before it can be removed.
//!
//! ```text
//!  snapshot-<number of the last record that the snapshot replaces, 20 digits>.hrs
//!
//!  header  magic 8 | format u32 | zero u32 | store's ID 16 | after u64 | zero 20 | CRC-32C u32
//!  block   length of the items u64 | CRC-32C of the items u32 | number of the block u32 | number of items u32
//!          | class u8 | zero 3 | CRC-32C of the 24 bytes before u32 | items
//!  ...
//!  footer  magic 8 | blocks u64 | items u64 | end u64 | CRC-32C u32
//!
//!  item    length u32 | the body of a record: a put, or a pin
//! ```
//! `after`: the last record that was handed over when the first key was read. `end`: the last record that was handed
//! over when the last key had been read. Each key is stored as it was when it was read, so the file is not a
//! point-in-time state: the log's records behind `after` must be replayed over it, up to `end` at least. Replaying a
//! record over a newer value does no harm, because the newer value's record follows.
//!
//! The checksums of blocks and of the footer continue the header's, so that a block of another file is never mistaken
//! for one of this file. The class of a block says how hot its items are; 0 is the hottest. An item may occur
//! more than once.
//!
//! The file is written under a temporary name and gets its final name once it is complete and on the disk, and the log
//! is synced up to `end`. Until then no older file may be touched.

mod read;
mod repair;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;
use std::io;

pub use read::Snapshot;
pub use write::{Finished, SnapshotWriter};

use crate::names;
use crate::record::Lsn;
use crate::recover::repair_hint;
use crate::segment::{BadHeader, Id, check_header, first_id, remove_before};
use crate::storage::Storage;

const HEADER_LEN: usize = 64;
const HEAD_LEN: usize = 28;
const FOOTER_LEN: usize = 36;

/// Offsets of the class and of the checksum in a block's head.
const CLASS_AT: usize = 20;
const HEAD_CRC_AT: usize = 24;

/// The class of items that must be loaded first: pins, and the hottest keys.
pub const HOTTEST: u8 = 0;
/// The class of all other items. Blocks are in the order of their classes, so that more classes may
/// be added in between.
pub const ALL: u8 = 255;

const MAGIC: &[u8; 8] = b"hotr-snp";
const FOOTER_MAGIC: &[u8; 8] = b"hotr-end";

/// The version that is written; readers accept it and all earlier versions. Version 2 added databases and the forms of
/// long hashes.
const FORMAT: u32 = 2;

/// The header of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    id: Id,
    after: Lsn,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id);
        bytes[32..40].copy_from_slice(&self.after.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; HEADER_LEN]) -> Result<Header, BadHeader> {
        let id = check_header(bytes, MAGIC, FORMAT)?;
        Ok(Header { id, after: u64_at(bytes, 32) })
    }
}

/// The store's ID in the newest snapshot, or else in the first segment. None if neither has one;
/// damage is reported when they are read.
pub fn stored_id(storage: &dyn Storage) -> Option<Id> {
    let snapshot = Snapshot::newest(storage).ok().flatten();
    snapshot.map(|snapshot| snapshot.id()).or_else(|| first_id(storage))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Removes unfinished snapshots. Returns their number.
pub fn clean(storage: &dyn Storage) -> io::Result<usize> {
    let files = storage.list()?.into_iter();
    let left: Vec<String> =
        files.filter(|name| names::unfinished_snapshot_after(name).is_some()).collect();
    left.iter().try_for_each(|name| storage.remove(name))?;
    Ok(left.len())
}

/// Removes everything that the snapshot of this number replaces: older snapshots, and segments that
/// hold only records up to this number. The snapshot must be complete and on the disk. Returns the
/// number of files.
pub fn prune(storage: &dyn Storage, after: Lsn) -> io::Result<usize> {
    let files = storage.list()?.into_iter();
    let is_older = |name: &String| names::snapshot_after(name).is_some_and(|number| number < after);
    let old: Vec<String> = files.filter(is_older).collect();
    old.iter().try_for_each(|name| storage.remove(name))?;
    Ok(old.len() + remove_before(storage, after.saturating_add(1))?)
}

/// The reason that a snapshot could not be read.
#[derive(Debug)]
pub enum SnapshotError {
    /// A file cannot be read.
    Io {
        /// The file, or the directory.
        name: String,
        /// The system's error.
        error: io::Error,
    },
    /// The file is damaged.
    Damaged {
        /// The directory.
        location: String,
        /// The file.
        name: String,
        /// The byte offset.
        at: u64,
        /// The kind of damage.
        fault: &'static str,
    },
    /// The file has a later version of the format.
    Format {
        /// The file.
        name: String,
        /// Its version.
        format: u32,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io { name, error } => write!(f, "{name}: {error}"),
            SnapshotError::Damaged { location, name, at, fault } => {
                write!(
                    f,
                    "{location}/{name} is damaged at byte {at}: {fault}. {}",
                    repair_hint(location)
                )
            }
            SnapshotError::Format { name, format } => write!(
                f,
                "{name} has format {format}: it was written by a later version of hotring and needs that version"
            ),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SnapshotError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
