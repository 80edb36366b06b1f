//! The limit of all memory that grows with data: when writes are refused because it is reached.
//!
//! What counts is what items take, those included that wait for readers, the table, and what the owner of
//! the index says that it uses beside (buffers, for example). What lies free between items does not, as it can be used;
//! but the owner may say how much of it there may be beyond the limit, and the rest then counts as used
//! ([`Index::set_memory_spare`](crate::Index::set_memory_spare)).
//!
//! A session looks at the sum when it has taken another [`LOOK`] bytes, and puts what it finds beside the
//! epoch, where [`Session::admit`](crate::Session::admit) looks anyway: operations do not pay for the
//! limit. Over it `admit` looks again, so that what was removed makes room at once. Hence the bound: above the limit
//! there are at most, for each session, `LOOK` bytes and what one operation takes. Who
//! is about to store a value that is longer says so ([`Session::admit_bytes`](crate::Session::admit_bytes)).

use crate::core::limbo::Stalled;
use crate::core::sync::{Ordering, TallyU64};
use std::fmt;

/// Bytes that a session takes between two looks at the sum.
pub(crate) const LOOK: usize = 16 << 10;

/// The same where much more is held than is used.
pub(crate) const LOOK_SHORT: usize = 2 << 10;

/// The limit of all memory is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Full {
    /// Bytes that are used, those included that the operation asked for.
    pub used_bytes: u64,
    /// Of these, bytes of removed items that wait for readers.
    pub limbo_bytes: u64,
    /// Of these, bytes that lie free between items, as far as they count.
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

/// Why an operation that takes memory may not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A session stays in one operation, and too much removed memory waits for it.
    Stalled(Box<Stalled>),
    /// The limit of all memory is reached.
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

/// The limit, and what counts besides items and the table.
pub(crate) struct Budget {
    max: TallyU64,
    beside: TallyU64,
    spare: TallyU64,
    kin: std::sync::OnceLock<Kin>,
}

/// Tells how many bytes other indexes take that have their limit together with this one.
pub type Kin = Box<dyn Fn() -> Taken + Send + Sync>;

/// Bytes that an index takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Of items and table.
    pub used: u64,
    /// Of these, of removed items that wait for readers.
    pub limbo: u64,
    /// Held for items and table.
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
            beside: TallyU64::new(0),
            spare: TallyU64::new(u64::MAX),
            kin: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn max(&self) -> u64 {
        // ORDERING: Relaxed, a number; no other memory is read through it. So for all below.
        self.max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max(&self, bytes: u64) {
        // ORDERING: Relaxed, as in `max`.
        self.max.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn beside(&self) -> u64 {
        // ORDERING: Relaxed, as in `max`.
        self.beside.load(Ordering::Relaxed)
    }

    pub(crate) fn set_beside(&self, bytes: u64) {
        // ORDERING: Relaxed, as in `max`.
        self.beside.store(bytes, Ordering::Relaxed);
    }

    /// What others take.
    pub(crate) fn of_kin(&self) -> Taken {
        self.kin.get().map_or(Taken::default(), |kin| kin())
    }

    pub(crate) fn set_kin(&self, kin: Kin) {
        // There is one for good.
        let _ = self.kin.set(kin);
    }

    pub(crate) fn set_spare(&self, bytes: u64) {
        // ORDERING: Relaxed, as in `max`.
        self.spare.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that count beside those in use, if this much is held.
    pub(crate) fn waste(&self, used: u64, held: u64) -> u64 {
        // ORDERING: Relaxed, as in `max`.
        let spare = self.spare.load(Ordering::Relaxed);
        held.saturating_sub(spare).saturating_sub(used)
    }

    /// Whether more is held than may be used.
    pub(crate) fn is_tight(&self, held: u64) -> bool {
        // ORDERING: Relaxed, as in `max`.
        self.spare.load(Ordering::Relaxed) != u64::MAX && held > self.max()
    }

    /// Whether the amount held requires sessions to keep nothing for themselves.
    pub(crate) fn is_short(&self, held: u64) -> bool {
        // ORDERING: Relaxed, as in `max`.
        let spare = self.spare.load(Ordering::Relaxed);
        spare != u64::MAX && held > self.max().saturating_add(spare / 2)
    }

    /// Whether this many bytes are more than may be.
    pub(crate) fn check(&self, used: u64, limbo_bytes: u64, waste_bytes: u64) -> Result<(), Full> {
        let (max, used_bytes) = (self.max(), used.saturating_add(waste_bytes));
        let full = Full { used_bytes, limbo_bytes, waste_bytes, max };
        if used_bytes > max { Err(full) } else { Ok(()) }
    }
}
