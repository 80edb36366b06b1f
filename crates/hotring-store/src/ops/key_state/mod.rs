//! Whether a key has been written since one looked: for transactions that are to fail if it has.
//!
//! A key that is there gets a version, and whatever writes it, its expiry included, leaves an item
//! without that version: writers pay nothing for it. A key that is not there has no item to carry one;
//! it is waited for ([`crate::watch`]), so that one that has come and gone again is noticed too.

use std::task::Waker;

use hotring_index::Entry;

use crate::container::is_there;
use crate::error::StoreError;
use crate::session::Session;
use crate::watch::{Leave, Watch};

/// The state of a key at one moment, to ask later whether it has been written since
/// ([`Session::is_unchanged`]).
#[derive(Debug)]
pub struct KeyState(State);

#[derive(Debug)]
enum State {
    Present {
        /// The number of its database, its place, and a mark that tells whether another has got the number since.
        number: u8,
        place: u8,
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

    /// The place of its database.
    pub fn place(&self) -> u8 {
        match &self.0 {
            State::Present { place, .. } => *place,
            State::Absent(watch) => watch.place,
        }
    }
}

impl Session {
    /// Remembers the key's present state. Each of these takes a little memory, and one of an absent key makes
    /// writes of the same stripe slower while it is kept; how many there may be is up to the caller.
    ///
    /// # Errors
    /// [`StoreError::KeyTooLong`], [`StoreError::Stalled`]
    pub fn key_state(&mut self, key: &[u8], now: u64) -> Result<KeyState, StoreError> {
        self.check_key(key)?;
        loop {
            let (number, place) = (self.selected, self.place);
            // Before the version and the watch: after a swap in between the stamp differs. Its lowest byte is the
            // place.
            let stamp = self.databases.stamp(number);
            if stamp as u8 != place {
                self.select_again(number);
                continue;
            }
            if let Some(version) = self.version(key, now)? {
                let key = key.into();
                return Ok(KeyState(State::Present { number, place, stamp, key, version }));
            }
            let leave = Leave::unasked(&self.hooks.watchers);
            let watch = self.enter(leave, key, None, Waker::noop().clone(), now);
            // Otherwise it has come in between, or the number has got another place.
            if !watch.began_with_the_key() && self.databases.stamp(number) == stamp {
                return Ok(KeyState(State::Absent(watch)));
            }
        }
    }

    /// Whether nothing has written the key since then, nor has it expired. The answer stays
    /// true as long as the key is this session's alone ([`Session::exclusive`]).
    pub fn is_unchanged(&mut self, state: &KeyState, now: u64) -> bool {
        match &state.0 {
            State::Present { number, stamp, .. } if self.databases.stamp(*number) != *stamp => {
                false
            }
            State::Present { place, key, version, .. } => self.within(*place, |session| {
                let is_it =
                    |entry: Entry<'_>| entry.version == Some(*version) && is_there(&entry, now);
                session.read(key, now, is_it) == Some(true)
            }),
            State::Absent(watch) => !watch.has_fired(),
        }
    }
}

#[cfg(test)]
mod tests;
