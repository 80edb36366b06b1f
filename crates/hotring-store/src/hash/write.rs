//! A write of a hash: of a packed one by storing another in its place, of a large one in place.

use std::borrow::Cow;

use hotring_index::AnySession as Index;
use hotring_index::{Action, Block, Entry, Expiry, Key};
use hotring_log::Effect;

use super::large::{self, LargeHash, changes_to_bytes};
use super::{Change, HashRef, Tally, value_of};
use crate::changes::Changed;
use crate::error::StoreError;
use crate::session::Limits;
use crate::value::{ValueRef, is_hash, large_hash, view};
use crate::watch::Event;
use crate::write::{Objects, Write};

/// Changes that were decided on, and what the operation has to say.
pub(crate) type Decision<'c, R> = Result<(Cow<'c, [Change<'c>]>, R), StoreError>;

/// A large hash that a write has met.
struct Met {
    block: Block,
    has_version: bool,
}

impl Write<'_> {
    /// Decides on the hash that the key holds, an empty one if it is absent, and makes the changes. `decide` may be
    /// called several times.
    pub(crate) fn change_hash<'c, R>(
        mut self,
        limits: Limits,
        now: u64,
        mut decide: impl FnMut(HashRef<'_>) -> Decision<'c, R>,
    ) -> Result<(Tally, R), StoreError> {
        let orders = self.objects.orders;
        let _order = orders.and_then(|orders| orders.order(self.key.bytes()));
        loop {
            let mut met = None;
            let objects = self.objects;
            let decided = self.again().update(now, |entry| {
                met = entry.as_ref().and_then(Met::of);
                if met.is_some() {
                    return (Action::Keep, Ok(None));
                }
                match change_packed(entry.as_ref(), limits, objects, &mut decide) {
                    Ok((action, result)) => (action, Ok(Some(result))),
                    Err(error) => (Action::Keep, Err(error)),
                }
            });
            if let Some(done) = decided? {
                return Ok(done);
            }
            let met = met.expect("nothing was done, as the hash is large");
            if let Some(done) = self.again().change_in_place(&met, limits, now, &mut decide)? {
                return Ok(done);
            }
        }
    }

    /// Changes a large hash, in the key's order. None if the key held another value by then.
    fn change_in_place<'c, R>(
        self,
        met: &Met,
        limits: Limits,
        now: u64,
        decide: &mut impl FnMut(HashRef<'_>) -> Decision<'c, R>,
    ) -> Result<Option<(Tally, R)>, StoreError> {
        let Write { index, key, stripe, records, hooks, .. } = self;
        // No other session writes it, so what is decided on is what is changed.
        let (changes, result, emptied) = met.hash().read(|fields| {
            let (changes, result) = decide(HashRef::large(fields))?;
            check(fields.len_of_all() + LENS_MAX * fields.len(), &changes, limits)?;
            let emptied = fields.emptied_by(&changes);
            Ok::<_, StoreError>((changes, result, emptied))
        })?;
        let (tally, change, event, what) = match emptied {
            // The hash stays as it is, and goes in one step: no reader sees an empty one.
            Some(tally) => {
                if !met.remove(index, key, now) {
                    return Ok(None);
                }
                (tally, None, Event::Removed, Changed::Removed)
            }
            None => {
                let (tally, number, grown) = met.change(&changes);
                if tally.is_nothing() {
                    return Ok(Some((tally, result)));
                }
                index.grew(grown);
                met.forget_version(index, key, now);
                let stored = Changed::Stored { is_new: false, expires: false };
                (tally, Some((number, changes_to_bytes(&changes))), Event::Stored(None), stored)
            }
        };
        if let Some(records) = records {
            let key = key.bytes();
            records.push(&match &change {
                None => Effect::Remove { key },
                Some((number, change)) => Effect::Change { key, number: *number, change },
            });
        }
        if let Some(mut hooks) = hooks {
            hooks.all.watchers.tell(stripe, key.bytes(), &event);
            hooks.record(key.bytes(), what);
        }
        Ok(Some((tally, result)))
    }

    /// Does again what the log says of a large hash, unless the hash is younger than that. Where the index takes no
    /// objects the hash is one value: the same change made twice is made once, as the log goes on from there.
    pub(crate) fn replay_changes(self, number: u64, changes: &[Change<'_>]) {
        let Write { index, key, objects, .. } = self;
        // At time 0 nothing has expired.
        if let Some(met) = index.peek(key, 0, |entry| Met::of(&entry)).flatten() {
            return met.replay(number, changes);
        }
        if objects.options.takes_objects {
            // Absent, or something else: what stored it is in the log behind.
            return;
        }
        index.update(key, 0, |entry| {
            let packed = entry.as_ref().filter(|entry| is_hash(entry.value));
            let changed = packed.and_then(|entry| {
                view(entry.value, |value| match value {
                    // A hash without fields is removed by a record of its own.
                    ValueRef::Hash(hash) => hash.changed(changes).1,
                    _ => None,
                })
            });
            let put = changed.map(|held| {
                let value = value_of(held, changes, objects.options, objects.index);
                Action::Put { value, expiry: Expiry::Keep }
            });
            (put.unwrap_or(Action::Keep), ())
        });
    }

    /// The same write, for one of several steps.
    fn again(&mut self) -> Write<'_> {
        Write {
            index: &mut *self.index,
            key: self.key,
            stripe: self.stripe,
            wheels: self.wheels,
            records: self.records.as_deref_mut(),
            objects: Objects { orders: None, ..self.objects },
            hooks: self.hooks.as_mut().map(|hooks| hooks.again()),
        }
    }
}

impl Met {
    fn of(entry: &Entry<'_>) -> Option<Met> {
        large::of_entry(entry)?;
        let has_version = entry.version.is_some();
        Some(Met { block: entry.block()?.to_block(), has_version })
    }

    fn hash(&self) -> &LargeHash {
        LargeHash::of(self.block.lend()).expect("it was that of a large hash")
    }

    /// Makes changes, and returns what they did, the number of the last one, and by how much the hash has grown.
    fn change(&self, changes: &[Change<'_>]) -> (Tally, u64, usize) {
        let (tally, number, before, after) = self.hash().write(|fields| {
            let before = fields.footprint();
            let tally = fields.apply(changes);
            (tally, fields.number, before, fields.footprint())
        });
        self.block.lend().set_object_bytes(after);
        (tally, number, after.saturating_sub(before))
    }

    fn replay(&self, number: u64, changes: &[Change<'_>]) {
        let footprint = self.hash().write(|fields| {
            if fields.number < number {
                fields.apply(changes);
                fields.number = number;
            }
            fields.footprint()
        });
        self.block.lend().set_object_bytes(footprint);
    }

    fn is_of(&self, entry: &Entry<'_>) -> bool {
        entry.block().is_some_and(|block| self.hash().is_of(block))
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
            let value = large_hash(self.block.clone());
            let put = Action::Put { value, expiry: Expiry::Keep };
            (if is_same { put } else { Action::Keep }, ())
        });
    }
}

/// What becomes of a packed hash, or of an absent key.
fn change_packed<'c, R>(
    entry: Option<&Entry<'_>>,
    limits: Limits,
    objects: Objects<'_>,
    decide: &mut impl FnMut(HashRef<'_>) -> Decision<'c, R>,
) -> Result<(Action<'static>, (Tally, R)), StoreError> {
    let mut run = |hash: HashRef<'_>| {
        let (changes, result) = decide(hash)?;
        check(hash.held().len(), &changes, limits)?;
        let (tally, held) = hash.changed(&changes);
        let action = match held {
            _ if tally.is_nothing() => Action::Keep,
            None => Action::Remove,
            Some(held) => {
                let value = value_of(held, &changes, objects.options, objects.index);
                Action::Put { value, expiry: Expiry::Keep }
            }
        };
        Ok((action, (tally, result)))
    };
    match entry {
        None => run(HashRef::EMPTY),
        Some(entry) => view(entry.value, |value| match value {
            ValueRef::Hash(hash) => run(hash),
            _ => Err(StoreError::WrongType),
        }),
    }
}

/// Bytes that are to be free in a record of the log that has a whole hash.
const HEAD_MAX: usize = 1 << 20;
/// Bytes that the lengths of a field and of its value take at most.
const LENS_MAX: usize = 10;

/// Refuses a field or value that is too long, changes that no record of the log could hold, and a hash that none could
/// hold after them.
fn check(len: usize, changes: &[Change<'_>], limits: Limits) -> Result<(), StoreError> {
    let (mut sum, mut sets) = (0, false);
    for (field, value) in changes {
        let value_len = value.as_ref().map_or(0, |value| value.len());
        limits.check_value(field.len().max(value_len))?;
        sum += field.len() + value_len + LENS_MAX;
        sets |= value.is_some();
    }
    let len = if sets { len + sum } else { sum };
    let len_max = u32::MAX as usize - HEAD_MAX;
    if len > len_max { Err(StoreError::ValueTooLong { len, len_max }) } else { Ok(()) }
}
