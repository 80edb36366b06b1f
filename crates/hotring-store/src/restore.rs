//! Loads a snapshot in two parts with the log replayed in between, so that the hottest keys can be served before the
//! rest has loaded.
//!
//! The plain order is the complete snapshot and then the log. Here the hottest part of the snapshot is loaded first,
//! then the log, and then the rest of the snapshot. A key that is there when the rest is loaded already has its value:
//! from the log, or from the first part as the log has changed it. So only absent keys are taken from the rest, with
//! the log's records of them: [`KeyFates`] remembers that a key was removed, or got another expiry.
//!
//! After a FLUSHALL in the log nothing of the rest is needed, but it is read to its end all the same: the log has a
//! `Clear` of each database, and which databases the rest has is not known before.
//!
//! Nothing else may change the store until the rest is loaded. Expired keys must stay, too: the rest may have an
//! earlier version of a key that never expires.

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
    /// By the places of their databases.
    places: BTreeMap<u8, Fates>,
}

/// The same of the keys of one database.
#[derive(Debug)]
struct Fates {
    by_key: HashMap<Box<[u8]>, Fate>,
    /// There is no rest, or all of it was removed later.
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
    /// Its expiry, if that is another.
    expire_at: Option<Option<u64>>,
    /// Changes of its value, with their numbers.
    changes: Vec<(u64, Box<[u8]>)>,
}

impl KeyFates {
    /// Of a log behind a snapshot that has a rest, or is all there.
    pub fn new(has_rest: bool) -> KeyFates {
        KeyFates { has_rest, places: BTreeMap::new() }
    }

    /// All keys of the database at this place were removed: of the rest none of them is needed.
    pub fn clear(&mut self, place: u8) {
        self.places.insert(place, Fates { by_key: HashMap::new(), is_over: true });
    }

    fn of(&mut self, place: u8) -> &mut Fates {
        let new = || Fates { by_key: HashMap::new(), is_over: !self.has_rest };
        self.places.entry(place).or_insert_with(new)
    }

    /// Whether nothing of the rest is needed.
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
    /// Has the table be as large as this many items will need it, before they come, if the engine can, or until `stop`
    /// says so. It saves the work of moving those that are there at each doubling.
    pub fn expect(&self, items: u64, stop: impl Fn() -> bool) {
        let mut session = self.session();
        while session.index.is_small_for(items) && !stop() && session.index.grow() {}
    }
}

impl Session {
    /// Which of `parts` a key belongs to: several threads may read the log if each has the records of some keys.
    pub fn part(&self, key: &[u8], parts: usize) -> usize {
        ((u128::from(spread(self.logged.seed(), key)) * parts as u128) >> u64::BITS) as usize
    }

    /// Whether the key is there; at time 0, also if its time is over.
    pub fn is_stored(&mut self, key: &[u8], now: u64) -> bool {
        self.peek(key, now, |_| ()).is_some()
    }

    /// Carries out records, as [`replay`](Self::replay), before the rest of the snapshot is loaded. Records
    /// of a key must be replayed in order, with the same `fates`. On `Clear` the caller must also clear the
    /// fates of the other parts.
    ///
    /// # Errors
    /// A value has no form that this version knows.
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

    /// Stores items of the rest with their changes in the log. `fates` are those of all parts of the keys.
    ///
    /// # Errors
    /// A value has no form that this version knows.
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

    /// Prefetches the memory that these will touch, as one pipeline.
    fn fetch(&mut self, effects: &[Effect<'_>]) {
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
