//! A write of a container: of a packed one by storing another in its place, of a large one in place.

use std::borrow::Cow;

use hotring_index::AnySession as Index;
use hotring_index::{Action, Block, Entry, Expiry, Key, NewValue, Value};
use hotring_log::{Effect, Records};

use super::large::{self, Large, value_of};
use super::packed::Head;
use super::{Contents, Decision, Objects, Type, due_first, of_packed_kind, write_text};
use crate::changes::Changed;
use crate::error::StoreError;
use crate::logged::push_put;
use crate::long_text::LongText;
use crate::session::Limits;
use crate::value::view;
use crate::watch::Event;
use crate::write::{Write, enter, has_elements};

/// A large container that a write has met.
pub(super) struct Met {
    block: Block,
    kind: u8,
    has_version: bool,
}

/// What a write leaves in the log.
pub(super) enum Logs {
    Put(NewValue<'static>),
    /// The number of changes that there are then, and the last ones as [`tagged`] bytes.
    Change(u64, Vec<u8>),
    Remove,
}

impl Logs {
    pub(super) fn push(&self, records: &mut Records, key: &[u8]) {
        match self {
            Logs::Put(value) => push_put(records, key, value, None),
            Logs::Change(number, change) => {
                records.push(&Effect::Change { key, number: *number, change });
            }
            Logs::Remove => records.push(&Effect::Remove { key }),
        }
    }
}

/// What became of a container.
pub(super) enum Outcome<T: Type, R> {
    Done(T::Tally, R),
    /// Nothing: the key holds this one, which changes in place.
    Large(Met),
    /// Nothing: the key held another value by then.
    Gone,
}

impl Write<'_> {
    /// Decides on the container that the key holds, an empty one if it is absent, and makes the changes. `decide` may
    /// be called several times. The caller has the key's order lock.
    pub(crate) fn change_container<'c, T: Type, R>(
        mut self,
        objects: Objects<'_>,
        limits: Limits,
        now: u64,
        mut decide: impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
    ) -> Result<(T::Tally, R), StoreError> {
        loop {
            let outcome = self.again().change_packed::<T, R>(objects, limits, now, &mut decide)?;
            let met = match outcome {
                Outcome::Done(tally, result) => return Ok((tally, result)),
                Outcome::Large(met) => met,
                Outcome::Gone => continue,
            };
            let write = self.again();
            match write.change_in_place::<T, R>(objects, &met, limits, now, &mut decide)? {
                Outcome::Done(tally, result) => return Ok((tally, result)),
                Outcome::Large(_) | Outcome::Gone => {}
            }
        }
    }

    /// Changes a packed container, or creates one.
    fn change_packed<'c, T: Type, R>(
        self,
        objects: Objects<'_>,
        limits: Limits,
        now: u64,
        decide: &mut impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
    ) -> Result<Outcome<T, R>, StoreError> {
        let Write { index, key, stripe, wheels, records, hooks } = self;
        let (damages, is_logged) = (index.damages(), records.is_some());
        let (mut logs, mut due) = (None, None);
        let write = Write { index: &mut *index, key, stripe, wheels, records: None, hooks };
        let outcome = write.update(now, |entry| {
            (logs, due) = (None, None);
            if let Some(met) = entry.as_ref().and_then(Met::of) {
                return (Action::Keep, Ok(Outcome::Large(met)));
            }
            let decided = run_packed::<T, R>(entry.as_ref(), objects, limits, decide);
            let Decided { action, changes, tally, result, due: first } = match decided {
                Ok(decided) => decided,
                Err(error) => return (Action::Keep, Err(error)),
            };
            due = first;
            if is_logged {
                logs = logs_of::<T>(entry.as_ref(), &action, &changes);
            }
            (action, Ok(Outcome::Done(tally, result)))
        });
        // What was decided on a damaged item is left undone.
        if let (Some(records), Some(logs)) = (records, logs)
            && index.damages() == damages
        {
            logs.push(records, key.bytes());
        }
        if let Some(at) = due {
            enter(wheels, index, key, at, now);
        }
        outcome
    }

    /// Changes a large container, in the key's order.
    pub(super) fn change_in_place<'c, T: Type, R>(
        self,
        objects: Objects<'_>,
        met: &Met,
        limits: Limits,
        now: u64,
        decide: &mut impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
    ) -> Result<Outcome<T, R>, StoreError> {
        let Write { index, key, stripe, wheels, records, hooks } = self;
        // No other session writes it, so what is decided on is what is changed.
        let (changes, result, emptied, due) = met.large().read(|contents| {
            let parts = T::of_parts(&contents.parts).ok_or(StoreError::WrongType)?;
            let (changes, result) = decide(T::large(parts))?;
            check::<T>(T::large(parts), &changes, limits)?;
            let emptied = T::emptied_by(parts, &changes);
            let due = due_first::<T>(T::large(parts), &changes);
            Ok::<_, StoreError>((changes, result, emptied, due))
        })?;
        let (tally, logs, event, what) = match emptied {
            // The container stays as it is, and goes in one step: no reader sees an empty one.
            Some(tally) => {
                if !met.remove(index, key, now) {
                    return Ok(Outcome::Gone);
                }
                (tally, Logs::Remove, Event::Removed, Changed::Removed)
            }
            None => {
                let (tally, number, grown) = met.change::<T>(objects, &changes);
                if T::is_nothing(tally) {
                    return Ok(Outcome::Done(tally, result));
                }
                index.grew(grown);
                met.forget_version(index, key, now);
                let stored = Changed::Stored { is_new: false, expires: false };
                let logged = records.as_ref().map(|_| tagged::<T>(&changes));
                let logs = Logs::Change(number, logged.unwrap_or_default());
                (tally, logs, Event::Stored(None), stored)
            }
        };
        if let Some(records) = records {
            logs.push(records, key.bytes());
        }
        if let Some(at) = due {
            enter(wheels, index, key, at, now);
        }
        if let Some(mut hooks) = hooks {
            let (watchers, mut text) = (&hooks.all.watchers, None);
            if matches!(event, Event::Stored(_)) && watchers.is_waited_for(stripe, key.bytes()) {
                text = met.large().read(|contents| T::text(T::of_parts(&contents.parts)?));
            }
            let event = if text.is_some() { Event::Stored(text.as_deref()) } else { event };
            hooks.tell(stripe, key.bytes(), &event, has_elements(T::KIND));
            hooks.record(key.bytes(), what);
        }
        Ok(Outcome::Done(tally, result))
    }

    /// Does again what the log says of a container, unless the container is younger than that. False if the bytes are
    /// no changes of it.
    pub(crate) fn replay_changes(self, objects: Objects<'_>, number: u64, changes: &[u8]) -> bool {
        let Write { index, key, .. } = self;
        let Some((kind_large, changes)) = changes.split_last() else { return false };
        // At time 0 nothing has expired.
        if let Some(met) = index.peek(key, 0, |entry| Met::of(&entry)).flatten() {
            return met.replay(objects, *kind_large, number, changes);
        }
        if *kind_large == LongText::KIND_LARGE {
            return write_text::replay(index, key, objects, number, changes);
        }
        index.update(key, 0, |entry| {
            let packed = entry.as_ref().and_then(|entry| match entry.value {
                Value::Bytes { kind, bytes } => of_packed_kind!(kind, T => {
                    match *kind_large == T::KIND_LARGE {
                        true => replay_packed::<T>(bytes, number, changes, objects),
                        // Of an older container, of another type.
                        false => Some(Action::Keep),
                    }
                }),
                Value::Word { .. } => None,
            });
            match packed {
                // Absent, or something else: what stored it is in the log behind.
                None => (Action::Keep, true),
                Some(None) => (Action::Keep, false),
                Some(Some(action)) => (action, true),
            }
        })
    }

    /// The same write, for one of several steps.
    pub(super) fn again(&mut self) -> Write<'_> {
        Write {
            index: &mut *self.index,
            key: self.key,
            stripe: self.stripe,
            wheels: self.wheels,
            records: self.records.as_deref_mut(),
            hooks: self.hooks.as_mut().map(|hooks| hooks.again()),
        }
    }
}

impl Met {
    pub(super) fn of(entry: &Entry<'_>) -> Option<Met> {
        large::of_entry(entry)?;
        let Value::Bytes { kind, .. } = entry.value else { return None };
        Some(Met { block: entry.block()?.to_block(), kind, has_version: entry.version.is_some() })
    }

    fn large(&self) -> &Large {
        Large::of(self.block.lend()).expect("it was that of a large container")
    }

    /// Makes changes, and returns what they did, the number of the last one, and by how much the container has grown.
    fn change<T: Type>(
        &self,
        objects: Objects<'_>,
        changes: &[T::Change<'_>],
    ) -> (T::Tally, u64, usize) {
        let ((tally, number), grown) = self.write(objects, |contents| {
            let parts = T::of_parts_mut(&mut contents.parts).expect("its type was looked at");
            let tally = T::apply(parts, changes);
            contents.number += u64::from(!T::is_nothing(tally));
            (tally, contents.number)
        });
        (tally, number, grown)
    }

    fn replay(&self, objects: Objects<'_>, kind_large: u8, number: u64, changes: &[u8]) -> bool {
        let (done, _) =
            self.write(objects, |contents| contents.replay(kind_large, number, changes));
        done.is_some()
    }

    /// Runs `f`, and returns by how much the container has grown, too.
    fn write<R>(&self, objects: Objects<'_>, f: impl FnOnce(&mut Contents) -> R) -> (R, usize) {
        let (result, cut, before, after) = self.large().write(|contents| {
            let before = contents.parts.footprint();
            let result = f(contents);
            (result, contents.parts.take_cut(), before, contents.parts.footprint())
        });
        self.block.lend().set_object_bytes(after);
        large::free_in_steps(cut, before.saturating_sub(after), objects.index);
        (result, after.saturating_sub(before))
    }

    fn is_of(&self, entry: &Entry<'_>) -> bool {
        entry.block().is_some_and(|block| self.large().is_of(block))
    }

    /// Removes the key; false if it holds something else by now.
    fn remove(&self, index: &mut Index, key: Key<'_>, now: u64) -> bool {
        index.update(key, now, |entry| {
            let is_same = entry.as_ref().is_some_and(|entry| self.is_of(entry));
            (if is_same { Action::Remove } else { Action::Keep }, is_same)
        })
    }

    /// Gives the key an item without a version, as any write leaves one: whoever watches the key notices.
    fn forget_version(&self, index: &mut Index, key: Key<'_>, now: u64) {
        if !self.has_version {
            return;
        }
        index.update(key, now, |entry| {
            let is_same = entry.as_ref().is_some_and(|entry| self.is_of(entry));
            let value = NewValue::Block { kind: self.kind, block: self.block.clone() };
            let put = Action::Put { value, expiry: Expiry::Keep };
            (if is_same { put } else { Action::Keep }, ())
        });
    }
}

/// What is to become of a packed container, or of an absent key.
struct Decided<'c, T: Type, R> {
    action: Action<'static>,
    changes: Cow<'c, [T::Change<'c>]>,
    tally: T::Tally,
    result: R,
    /// When a part expires now, before all others.
    due: Option<u64>,
}

fn run_packed<'c, T: Type, R>(
    entry: Option<&Entry<'_>>,
    objects: Objects<'_>,
    limits: Limits,
    decide: &mut impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
) -> Result<Decided<'c, T, R>, StoreError> {
    let mut run = |container: T::Ref<'_>| {
        let (changes, result) = decide(container)?;
        check::<T>(container, &changes, limits)?;
        let due = due_first::<T>(container, &changes);
        let (tally, held) = T::changed(container, &changes);
        let action = match held {
            _ if T::is_nothing(tally) => Action::Keep,
            None => Action::Remove,
            Some(held) => {
                let value = value_of::<T>(held, &changes, objects.options, objects.index);
                Action::Put { value, expiry: Expiry::Keep }
            }
        };
        Ok(Decided { action, changes, tally, result, due })
    };
    match entry {
        None => run(T::packed(&[])),
        Some(entry) => view(entry.value, |value| {
            T::of_value(value).ok_or(StoreError::WrongType).and_then(&mut run)
        }),
    }
}

/// Changes as the log has them: their bytes, then the kind of the container that they are for. Replay may meet a
/// younger one of another type.
pub(super) fn tagged<T: Type>(changes: &[T::Change<'_>]) -> Vec<u8> {
    let mut bytes = T::changes_to_bytes(changes);
    bytes.push(T::KIND_LARGE);
    bytes
}

/// What the log is told of a decision.
fn logs_of<T: Type>(
    entry: Option<&Entry<'_>>,
    action: &Action<'_>,
    changes: &[T::Change<'_>],
) -> Option<Logs> {
    match (action, entry.map(|entry| entry.value)) {
        (Action::Put { value, .. }, None) => Some(Logs::Put(match value {
            NewValue::Block { kind, block } => {
                NewValue::Block { kind: *kind, block: block.clone() }
            }
            value => crate::value::detach(value.as_value()),
        })),
        (Action::Put { .. }, Some(Value::Bytes { bytes, .. })) => {
            Some(Logs::Change(Head::split(bytes).0.number + 1, tagged::<T>(changes)))
        }
        (Action::Remove, Some(_)) => Some(Logs::Remove),
        _ => None,
    }
}

/// What becomes of a packed container by a record of the log. None if its bytes are no changes of this type.
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
        // It meets a younger container by mistake, which a later record removes.
        held = Head::renumbered(&held, number);
    }
    let value = value_of::<T>(held, &changes, objects.options, objects.index);
    Some(Action::Put { value, expiry: Expiry::Keep })
}

/// Bytes that are to be free in a record of the log that has a whole container.
const HEAD_MAX: usize = 1 << 20;

/// Refuses a part that is too long, changes that no record of the log could hold, and a container that none could hold
/// after them.
pub(super) fn check<T: Type>(
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

/// Refuses a container that takes this many bytes, if no record of the log could hold it.
pub(crate) fn check_len(len: usize) -> Result<(), StoreError> {
    let len_max = u32::MAX as usize - HEAD_MAX;
    if len > len_max { Err(StoreError::ValueTooLong { len, len_max }) } else { Ok(()) }
}
