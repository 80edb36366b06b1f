//! Large hashes: objects that are changed in place.
//!
//! An item has a share of the object in the place of its value ([`hotring_index::Object`]). Readers of the
//! fields and the one writer exclude each other by [`Shared`]; which writer is next is decided before, by the
//! key's order lock ([`crate::logged`]), so that a change, its record in the log, and the removal of a
//! hash that has lost its last field are one step to other writers.
//!
//! A clone of [`Fields`] takes O(1) and stays as it is: that is what walks over all fields and snapshots use.

use std::any::Any;
use std::cell::RefCell;
use std::hash::Hasher;
use std::sync::{Arc, LazyLock};

use hotring_containers::{Dict, Remains};
use hotring_index::{
    AnyIndex, Block, BlockRef, Entry, NewValue, Object, Shared, Visitor, Visitors,
};
use siphasher::sip::SipHasher13;

use super::{Change, HEAD_LEN, HashRef, Tally, push, push_len, split, split_len};
use crate::value::KIND_LARGE_HASH;

/// Bytes that are freed in one step, at least.
const FREE_STEP: usize = 1 << 20;
/// Bytes after which a part of a walk ends.
const SCAN_BYTES: usize = 1 << 20;

/// All threads that look at large hashes, of whatever store.
static VISITORS: LazyLock<Arc<Visitors>> = LazyLock::new(Visitors::new);

thread_local! {
    static VISITOR: RefCell<Visitor> = RefCell::new(VISITORS.visitor());
}

/// The fields of a large hash. Clone: O(1).
#[derive(Clone)]
pub(crate) struct Fields {
    dict: Dict,
    /// Keyed, so that clients cannot choose fields of one hash.
    hasher: SipHasher13,
    /// Changes so far, for the log: a record that is older than a snapshot's hash is not done again.
    pub(crate) number: u64,
    /// Bytes of all fields and values.
    len_of_all: usize,
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fields").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Fields {
    /// The fields of another hash, after this many changes.
    pub(crate) fn of(hash: HashRef<'_>, number: u64, [a, b]: [u64; 2]) -> Fields {
        let hasher = SipHasher13::new_with_keys(a, b);
        let mut fields = Fields { dict: Dict::new(), hasher, number, len_of_all: 0 };
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
        if !tally.is_nothing() {
            self.number += 1;
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

    /// As bytes, for the log and snapshots: the number u64, then the packed form.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Lengths of up to 127 bytes take one.
        let mut bytes = Vec::with_capacity(8 + HEAD_LEN + self.len_of_all + 2 * self.len());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        let count = u32::try_from(self.len()).expect("fields below 4 GiB together, two bytes each");
        bytes.extend_from_slice(&count.to_le_bytes());
        for (field, value) in self.iter() {
            push(&mut bytes, field);
            push(&mut bytes, value);
        }
        bytes
    }

    /// The same backwards. None if these are no such bytes.
    pub(crate) fn from_bytes(bytes: &[u8], keys: [u64; 2]) -> Option<Fields> {
        let (number, packed) = bytes.split_first_chunk()?;
        let hash = HashRef::packed(packed);
        let fields = Fields::of(hash, u64::from_le_bytes(*number), keys);
        (fields.len() == hash.len()).then_some(fields)
    }
}

/// What an item has a share of.
pub(crate) struct LargeHash {
    fields: Shared<Fields>,
    /// What is left to be freed, once it has gone.
    remains: Option<Remains>,
}

impl LargeHash {
    /// The large hash that a block stands for.
    pub(crate) fn of(block: BlockRef<'_>) -> Option<&LargeHash> {
        let object: &dyn Any = block.object()?;
        object.downcast_ref()
    }

    /// Reads the fields; a writer waits for `f`.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&Fields) -> R) -> R {
        VISITOR.with_borrow_mut(|visitor| self.fields.read(visitor, f))
    }

    /// Changes the fields. The caller has the key's order lock.
    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Fields) -> R) -> R {
        VISITOR.with_borrow_mut(|visitor| self.fields.write(visitor, f))
    }

    /// The fields as they are now, to be used for as long as one wants.
    pub(crate) fn snapshot(&self) -> Fields {
        self.read(Fields::clone)
    }

    /// Whether another block stands for the same object.
    pub(crate) fn is_of(&self, block: BlockRef<'_>) -> bool {
        LargeHash::of(block).is_some_and(|other| std::ptr::eq(self, other))
    }
}

impl Object for LargeHash {
    fn dismantle(&mut self) -> Option<usize> {
        if self.remains.is_none() {
            let dict = std::mem::take(&mut self.fields.get_mut().dict);
            self.remains = Some(dict.into_remains());
        }
        let remains = self.remains.as_mut()?;
        let mut freed = remains.free(1)?;
        while freed < FREE_STEP
            && let Some(more) = remains.free(1)
        {
            freed += more;
        }
        Some(freed)
    }
}

/// The large hash of an entry, if it has one.
pub(crate) fn of_entry<'a>(entry: &Entry<'a>) -> Option<&'a LargeHash> {
    LargeHash::of(entry.block()?)
}

/// A value that is a large hash with these fields.
pub(crate) fn new_value(fields: Fields, index: &AnyIndex) -> NewValue<'static> {
    let footprint = fields.footprint();
    let hash = LargeHash { fields: Shared::new(&VISITORS, fields), remains: None };
    NewValue::Block { kind: KIND_LARGE_HASH, block: index.object(Box::new(hash), footprint) }
}

/// Another value with the same fields, if the block is that of a large hash.
pub(crate) fn copy_of(block: &Block, index: &AnyIndex) -> Option<NewValue<'static>> {
    Some(new_value(LargeHash::of(block.lend())?.snapshot(), index))
}

/// Changes as bytes, for the log: length of a field, the field, 0 or the length of its value and 1, the value.
pub(crate) fn changes_to_bytes(changes: &[Change<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (field, value) in changes {
        push(&mut bytes, field);
        push_len(&mut bytes, value.as_ref().map_or(0, |value| value.len() + 1));
        bytes.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    bytes
}

/// The same backwards. None if these are no such bytes.
pub(crate) fn changes_from_bytes(mut bytes: &[u8]) -> Option<Vec<Change<'_>>> {
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let (field, behind) = split(bytes)?;
        let (len, behind) = split_len(behind)?;
        let (value, behind) = behind.split_at_checked(len.saturating_sub(1))?;
        changes.push((field, (len > 0).then_some(value.into())));
        bytes = behind;
    }
    Some(changes)
}
