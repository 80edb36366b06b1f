//! Changes of a hash's fields, and their encoding in the log.

use std::ops::Deref;

use crate::container::packed::{push, push_number, split, split_number};

/// A change of one field.
pub(crate) type Change<'a> = (&'a [u8], To<'a>);

/// The new state of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum To<'a> {
    /// Absent.
    Removed,
    /// Has this value, and does not expire.
    Value(NewText<'a>),
    /// Has this value, and expires at this Unix millisecond.
    Until(NewText<'a>, u64),
    /// Keeps its value, if the field exists, and gets this expiry, or none.
    Expiry(Option<u64>),
}

/// Maximum length of the text of an integer.
const INT_LEN_MAX: usize = 20;

/// The new value of a field.
#[derive(Clone, Debug)]
pub(crate) enum NewText<'a> {
    /// Borrowed from the caller.
    Given(&'a [u8]),
    /// Built for the field.
    Made(Vec<u8>),
    /// The text of an integer, without an allocation: the bytes, and the number of them in use.
    Int([u8; INT_LEN_MAX], u8),
}

impl NewText<'_> {
    pub(crate) fn of_int(n: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(n).as_bytes();
        let mut bytes = [0; INT_LEN_MAX];
        bytes[..text.len()].copy_from_slice(text);
        NewText::Int(bytes, text.len() as u8)
    }
}

impl Deref for NewText<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            NewText::Given(text) => text,
            NewText::Made(text) => text,
            NewText::Int(bytes, len) => &bytes[..usize::from(*len)],
        }
    }
}

impl PartialEq for NewText<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for NewText<'_> {}

impl<'a> From<&'a [u8]> for NewText<'a> {
    fn from(text: &'a [u8]) -> Self {
        NewText::Given(text)
    }
}

/// The effect of changes on a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Fields that were absent before.
    pub(crate) added: usize,
    /// Fields that were removed.
    pub(crate) removed: usize,
    /// Fields that got a value, equal to the old one or not.
    pub(crate) set: usize,
    /// Fields that kept their value and got or lost an expiry.
    pub(crate) timed: usize,
}

/// Marker in place of a value's length plus 1: the expiry and the value follow. No value is that long.
const UNTIL: u64 = 1 << 33;
/// Marker in place of a value's length plus 1: the expiry follows, 0 for none.
const EXPIRY: u64 = UNTIL + 1;

impl<'a> To<'a> {
    /// The new value, if the field gets one.
    pub(crate) fn value(&self) -> Option<&[u8]> {
        match self {
            To::Value(value) | To::Until(value, _) => Some(value),
            To::Removed | To::Expiry(_) => None,
        }
    }

    /// The new expiry, if the field gets one.
    pub(crate) fn expire_at(&self) -> Option<u64> {
        match self {
            To::Until(_, at) => Some(*at),
            To::Expiry(at) => *at,
            To::Removed | To::Value(_) => None,
        }
    }

    /// The value with this expiry.
    pub(crate) fn value_until(value: NewText<'a>, at: Option<u64>) -> To<'a> {
        match at {
            Some(at) => To::Until(value, at),
            None => To::Value(value),
        }
    }
}

/// Encodes a change: length of the field, the field, 0 or the length of its value plus 1, the value.
pub(crate) fn push_change(bytes: &mut Vec<u8>, (field, to): &Change<'_>) {
    push(bytes, field);
    match to {
        To::Removed => push_number(bytes, 0),
        To::Value(value) => {
            push_number(bytes, value.len() as u64 + 1);
            bytes.extend_from_slice(value);
        }
        To::Until(value, at) => {
            push_number(bytes, UNTIL);
            push_number(bytes, *at);
            push(bytes, value);
        }
        To::Expiry(at) => {
            push_number(bytes, EXPIRY);
            push_number(bytes, at.unwrap_or(0));
        }
    }
}

/// Decodes the first change, and returns it with the remaining bytes.
pub(crate) fn split_change(bytes: &[u8]) -> Option<(Change<'_>, &[u8])> {
    let (field, tail) = split(bytes)?;
    let (len, tail) = split_number(tail)?;
    let (to, tail) = match len {
        0 => (To::Removed, tail),
        UNTIL => {
            let (at, tail) = split_number(tail)?;
            let (value, tail) = split(tail)?;
            (To::Until(value.into(), at), tail)
        }
        EXPIRY => {
            let (at, tail) = split_number(tail)?;
            (To::Expiry(Some(at).filter(|at| *at > 0)), tail)
        }
        len => {
            let (value, tail) = tail.split_at_checked(usize::try_from(len).ok()? - 1)?;
            (To::Value(value.into()), tail)
        }
    };
    Some(((field, to), tail))
}

/// Whether encoded changes give a field an expiry. May be true by mistake for changes of another type.
pub(crate) fn give_expiries(mut bytes: &[u8]) -> bool {
    while let Some(((_, to), tail)) = split_change(bytes) {
        if to.expire_at().is_some() {
            return true;
        }
        bytes = tail;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_from_their_bytes() {
        let changes: [Change<'_>; 6] = [
            (b"a", To::Removed),
            (b"", To::Value(b""[..].into())),
            (b"b", To::Value(b"1"[..].into())),
            (b"c", To::Until(b"2"[..].into(), u64::MAX >> 2)),
            (b"d", To::Expiry(Some(1))),
            (b"e", To::Expiry(None)),
        ];
        let mut bytes = Vec::new();
        changes.iter().for_each(|change| push_change(&mut bytes, change));
        let mut rest = &bytes[..];
        for change in &changes {
            let (found, tail) = split_change(rest).expect("it is whole");
            assert_eq!(found, *change);
            rest = tail;
        }
        assert!(rest.is_empty() && give_expiries(&bytes));
        let mut plain = Vec::new();
        changes[..3].iter().for_each(|change| push_change(&mut plain, change));
        assert!(!give_expiries(&plain));
        for end in 0..bytes.len() {
            let (mut rest, mut steps) = (&bytes[..end], 0);
            while let Some((_, tail)) = split_change(rest) {
                (rest, steps) = (tail, steps + 1);
            }
            assert!(steps < changes.len());
        }
    }
}
