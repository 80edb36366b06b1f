//! How a hash lies in the index: as one value while it is short, its fields and their values one behind the
//! other, and as an object of its own once it is long ([`large`]).
//!
//! ```text
//!   number of fields u32 | length of a field, the field, length of its value, the value | ...
//! ```
//! The number is little endian; lengths take 7 bits a byte, lowest first, the highest bit set on all but
//! the last byte. Fields stand in the order in which they came, each once, and there is at least one: a
//! hash that loses its last field goes.
//!
//! So a field of a short hash takes two bytes besides, and reading or writing one costs what walking over
//! the hash costs. What lies there is read without trust: damaged lengths give wrong fields, not a panic.

pub(crate) mod large;
pub(crate) mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use hotring_index::{AnyIndex, NewValue};

use crate::value::KIND_HASH;
use large::Fields;

/// Length of the number of fields.
const HEAD_LEN: usize = 4;
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

impl Tally {
    /// Whether nothing was done.
    pub(crate) fn is_nothing(self) -> bool {
        self.set + self.removed == 0
    }
}

/// How hashes are held.
#[derive(Debug)]
pub(crate) struct HashOptions {
    /// Whether the index takes objects.
    pub(crate) takes_objects: bool,
    /// Keys of the hashes by which large hashes find their fields.
    pub(crate) keys: [u64; 2],
    fields_max: AtomicUsize,
    len_max: AtomicUsize,
}

impl HashOptions {
    pub(crate) fn new(takes_objects: bool, keys: [u64; 2]) -> HashOptions {
        let (fields_max, len_max) = (AtomicUsize::new(0), AtomicUsize::new(0));
        HashOptions { takes_objects, keys, fields_max, len_max }
    }

    /// Sets up to how many fields, of how many bytes each and as many a value, a hash is held as one value.
    pub(crate) fn set_packed_max(&self, fields: usize, len: usize) {
        // ORDERING: Relaxed, each is a limit on its own.
        self.fields_max.store(fields, Ordering::Relaxed);
        self.len_max.store(len, Ordering::Relaxed);
    }

    /// Whether a hash of this many fields is held as one value after these changes.
    fn packs(&self, fields: usize, changes: &[Change<'_>]) -> bool {
        if !self.takes_objects {
            return true;
        }
        // ORDERING: Relaxed, as where they are set.
        let fields_max = self.fields_max.load(Ordering::Relaxed);
        let len_max = self.len_max.load(Ordering::Relaxed);
        let fits = |(field, value): &Change<'_>| {
            value.as_ref().is_none_or(|value| field.len().max(value.len()) <= len_max)
        };
        fields <= fields_max && changes.iter().all(fits)
    }
}

impl<'a> HashRef<'a> {
    /// A hash without fields.
    pub(crate) const EMPTY: HashRef<'static> = HashRef(Form::Packed(&[]));

    pub(crate) fn packed(held: &'a [u8]) -> Self {
        HashRef(Form::Packed(held))
    }

    pub(crate) fn large(fields: &'a Fields) -> Self {
        HashRef(Form::Large(fields))
    }

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
            Form::Packed(held) => {
                held.first_chunk().map_or(0, |head| u32::from_le_bytes(*head) as usize)
            }
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

    /// The packed hash after these changes, in their order; None if it has no field left.
    pub(crate) fn changed(&self, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
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
        (tally, encode(&pairs))
    }
}

/// A field with its value, if it has one.
type Pair<'a> = (&'a [u8], Option<&'a [u8]>);

/// The fields and values of a packed hash.
fn pairs_of<'a>(held: &'a [u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
    let mut rest = held.get(HEAD_LEN..).unwrap_or_default();
    std::iter::from_fn(move || {
        let (field, behind) = split(rest)?;
        let (value, behind) = split(behind)?;
        rest = behind;
        Some((field, value))
    })
}

/// The form of a hash with these fields; None if none has a value.
fn encode(pairs: &[Pair<'_>]) -> Option<Vec<u8>> {
    let present = || pairs.iter().filter_map(|(field, value)| Some((*field, (*value)?)));
    // Lengths below 2^32 take 5 bytes at most, most of them one.
    let len: usize = present().map(|(field, value)| field.len() + value.len() + 2).sum();
    let mut held = Vec::with_capacity(HEAD_LEN + len);
    let count = u32::try_from(present().count()).ok().filter(|count| *count > 0)?;
    held.extend_from_slice(&count.to_le_bytes());
    for (field, value) in present() {
        push(&mut held, field);
        push(&mut held, value);
    }
    Some(held)
}

/// The value of a packed hash that these changes led to: as it is, or an object if it has become too long.
pub(crate) fn value_of(
    held: Vec<u8>,
    changes: &[Change<'_>],
    options: &HashOptions,
    index: &AnyIndex,
) -> NewValue<'static> {
    let hash = HashRef::packed(&held);
    if options.packs(hash.len(), changes) {
        return NewValue::Bytes { kind: KIND_HASH, bytes: held.into() };
    }
    large::new_value(Fields::of(hash, 0, options.keys), index)
}

fn push(held: &mut Vec<u8>, bytes: &[u8]) {
    push_len(held, bytes.len());
    held.extend_from_slice(bytes);
}

fn push_len(held: &mut Vec<u8>, mut len: usize) {
    while len >= 0x80 {
        // The lowest 7 bits.
        held.push(len as u8 | 0x80);
        len >>= 7;
    }
    held.push(len as u8);
}

/// The bytes behind a length, and the rest.
fn split(held: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, behind) = split_len(held)?;
    behind.split_at_checked(len)
}

/// A length, and what is behind it.
fn split_len(held: &[u8]) -> Option<(usize, &[u8])> {
    let mut len = 0usize;
    for (i, byte) in held.iter().enumerate().take(5) {
        len |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((len, &held[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(held: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        HashRef::packed(held).iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect()
    }

    #[test]
    fn changes_take_place_in_their_order() {
        let set = |field: &'static [u8], value: &'static [u8]| (field, Some(Cow::Borrowed(value)));
        let (tally, held) =
            HashRef::EMPTY.changed(&[set(b"a", b"1"), set(b"b", b""), set(b"a", b"2")]);
        assert_eq!(tally, Tally { added: 2, removed: 0, set: 3 });
        let held = held.unwrap();
        assert_eq!(held.len(), HEAD_LEN + 2 + 2 + 2 + 1);
        assert_eq!(pairs(&held), [(b"a".to_vec(), b"2".to_vec()), (b"b".to_vec(), vec![])]);
        let hash = HashRef::packed(&held);
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
        let (many, mut few) = (HashRef::EMPTY.changed(&all).1.unwrap(), Vec::new());
        for change in all.chunks(WALKS_MAX) {
            few = HashRef::packed(&few).changed(change).1.unwrap();
        }
        assert_eq!(many, few);
        assert_eq!(HashRef::packed(&many).len(), 300);
        let keys: Vec<&[u8]> = fields.iter().map(|f| &f[..]).chain([&b"none"[..]]).collect();
        let mut values = Vec::new();
        HashRef::packed(&many).get_many(&keys, |value| values.push(value));
        assert_eq!(values.pop(), Some(None));
        assert!(values.iter().zip(&fields).all(|(value, field)| *value == Some(&field[..])));
    }

    #[test]
    fn damaged_bytes_are_no_panic() {
        let long = [7u8; 200];
        let changes: [Change<'_>; 2] =
            [(b"a", Some(Cow::Borrowed(&long))), (b"bc", Some(Cow::Borrowed(b"de")))];
        let held = HashRef::EMPTY.changed(&changes).1.unwrap();
        for end in 0..held.len() {
            for i in 0..end {
                let mut damaged = held[..end].to_vec();
                damaged[i] ^= 0x81;
                let hash = HashRef::packed(&damaged);
                assert!(hash.iter().count() <= damaged.len());
                hash.changed(&[(b"bc", None)]);
            }
        }
    }
}
