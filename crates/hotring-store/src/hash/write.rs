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
use crate::value::{ValueRef, large_hash, view};
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
        self,
        limits: Limits,
        now: u64,
        mut decide: impl FnMut(HashRef<'_>) -> Decision<'c, R>,
    ) -> Result<(Tally, R), StoreError> {
        let Write { index, key, stripe, wheels, mut records, objects, mut hooks } = self;
        let _order = objects.orders.and_then(|orders| orders.order(key.bytes()));
        let mut met = None;
        let packed = Write {
            index: &mut *index,
            key,
            stripe,
            wheels,
            records: records.as_deref_mut(),
            objects,
            hooks: hooks.as_mut().map(|hooks| hooks.again()),
        };
        let decided = packed.update(now, |entry| {
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
        let large = Write { index, key, stripe, wheels, records, objects, hooks };
        large.change_in_place(&met, limits, now, decide)
    }

    /// Changes a large hash, in the key's order.
    fn change_in_place<'c, R>(
        self,
        met: &Met,
        limits: Limits,
        now: u64,
        mut decide: impl FnMut(HashRef<'_>) -> Decision<'c, R>,
    ) -> Result<(Tally, R), StoreError> {
        let Write { index, key, stripe, records, hooks, .. } = self;
        let hash = met.hash();
        // No other session writes it, so what is decided on is what is changed.
        let (changes, result) = hash.read(|fields| {
            let (changes, result) = decide(HashRef::large(fields))?;
            check(fields.len_of_all(), &changes, limits)?;
            Ok::<_, StoreError>((changes, result))
        })?;
        let (tally, number, footprint, is_empty) = hash.write(|fields| {
            let tally = fields.apply(&changes);
            (tally, fields.number, fields.footprint(), fields.len() == 0)
        });
        if tally.is_nothing() {
            return Ok((tally, result));
        }
        met.block.lend().set_object_bytes(footprint);
        let (event, what) = if is_empty {
            met.remove(index, key, now);
            (Event::Removed, Changed::Removed)
        } else {
            met.forget_version(index, key, now);
            (Event::Stored(None), Changed::Stored { is_new: false, expires: false })
        };
        if let Some(records) = records {
            let (key, change) = (key.bytes(), &changes_to_bytes(&changes)[..]);
            records.push(&match is_empty {
                true => Effect::Remove { key },
                false => Effect::Change { key, number, change },
            });
        }
        if let Some(mut hooks) = hooks {
            hooks.all.watchers.tell(stripe, key.bytes(), &event);
            hooks.record(key.bytes(), what);
        }
        Ok((tally, result))
    }

    /// Does again what the log says of a large hash, unless the hash is younger than that. A packed one, and a key that
    /// is absent or something else, were stored later: what stored them is in the log.
    pub(crate) fn replay_changes(self, number: u64, changes: &[Change<'_>]) {
        let Write { index, key, .. } = self;
        // At time 0 nothing has expired.
        let met = index.peek(key, 0, |entry| Met::of(&entry)).flatten();
        let Some(met) = met else { return };
        let footprint = met.hash().write(|fields| {
            if fields.number < number {
                fields.apply(changes);
                fields.number = number;
            }
            fields.footprint()
        });
        met.block.lend().set_object_bytes(footprint);
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

    fn is_of(&self, entry: &Entry<'_>) -> bool {
        entry.block().is_some_and(|block| self.hash().is_of(block))
    }

    /// Removes the key, which holds a hash without fields, unless it holds something else by now.
    fn remove(&self, index: &mut Index, key: Key<'_>, now: u64) {
        index.update(key, now, |entry| {
            let is_same = entry.as_ref().is_some_and(|entry| self.is_of(entry));
            (if is_same { Action::Remove } else { Action::Keep }, ())
        });
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

/// Refuses a field or value that is too long, and a hash that no record of the log could hold.
fn check(len: usize, changes: &[Change<'_>], limits: Limits) -> Result<(), StoreError> {
    let mut sum = len;
    for (field, value) in changes {
        let value_len = value.as_ref().map_or(0, |value| value.len());
        limits.check_value(field.len().max(value_len))?;
        if value.is_some() {
            // Their lengths take up to 5 bytes each.
            sum += field.len() + value_len + 10;
        }
    }
    let len_max = u32::MAX as usize - HEAD_MAX;
    if sum > len_max { Err(StoreError::ValueTooLong { len: sum, len_max }) } else { Ok(()) }
}
