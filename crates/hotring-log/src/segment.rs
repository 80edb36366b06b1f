//! Segments: the files that hold the records, one after the other.
//!
//! ```text
//!  log-<number of the first record, 20 digits>.hrl
//!
//!  magic 8 | format u32 | zero u32 | store's id 16 | first record u64 | synced u64 | chain u32 | zero 8 | CRC-32C u32
//!  records ...
//!  zeros up to the length that was preallocated
//! ```
//! `synced`: all records up to this one were synced when the segment was begun. `chain`: the checksum of the record
//! before the first; a segment must follow exactly that record. In every version of the format, the last four of the
//! header's 64 bytes are the checksum of the other 60, so that damage is distinguishable from a later version.

use std::io;
use std::sync::Arc;

use crate::names;
use crate::record::Lsn;
use crate::storage::{File, Storage, read_all_at};

/// The id that tells one store's log from another's: random bytes, which clients must not learn.
pub type Id = [u8; 16];

pub(crate) const HEADER_LEN: u64 = 64;

const MAGIC: &[u8; 8] = b"hotr-log";

/// The version that is written; readers accept it and all earlier versions. Version 2 added databases and changes of
/// parts of values.
const FORMAT: u32 = 2;

/// The mark of the store's durable records.
pub(crate) fn mark(id: &Id) -> u64 {
    u64::from_le_bytes(*id.first_chunk().expect("16 bytes"))
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: Id,
    pub(crate) first: Lsn,
    pub(crate) synced: Lsn,
    pub(crate) chain: u32,
}

/// Why a header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Damaged,
    /// The file has a later version of the format.
    Format(u32),
}

/// Checks the magic, the checksum and the format of a header, and returns the store's ID. All files of the log share
/// this part of the header. `newest` is the newest format that can be read.
pub(crate) fn check_header(
    bytes: &[u8; HEADER_LEN as usize],
    magic: &[u8; 8],
    newest: u32,
) -> Result<Id, BadHeader> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    if bytes[..8] != *magic || crc32c::crc32c(&bytes[..60]) != word(60) {
        return Err(BadHeader::Damaged);
    }
    let format = word(8);
    if !(1..=newest).contains(&format) {
        return Err(BadHeader::Format(format));
    }
    Ok(bytes[16..32].try_into().expect("16 bytes"))
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN as usize] {
        let mut bytes = [0; HEADER_LEN as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id);
        bytes[32..40].copy_from_slice(&self.first.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.synced.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.chain.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Header, BadHeader> {
        let bytes: &[u8; HEADER_LEN as usize] = bytes.first_chunk().ok_or(BadHeader::Damaged)?;
        let long =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let id = check_header(bytes, MAGIC, FORMAT)?;
        let chain = u32::from_le_bytes(bytes[48..52].try_into().expect("four bytes"));
        Ok(Header { id, first: long(32), synced: long(40), chain })
    }
}

/// The store's id in the first segment, if readable.
pub(crate) fn first_id(storage: &dyn Storage) -> Option<Id> {
    let (_, name) = list(storage).ok()?.into_iter().next()?;
    let mut bytes = [0; HEADER_LEN as usize];
    read_all_at(&*storage.open(&name).ok()?, &mut bytes, 0).ok()?;
    Some(Header::read(&bytes).ok()?.id)
}

/// The segments of a directory in order: the first record according to the name, and the name.
pub(crate) fn list(storage: &dyn Storage) -> io::Result<Vec<(Lsn, String)>> {
    let names = storage.list()?.into_iter();
    let mut found: Vec<_> =
        names.filter_map(|name| Some((names::segment_first(&name)?, name))).collect();
    found.sort_unstable();
    Ok(found)
}

/// The first record of the first segment, according to its name. None if there is no segment.
pub fn first_record(storage: &dyn Storage) -> io::Result<Option<Lsn>> {
    Ok(list(storage)?.first().map(|(first, _)| *first))
}

/// Removes the segments that hold only records before `first`, for instance because a snapshot
/// covers them. Returns their number.
pub fn remove_before(storage: &dyn Storage, first: Lsn) -> io::Result<usize> {
    let segments = list(storage)?;
    // From the first one on, so that an interruption leaves no gap.
    let gone = segments.iter().zip(segments.iter().skip(1)).take_while(|(_, next)| next.0 <= first);
    let mut count = 0;
    for ((_, name), _) in gone {
        storage.remove(name)?;
        count += 1;
    }
    Ok(count)
}

/// The segment that is being written.
pub(crate) struct Segment {
    pub(crate) file: Arc<dyn File>,
    /// The offset at which the last record ends.
    len: u64,
}

impl Segment {
    /// Begins a segment. If that fails, removes the incomplete file; if the removal fails too, the
    /// next attempt, with `is_again`, removes it.
    pub(crate) fn create(
        storage: &dyn Storage,
        header: Header,
        space: u64,
        is_again: bool,
    ) -> io::Result<Segment> {
        let name = names::segment(header.first);
        let file = match storage.create(&name) {
            Err(error) if is_again && error.kind() == io::ErrorKind::AlreadyExists => {
                storage.remove(&name)?;
                storage.create(&name)?
            }
            created => created?,
        };
        let begun = file.preallocate(space).and_then(|()| file.write_all_at(&header.to_bytes(), 0));
        if let Err(error) = begun {
            let _ = storage.remove(&name);
            return Err(error);
        }
        Ok(Segment { file, len: HEADER_LEN })
    }

    /// Whether `more` bytes belong in the next segment. A segment has at least one record, however
    /// long.
    pub(crate) fn is_full(&self, more: u64, max: u64) -> bool {
        self.len > HEADER_LEN && self.len + more > max
    }

    /// Writes behind the last record. After a failure, [`end`](Self::end) restores the previous
    /// state.
    pub(crate) fn write<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> io::Result<()> {
        let mut at = self.len;
        for piece in pieces {
            self.file.write_all_at(piece, at)?;
            at += piece.len() as u64;
        }
        self.len = at;
        Ok(())
    }

    /// Truncates the file behind the last record.
    pub(crate) fn end(&self) -> io::Result<()> {
        self.file.set_len(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_written_and_not_otherwise() {
        let header = Header { id: [7; 16], first: 41, synced: 39, chain: 0x1234_5678 };
        let bytes = header.to_bytes();
        assert_eq!(Header::read(&bytes), Ok(header));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::read(&changed), Err(BadHeader::Damaged), "bit {bit}");
        }
        for format in [0, FORMAT + 1] {
            let mut later = bytes;
            later[8..12].copy_from_slice(&format.to_le_bytes());
            let crc = crc32c::crc32c(&later[..60]);
            later[60..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Header::read(&later), Err(BadHeader::Format(format)));
        }
    }

    #[test]
    fn names_tell_the_order() {
        assert_eq!(names::segment(17), "log-00000000000000000017.hrl");
        for first in [1, 17, u64::MAX] {
            assert_eq!(names::segment_first(&names::segment(first)), Some(first));
        }
        for other in
            ["log-17.hrl", "log-0000000000000000001x.hrl", "lock", "log-99999999999999999999.hrl"]
        {
            assert_eq!(names::segment_first(other), None, "{other}");
        }
    }
}
