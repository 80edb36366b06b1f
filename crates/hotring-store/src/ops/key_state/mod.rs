//! Detects writes of keys, for optimistic transactions (WATCH).
//!
//! A present key gets a version, and every write of it, including a change of its expiry, leaves an item without that
//! version: that costs writers nothing. An absent key has no item for a version, so a [`crate::watch`] waits for it,
//! which also notices a key that has been created and removed again.

use std::task::Waker;

use hotring_index::Entry;

use crate::container::is_present;
use crate::error::StoreError;
use crate::session::Session;
use crate::watch::{Leave, Watch};

/// The state of a key at one moment, to be compared later ([`Session::is_unchanged`]).
#[derive(Debug)]
pub struct KeyState(State);

#[derive(Debug)]
enum State {
    Present {
        /// The number and ID of its database, and a stamp that differs if the number has got another database since.
        number: u8,
        database_id: u8,
        stamp: u64,
        key: Box<[u8]>,
        version: u64,
    },
    Absent(Watch),
}

impl KeyState {
    /// The key.
    pub fn key(&self) -> &[u8] {
        match &self.0 {
            State::Present { key, .. } => key,
            State::Absent(watch) => watch.key(),
        }
    }

    /// The ID of its database.
    pub fn database_id(&self) -> u8 {
        match &self.0 {
            State::Present { database_id, .. } => *database_id,
            State::Absent(watch) => watch.database_id,
        }
    }
}

impl Session {
    /// Remembers the key's present state. A state takes a little memory, and the state of an absent key slows writes of
    /// the same stripe while it exists; the caller must limit their number.
    ///
    /// # Errors
    /// [`StoreError::KeyTooLong`], [`StoreError::Stalled`]
    pub fn key_state(&mut self, key: &[u8], now: u64) -> Result<KeyState, StoreError> {
        self.check_key(key)?;
        loop {
            let (number, database_id) = (self.selected, self.database_id);
            // Read before the version and the watch: after a swap in between the stamp differs. Its lowest byte is the
            // ID.
            let stamp = self.databases.stamp(number);
            if stamp as u8 != database_id {
                self.select_again(number);
                continue;
            }
            if let Some(version) = self.version(key, now)? {
                let key = key.into();
                return Ok(KeyState(State::Present { number, database_id, stamp, key, version }));
            }
            let leave = Leave::unasked(&self.hooks.watchers);
            let watch = self.enter(leave, key, None, Waker::noop().clone(), now);
            // Otherwise the key has been created in between, or the number has got another database.
            if !watch.began_with_the_key() && self.databases.stamp(number) == stamp {
                return Ok(KeyState(State::Absent(watch)));
            }
        }
    }

    /// Whether the key has neither been written nor expired since then. The answer stays true while this session holds
    /// the key ([`Session::exclusive`]).
    pub fn is_unchanged(&mut self, state: &KeyState, now: u64) -> bool {
        match &state.0 {
            State::Present { number, stamp, .. } if self.databases.stamp(*number) != *stamp => {
                false
            }
            State::Present { database_id, key, version, .. } => {
                self.within(*database_id, |session| {
                    let is_it = |entry: Entry<'_>| {
                        entry.version == Some(*version) && is_present(&entry, now)
                    };
                    session.read(key, now, is_it) == Some(true)
                })
            }
            State::Absent(watch) => !watch.has_fired(),
        }
    }
}

#[cfg(test)]
mod tests;
