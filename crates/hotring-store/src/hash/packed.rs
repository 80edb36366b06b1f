//! The packed form of a hash. A hash with expiring fields is marked by a count of 0, which no other stored hash has:
//!
//! ```text
//!   number of changes | number of fields | field, value | ...
//!   number of changes | 0 | number of fields | earliest expiry | field, value, expiry or 0 | ...
//! ```

use std::collections::BTreeMap;

use super::{Change, HashRef, LEN_MAX, Tally, To, WALKS_MAX};
use crate::container::packed::{Head, is_same, push, push_number, split, split_number};

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
            let (field, behind) = split(rest)?;
            let (value, mut behind) = split(behind)?;
            let mut expire_at = None;
            if is_timed {
                let (at, after) = split_number(behind)?;
                (expire_at, behind) = (Some(at).filter(|at| *at > 0), after);
            }
            rest = behind;
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

impl HashRef<'_> {
    /// Like [`changed`](Self::changed), for one field of a hash without expiries: copies the other entries unchanged.
    pub(super) fn changed_by_one(
        &self,
        entries: &[u8],
        field: &[u8],
        value: Option<&[u8]>,
    ) -> (Tally, Option<Vec<u8>>) {
        let (head, _) = Head::split(self.held());
        let mut rest = entries;
        // The bytes before the field's entry and after it, if the field exists.
        let (mut before, mut behind, mut was_there) = (entries, &[][..], false);
        while let Some((other, at)) = split(rest) {
            let Some((_, next)) = split(at) else { break };
            if is_same(other, field) {
                before = &entries[..entries.len() - rest.len()];
                (behind, was_there) = (next, true);
                break;
            }
            rest = next;
        }
        let tally = Tally {
            added: usize::from(!was_there && value.is_some()),
            removed: usize::from(was_there && value.is_none()),
            set: usize::from(value.is_some()),
            timed: 0,
        };
        let count = (head.count + tally.added).saturating_sub(tally.removed);
        if count == 0 {
            return (tally, None);
        }
        let more = value.map_or(0, |value| field.len() + value.len() + 2 * LEN_MAX);
        let head = Head { number: head.number + 1, count };
        let mut held = head.begin(before.len() + more + behind.len());
        held.extend_from_slice(before);
        if let Some(value) = value {
            push(&mut held, field);
            push(&mut held, value);
        }
        held.extend_from_slice(behind);
        (tally, Some(held))
    }

    /// The packed form after these changes in their order; None if no field is left.
    pub(super) fn changed(&self, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
        let mut entries: Vec<Option<Entry<'_>>> =
            Vec::with_capacity(self.len().min(self.held().len()) + 1);
        entries.extend(self.entries().map(Some));
        let mut names: Vec<&[u8]> = self.entries().map(|entry| entry.field).collect();
        let mut positions: BTreeMap<&[u8], usize> = BTreeMap::new();
        if changes.len() > WALKS_MAX {
            positions.extend(names.iter().enumerate().map(|(i, field)| (*field, i)));
        }
        let mut tally = Tally::default();
        for (field, to) in changes {
            let field = *field;
            let position = match changes.len() > WALKS_MAX {
                true => positions.get(field).copied(),
                false => names.iter().position(|other| *other == field),
            };
            let old = position.and_then(|position| entries[position]);
            let new = tally.note(field, to, old);
            match position {
                Some(position) => entries[position] = new,
                None => {
                    positions.insert(field, entries.len());
                    names.push(field);
                    entries.push(new);
                }
            }
        }
        let number = Packed::of(self.held()).number + 1;
        (tally, encode(number, || entries.iter().flatten().copied()))
    }
}

impl Tally {
    /// Returns the entry after a change, and counts the effect.
    pub(super) fn note<'e>(
        &mut self,
        field: &'e [u8],
        to: &'e To<'_>,
        old: Option<Entry<'e>>,
    ) -> Option<Entry<'e>> {
        if let To::Expiry(expire_at) = to {
            self.timed += usize::from(old.is_some());
            return old.map(|old| Entry { expire_at: *expire_at, ..old });
        }
        let value = to.value();
        self.added += usize::from(old.is_none() && value.is_some());
        self.removed += usize::from(old.is_some() && value.is_none());
        self.set += usize::from(value.is_some());
        value.map(|value| Entry { field, value, expire_at: to.expire_at() })
    }
}
