//! Keys that come from another store while clients use them there: parts of a walk
//! ([`SnapshotWalk`](crate::SnapshotWalk)) and the records of its stream ([`hotring_log::Selection`]) become this
//! store's own writes, with records of its own.
//!
//! A record is logged as it came, a change of a container as a change: so the store's own log and its replicas get what
//! this store gets, and end with the same. The keys must be [`Standing::Importing`](crate::Standing): no client reads
//! or writes them, so records that took effect together need not do so here.
//!
//! # Parts and records
//! The sender notes its position before it reads a part, and sends the records up to there first. So a part is never
//! older than what came before it, and replaces it. It may be newer than records that follow, up to some position: a
//! `Put`, `Remove` or `Expire` among them is followed by whatever made the part newer, and a change of a container has
//! a number, by which a newer container knows that it has it.

use std::fmt;

use hotring_log::{Effect, Lsn, selected_batches, unpack};

use crate::error::StoreError;
use crate::grounds::Writes;
use crate::hash::change::give_expiries;
use crate::logged::UnknownForm;
use crate::ops::fields::due_of_new;
use crate::session::Session;
use crate::store::Store;
use crate::write::Write;
use hotring_index::Expiry;

/// Writes keys that come from another store.
pub struct Importer {
    session: Session,
    /// The last own record so far.
    last: Option<Lsn>,
}

/// Why keys were not taken. The import must begin again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// The bytes are not what a sender sends.
    Garbled,
    /// A value has a form that is unknown to this version.
    Form(UnknownForm),
    /// The store does not take the write: there is no memory, it is a replica now, or the keys are not importing.
    Store(StoreError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Garbled => f.write_str("the keys that came cannot be read"),
            ImportError::Form(cause) => cause.fmt(f),
            ImportError::Store(cause) => write!(f, "a key that came cannot be stored: {cause}"),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<UnknownForm> for ImportError {
    fn from(cause: UnknownForm) -> ImportError {
        ImportError::Form(cause)
    }
}

impl From<StoreError> for ImportError {
    fn from(cause: StoreError) -> ImportError {
        ImportError::Store(cause)
    }
}

impl Importer {
    /// An importer for one attempt to take keys. There may be several, for different keys.
    pub fn new(store: &Store) -> Importer {
        Importer { session: store.session_named("import"), last: None }
    }

    /// Writes a part: packed effects, as a block of a snapshot has them. Returns the last own record so far: up to it
    /// the log has everything that came. None if there is no log, or nothing has come.
    ///
    /// # Errors
    /// The import must not go on after an error.
    pub fn take_part(&mut self, packed: &[u8], now: u64) -> Result<Option<Lsn>, ImportError> {
        let mut done = Ok(());
        let unpacked = unpack(packed, &mut |effects| {
            if done.is_ok() {
                done = self.take(effects, now);
            }
        });
        unpacked.ok_or(ImportError::Garbled)?;
        done.map(|()| self.last)
    }

    /// Writes the records of selected batches ([`hotring_log::Selection::drain`]). Returns the same as
    /// [`take_part`](Self::take_part).
    ///
    /// # Errors
    /// Those of `take_part`.
    pub fn take_records(&mut self, selected: &[u8], now: u64) -> Result<Option<Lsn>, ImportError> {
        let mut done = Ok(());
        let read = selected_batches(selected, |effects| {
            if done.is_ok() {
                done = self.take(effects, now);
            }
        });
        read.ok_or(ImportError::Garbled)?;
        done.map(|()| self.last)
    }

    /// Frees a part of the memory of what was replaced, for a thread that goes idle.
    pub fn collect(&mut self) {
        self.session.collect();
    }

    fn take(&mut self, effects: &[Effect<'_>], now: u64) -> Result<(), ImportError> {
        let session = &mut self.session;
        session.fetch(effects);
        let taken = effects.iter().try_for_each(|effect| {
            // By eviction of keys that clients see, so before the session becomes one that must not write these.
            session.admit_effect(effect)?;
            session.write_as(Writes::Importing, |session| session.import(effect, now))
        });
        // Also what was written before a failure: it is in the log.
        let logged = session.take_effects().logged;
        self.last = logged.or(self.last);
        taken
    }
}

impl Session {
    /// Makes room for what an effect stores.
    fn admit_effect(&mut self, effect: &Effect<'_>) -> Result<(), StoreError> {
        let len = match effect {
            Effect::Put { value, .. } => value.len(),
            Effect::Change { change, .. } => change.len(),
            _ => return Ok(()),
        };
        self.admit()?;
        self.admit_bytes(len)
    }

    /// Writes what an effect says, and logs it as it is.
    fn import(&mut self, effect: &Effect<'_>, now: u64) -> Result<(), ImportError> {
        match *effect {
            Effect::Put { key, form, expire_at, value } => {
                let value = self.decode_form(form, value)?;
                let (due, expiry) =
                    (due_of_new(&value), expire_at.map_or(Expiry::Never, Expiry::At));
                self.try_change(key, |write| {
                    write.logged_as(effect, |write| write.put_item(value, expiry, now));
                })?;
                self.enter_due(key, due, now);
            }
            Effect::Remove { key } => {
                self.try_change(key, |write| write.logged_as(effect, |write| write.remove(0)))?;
            }
            Effect::Expire { key, expire_at } => self.try_change(key, |write| {
                write.logged_as(effect, |write| write.restore_expiry(expire_at, now));
            })?,
            Effect::Change { key, number, change } => {
                let is_known = self.try_change_in_order(key.into(), |write, objects| {
                    write.logged_as(effect, |write| write.replay_changes(objects, number, change))
                })?;
                if !is_known {
                    let form = change.last().copied().unwrap_or(0);
                    return Err(UnknownForm { form }.into());
                }
                if give_expiries(change) {
                    self.enter_due_of_key(key, now);
                }
            }
            Effect::Pin { key } => self.import_pin(key, Some(now))?,
            Effect::Unpin { key } => self.import_pin(key, None)?,
            _ => return Err(ImportError::Garbled),
        }
        Ok(())
    }
}

impl Write<'_> {
    /// Runs `f`, which does what the effect says, and logs the effect instead of what `f` would log.
    fn logged_as<R>(mut self, effect: &Effect<'_>, f: impl FnOnce(Write<'_>) -> R) -> R {
        let records = self.records.take();
        let result = f(self);
        if let Some(records) = records {
            records.push(effect);
        }
        result
    }
}
