//! What requests and replies consist of: operations and their answers.
//!
//! ```text
//!  operation:  code u8 | key length u32 | value length u32 | number u64 | key | value
//!  answer:     status u8 | version u64 | CRC-32C u32 | value length u32 | value
//! ```

use std::marker::PhantomData;

use super::PARTS_MAX;

/// One thing to do with one key. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Gives version and value.
    Get {
        /// The key.
        key: &'a [u8],
    },
    /// Writes a value.
    Set {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// After how long the key expires; 0 for never.
        expiry_ms: u64,
    },
    /// Writes a value if the key is there, and keeps its expiry.
    Update {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Removes the key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Adds to a decimal number, 0 if the key is not there; gives the sum as decimal text.
    Increment {
        /// The key.
        key: &'a [u8],
        /// What is added.
        by: i64,
    },
    /// Writes a value if the key has this version.
    CompareAndSet {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// The version that the client has seen.
        version: u64,
    },
    /// Lets the key expire.
    Expire {
        /// The key.
        key: &'a [u8],
        /// After how long.
        after_ms: u64,
    },
    /// Waits for a change. It must be alone in its request.
    WaitForChange {
        /// The key.
        key: &'a [u8],
        /// How long at most.
        limit_ms: u64,
    },
    /// Waits for a value. It must be alone in its request.
    WaitForValue {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
        /// How long at most.
        limit_ms: u64,
    },
    /// Gives earlier values.
    History {
        /// The key.
        key: &'a [u8],
        /// How many at most.
        count: u64,
    },
    /// Writes an earlier value again.
    Rollback {
        /// The key.
        key: &'a [u8],
        /// The version of the value in the history.
        version: u64,
    },
}

impl<'a> Operation<'a> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        self.fields().1
    }

    /// Whether it may change something. Only such requests need the reply cache.
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Get { .. } | Self::History { .. }) && self.wait_ms().is_none()
    }

    /// How long it may wait, if it waits.
    pub fn wait_ms(&self) -> Option<u64> {
        match *self {
            Self::WaitForChange { limit_ms, .. } | Self::WaitForValue { limit_ms, .. } => {
                Some(limit_ms)
            }
            _ => None,
        }
    }

    /// The same, but a wait ends after this many milliseconds at the latest.
    #[must_use]
    pub fn waiting_at_most(self, longest_ms: u64) -> Self {
        match self {
            Self::WaitForChange { key, limit_ms } => {
                Self::WaitForChange { key, limit_ms: limit_ms.min(longest_ms) }
            }
            Self::WaitForValue { key, value, limit_ms } => {
                Self::WaitForValue { key, value, limit_ms: limit_ms.min(longest_ms) }
            }
            other => other,
        }
    }

    /// Code, key, value, and number.
    fn fields(&self) -> (u8, &'a [u8], &'a [u8], u64) {
        match *self {
            Self::Get { key } => (1, key, &[], 0),
            Self::Set { key, value, expiry_ms } => (2, key, value, expiry_ms),
            Self::Update { key, value } => (3, key, value, 0),
            Self::Delete { key } => (4, key, &[], 0),
            Self::Increment { key, by } => (5, key, &[], by as u64),
            Self::CompareAndSet { key, value, version } => (6, key, value, version),
            Self::Expire { key, after_ms } => (7, key, &[], after_ms),
            Self::WaitForChange { key, limit_ms } => (8, key, &[], limit_ms),
            Self::WaitForValue { key, value, limit_ms } => (9, key, value, limit_ms),
            Self::History { key, count } => (10, key, &[], count),
            Self::Rollback { key, version } => (11, key, &[], version),
        }
    }

    /// The operation of a code, as the format numbers them. None if there is none, or if it has no such field and what
    /// is given for it is not empty or 0: there is one form of each operation.
    pub fn of(code: u8, key: &'a [u8], value: &'a [u8], number: u64) -> Option<Self> {
        let made = match code {
            1 => Self::Get { key },
            2 => Self::Set { key, value, expiry_ms: number },
            3 => Self::Update { key, value },
            4 => Self::Delete { key },
            5 => Self::Increment { key, by: number as i64 },
            6 => Self::CompareAndSet { key, value, version: number },
            7 => Self::Expire { key, after_ms: number },
            8 => Self::WaitForChange { key, limit_ms: number },
            9 => Self::WaitForValue { key, value, limit_ms: number },
            10 => Self::History { key, count: number },
            11 => Self::Rollback { key, version: number },
            _ => return None,
        };
        (made.fields() == (code, key, value, number)).then_some(made)
    }
}

/// How an operation has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was done.
    Done = 0,
    /// The key is not there; nothing was done.
    Absent = 1,
    /// The key has another version, which the answer names; nothing was done.
    Conflict = 2,
    /// The wait is over without the change.
    TimedOut = 3,
    /// Nothing was done; the value is a text that says why.
    Failed = 4,
    /// It may have been done or not; the value is a text that says why.
    Unknown = 5,
}

/// The answer to an operation. Its checksum covers key, version and value, so that a client notices the item of
/// another key, and damage that came before the message was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// How it has ended.
    pub status: Status,
    /// The key's version afterwards; 0 if the key is not there.
    pub version: u64,
    /// The value, the sum, or a text.
    pub value: &'a [u8],
    crc: u32,
}

impl<'a> Answer<'a> {
    /// The answer for a key.
    pub fn new(key: &[u8], status: Status, version: u64, value: &'a [u8]) -> Self {
        Answer { status, version, value, crc: item_checksum(key, version, value) }
    }

    /// Whether the checksum is that of this key's answer.
    pub fn is_of(&self, key: &[u8]) -> bool {
        self.crc == item_checksum(key, self.version, self.value)
    }
}

/// The key is first: its length is known to both sides, so that no other key and value give the same bytes.
fn item_checksum(key: &[u8], version: u64, value: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(crc32c::crc32c(key), &version.to_le_bytes());
    crc32c::crc32c_append(crc, value)
}

/// Operations of a request in their bytes.
pub type Operations<'a> = Parts<'a, Operation<'a>>;

/// Answers of a reply in their bytes.
pub type Answers<'a> = Parts<'a, Answer<'a>>;

/// Parts in their bytes, which were read once and are right.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts<'a, T> {
    count: u16,
    bytes: &'a [u8],
    parts: PhantomData<T>,
}

impl<T> Clone for Parts<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Parts<'_, T> {}

#[allow(private_bounds)]
impl<'a, T: Part<'a>> Parts<'a, T> {
    /// Writes parts into a buffer. None if there are more than [`PARTS_MAX`], or if one is longer than a length can
    /// say.
    pub fn encode(parts: &[T], buffer: &'a mut Vec<u8>) -> Option<Self> {
        buffer.clear();
        let fits = parts.len() <= PARTS_MAX && parts.iter().all(Part::fits);
        parts.iter().filter(|_| fits).for_each(|part| part.write(buffer));
        fits.then_some(Parts { count: parts.len() as u16, bytes: buffer, parts: PhantomData })
    }

    /// Reads as many parts, which must be all of the bytes.
    pub(crate) fn read(count: u16, bytes: &'a [u8]) -> Option<Self> {
        let mut input = bytes;
        for _ in 0..count {
            T::read(&mut input)?;
        }
        let fits = usize::from(count) <= PARTS_MAX && input.is_empty();
        fits.then_some(Parts { count, bytes, parts: PhantomData })
    }

    /// The parts in order.
    pub fn iter(self) -> impl Iterator<Item = T> + Clone + 'a
    where
        T: 'a,
    {
        let mut input = self.bytes;
        (0..self.count).map(move |_| T::read(&mut input).expect("it was read before"))
    }

    /// How many there are.
    pub fn len(self) -> usize {
        usize::from(self.count)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.count == 0
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }
}

pub(super) trait Part<'a>: Sized {
    fn read(input: &mut &'a [u8]) -> Option<Self>;
    fn write(&self, out: &mut Vec<u8>);
    fn fits(&self) -> bool;
}

impl<'a> Part<'a> for Operation<'a> {
    fn read(input: &mut &'a [u8]) -> Option<Self> {
        let [code] = take(input)?;
        let mut len = || take(input).map(|bytes| u32::from_le_bytes(bytes) as usize);
        let (key_len, value_len) = (len()?, len()?);
        let number = take(input).map(u64::from_le_bytes)?;
        let (key, value) = (take_bytes(input, key_len)?, take_bytes(input, value_len)?);
        Self::of(code, key, value, number)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (code, key, value, number) = self.fields();
        out.push(code);
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    }

    fn fits(&self) -> bool {
        let (_, key, value, _) = self.fields();
        u32::try_from(key.len()).is_ok() && u32::try_from(value.len()).is_ok()
    }
}

impl<'a> Part<'a> for Answer<'a> {
    fn read(input: &mut &'a [u8]) -> Option<Self> {
        use Status::{Absent, Conflict, Done, Failed, TimedOut, Unknown};
        let [status] = take(input)?;
        let all = [Done, Absent, Conflict, TimedOut, Failed, Unknown];
        let status = all.into_iter().find(|one| *one as u8 == status)?;
        let version = take(input).map(u64::from_le_bytes)?;
        let (crc, len) = (take(input).map(u32::from_le_bytes)?, take(input)?);
        let value = take_bytes(input, u32::from_le_bytes(len) as usize)?;
        Some(Answer { status, version, value, crc })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.status as u8);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
        out.extend_from_slice(&(self.value.len() as u32).to_le_bytes());
        out.extend_from_slice(self.value);
    }

    fn fits(&self) -> bool {
        u32::try_from(self.value.len()).is_ok()
    }
}

/// Takes `N` bytes from the start of the input.
pub(super) fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*bytes)
}

pub(super) fn take_bytes<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(bytes)
}
