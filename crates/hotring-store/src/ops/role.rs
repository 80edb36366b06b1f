//! The role of the store: who may write it, and whether what expires is removed in the log.
//!
//! Both change while no other session is within the gate, so each write is entirely before or entirely after.
//!
//! # What has expired
//! Usually an expired item is removed by whoever meets it, and nothing is logged: whoever replays the log finds its
//! expiry there. A replica must not go by its own clock, because its primary may have given the key more time. So while
//! the log is followed ([`Session::follow`]), an expired item is absent to all operations, but stays until the expirer
//! removes it under the key's order lock, with a record, or a write stores another value. A replica removes nothing but
//! what its stream removes. Its timing wheels are of no use; they are built again when it becomes a primary.

use hotring_log::Lsn;

use crate::error::StoreError;
use crate::gate::Hold;
use crate::holds::Keys;
use crate::mode::Role;
use crate::session::Session;
use crate::stripe::spread;
use crate::watch::Watch;

impl Session {
    /// Changes the role of the store, and returns the position of the last record at that moment; None if there is no
    /// log. After the return every write was either logged up to that position or is refused.
    ///
    /// A store must not become a primary while an [`Applier`](crate::Applier) is at work.
    pub fn switch_role(&mut self, role: Role, now: u64) -> Option<Lsn> {
        let (position, wheels) = self.hold(&Keys::All, Hold::Exclusive, |session| {
            let position = session.logged.log().map(hotring_log::Log::handed);
            let was_replica = session.logged.modes.get().is_replica();
            session.logged.modes.set_role(role);
            if !was_replica && role == Role::Replica {
                // All of it is applied: no write is under way.
                session.logged.modes.begin_at(position.unwrap_or(0));
            }
            let databases = session.databases.present();
            let rebuild = was_replica && role == Role::Primary;
            let wheels: Vec<_> =
                databases.filter(|_| rebuild).map(|(_, all)| all.wheels.rebuild(now)).collect();
            (position, wheels)
        });
        // Dropped here, when no session waits for it.
        drop(wheels);
        position
    }

    /// Begins or ends to remove in the log what expires. Returns the position of the last record at that moment; None
    /// if there is no log. From there on, records and what a walk meets are all that a replica needs.
    pub fn follow(&mut self, on: bool) -> Option<Lsn> {
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            session.logged.modes.set_followed(on);
            session.logged.log().map(hotring_log::Log::handed)
        })
    }

    /// Begins or ends to mark writes, so that [`last_records`](Self::last_records) can tell what a reply depends on.
    /// All writes before count as one write of all keys. Returns the position of the last record at that moment; None
    /// if there is no log.
    pub fn mark_writes(&mut self, on: bool) -> Option<Lsn> {
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            let position = session.logged.log().map(hotring_log::Log::handed);
            session.logged.modes.set_marked(on);
            session.logged.marks.begin_at(position.unwrap_or(0));
            position
        })
    }

    /// Whether writes are marked. A session that has read before they were need not be told.
    #[inline(always)]
    pub fn marks_writes(&self) -> bool {
        self.logged.modes.get().is_marked()
    }

    /// The position that the log must have reached at the replicas before a reply may show what this session has read
    /// of these keys of the present database, be it a value or nothing: to be asked after the reads, while writes are
    /// marked. May wait for a write of these keys that is under way. It is too high rather than too low.
    #[inline]
    pub fn last_records<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k [u8], IntoIter: Clone>,
    ) -> Lsn {
        let (seed, keys) = (self.seed, keys.into_iter());
        match self.logged.marks.settled(keys.clone().map(|key| spread(seed, key))) {
            Some(last) => last,
            None => keys.map(|key| self.last_record(key)).max().unwrap_or(0),
        }
    }

    /// Like [`last_records`](Self::last_records), for a session that may have read any keys of any database.
    pub fn last_record_of_all(&mut self) -> Lsn {
        if !self.gate.holds_any() {
            // As for one key.
            drop(self.gate.read_all());
            self.logged.marks.under_way().for_each(|hash| drop(self.logged.order(hash)));
        }
        self.logged.log().map_or(0, hotring_log::Log::handed)
    }

    /// Like [`last_records`](Self::last_records), for the key of a watch that has fired.
    pub fn last_record_of_watch(&mut self, watch: &Watch) -> Lsn {
        self.within(watch.database_id, |session| session.last_record(watch.key()))
    }

    #[inline(never)]
    fn last_record(&mut self, key: &[u8]) -> Lsn {
        let hash = self.gate_hash(key);
        if self.logged.marks.is_under_way(hash) && !self.gate.holds_any() {
            // A hold in which the value was written has ended once a read is possible, and a write outside of holds
            // has ended once the lock was free. A hold of all keys is one of this key.
            drop(self.gate.read(hash));
            drop(self.logged.order(hash));
        }
        self.logged.marks.last(hash)
    }

    /// Lets this session write a replica, for the commands of a primary that is another kind of server. Its writes are
    /// logged as those of a primary are. Its operations must run at time 0, at which nothing has expired.
    pub fn follow_foreign(&mut self) {
        self.follows = true;
    }

    /// The present role. It lasts while this session holds keys ([`Session::exclusive`]).
    pub fn role(&self) -> Role {
        match self.logged.modes.get().is_replica() {
            true => Role::Replica,
            false => Role::Primary,
        }
    }

    /// Fails if an operation that returns no error, such as [`remove`](Self::remove) or [`clear`](Self::clear), was
    /// refused since the last call, because the store is a replica, or its grounds have changed. It has changed
    /// nothing.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::Displaced`]
    pub fn take_refused(&mut self) -> Result<(), StoreError> {
        match std::mem::take(&mut self.refused) {
            true => Err(self.refusal()),
            false => Ok(()),
        }
    }

    /// The reason why a write of this session was refused.
    #[cold]
    pub(crate) fn refusal(&self) -> StoreError {
        match self.logged.modes.get().is_replica() && !self.applies && !self.follows {
            true => StoreError::ReadOnly,
            false => StoreError::Displaced,
        }
    }

    /// Fails if this session must not write. The caller must hold the keys that it is about to write.
    pub(crate) fn check_role(&self) -> Result<(), StoreError> {
        let is_replica = self.logged.modes.get().is_replica() && !self.applies && !self.follows;
        match is_replica || self.is_displaced() {
            true => Err(self.refusal()),
            false => Ok(()),
        }
    }

    /// Like [`check_role`](Self::check_role), for operations that return no error: false if this session must not
    /// write, which [`take_refused`](Self::take_refused) will tell.
    pub(crate) fn may_write(&mut self) -> bool {
        let is_refused = self.check_role().is_err();
        self.refused |= is_refused;
        !is_refused
    }
}
