//! Encodes log records; `record/read.rs` decodes them. No other file knows the format.
//!
//! ```text
//!  length u32 | CRC-32C u32 | sequence number u64 | body, of that length
//!
//!  body:  type u8, 0x80 added if the next record belongs to the same batch
//!         put:     form u8 | key length, LEB128 | expiry u64, if the type says so | key | value
//!         remove:  key
//!         expire:  expiry u64, 0 for none | key
//!         clear:   nothing
//!         pin:     key
//!         unpin:   key
//!         change:  key length, LEB128 | number of the change, LEB128 | key | change
//!         database: number u8: the database of the records behind it, to the end of their batch or block; 0 at first
//!         epochs:  the store and the epochs of its stream
//!         order:   number u8 of the database that each number stands for from here on, for all 256
//!         durable: sequence number u64: all records up to this one were synced when this was written
//! ```
//! Integers are little-endian. The checksum covers the sequence number and the body. A length is never 0, so zeros are
//! never taken for a record. The store defines the form of a value and the content of a change; the log does not
//! interpret them.
//!
//! A durable record belongs to the log itself and has no sequence number. In its place it carries the store's mark,
//! which distinguishes it from bytes in a value that look like a durable record.
//!
//! The records of a batch are consecutive and take effect together; the last record of a batch is the one without
//! 0x80.

mod chunk;
mod read;
mod run;
mod selection;

use std::fmt;
use std::sync::Arc;

pub use chunk::Chunk;
pub use read::{Bad, Found, Head, head, read};
pub(crate) use read::{checksum, front, highest_durable, read_body};
pub use run::{Batch, NoRun, Run, batch_at, effect_at};
pub use selection::{BadStream, Selection, selected_batches};

/// A record's number. The first record ever has 1.
pub type Lsn = u64;

/// Length of a record's head.
pub(crate) const HEAD_LEN: usize = 16;

const PUT: u8 = 1;
const PUT_EXPIRING: u8 = 2;
const REMOVE: u8 = 3;
const CLEAR: u8 = 4;
const PIN: u8 = 5;
const UNPIN: u8 = 6;
const DURABLE: u8 = 7;
const EXPIRE: u8 = 8;
const CHANGE: u8 = 9;
const DATABASE: u8 = 10;
const ORDER: u8 = 11;
const EPOCHS: u8 = 12;
/// The next record belongs to the same batch.
const MORE: u8 = 0x80;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// The key gets this value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The store's code for the representation of the value.
        form: u8,
        /// Expiry time in Unix milliseconds.
        expire_at: Option<u64>,
        /// The value, in the store's representation.
        value: &'a [u8],
    },
    /// The key is removed.
    Remove {
        /// The key.
        key: &'a [u8],
    },
    /// The key, if it exists, gets another expiry time and keeps its value.
    Expire {
        /// The key.
        key: &'a [u8],
        /// Expiry time in Unix milliseconds; never 0.
        expire_at: Option<u64>,
    },
    /// The key's value changes in part.
    Change {
        /// The key.
        key: &'a [u8],
        /// The number of changes to this value up to and including this one, as the store counts them. A value newer
        /// than the record already includes the change.
        number: u64,
        /// The change, in the store's representation.
        change: &'a [u8],
    },
    /// All keys and pins of the database are removed.
    Clear,
    /// Selects the database of the effects that follow, to the end of the batch or block. Each batch and block begins
    /// with database 0.
    Database {
        /// The store's own number, which can differ from the number that clients use; see
        /// [`Effect::Order`].
        number: u8,
    },
    /// Maps the database numbers of clients to those of the store, from this record on.
    Order {
        /// The store's database for each client number.
        order: &'a [u8; 256],
    },
    /// The epochs of the stream up to this record, for replicas. Without meaning for the store.
    Epochs {
        /// The store and its epochs, as the servers encode them.
        history: &'a [u8],
    },
    /// The key must not be evicted.
    Pin {
        /// The key.
        key: &'a [u8],
    },
    /// The key may be evicted again.
    Unpin {
        /// The key.
        key: &'a [u8],
    },
    /// Written by the log: all records up to this one were synced when this record was written.
    Durable {
        /// The last of these records.
        upto: Lsn,
    },
}

impl<'a> Effect<'a> {
    /// The key that it changes, if it is of one key.
    pub fn key(&self) -> Option<&'a [u8]> {
        match *self {
            Effect::Put { key, .. }
            | Effect::Remove { key }
            | Effect::Expire { key, .. }
            | Effect::Change { key, .. }
            | Effect::Pin { key }
            | Effect::Unpin { key } => Some(key),
            Effect::Clear
            | Effect::Database { .. }
            | Effect::Order { .. }
            | Effect::Epochs { .. }
            | Effect::Durable { .. } => None,
        }
    }
}

/// A long, shared value that is not copied into the records.
pub type Attached = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Records that have no numbers yet: the effect of one write, or of several that take effect
/// together.
#[derive(Default)]
pub struct Records {
    bytes: Vec<u8>,
    /// Values and their positions in `bytes`, each at the end of a record.
    attached: Vec<(usize, Attached)>,
    attached_len: usize,
    count: u64,
    /// The offset of the last record.
    last: usize,
}

/// A state of [`Records`] that can be restored.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    len: usize,
    attached: usize,
    attached_len: usize,
    count: u64,
    last: usize,
}

impl Records {
    /// Makes an empty list of records.
    pub fn new() -> Records {
        Records::default()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of records.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes that the records will take in the log.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.attached_len
    }

    /// The present state.
    pub fn mark(&self) -> Mark {
        let Records { bytes, attached, attached_len, count, last } = self;
        let (len, attached) = (bytes.len(), attached.len());
        Mark { len, attached, attached_len: *attached_len, count: *count, last: *last }
    }

    /// Drops everything added since the mark.
    pub fn roll_back(&mut self, mark: Mark) {
        self.bytes.truncate(mark.len);
        self.attached.truncate(mark.attached);
        (self.attached_len, self.count, self.last) = (mark.attached_len, mark.count, mark.last);
        if self.count > 0 {
            self.bytes[self.last + HEAD_LEN] &= !MORE;
        }
    }

    /// Drops everything; a large buffer is freed.
    pub fn reset(&mut self) {
        const KEPT_MAX: usize = 64 << 10;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_MAX);
        self.attached.clear();
        (self.attached_len, self.count, self.last) = (0, 0, 0);
    }

    /// The body of the only record.
    pub(crate) fn body(&self) -> &[u8] {
        debug_assert!(self.count == 1 && self.attached.is_empty());
        &self.bytes[HEAD_LEN..]
    }

    /// Adds an effect, which takes effect together with those already there.
    ///
    /// # Panics
    ///
    /// Key and value together are 4 GiB or more.
    pub fn push(&mut self, effect: &Effect<'_>) {
        match *effect {
            Effect::Put { key, form, expire_at, value } => {
                self.begin_put(key, form, expire_at, value.len());
                self.bytes.extend_from_slice(value);
            }
            Effect::Remove { key } => self.plain(REMOVE, &[], key),
            Effect::Expire { key, expire_at } => {
                self.plain(EXPIRE, &expire_at.unwrap_or(0).to_le_bytes(), key);
            }
            Effect::Change { key, number, change } => {
                let (mut key_len, mut digits) = ([0; 10], [0; 10]);
                let key_len = leb128(key.len() as u64, &mut key_len);
                let digits = leb128(number, &mut digits);
                let lens = key_len.len() + digits.len();
                self.begin(CHANGE, 1 + lens + key.len() + change.len());
                for part in [key_len, digits, key, change] {
                    self.bytes.extend_from_slice(part);
                }
            }
            Effect::Clear => self.plain(CLEAR, &[], &[]),
            Effect::Database { number } => self.plain(DATABASE, &[number], &[]),
            Effect::Order { order } => self.plain(ORDER, order, &[]),
            Effect::Epochs { history } => self.plain(EPOCHS, history, &[]),
            Effect::Pin { key } => self.plain(PIN, &[], key),
            Effect::Unpin { key } => self.plain(UNPIN, &[], key),
            Effect::Durable { upto } => self.plain(DURABLE, &upto.to_le_bytes(), &[]),
        }
    }

    /// Adds a put of a value that is not copied.
    ///
    /// # Panics
    ///
    /// As [`push`](Self::push).
    pub fn push_attached(&mut self, key: &[u8], form: u8, expire_at: Option<u64>, value: Attached) {
        let len = (*value).as_ref().len();
        self.begin_put(key, form, expire_at, len);
        self.attached.push((self.bytes.len(), value));
        self.attached_len += len;
    }

    fn begin_put(&mut self, key: &[u8], form: u8, expire_at: Option<u64>, value_len: usize) {
        let mut key_len = [0; 10];
        let key_len = leb128(key.len() as u64, &mut key_len);
        let expiry_len = if expire_at.is_some() { 8 } else { 0 };
        let body_len = 2 + key_len.len() + expiry_len + key.len() + value_len;
        self.begin(if expire_at.is_some() { PUT_EXPIRING } else { PUT }, body_len);
        self.bytes.push(form);
        self.bytes.extend_from_slice(key_len);
        if let Some(at) = expire_at {
            self.bytes.extend_from_slice(&at.to_le_bytes());
        }
        self.bytes.extend_from_slice(key);
    }

    fn plain(&mut self, kind: u8, number: &[u8], key: &[u8]) {
        self.begin(kind, 1 + number.len() + key.len());
        self.bytes.extend_from_slice(number);
        self.bytes.extend_from_slice(key);
    }

    fn begin(&mut self, kind: u8, body_len: usize) {
        if self.count > 0 {
            self.bytes[self.last + HEAD_LEN] |= MORE;
        }
        let body_len = u32::try_from(body_len).expect("the store keeps key and value below 4 GiB");
        self.last = self.bytes.len();
        self.count += 1;
        let mut head = [0; HEAD_LEN + 1];
        head[..4].copy_from_slice(&body_len.to_le_bytes());
        head[HEAD_LEN] = kind;
        self.bytes.extend_from_slice(&head);
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("count", &self.count).field("len", &self.len()).finish()
    }
}

/// Bytes of a durable record.
const DURABLE_LEN: usize = HEAD_LEN + 1 + 8;

/// Records of several sessions in the order of appending; they get their numbers here. There is
/// space for a durable record before the first.
pub(crate) struct Group {
    bytes: Vec<u8>,
    attached: Vec<(usize, Attached)>,
    attached_len: usize,
    count: u64,
    /// The offset of the first byte to write.
    start: usize,
}

impl Default for Group {
    fn default() -> Group {
        let bytes = vec![0; DURABLE_LEN];
        Group { bytes, attached: Vec::new(), attached_len: 0, count: 0, start: DURABLE_LEN }
    }
}

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes that the records will take in the log.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - DURABLE_LEN + self.attached_len
    }

    /// Appends the records and empties them.
    pub(crate) fn append(&mut self, records: &mut Records) {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&records.bytes);
        self.attached.extend(records.attached.drain(..).map(|(at, value)| (base + at, value)));
        self.attached_len += records.attached_len;
        self.count += records.count;
        records.reset();
    }

    /// Drops everything; a large buffer is freed.
    pub(crate) fn reset(&mut self, kept_max: usize) {
        self.bytes.truncate(DURABLE_LEN);
        self.bytes.shrink_to(kept_max);
        self.attached.clear();
        (self.attached_len, self.count) = (0, 0);
    }

    /// Numbers the records from `first` on, after an optional durable record (number and the
    /// store's mark). Returns the checksum of the last record. May be repeated.
    pub(crate) fn seal(&mut self, first: Lsn, durable: Option<(Lsn, u64)>) -> Option<u32> {
        self.start = DURABLE_LEN;
        if let Some((upto, mark)) = durable {
            self.start = 0;
            self.bytes[..4].copy_from_slice(&((DURABLE_LEN - HEAD_LEN) as u32).to_le_bytes());
            self.bytes[HEAD_LEN] = DURABLE;
            self.bytes[HEAD_LEN + 1..DURABLE_LEN].copy_from_slice(&upto.to_le_bytes());
            number(&mut self.bytes[..DURABLE_LEN], 0, &[], mark);
        }
        number(&mut self.bytes, DURABLE_LEN, &self.attached, first)
    }

    /// The bytes to write, in pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.attached.iter().map(|(at, value)| (*at, Some((**value).as_ref())));
        let mut from = self.start;
        let pieces = ends.chain([(self.bytes.len(), None)]).flat_map(move |(end, value)| {
            let inline = &self.bytes[from..end];
            from = end;
            [inline].into_iter().chain(value)
        });
        pieces.filter(|piece| !piece.is_empty())
    }
}

/// Gives each record from `at` on its number and checksum; returns the last checksum.
fn number(
    bytes: &mut [u8],
    mut at: usize,
    attached: &[(usize, Attached)],
    first: Lsn,
) -> Option<u32> {
    let (mut lsn, mut attached, mut last) = (first, attached.iter().peekable(), None);
    while at < bytes.len() {
        let len = u32::from_le_bytes(word(&bytes[at..])) as usize;
        bytes[at + 8..at + HEAD_LEN].copy_from_slice(&lsn.to_le_bytes());
        let end = at + HEAD_LEN + len;
        // The record's value is attached if the next attachment lies before the end of the record.
        let value = attached.next_if(|(position, _)| *position <= end);
        let inline_end = value.map_or(end, |(position, _)| *position);
        let mut crc = crc32c::crc32c(&bytes[at + 8..inline_end]);
        if let Some((_, value)) = value {
            crc = crc32c::crc32c_append(crc, (**value).as_ref());
        }
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        (at, lsn, last) = (inline_end, lsn + 1, Some(crc));
    }
    last
}

/// The first four bytes.
fn word(bytes: &[u8]) -> [u8; 4] {
    bytes[..4].try_into().expect("four bytes")
}

fn leb128(mut number: u64, buffer: &mut [u8; 10]) -> &[u8] {
    let mut len = 0;
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        buffer[len] = if number == 0 { low } else { low | 0x80 };
        len += 1;
        if number == 0 {
            return &buffer[..len];
        }
    }
}

#[cfg(test)]
mod tests;
