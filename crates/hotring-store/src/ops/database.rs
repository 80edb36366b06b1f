//! Operations on databases: selecting, swapping and clearing them, and moving keys between them.

use hotring_index::Expiry;
use hotring_log::Effect;

use crate::container::is_present;
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
        self.go_to(self.databases.id_of(number));
    }

    /// The number of the selected database.
    pub fn selected(&self) -> u8 {
        self.selected
    }

    /// The ID of the database that operations use at present: a swap of numbers does not change it.
    pub fn database_id(&self) -> u8 {
        self.database_id
    }

    /// The IDs of the existing databases.
    pub fn database_ids(&self) -> Vec<u8> {
        self.databases.present().map(|(database_id, _)| database_id).collect()
    }

    /// The next existing database ID after `database_id`.
    pub fn database_id_after(&self, database_id: u8) -> Option<u8> {
        self.databases
            .present()
            .map(|(database_id, _)| database_id)
            .find(|next| *next > database_id)
    }

    /// The ID of the database with this number.
    pub fn database_id_of(&self, number: u8) -> u8 {
        self.databases.id_of(number)
    }

    /// The number by which callers select the database with this ID.
    pub fn number_of_database(&self, database_id: u8) -> u8 {
        let order = self.databases.order();
        order.iter().position(|at| *at == database_id).map_or(database_id, |number| number as u8)
    }

    /// Switches to the database with this ID: for work on all databases, and for the records of a log or a snapshot.
    pub fn go_to(&mut self, database_id: u8) {
        if database_id == self.database_id {
            return;
        }
        let mut other = match self.parked[usize::from(database_id)].take() {
            Some(parked) => parked,
            None => {
                let database = self.databases.at(database_id).clone();
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
        std::mem::swap(&mut self.clearing, &mut other.database.clearing);
        std::mem::swap(&mut self.hooks.watchers, &mut other.database.watchers);
        std::mem::swap(&mut self.seed, &mut other.database.seed);
        self.parked[usize::from(self.database_id)] = Some(other);
        (self.database_id, self.hooks.database_id) = (database_id, database_id);
        self.index.set_noted(self.hooks.origin.marks_accesses);
    }

    /// Frees a part of the removed memory in the other databases, which no other session may be using. True if there
    /// was any.
    pub(crate) fn collect_kin(&mut self) -> bool {
        let home = self.database_id;
        let others = self.databases.present().filter(|(database_id, _)| *database_id != home);
        let waiting = others.filter(|(_, other)| other.index.own_bytes().limbo > 0);
        let waiting: Vec<u8> = waiting.map(|(database_id, _)| database_id).collect();
        for database_id in &waiting {
            self.within(*database_id, |session| session.index.collect());
        }
        !waiting.is_empty()
    }

    /// Runs `f` in the database with this ID, and switches back.
    pub fn within<R>(&mut self, database_id: u8, f: impl FnOnce(&mut Session) -> R) -> R {
        /// Switches back even if `f` panics.
        struct Away<'a>(&'a mut Session, u8);
        impl Drop for Away<'_> {
            fn drop(&mut self) {
                self.0.go_to(self.1);
            }
        }
        let home = self.database_id;
        let away = Away(self, home);
        away.0.go_to(database_id);
        f(away.0)
    }

    /// Number of keys of the current database, and number of those with an expiry.
    pub fn len(&self) -> (u64, u64) {
        self.clearing.present(|| {
            let stats = self.store.stats();
            (stats.items, stats.expiring)
        })
    }

    /// Removes every key of every database, at one moment for every observer.
    pub fn clear_all(&mut self) {
        let before: Vec<_> = self.hold(&Keys::All, Hold::WriteOnce, |session| {
            if !session.may_write() {
                return Vec::new();
            }
            // Listed within the hold, or a database created in the meantime would keep its keys.
            let database_ids = session.database_ids();
            database_ids
                .into_iter()
                .map(|database_id| session.within(database_id, Session::clear_here))
                .collect()
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
    pub fn swap_databases(&mut self, one: u8, other: u8) {
        let selected = self.selected;
        if one == other {
            return;
        }
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            if !session.may_write() {
                return;
            }
            let (order, moved) = session.databases.swap_numbers(one, other);
            session.log_effect(&Effect::Order { order: &order });
            let actor = session.hooks.origin.actor;
            for (database_id, keys) in moved {
                session.within(database_id, |session| session.hooks.watchers.notify_swapped(actor));
                // The keys may have elements in this database.
                session.ready.extend(keys.into_iter().map(|key| (database_id, key)));
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
            // A number cannot change its database while keys are held.
            let result = self.exclusive(keys, |session| {
                let is_present = session.swaps == session.databases.swaps();
                f.take_if(|_| is_present).map(|f| f(session))
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
        if self.databases.id_of(to.0) == self.database_id {
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
        let database_id = self.databases.id_of(number);
        let hash = self.within(database_id, |session| session.gate_hash(to));
        let mut hashes = vec![self.gate_hash(from), hash];
        self.hold(&Keys::new(&mut hashes), Hold::Exclusive, |session| {
            session.check_role()?;
            let Some((form, value, expire_at)) = session.carried(from, now) else {
                return Ok(false);
            };
            let moved = session.within(database_id, |session| {
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
                _ if !is_present(&entry, now) => return None,
                Some(large) => large.read(|contents| (contents.parts.kind(), contents.to_packed())),
                None => with_form(entry.value, |form, value| (form, value.to_vec())),
            };
            Some((form, value, entry.expire_at))
        })
        .flatten()
    }
}
