//! Replaying the records of a stream on one session.

use hotring_log::Effect;

use super::key_of;
use crate::gate::Hold;
use crate::holds::Keys;
use crate::logged::UnknownForm;
use crate::session::Session;
use crate::stripe::spread;

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
            match (effect, key_of(effect)) {
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
