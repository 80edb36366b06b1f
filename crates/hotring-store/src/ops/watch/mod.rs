//! Waiting for changes of keys. Entering a watch holds its key for a moment ([`crate::watch`]); a look is a single-key
//! read.

use std::task::Waker;

use hotring_index::Entry;

use crate::container::is_present;
use crate::error::StoreError;
use crate::gate::Hold;
use crate::session::Session;
use crate::value::view_string;
use crate::watch::{FirstLook, Leave, Watch};

/// The result of [`Session::poll_watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The awaited change has happened.
    Fired,
    /// The change has not happened yet.
    Waiting {
        /// Look again at this Unix millisecond, when the key expires, unless the waker is called before.
        until: Option<u64>,
    },
}

/// Milliseconds after which a waiter for a key's expiry looks again if the key is held.
const HELD_PAUSE_MS: u64 = 2;

impl Session {
    /// Opens a watch, which fires, without blocking, when the key changes, or with `expected` when the key has this
    /// value. Then [`Watch::has_fired`] is true and `waker` has been called. Dropping the watch ends it.
    ///
    /// * A change is a write of the value that takes place, also of the value that was there; a
    ///   removal, by whatever operation; or the expiry of the key. A refused write, a removal of an
    ///   absent key, and a change of the expiry are none.
    /// * Any change after this call counts, and none before it. A value that changes and changes back
    ///   has changed. An expected value is not missed, however soon another one takes its place; if
    ///   the key has it already the watch has fired when it is returned.
    /// * The store reads no clock: for expiry the caller calls [`Session::poll_watch`] when woken, and at the
    ///   time that this gave.
    ///
    /// The writing thread calls the waker within the write: it must not use the store. O(log n) in the number of
    /// watches; holds the key for that long.
    ///
    /// # Errors
    /// [`StoreError::TooManyWatches`], [`StoreError::KeyTooLong`], [`StoreError::ValueTooLong`]
    pub fn watch(
        &mut self,
        key: &[u8],
        expected: Option<&[u8]>,
        waker: Waker,
        now: u64,
    ) -> Result<Watch, StoreError> {
        self.check_key(key)?;
        self.check_value(expected.map_or(0, <[u8]>::len))?;
        let watchers = &self.hooks.watchers;
        let full = || StoreError::TooManyWatches { max: watchers.open_max() };
        let leave = Leave::ask(watchers).ok_or_else(full)?;
        Ok(self.enter(leave, key, expected, waker, now))
    }

    pub(crate) fn enter(
        &mut self,
        leave: Leave,
        key: &[u8],
        expected: Option<&[u8]>,
        waker: Waker,
        now: u64,
    ) -> Watch {
        let at = (self.database_id, self.stripe(key));
        let keys = self.keys([key]);
        self.hold(&keys, Hold::Read, |session| {
            let found = session.read(key, now, |entry| {
                let is_it =
                    |expected| view_string(&entry, |v| v.with_bytes(|text| text == expected));
                let has_it = expected.is_some_and(|expected| is_it(expected) == Ok(true));
                FirstLook { present: is_present(&entry, now), expected: has_it }
            });
            let first = found.unwrap_or(FirstLook { present: false, expected: false });
            leave.enter(at, key, expected, waker, first)
        })
    }

    /// Checks whether the awaited change has happened, expiry included.
    pub fn poll_watch(&mut self, watch: &Watch, now: u64) -> Watched {
        if watch.has_fired() {
            return Watched::Fired;
        }
        if !watch.ends_with_the_key() {
            return Watched::Waiting { until: None };
        }
        self.within(watch.database_id, |session| session.poll_watch_here(watch, now))
    }

    fn poll_watch_here(&mut self, watch: &Watch, now: u64) -> Watched {
        let damages = self.index.damages();
        let hash = self.gate_hash(watch.key());
        let Some(reading) = self.gate.read_unless_held(hash) else {
            // A look must not wait: its thread serves other connections, possibly the holder's.
            return Watched::Waiting { until: Some(now + HELD_PAUSE_MS) };
        };
        self.clearing.settle(watch.key().into(), &mut self.index);
        let there = |entry: Entry<'_>| is_present(&entry, now).then_some(entry.expire_at);
        let expiry = self.index.peek(watch.key(), now, there);
        drop(reading);
        match expiry.flatten() {
            Some(until) => Watched::Waiting { until },
            None if self.index.damages() != damages => {
                // Damage is not reported here: a reader of the key reports it, and a write repairs it.
                self.take_damage();
                Watched::Waiting { until: None }
            }
            None => Watched::Fired,
        }
    }
}

mod line;
#[cfg(test)]
mod tests;
