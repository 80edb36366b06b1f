//! What each write must know about the log, the role and the grounds of the store, in one word that all sessions share.
//!
//! The word changes while no other session is within the gate, so a session within it acts by one mode from its look at
//! the word to the end of its write. A session that holds keys does so to the end of its hold.

use std::sync::atomic::{AtomicU64, Ordering};

use hotring_log::Lsn;

const LOGGED: u64 = 1;
const FOLLOWED: u64 = 1 << 1;
const REPLICA: u64 = 1 << 2;
const MARKED: u64 = 1 << 3;
/// The version of the grounds ([`crate::grounds`]) is in the bits from here on.
const VERSION: u64 = 1 << 8;

/// The role of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its sessions write.
    Primary,
    /// Only an [`Applier`](crate::Applier) writes: the store follows another one.
    Replica,
}

/// How a write must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode(u64);

impl Mode {
    /// Whether nothing is logged, the store is a primary, and its grounds have this version.
    #[inline(always)]
    pub(crate) fn is_free(self, version: u64) -> bool {
        self.0 == version
    }

    /// The version of the grounds, as sessions keep it; 0 without any.
    #[inline(always)]
    pub(crate) fn version(self) -> u64 {
        self.0 & !(VERSION - 1)
    }

    /// Whether writes are logged.
    pub(crate) fn is_logged(self) -> bool {
        self.0 & LOGGED != 0
    }

    /// Whether removals of what has expired are logged.
    pub(crate) fn is_followed(self) -> bool {
        self.0 & (LOGGED | FOLLOWED) == LOGGED | FOLLOWED
    }

    /// Whether writes are marked ([`crate::marks`]).
    pub(crate) fn is_marked(self) -> bool {
        self.0 & (LOGGED | MARKED) == LOGGED | MARKED
    }

    /// Whether only an applier may write.
    pub(crate) fn is_replica(self) -> bool {
        self.0 & REPLICA != 0
    }

    /// Whether expired items stay until their removal is in the log.
    pub(crate) fn keeps_expired(self) -> bool {
        self.is_followed() || self.is_replica()
    }
}

/// The mode of a store, and how far a replica has got.
pub(crate) struct Modes {
    word: AtomicU64,
    /// All records up to this one are applied, if the store is a replica.
    applied: AtomicU64,
}

impl Modes {
    pub(crate) fn new() -> Modes {
        Modes { word: AtomicU64::new(0), applied: AtomicU64::new(0) }
    }

    /// The mode. It lasts while the caller is within the gate.
    #[inline(always)]
    pub(crate) fn get(&self) -> Mode {
        // ORDERING: Relaxed; it changes while no other session is within the gate, which orders it.
        Mode(self.word.load(Ordering::Relaxed))
    }

    fn set(&self, bit: u64, on: bool) {
        // ORDERING: Relaxed, as in `get`.
        let before = self.word.load(Ordering::Relaxed);
        let after = if on { before | bit } else { before & !bit };
        // ORDERING: Relaxed, as in `get`; one session at a time holds all keys.
        self.word.store(after, Ordering::Relaxed);
    }

    /// The caller must hold all keys, as for the other ones.
    pub(crate) fn set_logged(&self, on: bool) {
        self.set(LOGGED, on);
    }

    pub(crate) fn set_followed(&self, on: bool) {
        self.set(FOLLOWED, on);
    }

    pub(crate) fn set_marked(&self, on: bool) {
        self.set(MARKED, on);
    }

    pub(crate) fn set_role(&self, role: Role) {
        self.set(REPLICA, role == Role::Replica);
    }

    /// The version that the grounds get next.
    pub(crate) fn next_version(&self) -> u64 {
        self.get().version() + VERSION
    }

    /// The grounds have changed.
    pub(crate) fn raise_version(&self) {
        // ORDERING: Relaxed, as in `set`.
        self.word.store(self.get().0 + VERSION, Ordering::Relaxed);
    }

    /// The last record up to which all are applied.
    pub(crate) fn applied(&self) -> Lsn {
        // ORDERING: Acquire pairs with the Release in `pass`: what the records did is visible.
        self.applied.load(Ordering::Acquire)
    }

    /// Records that all records up to this one are applied. An older position has no effect.
    pub(crate) fn pass(&self, lsn: Lsn) {
        // ORDERING: AcqRel: the position of one applier passes on what the others have done.
        self.applied.fetch_max(lsn, Ordering::AcqRel);
    }

    /// Begins the count at a position, which may be lower than the one before: after a full copy, or with another
    /// primary. No applier may be at work.
    pub(crate) fn begin_at(&self, lsn: Lsn) {
        // ORDERING: Release, as in `pass`.
        self.applied.store(lsn, Ordering::Release);
    }
}
