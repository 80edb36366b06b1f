//! The packed form of a hash. A hash with expiring fields is marked by a count of 0, which no other stored hash has:
//!
//! ```text
//!   number of changes | number of fields | field, value | ...
//!   number of changes | 0 | number of fields | earliest expiry | field, value, expiry or 0 | ...
//! ```

use crate::container::packed::{Head, push, push_number, split, split_number};

/// A packed hash, decoded up to its entries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packed<'a> {
    pub(crate) number: u64,
    pub(crate) count: usize,
    /// The earliest expiry, if any field has one.
    pub(crate) next: Option<u64>,
    entries: &'a [u8],
}

/// A field, its value and its expiry in Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) field: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) expire_at: Option<u64>,
}

impl<'a> Packed<'a> {
    #[inline]
    pub(crate) fn of(held: &'a [u8]) -> Packed<'a> {
        let (Head { number, count }, entries) = Head::split(held);
        let packed = Packed { number, count, next: None, entries };
        if count > 0 || entries.is_empty() { packed } else { packed.timed().unwrap_or_default() }
    }

    #[cold]
    fn timed(self) -> Option<Packed<'a>> {
        let (count, rest) = split_number(self.entries)?;
        let (next, entries) = split_number(rest)?;
        Some(Packed { count: usize::try_from(count).ok()?, next: Some(next), entries, ..self })
    }

    /// The encoded entries, if no field expires.
    pub(crate) fn plain(&self) -> Option<&'a [u8]> {
        self.next.is_none().then_some(self.entries)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let (mut rest, is_timed) = (self.entries, self.next.is_some());
        std::iter::from_fn(move || {
            let (field, tail) = split(rest)?;
            let (value, mut tail) = split(tail)?;
            let mut expire_at = None;
            if is_timed {
                let (at, after) = split_number(tail)?;
                (expire_at, tail) = (Some(at).filter(|at| *at > 0), after);
            }
            rest = tail;
            Some(Entry { field, value, expire_at })
        })
    }
}

/// Encodes a hash with these fields; None if there are none.
pub(crate) fn encode<'a, I: Iterator<Item = Entry<'a>>>(
    number: u64,
    entries: impl Fn() -> I,
) -> Option<Vec<u8>> {
    let (mut count, mut len, mut next) = (0, 0, None::<u64>);
    for entry in entries() {
        count += 1;
        // Lengths below 2^32 take at most 5 bytes, most of them one; an expiry takes 6.
        len += entry.field.len() + entry.value.len() + 2;
        if let Some(at) = entry.expire_at {
            len += 6;
            next = Some(next.map_or(at, |next| next.min(at)));
        }
    }
    if count == 0 {
        return None;
    }
    let mut held = Head { number, count: if next.is_some() { 0 } else { count } }.begin(len);
    if let Some(next) = next {
        push_number(&mut held, count as u64);
        push_number(&mut held, next);
    }
    for Entry { field, value, expire_at } in entries() {
        push(&mut held, field);
        push(&mut held, value);
        if next.is_some() {
            push_number(&mut held, expire_at.unwrap_or(0));
        }
    }
    Some(held)
}
