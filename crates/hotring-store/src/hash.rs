//! How a hash lies in the index: as one value, its fields and their values one behind the other.
//!
//! ```text
//!   number of fields u32 | length of a field, the field, length of its value, the value | ...
//! ```
//! The number is little endian; lengths take 7 bits a byte, lowest first, the highest bit set on all but
//! the last byte. Fields stand in the order in which they came, each once, and there is at least one: a
//! hash that loses its last field goes.
//!
//! So a field with its value takes two bytes besides, and reading or writing one costs what walking over
//! the hash costs: this is for objects and sessions, not for tables. What lies there is read without
//! trust: damaged lengths give wrong fields, not a panic.

use std::collections::BTreeMap;

use hotring_index::NewValue;

use crate::value::KIND_HASH;

/// Length of the number of fields.
const HEAD_LEN: usize = 4;
/// With more fields than this in one operation, an index of them is quicker than a walk for each.
const WALKS_MAX: usize = 8;

/// A hash, borrowed for the length of a closure.
#[derive(Clone, Copy, Debug)]
pub struct HashRef<'a> {
    held: &'a [u8],
}

/// A change of one field: its new value, or none to remove it.
pub(crate) type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// What changes made of a hash.
pub(crate) struct Changed {
    /// Fields that were not there before.
    pub(crate) added: usize,
    /// Fields that are not there any more.
    pub(crate) removed: usize,
    /// The hash; None if it has no field left.
    pub(crate) value: Option<Vec<u8>>,
}

impl<'a> HashRef<'a> {
    /// A hash without fields.
    pub(crate) const EMPTY: HashRef<'static> = HashRef { held: &[] };

    pub(crate) fn new(held: &'a [u8]) -> Self {
        HashRef { held }
    }

    /// The hash as it is held.
    pub(crate) fn held(&self) -> &'a [u8] {
        self.held
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.held.first_chunk().map_or(0, |head| u32::from_le_bytes(*head) as usize)
    }

    /// Whether it has no field, which no stored hash is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fields and their values, in the order in which the fields came.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.held.get(HEAD_LEN..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (field, behind) = split(rest)?;
            let (value, behind) = split(behind)?;
            rest = behind;
            Some((field, value))
        })
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|(other, _)| *other == field).map(|(_, value)| value)
    }

    /// Calls `f` with the value of each of these fields, in their order.
    pub fn get_many(&self, fields: &[&[u8]], mut f: impl FnMut(Option<&'a [u8]>)) {
        if fields.len() <= WALKS_MAX {
            return fields.iter().for_each(|field| f(self.get(field)));
        }
        let values: BTreeMap<_, _> = self.iter().collect();
        fields.iter().for_each(|field| f(values.get(field).copied()));
    }

    /// The hash after these changes, in their order.
    pub(crate) fn changed(&self, changes: &[Change<'_>]) -> Changed {
        let mut pairs: Vec<Change<'_>> = Vec::with_capacity(self.len().min(self.held.len()) + 1);
        pairs.extend(self.iter().map(|(field, value)| (field, Some(value))));
        let mut places: BTreeMap<&[u8], usize> = BTreeMap::new();
        if changes.len() > WALKS_MAX {
            places.extend(pairs.iter().enumerate().map(|(i, (field, _))| (*field, i)));
        }
        let (mut added, mut removed) = (0, 0);
        for &(field, value) in changes {
            let place = match changes.len() > WALKS_MAX {
                true => places.get(field).copied(),
                false => pairs.iter().position(|(other, _)| *other == field),
            };
            let was_there = place.is_some_and(|place| pairs[place].1.is_some());
            added += usize::from(!was_there && value.is_some());
            removed += usize::from(was_there && value.is_none());
            match place {
                Some(place) => pairs[place].1 = value,
                None => {
                    places.insert(field, pairs.len());
                    pairs.push((field, value));
                }
            }
        }
        Changed { added, removed, value: encode(&pairs) }
    }
}

/// The form of a hash with these fields; None if none has a value.
fn encode(pairs: &[Change<'_>]) -> Option<Vec<u8>> {
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

/// The value that holds it.
pub(crate) fn value_of(held: Vec<u8>) -> NewValue<'static> {
    NewValue::Bytes { kind: KIND_HASH, bytes: held.into() }
}

fn push(held: &mut Vec<u8>, bytes: &[u8]) {
    let mut len = bytes.len();
    while len >= 0x80 {
        // The lowest 7 bits.
        held.push(len as u8 | 0x80);
        len >>= 7;
    }
    held.push(len as u8);
    held.extend_from_slice(bytes);
}

/// The bytes behind a length, and the rest.
fn split(held: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut len = 0usize;
    for (i, byte) in held.iter().enumerate().take(5) {
        len |= usize::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return held[i + 1..].split_at_checked(len);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(held: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        HashRef::new(held).iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect()
    }

    #[test]
    fn changes_take_place_in_their_order() {
        let changed =
            HashRef::EMPTY.changed(&[(b"a", Some(b"1")), (b"b", Some(b"")), (b"a", Some(b"2"))]);
        assert_eq!((changed.added, changed.removed), (2, 0));
        let held = changed.value.unwrap();
        assert_eq!(held.len(), HEAD_LEN + 2 + 2 + 2 + 1);
        assert_eq!(pairs(&held), [(b"a".to_vec(), b"2".to_vec()), (b"b".to_vec(), vec![])]);
        let hash = HashRef::new(&held);
        assert_eq!((hash.len(), hash.get(b"b"), hash.get(b"c")), (2, Some(&b""[..]), None));

        let changed = hash.changed(&[(b"a", None), (b"a", None), (b"x", None), (b"c", Some(b"3"))]);
        assert_eq!((changed.added, changed.removed), (1, 1));
        assert_eq!(pairs(&changed.value.unwrap()).len(), 2);
        assert!(hash.changed(&[(b"a", None), (b"b", None)]).value.is_none());
    }

    #[test]
    fn many_fields_are_changed_and_read_as_few_are() {
        let fields: Vec<Vec<u8>> = (0..300).map(|i| vec![b'f'; i]).collect();
        let all: Vec<Change<'_>> = fields.iter().map(|f| (&f[..], Some(&f[..]))).collect();
        let (many, mut few) = (HashRef::EMPTY.changed(&all).value.unwrap(), Vec::new());
        for change in all.chunks(WALKS_MAX) {
            few = HashRef::new(&few).changed(change).value.unwrap();
        }
        assert_eq!(many, few);
        assert_eq!(HashRef::new(&many).len(), 300);
        let keys: Vec<&[u8]> = fields.iter().map(|f| &f[..]).chain([&b"none"[..]]).collect();
        let mut values = Vec::new();
        HashRef::new(&many).get_many(&keys, |value| values.push(value));
        assert_eq!(values.pop(), Some(None));
        assert!(values.iter().zip(&fields).all(|(value, field)| *value == Some(&field[..])));
    }

    #[test]
    fn damaged_bytes_are_no_panic() {
        let long = [7u8; 200];
        let held = HashRef::EMPTY.changed(&[(b"a", Some(&long)), (b"bc", Some(b"de"))]);
        let held = held.value.unwrap();
        for end in 0..held.len() {
            for i in 0..end {
                let mut damaged = held[..end].to_vec();
                damaged[i] ^= 0x81;
                let hash = HashRef::new(&damaged);
                assert!(hash.iter().count() <= damaged.len());
                hash.changed(&[(b"bc", None)]);
            }
        }
    }
}
