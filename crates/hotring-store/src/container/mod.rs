//! Values that have parts, which are changed one by one: hashes, and types like them.
//!
//! A container is held as one value while it is short ([`packed`]), and as an object of its own once it is long
//! ([`large`]): then a change costs its own size, not the container's. A type says by [`Type`] how its
//! parts are read and changed; how changes reach the index, the log and the observers is the same for all
//! ([`write`]).
//!
//! Each container counts its changes. The log has each change with its number: replay must skip a record older than
//! the container in the snapshot. A new container is in the log as a whole, and its removal is
//! there, too: a record that meets a younger container by mistake does no harm that lasts.

pub(crate) mod large;
pub(crate) mod packed;
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
    /// The contents of a large one. Clone: O(1).
    type Parts: 'static;
    /// A change of one part.
    type Change<'c>;
    /// The effect of changes.
    type Tally: Copy;

    /// Bytes kind of a packed one.
    const KIND: u8;
    /// Bytes kind of a large one.
    const KIND_LARGE: u8;

    /// As it is held in one value; an empty one, which no key holds, of no bytes.
    fn packed(held: &[u8]) -> Self::Ref<'_>;
    /// As it is in its object.
    fn large(parts: &Self::Parts) -> Self::Ref<'_>;
    /// The value, if it is of this type.
    fn of_value(value: ValueRef<'_>) -> Option<Self::Ref<'_>>;
    /// The parts, if they are of this type.
    fn of_parts(parts: &Parts) -> Option<&Self::Parts>;
    fn of_parts_mut(parts: &mut Parts) -> Option<&mut Self::Parts>;

    /// Bytes that the packed form takes at most.
    fn packed_len_max(container: Self::Ref<'_>) -> usize;
    /// The size that a change adds, for comparison with the limits.
    fn weigh(change: &Self::Change<'_>) -> Weight;
    /// The packed form after these changes, in their order, whose head has the number of changes and 1; None if nothing
    /// is left.
    fn changed(
        container: Self::Ref<'_>,
        changes: &[Self::Change<'_>],
    ) -> (Self::Tally, Option<Vec<u8>>);
    /// Whether the form that these changes led to is to stay one value.
    fn packs(held: &[u8], changes: &[Self::Change<'_>], options: &ContainerOptions) -> bool;
    /// The parts of a packed form. None if these are no such bytes.
    fn unpack(held: &[u8], options: &ContainerOptions) -> Option<Parts>;

    /// Makes changes, in their order.
    fn apply(parts: &mut Self::Parts, changes: &[Self::Change<'_>]) -> Self::Tally;
    /// The effect of changes that remove all parts; None if some stay.
    fn emptied_by(parts: &Self::Parts, changes: &[Self::Change<'_>]) -> Option<Self::Tally>;
    /// Whether nothing was done.
    fn is_nothing(tally: Self::Tally) -> bool;
    /// The string that those who wait for a value compare, if it is one.
    fn text(_: &Self::Parts) -> Option<Vec<u8>> {
        None
    }

    /// When a part of it expires, the first one to do so.
    fn due(_container: Self::Ref<'_>) -> Option<u64> {
        None
    }
    /// The earliest expiry that changes give to parts.
    fn due_of(_changes: &[Self::Change<'_>]) -> Option<u64> {
        None
    }

    /// Changes as bytes, for the log.
    fn changes_to_bytes(changes: &[Self::Change<'_>]) -> Vec<u8>;
    /// The same backwards. None if these are no such bytes.
    fn changes_from_bytes(bytes: &[u8]) -> Option<Vec<Self::Change<'_>>>;
}

/// Changes that were decided on, and the operation's result.
pub(crate) type Decision<'c, T, R> = Result<(Changes<'c, <T as Type>::Change<'c>>, R), StoreError>;

/// Changes that were decided on. Most operations make one, which takes no allocation.
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
    /// Bytes that it takes in a record of the log, at most.
    pub(crate) len: usize,
    /// Whether the container may grow by it.
    pub(crate) grows: bool,
}

/// A large container of any type. Clone: O(1).
#[derive(Clone)]
pub(crate) struct Contents {
    /// Changes so far.
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

    /// Bytes kind of a value that stands for them.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Parts::Hash(_) => Hash::KIND_LARGE,
            Parts::Set(_) => Set::KIND_LARGE,
            Parts::Text(_) => LongText::KIND_LARGE,
            Parts::List(_) => List::KIND_LARGE,
            Parts::Scored(_) => SortedSet::KIND_LARGE,
        }
    }

    /// Runs `f` with the value that they are.
    pub(crate) fn view<R>(&self, f: impl FnOnce(ValueRef<'_>) -> R) -> R {
        match self {
            Parts::Hash(fields) => f(ValueRef::Hash(Hash::large(fields))),
            Parts::Set(members) => f(ValueRef::Set(Set::large(members))),
            Parts::Text(chunks) => f(ValueRef::Text(LongText::large(chunks))),
            Parts::List(items) => f(ValueRef::List(List::large(items))),
            Parts::Scored(scores) => f(ValueRef::Scored(SortedSet::large(scores))),
        }
    }

    /// Parts cut off by changes, if they are too large to be freed at once.
    pub(crate) fn take_cut(&mut self) -> Option<Remains> {
        match self {
            Parts::List(items) => items.take_cut(),
            Parts::Scored(scores) => scores.take_cut(),
            Parts::Set(members) => members.take_cut(),
            Parts::Hash(_) | Parts::Text(_) => None,
        }
    }

    /// Takes the remains, for the caller to free. The contents are empty then.
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

    /// Replays the log's changes to a container of this kind, unless this one is younger or of another type. None
    /// if the bytes are no changes of its type. Writes at positions of a string may be repeated,
    /// as all that was written there later is in the log behind: a plain string, which has no number, becomes an object
    /// by it.
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

/// Calls `$call` of the type that a packed value's kind stands for; None if there is none.
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

/// The expiry that changes give to a part, if none has expired before: the timing wheel is told of it
/// ([`crate::wheel`]).
fn due_first<T: Type>(container: T::Ref<'_>, changes: &[T::Change<'_>]) -> Option<u64> {
    let at = T::due_of(changes)?;
    T::due(container).is_none_or(|due| at < due).then_some(at)
}

/// When the first part of a value expires, if any does.
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

/// Whether a value has a part whose time is not over, or none that expires. Otherwise the key is as good as absent:
/// the timing wheel will remove it.
#[inline(always)]
pub(crate) fn is_there(entry: &Entry<'_>, now: u64) -> bool {
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

/// Shows a container, for a short time: writers wait for it.
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

/// The parts of a packed form of this kind. None if these are no such bytes.
pub(crate) fn unpack(kind: u8, held: &[u8], options: &ContainerOptions) -> Option<Parts> {
    of_packed_kind!(kind, T => T::unpack(held, options)).flatten()
}

/// How containers are held.
#[derive(Debug)]
pub(crate) struct ContainerOptions {
    /// Whether the index takes objects. Otherwise all containers are packed.
    pub(crate) takes_objects: bool,
    /// Keys of the hashes by which large containers find their parts.
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
    /// Longest string that is plain after a change of a part of it.
    text_plain_max: AtomicUsize,
}

/// Up to where a type's containers are packed.
#[derive(Debug, Default)]
pub(crate) struct PackedMax {
    entries: AtomicUsize,
    len: AtomicUsize,
}

impl PackedMax {
    /// Up to this many entries, of up to this many bytes each part.
    pub(crate) fn set(&self, entries: usize, len: usize) {
        // ORDERING: Relaxed, each is a limit on its own.
        self.entries.store(entries, Ordering::Relaxed);
        self.len.store(len, Ordering::Relaxed);
    }

    pub(crate) fn entries(&self) -> usize {
        // ORDERING: Relaxed, as where it is set.
        self.entries.load(Ordering::Relaxed)
    }

    pub(crate) fn len(&self) -> usize {
        // ORDERING: Relaxed, as where it is set.
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

    /// Up to this length a string is plain; [`usize::MAX`] if all are.
    pub(crate) fn text_plain_max(&self) -> usize {
        // ORDERING: Relaxed, a limit on its own.
        self.text_plain_max.load(Ordering::Relaxed)
    }

    /// Sets that, where strings may be objects.
    pub(crate) fn set_text_plain_max(&self, len: usize) {
        // ORDERING: Relaxed, as where it is read.
        self.text_plain_max.store(len, Ordering::Relaxed);
    }
}

/// The means of a write to store and to change objects.
#[derive(Clone, Copy)]
pub(crate) struct Objects<'a> {
    pub(crate) index: &'a AnyIndex,
    pub(crate) options: &'a ContainerOptions,
}

#[cfg(test)]
mod tests;
