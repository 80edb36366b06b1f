//! The fields of a large hash.

use std::hash::Hasher;

use hotring_containers::{Dict, Remains};
use siphasher::sip::SipHasher13;

use super::{Change, HashRef, Tally};
use crate::container::packed::{Head, push};

/// Bytes after which a part of a walk ends.
const SCAN_BYTES: usize = 1 << 20;

/// The fields of a large hash. Clone: O(1).
#[derive(Clone)]
pub(crate) struct Fields {
    dict: Dict,
    /// Keyed, so that clients cannot choose fields of one hash.
    hasher: SipHasher13,
    /// Bytes of all fields and values.
    len_of_all: usize,
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fields").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Fields {
    /// The fields of another hash.
    pub(crate) fn of(hash: HashRef<'_>, [a, b]: [u64; 2]) -> Fields {
        let hasher = SipHasher13::new_with_keys(a, b);
        let mut fields = Fields { dict: Dict::new(), hasher, len_of_all: 0 };
        for (field, value) in hash.iter() {
            fields.set(field, value);
        }
        fields
    }

    pub(crate) fn len(&self) -> usize {
        self.dict.len()
    }

    pub(crate) fn footprint(&self) -> usize {
        self.dict.footprint()
    }

    /// Bytes of all fields and values.
    pub(crate) fn len_of_all(&self) -> usize {
        self.len_of_all
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.dict.iter().map(|entry| (entry.key, entry.value))
    }

    pub(crate) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.dict.get(self.hash(field), field)
    }

    pub(crate) fn scan<'a>(
        &'a self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&'a [u8], &'a [u8]),
    ) -> u64 {
        let Ok(mut from) = u32::try_from(cursor) else { return 0 };
        let (mut met, mut bytes) = (0, 0);
        loop {
            // A leaf at a time: few long values are as much as many short ones.
            let next = self.dict.scan(from, 1, |entry| {
                met += 1;
                bytes += entry.key.len() + entry.value.len();
                f(entry.key, entry.value);
            });
            match next {
                None => return 0,
                Some(next) if met >= count || bytes >= SCAN_BYTES => return next.into(),
                Some(next) => from = next,
            }
        }
    }

    /// What changes will have done that take all fields away; None if some stay.
    pub(crate) fn emptied_by(&self, changes: &[Change<'_>]) -> Option<Tally> {
        if changes.len() < self.len() || changes.iter().any(|(_, value)| value.is_some()) {
            return None;
        }
        let mut after = self.clone();
        let tally = after.apply(changes);
        (after.len() == 0).then_some(tally)
    }

    /// Makes changes, in their order.
    pub(crate) fn apply(&mut self, changes: &[Change<'_>]) -> Tally {
        let mut tally = Tally::default();
        for (field, value) in changes {
            match value {
                Some(value) => {
                    tally.added += usize::from(self.set(field, value));
                    tally.set += 1;
                }
                None => tally.removed += usize::from(self.remove(field)),
            }
        }
        tally
    }

    fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        let hash = self.hash(field);
        let old = self.dict.replace(hash, field, value, <[u8]>::len);
        self.len_of_all += value.len();
        match old {
            Some(old) => self.len_of_all -= old,
            None => self.len_of_all += field.len(),
        }
        old.is_none()
    }

    fn remove(&mut self, field: &[u8]) -> bool {
        let hash = self.hash(field);
        let old = self.dict.take(hash, field, <[u8]>::len);
        self.len_of_all -= old.map_or(0, |value| value + field.len());
        old.is_some()
    }

    #[inline]
    fn hash(&self, field: &[u8]) -> u32 {
        let mut hasher = self.hasher;
        hasher.write(field);
        hasher.finish() as u32
    }

    /// The packed form.
    pub(crate) fn to_packed(&self, number: u64) -> Vec<u8> {
        // Lengths of up to 127 bytes take one.
        let head = Head { number, count: self.len() };
        let mut held = head.begin(self.len_of_all + 2 * self.len());
        for (field, value) in self.iter() {
            push(&mut held, field);
            push(&mut held, value);
        }
        held
    }

    /// What is left of them, to be freed. There are none then.
    pub(crate) fn take_remains(&mut self) -> Remains {
        self.len_of_all = 0;
        std::mem::take(&mut self.dict).into_remains()
    }
}
