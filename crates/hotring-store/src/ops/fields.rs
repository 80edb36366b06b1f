//! Expiry of single hash fields: single-key writes.
//!
//! A write of a hash first removes the expired fields, in a step of its own, so that it decides on the state that
//! readers see. The timing wheel removes them in the same way ([`Session::expire_due`]).

use std::collections::BTreeMap;

use crate::changes::{Changed, FieldsChanged};
use crate::container::{Changes, Decision, due_of_value, is_present, view_container};
use crate::error::StoreError;
use crate::hash::{Change, Hash, HashRef, NewText, Tally, To};
use crate::ops::expire::{ExpireCondition, TtlChange};
use crate::ops::reply_capacity::ReplyCapacity;
use crate::session::Session;
use hotring_index::{Action, Key, NewValue, Value};

/// Maximum number of expired fields removed in one step: about 100 µs.
const STEP_FIELDS: usize = 512;

/// The outcome for a field's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldExpiry {
    /// The field does not exist.
    Absent,
    /// The field had no expiry to remove.
    None,
    /// The condition did not hold.
    Unmet,
    /// The expiry was set or removed.
    Changed,
    /// The new expiry had passed: the field was removed.
    Removed,
}

/// The condition of [`Session::hash_set_ex`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldsCondition {
    /// Always.
    #[default]
    Always,
    /// Only if none of the fields exists (FNX).
    IfNone,
    /// Only if all of the fields exist (FXX).
    IfAll,
}

/// The effect of [`Session::hash_set_ex`] on the expiries of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetFieldExpiry {
    /// They have no expiry.
    #[default]
    Clear,
    /// They keep their expiry.
    Keep,
    /// They expire at this Unix millisecond; if that is not after `now`, they are removed.
    At(u64),
}

/// The states of fields during an operation that may name a field more than once: None if it is absent, otherwise its
/// expiry.
type States<'f> = BTreeMap<&'f [u8], Option<Option<u64>>>;

fn state<'s, 'f>(
    states: &'s mut States<'f>,
    hash: HashRef<'_>,
    field: &'f [u8],
) -> &'s mut Option<Option<u64>> {
    states.entry(field).or_insert_with(|| hash.get_with_expiry(field).map(|(_, at)| at))
}

impl Session {
    /// Sets the expiry of fields to the Unix millisecond `at`, or removes them if that is not after `now`. Returns the
    /// outcome for each field, in their order.
    ///
    /// # Errors
    /// Those of [`hash_set`](Self::hash_set).
    pub fn hash_expire_at(
        &mut self,
        key: &[u8],
        at: u64,
        condition: ExpireCondition,
        fields: &[&[u8]],
        now: u64,
    ) -> Result<Vec<FieldExpiry>, StoreError> {
        self.check_key(key)?;
        if at > now {
            self.admit_little()?;
        }
        let kind = if at <= now { FieldsChanged::Removed } else { FieldsChanged::Expire };
        let since = self.changes_len();
        let (_, answers) = self.change_hash(key, now, |hash| {
            let (mut states, mut changes) = (States::new(), Vec::new());
            let answers = fields.iter().map(|field| {
                let state = state(&mut states, hash, field);
                match *state {
                    None => FieldExpiry::Absent,
                    Some(old) if !condition.holds(old, at) => FieldExpiry::Unmet,
                    Some(_) if at <= now => {
                        *state = None;
                        changes.push((*field, To::Removed));
                        FieldExpiry::Removed
                    }
                    Some(_) => {
                        *state = Some(Some(at));
                        changes.push((*field, To::Expiry(Some(at))));
                        FieldExpiry::Changed
                    }
                }
            });
            let answers: Vec<_> = answers.collect();
            Ok((Changes::Many(changes), answers))
        })?;
        self.record_fields(since, kind);
        Ok(answers)
    }

    /// Removes the expiries of fields. Returns the outcome for each field, in their order.
    ///
    /// # Errors
    /// Those of [`hash_set`](Self::hash_set).
    pub fn hash_persist(
        &mut self,
        key: &[u8],
        fields: &[&[u8]],
        now: u64,
    ) -> Result<Vec<FieldExpiry>, StoreError> {
        self.check_key(key)?;
        self.admit_little()?;
        let since = self.changes_len();
        let (_, answers) = self.change_hash(key, now, |hash| {
            let (mut states, mut changes) = (States::new(), Vec::new());
            let answers = fields.iter().map(|field| {
                let state = state(&mut states, hash, field);
                match *state {
                    None => FieldExpiry::Absent,
                    Some(None) => FieldExpiry::None,
                    Some(Some(_)) => {
                        *state = Some(None);
                        changes.push((*field, To::Expiry(None)));
                        FieldExpiry::Changed
                    }
                }
            });
            let answers: Vec<_> = answers.collect();
            Ok((Changes::Many(changes), answers))
        })?;
        self.record_fields(since, FieldsChanged::Persist);
        Ok(answers)
    }

    /// Returns the values of fields, and changes their expiry.
    ///
    /// # Errors
    /// Those of [`hash_set`](Self::hash_set); [`StoreError::ValuesTooLong`], and nothing is changed, if the values of
    /// several fields do not fit `room`, where an absent one counts as empty.
    pub fn hash_get_ex(
        &mut self,
        key: &[u8],
        (fields, capacity): (&[&[u8]], ReplyCapacity),
        change: TtlChange,
        now: u64,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let (at, kind) = match change {
            TtlChange::Leave => {
                let values = |hash: HashRef<'_>| values_within(hash, fields, capacity);
                let values = self.hash(key, now, values)?;
                return values.unwrap_or_else(|| Ok(vec![None; fields.len()]));
            }
            TtlChange::Persist => (None, FieldsChanged::Persist),
            TtlChange::At(at) if at <= now => (Some(at), FieldsChanged::Removed),
            TtlChange::At(at) => (Some(at), FieldsChanged::Expire),
        };
        self.check_key(key)?;
        self.admit_little()?;
        let since = self.changes_len();
        let (_, values) = self.change_hash(key, now, |hash| {
            let mut values = values_within(hash, fields, capacity)?;
            let (mut states, mut changes) = (States::new(), Vec::new());
            for (field, value) in fields.iter().zip(&mut values) {
                let state = state(&mut states, hash, field);
                let Some(old) = *state else {
                    // Named twice, and already removed.
                    *value = None;
                    continue;
                };
                if kind == FieldsChanged::Removed {
                    *state = None;
                    changes.push((*field, To::Removed));
                } else if old != at {
                    *state = Some(at);
                    changes.push((*field, To::Expiry(at)));
                }
            }
            Ok((Changes::Many(changes), values))
        })?;
        self.record_fields(since, kind);
        Ok(values)
    }

    /// Removes fields and returns their values. Removes the key with its last field.
    ///
    /// # Errors
    /// Those of [`hash_remove`](Self::hash_remove) and [`hash_get_ex`](Self::hash_get_ex).
    pub fn hash_get_del(
        &mut self,
        key: &[u8],
        fields: (&[&[u8]], ReplyCapacity),
        now: u64,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        // An expiry in the past removes the fields.
        self.hash_get_ex(key, fields, TtlChange::At(0), now)
    }

    /// Sets fields to values, with one expiry for all; the last of equal fields wins. True if it set them.
    ///
    /// # Errors
    /// Those of [`hash_set`](Self::hash_set).
    pub fn hash_set_ex(
        &mut self,
        key: &[u8],
        pairs: &[(&[u8], &[u8])],
        condition: FieldsCondition,
        expiry: SetFieldExpiry,
        now: u64,
    ) -> Result<bool, StoreError> {
        self.admit_bytes(pairs.iter().map(|(field, value)| field.len() + value.len()).sum())?;
        let since = self.changes_len();
        let (_, holds) = self.update_hash(key, now, |hash| {
            let mut is_present = pairs.iter().map(|(field, _)| hash.get(field).is_some());
            let holds = match condition {
                FieldsCondition::Always => true,
                FieldsCondition::IfNone => !is_present.any(|is_present| is_present),
                FieldsCondition::IfAll => is_present.all(|is_present| is_present),
            };
            let change = |(field, value): &(&'_ [u8], &'_ [u8])| match expiry {
                SetFieldExpiry::At(at) if at <= now => To::Removed,
                SetFieldExpiry::At(at) => To::Until(NewText::Made(value.to_vec()), at),
                SetFieldExpiry::Clear => To::Value(NewText::Made(value.to_vec())),
                SetFieldExpiry::Keep => {
                    let at = hash.get_with_expiry(field).and_then(|(_, at)| at);
                    To::value_until(NewText::Made(value.to_vec()), at)
                }
            };
            let changes: Vec<Change<'_>> = match holds {
                true => pairs.iter().map(|pair| (pair.0, change(pair))).collect(),
                false => Vec::new(),
            };
            Ok((Changes::Many(changes), holds))
        })?;
        match expiry {
            SetFieldExpiry::At(at) if at <= now => {
                self.record_fields(since, FieldsChanged::Removed)
            }
            SetFieldExpiry::At(_) => self.record_expiry_of_stored(since),
            SetFieldExpiry::Clear | SetFieldExpiry::Keep => {}
        }
        Ok(holds)
    }

    /// Decides on the hash as readers see it, and makes the changes. Removes expired fields first. `decide` may be
    /// called several times.
    pub(crate) fn update_hash<'k, 'c, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        mut decide: impl FnMut(HashRef<'_>) -> Decision<'c, Hash, R>,
    ) -> Result<(Tally, R), StoreError> {
        let key = key.into();
        loop {
            let seen = |hash: HashRef<'_>| decide_undue(hash, now, &mut decide);
            match self.update_container::<Hash, _>(key, now, seen)? {
                (tally, Some(result)) => return Ok((tally, result)),
                (_, None) => _ = self.remove_due_fields(key.bytes(), now, true),
            }
        }
    }

    /// Like [`update_hash`](Self::update_hash), for a write that has been admitted.
    pub(crate) fn change_hash<'k, 'c, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        mut decide: impl FnMut(HashRef<'_>) -> Decision<'c, Hash, R>,
    ) -> Result<(Tally, R), StoreError> {
        let key = key.into();
        loop {
            let seen = |hash: HashRef<'_>| decide_undue(hash, now, &mut decide);
            match self.change_container::<Hash, _>(key, now, seen)? {
                (tally, Some(result)) => return Ok((tally, result)),
                (_, None) => _ = self.remove_due_fields(key.bytes(), now, true),
            }
        }
    }

    /// Removes expired fields, up to [`STEP_FIELDS`]; all at once if no other field is left, because such a hash is
    /// absent to readers and must not seem to be written. With `waits` false, it returns false if another session holds
    /// the key.
    pub(crate) fn remove_due_fields(&mut self, key: &[u8], now: u64, waits: bool) -> bool {
        let (mut due, mut is_over): (Vec<Vec<u8>>, bool) = (Vec::new(), false);
        self.peek(key, now, |entry| match is_present(&entry, now) {
            false => is_over = true,
            // A value of another type has no fields that are due.
            true => {
                _ = view_container::<Hash, _>(&entry, |hash| {
                    hash.at(now).each_due(STEP_FIELDS, |field| due.push(field.to_vec()));
                });
            }
        });
        let since = self.changes_len();
        let limits = self.limits;
        let remove = |write: crate::write::Write<'_>, objects: crate::container::Objects<'_>| {
            // At time 0 the index and the container show a hash whose fields have all expired, too.
            if is_over {
                return write.update(0, |entry| {
                    // The hash may have got another field since.
                    let goes = entry.is_some_and(|entry| !is_present(&entry, now));
                    (if goes { Action::Remove } else { Action::Keep }, ())
                });
            }
            let removed = write.change_container::<Hash, _>(objects, limits, 0, |hash| {
                // A field may have got another expiry since.
                let is_due = |field: &[u8]| {
                    let found = hash.get_with_expiry(field);
                    found.is_some_and(|(_, at)| at.is_some_and(|at| at <= now))
                };
                let changes = due.iter().filter(|field| is_due(field));
                Ok((changes.map(|field| (&field[..], To::Removed)).collect(), ()))
            });
            // An error means that the key has another type by now.
            _ = removed;
        };
        let is_done = match waits {
            true => {
                self.change_in_order(key.into(), remove);
                true
            }
            false => self.change_in_order_unless_held(key, remove).is_some(),
        };
        self.record_fields(since, FieldsChanged::Expired);
        is_done
    }

    /// Enters the earliest expiry of a stored value's parts in the timing wheel.
    pub(crate) fn enter_due(&self, key: &[u8], due: Option<u64>, now: u64) {
        if let Some(at) = due {
            self.wheels.enter_part(self.index.key_hash(key), at, now);
        }
    }

    /// Enters the earliest expiry of the parts of the key's present value in the timing wheel.
    pub(crate) fn enter_due_of_key(&mut self, key: &[u8], now: u64) {
        let due = self.peek(key, 0, |entry| due_of_value(entry.value, entry.block())).flatten();
        self.enter_due(key, due, now);
    }

    fn changes_len(&self) -> usize {
        self.changes.as_ref().map_or(0, Vec::len)
    }

    /// Replaces the kind of the changes recorded since `since` by that of the fields.
    fn record_fields(&mut self, since: usize, kind: FieldsChanged) {
        for change in self.changes.iter_mut().flat_map(|changes| &mut changes[since..]) {
            match (change.kind, kind) {
                (Changed::Stored { .. }, _) => change.kind = Changed::Fields(kind),
                (Changed::Removed, FieldsChanged::Expired) => {
                    change.kind = Changed::Fields(FieldsChanged::LastExpired);
                }
                _ => {}
            }
        }
    }

    /// Adds a change of the fields' expiry to the change recorded since `since`.
    fn record_expiry_of_stored(&mut self, since: usize) {
        let Some(changes) = &mut self.changes else { return };
        let stored = changes[since..].iter().find(|c| matches!(c.kind, Changed::Stored { .. }));
        if let Some(mut change) = stored.cloned() {
            change.kind = Changed::Fields(FieldsChanged::Expire);
            changes.push(change);
        }
    }
}

/// Copies the values of fields, as far as they fit `capacity`.
fn values_within(
    hash: HashRef<'_>,
    fields: &[&[u8]],
    capacity: ReplyCapacity,
) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
    let mut capacity_left = capacity.for_parts(fields.len());
    let value = |field: &&[u8]| {
        let value = hash.get(field);
        capacity_left.add(value.unwrap_or_default())?;
        Ok(value.map(<[u8]>::to_vec))
    };
    fields.iter().map(value).collect()
}

/// Decides on a hash. None, and no changes, if it has expired fields.
fn decide_undue<'c, R>(
    hash: HashRef<'_>,
    now: u64,
    decide: &mut impl FnMut(HashRef<'_>) -> Decision<'c, Hash, R>,
) -> Decision<'c, Hash, Option<R>> {
    if hash.at(now).count_due() > 0 {
        return Ok((Changes::NONE, None));
    }
    let (changes, result) = decide(hash)?;
    Ok((changes, Some(result)))
}

/// The earliest expiry of the parts of a value to be stored, if any part expires.
pub(crate) fn due_of_new(value: &NewValue<'_>) -> Option<u64> {
    match value {
        NewValue::Word { .. } => None,
        NewValue::Bytes { kind, bytes } => due_of_value(Value::Bytes { kind: *kind, bytes }, None),
        NewValue::Block { kind, block } => {
            due_of_value(Value::Bytes { kind: *kind, bytes: &[] }, Some(block.lend()))
        }
    }
}
