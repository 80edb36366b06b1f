//! Loads a snapshot in two parts with the log replayed in between, so that the hottest keys can be served before the
//! rest has loaded.
//!
//! The plain order is the complete snapshot and then the log. Here the hottest part of the snapshot is loaded first,
//! then the log, and then the rest of the snapshot. A key that exists when the rest is loaded already has its value:
//! from the log, or from the first part as changed by the log. So only absent keys are taken from the rest, and the
//! log's changes to them are applied then: [`KeyFates`] records the log's removals, expiry changes and container
//! changes of keys that were absent during replay.
//!
//! After a FLUSHALL in the log nothing of the rest is needed, but it is still read to its end: the log has one `Clear`
//! for each database, and the databases in the rest are not known in advance.
//!
//! Nothing else may change the store until the rest is loaded. Expired keys must not be removed either: the rest may
//! have an earlier version of such a key that never expires.

use std::collections::{BTreeMap, HashMap};

use hotring_index::Key;
use hotring_log::{Effect, UNPACKED_MAX};

use crate::logged::UnknownForm;
use crate::ops::fields::due_of_new;
use crate::session::Session;
use crate::store::Store;
use crate::stripe::spread;

/// The fate of keys in the rest of the snapshot, according to the log.
#[derive(Debug)]
pub struct KeyFates {
    has_rest: bool,
    /// By place of the database.
    places: BTreeMap<u8, Fates>,
}

/// The fate of the keys of one database.
#[derive(Debug)]
struct Fates {
    by_key: HashMap<Box<[u8]>, Fate>,
    /// Nothing of the rest is needed: there is no rest, or the log clears the database.
    is_over: bool,
}

/// The fate of an item of the rest.
#[derive(Debug)]
enum Fate {
    Removed,
    Kept(Kept),
}

/// The change of an item that stays.
#[derive(Debug, Default)]
struct Kept {
    /// The new expiry, if the log changed it.
    expire_at: Option<Option<u64>>,
    /// Container changes of its value, with their numbers.
    changes: Vec<(u64, Box<[u8]>)>,
}

impl KeyFates {
    /// For the log after a snapshot; `has_rest` is false if the snapshot is loaded completely.
    pub fn new(has_rest: bool) -> KeyFates {
        KeyFates { has_rest, places: BTreeMap::new() }
    }

    /// Records that all keys of the database at this place were removed, so that none of its keys in the rest is
    /// needed.
    pub fn clear(&mut self, place: u8) {
        self.places.insert(place, Fates { by_key: HashMap::new(), is_over: true });
    }

    fn of(&mut self, place: u8) -> &mut Fates {
        let new = || Fates { by_key: HashMap::new(), is_over: !self.has_rest };
        self.places.entry(place).or_insert_with(new)
    }

    /// Whether there is no rest to load.
    pub fn is_over(&self) -> bool {
        !self.has_rest
    }
}

impl Fates {
    /// The entry of a key, unless it was removed.
    fn kept(&mut self, key: &[u8]) -> Option<&mut Kept> {
        let fate = self.by_key.entry(key.into()).or_insert_with(|| Fate::Kept(Kept::default()));
        match fate {
            Fate::Removed => None,
            Fate::Kept(kept) => Some(kept),
        }
    }
}

impl Store {
    /// Grows the table for this many items in advance, if the engine can, until it is large enough or `stop` returns
    /// true. That saves rehashing the present items at each doubling during a load.
    pub fn expect(&self, items: u64, stop: impl Fn() -> bool) {
        let mut session = self.session();
        while session.index.is_small_for(items) && !stop() && session.index.grow() {}
    }
}

impl Session {
    /// The index of the part that a key belongs to, out of `parts`: several threads can replay the log if each replays
    /// the records of one part.
    pub fn part(&self, key: &[u8], parts: usize) -> usize {
        ((u128::from(spread(self.logged.seed(), key)) * parts as u128) >> u64::BITS) as usize
    }

    /// Whether the key exists at `now`. At time 0 that includes expired keys.
    pub fn is_stored(&mut self, key: &[u8], now: u64) -> bool {
        self.peek(key, now, |_| ()).is_some()
    }

    /// Replays records, like [`replay`](Self::replay), before the rest of the snapshot is loaded. Records of a key must
    /// be replayed in order and with the same `fates`. On `Clear` the caller must also clear the fates of the other
    /// parts.
    ///
    /// # Errors
    /// A value has a form that is unknown to this version.
    pub fn replay_before_rest(
        &mut self,
        effects: &[Effect<'_>],
        now: u64,
        fates: &mut KeyFates,
    ) -> Result<(), UnknownForm> {
        self.fetch(effects);
        for effect in effects {
            let fates = fates.of(self.place);
            match *effect {
                _ if fates.is_over => {}
                Effect::Put { key, .. } if !fates.by_key.is_empty() => _ = fates.by_key.remove(key),
                Effect::Remove { key } => _ = fates.by_key.insert(key.into(), Fate::Removed),
                Effect::Expire { key, expire_at } if !self.is_stored(key, 0) => {
                    if let Some(kept) = fates.kept(key) {
                        kept.expire_at = Some(expire_at);
                    }
                }
                Effect::Change { key, number, change } if !self.is_stored(key, 0) => {
                    if let Some(kept) = fates.kept(key) {
                        kept.changes.push((number, change.into()));
                    }
                }
                Effect::Clear => (fates.is_over, fates.by_key) = (true, HashMap::new()),
                _ => {}
            }
            self.replay(effect, now)?;
        }
        Ok(())
    }

    /// Stores items of the rest, with the log's changes applied. `fates` has the fates of all parts.
    ///
    /// # Errors
    /// A value has a form that is unknown to this version.
    pub fn replay_rest(
        &mut self,
        effects: &[Effect<'_>],
        now: u64,
        fates: &[KeyFates],
    ) -> Result<(), UnknownForm> {
        self.fetch(effects);
        for effect in effects {
            let Effect::Put { key, form, expire_at, value } = *effect else {
                self.replay(effect, now)?;
                continue;
            };
            let of_part = &fates[self.part(key, fates.len())];
            let fates = of_part.places.get(&self.place);
            let kept = match fates.and_then(|fates| fates.by_key.get(key)) {
                _ if !of_part.has_rest || fates.is_some_and(|fates| fates.is_over) => continue,
                Some(Fate::Removed) => continue,
                Some(Fate::Kept(kept)) => Some(kept),
                None => None,
            };
            let value = self.decode_form(form, value)?;
            let expire_at = kept.and_then(|kept| kept.expire_at).unwrap_or(expire_at);
            let due = due_of_new(&value);
            self.change(key, |write| write.restore_item(value, expire_at, now));
            self.enter_due(key, due, now);
            for (number, change) in kept.into_iter().flat_map(|kept| &kept.changes) {
                self.replay(&Effect::Change { key, number: *number, change }, now)?;
            }
        }
        Ok(())
    }

    /// Prefetches the memory that these records will touch, as one batch.
    pub(crate) fn fetch(&mut self, effects: &[Effect<'_>]) {
        let mut keys = [Key::from(b""); UNPACKED_MAX];
        let mut len = 0;
        for effect in effects.iter().take(UNPACKED_MAX) {
            if let Effect::Put { key, .. }
            | Effect::Remove { key }
            | Effect::Expire { key, .. }
            | Effect::Change { key, .. } = *effect
            {
                keys[len] = key.into();
                len += 1;
            }
        }
        self.prefetch(&mut keys[..len]);
    }
}
