//! Hashes: fields and their values, a [`Type`] of container.
//!
//! A short hash is packed ([`crate::container::packed`]): each field is followed by its value, in order of insertion,
//! and occurs once. The overhead is two bytes for most fields, and reading or writing a field costs a walk over the
//! hash. A long hash is a [`Fields`].
//!
//! Fields may expire. An expired field stays in the hash until it is removed, by a write of the hash or by the timing
//! wheel ([`crate::wheel`]); a [`HashRef`] shows only fields that have not expired.

pub(crate) mod change;
mod edit;
pub(crate) mod large;
mod packed;

use std::collections::BTreeMap;

use crate::container::packed::{Head, is_same};
use crate::container::{ContainerOptions, Parts, Type, Weight};
use crate::value::ValueRef;
pub(crate) use change::{Change, NewText, Tally, To};
use change::{push_change, split_change};
use large::Fields;
use packed::{Entry, Packed};

/// Number of fields in one operation above which an index of them is faster than a walk for each.
const WALKS_MAX: usize = 8;

/// A hash, borrowed for the length of a closure.
#[derive(Clone, Copy, Debug)]
pub struct HashRef<'a> {
    form: Form<'a>,
    /// Unix milliseconds. Fields that have expired by this time are not shown.
    now: u64,
}

#[derive(Clone, Copy, Debug)]
enum Form<'a> {
    Packed(&'a [u8]),
    Large(&'a Fields),
}

/// A hash's fields and their values by rank.
#[derive(Debug)]
pub struct ByRank<'a> {
    /// All fields, unless `large` is set.
    listed: Vec<(&'a [u8], &'a [u8])>,
    /// A large hash without expired fields.
    large: Option<&'a Fields>,
}

impl<'a> ByRank<'a> {
    /// Number of fields.
    pub fn len(&self) -> usize {
        self.large.map_or(self.listed.len(), Fields::len)
    }

    /// Whether there is no field.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The field at a rank and its value. None past the end. O(log n) for a large hash.
    pub fn get(&self, rank: usize) -> Option<(&'a [u8], &'a [u8])> {
        match self.large {
            Some(fields) => fields.of_rank(rank),
            None => self.listed.get(rank).copied(),
        }
    }
}

/// The type of hashes.
pub(crate) enum Hash {}

/// Maximum bytes of the lengths of a field and its value, and of its expiry.
const LENS_MAX: usize = 24;
/// Maximum bytes of one length.
const LEN_MAX: usize = 5;

impl Type for Hash {
    type Ref<'a> = HashRef<'a>;
    type Parts = Fields;
    type Change<'c> = Change<'c>;
    type Tally = Tally;

    const KIND: u8 = 5;
    const KIND_LARGE: u8 = 4;

    fn packed(held: &[u8]) -> HashRef<'_> {
        HashRef { form: Form::Packed(held), now: 0 }
    }

    fn large(fields: &Fields) -> HashRef<'_> {
        HashRef { form: Form::Large(fields), now: 0 }
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
        match hash.form {
            Form::Packed(held) => held.len(),
            Form::Large(fields) => fields.len_of_all() + LENS_MAX * fields.len(),
        }
    }

    fn weigh((field, to): &Change<'_>) -> Weight {
        let value_len = to.value().map_or(0, <[u8]>::len);
        Weight {
            // Removed fields were within the limits when they were added.
            longest: if *to == To::Removed { 0 } else { field.len().max(value_len) },
            len: field.len() + value_len + LENS_MAX,
            grows: *to != To::Removed,
        }
    }

    fn changed(hash: HashRef<'_>, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
        if let ([(field, to @ (To::Value(_) | To::Removed))], Some(entries)) =
            (changes, Packed::of(hash.held()).plain())
        {
            return hash.changed_by_one(entries, field, to.value());
        }
        hash.changed(changes)
    }

    fn packs(held: &[u8], changes: &[Change<'_>], options: &ContainerOptions) -> bool {
        let len_max = options.hash.len();
        let fits = |(field, to): &Change<'_>| {
            to.value().is_none_or(|value| field.len().max(value.len()) <= len_max)
        };
        Packed::of(held).count <= options.hash.entries() && changes.iter().all(fits)
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

    fn had_no_effect(tally: Tally) -> bool {
        tally.set + tally.removed + tally.timed == 0
    }

    fn changes_to_bytes(changes: &[Change<'_>]) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(changes.iter().map(|change| Hash::weigh(change).len).sum());
        changes.iter().for_each(|change| push_change(&mut bytes, change));
        bytes
    }

    fn changes_from_bytes(mut bytes: &[u8]) -> Option<Vec<Change<'_>>> {
        let mut changes = Vec::new();
        while !bytes.is_empty() {
            let (change, tail) = split_change(bytes)?;
            changes.push(change);
            bytes = tail;
        }
        Some(changes)
    }

    fn due(hash: HashRef<'_>) -> Option<u64> {
        hash.next_expiry()
    }

    fn due_of(changes: &[Change<'_>]) -> Option<u64> {
        changes.iter().filter_map(|(_, to)| to.expire_at()).min()
    }
}

impl<'a> HashRef<'a> {
    /// The packed form; empty for a large hash.
    pub(crate) fn held(&self) -> &'a [u8] {
        match self.form {
            Form::Packed(held) => held,
            Form::Large(_) => &[],
        }
    }

    /// Whether the hash is packed: stored as one value, field by field in order of insertion.
    pub fn is_packed(&self) -> bool {
        matches!(self.form, Form::Packed(_))
    }

    /// Memory of the hash, in bytes.
    pub fn footprint(&self) -> usize {
        match self.form {
            Form::Packed(held) => held.len(),
            Form::Large(fields) => fields.footprint(),
        }
    }

    /// The hash without the fields that have expired at `now`.
    pub(crate) fn at(self, now: u64) -> HashRef<'a> {
        HashRef { now, ..self }
    }

    /// The earliest expiry of a field, possibly in the past; None if no field expires.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        match self.form {
            Form::Packed(held) => Packed::of(held).next,
            Form::Large(fields) => fields.next_expiry(),
        }
    }

    /// Number of fields that have expired but not been removed.
    pub(crate) fn count_due(&self) -> usize {
        if self.next_expiry().is_none_or(|at| at > self.now) {
            return 0;
        }
        match self.form {
            Form::Packed(held) => {
                Packed::of(held).iter().filter(|entry| self.has_expired(entry)).count()
            }
            Form::Large(fields) => fields.count_due(self.now),
        }
    }

    /// Calls `f` with up to `max` expired fields.
    pub(crate) fn each_due(&self, max: usize, f: impl FnMut(&[u8])) {
        match self.form {
            Form::Packed(held) => {
                let due = Packed::of(held).iter().filter(|entry| self.has_expired(entry));
                due.take(max).map(|entry| entry.field).for_each(f);
            }
            Form::Large(fields) => fields.each_due(self.now, max, f),
        }
    }

    fn has_expired(&self, entry: &Entry<'_>) -> bool {
        entry.expire_at.is_some_and(|at| at <= self.now)
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        let all = match self.form {
            Form::Packed(held) => Packed::of(held).count,
            Form::Large(fields) => fields.len(),
        };
        all.saturating_sub(self.count_due())
    }

    /// Number of fields that a walk shows, even if the count of a packed hash is damaged.
    pub fn count(&self) -> usize {
        if self.is_packed() { self.iter().count() } else { self.len() }
    }

    /// Whether the hash shows no field. A stored hash has fields, but they may have expired.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a field has an expiry.
    pub fn expires(&self) -> bool {
        self.next_expiry().is_some()
    }

    /// The fields and their values: in order of insertion if the hash is packed, else in order of the fields' hashes.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.iter_with_expiry().map(|(field, value, _)| (field, value))
    }

    /// Like [`iter`](Self::iter), each with the Unix millisecond of its expiry, if it has one.
    pub fn iter_with_expiry(
        &self,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8], Option<u64>)> + use<'a> {
        let now = self.now;
        self.entries()
            .filter(move |entry| entry.expire_at.is_none_or(|at| at > now))
            .map(|entry| (entry.field, entry.value, entry.expire_at))
    }

    /// The fields and their values by rank, in the order of [`iter`](Self::iter).
    pub fn by_rank(&self) -> ByRank<'a> {
        match self.form {
            Form::Large(fields) if self.count_due() == 0 => {
                ByRank { listed: Vec::new(), large: Some(fields) }
            }
            _ => ByRank { listed: self.iter().collect(), large: None },
        }
    }

    /// All fields, including expired ones.
    fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let large = match self.form {
            Form::Packed(_) => None,
            Form::Large(fields) => Some(fields.iter()),
        };
        Packed::of(self.held()).iter().chain(large.into_iter().flatten())
    }

    /// The value of a field.
    #[inline]
    pub fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        self.get_with_expiry(field).map(|(value, _)| value)
    }

    /// The value of a field, and the Unix millisecond of its expiry, if it has one.
    #[inline]
    pub fn get_with_expiry(&self, field: &[u8]) -> Option<(&'a [u8], Option<u64>)> {
        let (value, expire_at) = match self.form {
            Form::Packed(held) => {
                let entry = Packed::of(held).iter().find(|entry| is_same(entry.field, field))?;
                (entry.value, entry.expire_at)
            }
            Form::Large(fields) => fields.get(field)?,
        };
        expire_at.is_none_or(|at| at > self.now).then_some((value, expire_at))
    }

    /// Calls `f` with about `count` fields and their values, starting at a cursor. Returns the next cursor, 0 at the
    /// end. The first cursor is 0. The calls together visit every field that exists from the first call to the last. A
    /// packed hash is visited in one call.
    pub fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&'a [u8], &'a [u8])) -> u64 {
        match self.form {
            Form::Packed(_) => {
                self.iter().for_each(|(field, value)| f(field, value));
                0
            }
            Form::Large(fields) => fields.scan(cursor, count, |entry| {
                if !self.has_expired(&entry) {
                    f(entry.field, entry.value);
                }
            }),
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
}

/// Converts a hash of log format 1, whose number of fields is a little-endian u32, to the packed form.
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
        let set = |field: &'static [u8], value: &'static [u8]| (field, To::Value(value.into()));
        let (tally, held) =
            Hash::packed(&[]).changed(&[set(b"a", b"1"), set(b"b", b""), set(b"a", b"2")]);
        assert_eq!(tally, Tally { added: 2, set: 3, ..Tally::default() });
        let held = held.unwrap();
        assert_eq!(held.len(), 2 + 2 + 2 + 2 + 1);
        assert_eq!(pairs(&held), [(b"a".to_vec(), b"2".to_vec()), (b"b".to_vec(), vec![])]);
        let hash = Hash::packed(&held);
        assert_eq!((hash.len(), hash.get(b"b"), hash.get(b"c")), (2, Some(&b""[..]), None));

        let (tally, held) = hash.changed(&[
            (b"a", To::Removed),
            (b"a", To::Removed),
            (b"x", To::Removed),
            set(b"c", b"3"),
        ]);
        assert_eq!(tally, Tally { added: 1, removed: 1, set: 1, timed: 0 });
        assert_eq!(pairs(&held.unwrap()).len(), 2);
        assert!(hash.changed(&[(b"a", To::Removed), (b"b", To::Removed)]).1.is_none());
    }

    #[test]
    fn many_fields_are_changed_and_read_as_few_are() {
        let fields: Vec<Vec<u8>> = (0..300).map(|i| vec![b'f'; i]).collect();
        let all: Vec<Change<'_>> =
            fields.iter().map(|f| (&f[..], To::Value((&f[..]).into()))).collect();
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
    fn damaged_bytes_never_panic() {
        let long = [7u8; 200];
        let changes: [Change<'_>; 2] =
            [(b"a", To::Value((&long[..]).into())), (b"bc", To::Value(b"de"[..].into()))];
        let held = Hash::packed(&[]).changed(&changes).1.unwrap();
        for end in 0..held.len() {
            for i in 0..end {
                let mut damaged = held[..end].to_vec();
                damaged[i] ^= 0x81;
                let hash = Hash::packed(&damaged);
                assert!(hash.iter().count() <= damaged.len());
                hash.changed(&[(b"bc", To::Removed)]);
            }
        }
    }
}
