//! What goes into and comes out of a byte-string index.

use std::borrow::Cow;

/// A stored value. `kind` is 0 to 15 and means nothing to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// 64 bits that are updated in place as long as the kind stays the same.
    Word {
        /// The caller's type of value.
        kind: u8,
        /// The bits.
        word: u64,
    },
    /// Bytes that never change: a write makes a new item (read-copy-update).
    Bytes {
        /// The caller's type of value.
        kind: u8,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// A value to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewValue<'a> {
    /// See [`Value::Word`].
    Word {
        /// The caller's type of value, 0 to 15.
        kind: u8,
        /// The bits.
        word: u64,
    },
    /// See [`Value::Bytes`]. Below 4 GiB.
    Bytes {
        /// The caller's type of value, 0 to 15.
        kind: u8,
        /// The bytes.
        bytes: Cow<'a, [u8]>,
    },
}

impl NewValue<'_> {
    pub(crate) fn as_value(&self) -> Value<'_> {
        match self {
            Self::Word { kind, word } => Value::Word { kind: *kind, word: *word },
            Self::Bytes { kind, bytes } => Value::Bytes { kind: *kind, bytes },
        }
    }
}

/// What is stored under a key.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Value<'a>,
    /// When the entry ends, in Unix milliseconds.
    pub expire_at: Option<u64>,
    /// The version, if one was asked for since the last write.
    pub version: Option<u64>,
    /// Bytes of memory that the item takes.
    pub footprint: usize,
}

impl<'a> Entry<'a> {
    /// What is shown of a damaged item.
    pub(crate) fn without_value(key: &'a [u8]) -> Self {
        let value = Value::Bytes { kind: 0, bytes: &[] };
        Self { key, value, expire_at: None, version: None, footprint: 0 }
    }
}

/// The expiry of what is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// None.
    Never,
    /// That of the replaced entry, if it had one.
    Keep,
    /// At this Unix time in milliseconds (1 to 2^62 - 1).
    At(u64),
}

/// What a read-modify-write decides to do.
#[derive(Clone, Debug)]
pub enum Action<'a> {
    /// Nothing.
    Keep,
    /// Store a value.
    Put {
        /// The value.
        value: NewValue<'a>,
        /// Its expiry.
        expiry: Expiry,
    },
    /// Change the expiry and leave the value.
    Expire(Expiry),
    /// Remove the entry.
    Remove,
}
