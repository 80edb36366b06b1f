//! Earlier values of a key, stored in the key's own item: they are changed, moved, expired and removed with it, and a
//! reader sees the value and its history consistently (RHKV, FGCS 2018, section 4.8: the append operation).
//!
//! A value that has replaced another is stored as bytes of kind [`KIND_HISTORY`]:
//! ```text
//!   version  u64 | length u32 | the value | earlier ones, newest first:
//!                                         | replaced at u64 | length u32 | the value | ...
//! ```
//! Numbers are little endian; values are strings as clients see them. The first value of a key has version 1 and no
//! history, so it is stored like any other value ([`crate::value`]). The same applies to all values while the history
//! is off. Versions of earlier values count down by one and are not stored.
//!
//! The bytes may be damaged: wrong lengths give wrong values, not a panic.

use hotring_index::{NewValue, Value};

use crate::metadata::{self, Metadata};
use crate::value::{KIND_HISTORY, KIND_METADATA, view};

/// Length of the header before the value: version and length.
pub(crate) const HEAD_LEN: usize = 12;
/// Length of the header before each earlier value: time of replacement and length.
const EARLIER_HEAD_LEN: usize = 12;

/// Limits of each key's history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryLimits {
    /// Maximum number of earlier values; 0 turns the history off.
    pub(crate) values: usize,
    /// Maximum bytes of all earlier values together, headers included.
    pub(crate) bytes_max: usize,
}

/// A key's version and earlier values, borrowed for the length of a closure.
#[derive(Clone, Copy, Debug)]
pub struct History<'a> {
    version: u64,
    /// The earlier values in their stored form.
    held: &'a [u8],
}

/// One earlier value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Earlier<'a> {
    /// Its version.
    pub version: u64,
    /// Unix milliseconds of the write that replaced it.
    pub replaced_at: u64,
    /// The value.
    pub value: &'a [u8],
}

impl<'a> History<'a> {
    /// The version of the current value. The first value of a key gets 1, and each write that takes effect gets the
    /// next number, even if it stores an equal value. The count starts again after the key has been removed or has
    /// expired.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The earlier values that are still kept, newest first: their versions count down by one.
    pub fn earlier(&self) -> impl Iterator<Item = Earlier<'a>> + use<'a> {
        let (mut version, mut rest) = (self.version, self.held);
        std::iter::from_fn(move || {
            let (replaced_at, value, older) = split(rest)?;
            rest = older;
            version = version.checked_sub(1)?;
            Some(Earlier { version, replaced_at, value })
        })
    }

    /// The history in a value of the index.
    pub(crate) fn of(value: Value<'a>) -> Self {
        let held = match value {
            Value::Bytes { kind: KIND_HISTORY, bytes } => Some(bytes),
            Value::Bytes { kind: KIND_METADATA, bytes } => metadata::split(bytes).history(),
            _ => None,
        };
        let (version, _, held) = held.and_then(split).unwrap_or((1, b"", b""));
        History { version, held }
    }

    /// The newest earlier values that fit the limits, in their stored form.
    fn newest(&self, values: usize, bytes_max: usize) -> &'a [u8] {
        let ends = self.earlier().take(values).scan(0, |end, earlier| {
            *end += EARLIER_HEAD_LEN + earlier.value.len();
            Some(*end)
        });
        &self.held[..ends.take_while(|end| *end <= bytes_max).last().unwrap_or(0)]
    }
}

/// The current value within bytes of kind [`KIND_HISTORY`].
pub(crate) fn current(bytes: &[u8]) -> &[u8] {
    split(bytes).map_or(bytes, |(_, value, _)| value)
}

/// Splits off a number and the value after it, and returns both with the rest.
fn split(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (number, bytes) = bytes.split_first_chunk()?;
    let (len, bytes) = bytes.split_first_chunk()?;
    let (value, rest) = bytes.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some((u64::from_le_bytes(*number), value, rest))
}

fn push(bytes: &mut Vec<u8>, number: u64, value: &[u8]) {
    let len = u32::try_from(value.len()).expect("Limits keep values below 4 GiB");
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(value);
}

impl HistoryLimits {
    pub(crate) fn is_off(self) -> bool {
        self.values == 0
    }

    /// Encodes `new` with `old` as its newest earlier value, replaced at the Unix millisecond `now`. Drops the oldest
    /// values if there are too many or they are too long. Keeps the metadata of `new`.
    pub(crate) fn keep(self, old: Value<'_>, new: Value<'_>, now: u64) -> NewValue<'static> {
        let build = |old_text: &[u8], new_text: &[u8]| {
            let history = History::of(old);
            let old_len = EARLIER_HEAD_LEN + old_text.len();
            let fits = old_len <= self.bytes_max;
            let older = match fits {
                true => history.newest(self.values - 1, self.bytes_max - old_len),
                false => b"",
            };
            let len = HEAD_LEN + new_text.len() + if fits { old_len + older.len() } else { 0 };
            let mut bytes = Vec::with_capacity(len);
            push(&mut bytes, history.version.saturating_add(1), new_text);
            if fits {
                push(&mut bytes, now, old_text);
                bytes.extend_from_slice(older);
            }
            NewValue::Bytes { kind: KIND_HISTORY, bytes: bytes.into() }
        };
        let kept = view(old, |old| {
            view(new, |new| old.with_bytes(|old| new.with_bytes(|new| build(old, new))))
        });
        match Metadata::of(new) {
            metadata if metadata.is_empty() => kept,
            metadata => metadata.amend(kept.as_value()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{ValueRef, encode};

    fn texts(value: &NewValue<'_>) -> (String, u64, Vec<(u64, u64, String)>) {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let history = History::of(value.as_value());
        let earlier = history.earlier().map(|e| (e.version, e.replaced_at, text(e.value)));
        (view(value.as_value(), |v| text(&v.to_vec())), history.version(), earlier.collect())
    }

    /// The form after writing these values at the times 10, 20, ...
    fn written(kept: HistoryLimits, values: &[&'static str]) -> NewValue<'static> {
        let mut held = encode(values[0].as_bytes());
        for (i, value) in values.iter().enumerate().skip(1) {
            let new = encode(value.as_bytes());
            held = kept.keep(held.as_value(), new.as_value(), 10 * i as u64);
        }
        held
    }

    #[test]
    fn the_newest_values_are_kept_with_their_versions() {
        let kept = HistoryLimits { values: 2, bytes_max: 1 << 20 };
        let long = "a value that is longer than a word";
        let held = written(kept, &["1", "", long, "-7"]);
        let earlier = vec![(3, 30, long.to_string()), (2, 20, String::new())];
        assert_eq!(texts(&held), ("-7".into(), 4, earlier));
        assert_eq!(texts(&encode(b"x")), ("x".into(), 1, vec![]));
    }

    #[test]
    fn an_integer_with_a_history_is_still_one() {
        let kept = HistoryLimits { values: 1, bytes_max: 1 << 20 };
        let is_int = |held: &NewValue<'_>| view(held.as_value(), |v| matches!(v, ValueRef::Int(_)));
        assert!(is_int(&written(kept, &["a", "-12"])));
        assert!(!is_int(&written(kept, &["1", "012"])));
    }

    #[test]
    fn the_oldest_go_when_there_is_no_room() {
        let texts_within = |bytes_max| {
            let held =
                written(HistoryLimits { values: 16, bytes_max }, &["aaaa", "bbb", "cccccc", "d"]);
            let (value, version, earlier) = texts(&held);
            assert_eq!((value.as_str(), version), ("d", 4));
            earlier.into_iter().map(|(version, _, text)| format!("{version}{text}")).collect()
        };
        let empty: [String; 0] = [];
        // 12 bytes each besides the value.
        let cases: [(usize, &[&str]); 6] = [
            (12 + 6 + 12 + 3 + 12 + 4, &["3cccccc", "2bbb", "1aaaa"]),
            (12 + 6 + 12 + 3 + 12 + 3, &["3cccccc", "2bbb"]),
            (12 + 6 + 12 + 3, &["3cccccc", "2bbb"]),
            (12 + 6 + 12 + 2, &["3cccccc"]),
            (12 + 6, &["3cccccc"]),
            (12 + 5, &[]),
        ];
        for (bytes_max, expected) in cases {
            let found: Vec<String> = texts_within(bytes_max);
            assert_eq!(found, expected, "{bytes_max} bytes");
        }
        assert_eq!(texts_within(0), empty, "the version still counts");
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let NewValue::Bytes { bytes, .. } =
            written(HistoryLimits { values: 3, bytes_max: 1 << 20 }, &["one", "two", "three"])
        else {
            panic!("a history is held as bytes")
        };
        for end in 0..bytes.len() {
            for i in 0..end {
                let mut damaged = bytes[..end].to_vec();
                damaged[i] ^= 0x81;
                let value = Value::Bytes { kind: KIND_HISTORY, bytes: &damaged };
                view(value, |v| v.to_vec());
                assert!(History::of(value).earlier().count() <= 2);
            }
        }
    }
}
