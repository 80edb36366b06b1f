//! Operations on databases: selecting, swapping and clearing them, and moving keys between them.

use hotring_index::Expiry;
use hotring_log::Effect;

use crate::container::is_there;
use crate::container::large::Large;
use crate::databases::Parked;
use crate::error::StoreError;
use crate::gate::Hold;
use crate::holds::Keys;
use crate::logged::with_form;
use crate::ops::fields::due_of_new;
use crate::session::Session;

/// An item that moves to another database: the form of its value, the value, and its expiry.
type Carried = (u8, Vec<u8>, Option<u64>);

impl Session {
    /// Selects the database with this number for all following operations. A new session has selected 0. Costs two
    /// comparisons if the database is selected already.
    #[inline]
    pub fn select(&mut self, number: u8) {
        if self.selected != number || self.swaps != self.databases.swaps() {
            self.select_again(number);
        }
    }

    #[cold]
    pub(crate) fn select_again(&mut self, number: u8) {
        self.swaps = self.databases.swaps();
        self.selected = number;
        self.go_to(self.databases.place(number));
    }

    /// The number of the selected database.
    pub fn selected(&self) -> u8 {
        self.selected
    }

    /// The place of the database that operations use at present: a swap of numbers does not change it.
    pub fn place(&self) -> u8 {
        self.place
    }

    /// The places of the existing databases.
    pub fn places(&self) -> Vec<u8> {
        self.databases.present().map(|(place, _)| place).collect()
    }

    /// The next place after `place` that has a database.
    pub fn place_after(&self, place: u8) -> Option<u8> {
        self.databases.present().map(|(place, _)| place).find(|next| *next > place)
    }

    /// The place of the database with this number.
    pub fn place_of(&self, number: u8) -> u8 {
        self.databases.place(number)
    }

    /// The number by which callers select the database at a place.
    pub fn number_at(&self, place: u8) -> u8 {
        let order = self.databases.order();
        order.iter().position(|at| *at == place).map_or(place, |number| number as u8)
    }

    /// Switches to the database at a place: for work on all databases, and for the records of a log or a snapshot.
    pub fn go_to(&mut self, place: u8) {
        if place == self.place {
            return;
        }
        let mut other = match self.parked[usize::from(place)].take() {
            Some(parked) => parked,
            None => {
                let database = self.databases.at(place).clone();
                let index = database.index.try_session(self.name.as_deref());
                let index = index.expect("the engine takes several sessions, as the first showed");
                Box::new(Parked { index, database })
            }
        };
        // Removed memory of the old database must not wait until this session returns to it.
        self.index.give_away();
        std::mem::swap(&mut self.index, &mut other.index);
        std::mem::swap(&mut self.store, &mut other.database.index);
        std::mem::swap(&mut self.eviction, &mut other.database.eviction);
        std::mem::swap(&mut self.wheels, &mut other.database.wheels);
        std::mem::swap(&mut self.hooks.watchers, &mut other.database.watchers);
        std::mem::swap(&mut self.seed, &mut other.database.seed);
        self.parked[usize::from(self.place)] = Some(other);
        (self.place, self.hooks.place) = (place, place);
        self.index.set_noted(self.hooks.origin.marks_accesses);
    }

    /// Frees a part of the removed memory in the other databases, which no other session may be using. True if there
    /// was any.
    pub(crate) fn collect_kin(&mut self) -> bool {
        let home = self.place;
        let others = self.databases.present().filter(|(place, _)| *place != home);
        let waiting = others.filter(|(_, other)| other.index.own_bytes().limbo > 0);
        let waiting: Vec<u8> = waiting.map(|(place, _)| place).collect();
        for place in &waiting {
            self.within(*place, |session| session.index.collect());
        }
        !waiting.is_empty()
    }

    /// Runs `f` in the database at a place, and switches back.
    pub fn within<R>(&mut self, place: u8, f: impl FnOnce(&mut Session) -> R) -> R {
        /// Switches back even if `f` panics.
        struct Away<'a>(&'a mut Session, u8);
        impl Drop for Away<'_> {
            fn drop(&mut self) {
                self.0.go_to(self.1);
            }
        }
        let home = self.place;
        let away = Away(self, home);
        away.0.go_to(place);
        f(away.0)
    }

    /// Number of keys of the current database, and number of those with an expiry.
    pub fn len(&self) -> (u64, u64) {
        let stats = self.store.stats();
        (stats.items, stats.expiring)
    }

    /// Removes every key of every database, at one moment for every observer.
    pub fn clear_all(&mut self) {
        let before: Vec<_> = self.hold(&Keys::All, Hold::WriteOnce, |session| {
            if !session.may_write() {
                return Vec::new();
            }
            // Listed within the hold, or a database created in the meantime would keep its keys.
            let places = session.places();
            places.into_iter().map(|place| session.within(place, Session::clear_here)).collect()
        });
        // Dropped here, when no session waits for it.
        drop(before);
    }

    /// Swaps the numbers of two databases, at one moment for every observer. All waits for changes of their keys end;
    /// waits for elements stay with the numbers, and their keys must be served ([`Session::next_ready`]). Sessions
    /// follow at their next [`select`](Self::select).
    ///
    /// An operation that has begun in a database before the swap ends there, unless it is one [in the selected
    /// database](Self::exclusive_in_selected).
    pub fn swap(&mut self, one: u8, other: u8) {
        let selected = self.selected;
        if one == other {
            return;
        }
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            if !session.may_write() {
                return;
            }
            let (order, moved) = session.databases.swap(one, other);
            session.log_effect(&Effect::Order { order: &order });
            let actor = session.hooks.origin.actor;
            for (place, keys) in moved {
                session.within(place, |session| session.hooks.watchers.tell_swapped(actor));
                // The keys may have elements in this database.
                session.ready.extend(keys.into_iter().map(|key| (place, key)));
            }
        });
        self.select(selected);
    }

    /// Like [`exclusive`](Self::exclusive), in the database that has the selected number once the keys are held: `f`
    /// sees the right database even if numbers are swapped while this session waits. Operations in `f` must use the
    /// selected database, not [another one](Self::go_to).
    ///
    /// # Panics
    /// Like `exclusive`.
    pub fn exclusive_in_selected<R>(
        &mut self,
        keys: &[&[u8]],
        f: impl FnOnce(&mut Session) -> R,
    ) -> R {
        let mut f = Some(f);
        loop {
            self.select(self.selected);
            // A number cannot change its place while keys are held.
            let result = self.exclusive(keys, |session| {
                let is_there = session.swaps == session.databases.swaps();
                f.take_if(|_| is_there).map(|f| f(session))
            });
            if let Some(result) = result {
                return result;
            }
        }
    }

    /// Moves a key to the database with this number, unless that has the key already. True if the key was moved.
    ///
    /// # Errors
    /// [`StoreError::Stalled`]
    pub fn move_to(&mut self, key: &[u8], number: u8, now: u64) -> Result<bool, StoreError> {
        self.admit_little()?;
        self.carry(key, (number, key), false, now, |session| _ = session.remove(key, now))
    }

    /// Copies a key to a key of the database with this number, as [`copy`](Self::copy) does within one database.
    ///
    /// # Errors
    /// Those of `copy`.
    pub fn copy_to(
        &mut self,
        from: &[u8],
        to: (u8, &[u8]),
        replace: bool,
        now: u64,
    ) -> Result<bool, StoreError> {
        if self.databases.place(to.0) == self.place {
            return self.copy(from, to.1, replace, now);
        }
        self.check_key(to.1)?;
        self.admit()?;
        self.carry(from, to, replace, now, |_| ())
    }

    /// Copies a key's item to a key of another database, and then runs `after`, all at one moment for every observer.
    fn carry(
        &mut self,
        from: &[u8],
        (number, to): (u8, &[u8]),
        replace: bool,
        now: u64,
        after: impl FnOnce(&mut Session),
    ) -> Result<bool, StoreError> {
        let place = self.databases.place(number);
        let hash = self.within(place, |session| session.gate_hash(to));
        let mut hashes = vec![self.gate_hash(from), hash];
        self.hold(&Keys::new(&mut hashes), Hold::Exclusive, |session| {
            session.check_role()?;
            let Some((form, value, expire_at)) = session.carried(from, now) else {
                return Ok(false);
            };
            let moved = session.within(place, |session| {
                if !replace && !session.is_free(to, now) {
                    return false;
                }
                let value = session.decode_form(form, &value).expect("this version has stored it");
                let expiry = expire_at.map_or(Expiry::Never, Expiry::At);
                let due = due_of_new(&value);
                session.change(to, |write| write.put_item(value, expiry, now));
                session.enter_due(to, due, now);
                true
            });
            if moved {
                after(session);
            }
            Ok(moved)
        })
    }

    fn carried(&mut self, key: &[u8], now: u64) -> Option<Carried> {
        self.read(key, now, |entry| {
            let (form, value) = match entry.block().and_then(Large::of) {
                _ if !is_there(&entry, now) => return None,
                Some(large) => large.read(|contents| (contents.parts.kind(), contents.to_packed())),
                None => with_form(entry.value, |form, value| (form, value.to_vec())),
            };
            Some((form, value, entry.expire_at))
        })
        .flatten()
    }
}
