//! Metadata of a string: flags, a unique number, the last access and two marks. It is stored before the string in the
//! same item, so that both change atomically.
//!
//! A string with metadata is stored as bytes of kind [`KIND_METADATA`]:
//! ```text
//!   which of these follow u8 | flags u32 | unique number u64 | last access u32 | the string
//! ```
//! Numbers are little endian; each is present only if its bit is set. A string without metadata is stored as any other
//! string, so metadata costs it nothing. `docs/decisions/0011-memcached-notes.md` has the alternatives.
//!
//! The bytes may be damaged: wrong bits give wrong metadata, not a panic.

use std::borrow::Cow;

use hotring_index::{Entry, NewValue, Value};

use crate::history;
use crate::value::{KIND_HISTORY, KIND_METADATA, encode, encode_owned, view};

/// Maximum length of the metadata, in bytes.
pub(crate) const LEN_MAX: usize = 1 + 4 + 8 + 4;

/// Bit: the string is stored with earlier values.
const HISTORY: u8 = 1;
const FLAGS: u8 = 1 << 1;
const UNIQUE: u8 = 1 << 2;
const ACCESS: u8 = 1 << 3;
const FETCHED: u8 = 1 << 4;
const STALE: u8 = 1 << 5;
const CLAIMED: u8 = 1 << 6;

/// Data stored with a string. An operation that has no metadata of its own drops it when it replaces the string, and
/// keeps only the flags when it changes the string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// An arbitrary number of the caller.
    pub flags: u32,
    /// The unique number of this value, for compare-and-swap ([`UniqueNumbers`](crate::UniqueNumbers)); None until a
    /// caller asks for it.
    pub unique: Option<u64>,
    /// The last access, if the caller records accesses.
    pub access: Option<Access>,
    /// The value has been declared out of date.
    pub stale: bool,
    /// A caller has claimed the renewal of the value.
    pub claimed: bool,
}

/// When a value was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Unix seconds of the last access, or of the store.
    pub at: u32,
    /// The value has been fetched since it was stored.
    pub fetched: bool,
}

impl Metadata {
    pub(crate) fn is_empty(self) -> bool {
        self == Metadata::default()
    }

    /// The metadata of an index value; the default for a value without metadata.
    pub(crate) fn of(value: Value<'_>) -> Metadata {
        match value {
            Value::Bytes { kind: KIND_METADATA, bytes } => split(bytes).metadata,
            _ => Metadata::default(),
        }
    }

    /// Encodes a string with this metadata.
    pub(crate) fn encode(self, text: Cow<'_, [u8]>) -> NewValue<'_> {
        if !self.is_empty() {
            return self.held(false, &text);
        }
        match text {
            Cow::Borrowed(text) => encode(text),
            Cow::Owned(text) => encode_owned(text),
        }
    }

    /// Re-encodes `value`, a string, with this metadata instead of its own.
    pub(crate) fn amend(self, value: Value<'_>) -> NewValue<'static> {
        let (has_history, held) = match value {
            Value::Bytes { kind: KIND_METADATA, bytes } => {
                let parts = split(bytes);
                (parts.has_history, Cow::Borrowed(parts.held))
            }
            Value::Bytes { kind, bytes } => (kind == KIND_HISTORY, Cow::Borrowed(bytes)),
            Value::Word { .. } => (false, Cow::Owned(view(value, |value| value.to_vec()))),
        };
        match (self.is_empty(), has_history) {
            (true, true) => NewValue::Bytes { kind: KIND_HISTORY, bytes: held.into_owned().into() },
            (true, false) => encode_owned(held.into_owned()),
            (false, _) => self.held(has_history, &held),
        }
    }

    fn held(self, has_history: bool, held: &[u8]) -> NewValue<'static> {
        let fetched = self.access.is_some_and(|access| access.fetched);
        let marks = [
            (HISTORY, has_history),
            (FLAGS, self.flags != 0),
            (UNIQUE, self.unique.is_some()),
            (ACCESS, self.access.is_some()),
            (FETCHED, fetched),
            (STALE, self.stale),
            (CLAIMED, self.claimed),
        ];
        let bits = marks.iter().fold(0, |bits, (bit, is_set)| bits | (bit * u8::from(*is_set)));
        let mut bytes = Vec::with_capacity(LEN_MAX + held.len());
        bytes.push(bits);
        if self.flags != 0 {
            bytes.extend_from_slice(&self.flags.to_le_bytes());
        }
        if let Some(cas) = self.unique {
            bytes.extend_from_slice(&cas.to_le_bytes());
        }
        if let Some(access) = self.access {
            bytes.extend_from_slice(&access.at.to_le_bytes());
        }
        bytes.extend_from_slice(held);
        NewValue::Bytes { kind: KIND_METADATA, bytes: bytes.into() }
    }
}

/// The contents of bytes of kind [`KIND_METADATA`].
pub(crate) struct Parts<'a> {
    metadata: Metadata,
    has_history: bool,
    held: &'a [u8],
}

impl<'a> Parts<'a> {
    /// The current string, without earlier values.
    pub(crate) fn text(&self) -> &'a [u8] {
        if self.has_history { history::current(self.held) } else { self.held }
    }

    /// The string and its earlier values in their stored form, if it has any.
    pub(crate) fn history(&self) -> Option<&'a [u8]> {
        self.has_history.then_some(self.held)
    }
}

pub(crate) fn split(bytes: &[u8]) -> Parts<'_> {
    let (bits, mut held) = bytes.split_first().map_or((0, bytes), |(bits, held)| (*bits, held));
    let has = |bit: u8| bits & bit != 0;
    let mut metadata = Metadata { stale: has(STALE), claimed: has(CLAIMED), ..Metadata::default() };
    if has(FLAGS) {
        metadata.flags = u32::from_le_bytes(take(&mut held));
    }
    if has(UNIQUE) {
        metadata.unique = Some(u64::from_le_bytes(take(&mut held)));
    }
    if has(ACCESS) {
        let at = u32::from_le_bytes(take(&mut held));
        metadata.access = Some(Access { at, fetched: has(FETCHED) });
    }
    Parts { metadata, has_history: has(HISTORY), held }
}

/// Takes the next `N` bytes; zeros if there are fewer.
fn take<const N: usize>(held: &mut &[u8]) -> [u8; N] {
    let Some((taken, rest)) = held.split_first_chunk() else { return [0; N] };
    *held = rest;
    *taken
}

/// Re-encodes a string that was computed from `old` with the flags of `old`.
#[inline]
pub(crate) fn with_flags_of<'a>(old: Option<Entry<'_>>, new: NewValue<'a>) -> NewValue<'a> {
    match old {
        Some(Entry { value: Value::Bytes { kind: KIND_METADATA, bytes }, .. }) => {
            carry(split(bytes).metadata, new)
        }
        _ => new,
    }
}

#[cold]
fn carry<'a>(old: Metadata, new: NewValue<'a>) -> NewValue<'a> {
    let flags = Metadata { flags: old.flags, ..Metadata::default() };
    let is_longest = matches!(&new, NewValue::Bytes { bytes, .. } if !fits(bytes.len()));
    if flags.is_empty() || is_longest { new } else { flags.amend(new.as_value()) }
}

/// Whether a string of this length can have metadata: an item holds less than 4 GiB.
pub(crate) fn fits(len: usize) -> bool {
    u32::try_from(len.saturating_add(LEN_MAX)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::ValueRef;

    fn all_metadata() -> Vec<Metadata> {
        let mut all = Vec::new();
        for bits in 0..64u32 {
            let has = |bit: u32| bits & 1 << bit != 0;
            let access = has(2).then_some(Access { at: 1_700_000_000, fetched: has(3) });
            all.push(Metadata {
                flags: if has(0) { u32::MAX } else { 0 },
                unique: has(1).then_some(u64::MAX - 1),
                access,
                stale: has(4),
                claimed: has(5),
            });
        }
        all
    }

    #[test]
    fn metadata_and_its_string_are_read_back() {
        for metadata in all_metadata() {
            for text in [&b""[..], b"7", b"abc", b"a string that is longer than a word"] {
                let held = metadata.encode(Cow::Borrowed(text));
                assert_eq!(Metadata::of(held.as_value()), metadata);
                view(held.as_value(), |value| {
                    assert_eq!(value.to_vec(), text);
                    assert_eq!(matches!(value, ValueRef::Int(7)), text == b"7");
                });
                let plain = Metadata::default().amend(held.as_value());
                assert_eq!(plain, encode(text), "without metadata the encoding is the usual one");
                assert_eq!(metadata.amend(plain.as_value()), held.clone());
            }
        }
    }

    #[test]
    fn a_changed_string_keeps_its_flags_and_nothing_else() {
        for metadata in all_metadata() {
            let old = metadata.encode(Cow::Borrowed(b"1"));
            let new = carry(Metadata::of(old.as_value()), encode(b"2"));
            let kept = Metadata { flags: metadata.flags, ..Metadata::default() };
            assert_eq!(Metadata::of(new.as_value()), kept);
            assert_eq!(view(new.as_value(), |value| value.to_vec()), b"2");
        }
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let metadata = Metadata { flags: 7, unique: Some(1), stale: true, ..Metadata::default() };
        let NewValue::Bytes { bytes, .. } = metadata.held(true, b"held") else {
            panic!("metadata is held as bytes")
        };
        for end in 0..=bytes.len() {
            for bits in 0..=255 {
                let mut damaged = bytes[..end].to_vec();
                if let Some(first) = damaged.first_mut() {
                    *first = bits;
                }
                let value = Value::Bytes { kind: KIND_METADATA, bytes: &damaged };
                view(value, |value| value.to_vec());
                Metadata::default().amend(value);
                history::History::of(value).earlier().count();
            }
        }
    }
}
