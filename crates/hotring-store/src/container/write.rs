//! Writes of containers: a write replaces a packed container, and modifies a large one in place.

use hotring_containers::Remains;
use hotring_index::AnySession as Index;
use hotring_index::{Action, Block, BlockRef, Entry, Expiry, Key, NewValue, Value};
use hotring_log::{Effect, Records};

use super::detached::free_in_steps;
use super::large::{Large, value_of};
use super::packed::Head;
use super::{Changes, Contents, Decision, Objects, Type, due_first, of_packed_kind, write_text};
use crate::changes::Changed;
use crate::error::StoreError;
use crate::logged::push_put;
use crate::long_text::LongText;
use crate::session::Limits;
use crate::value::{view, view_string};
use crate::watch::Event;
use crate::write::{ActiveHooks, Write, has_elements};

/// A large container that a write has found, valid while the index shows its item.
#[derive(Clone, Copy)]
pub(super) struct FoundLarge<'a> {
    large: &'a Large,
    block: BlockRef<'a>,
    kind: u8,
    has_version: bool,
}

/// The log record of a write.
pub(super) enum WriteRecord {
    Put(NewValue<'static>),
    /// The container's number of changes after these, and the changes as [`tagged`] bytes.
    Change(u64, Vec<u8>),
    Remove,
}

impl WriteRecord {
    pub(super) fn push(&self, records: &mut Records, key: &[u8]) {
        match self {
            WriteRecord::Put(value) => push_put(records, key, value, None),
            WriteRecord::Change(number, change) => {
                records.push(&Effect::Change { key, number: *number, change });
            }
            WriteRecord::Remove => records.push(&Effect::Remove { key }),
        }
    }
}

/// Work that must wait until a decision has taken effect.
#[derive(Default)]
pub(super) struct Deferred {
    pub(super) record: Option<WriteRecord>,
    /// The new expiry of a part, if it is the earliest of the container.
    due: Option<u64>,
    in_place: Option<InPlace>,
}

/// The effect of a change on memory.
struct Resized {
    grown: usize,
    /// Detached parts, and their approximate size in bytes.
    cut: Option<(Remains, usize)>,
}

/// Work that remains after a large container was changed in place.
struct InPlace {
    /// Bytes by which the container has grown.
    grown: usize,
    /// The string that waiting sessions compare, if there are any.
    text: Option<Vec<u8>>,
    /// Whether clients may wait for elements of the container.
    has_elements: bool,
    /// The container's kind and block, if its item has a version that must be removed.
    versioned: Option<(u8, Block)>,
}

impl InPlace {
    fn finish(
        self,
        index: &mut Index,
        key: Key<'_>,
        stripe: u32,
        hooks: Option<ActiveHooks<'_>>,
        is_waited_for: bool,
        now: u64,
    ) {
        if self.grown > 0 {
            index.grew(self.grown);
        }
        if let Some((kind, block)) = self.versioned {
            forget_version(index, key, kind, &block, now);
        }
        let Some(mut hooks) = hooks else { return };
        if is_waited_for {
            let event = Event::Stored(self.text.as_deref());
            hooks.notify(stripe, key.bytes(), &event, self.has_elements);
        }
        hooks.record(key.bytes(), Changed::Stored { is_new: false, expires: false });
    }
}

/// The inputs of a write that are known before the container is found.
#[derive(Clone, Copy)]
pub(super) struct WriteInputs<'a> {
    pub(super) objects: Objects<'a>,
    pub(super) limits: Limits,
    is_logged: bool,
    /// Whether a session waits for the key.
    is_waited_for: bool,
}

impl Write<'_> {
    /// Decides on the key's container (an empty one if the key is absent) and makes the changes. `decide` may be called
    /// several times. The caller must hold the key's order lock.
    pub(crate) fn change_container<'c, T: Type, R>(
        mut self,
        objects: Objects<'_>,
        limits: Limits,
        now: u64,
        mut decide: impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
    ) -> Result<(T::Tally, R), StoreError> {
        // A decision on a large container changes it in place.
        if self.is_refused() {
            return Err(StoreError::ReadOnly);
        }
        let inputs = self.inputs(objects, limits);
        self.settle(inputs, now, |entry, deferred| {
            if let Some(found) = entry.and_then(FoundLarge::of) {
                return found.change::<T, R>(&inputs, deferred, &mut decide);
            }
            match run_packed::<T, R>(entry, &inputs, deferred, &mut decide) {
                Ok((action, done)) => (action, Ok(done)),
                Err(error) => (Action::Keep, Err(error)),
            }
        })
    }

    pub(super) fn inputs<'a>(&self, objects: Objects<'a>, limits: Limits) -> WriteInputs<'a> {
        let watchers = self.hooks.as_ref().map(|hooks| &hooks.all.watchers);
        let is_waited_for =
            watchers.is_some_and(|watchers| watchers.is_waited_for(self.stripe, self.key.bytes()));
        WriteInputs { objects, limits, is_logged: self.records.is_some(), is_waited_for }
    }

    /// Decides on the item, and does the remaining work of the decision. A decision that has changed a container in
    /// place returns [`Action::Keep`]: then `decide` is not called again.
    #[inline]
    pub(super) fn settle<R>(
        self,
        inputs: WriteInputs<'_>,
        now: u64,
        mut decide: impl FnMut(Option<&Entry<'_>>, &mut Deferred) -> (Action<'static>, R),
    ) -> R {
        let Write { index, key, stripe, wheels, mut records, mut hooks, lasting } = self;
        if let (Some(hooks), Some(records), true) = (&mut hooks, &mut records, lasting) {
            hooks.expire(index, wheels, key.bytes(), now, Some(records));
        }
        let damages = index.damages();
        let mut deferred = Deferred::default();
        let decide = |entry: Option<Entry<'_>>| {
            deferred = Deferred::default();
            decide(entry.as_ref(), &mut deferred)
        };
        let result = match hooks.as_mut().map(ActiveHooks::reborrow) {
            // A container's decision never gives the key an expiry, and no hash can have lost all its fields to expiry.
            None if !lasting && !wheels.have_fields() => index.update(key, now, decide),
            hooks => {
                let index = &mut *index;
                let write = Write { index, key, stripe, wheels, records: None, hooks, lasting };
                write.update(now, decide)
            }
        };
        let Deferred { record, due, in_place } = deferred;
        // A decision on a damaged item must not take effect.
        if let (Some(records), Some(record)) = (records, record)
            && index.damages() == damages
        {
            record.push(records, key.bytes());
        }
        if let Some(at) = due {
            wheels.enter_part(index.key_hash(key), at, now);
        }
        if let Some(in_place) = in_place {
            in_place.finish(index, key, stripe, hooks, inputs.is_waited_for, now);
        }
        result
    }

    /// Replays changes of the log, unless the container is newer. False if the bytes are not valid changes of its type.
    pub(crate) fn replay_changes(
        mut self,
        objects: Objects<'_>,
        number: u64,
        changes: &[u8],
    ) -> bool {
        if self.is_refused() {
            return true;
        }
        let Write { index, key, stripe, hooks, .. } = self;
        let Some((kind_large, changes)) = changes.split_last() else { return false };
        // At time 0 nothing has expired.
        let mut versioned = None;
        let replay = |found: FoundLarge<'_>| {
            versioned = found.has_version.then(|| (found.kind, found.block.to_block()));
            found.replay(objects, *kind_large, number, changes)
        };
        let in_place = index.peek(key, 0, |entry| FoundLarge::of(&entry).map(replay)).flatten();
        if let Some((kind, block)) = versioned {
            forget_version(index, key, kind, &block, 0);
        }
        let is_known = match in_place {
            Some(is_known) => is_known,
            None if *kind_large == LongText::KIND_LARGE => {
                write_text::replay(index, key, objects, number, changes)
            }
            None => replay_on_packed(index, key, objects, *kind_large, number, changes),
        };
        if let Some(hooks) = hooks {
            tell_replayed(hooks, index, stripe, key, *kind_large);
        }
        is_known
    }
}

/// Notifies waiters and observers of changes that were replayed.
#[cold]
fn tell_replayed(
    mut hooks: ActiveHooks<'_>,
    index: &mut Index,
    stripe: u32,
    key: Key<'_>,
    kind_large: u8,
) {
    let is_waited_for = hooks.all.watchers.is_waited_for(stripe, key.bytes());
    let text = |entry: Entry<'_>| view_string(&entry, |text| text.to_vec()).ok();
    // The key is absent if a later record removes it or stores it.
    let Some(text) = index.peek(key, 0, |entry| is_waited_for.then(|| text(entry)).flatten())
    else {
        return;
    };
    if is_waited_for {
        let event = Event::Stored(text.as_deref());
        hooks.notify(stripe, key.bytes(), &event, has_elements(kind_large));
    }
    hooks.record(key.bytes(), Changed::Stored { is_new: false, expires: false });
}

/// Replays changes to a packed container. False if the bytes are not valid changes of its type.
fn replay_on_packed(
    index: &mut Index,
    key: Key<'_>,
    objects: Objects<'_>,
    kind_large: u8,
    number: u64,
    changes: &[u8],
) -> bool {
    index.update(key, 0, |entry| {
        let packed = entry.as_ref().and_then(|entry| match entry.value {
            Value::Bytes { kind, bytes } => of_packed_kind!(kind, T => {
                match kind_large == T::KIND_LARGE {
                    true => replay_packed::<T>(bytes, number, changes, objects),
                    // The record is of an older container of another type.
                    false => Some(Action::Keep),
                }
            }),
            Value::Word { .. } => None,
        });
        match packed {
            // Absent or of another type: a later record stores the key.
            None => (Action::Keep, true),
            Some(None) => (Action::Keep, false),
            Some(Some(action)) => (action, true),
        }
    })
}

impl<'a> FoundLarge<'a> {
    pub(super) fn of(entry: &Entry<'a>) -> Option<FoundLarge<'a>> {
        let block = entry.block()?;
        let large = Large::of(block)?;
        let Value::Bytes { kind, .. } = entry.value else { return None };
        Some(FoundLarge { large, block, kind, has_version: entry.version.is_some() })
    }

    /// Decides on the container and changes it under the key's order lock: no other session writes it. A container that
    /// would lose all its parts is not changed but removed, so that no reader sees an empty one.
    pub(super) fn change<'c, T: Type, R>(
        self,
        inputs: &WriteInputs<'_>,
        deferred: &mut Deferred,
        decide: &mut impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
    ) -> Outcome<T, R> {
        let mut cut = None;
        let planned = |contents: &Contents| plan::<T, R>(contents, inputs.limits, decide);
        let result = self.large.update(planned, |contents, planned| {
            let Planned { due, changes, result } = planned;
            let (tally, resized) = self.resized(contents, |contents| contents.apply::<T>(&changes));
            cut = resized.cut;
            if !T::had_no_effect(tally) {
                let text = || T::text(T::of_parts(&contents.parts)?);
                let change = || WriteRecord::Change(contents.number, tagged::<T>(&changes));
                deferred.due = due;
                deferred.record = inputs.is_logged.then(change);
                deferred.in_place = Some(InPlace {
                    grown: resized.grown,
                    text: if inputs.is_waited_for { text() } else { None },
                    has_elements: has_elements(T::KIND),
                    versioned: self.has_version.then(|| (self.kind, self.block.to_block())),
                });
            }
            (Action::Keep, Ok((tally, result)))
        });
        free_in_steps(cut, inputs.objects.index);
        if matches!(result.0, Action::Remove) {
            deferred.record = inputs.is_logged.then_some(WriteRecord::Remove);
        }
        result
    }

    fn replay(self, objects: Objects<'_>, kind_large: u8, number: u64, changes: &[u8]) -> bool {
        let replay = |contents: &mut Contents| contents.replay(kind_large, number, changes);
        let (done, resized) = self.large.write(|contents| self.resized(contents, replay));
        free_in_steps(resized.cut, objects.index);
        done.is_some()
    }

    /// Runs `f`, and accounts for the memory by which the container grows or shrinks.
    fn resized<R>(
        self,
        contents: &mut Contents,
        f: impl FnOnce(&mut Contents) -> R,
    ) -> (R, Resized) {
        let before = contents.parts.footprint();
        let result = f(contents);
        let after = contents.parts.footprint();
        if after != before {
            self.block.set_object_bytes(after);
        }
        let lost = before.saturating_sub(after);
        let cut = contents.parts.take_cut().map(|cut| (cut, lost));
        (result, Resized { grown: after.saturating_sub(before), cut })
    }
}

/// The action on the item of a container, and the result of the write.
type Outcome<T, R> = (Action<'static>, Result<(<T as Type>::Tally, R), StoreError>);

/// Changes of a large container that are valid, and leave parts in it.
struct Planned<'c, T: Type, R> {
    due: Option<u64>,
    changes: Changes<'c, T::Change<'c>>,
    result: R,
}

/// Decides on the changes of a large container. `Err` is the outcome of a write that does not change the container.
fn plan<'c, T: Type, R>(
    contents: &Contents,
    limits: Limits,
    decide: &mut impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
) -> Result<Planned<'c, T, R>, Outcome<T, R>> {
    let refused = |error| (Action::Keep, Err(error));
    let parts = T::of_parts(&contents.parts).ok_or_else(|| refused(StoreError::WrongType))?;
    let container = T::large(parts);
    let (changes, result) = decide(container).map_err(refused)?;
    check::<T>(container, &changes, limits).map_err(refused)?;
    if let Some(tally) = T::emptied_by(parts, &changes) {
        return Err((Action::Remove, Ok((tally, result))));
    }
    Ok(Planned { due: due_first::<T>(container, &changes), changes, result })
}

/// Gives the key an item without a version, as every write does, so that version checks of the key notice the change.
#[cold]
pub(super) fn forget_version(index: &mut Index, key: Key<'_>, kind: u8, block: &Block, now: u64) {
    let large = Large::of(block.lend()).expect("it was that of a large container");
    index.update(key, now, |entry| {
        let is_same = entry.and_then(|entry| entry.block()).is_some_and(|block| large.is_of(block));
        let value = NewValue::Block { kind, block: block.clone() };
        let put = Action::Put { value, expiry: Expiry::Keep };
        (if is_same { put } else { Action::Keep }, ())
    });
}

/// Decides on a packed container, or an absent key.
fn run_packed<'c, T: Type, R>(
    entry: Option<&Entry<'_>>,
    inputs: &WriteInputs<'_>,
    deferred: &mut Deferred,
    decide: &mut impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
) -> Result<(Action<'static>, (T::Tally, R)), StoreError> {
    let Objects { index, options } = inputs.objects;
    let mut run = |container: T::Ref<'_>| {
        let (changes, result) = decide(container)?;
        check::<T>(container, &changes, inputs.limits)?;
        deferred.due = due_first::<T>(container, &changes);
        let (tally, held) = T::changed(container, &changes);
        let action = match held {
            _ if T::had_no_effect(tally) => Action::Keep,
            None => Action::Remove,
            Some(held) => {
                let value = value_of::<T>(held, &changes, options, index);
                Action::Put { value, expiry: Expiry::Keep }
            }
        };
        if inputs.is_logged {
            deferred.record = record_of::<T>(entry, &action, &changes);
        }
        Ok((action, (tally, result)))
    };
    match entry {
        None => run(T::packed(&[])),
        Some(entry) => view(entry.value, |value| {
            T::of_value(value).ok_or(StoreError::WrongType).and_then(&mut run)
        }),
    }
}

/// Encodes changes for the log: their bytes, followed by the kind of their container. Replay may find a newer
/// container of another type.
pub(super) fn tagged<T: Type>(changes: &[T::Change<'_>]) -> Vec<u8> {
    let mut bytes = T::changes_to_bytes(changes);
    bytes.push(T::KIND_LARGE);
    bytes
}

/// The log record of a decision.
fn record_of<T: Type>(
    entry: Option<&Entry<'_>>,
    action: &Action<'_>,
    changes: &[T::Change<'_>],
) -> Option<WriteRecord> {
    match (action, entry.map(|entry| entry.value)) {
        (Action::Put { value, .. }, None) => Some(WriteRecord::Put(match value {
            NewValue::Block { kind, block } => {
                NewValue::Block { kind: *kind, block: block.clone() }
            }
            value => crate::value::detach(value.as_value()),
        })),
        (Action::Put { .. }, Some(Value::Bytes { bytes, .. })) => {
            Some(WriteRecord::Change(Head::split(bytes).0.number + 1, tagged::<T>(changes)))
        }
        (Action::Remove, Some(_)) => Some(WriteRecord::Remove),
        _ => None,
    }
}

/// Applies changes of the log to a packed container. None if the bytes are not valid changes of this type.
fn replay_packed<T: Type>(
    held: &[u8],
    number: u64,
    changes: &[u8],
    objects: Objects<'_>,
) -> Option<Action<'static>> {
    let (head, _) = Head::split(held);
    if head.number >= number {
        return Some(Action::Keep);
    }
    let changes = T::changes_from_bytes(changes)?;
    let (_, held) = T::changed(T::packed(held), &changes);
    // A container that has lost its last part is removed by a record of its own.
    let Some(mut held) = held else { return Some(Action::Keep) };
    if head.number + 1 != number {
        // The record is older than this container, which a later record will remove.
        held = Head::renumbered(&held, number);
    }
    let value = value_of::<T>(held, &changes, objects.options, objects.index);
    Some(Action::Put { value, expiry: Expiry::Keep })
}

/// Upper bound on the bytes of a log record besides the container that it holds.
const HEAD_MAX: usize = 1 << 20;

/// Fails if a part is too long, if the changes do not fit into one log record, or if the container would not fit into
/// one after them.
pub(crate) fn check<T: Type>(
    container: T::Ref<'_>,
    changes: &[T::Change<'_>],
    limits: Limits,
) -> Result<(), StoreError> {
    let (mut sum, mut grows) = (0, false);
    for weight in changes.iter().map(T::weigh) {
        limits.check_value(weight.longest)?;
        sum += weight.len;
        grows |= weight.grows;
    }
    check_len(if grows { T::packed_len_max(container) + sum } else { sum })
}

/// Fails if a container of this length does not fit into one log record.
pub(crate) fn check_len(len: usize) -> Result<(), StoreError> {
    let len_max = u32::MAX as usize - HEAD_MAX;
    if len > len_max { Err(StoreError::ValueTooLong { len, len_max }) } else { Ok(()) }
}
