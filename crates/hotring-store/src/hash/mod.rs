//! Hashes: fields and their values, a [`Type`] of container.
//!
//! A short hash has its fields and values one behind the other ([`crate::container::packed`]), a field and its value as
//! two parts, in the order in which the fields came, each once. A field takes two bytes besides, and reading or writing
//! one costs what walking over the hash costs. A long hash is a [`Fields`].

pub(crate) mod large;

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::container::packed::{Head, push, push_number, split, split_number};
use crate::container::{ContainerOptions, Parts, Type, Weight};
use crate::value::ValueRef;
use large::Fields;

/// With more fields than this in one operation, an index of them is quicker than a walk for each.
const WALKS_MAX: usize = 8;

/// A hash, borrowed for the length of a closure.
#[derive(Clone, Copy, Debug)]
pub struct HashRef<'a>(Form<'a>);

#[derive(Clone, Copy, Debug)]
enum Form<'a> {
    Packed(&'a [u8]),
    Large(&'a Fields),
}

/// A change of one field: its new value, or none to remove it.
pub(crate) type Change<'a> = (&'a [u8], Option<Cow<'a, [u8]>>);

/// What changes did to a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Fields that were not there before.
    pub(crate) added: usize,
    /// Fields that are not there any more.
    pub(crate) removed: usize,
    /// Fields that got a value, the same as before or another.
    pub(crate) set: usize,
}

/// The type.
pub(crate) enum Hash {}

/// Bytes that the lengths of a field and of its value take at most.
const LENS_MAX: usize = 10;

impl Type for Hash {
    type Ref<'a> = HashRef<'a>;
    type Parts = Fields;
    type Change<'c> = Change<'c>;
    type Tally = Tally;

    const KIND: u8 = 5;
    const KIND_LARGE: u8 = 4;

    fn packed(held: &[u8]) -> HashRef<'_> {
        HashRef(Form::Packed(held))
    }

    fn large(fields: &Fields) -> HashRef<'_> {
        HashRef(Form::Large(fields))
    }

    fn of_value(value: ValueRef<'_>) -> Option<HashRef<'_>> {
        match value {
            ValueRef::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    fn of_parts(parts: &Parts) -> Option<&Fields> {
        match parts {
            Parts::Hash(fields) => Some(fields),
            _ => None,
        }
    }

    fn of_parts_mut(parts: &mut Parts) -> Option<&mut Fields> {
        match parts {
            Parts::Hash(fields) => Some(fields),
            _ => None,
        }
    }

    fn packed_len_max(hash: HashRef<'_>) -> usize {
        match hash.0 {
            Form::Packed(held) => held.len(),
            Form::Large(fields) => fields.len_of_all() + LENS_MAX * fields.len(),
        }
    }

    fn weigh((field, value): &Change<'_>) -> Weight {
        let value_len = value.as_ref().map_or(0, |value| value.len());
        Weight {
            longest: field.len().max(value_len),
            len: field.len() + value_len + LENS_MAX,
            grows: value.is_some(),
        }
    }

    fn changed(hash: HashRef<'_>, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
        match changes {
            [(field, value)] => hash.changed_once(field, value.as_deref()),
            changes => hash.changed(changes),
        }
    }

    fn packs(held: &[u8], changes: &[Change<'_>], options: &ContainerOptions) -> bool {
        let len_max = options.hash.len();
        let fits = |(field, value): &Change<'_>| {
            value.as_ref().is_none_or(|value| field.len().max(value.len()) <= len_max)
        };
        Hash::packed(held).len() <= options.hash.entries() && changes.iter().all(fits)
    }

    fn unpack(held: &[u8], options: &ContainerOptions) -> Option<Parts> {
        let hash = Hash::packed(held);
        let fields = Fields::of(hash, options.keys);
        (fields.len() == hash.len()).then_some(Parts::Hash(fields))
    }

    fn apply(fields: &mut Fields, changes: &[Change<'_>]) -> Tally {
        fields.apply(changes)
    }

    fn emptied_by(fields: &Fields, changes: &[Change<'_>]) -> Option<Tally> {
        fields.emptied_by(changes)
    }

    fn is_nothing(tally: Tally) -> bool {
        tally.set + tally.removed == 0
    }

    /// Length of a field, the field, 0 or the length of its value and 1, the value.
    fn changes_to_bytes(changes: &[Change<'_>]) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(changes.iter().map(|change| Hash::weigh(change).len).sum());
        for (field, value) in changes {
            push(&mut bytes, field);
            push_number(&mut bytes, value.as_ref().map_or(0, |value| value.len() as u64 + 1));
            bytes.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        bytes
    }

    fn changes_from_bytes(mut bytes: &[u8]) -> Option<Vec<Change<'_>>> {
        let mut changes = Vec::new();
        while !bytes.is_empty() {
            let (field, behind) = split(bytes)?;
            let (len, behind) = split_number(behind)?;
            let len = usize::try_from(len).ok()?;
            let (value, behind) = behind.split_at_checked(len.saturating_sub(1))?;
            changes.push((field, (len > 0).then_some(value.into())));
            bytes = behind;
        }
        Some(changes)
    }
}

impl<'a> HashRef<'a> {
    /// The hash as it is held in one value; nothing of a large one.
    pub(crate) fn held(&self) -> &'a [u8] {
        match self.0 {
            Form::Packed(held) => held,
            Form::Large(_) => &[],
        }
    }

    /// Whether it is held as one value, field by field in the order in which they came.
    pub fn is_packed(&self) -> bool {
        matches!(self.0, Form::Packed(_))
    }

    /// Bytes that it is held in.
    pub fn footprint(&self) -> usize {
        match self.0 {
            Form::Packed(held) => held.len(),
            Form::Large(fields) => fields.footprint(),
        }
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        match self.0 {
            Form::Packed(held) => Head::split(held).0.count,
            Form::Large(fields) => fields.len(),
        }
    }

    /// Number of fields that a walk shows, also of a packed hash whose own number is damaged.
    pub fn count(&self) -> usize {
        if self.is_packed() { self.iter().count() } else { self.len() }
    }

    /// Whether it has no field, which no stored hash is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fields and their values: of a packed one in the order in which the fields came, of a large one in
    /// the order of their hashes.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let large = match self.0 {
            Form::Packed(_) => None,
            Form::Large(fields) => Some(fields.iter()),
        };
        pairs_of(self.held()).chain(large.into_iter().flatten())
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        match self.0 {
            Form::Packed(held) => {
                pairs_of(held).find(|(other, _)| *other == field).map(|(_, value)| value)
            }
            Form::Large(fields) => fields.get(field),
        }
    }

    /// Calls `f` with about `count` fields and their values from a cursor on, and returns the next cursor, 0 at
    /// the end. Begin with 0. A field that is there from the first call to the last is met. A packed hash is
    /// shown whole.
    pub fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&'a [u8], &'a [u8])) -> u64 {
        match self.0 {
            Form::Packed(held) => {
                pairs_of(held).for_each(|(field, value)| f(field, value));
                0
            }
            Form::Large(fields) => fields.scan(cursor, count, f),
        }
    }

    /// Calls `f` with the value of each of these fields, in their order.
    pub fn get_many(&self, fields: &[&[u8]], mut f: impl FnMut(Option<&'a [u8]>)) {
        if fields.len() <= WALKS_MAX || !self.is_packed() {
            return fields.iter().for_each(|field| f(self.get(field)));
        }
        let values: BTreeMap<_, _> = self.iter().collect();
        fields.iter().for_each(|field| f(values.get(field).copied()));
    }

    /// As [`changed`](Self::changed), of one field: what lies before and behind it is copied as it is.
    fn changed_once(&self, field: &[u8], value: Option<&[u8]>) -> (Tally, Option<Vec<u8>>) {
        let held = self.held();
        let (head, entries) = Head::split(held);
        let mut rest = entries;
        // The entry, if it is there, and what is behind it.
        let (mut before, mut behind, mut was_there) = (entries, &[][..], false);
        while let Some((other, at)) = split(rest) {
            let Some((_, next)) = split(at) else { break };
            if other == field {
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
        };
        let count = (head.count + tally.added).saturating_sub(tally.removed);
        if count == 0 {
            return (tally, None);
        }
        let more = value.map_or(0, |value| field.len() + value.len() + LENS_MAX);
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

    /// The packed hash after these changes, in their order; None if it has no field left.
    fn changed(&self, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
        let mut pairs: Vec<Pair<'_>> = Vec::with_capacity(self.len().min(self.held().len()) + 1);
        pairs.extend(self.iter().map(|(field, value)| (field, Some(value))));
        let mut places: BTreeMap<&[u8], usize> = BTreeMap::new();
        if changes.len() > WALKS_MAX {
            places.extend(pairs.iter().enumerate().map(|(i, (field, _))| (*field, i)));
        }
        let mut tally = Tally::default();
        for (field, value) in changes {
            let (field, value) = (*field, value.as_deref());
            let place = match changes.len() > WALKS_MAX {
                true => places.get(field).copied(),
                false => pairs.iter().position(|(other, _)| *other == field),
            };
            let was_there = place.is_some_and(|place| pairs[place].1.is_some());
            tally.added += usize::from(!was_there && value.is_some());
            tally.removed += usize::from(was_there && value.is_none());
            tally.set += usize::from(value.is_some());
            match place {
                Some(place) => pairs[place].1 = value,
                None => {
                    places.insert(field, pairs.len());
                    pairs.push((field, value));
                }
            }
        }
        (tally, encode(Head::split(self.held()).0.number + 1, &pairs))
    }
}

/// A field with its value, if it has one.
type Pair<'a> = (&'a [u8], Option<&'a [u8]>);

/// The fields and values of a packed hash.
fn pairs_of<'a>(held: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    let (_, mut rest) = Head::split(held);
    std::iter::from_fn(move || {
        let (field, behind) = split(rest)?;
        let (value, behind) = split(behind)?;
        rest = behind;
        Some((field, value))
    })
}

/// The form of a hash with these fields; None if none has a value.
fn encode(number: u64, pairs: &[Pair<'_>]) -> Option<Vec<u8>> {
    let present = || pairs.iter().filter_map(|(field, value)| Some((*field, (*value)?)));
    // Lengths below 2^32 take 5 bytes at most, most of them one.
    let len: usize = present().map(|(field, value)| field.len() + value.len() + 2).sum();
    let count = present().count();
    if count == 0 {
        return None;
    }
    let mut held = Head { number, count }.begin(len);
    for (field, value) in present() {
        push(&mut held, field);
        push(&mut held, value);
    }
    Some(held)
}

/// The packed form of a hash in a log of format 1: the number of fields was a u32, little endian.
pub(crate) fn from_format_1(held: &[u8]) -> Vec<u8> {
    let (count, entries) = held.split_first_chunk().unwrap_or((&[0; 4], &[]));
    let count = u32::from_le_bytes(*count) as usize;
    let mut held = Head { number: 0, count }.begin(entries.len());
    held.extend_from_slice(entries);
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(held: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        Hash::packed(held).iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect()
    }

    #[test]
    fn changes_take_place_in_their_order() {
        let set = |field: &'static [u8], value: &'static [u8]| (field, Some(Cow::Borrowed(value)));
        let (tally, held) =
            Hash::packed(&[]).changed(&[set(b"a", b"1"), set(b"b", b""), set(b"a", b"2")]);
        assert_eq!(tally, Tally { added: 2, removed: 0, set: 3 });
        let held = held.unwrap();
        assert_eq!(held.len(), 2 + 2 + 2 + 2 + 1);
        assert_eq!(pairs(&held), [(b"a".to_vec(), b"2".to_vec()), (b"b".to_vec(), vec![])]);
        let hash = Hash::packed(&held);
        assert_eq!((hash.len(), hash.get(b"b"), hash.get(b"c")), (2, Some(&b""[..]), None));

        let (tally, held) =
            hash.changed(&[(b"a", None), (b"a", None), (b"x", None), set(b"c", b"3")]);
        assert_eq!(tally, Tally { added: 1, removed: 1, set: 1 });
        assert_eq!(pairs(&held.unwrap()).len(), 2);
        assert!(hash.changed(&[(b"a", None), (b"b", None)]).1.is_none());
    }

    #[test]
    fn many_fields_are_changed_and_read_as_few_are() {
        let fields: Vec<Vec<u8>> = (0..300).map(|i| vec![b'f'; i]).collect();
        let all: Vec<Change<'_>> =
            fields.iter().map(|f| (&f[..], Some(Cow::Borrowed(&f[..])))).collect();
        let (many, mut few) = (Hash::packed(&[]).changed(&all).1.unwrap(), Vec::new());
        for change in all.chunks(WALKS_MAX) {
            few = Hash::packed(&few).changed(change).1.unwrap();
        }
        assert_eq!(pairs(&many), pairs(&few));
        assert_eq!(Hash::packed(&many).len(), 300);
        let keys: Vec<&[u8]> = fields.iter().map(|f| &f[..]).chain([&b"none"[..]]).collect();
        let mut values = Vec::new();
        Hash::packed(&many).get_many(&keys, |value| values.push(value));
        assert_eq!(values.pop(), Some(None));
        assert!(values.iter().zip(&fields).all(|(value, field)| *value == Some(&field[..])));
    }

    #[test]
    fn damaged_bytes_are_no_panic() {
        let long = [7u8; 200];
        let changes: [Change<'_>; 2] =
            [(b"a", Some(Cow::Borrowed(&long))), (b"bc", Some(Cow::Borrowed(b"de")))];
        let held = Hash::packed(&[]).changed(&changes).1.unwrap();
        for end in 0..held.len() {
            for i in 0..end {
                let mut damaged = held[..end].to_vec();
                damaged[i] ^= 0x81;
                let hash = Hash::packed(&damaged);
                assert!(hash.iter().count() <= damaged.len());
                hash.changed(&[(b"bc", None)]);
            }
        }
    }
}
