//! The repair of a store whose last records its primary does not have: it needs the present state of the keys in them.

use std::collections::BTreeSet;

use hotring_index::Damaged;
use hotring_log::{Effect, Records, pack};

use super::Applier;
use crate::session::Session;
use crate::snapshot::SnapshotFailed;

/// A key, and the ID of its database.
type Placed = (u8, Box<[u8]>);

/// The keys in the last records of a store, which its primary does not have.
#[derive(Debug, Default)]
pub struct TailKeys {
    keys: BTreeSet<Placed>,
    /// Bytes that they take in memory, about.
    len: usize,
    /// A record concerns whole databases.
    is_whole: bool,
}

impl TailKeys {
    /// Bytes above which a copy of the store costs less than a repair.
    const LEN_MAX: usize = 32 << 20;

    /// Bytes that a key takes in addition to its own.
    const OVERHEAD: usize = 64;

    /// Adds the keys that a batch changes.
    pub fn add(&mut self, effects: &[Effect<'_>]) {
        let mut database_id = 0;
        for effect in effects {
            match (effect, effect.key()) {
                (_, Some(key)) if !self.needs_copy() => self.insert((database_id, key.into())),
                (Effect::Database { number }, None) => database_id = *number,
                (Effect::Clear | Effect::Order { .. }, None) => self.is_whole = true,
                _ => {}
            }
        }
    }

    fn insert(&mut self, placed: Placed) {
        let len = placed.1.len() + Self::OVERHEAD;
        if self.keys.insert(placed) {
            self.len += len;
        }
    }

    /// Adds the keys of another tail.
    pub fn add_all(&mut self, other: TailKeys) {
        self.is_whole |= other.is_whole;
        other.keys.into_iter().for_each(|placed| self.insert(placed));
    }

    /// Whether only a copy of the store repairs it: the records concern whole databases, or too many keys.
    pub fn needs_copy(&self) -> bool {
        self.is_whole || self.len > Self::LEN_MAX
    }

    /// The keys, each with the ID of its database.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &[u8])> {
        self.keys.iter().map(|(database_id, key)| (*database_id, &**key))
    }
}

impl Applier {
    /// Removes keys whose state another store will give ([`Session::export`]): no record of that store must be applied
    /// to values that it does not know.
    pub fn forget(&mut self, keys: &TailKeys) {
        for (database_id, key) in keys.iter() {
            self.session.go_to(database_id);
            self.session.replay(&Effect::Remove { key }, 0).expect("it has no value");
        }
        self.session.go_to(0);
    }
}

impl Session {
    /// Packs the present state of keys, for a store in which they differ: their values, expiries and pins, or their
    /// removals. [`Applier::copy`] applies it.
    ///
    /// Each key is read at a moment of its own. As with a part of a copy, the caller must note the log position before,
    /// and send the records behind it afterwards.
    ///
    /// # Errors
    /// An item is damaged in memory.
    pub fn export<'k>(
        &mut self,
        keys: impl IntoIterator<Item = (u8, &'k [u8])>,
    ) -> Result<Vec<u8>, Damaged> {
        let (home, mut scratch, mut packed) = (self.database_id(), Records::new(), Vec::new());
        let mut exported = Ok(());
        let mut last = None;
        for (database_id, key) in keys {
            if exported.is_err() {
                break;
            }
            if last.replace(database_id) != Some(database_id) {
                pack(&Effect::Database { number: database_id }, &mut scratch, &mut packed);
            }
            self.go_to(database_id);
            exported = self.export_key(key, &mut scratch, &mut packed);
            self.gate.waiting.rest();
        }
        self.go_to(home);
        exported.map(|()| packed)
    }

    fn export_key(
        &mut self,
        key: &[u8],
        scratch: &mut Records,
        packed: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        let (mut longs, mut is_there) = (Vec::new(), false);
        let read = self.value_of(key, &mut longs, |put| {
            is_there = true;
            pack(put, scratch, packed);
        });
        match read {
            Err(SnapshotFailed::Damaged(damaged)) => return Err(damaged),
            Err(SnapshotFailed::Io(_)) | Ok(()) => {}
        }
        is_there |= !longs.is_empty();
        longs.iter().for_each(|long| long.put(|put| pack(put, scratch, packed)));
        if !is_there {
            pack(&Effect::Remove { key }, scratch, packed);
        }
        let pin = if self.is_pinned(key) { Effect::Pin { key } } else { Effect::Unpin { key } };
        pack(&pin, scratch, packed);
        Ok(())
    }
}
