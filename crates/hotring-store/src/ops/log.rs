//! Switching the log on and off, and replaying its records.

use hotring_index::{Expiry, NewValue};
use hotring_log::{Effect, Lsn};

use crate::databases::DATABASES_MAX;
use crate::gate::Hold;
use crate::hash::change::give_expiries;
use crate::holds::Keys;
use crate::logged::{UnknownForm, from_form};
use crate::ops::fields::due_of_new;
use crate::session::Session;

impl Session {
    /// Switches the logging of writes on or off. After the return, every write either is logged or had ended before.
    /// False if the store has no log ([`Store::set_log`](crate::Store::set_log)).
    pub fn switch_log(&mut self, on: bool) -> bool {
        let has_log = self.logged.parts.get().is_some();
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            session.logged.modes.set_logged(on && has_log);
        });
        has_log
    }

    /// Runs `f` with the last log position at a moment when no write is between its change and its record. None if
    /// there is no log.
    pub fn at_end_of_log<R>(&mut self, f: impl FnOnce(&mut Session, Lsn) -> R) -> Option<R> {
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            let position = session.log_position()?;
            Some(f(session, position))
        })
    }

    /// Logs an effect that is not a write of an item, within a hold.
    pub(crate) fn log_effect(&mut self, effect: &Effect<'_>) {
        // An applier's records are in the log before they are applied.
        if self.logged.is_on() && !self.applies {
            self.logging.of_database(self.database_id).push(effect);
        }
    }

    /// Decodes a value of the log or of a snapshot.
    pub(crate) fn decode_form<'v>(
        &self,
        form: u8,
        value: &'v [u8],
    ) -> Result<NewValue<'v>, UnknownForm> {
        from_form(form, value, &self.containers, &self.store).ok_or(UnknownForm { form })
    }

    /// Replays a record. Records of a key must be replayed in order, those of different keys in any order, and nothing
    /// else may write meanwhile. Expired keys must not be removed until the end, because a later record may extend
    /// their expiry. Waiters and observers are notified as of any write.
    ///
    /// # Errors
    /// The value has a form that is unknown to this version.
    pub fn replay(&mut self, effect: &Effect<'_>, now: u64) -> Result<(), UnknownForm> {
        match *effect {
            Effect::Put { key, form, expire_at, value } => {
                let value = self.decode_form(form, value)?;
                let expiry = expire_at.map_or(Expiry::Never, Expiry::At);
                // Replay must not evict: because nothing is logged, evicted keys would come back with the next start.
                let due = due_of_new(&value);
                self.change(key, |write| write.put_item(value, expiry, now));
                self.enter_due(key, due, now);
            }
            Effect::Remove { key } => _ = self.change(key, |write| write.remove(0)),
            Effect::Expire { key, expire_at } => {
                self.change(key, |write| write.restore_expiry(expire_at, now));
            }
            Effect::Change { key, number, change } => {
                let known = self.change_in_order(key.into(), |write, objects| {
                    write.replay_changes(objects, number, change)
                });
                if !known {
                    return Err(UnknownForm { form: change.last().copied().unwrap_or(0) });
                }
                if give_expiries(change) {
                    self.enter_due_of_key(key, now);
                }
            }
            Effect::Clear => self.clear(),
            Effect::Pin { key } => self.restore_pin(key, now),
            Effect::Unpin { key } => _ = self.unpin(&[key]),
            Effect::Database { number } => self.go_to(number),
            Effect::Order { order } => self.replay_order(order),
            Effect::Epochs { .. } | Effect::Durable { .. } => {}
        }
        Ok(())
    }

    /// Puts the databases in this order. Clients that wait for elements are not moved: a replica has none.
    fn replay_order(&mut self, order: &[u8; DATABASES_MAX]) {
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            let before = session.databases.order();
            session.databases.set_order(order);
            let changed = order.iter().zip(before).filter(|(now, before)| **now != *before);
            let actor = session.hooks.origin.actor;
            for place in changed.map(|(place, _)| *place) {
                session.within(place, |session| session.hooks.watchers.notify_swapped(actor));
            }
        });
    }
}
