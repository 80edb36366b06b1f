//! The errors of the store's operations. The protocols have their own texts for most of them.

use std::fmt;

use hotring_index::{Full, Refused, Stalled};

/// The reason that an operation failed. A failed operation has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The key is longer than [`Options::key_len_max`](crate::Options::key_len_max).
    KeyTooLong {
        /// Length of the refused key.
        len: usize,
        /// The limit.
        len_max: usize,
    },
    /// The value is, or would become, longer than
    /// [`Options::value_len_max`](crate::Options::value_len_max).
    ValueTooLong {
        /// Length that the value would have had.
        len: usize,
        /// The limit.
        len_max: usize,
    },
    /// The operation does not support the type of the value.
    WrongType,
    /// The string does not parse as a number of this kind.
    NotANumber(NumberKind),
    /// The value of a bounded counter is an infinity.
    InfiniteValue,
    /// The sum is out of range.
    Overflow(NumberKind),
    /// The change that a bounded counter would make is out of range.
    ChangeOverflow(NumberKind),
    /// The store is a replica: only the stream of its primary writes it ([`Role`](crate::Role)).
    ReadOnly,
    /// The grounds of the store have changed since the request was checked ([`Grounds`](crate::Grounds)): its keys may
    /// be held or given away by now. It must be checked again, and run from its beginning.
    Displaced,
    /// There is no history to restore from: [`Options::history`](crate::Options::history) is 0.
    HistoryOff,
    /// The source key is absent.
    NoSuchKey,
    /// Several values together are longer than the caller accepts.
    ValuesTooLong {
        /// The limit.
        len_max: usize,
    },
    /// The maximum number of watches is open ([`Options::watches_max`](crate::Options::watches_max)).
    TooManyWatches {
        /// The limit.
        max: u64,
    },
    /// A session stays in one operation, and the removed memory that cannot be freed because of it exceeds
    /// [`Config::limbo_max`](hotring_index::Config::limbo_max). Writes that take memory fail until the session
    /// proceeds. Reads and removals go on.
    Stalled(Box<Stalled>),
    /// The memory limit is reached ([`Store::set_memory_max`](crate::Store::set_memory_max)). Writes that take memory
    /// fail. Reads and removals go on.
    OutOfMemory(Full),
    /// The keys to be pinned do not fit: pinned keys may take only
    /// [`Store::set_pinned_max`](crate::Store::set_pinned_max) bytes together.
    PinnedFull {
        /// Bytes of pinned keys.
        bytes: usize,
        /// Bytes of the keys to be pinned.
        wanted: usize,
        /// The limit.
        bytes_max: usize,
    },
}

/// How a string is read as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberKind {
    /// The canonical decimal text of a 64-bit integer.
    Integer,
    /// A finite decimal number.
    Decimal,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyTooLong { len, len_max } => {
                write!(f, "key of {len} bytes exceeds the maximum of {len_max}")
            }
            Self::ValueTooLong { len, len_max } => {
                write!(f, "value of {len} bytes exceeds the maximum of {len_max}")
            }
            Self::WrongType => f.write_str("the value is of another type"),
            Self::NotANumber(kind) => write!(f, "not {kind}"),
            Self::InfiniteValue => f.write_str("the value is an infinity"),
            Self::Overflow(kind) => write!(f, "the sum is not {kind}"),
            Self::ChangeOverflow(kind) => write!(f, "the change is not {kind}"),
            Self::ReadOnly => f.write_str("the store is a replica and accepts no writes"),
            Self::Displaced => f.write_str("the keys are being moved to another store; try again"),
            Self::HistoryOff => f.write_str("earlier values are not kept"),
            Self::NoSuchKey => f.write_str("the key is absent"),
            Self::ValuesTooLong { len_max } => {
                write!(f, "the values are longer than {len_max} bytes together")
            }
            Self::TooManyWatches { max } => {
                write!(f, "the limit of {max} open watches is reached")
            }
            Self::Stalled(stalled) => stalled.fmt(f),
            Self::OutOfMemory(full) => full.fmt(f),
            Self::PinnedFull { bytes, wanted, bytes_max } => write!(
                f,
                "{bytes} bytes are pinned, {wanted} more would be above the limit of {bytes_max}; unpin \
                 other keys first"
            ),
        }
    }
}

impl std::error::Error for StoreError {}

impl fmt::Display for NumberKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Integer => "a 64-bit integer",
            Self::Decimal => "a finite decimal number",
        })
    }
}

impl From<Refused> for StoreError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Stalled(stalled) => Self::Stalled(stalled),
            Refused::Full(full) => Self::OutOfMemory(full),
        }
    }
}
