//! Reads the stream from the segments, in pieces of a limited length: for replicas that need older records than the
//! backlog has.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::names;
use crate::record::{Head, Lsn, front};
use crate::segment::{self, HEADER_LEN, Header};
use crate::storage::{File, Storage, read_all_at};

/// Longest piece.
pub const PIECE_LEN: usize = 256 << 10;

/// Why records cannot be read from the segments.
#[derive(Debug)]
pub enum TailError {
    /// Their segment is gone: a snapshot has taken its place.
    Gone,
    /// A file cannot be read.
    Io(io::Error),
    /// This record is damaged, or not where it belongs.
    Damaged(Lsn),
}

impl fmt::Display for TailError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TailError::Gone => f.write_str("the next records are no longer in the log"),
            TailError::Io(error) => write!(f, "the log cannot be read: {error}"),
            TailError::Damaged(lsn) => write!(f, "record {lsn} is damaged in the log"),
        }
    }
}

impl std::error::Error for TailError {}

impl From<io::Error> for TailError {
    fn from(error: io::Error) -> TailError {
        match error.kind() {
            io::ErrorKind::NotFound => TailError::Gone,
            _ => TailError::Io(error),
        }
    }
}

/// A place in the segments.
pub struct Tail {
    storage: Arc<dyn Storage>,
    file: Arc<dyn File>,
    /// The offset of what is read next.
    at: u64,
    /// Records up to this one are passed over.
    after: Lsn,
    /// The last record that was read to its end.
    last: Lsn,
    record: Option<Record>,
}

/// A record of which a part was read.
struct Record {
    len: usize,
    read: usize,
    crc: u32,
    expected: u32,
}

impl Record {
    /// Bytes that the checksum does not cover: the length, and the checksum itself.
    const UNCOVERED: usize = 8;

    /// Takes as many of these bytes as belong to the record; returns their number.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.len - self.read);
        let uncovered = Self::UNCOVERED.saturating_sub(self.read).min(taken);
        self.crc = crc32c::crc32c_append(self.crc, &bytes[uncovered..taken]);
        self.read += taken;
        taken
    }
}

impl Tail {
    /// The place behind this record.
    ///
    /// # Errors
    /// The next record is in no segment, or its segment cannot be read.
    pub fn behind(storage: Arc<dyn Storage>, after: Lsn) -> Result<Tail, TailError> {
        let segments = segment::list(&*storage)?;
        let found = segments.iter().rfind(|(first, _)| *first <= after + 1);
        let (first, _) = found.ok_or(TailError::Gone)?;
        let (last, file) = (first - 1, open(&*storage, *first)?);
        Ok(Tail { storage, file, at: HEADER_LEN, after, last, record: None })
    }

    /// The last record that was read to its end, or passed over.
    pub fn last(&self) -> Lsn {
        self.last.max(self.after)
    }

    /// Whether a part of the next record was read.
    pub fn is_within(&self) -> bool {
        self.record.is_some()
    }

    /// Reads on, up to this record, which must be written. Returns at most [`PIECE_LEN`] bytes, perhaps none although
    /// there are more; a record need not end with them.
    ///
    /// # Errors
    /// The tail is of no use afterwards.
    pub fn read(&mut self, upto: Lsn) -> Result<Vec<u8>, TailError> {
        let bytes = self.piece()?;
        let (mut from, mut wanted) = (0, Vec::with_capacity(bytes.len()));
        while from < bytes.len() && (self.is_within() || self.last < upto) {
            if self.record.is_none() {
                match front(&bytes[from..]) {
                    Ok(Some(head)) if head.is_durable => {
                        from += head.len;
                        continue;
                    }
                    Ok(Some(Head { lsn, len, crc, .. })) if lsn == self.last + 1 => {
                        self.record = Some(Record { len, read: 0, crc: 0, expected: crc });
                    }
                    Ok(Some(_)) => return Err(TailError::Damaged(self.last + 1)),
                    // The rest of the head comes with the next piece, or the segment ends here: space that was
                    // allocated in advance follows.
                    Ok(None) | Err(_) => break,
                }
            }
            let taken = self.take(&bytes[from..], &mut wanted)?;
            from += taken;
        }
        self.at += from as u64;
        if from == 0 && self.is_within() {
            return Err(TailError::Damaged(self.last + 1));
        }
        if from == 0 && self.last < upto {
            (self.file, self.at) = (open(&*self.storage, self.last + 1)?, HEADER_LEN);
        }
        Ok(wanted)
    }

    /// Takes bytes of the present record; returns their number.
    fn take(&mut self, bytes: &[u8], wanted: &mut Vec<u8>) -> Result<usize, TailError> {
        let record = self.record.as_mut().expect("it was begun");
        let taken = record.take(bytes);
        if self.last >= self.after {
            wanted.extend_from_slice(&bytes[..taken]);
        }
        if record.read == record.len {
            if record.crc != record.expected {
                return Err(TailError::Damaged(self.last + 1));
            }
            (self.record, self.last) = (None, self.last + 1);
        }
        Ok(taken)
    }

    /// The next bytes of the file; none at its end.
    fn piece(&self) -> io::Result<Vec<u8>> {
        let (mut bytes, mut len) = (vec![0; PIECE_LEN], 0);
        while len < bytes.len() {
            match self.file.read_at(&mut bytes[len..], self.at + len as u64) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

/// Opens the segment that begins with this record.
fn open(storage: &dyn Storage, first: Lsn) -> Result<Arc<dyn File>, TailError> {
    let file = storage.open(&names::segment(first))?;
    let mut bytes = [0; HEADER_LEN as usize];
    read_all_at(&*file, &mut bytes, 0)?;
    match Header::read(&bytes) {
        Ok(header) if header.first == first => Ok(file),
        _ => Err(TailError::Damaged(first)),
    }
}
