//! Changes of a packed hash.

use std::collections::BTreeMap;

use super::packed::{Entry, Packed, encode};
use super::{Change, HashRef, LEN_MAX, Tally, To, WALKS_MAX};
use crate::container::packed::{Head, is_same, push, split};

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
        let (mut before, mut tail, mut was_there) = (entries, &[][..], false);
        while let Some((other, at)) = split(rest) {
            let Some((_, next)) = split(at) else { break };
            if is_same(other, field) {
                before = &entries[..entries.len() - rest.len()];
                (tail, was_there) = (next, true);
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
        let mut held = head.begin(before.len() + more + tail.len());
        held.extend_from_slice(before);
        if let Some(value) = value {
            push(&mut held, field);
            push(&mut held, value);
        }
        held.extend_from_slice(tail);
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
