//! One write of one key: [`Session::change`](crate::Session) passes a [`Write`] to an operation instead of the index.
//! It carries out all duties of a write, so that no operation can forget one.
//!
//! The duties are to keep the replaced value ([`crate::history`]), to notify waiters and observers ([`crate::watch`]),
//! to enter the expiry ([`crate::wheel`]) and to log the change ([`crate::logged`]). While history and log are off and
//! there is no observer or waiter, a write goes straight to the index.

mod report;

use std::collections::VecDeque;

use hotring_index::{Action, Entry, Expiry, Key, NewValue, Value};
use hotring_log::{Effect, Records};

use crate::changes::{Change, Changed, FieldsChanged, Origin, remove_emptied, remove_expired};
use crate::container::large::Large;
use crate::container::{Type, is_there};
use crate::history::HistoryLimits;
use crate::list::List;
use crate::logged::{self, Puts};
use crate::long_text::LongText;
use crate::scored::SortedSet;
use crate::sync::Arc;
use crate::value::{reborrow, view};
use crate::watch::{Event, Watchers};
use crate::wheel::Wheels;
use hotring_index::AnySession as Index;
use report::{Recording, Report};

/// The permission to change one key with one call of the index.
pub(crate) struct Write<'a> {
    pub(crate) index: &'a mut Index,
    pub(crate) key: Key<'a>,
    pub(crate) stripe: u32,
    /// The timing wheels, in which the write must enter each expiry that it gives the key.
    pub(crate) wheels: &'a Wheels,
    /// The destination of log records, if there is a log.
    pub(crate) records: Option<&'a mut Records>,
    /// None if there is nothing to do in addition.
    pub(crate) hooks: Option<ActiveHooks<'a>>,
    /// Whether an expired item stays until its removal is in the log, unless the write stores another value.
    pub(crate) lasting: bool,
}

/// The duties of one write in addition to changing the index.
pub(crate) struct ActiveHooks<'a> {
    pub(crate) all: &'a Hooks,
    /// The destination of changes, if the origin records them.
    pub(crate) changes: Option<&'a mut Vec<Change>>,
    /// Keys with waiting clients that a write may have served.
    pub(crate) ready: &'a mut VecDeque<(u8, Box<[u8]>)>,
    /// Set by a write that would have changed a value: the store is a replica, and the write must not change any.
    pub(crate) refuses: Option<&'a mut bool>,
}

/// The duties of all writes: keep earlier values, notify waiters and observers, record changes.
#[derive(Clone)]
pub(crate) struct Hooks {
    pub(crate) history: HistoryLimits,
    pub(crate) watchers: Arc<Watchers>,
    /// The place of the database that writes go to.
    pub(crate) place: u8,
    /// Every write has additional work: values are kept, or changes are recorded.
    always: bool,
    /// The origin that the session acts for. Changed only by [`Session::act`](crate::Session::act).
    pub(crate) origin: Origin,
}

impl Write<'_> {
    /// Stores a new value, whether or not the key exists.
    #[inline(always)]
    pub(crate) fn put(self, value: NewValue<'_>, expiry: Expiry, now: u64) {
        self.put_as(Puts::Value, value, expiry, now);
    }

    /// Stores a copy of another key's item, earlier values included. Replaces the present value and its earlier values.
    pub(crate) fn put_item(self, value: NewValue<'_>, expiry: Expiry, now: u64) {
        self.put_as(Puts::Item, value, expiry, now);
    }

    #[inline(always)]
    fn put_as(self, puts: Puts, value: NewValue<'_>, expiry: Expiry, now: u64) {
        match (expiry, self.records) {
            (_, records) if self.hooks.is_some() => {
                Write { records, ..self }.put_with_hooks(puts, value, expiry, now);
            }
            (Expiry::At(at), records) => Write { records, ..self }.put_until(value, at, now),
            // A hash whose fields have all expired has no expiry to keep.
            (Expiry::Keep, None) if self.wheels.have_fields() => {
                Write { records: None, ..self }.put_with_hooks(puts, value, expiry, now);
            }
            (_, None) => _ = self.index.put(self.key, value, expiry, now),
            (Expiry::Never, Some(records)) => {
                logged::push_put(records, self.key.bytes(), &value, None);
                self.index.put(self.key, value, expiry, now);
            }
            // The log record must have the key's present expiry.
            (Expiry::Keep, records) => {
                Write { records, ..self }.put_with_hooks(puts, value, expiry, now)
            }
        }
    }

    /// Stores a value that expires, through `update`, which sees the old expiry: a key whose expiry is extended again
    /// and again needs no entry in the wheel each time.
    fn put_until(self, value: NewValue<'_>, at: u64, now: u64) {
        let Write { index, key, stripe, wheels, mut records, hooks, lasting } = self;
        let (damages, expiry) = (index.damages(), Expiry::At(at));
        let again = records.as_deref_mut();
        let write =
            Write { index: &mut *index, key, stripe, wheels, records: again, hooks, lasting };
        write.update(now, |_| (Action::Put { value: reborrow(&value), expiry }, ()));
        if index.damages() != damages {
            // The old item is damaged; this write repairs the key.
            index.take_damage();
            if let Some(records) = records {
                logged::push_put(records, key.bytes(), &value, Some(at));
            }
            index.put(key, value, expiry, now);
            enter(wheels, index, key, at, now);
        }
    }

    #[cold]
    fn put_with_hooks(mut self, puts: Puts, value: NewValue<'_>, expiry: Expiry, now: u64) {
        if self.is_refused() {
            return;
        }
        let Write { index, key, stripe, wheels, mut records, mut hooks, lasting } = self;
        let damages = index.damages();
        let again = hooks.as_mut().map(ActiveHooks::again);
        let write = Write {
            index: &mut *index,
            key,
            stripe,
            wheels,
            records: records.as_deref_mut(),
            hooks: again,
            lasting,
        };
        write.run(now, |_| (puts, Action::Put { value: reborrow(&value), expiry }, ()));
        if index.damages() != damages {
            // The old value is damaged: this write repairs the key without keeping it.
            index.take_damage();
            let at = match expiry {
                Expiry::At(at) => Some(at),
                Expiry::Never | Expiry::Keep => None,
            };
            if let Some(records) = records {
                logged::push_put(records, key.bytes(), &value, at);
            }
            index.put(key, reborrow(&value), expiry, now);
            if let Some(at) = at {
                enter(wheels, index, key, at, now);
            }
            let Some(mut hooks) = hooks else { return };
            let (text, has_elements) = (string(&value), has_elements(kind_of(value.as_value())));
            hooks.tell(stripe, key.bytes(), &Event::Stored(text.as_deref()), has_elements);
            hooks.record(key.bytes(), Changed::Stored { is_new: false, expires: at.is_some() });
        }
    }

    /// Reads, decides, and acts in one atomic step. `decide` may be called several times, each time with a newer entry,
    /// so it must not have side effects. Returns the result of the call whose decision took effect.
    #[inline(always)]
    pub(crate) fn update<'x, R>(
        self,
        now: u64,
        mut decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        self.run(now, |entry| {
            let (action, result) = decide(entry);
            (Puts::Value, action, result)
        })
    }

    /// Like [`update`](Self::update), for decisions that store the present value again: only the expiry changes.
    pub(crate) fn update_expiry<'x, R>(
        self,
        now: u64,
        mut decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        self.run(now, |entry| {
            let (action, result) = decide(entry);
            (Puts::Same, action, result)
        })
    }

    /// Like [`update`](Self::update), with decisions that also state the meaning of the stored value.
    #[inline(always)]
    pub(crate) fn run<'x, R>(
        self,
        now: u64,
        mut decide: impl FnMut(Option<Entry<'_>>) -> (Puts, Action<'x>, R),
    ) -> R {
        let Write { index, key, stripe, wheels, mut records, mut hooks, lasting } = self;
        if let Some(hooks) = &mut hooks {
            if let Some(refused) = &mut hooks.refuses {
                return decide_in_vain(index, key, now, refused, decide);
            }
            let logs = records.as_deref_mut().filter(|_| lasting);
            hooks.expire(index, wheels, key.bytes(), now, logs);
        }
        let mut recording = records.map(|records| Recording::begin(records, index));
        let mut expires_at = None;
        let mut report = hooks.map(|hooks| Report::begin(hooks, index, stripe, key.bytes()));
        // At time 0 nothing has expired.
        let time = if lasting { 0 } else { now };
        let result = index.update(key, time, |entry| {
            let there =
                entry.filter(|entry| !(lasting && is_expired(entry, now)) && is_there(entry, now));
            let is_over = there.is_none() && entry.is_some();
            let entry = there;
            let (puts, mut action, result) = decide(entry);
            match &mut action {
                // An absent key has no expiry to keep.
                Action::Put { expiry: expiry @ Expiry::Keep, .. } if is_over => {
                    *expiry = Expiry::Never;
                }
                // Its removal is the expirer's, which logs it.
                Action::Expire(_) | Action::Remove if is_over && lasting => action = Action::Keep,
                _ => {}
            }
            if let Some(report) = &mut report {
                report.decided(puts, entry.map(|entry| entry.value), &mut action, now);
            }
            if let Some(recording) = &mut recording {
                recording.decided(key.bytes(), puts, entry.as_ref(), &action);
            }
            expires_at = expiry_to_enter(&action, entry.as_ref());
            (action, result)
        });
        if let Some(recording) = recording {
            recording.end(index);
        }
        if let Some(at) = expires_at {
            enter(wheels, index, key, at, now);
        }
        if let Some(report) = report {
            report.tell(index, stripe, key.bytes());
        }
        result
    }

    /// Sets the key's expiry during replay, even if it is in the past.
    pub(crate) fn restore_expiry(mut self, expire_at: Option<u64>, now: u64) {
        if self.is_refused() {
            return;
        }
        let Write { index, key, stripe, wheels, hooks, .. } = self;
        let expiry = expire_at.map_or(Expiry::Never, Expiry::At);
        // At time 0 nothing has expired.
        let is_there = index.update(key, 0, |entry| (Action::Expire(expiry), entry.is_some()));
        if let Some(at) = expire_at {
            enter(wheels, index, key, at, now);
        }
        if let Some(mut hooks) = hooks.filter(|_| is_there) {
            hooks.tell(stripe, key.bytes(), &Event::Expiry, false);
            hooks.record(key.bytes(), Changed::Expiry { expires: expire_at.is_some() });
        }
    }

    /// Stores a value and its expiry during replay, unless the key exists.
    pub(crate) fn restore_item(mut self, value: NewValue<'_>, expire_at: Option<u64>, now: u64) {
        if self.is_refused() {
            return;
        }
        let Write { index, key, wheels, .. } = self;
        let expiry = expire_at.map_or(Expiry::Never, Expiry::At);
        // At time 0 nothing has expired.
        let is_new = index.update(key, 0, |entry| match entry {
            Some(_) => (Action::Keep, false),
            None => (Action::Put { value: reborrow(&value), expiry }, true),
        });
        if let Some(at) = expire_at.filter(|_| is_new) {
            enter(wheels, index, key, at, now);
        }
    }

    /// Removes the key; true if it was present.
    pub(crate) fn remove(self, now: u64) -> bool {
        let Write { index, key, stripe, wheels, mut records, mut hooks, lasting } = self;
        let is_there = |index: &mut Index| {
            let there = |entry: Entry<'_>| !is_expired(&entry, now) && is_there(&entry, now);
            index.peek(key, 0, there)
        };
        if let Some(ActiveHooks { refuses: Some(refused), .. }) = &mut hooks {
            **refused |= is_there(index) == Some(true);
            return false;
        }
        if let Some(hooks) = &mut hooks {
            let logs = records.as_deref_mut().filter(|_| lasting);
            hooks.expire(index, wheels, key.bytes(), now, logs);
        }
        let removes = |index: &mut Index| {
            let damages = index.damages();
            // Its removal is the expirer's, which logs it.
            if lasting && is_there(index) == Some(false) {
                return false;
            }
            let is_emptied = wheels.have_fields() && remove_emptied(index, key.bytes(), now);
            if index.damages() != damages {
                // The item is damaged; the removal repairs the key.
                index.take_damage();
            }
            let removed = index.remove(key, now);
            if let Some(records) = records.filter(|_| removed || is_emptied) {
                records.push(&Effect::Remove { key: key.bytes() });
            }
            removed
        };
        let removed = removes(index);
        if let Some(mut hooks) = hooks.filter(|_| removed) {
            hooks.tell(stripe, key.bytes(), &Event::Removed, false);
            hooks.record(key.bytes(), Changed::Removed);
        }
        removed
    }

    /// Evicts the key; with `must_expire`, only if it has an expiry. Returns the size of its item in bytes, 0 if it
    /// stays or is absent.
    pub(crate) fn evict(self, must_expire: bool) -> usize {
        // No client has asked for it, so it is not a refusal.
        if self.hooks.as_ref().is_some_and(|hooks| hooks.refuses.is_some()) {
            return 0;
        }
        let Write { index, key, stripe, records, hooks, .. } = self;
        // At time 0 nothing has expired: a clear removes expired keys, too.
        let freed = index.update(key, 0, |entry| {
            let goes = entry.filter(|entry| !must_expire || entry.expire_at.is_some());
            goes.map_or((Action::Keep, 0), |entry| (Action::Remove, entry.footprint))
        });
        if let Some(records) = records.filter(|_| freed > 0) {
            records.push(&Effect::Remove { key: key.bytes() });
        }
        if let Some(mut hooks) = hooks.filter(|_| freed > 0) {
            hooks.tell(stripe, key.bytes(), &Event::Removed, false);
            hooks.record(key.bytes(), Changed::Evicted);
        }
        freed
    }

    /// The version of the key's entry in the index, assigned now if it has none. The caller must hold the key's order
    /// lock: otherwise a writer of a large container, which checks for a version first, could change it in between.
    pub(crate) fn version(self, now: u64) -> Option<u64> {
        let Write { index, key, wheels, records, hooks, lasting, .. } = self;
        if let Some(mut hooks) = hooks.filter(|hooks| hooks.refuses.is_none()) {
            hooks.expire(index, wheels, key.bytes(), now, records.filter(|_| lasting));
        }
        let is_there = |entry: Entry<'_>| is_there(&entry, now);
        if (lasting || wheels.have_fields()) && index.peek(key, now, is_there) != Some(true) {
            return None;
        }
        index.version(key, if lasting { 0 } else { now })
    }

    /// Whether the write must not change a value. A caller that asks would have changed one.
    pub(crate) fn is_refused(&mut self) -> bool {
        match &mut self.hooks {
            Some(ActiveHooks { refuses: Some(refused), .. }) => {
                **refused = true;
                true
            }
            _ => false,
        }
    }
}

impl ActiveHooks<'_> {
    /// A reborrow, for another attempt.
    pub(crate) fn again(&mut self) -> ActiveHooks<'_> {
        ActiveHooks {
            all: self.all,
            changes: self.changes.as_deref_mut(),
            ready: self.ready,
            refuses: self.refuses.as_deref_mut(),
        }
    }

    /// Notifies the waiters of the key. Only a value with elements marks the key as ready to be served: threads that
    /// store only other values never serve lines, so they must not collect keys.
    pub(crate) fn tell(&mut self, stripe: u32, key: &[u8], event: &Event<'_>, has_elements: bool) {
        let is_ready = self.all.watchers.tell(stripe, key, event) && has_elements;
        let place = self.all.place;
        if is_ready && !self.ready.iter().any(|ready| ready.0 == place && *ready.1 == *key) {
            self.ready.push_back((place, key.into()));
        }
    }

    pub(crate) fn record(&mut self, key: &[u8], what: Changed) {
        // Expiry and eviction are not the doing of the session that carries them out.
        let is_nobodys = matches!(what, Changed::Expired | Changed::Evicted);
        let actor = if is_nobodys { 0 } else { self.all.origin.actor };
        self.all.watchers.tell_observer(key, actor);
        if let Some(changes) = &mut self.changes {
            changes.push(Change { place: self.all.place, key: key.into(), what, step: None });
        }
    }

    /// Records the key's expiry, if it has expired, before the write treats it as absent. The removal goes to `logs`.
    #[cold]
    pub(crate) fn expire(
        &mut self,
        index: &mut Index,
        wheels: &Wheels,
        key: &[u8],
        now: u64,
        logs: Option<&mut Records>,
    ) {
        let is_told = self.changes.is_some() || self.all.watchers.is_observed();
        if is_told && remove_expired(index, key, now).is_some_and(|at| at <= now) {
            self.record(key, Changed::Expired);
        } else if is_told && wheels.have_fields() && remove_emptied(index, key, now) {
            self.record(key, Changed::Fields(FieldsChanged::LastExpired));
        } else {
            return;
        }
        if let Some(records) = logs {
            records.push(&Effect::Remove { key });
        }
    }
}

impl Hooks {
    pub(crate) fn new(history: HistoryLimits, watchers: Arc<Watchers>) -> Hooks {
        let always = !history.is_off();
        Hooks { history, watchers, place: 0, always, origin: Origin::default() }
    }

    /// Updates the flags after a change of origin.
    pub(crate) fn refresh(&mut self) {
        self.always = self.origin.records_changes || !self.history.is_off();
    }

    /// Whether a write of this key has additional work. The caller must be within the key's gate.
    #[inline(always)]
    pub(crate) fn have_work(&self, stripe: u32, key: &[u8]) -> bool {
        self.always || self.watchers.is_watched(stripe, key)
    }
}

/// Decides as [`Write::run`] does, and carries out nothing but notes of an access, which are not replicated. Sets
/// `refused` if the decision was to change a value.
#[cold]
fn decide_in_vain<'x, R>(
    index: &mut Index,
    key: Key<'_>,
    now: u64,
    refused: &mut bool,
    mut decide: impl FnMut(Option<Entry<'_>>) -> (Puts, Action<'x>, R),
) -> R {
    // At time 0 nothing has expired.
    let (result, changes) = index.update(key, 0, |entry| {
        let there = entry.filter(|entry| !is_expired(entry, now) && is_there(entry, now));
        let (puts, action, result) = decide(there);
        let changes = match action {
            Action::Keep => false,
            Action::Put { .. } => puts != Puts::Access,
            Action::Expire(_) | Action::Remove => there.is_some(),
        };
        let is_note = puts == Puts::Access && there.is_some();
        (if is_note { action } else { Action::Keep }, (result, changes))
    });
    *refused |= changes;
    result
}

/// Whether the item's expiry has passed, though the index shows the item.
fn is_expired(entry: &Entry<'_>, now: u64) -> bool {
    entry.expire_at.is_some_and(|at| at <= now)
}

/// Enters a new expiry of the key, or of a part of it, in the timing wheel.
pub(crate) fn enter(wheels: &Wheels, index: &Index, key: Key<'_>, at: u64, now: u64) {
    wheels.enter(index.key_hash(key), at, now);
}

/// The expiry to enter in the timing wheel after a decision. None if the item's old expiry is not later: that is in the
/// wheel already ([`crate::wheel`], E1).
#[inline(always)]
fn expiry_to_enter(action: &Action<'_>, old: Option<&Entry<'_>>) -> Option<u64> {
    let at = match action {
        Action::Put { expiry: Expiry::At(at), .. } => *at,
        Action::Expire(Expiry::At(at)) if old.is_some() => *at,
        _ => return None,
    };
    let old = old.and_then(|entry| entry.expire_at);
    old.is_none_or(|old| old > at).then_some(at)
}

/// Whether clients may wait for elements of a value of this kind.
pub(crate) fn has_elements(kind: u8) -> bool {
    [List::KIND, List::KIND_LARGE, SortedSet::KIND, SortedSet::KIND_LARGE].contains(&kind)
}

fn kind_of(value: Value<'_>) -> u8 {
    let (Value::Word { kind, .. } | Value::Bytes { kind, .. }) = value;
    kind
}

/// A copy of a string; None for other types, whose contents waiters do not compare.
fn string(value: &NewValue<'_>) -> Option<Vec<u8>> {
    match value {
        NewValue::Block { block, .. } if let Some(large) = Large::of(block.lend()) => {
            large.read(|contents| LongText::text(LongText::of_parts(&contents.parts)?))
        }
        value => view(value.as_value(), |value| value.is_string().then(|| value.to_vec())),
    }
}
