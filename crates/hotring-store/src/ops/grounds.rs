//! Changing the grounds of a store ([`crate::grounds`]), and removing the keys that are no longer its own.

use std::sync::Arc;

use hotring_log::{Effect, Lsn};

use crate::gate::Hold;
use crate::grounds::{Grounds, Writes};
use crate::holds::Keys;
use crate::session::Session;

/// A time at which nothing has expired.
const NO_TIME: u64 = 0;

/// The result of [`Session::forget_some`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Where the next call goes on, 0 at the end.
    pub next: u64,
    /// Number of removed keys.
    pub removed: usize,
    /// Number of hidden keys that stay, because they are not to be forgotten.
    pub kept: usize,
}

impl Session {
    /// Changes the grounds while no other session is within the gate: `make` gets the version that they will have, and
    /// may publish it to those who check requests. Returns the position of the last record at that moment; None if
    /// there is no log. After the return every write either is logged up to that position or obeys the new grounds.
    ///
    /// Clients that wait for changes of keys, or keep copies of them, are told that all may have changed if keys are
    /// hidden that they could see.
    pub fn change_grounds(&mut self, make: impl FnOnce(u64) -> Arc<Grounds>) -> Option<Lsn> {
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            let position = session.logged.log().map(hotring_log::Log::handed);
            let grounds = make(session.logged.modes.next_version());
            session.logged.modes.raise_version();
            let before = session.logged.grounds.set(grounds.clone());
            if before.is_some() && grounds.hides_more_than(before.as_deref()) {
                for database_id in session.database_ids() {
                    session.within(database_id, |session| session.hooks.watchers.notify_swapped(0));
                }
            }
            position
        })
    }

    /// Declares by which version of the grounds the requests of this session are checked.
    pub fn rely_on(&mut self, version: u64) {
        self.relies_on = version;
    }

    /// The present version of the grounds, 0 without any. It lasts while this session holds keys.
    pub fn grounds_version(&self) -> u64 {
        self.logged.modes.get().version()
    }

    /// The present grounds.
    pub fn grounds(&self) -> Option<Arc<Grounds>> {
        self.logged.grounds.get()
    }

    /// Whether requests were checked by other grounds than the present ones: a request that holds its keys must ask
    /// before it begins. The answer lasts while this session holds keys.
    #[inline]
    pub fn is_displaced(&self) -> bool {
        self.writes == Writes::Open
            && self.relies_on != 0
            && self.relies_on != self.grounds_version()
    }

    /// Removes the hidden keys among about `count` keys from `cursor` on, except those that are coming from another
    /// store and those that `is_kept` accepts. The removals are logged, and no observer is told of them. Begin with 0.
    ///
    /// A hidden key that is there from the first call to the last is met. The caller must know that the keys are
    /// another store's.
    pub fn forget_some(
        &mut self,
        cursor: u64,
        count: usize,
        is_kept: impl Fn(&[u8]) -> bool,
    ) -> Forgotten {
        let Some(grounds) = self.grounds() else { return Forgotten::default() };
        if cursor == 0 {
            self.write_as(Writes::Hidden, |session| session.forget_pins(&grounds, &is_kept));
        }
        let (mut found, mut kept) = (Vec::new(), 0);
        let next =
            self.scan_index(cursor, count, NO_TIME, |entry| match grounds.standing(entry.key) {
                standing if !standing.is_hidden() => {}
                standing if Writes::Hidden.may(standing) && !is_kept(entry.key) => {
                    found.push(Box::<[u8]>::from(entry.key));
                }
                _ => kept += 1,
            });
        // A damaged item is removed like any other.
        self.take_damage();
        let removed = self.write_as(Writes::Hidden, |session| {
            found.iter().filter(|key| session.forget(key)).count()
        });
        Forgotten { next, removed, kept }
    }

    /// Removes the pins of hidden keys, whether or not these are there.
    fn forget_pins(&mut self, grounds: &Grounds, is_kept: impl Fn(&[u8]) -> bool) {
        for key in self.pinned_keys(None, usize::MAX) {
            if !Writes::Hidden.may(grounds.standing(&key)) || is_kept(&key) {
                continue;
            }
            let held = self.keys([&*key]);
            self.hold(&held, Hold::Exclusive, |session| {
                if session.check_role().is_ok() && session.may_write_key(&key) {
                    session.eviction.pins.unpin(&[&key]);
                    session.log_effect(&Effect::Unpin { key: &key });
                }
            });
        }
    }

    /// Removes a key.
    fn forget(&mut self, key: &[u8]) -> bool {
        let is_gone = self.change(key, |write| write.remove(NO_TIME));
        // The grounds may have changed meanwhile: then the key stays.
        self.take_refused().is_ok() && is_gone
    }

    /// Runs `f`, which writes keys of another standing than clients do.
    pub(crate) fn write_as<R>(&mut self, writes: Writes, f: impl FnOnce(&mut Session) -> R) -> R {
        /// Changes back even if `f` panics.
        struct Other<'a>(&'a mut Session, Writes, u64);
        impl Drop for Other<'_> {
            fn drop(&mut self) {
                (self.0.writes, self.0.relies_on) = (self.1, self.2);
            }
        }
        let other = Other(self, self.writes, self.relies_on);
        let session = &mut *other.0;
        // No version is this one: each write looks at the standing of its key.
        (session.writes, session.relies_on) = (writes, u64::MAX);
        f(session)
    }
}
