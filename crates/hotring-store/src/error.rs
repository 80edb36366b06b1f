//! What an operation can refuse, as one small enum; the texts are Redis's where Redis has one.

use std::fmt;

use hotring_index::{Full, Refused, Stalled};

/// Why an operation changed nothing.
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
    /// The bit lies where no value reaches.
    BitOffset,
    /// The value is of another type than the operation is for.
    WrongType,
    /// The value of a hash's field is not the canonical decimal text of a 64-bit integer.
    FieldNotAnInteger,
    /// The value of a hash's field is not a decimal number.
    FieldNotAFloat,
    /// The value is not the canonical decimal text of a 64-bit integer.
    NotAnInteger,
    /// The value or the increment is not a decimal number.
    NotAFloat,
    /// The value of a bounded counter is an infinity.
    InfiniteValue,
    /// What a bounded counter would have to take on does not fit 64 bits.
    AppliedOverflow,
    /// What a bounded counter would have to take on is an infinity.
    AppliedInfinity,
    /// The sum does not fit 64 bits.
    Overflow,
    /// The sum is not a finite number.
    NaNOrInfinity,
    /// There is no history to restore from: [`Options::history`](crate::Options::history) is 0.
    HistoryOff,
    /// The source key is absent.
    NoSuchKey,
    /// The values of an `mget` are longer, together, than the caller can take.
    ReplyTooLong {
        /// The limit.
        len_max: usize,
    },
    /// As many watches are open as [`Options::watches_max`](crate::Options::watches_max) allows.
    TooManyWatches {
        /// The limit.
        max: u64,
    },
    /// More removed memory waits for a session that stays pinned than
    /// [`Config::limbo_max`](hotring_index::Config::limbo_max) allows, so that nothing may be
    /// written that takes more. Reads and removals go on; so do writes, once that session does.
    Stalled(Box<Stalled>),
    /// The limit of all memory is reached ([`Store::set_memory_max`](crate::Store::set_memory_max)),
    /// so that nothing may be written that takes more. Reads and removals go on.
    OutOfMemory(Full),
    /// More keys cannot be pinned: those that are take all of the memory that may be pinned
    /// ([`Store::set_pinned_max`](crate::Store::set_pinned_max)).
    PinnedFull {
        /// Bytes of what is pinned.
        bytes: usize,
        /// Bytes of what was to be pinned.
        wanted: usize,
        /// The limit.
        bytes_max: usize,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyTooLong { len, len_max } => {
                write!(f, "key of {len} bytes exceeds the maximum of {len_max}")
            }
            Self::ValueTooLong { .. } => {
                f.write_str("string exceeds maximum allowed size (proto-max-bulk-len)")
            }
            Self::BitOffset => f.write_str("bit offset is not an integer or out of range"),
            Self::WrongType => {
                f.write_str("Operation against a key holding the wrong kind of value")
            }
            Self::FieldNotAnInteger => f.write_str("hash value is not an integer"),
            Self::FieldNotAFloat => f.write_str("hash value is not a float"),
            Self::NotAnInteger => f.write_str("value is not an integer or out of range"),
            Self::NotAFloat => f.write_str("value is not a valid float"),
            Self::InfiniteValue => f.write_str("value cannot be Infinity"),
            Self::AppliedOverflow => f.write_str("applied increment would overflow"),
            Self::AppliedInfinity => f.write_str("applied increment would be Infinity"),
            Self::Overflow => f.write_str("increment or decrement would overflow"),
            Self::NaNOrInfinity => f.write_str("increment would produce NaN or Infinity"),
            Self::HistoryOff => {
                f.write_str("no earlier values are kept; the setting 'history' says how many")
            }
            Self::NoSuchKey => f.write_str("no such key"),
            Self::ReplyTooLong { len_max } => {
                write!(f, "the values are longer than {len_max} bytes together")
            }
            Self::TooManyWatches { max } => {
                write!(f, "no more than {max} may wait for keys at one time")
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

impl From<Refused> for StoreError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Stalled(stalled) => Self::Stalled(stalled),
            Refused::Full(full) => Self::OutOfMemory(full),
        }
    }
}
