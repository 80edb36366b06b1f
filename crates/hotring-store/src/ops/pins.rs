//! Pinning and unpinning keys ([`crate::pins`]).

use hotring_log::Effect;

use crate::error::StoreError;
use crate::gate::Hold;
use crate::session::Session;

impl Session {
    /// Pins all of these keys, so that they are not evicted, or none. Returns the number of newly pinned keys.
    ///
    /// # Errors
    /// [`StoreError::PinnedFull`], [`StoreError::KeyTooLong`]
    pub fn pin(&mut self, keys: &[&[u8]], now: u64) -> Result<usize, StoreError> {
        keys.iter().try_for_each(|key| self.check_key(key))?;
        let mut measured = Vec::with_capacity(keys.len());
        for key in keys {
            measured.push((*key, self.memory(key, now).unwrap_or(0)));
        }
        let held = self.keys(keys.iter().copied());
        // A session that has checked the pins before and is about to evict one of the keys has ended that write when
        // the hold begins.
        self.hold(&held, Hold::Exclusive, |session| {
            session.check_role()?;
            let pinned = session.eviction.pins.pin(&measured)?;
            keys.iter().for_each(|key| session.log_effect(&Effect::Pin { key }));
            Ok(pinned)
        })
    }

    /// Restores a pin from before the store was opened, even above the present limit of pinned memory.
    pub(crate) fn restore_pin(&mut self, key: &[u8], now: u64) {
        let bytes = self.memory(key, now).unwrap_or(0);
        self.eviction.pins.change(|names| names.set(key, bytes));
    }

    /// Pins a key that comes from another store, whose item is measured at this time, or with None removes its pin.
    ///
    /// # Errors
    /// Those of [`pin`](Self::pin), and [`StoreError::Displaced`] if the grounds do not let this session write the key.
    pub(crate) fn import_pin(&mut self, key: &[u8], now: Option<u64>) -> Result<(), StoreError> {
        let bytes = now.map(|now| self.memory(key, now).unwrap_or(0));
        let held = self.keys([key]);
        self.hold(&held, Hold::Exclusive, |session| {
            session.check_role()?;
            if !session.may_write_key(key) {
                return Err(StoreError::Displaced);
            }
            let pins = &session.eviction.pins;
            match bytes {
                Some(bytes) => _ = pins.pin(&[(key, bytes)])?,
                None => _ = pins.unpin(&[key]),
            }
            session.log_effect(&match bytes {
                Some(_) => Effect::Pin { key },
                None => Effect::Unpin { key },
            });
            Ok(())
        })
    }

    /// Removes pins. Returns the number of removed pins.
    pub fn unpin(&mut self, keys: &[&[u8]]) -> usize {
        let held = self.keys(keys.iter().copied());
        self.hold(&held, Hold::Exclusive, |session| {
            if !session.may_write() {
                return 0;
            }
            let unpinned = session.eviction.pins.unpin(keys);
            keys.iter().for_each(|key| session.log_effect(&Effect::Unpin { key }));
            unpinned
        })
    }

    /// Re-measures up to `count` pinned keys, those after `after` in byte order. Returns the last of them, None at the
    /// end.
    pub fn measure_pinned(
        &mut self,
        after: Option<&[u8]>,
        count: usize,
        now: u64,
    ) -> Option<Box<[u8]>> {
        let keys = self.pinned_keys(after, count);
        if keys.is_empty() {
            return None;
        }
        let measured: Vec<_> =
            keys.iter().map(|key| (key, self.memory(key, now).unwrap_or(0))).collect();
        self.eviction.pins.change(|names| {
            for (key, bytes) in measured {
                // The key may have been unpinned in the meantime.
                if names.items.contains_key(key) {
                    names.set(key, bytes);
                }
            }
        });
        keys.into_iter().nth(count.saturating_sub(1))
    }

    /// Whether the key is pinned.
    pub fn is_pinned(&self, key: &[u8]) -> bool {
        self.eviction.pins.has(key)
    }

    /// Up to `count` pinned keys after `after`, in byte order.
    pub fn pinned_keys(&self, after: Option<&[u8]>, count: usize) -> Vec<Box<[u8]>> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let names = self.eviction.pins.names();
        names
            .items
            .range::<[u8], _>((from, Unbounded))
            .take(count)
            .map(|(key, _)| key.clone())
            .collect()
    }
}
