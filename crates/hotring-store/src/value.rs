//! The encoding of values in the index, and the view that callers get of them.
//!
//! | kind | held as | value |
//! |---|---|---|
//! | 0..=8 | word | string of that many bytes, first byte lowest, rest zero |
//! | 9 | word | integer: the string is its canonical decimal text |
//! | 0 | bytes | any other string |
//! | 1 | bytes | a string with earlier values of the same key: [`crate::history`] |
//! | 2 | bytes | a hash in logs of format 1 |
//! | 3 | bytes | a string with metadata: [`crate::metadata`] |
//! | 4, 5 | bytes | a hash, large and packed: [`crate::hash`] |
//! | 6, 7 | bytes | a list, packed and large: [`crate::list`] |
//! | 8, 9 | bytes | a set, packed and large: [`crate::set`] |
//! | 10, 11 | bytes | a sorted set, packed and large: [`crate::scored`] |
//! | 15 | bytes | a long string that is modified in part, as an object: [`crate::long_text`] |
//!
//! A string without history or metadata has exactly one encoding: [`encode`] tries integer, then short string, then
//! bytes. So equal strings have equal encodings, and a value that [`view`] does not show as an integer is not one for
//! INCR. The remaining kinds (10..=15 as a word, 12..=14 as bytes) are free for later types.

use std::borrow::Cow;
use std::ops::Deref;

use hotring_index::{Block, BlockRef, Entry, NewValue, Value};

use crate::container::{Type, large::Large};
use crate::decimal::parse_int;
use crate::error::StoreError;
use crate::hash::{Hash, HashRef};
use crate::history;
use crate::list::{List, ListRef};
use crate::long_text::{LongText, TextRef};
use crate::metadata;
use crate::scored::{ScoredRef, SortedSet};
use crate::set::{Set, SetRef};

/// Maximum length of a string that fits a word.
const SHORT_LEN_MAX: usize = 8;
/// Word kind of an integer.
const KIND_INT: u8 = 9;
/// Bytes kind of a string.
pub(crate) const KIND_STRING: u8 = 0;
/// Bytes kind of a string with earlier values.
pub(crate) const KIND_HISTORY: u8 = 1;
/// Kind of a hash in logs of format 1.
pub(crate) const KIND_HASH_1: u8 = 2;
/// Bytes kind of a string with metadata.
pub(crate) const KIND_METADATA: u8 = 3;

/// A value as operations show it to callers, borrowed for the length of a closure.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// A string that is the canonical decimal text of this integer.
    Int(i64),
    /// Any other string.
    Bytes(&'a [u8]),
    /// A long string that has been modified in part. Its bytes are not contiguous: to get them in one piece costs a
    /// copy.
    Text(TextRef<'a>),
    /// A hash. The methods of [`ValueRef`] that return a string return its stored form.
    Hash(HashRef<'a>),
    /// A list, with the same rule.
    List(ListRef<'a>),
    /// A set, with the same rule.
    Set(SetRef<'a>),
    /// A sorted set, with the same rule.
    Scored(ScoredRef<'a>),
}

impl ValueRef<'_> {
    /// Length of the string in bytes; of another type, its memory.
    pub fn len(&self) -> usize {
        match self {
            ValueRef::Int(n) => itoa::Buffer::new().format(*n).len(),
            ValueRef::Bytes(bytes) => bytes.len(),
            ValueRef::Text(text) => text.len(),
            ValueRef::Hash(hash) => hash.footprint(),
            ValueRef::List(list) => list.footprint(),
            ValueRef::Set(set) => set.footprint(),
            ValueRef::Scored(scored) => scored.footprint(),
        }
    }

    /// Whether the value is a string.
    pub fn is_string(&self) -> bool {
        matches!(self, ValueRef::Int(_) | ValueRef::Bytes(_) | ValueRef::Text(_))
    }

    /// True for the empty string.
    pub fn is_empty(&self) -> bool {
        matches!(self, ValueRef::Bytes([]))
    }

    /// Runs `f` on the string's bytes.
    pub fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            ValueRef::Int(n) => f(itoa::Buffer::new().format(*n).as_bytes()),
            ValueRef::Bytes(bytes) => f(bytes),
            ValueRef::Text(text) => f(&text.whole()),
            ValueRef::Hash(hash) => f(hash.held()),
            ValueRef::List(list) => f(list.held()),
            ValueRef::Set(set) => f(set.held()),
            ValueRef::Scored(scored) => f(scored.held()),
        }
    }

    /// Appends the string to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            ValueRef::Text(text) => text.append_to(out),
            value => value.with_bytes(|bytes| out.extend_from_slice(bytes)),
        }
    }

    /// An owned copy of the string.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            ValueRef::Text(text) => text.whole().into_owned(),
            value => value.with_bytes(<[u8]>::to_vec),
        }
    }
}

/// An owned string that an operation returns.
#[derive(Clone, Debug)]
pub enum Text {
    /// A copy of the string.
    Owned(Vec<u8>),
    /// A share of a long string, without a copy.
    Shared(Block),
}

impl Text {
    /// The bytes; copies a shared string.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Text::Owned(text) => text,
            Text::Shared(text) => text.to_vec(),
        }
    }

    /// The block of a shared string.
    pub fn block(&self) -> Option<BlockRef<'_>> {
        match self {
            Text::Owned(_) => None,
            Text::Shared(text) => Some(text.lend()),
        }
    }
}

impl Deref for Text {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Text::Owned(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl From<Vec<u8>> for Text {
    fn from(text: Vec<u8>) -> Text {
        Text::Owned(text)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

/// Calls `f` with an index value. Inlined, so that a read loads only the parts of an item that it uses.
#[inline(always)]
pub(crate) fn view<R>(value: Value<'_>, f: impl FnOnce(ValueRef<'_>) -> R) -> R {
    let short;
    f(match value {
        Value::Word { kind: KIND_INT, word } => ValueRef::Int(word.cast_signed()),
        Value::Word { kind, word } => {
            short = word.to_le_bytes();
            // An unknown kind would be a bug in this module; showing all 8 bytes is still safe.
            ValueRef::Bytes(&short[..usize::from(kind).min(SHORT_LEN_MAX)])
        }
        Value::Bytes { kind: KIND_STRING, bytes } => ValueRef::Bytes(bytes),
        Value::Bytes { kind, bytes } => show_rare(kind, bytes),
    })
}

/// Shows a container, or a string with a history or metadata, which is stored as text even if it is an integer.
#[cold]
fn show_rare(kind: u8, held: &[u8]) -> ValueRef<'_> {
    let text = match kind {
        Hash::KIND => return ValueRef::Hash(Hash::packed(held)),
        Set::KIND => return ValueRef::Set(Set::packed(held)),
        // Only the type is right: callers that need the contents use `view_entry`.
        Hash::KIND_LARGE => return ValueRef::Hash(Hash::packed(&[])),
        List::KIND => return ValueRef::List(List::packed(held)),
        List::KIND_LARGE => return ValueRef::List(List::packed(&[])),
        Set::KIND_LARGE => return ValueRef::Set(Set::packed(&[])),
        SortedSet::KIND => return ValueRef::Scored(SortedSet::packed(held)),
        SortedSet::KIND_LARGE => return ValueRef::Scored(SortedSet::packed(&[])),
        LongText::KIND_LARGE => return ValueRef::Text(TextRef::plain(&[])),
        KIND_METADATA => metadata::split(held).text(),
        _ => history::current(held),
    };
    parse_int(text).map_or(ValueRef::Bytes(text), ValueRef::Int)
}

/// Like [`view`], for an entry: shows the current contents of a large container, too.
pub(crate) fn view_entry<R>(entry: &Entry<'_>, f: impl FnOnce(ValueRef<'_>) -> R) -> R {
    view_contents(entry.value, entry.block(), f)
}

fn view_contents<R>(
    value: Value<'_>,
    block: Option<BlockRef<'_>>,
    f: impl FnOnce(ValueRef<'_>) -> R,
) -> R {
    match block.and_then(Large::of) {
        Some(large) => large.snapshot().parts.view(f),
        None => view(value, f),
    }
}

/// Like [`view_entry`], without expired fields; None if no field is left.
pub(crate) fn view_entry_at<R>(
    entry: &Entry<'_>,
    now: u64,
    f: impl FnOnce(ValueRef<'_>) -> R,
) -> Option<R> {
    view_entry(entry, |value| match value {
        ValueRef::Hash(hash) if hash.expires() => {
            let hash = hash.at(now);
            (!hash.is_empty()).then(|| f(ValueRef::Hash(hash)))
        }
        value => Some(f(value)),
    })
}

/// Like [`view_entry`], for a string.
///
/// # Errors
/// [`StoreError::WrongType`]
#[inline(always)]
pub(crate) fn view_string<R>(
    entry: &Entry<'_>,
    f: impl FnOnce(ValueRef<'_>) -> R,
) -> Result<R, StoreError> {
    view(entry.value, |value| match value {
        ValueRef::Int(_) | ValueRef::Bytes(_) => Ok(f(value)),
        ValueRef::Text(_) => Ok(view_large(entry.value, entry.block(), f)),
        _ => Err(StoreError::WrongType),
    })
}

/// Like [`view_entry`], kept out of the path of short values: taking a reference there would force the entry into
/// memory.
#[cold]
#[inline(never)]
pub(crate) fn view_large<R>(
    value: Value<'_>,
    block: Option<BlockRef<'_>>,
    f: impl FnOnce(ValueRef<'_>) -> R,
) -> R {
    view_contents(value, block, f)
}

/// Whether a value is a string, with or without history and metadata.
pub(crate) fn is_string(value: Value<'_>) -> bool {
    matches!(
        value,
        Value::Word { .. }
            | Value::Bytes {
                kind: KIND_STRING | KIND_HISTORY | KIND_METADATA | LongText::KIND_LARGE,
                ..
            }
    )
}

/// An owned copy or share of an optional entry's string.
///
/// # Errors
/// [`StoreError::WrongType`]
pub(crate) fn copied(entry: Option<&Entry<'_>>) -> Result<Option<Text>, StoreError> {
    let text = |entry: &Entry<'_>| {
        view_string(entry, |value| {
            let shared = |block: BlockRef<'_>| match value {
                ValueRef::Bytes(text) => block.to_block().part(text),
                _ => None,
            };
            match entry.block().and_then(shared) {
                Some(block) => Text::Shared(block),
                None => Text::Owned(value.to_vec()),
            }
        })
    };
    entry.map(text).transpose()
}

/// Encodes an integer.
pub(crate) fn int(n: i64) -> NewValue<'static> {
    NewValue::Word { kind: KIND_INT, word: n.cast_unsigned() }
}

/// Encodes a string in its only form.
pub(crate) fn encode(bytes: &[u8]) -> NewValue<'_> {
    encode_word(bytes).unwrap_or(NewValue::Bytes { kind: KIND_STRING, bytes: Cow::Borrowed(bytes) })
}

/// Like [`encode`], for a long string that is in a block already.
pub(crate) fn encode_block(block: Block) -> NewValue<'static> {
    NewValue::Block { kind: KIND_STRING, block }
}

/// Like [`encode`], for owned bytes.
pub(crate) fn encode_owned(bytes: Vec<u8>) -> NewValue<'static> {
    encode_word(&bytes).unwrap_or(NewValue::Bytes { kind: KIND_STRING, bytes: Cow::Owned(bytes) })
}

fn encode_word(bytes: &[u8]) -> Option<NewValue<'static>> {
    if let Some(n) = parse_int(bytes) {
        return Some(int(n));
    }
    let mut word = [0; SHORT_LEN_MAX];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    // The length is at most 8, otherwise `get_mut` would have returned None.
    Some(NewValue::Word { kind: bytes.len() as u8, word: u64::from_le_bytes(word) })
}

/// Copies or shares an entry's value in its stored form, to be stored under another key.
pub(crate) fn detach_entry(entry: &Entry<'_>) -> NewValue<'static> {
    match (entry.value, entry.block()) {
        (Value::Bytes { kind, .. }, Some(block)) => {
            NewValue::Block { kind, block: block.to_block() }
        }
        (value, _) => detach(value),
    }
}

/// Copies an index value in its stored form, to be stored again.
pub(crate) fn detach(value: Value<'_>) -> NewValue<'static> {
    match value {
        Value::Word { kind, word } => NewValue::Word { kind, word },
        Value::Bytes { kind, bytes } => NewValue::Bytes { kind, bytes: Cow::Owned(bytes.to_vec()) },
    }
}

/// Bytes of memory that storing a value takes.
pub(crate) fn len_of(value: &NewValue<'_>) -> usize {
    match value {
        NewValue::Word { .. } => size_of::<u64>(),
        NewValue::Bytes { bytes, .. } => bytes.len(),
        // The copy of a large container counts in full; any other block exists and is counted already.
        NewValue::Block { block, .. } if block.object().is_some() => block.footprint(),
        NewValue::Block { .. } => 0,
    }
}

/// A second handle to a value, for a closure that may run several times.
pub(crate) fn reborrow<'a>(value: &'a NewValue<'_>) -> NewValue<'a> {
    match value {
        NewValue::Word { kind, word } => NewValue::Word { kind: *kind, word: *word },
        NewValue::Bytes { kind, bytes } => {
            NewValue::Bytes { kind: *kind, bytes: Cow::Borrowed(bytes) }
        }
        NewValue::Block { kind, block } => NewValue::Block { kind: *kind, block: block.clone() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &[u8]) -> (u8, bool) {
        match encode(text) {
            NewValue::Word { kind, .. } => (kind, true),
            NewValue::Bytes { kind, .. } | NewValue::Block { kind, .. } => (kind, false),
        }
    }

    #[test]
    fn only_canonical_decimal_text_is_an_integer() {
        for text in ["0", "-1", "7", "10", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(parse_int(text.as_bytes()), text.parse().ok(), "{text}");
            assert_eq!(form(text.as_bytes()), (KIND_INT, true), "{text}");
        }
        let not = ["", "-", "+1", "-0", "00", "01", "-01", " 1", "1 ", "1.0", "1e3", "0x1", "٣"];
        for text in not {
            assert_eq!(parse_int(text.as_bytes()), None, "{text}");
        }
        for text in ["9223372036854775808", "-9223372036854775809", "99999999999999999999"] {
            assert_eq!(parse_int(text.as_bytes()), None, "{text}");
            assert_eq!(form(text.as_bytes()), (KIND_STRING, false), "{text}");
        }
    }

    #[test]
    fn every_string_comes_back_as_it_was() {
        let long = vec![0u8; 300];
        let cases: [&[u8]; 9] =
            [b"", b"a", b"\0", b"\0\0", b"12345678", b"abcdefgh", b"abcdefghi", b"-7", &long];
        for text in cases {
            let stored = encode(text);
            let value = stored.as_value();
            assert_eq!(view(value, |v| v.to_vec()), text);
            assert_eq!(view(value, |v| v.len()), text.len());
            assert_eq!(view(value, |v| v.is_empty()), text.is_empty());
        }
        assert_eq!(form(b"abcdefgh"), (8, true));
        assert_eq!(form(b"\0\0"), (2, true), "length tells apart what trailing zeros do not");
        assert_eq!(form(b"abcdefghi"), (KIND_STRING, false));
    }
}
