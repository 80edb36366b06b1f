//! Replaying the records of a stream on one session.

use hotring_log::{Effect, UNPACKED_MAX};

use super::single;
use crate::gate::Hold;
use crate::holds::Keys;
use crate::logged::UnknownForm;
use crate::session::Session;
use crate::stripe::spread;

/// Maximum records of batches that are applied in one hold. To acquire one takes some microseconds; these take some 20
/// in it.
const HOLD_MAX: usize = 64;

/// Batches on their way to one session, in their order.
///
/// Records of single keys are applied one by one. Once a batch of several has come, it and what follows wait to be
/// applied in one hold: readers then see several batches at once.
pub(super) struct Pending<'a> {
    /// The database_id of the database of `singles`.
    database_id: u8,
    singles: [Effect<'a>; UNPACKED_MAX],
    count: usize,
    /// Batches for one hold. Each begins with its database.
    held: Vec<Effect<'a>>,
}

impl<'a> Pending<'a> {
    pub(super) fn new() -> Pending<'a> {
        Pending {
            database_id: 0,
            singles: [Effect::Clear; UNPACKED_MAX],
            count: 0,
            held: Vec::new(),
        }
    }

    /// Adds a batch, and applies some of them if there are many.
    ///
    /// # Errors
    /// A value has a form that is unknown to this version.
    pub(super) fn add(
        &mut self,
        effects: &[Effect<'a>],
        session: &mut Session,
        now: u64,
    ) -> Result<(), UnknownForm> {
        if let Some((database_id, effect)) = single(effects).filter(|_| self.held.is_empty()) {
            if self.count == UNPACKED_MAX || (self.database_id != database_id && self.count > 0) {
                self.flush(session, now)?;
            }
            self.database_id = database_id;
            self.singles[self.count] = effect;
            self.count += 1;
            return Ok(());
        }
        if self.count > 0 || self.held.len() + effects.len() > HOLD_MAX {
            self.flush(session, now)?;
        }
        self.held.push(Effect::Database { number: 0 });
        self.held.extend_from_slice(effects);
        Ok(())
    }

    /// Applies all that were added.
    ///
    /// # Errors
    /// A value has a form that is unknown to this version.
    pub(super) fn flush(&mut self, session: &mut Session, now: u64) -> Result<(), UnknownForm> {
        if self.count > 0 {
            session.go_to(self.database_id);
            session.replay_singles(&self.singles[..self.count], now)?;
            self.count = 0;
        }
        if !self.held.is_empty() {
            session.replay_batch(&self.held, now)?;
            self.held.clear();
        }
        Ok(())
    }
}

impl Session {
    /// Replays effects one by one, and prefetches their memory before.
    ///
    /// # Errors
    /// A value has a form that is unknown to this version.
    pub(super) fn replay_singles(
        &mut self,
        effects: &[Effect<'_>],
        now: u64,
    ) -> Result<(), UnknownForm> {
        self.fetch(effects);
        effects.iter().try_for_each(|effect| self.replay(effect, now))?;
        // What is new must be known to the eviction policy if this store becomes a primary.
        self.enter_new();
        Ok(())
    }

    /// Replays a batch at one moment for every reader.
    ///
    /// # Errors
    /// A value has a form that is unknown to this version.
    pub(super) fn replay_batch(
        &mut self,
        effects: &[Effect<'_>],
        now: u64,
    ) -> Result<(), UnknownForm> {
        let (keys, how) = self.keys_of_batch(effects);
        self.go_to(0);
        for effects in effects.chunks(UNPACKED_MAX) {
            self.fetch(effects);
        }
        self.hold(&keys, how, |session| {
            effects.iter().try_for_each(|effect| session.replay(effect, now))
        })?;
        self.enter_new();
        Ok(())
    }

    /// The keys that a batch changes, and how they must be held.
    fn keys_of_batch(&mut self, effects: &[Effect<'_>]) -> (Keys, Hold) {
        let mut seed = self.databases.at(0).seed;
        let mut hashes = Vec::with_capacity(effects.len());
        for effect in effects {
            match (effect, effect.key()) {
                (_, Some(key)) => hashes.push(spread(seed, key)),
                (Effect::Database { number }, None) => seed = self.databases.at(*number).seed,
                (Effect::Clear | Effect::Order { .. }, None) => {
                    return (Keys::All, Hold::Exclusive);
                }
                (_, None) => {}
            }
        }
        let count = hashes.len();
        let keys = Keys::new(&mut hashes);
        // Readers that began before the hold need not be waited for if each key changes once.
        let how = if hashes.len() == count { Hold::WriteOnce } else { Hold::Exclusive };
        (keys, how)
    }
}
