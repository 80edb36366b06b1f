//! The types of a byte-string index's API: values, entries, expiries and actions.

use crate::core::block::{Block, BlockRef};
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
    /// As [`Value::Bytes`], but already in memory of the index, so the bytes are not copied.
    Block {
        /// The caller's type of value, 0 to 15.
        kind: u8,
        /// The bytes.
        block: Block,
    },
}

impl NewValue<'_> {
    /// The value as readers will see it.
    pub fn as_value(&self) -> Value<'_> {
        match self {
            Self::Word { kind, word } => Value::Word { kind: *kind, word: *word },
            Self::Bytes { kind, bytes } => Value::Bytes { kind: *kind, bytes },
            Self::Block { kind, block } => Value::Bytes { kind: *kind, bytes: block },
        }
    }

    #[inline(always)]
    pub(crate) fn content(&self) -> Content<'_> {
        match self {
            Self::Word { kind, word } => Content::Word { kind: *kind, word: *word },
            Self::Bytes { kind, bytes } => Content::Bytes { kind: *kind, bytes },
            Self::Block { kind, block } => Content::Block { kind: *kind, block: block.lend() },
        }
    }
}

/// The value of a new item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    Word { kind: u8, word: u64 },
    Bytes { kind: u8, bytes: &'a [u8] },
    Block { kind: u8, block: BlockRef<'a> },
}

impl Content<'_> {
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Word { kind, .. } | Self::Bytes { kind, .. } | Self::Block { kind, .. } => *kind,
        }
    }
}

/// The contents of a key.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Value<'a>,
    /// The expiry, in Unix milliseconds.
    pub expire_at: Option<u64>,
    /// The version, if one was requested since the last write.
    pub version: Option<u64>,
    /// The item's memory in bytes.
    pub footprint: usize,
    pub(crate) block: Option<BlockRef<'a>>,
}

impl<'a> Entry<'a> {
    /// The substitute for a damaged item.
    pub(crate) fn without_value(key: &'a [u8]) -> Self {
        let value = Value::Bytes { kind: 0, bytes: &[] };
        Self { key, value, expire_at: None, version: None, footprint: 0, block: None }
    }

    /// The block of a long value ([`LONG_LEN`](crate::LONG_LEN)), for callers that keep the value beyond this call
    /// without a copy.
    #[inline]
    pub fn block(&self) -> Option<BlockRef<'a>> {
        self.block
    }

    /// The value, as input for another write.
    pub(crate) fn content(&self) -> Content<'a> {
        match (self.value, self.block) {
            (Value::Word { kind, word }, _) => Content::Word { kind, word },
            (Value::Bytes { kind, .. }, Some(block)) => Content::Block { kind, block },
            (Value::Bytes { kind, bytes }, None) => Content::Bytes { kind, bytes },
        }
    }
}

/// The expiry of a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// No expiry.
    Never,
    /// The expiry of the replaced entry, if it had one.
    Keep,
    /// At this Unix time in milliseconds (1 to 2^62 - 1).
    At(u64),
}

/// The decision of a read-modify-write.
#[derive(Clone, Debug)]
pub enum Action<'a> {
    /// Leave the entry as it is.
    Keep,
    /// Store a value.
    Put {
        /// The value.
        value: NewValue<'a>,
        /// Its expiry.
        expiry: Expiry,
    },
    /// Change the expiry only.
    Expire(Expiry),
    /// Remove the entry.
    Remove,
}
