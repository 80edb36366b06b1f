//! Containers: values that consist of parts and are changed part by part, such as hashes and lists.
//!
//! A short container is stored as one value ([`packed`]), a long one as an object of its own ([`large`]), so that a
//! change costs the size of the change, not of the container. Each type implements [`Type`], which says how its parts
//! are read and changed. The path of a change to the index, the log and the observers is the same for all ([`write`]).
//!
//! Each container counts its changes, and the log has each change with its number: replay must skip a record that is
//! older than the container in the snapshot. The creation of a container is logged in full, and so is its removal; so
//! replaying an old record on a younger container does no lasting harm.

pub(crate) mod detached;
pub(crate) mod large;
pub(crate) mod packed;
pub(crate) mod scan;
pub(crate) mod write;
mod write_text;

use std::ops::Deref;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use hotring_containers::Remains;
use hotring_index::{AnyIndex, BlockRef, Entry, Value};

use crate::error::StoreError;
use crate::hash::Hash;
use crate::hash::large::Fields;
use crate::list::List;
use crate::list::large::Items;
use crate::long_text::{Chunks, LongText, to_packed};
use crate::scored::SortedSet;
use crate::scored::large::Scores;
use crate::set::Set;
use crate::set::large::Members;
use crate::value::{ValueRef, view};

/// One type of container.
pub(crate) trait Type: Sized + 'static {
    /// A container, borrowed for the length of a closure.
    type Ref<'a>: Copy;
    /// The contents of a large container. Clone must be O(1).
    type Parts: 'static;
    /// A change of one part.
    type Change<'c>;
    /// The count of effects of changes.
    type Tally: Copy;

    /// Bytes kind of the packed form.
    const KIND: u8;
    /// Bytes kind of the large form.
    const KIND_LARGE: u8;

    /// A container in packed form. No bytes stand for an empty container, which no key holds.
    fn packed(held: &[u8]) -> Self::Ref<'_>;
    /// A container in large form.
    fn large(parts: &Self::Parts) -> Self::Ref<'_>;
    /// The value, if it is of this type.
    fn of_value(value: ValueRef<'_>) -> Option<Self::Ref<'_>>;
    /// The parts, if they are of this type.
    fn of_parts(parts: &Parts) -> Option<&Self::Parts>;
    fn of_parts_mut(parts: &mut Parts) -> Option<&mut Self::Parts>;

    /// Upper bound of the length of the packed form.
    fn packed_len_max(container: Self::Ref<'_>) -> usize;
    /// The size that a change adds, for comparison with the limits.
    fn weigh(change: &Self::Change<'_>) -> Weight;
    /// The packed form after these changes in their order, with the number of changes increased by 1; None if it is
    /// empty.
    fn changed(
        container: Self::Ref<'_>,
        changes: &[Self::Change<'_>],
    ) -> (Self::Tally, Option<Vec<u8>>);
    /// Whether the packed form that results from these changes stays one value.
    fn packs(held: &[u8], changes: &[Self::Change<'_>], options: &ContainerOptions) -> bool;
    /// Decodes a packed form. None if the bytes are invalid.
    fn unpack(held: &[u8], options: &ContainerOptions) -> Option<Parts>;

    /// Applies changes in their order.
    fn apply(parts: &mut Self::Parts, changes: &[Self::Change<'_>]) -> Self::Tally;
    /// The effect of changes that remove all parts; None if some parts stay.
    fn emptied_by(parts: &Self::Parts, changes: &[Self::Change<'_>]) -> Option<Self::Tally>;
    /// Whether the changes had no effect.
    fn had_no_effect(tally: Self::Tally) -> bool;
    /// The string that waiters compare, for a type that is a string.
    fn text(_: &Self::Parts) -> Option<Vec<u8>> {
        None
    }

    /// The earliest expiry of a part.
    fn due(_container: Self::Ref<'_>) -> Option<u64> {
        None
    }
    /// The earliest expiry that changes give to parts.
    fn due_of(_changes: &[Self::Change<'_>]) -> Option<u64> {
        None
    }

    /// Encodes changes for the log.
    fn changes_to_bytes(changes: &[Self::Change<'_>]) -> Vec<u8>;
    /// Decodes changes of the log. None if the bytes are invalid.
    fn changes_from_bytes(bytes: &[u8]) -> Option<Vec<Self::Change<'_>>>;
}

/// The changes that an operation has decided on, and its result.
pub(crate) type Decision<'c, T, R> = Result<(Changes<'c, <T as Type>::Change<'c>>, R), StoreError>;

/// The changes that an operation has decided on. Most operations make one, without an allocation.
pub(crate) enum Changes<'c, C> {
    One(C),
    Many(Vec<C>),
    Given(&'c [C]),
}

impl<C> Changes<'_, C> {
    pub(crate) const NONE: Self = Changes::Given(&[]);
}

impl<C> Deref for Changes<'_, C> {
    type Target = [C];

    #[inline]
    fn deref(&self) -> &[C] {
        match self {
            Changes::One(change) => slice::from_ref(change),
            Changes::Many(changes) => changes,
            Changes::Given(changes) => changes,
        }
    }
}

impl<C> FromIterator<C> for Changes<'_, C> {
    fn from_iter<I: IntoIterator<Item = C>>(changes: I) -> Self {
        Changes::Many(changes.into_iter().collect())
    }
}

impl<C> From<Option<C>> for Changes<'_, C> {
    fn from(change: Option<C>) -> Self {
        change.map_or(Changes::NONE, Changes::One)
    }
}

/// The size that a change adds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weight {
    /// Bytes of the longest part.
    pub(crate) longest: usize,
    /// Maximum bytes of the change in a log record.
    pub(crate) len: usize,
    /// Whether the change may make the container longer.
    pub(crate) grows: bool,
}

/// A large container of any type. Clone: O(1).
#[derive(Clone)]
pub(crate) struct Contents {
    /// Number of changes so far.
    pub(crate) number: u64,
    pub(crate) parts: Parts,
}

/// The contents of a large container.
#[derive(Clone)]
pub(crate) enum Parts {
    Hash(Fields),
    Set(Members),
    Text(Chunks),
    List(Items),
    Scored(Scores),
}

impl Parts {
    /// Bytes of memory.
    pub(crate) fn footprint(&self) -> usize {
        match self {
            Parts::Hash(fields) => fields.footprint(),
            Parts::Set(members) => members.footprint(),
            Parts::Text(chunks) => chunks.footprint(),
            Parts::List(items) => items.footprint(),
            Parts::Scored(scores) => scores.footprint(),
        }
    }

    /// Bytes of all parts, without the structure around them.
    pub(crate) fn len_of_all(&self) -> usize {
        match self {
            Parts::Hash(fields) => fields.len_of_all(),
            Parts::Set(members) => members.len_of_all(),
            Parts::Text(chunks) => chunks.len(),
            Parts::List(items) => items.footprint(),
            Parts::Scored(scores) => scores.len_of_all(),
        }
    }

    /// Bytes kind of a value with these contents.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Parts::Hash(_) => Hash::KIND_LARGE,
            Parts::Set(_) => Set::KIND_LARGE,
            Parts::Text(_) => LongText::KIND_LARGE,
            Parts::List(_) => List::KIND_LARGE,
            Parts::Scored(_) => SortedSet::KIND_LARGE,
        }
    }

    /// Calls `f` with these contents as a value.
    pub(crate) fn view<R>(&self, f: impl FnOnce(ValueRef<'_>) -> R) -> R {
        match self {
            Parts::Hash(fields) => f(ValueRef::Hash(Hash::large(fields))),
            Parts::Set(members) => f(ValueRef::Set(Set::large(members))),
            Parts::Text(chunks) => f(ValueRef::Text(LongText::large(chunks))),
            Parts::List(items) => f(ValueRef::List(List::large(items))),
            Parts::Scored(scores) => f(ValueRef::Scored(SortedSet::large(scores))),
        }
    }

    /// Takes the detached parts that were too many to be freed at once.
    pub(crate) fn take_cut(&mut self) -> Option<Remains> {
        match self {
            Parts::List(items) => items.take_cut(),
            Parts::Scored(scores) => scores.take_cut(),
            Parts::Set(members) => members.take_cut(),
            Parts::Hash(_) | Parts::Text(_) => None,
        }
    }

    /// Takes all nodes, for the caller to free, and leaves the contents empty.
    pub(crate) fn take_remains(&mut self) -> Remains {
        match self {
            Parts::Hash(fields) => fields.take_remains(),
            Parts::Set(members) => members.take_remains(),
            Parts::Text(chunks) => std::mem::take(chunks).into_remains(),
            Parts::List(items) => items.take_remains(),
            Parts::Scored(scores) => scores.take_remains(),
        }
    }
}

impl Contents {
    /// The packed form, for the log and snapshots.
    pub(crate) fn to_packed(&self) -> Vec<u8> {
        match &self.parts {
            Parts::Hash(fields) => fields.to_packed(self.number),
            Parts::Set(members) => members.to_packed(self.number),
            Parts::Text(chunks) => to_packed(chunks, self.number),
            Parts::List(items) => items.to_packed(self.number),
            Parts::Scored(scores) => scores.to_packed(self.number),
        }
    }

    /// Applies changes, and counts them as one change if they have an effect. The container must be of this type.
    pub(crate) fn apply<T: Type>(&mut self, changes: &[T::Change<'_>]) -> T::Tally {
        let parts = T::of_parts_mut(&mut self.parts).expect("a container of this type");
        let tally = T::apply(parts, changes);
        self.number += u64::from(!T::had_no_effect(tally));
        tally
    }

    /// Replays changes of the log, unless the container is younger or of another type. None if the bytes are no changes
    /// of its type. Writes to a string are replayed whatever the number, because a string that was plain has no number
    /// of changes. Repeating them is harmless: all later writes to the same positions follow in the log.
    pub(crate) fn replay(&mut self, kind_large: u8, number: u64, changes: &[u8]) -> Option<()> {
        let is_done = self.number >= number && kind_large != LongText::KIND_LARGE;
        if is_done || self.parts.kind() != kind_large {
            return Some(());
        }
        match &mut self.parts {
            Parts::Hash(fields) => _ = Hash::apply(fields, &Hash::changes_from_bytes(changes)?),
            Parts::List(items) => _ = List::apply(items, &List::changes_from_bytes(changes)?),
            Parts::Set(members) => _ = Set::apply(members, &Set::changes_from_bytes(changes)?),
            Parts::Text(chunks) => {
                LongText::apply(chunks, &LongText::changes_from_bytes(changes)?);
            }
            Parts::Scored(scores) => {
                SortedSet::apply(scores, &SortedSet::changes_from_bytes(changes)?);
            }
        }
        self.number = self.number.max(number);
        Some(())
    }
}

/// Evaluates `$call` with the type of a packed value's kind; None if the kind is not that of a packed container.
macro_rules! of_packed_kind {
    ($kind:expr, $T:ident => $call:expr) => {
        match $kind {
            <crate::hash::Hash as crate::container::Type>::KIND => {
                type $T = crate::hash::Hash;
                Some($call)
            }
            <crate::list::List as crate::container::Type>::KIND => {
                type $T = crate::list::List;
                Some($call)
            }
            <crate::set::Set as crate::container::Type>::KIND => {
                type $T = crate::set::Set;
                Some($call)
            }
            <crate::scored::SortedSet as crate::container::Type>::KIND => {
                type $T = crate::scored::SortedSet;
                Some($call)
            }
            _ => None,
        }
    };
}
pub(crate) use of_packed_kind;

/// The kind of a large container's packed form; None if the kind is not that of a large container.
pub(crate) fn packed_kind(kind_large: u8) -> Option<u8> {
    match kind_large {
        Hash::KIND_LARGE => Some(Hash::KIND),
        List::KIND_LARGE => Some(List::KIND),
        Set::KIND_LARGE => Some(Set::KIND),
        SortedSet::KIND_LARGE => Some(SortedSet::KIND),
        _ => None,
    }
}

/// The earliest expiry that changes give to parts, if it is before all present ones: it must be entered in the timing
/// wheel ([`crate::wheel`]).
fn due_first<T: Type>(container: T::Ref<'_>, changes: &[T::Change<'_>]) -> Option<u64> {
    let at = T::due_of(changes)?;
    T::due(container).is_none_or(|due| at < due).then_some(at)
}

/// The earliest expiry of the parts of a value, if any part expires.
pub(crate) fn due_of_value(value: Value<'_>, block: Option<BlockRef<'_>>) -> Option<u64> {
    match (value, block.and_then(large::Large::of)) {
        (_, Some(large)) => large.read(|contents| match &contents.parts {
            Parts::Hash(fields) => Hash::due(Hash::large(fields)),
            _ => None,
        }),
        (Value::Bytes { kind: Hash::KIND, bytes }, None) => Hash::due(Hash::packed(bytes)),
        _ => None,
    }
}

/// Whether a value has a part that has not expired, or expires never. Otherwise the key counts as absent, and the
/// timing wheel will remove it.
#[inline(always)]
pub(crate) fn is_present(entry: &Entry<'_>, now: u64) -> bool {
    match entry.value {
        Value::Bytes { kind: Hash::KIND | Hash::KIND_LARGE, .. } => has_parts(entry, now),
        _ => true,
    }
}

#[cold]
fn has_parts(entry: &Entry<'_>, now: u64) -> bool {
    let is_over = due_of_value(entry.value, entry.block()).is_some_and(|due| due <= now);
    !is_over || view_container::<Hash, _>(entry, |hash| !hash.at(now).is_empty()).unwrap_or(true)
}

/// Calls `f` with a container. Writers wait meanwhile, so `f` must be short.
///
/// # Errors
/// [`StoreError::WrongType`]
pub(crate) fn view_container<T: Type, R>(
    entry: &Entry<'_>,
    f: impl FnOnce(T::Ref<'_>) -> R,
) -> Result<R, StoreError> {
    if let Some(large) = large::of_entry(entry) {
        return large.read(|contents| {
            let parts = T::of_parts(&contents.parts).ok_or(StoreError::WrongType)?;
            Ok(f(T::large(parts)))
        });
    }
    view(entry.value, |value| Ok(f(T::of_value(value).ok_or(StoreError::WrongType)?)))
}

/// Decodes a packed form of this kind. None if the bytes are invalid.
pub(crate) fn unpack(kind: u8, held: &[u8], options: &ContainerOptions) -> Option<Parts> {
    of_packed_kind!(kind, T => T::unpack(held, options)).flatten()
}

/// Limits and settings of the two forms of containers.
#[derive(Debug)]
pub(crate) struct ContainerOptions {
    /// Whether the index takes objects. Otherwise all containers are packed.
    pub(crate) takes_objects: bool,
    /// Seed of the hash by which large containers find their parts.
    pub(crate) keys: [u64; 2],
    /// Largest packed hash.
    pub(crate) hash: PackedMax,
    /// Largest packed list: elements, and bytes of all.
    pub(crate) list: PackedMax,
    /// Largest packed set, if it has other members than integers.
    pub(crate) set: PackedMax,
    /// Largest packed set of integers.
    pub(crate) set_ints: PackedMax,
    /// Largest packed sorted set.
    pub(crate) scored: PackedMax,
    /// Maximum length of a string that stays plain after a partial change.
    text_plain_max: AtomicUsize,
}

/// Limits of the packed form of a type.
#[derive(Debug, Default)]
pub(crate) struct PackedMax {
    entries: AtomicUsize,
    len: AtomicUsize,
}

impl PackedMax {
    /// Sets the maximum number of entries, and the maximum bytes of a part.
    pub(crate) fn set(&self, entries: usize, len: usize) {
        // ORDERING: Relaxed; each limit is independent of other memory.
        self.entries.store(entries, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
    }

    pub(crate) fn entries(&self) -> usize {
        // ORDERING: Relaxed, as in `set`.
        self.entries.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        // ORDERING: Relaxed, as in `set`.
        self.len.load(Ordering::Relaxed)
    }
}

impl ContainerOptions {
    pub(crate) fn new(takes_objects: bool, keys: [u64; 2]) -> ContainerOptions {
        let text_plain_max = AtomicUsize::new(usize::MAX);
        ContainerOptions {
            takes_objects,
            keys,
            hash: PackedMax::default(),
            list: PackedMax::default(),
            set: PackedMax::default(),
            set_ints: PackedMax::default(),
            scored: PackedMax::default(),
            text_plain_max,
        }
    }

    /// Maximum length of a string that stays plain; [`usize::MAX`] if all strings do.
    pub(crate) fn text_plain_max(&self) -> usize {
        // ORDERING: Relaxed; the limit is independent of other memory.
        self.text_plain_max.load(Ordering::Relaxed)
    }

    /// Sets the limit of `text_plain_max`. The caller must have checked that strings may be objects.
    pub(crate) fn set_text_plain_max(&self, len: usize) {
        // ORDERING: Relaxed, as in `text_plain_max`.
        self.text_plain_max.store(len, Ordering::Relaxed);
    }
}

/// The index and the settings that a write needs to store and change objects.
#[derive(Clone, Copy)]
pub(crate) struct Objects<'a> {
    pub(crate) index: &'a AnyIndex,
    pub(crate) options: &'a ContainerOptions,
}

#[cfg(test)]
mod tests;
