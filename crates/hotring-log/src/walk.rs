//! Reads the records of segments, batch by batch, through a window on the file, and finds where and
//! why a segment ends. `recover.rs` decides what that means for the log.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::record::{Bad, Effect, Found, HEAD_LEN, Lsn, checksum, highest_durable, read};
use crate::segment::{BadHeader, HEADER_LEN, Header, mark};
use crate::storage::{File, Storage};

/// Bytes read at once.
const PIECE: u64 = 1 << 20;

/// The kind of damage found in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The header of the segment cannot be read.
    Header,
    /// The segment does not follow the previous one.
    Chain,
    /// A record has another number than the expected one.
    Number {
        /// Its number.
        found: Lsn,
    },
    /// The log ends within a record or a batch.
    Cut,
    /// A checksum is wrong.
    Checksum,
    /// Zeros with data behind them.
    Hole,
    /// The segment is missing.
    Missing,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Header => f.write_str("the header cannot be read"),
            Damage::Chain => f.write_str("it does not follow the segment before"),
            Damage::Number { found } => write!(f, "record {found} is where another is expected"),
            Damage::Cut => f.write_str("it ends within a record or a batch"),
            Damage::Checksum => f.write_str("a checksum is wrong"),
            Damage::Missing => f.write_str("the segment is missing"),
            Damage::Hole => f.write_str("there are zeros where a record is expected"),
        }
    }
}

/// A place where the log cannot be read any further.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    /// The index of the segment.
    pub(crate) index: usize,
    /// The byte offset in the segment.
    pub(crate) at: u64,
    pub(crate) damage: Damage,
    /// The first record that is incomplete or in an incomplete batch.
    pub(crate) lost: Lsn,
}

/// The readable part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The segment's name.
    pub name: String,
    /// The number of the first record, according to the name.
    pub first: Lsn,
    /// Records in complete batches.
    pub records: u64,
    /// The offset at which the last complete batch ends.
    pub end: u64,
    /// The length of the file.
    pub len: u64,
}

/// Why a segment cannot be read at all.
pub(crate) enum Refused {
    Io(io::Error),
    Format(u32),
    /// A record at this place is of a kind that this version does not know.
    Unknown(u64),
    /// The receiver of the records stopped.
    Stopped,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::Io(error)
    }
}

/// A sliding window on a file: the part that is in memory.
pub(crate) struct Window {
    file: Arc<dyn File>,
    len: u64,
    buffer: Vec<u8>,
    /// The offset of the buffer in the file.
    from: u64,
}

impl Window {
    pub(crate) fn open(storage: &dyn Storage, name: &str) -> io::Result<Window> {
        let file = storage.open(name)?;
        let len = file.size()?;
        Ok(Window { file, len, buffer: Vec::new(), from: 0 })
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The bytes from `at` on, at least `needed` if the file has them. Bytes before `keep` are
    /// dropped.
    fn bytes(&mut self, keep: u64, at: u64, needed: u64) -> io::Result<&[u8]> {
        let have = self.from + self.buffer.len() as u64;
        let wanted = self.len.min(at.saturating_add(needed));
        if have < wanted {
            self.buffer.drain(..(keep - self.from) as usize);
            self.from = keep;
            self.fill(have, self.len.min(wanted.max(have + PIECE)))?;
        }
        Ok(self.buffer.get((at - self.from) as usize..).unwrap_or_default())
    }

    /// Reads the file from `have` to `end` in pieces, so that the buffer never grows beyond the
    /// data read.
    fn fill(&mut self, mut have: u64, end: u64) -> io::Result<()> {
        while have < end {
            let old = self.buffer.len();
            self.buffer.resize(old + PIECE.min(end - have) as usize, 0);
            let read = match self.file.read_at(&mut self.buffer[old..], have) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
            };
            self.buffer.truncate(old + read);
            have += read as u64;
        }
        Ok(())
    }

    /// The header; None if it is damaged.
    pub(crate) fn header(&mut self) -> Result<Option<Header>, Refused> {
        match Header::read(self.bytes(0, 0, HEADER_LEN)?) {
            Ok(header) => Ok(Some(header)),
            Err(BadHeader::Damaged) => Ok(None),
            Err(BadHeader::Format(format)) => Err(Refused::Format(format)),
        }
    }

    /// Searches the file from `at` on: the highest number in a durable record, and where the last
    /// non-zero byte ends.
    pub(crate) fn remains(&mut self, at: u64, mark: Option<u64>) -> io::Result<(Lsn, u64)> {
        // A durable record that spans two pieces begins less than this far from the end of the
        // first.
        const OVERLAP: u64 = 64;
        let (mut claim, mut end) = (0, at);
        let (mut file_at, file_end) = (at, self.len);
        self.buffer.clear();
        self.from = at;
        while file_at < file_end {
            // Preallocated space is skipped: a segment is mostly that.
            let data = self.file.data_from(file_at)?.min(file_end);
            if data > file_at {
                self.buffer.clear();
                (self.from, file_at) = (data, data);
                continue;
            }
            let bytes = self.bytes(file_at, file_at, PIECE)?;
            if !is_zero(bytes) {
                claim = claim.max(highest_durable(bytes, mark).unwrap_or(0));
                if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                    end = file_at + last as u64 + 1;
                }
            }
            let len = bytes.len() as u64;
            file_at += if file_at + len < file_end { len - OVERLAP } else { len };
        }
        Ok((claim, end))
    }
}

/// Whether all bytes are zero.
fn is_zero(bytes: &[u8]) -> bool {
    // Parts without an early exit are compared with vector instructions.
    bytes.chunks(4096).all(|part| part.iter().fold(0, |any, byte| any | byte) == 0)
}

/// Receiver of records: the number of the last record, and all effects of its batch.
pub type Apply<'a> = dyn FnMut(Lsn, &[Effect<'_>]) + 'a;

/// Like [`Apply`], but the receiver can stop the walk.
pub type Take<'a> = dyn FnMut(Lsn, &[Effect<'_>]) -> ControlFlow<()> + 'a;

/// Reads the records of a segment.
pub(crate) struct Reading<'a, 'b> {
    pub(crate) window: Window,
    pub(crate) header: Header,
    /// Batches before this record are not handed over.
    pub(crate) from: Lsn,
    pub(crate) apply: &'a mut Take<'b>,
    /// The next record.
    pub(crate) next: Lsn,
    /// The checksum of the last record in a complete batch.
    pub(crate) chain: u32,
    /// The last record that is known to have been synced.
    pub(crate) claim: Lsn,
    /// Records in complete batches, and where the last of them ends.
    pub(crate) records: u64,
    pub(crate) end: u64,
    /// Bytes of batches that were not handed over.
    pub(crate) skipped: u64,
    /// The offsets of the records of the incomplete batch.
    pub(crate) batch: Vec<u64>,
}

impl Reading<'_, '_> {
    /// Reads to the end; if reading stops earlier, returns the offset and the damage.
    pub(crate) fn run(&mut self) -> Result<Option<(u64, Damage)>, Refused> {
        let (mut at, mut needed) = (HEADER_LEN, HEAD_LEN as u64 + 1);
        loop {
            let bytes = self.window.bytes(self.end, at, needed)?;
            let bad = match read(bytes) {
                Ok(found) => {
                    let (len, crc) = (found.len as u64, checksum(bytes));
                    let seen = Seen::of(&found);
                    match self.take(at, len, crc, seen) {
                        Ok(ControlFlow::Continue(())) => {}
                        Ok(ControlFlow::Break(())) => return Err(Refused::Stopped),
                        Err(damage) => return Ok(Some((at, damage))),
                    }
                    (at, needed) = (at + len, HEAD_LEN as u64 + 1);
                    continue;
                }
                Err(bad) => bad,
            };
            let left = self.window.len - at;
            match bad {
                Bad::Short { needed: more } if more as u64 <= left => needed = more as u64,
                Bad::Unknown => return Err(Refused::Unknown(at)),
                _ => return Ok(self.stopped(at, bad)?.map(|damage| (at, damage))),
            }
        }
    }

    /// Interprets the absence of a record at `at`: the end, or damage.
    fn stopped(&mut self, at: u64, bad: Bad) -> Result<Option<Damage>, Refused> {
        let is_whole = self.batch.is_empty();
        Ok(match bad {
            Bad::Zero if self.window.remains(at, None)?.1 > at => Some(Damage::Hole),
            Bad::Zero => (!is_whole).then_some(Damage::Cut),
            Bad::Short { .. } if at == self.window.len => (!is_whole).then_some(Damage::Cut),
            Bad::Short { .. } => Some(Damage::Cut),
            Bad::Checksum | Bad::Unknown => Some(Damage::Checksum),
        })
    }

    /// Processes the record at `at`.
    fn take(&mut self, at: u64, len: u64, crc: u32, seen: Seen) -> Result<ControlFlow<()>, Damage> {
        const GOES_ON: ControlFlow<()> = ControlFlow::Continue(());
        if let Some(upto) = seen.durable {
            // Never within a batch.
            if !self.batch.is_empty() || seen.more || seen.lsn != mark(&self.header.id) {
                return Err(Damage::Number { found: seen.lsn });
            }
            self.claim = self.claim.max(upto);
            self.end = at + len;
            return Ok(GOES_ON);
        }
        if seen.lsn != self.next {
            return Err(Damage::Number { found: seen.lsn });
        }
        self.next += 1;
        self.batch.push(at);
        if seen.more {
            return Ok(GOES_ON);
        }
        let flow = if self.next > self.from {
            self.hand_over()
        } else {
            self.skipped = at + len - HEADER_LEN;
            GOES_ON
        };
        self.records += self.batch.len() as u64;
        (self.end, self.chain) = (at + len, crc);
        self.batch.clear();
        Ok(flow)
    }

    /// Hands over the complete batch in the buffer.
    fn hand_over(&mut self) -> ControlFlow<()> {
        let Window { buffer, from, .. } = &self.window;
        let at = |position: u64| {
            read(&buffer[(position - from) as usize..]).expect("it was read before")
        };
        match *self.batch {
            [one] => (self.apply)(self.next - 1, &[at(one).effect]),
            ref batch => {
                let effects: Vec<Effect<'_>> = batch.iter().map(|one| at(*one).effect).collect();
                (self.apply)(self.next - 1, &effects)
            }
        }
    }

    /// The first record that has not been handed over.
    pub(crate) fn lost(&self) -> Lsn {
        self.next - self.batch.len() as u64
    }
}

/// A copy of the parts of a record other than its effect, which does not borrow the window.
struct Seen {
    lsn: Lsn,
    more: bool,
    durable: Option<Lsn>,
}

impl Seen {
    fn of(found: &Found<'_>) -> Seen {
        let durable = match found.effect {
            Effect::Durable { upto } => Some(upto),
            _ => None,
        };
        Seen { lsn: found.lsn, more: found.more, durable }
    }
}
