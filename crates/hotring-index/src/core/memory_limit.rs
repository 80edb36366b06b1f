//! The memory limit: writes are refused while the memory that grows with data exceeds it.
//!
//! The limit covers items, including removed items that readers may still see, the table, and all other
//! memory that the owner of the index reports (buffers, for example). Free memory between items does not
//! count, because it can be reused. The owner may bound the free memory, too:
//! [`Index::set_memory_spare`](crate::Index::set_memory_spare) makes any excess count as used.
//!
//! Operations do not pay for the limit. A session sums up the memory after every [`CHECK_INTERVAL`] bytes that it
//! takes, and publishes the result next to the epoch, where [`Session::admit`](crate::Session::admit) reads
//! it anyway. Above the limit `admit` sums up again, so that a removal admits writes at once. Hence the
//! bound: the limit is exceeded by at most `CHECK_INTERVAL` bytes and one operation per session. A session that
//! stores a longer value must announce it ([`Session::admit_bytes`](crate::Session::admit_bytes)).

use crate::core::limbo::Stalled;
use crate::core::sync::{Ordering, TallyU64};
use std::fmt;

/// Bytes that a session takes between two checks of the limit.
pub(crate) const CHECK_INTERVAL: usize = 16 << 10;

/// The same interval while far more memory is held than used.
pub(crate) const CHECK_INTERVAL_SHORT: usize = 2 << 10;

/// The memory limit is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Full {
    /// Bytes in use, including those requested by the operation.
    pub used_bytes: u64,
    /// Of these, removed bytes that readers may still see.
    pub limbo_bytes: u64,
    /// Of these, free bytes between items, as far as they count.
    pub waste_bytes: u64,
    /// The limit.
    pub max: u64,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of memory are used, and the limit is {}", self.used_bytes, self.max)
    }
}

impl std::error::Error for Full {}

/// Why an operation that takes memory was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A session stays in one operation while too much removed memory waits for it.
    Stalled(Box<Stalled>),
    /// The memory limit is exceeded.
    Full(Full),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stalled(stalled) => stalled.fmt(f),
            Self::Full(full) => full.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

/// The limit, and the memory that counts besides items and the table.
pub(crate) struct Budget {
    max: TallyU64,
    external: TallyU64,
    spare: TallyU64,
    peers: std::sync::OnceLock<PeerMemory>,
}

/// Reports the memory of the other indexes that share this index's limit.
pub type PeerMemory = Box<dyn Fn() -> Taken + Send + Sync>;

/// The memory of an index, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Bytes used by items and table.
    pub used: u64,
    /// Of these, bytes of removed items that wait for readers.
    pub limbo: u64,
    /// Bytes held for items and table.
    pub held: u64,
}

impl std::ops::Add for Taken {
    type Output = Taken;

    fn add(self, other: Taken) -> Taken {
        Taken {
            used: self.used + other.used,
            limbo: self.limbo + other.limbo,
            held: self.held + other.held,
        }
    }
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self {
            max: TallyU64::new(u64::MAX),
            external: TallyU64::new(0),
            spare: TallyU64::new(u64::MAX),
            peers: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn max(&self) -> u64 {
        // ORDERING: Relaxed, a number; no other memory is read through it. The same holds for all below.
        self.max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max(&self, bytes: u64) {
        // ORDERING: Relaxed, as in `max`.
        self.max.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn external(&self) -> u64 {
        // ORDERING: Relaxed, as in `max`.
        self.external.load(Ordering::Relaxed)
    }

    pub(crate) fn set_external(&self, bytes: u64) {
        // ORDERING: Relaxed, as in `max`.
        self.external.store(bytes, Ordering::Relaxed);
    }

    /// The memory of the other indexes under the same limit.
    pub(crate) fn of_peers(&self) -> Taken {
        self.peers.get().map_or(Taken::default(), |peers| peers())
    }

    pub(crate) fn set_peers(&self, peers: PeerMemory) {
        // Set once; later calls are ignored.
        let _ = self.peers.set(peers);
    }

    pub(crate) fn set_spare(&self, bytes: u64) {
        // ORDERING: Relaxed, as in `max`.
        self.spare.store(bytes, Ordering::Relaxed);
    }

    /// Held bytes that count in addition to the used ones.
    pub(crate) fn waste(&self, used: u64, held: u64) -> u64 {
        // ORDERING: Relaxed, as in `max`.
        let spare = self.spare.load(Ordering::Relaxed);
        held.saturating_sub(spare).saturating_sub(used)
    }

    /// Whether more is held than the limit.
    pub(crate) fn is_tight(&self, held: u64) -> bool {
        // ORDERING: Relaxed, as in `max`.
        self.spare.load(Ordering::Relaxed) != u64::MAX && held > self.max()
    }

    /// Whether sessions must not cache free memory.
    pub(crate) fn is_short(&self, held: u64) -> bool {
        // ORDERING: Relaxed, as in `max`.
        let spare = self.spare.load(Ordering::Relaxed);
        spare != u64::MAX && held > self.max().saturating_add(spare / 2)
    }

    /// Fails if this memory exceeds the limit.
    pub(crate) fn check(&self, used: u64, limbo_bytes: u64, waste_bytes: u64) -> Result<(), Full> {
        let (max, used_bytes) = (self.max(), used.saturating_add(waste_bytes));
        let full = Full { used_bytes, limbo_bytes, waste_bytes, max };
        if used_bytes > max { Err(full) } else { Ok(()) }
    }
}
