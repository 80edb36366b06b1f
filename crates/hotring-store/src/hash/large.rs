//! The fields of a large hash.

use hotring_containers::{Dict, Remains, ScoredSet};
use siphasher::sip::SipHasher13;

use super::packed::{Entry, encode};
use super::{Change, HashRef, Tally, To};
use crate::container::scan::scan;

/// The fields of a large hash. Clone: O(1).
#[derive(Clone)]
pub(crate) struct Fields {
    dict: Dict,
    /// Keyed, so that clients cannot choose fields with colliding hashes.
    hasher: SipHasher13,
    /// Bytes of all fields and values.
    len_of_all: usize,
    /// The fields with an expiry, ordered by it; milliseconds are exact as an f64 score. None if there are none.
    expiries: Option<Box<ScoredSet>>,
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fields").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Fields {
    /// Copies the fields of another hash.
    pub(crate) fn of(hash: HashRef<'_>, [a, b]: [u64; 2]) -> Fields {
        let hasher = SipHasher13::new_with_keys(a, b);
        let mut fields = Fields { dict: Dict::new(), hasher, len_of_all: 0, expiries: None };
        for Entry { field, value, expire_at } in hash.entries() {
            fields.set(field, value, expire_at);
        }
        fields
    }

    pub(crate) fn len(&self) -> usize {
        self.dict.len()
    }

    pub(crate) fn footprint(&self) -> usize {
        self.dict.footprint() + self.expiries.as_ref().map_or(0, |expiries| expiries.footprint())
    }

    /// Bytes of all fields and values.
    pub(crate) fn len_of_all(&self) -> usize {
        self.len_of_all
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.dict.iter().map(|entry| self.entry(entry.key, entry.value))
    }

    fn entry<'a>(&self, field: &'a [u8], value: &'a [u8]) -> Entry<'a> {
        Entry { field, value, expire_at: self.expiry(field) }
    }

    fn expiry(&self, field: &[u8]) -> Option<u64> {
        let at = self.expiries.as_ref()?.score(self.hash(field), field)?;
        Some(at as u64)
    }

    /// A field's value and expiry.
    pub(crate) fn get(&self, field: &[u8]) -> Option<(&[u8], Option<u64>)> {
        let value = self.dict.get(self.hash(field), field)?;
        Some((value, self.expiry(field)))
    }

    /// The field at a rank in the order of a walk, and its value. None past the end.
    pub(crate) fn of_rank(&self, rank: usize) -> Option<(&[u8], &[u8])> {
        self.dict.entry_of_rank(rank).map(|entry| (entry.key, entry.value))
    }

    /// The earliest expiry of a field; it may be over.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let first = self.expiries.as_ref()?.iter_from(0).next()?;
        Some(first.score as u64)
    }

    /// Number of fields that have expired at `now`.
    pub(crate) fn count_due(&self, now: u64) -> usize {
        let due = |all: &ScoredSet| all.count_before(|scored| scored.score <= now as f64);
        self.expiries.as_ref().map_or(0, |all| due(all))
    }

    /// Calls `f` with up to `max` expired fields.
    pub(crate) fn each_due(&self, now: u64, max: usize, mut f: impl FnMut(&[u8])) {
        let Some(all) = &self.expiries else { return };
        let due = all.iter_from(0).take_while(|scored| scored.score <= now as f64);
        due.take(max).for_each(|scored| f(scored.member));
    }

    pub(crate) fn scan<'a>(
        &'a self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(Entry<'a>),
    ) -> u64 {
        scan(cursor, count, |from, visited| {
            // Visits one leaf per call.
            self.dict.scan(from, 1, |entry| {
                visited.add(entry.key.len() + entry.value.len());
                f(self.entry(entry.key, entry.value));
            })
        })
    }

    /// The effect of changes that remove all fields; None if some stay.
    pub(crate) fn emptied_by(&self, changes: &[Change<'_>]) -> Option<Tally> {
        if changes.len() < self.len() || changes.iter().any(|(_, to)| *to != To::Removed) {
            return None;
        }
        let mut after = self.clone();
        let tally = after.apply(changes);
        (after.len() == 0).then_some(tally)
    }

    /// Applies changes in their order.
    pub(crate) fn apply(&mut self, changes: &[Change<'_>]) -> Tally {
        let mut tally = Tally::default();
        for (field, to) in changes {
            match to {
                To::Value(value) | To::Until(value, _) => {
                    tally.added += usize::from(self.set(field, value, to.expire_at()));
                    tally.set += 1;
                }
                To::Removed => tally.removed += usize::from(self.remove(field)),
                To::Expiry(at) => {
                    let hash = self.hash(field);
                    if self.dict.get(hash, field).is_some() {
                        self.set_expiry(hash, field, *at);
                        tally.timed += 1;
                    }
                }
            }
        }
        tally
    }

    fn set(&mut self, field: &[u8], value: &[u8], expire_at: Option<u64>) -> bool {
        let hash = self.hash(field);
        let old = self.dict.replace(hash, field, value, <[u8]>::len);
        self.len_of_all += value.len();
        match old {
            Some(old) => self.len_of_all -= old,
            None => self.len_of_all += field.len(),
        }
        self.set_expiry(hash, field, expire_at);
        old.is_none()
    }

    fn remove(&mut self, field: &[u8]) -> bool {
        let hash = self.hash(field);
        let old = self.dict.take(hash, field, <[u8]>::len);
        self.len_of_all -= old.map_or(0, |value| value + field.len());
        self.set_expiry(hash, field, None);
        old.is_some()
    }

    fn set_expiry(&mut self, hash: u32, field: &[u8], at: Option<u64>) {
        match (&mut self.expiries, at) {
            (None, None) => {}
            (expiries, Some(at)) => {
                expiries.get_or_insert_default().insert(hash, field, at as f64);
            }
            (Some(expiries), None) => {
                expiries.remove(hash, field);
                if expiries.is_empty() {
                    self.expiries = None;
                }
            }
        }
    }

    #[inline]
    fn hash(&self, field: &[u8]) -> u32 {
        self.hasher.hash(field) as u32
    }

    /// Encodes the packed form.
    pub(crate) fn to_packed(&self, number: u64) -> Vec<u8> {
        encode(number, || self.iter()).unwrap_or_default()
    }

    /// Takes all nodes, for the caller to free, and leaves no fields.
    pub(crate) fn take_remains(&mut self) -> Remains {
        self.len_of_all = 0;
        let remains = std::mem::take(&mut self.dict).into_remains();
        match self.expiries.take() {
            Some(expiries) => remains.and(expiries.into_remains()),
            None => remains,
        }
    }
}
