//! The repair of a store whose last records its primary does not have: it needs the present state of the keys in them.

use std::collections::BTreeSet;

use hotring_index::Damaged;
use hotring_log::{Effect, Records, Run, pack};

use super::key_of;
use crate::session::Session;
use crate::snapshot::SnapshotFailed;

/// A key, and the place of its database.
pub type Placed = (u8, Box<[u8]>);

/// The keys that the records of a run change. None if a record concerns whole databases, so that only a copy of the
/// store repairs it.
pub fn keys_of(run: &Run<'_>) -> Option<BTreeSet<Placed>> {
    let mut keys = Some(BTreeSet::new());
    run.batches(|_, effects| {
        let mut place = 0;
        for effect in effects {
            match (effect, key_of(effect), &mut keys) {
                (_, Some(key), Some(keys)) => _ = keys.insert((place, key.into())),
                (Effect::Database { number }, None, _) => place = *number,
                (Effect::Clear | Effect::Order { .. }, None, keys) => *keys = None,
                _ => {}
            }
        }
    });
    keys
}

impl Session {
    /// Packs the present state of keys, for a store in which they differ: their values, expiries and pins, or their
    /// removals. [`Applier::copy`](crate::Applier::copy) applies it.
    ///
    /// Each key is read at a moment of its own. As with a part of a copy, the caller must note the log position before,
    /// and send the records behind it afterwards.
    ///
    /// # Errors
    /// An item is damaged in memory.
    pub fn export<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k Placed>,
    ) -> Result<Vec<u8>, Damaged> {
        let (home, mut scratch, mut packed) = (self.place(), Records::new(), Vec::new());
        let mut exported = Ok(());
        let mut last = 0;
        for (place, key) in keys {
            if exported.is_err() {
                break;
            }
            if *place != last {
                pack(&Effect::Database { number: *place }, &mut scratch, &mut packed);
                last = *place;
            }
            self.go_to(*place);
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
