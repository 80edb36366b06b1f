//! Reading a snapshot in two parts, with the log between them: who is asked early for what is asked for most can answer
//! then.
//!
//! In order would be the whole snapshot first, and then the log. Here the hottest part of the snapshot is read, then
//! the log, and then the rest of the snapshot. A key that is there by then has the value that it is to have: the log
//! gave it, or it is of the first part and the log has changed it since. So of the rest only those keys are put that are
//! not there, and what the log said of them before they were, [`Ahead`] remembers: that a key is removed, or expires at
//! another time.
//!
//! Until the rest is there nothing else may change the store. What has expired stays, too: the rest may have an
//! earlier version of it that never would.

use std::collections::HashMap;

use hotring_index::Key;
use hotring_log::{Effect, UNPACKED_MAX};

use crate::logged::{UnknownForm, from_form};
use crate::session::Session;
use crate::store::Store;
use crate::stripe::spread;

/// What the log has said of keys that the rest of the snapshot may have.
#[derive(Debug)]
pub struct Ahead {
    fates: HashMap<Box<[u8]>, Fate>,
    /// There is no rest, or all of it was removed later.
    is_over: bool,
}

/// What becomes of an item of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Removed,
    Expires(Option<u64>),
}

impl Ahead {
    /// Of a log behind a snapshot that has a rest, or is all there.
    pub fn new(has_rest: bool) -> Ahead {
        Ahead { fates: HashMap::new(), is_over: !has_rest }
    }

    /// All keys were removed: of the rest none is needed.
    pub fn clear(&mut self) {
        *self = Ahead::new(false);
    }

    /// Whether nothing of the rest is needed.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Store {
    /// Has the table be as large as this many items will need it, before they come, if the engine can, or until `stop` says
    /// so. It saves the work of moving those that are there at each doubling.
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

    /// Does what records say, as [`replay`](Self::replay), while the rest of the snapshot is still to be read. Records of a
    /// key are done in their order, with the same `ahead`. If `Clear` comes there, the others' is to be cleared by hand.
    ///
    /// # Errors
    /// A value has no form that this version knows.
    pub fn replay_ahead(
        &mut self,
        effects: &[Effect<'_>],
        now: u64,
        ahead: &mut Ahead,
    ) -> Result<(), UnknownForm> {
        self.fetch(effects);
        for effect in effects {
            match *effect {
                _ if ahead.is_over => {}
                Effect::Put { key, .. } if !ahead.fates.is_empty() => _ = ahead.fates.remove(key),
                Effect::Remove { key } => _ = ahead.fates.insert(key.into(), Fate::Removed),
                Effect::Expire { key, expire_at } if !self.is_stored(key, 0) => {
                    let fate = ahead.fates.entry(key.into()).or_insert(Fate::Expires(expire_at));
                    if *fate != Fate::Removed {
                        *fate = Fate::Expires(expire_at);
                    }
                }
                Effect::Clear => ahead.clear(),
                _ => {}
            }
            self.replay(effect, now)?;
        }
        Ok(())
    }

    /// Has items of the rest, with what the log has said since. `aheads` are those of all parts of the keys.
    ///
    /// # Errors
    /// A value has no form that this version knows.
    pub fn replay_rest(
        &mut self,
        effects: &[Effect<'_>],
        now: u64,
        aheads: &[Ahead],
    ) -> Result<(), UnknownForm> {
        self.fetch(effects);
        for effect in effects {
            let Effect::Put { key, form, expire_at, value } = *effect else {
                self.replay(effect, now)?;
                continue;
            };
            let value = from_form(form, value).ok_or(UnknownForm { form })?;
            let ahead = &aheads[self.part(key, aheads.len())];
            let fate = if ahead.fates.is_empty() { None } else { ahead.fates.get(key) };
            let expire_at = match fate {
                _ if ahead.is_over => continue,
                Some(Fate::Removed) => continue,
                Some(Fate::Expires(at)) => *at,
                None => expire_at,
            };
            self.change(key, |write| write.restore_item(value, expire_at, now));
        }
        Ok(())
    }

    /// Has what these will touch fetched from memory, side by side.
    fn fetch(&mut self, effects: &[Effect<'_>]) {
        let mut keys = [Key::from(b""); UNPACKED_MAX];
        let mut len = 0;
        for effect in effects.iter().take(UNPACKED_MAX) {
            if let Effect::Put { key, .. } | Effect::Remove { key } | Effect::Expire { key, .. } =
                *effect
            {
                keys[len] = key.into();
                len += 1;
            }
        }
        self.prefetch(&mut keys[..len]);
    }
}
