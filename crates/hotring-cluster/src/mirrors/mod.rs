//! Mirrors: coherent copies of single keys outside of their shard, which answer reads by themselves.
//!
//! ```text
//!  holder                              owner: the primary of the key's shard
//!    |--- Ask(number, keys) ------------>|  the store refuses writes of these keys: they are guarded
//!    |<-- Grants(number, versions) ------|  the values go with them
//!    |    reads are answered             |  a write waits
//!    |<-- Revoke(key, version) ----------|
//!    |--- Dropped(key, version) -------->|  the guard ends, and the write is applied
//! ```
//! 1. The store must apply no write of a guarded key. The owner ends the guard only once every holder has dropped
//!    the grant, or the grant is over by the owner's clock.
//! 2. A holder counts a grant from when it sent the question, the owner from when it answers: the later of the two.
//!    The holder relies on nine tenths of it, because two clocks may run at different rates, though never by a tenth.
//! 3. A grant ends before the owner's right to answer does, and before the key expires. So whoever becomes primary
//!    after the end of that right meets no grant of its predecessor.
//! 4. A primary that was started again knows nothing of the grants of its earlier start, and applies no write for as
//!    long as a grant may last. One that hands its role over, or slots, first lets all grants of theirs end.
//! 5. A holder must not use the answer to a question that it asked before it dropped the key.
//!
//! The value of a grant is whatever the owner reads after it has answered [`Owner::ask`]. It must be committed before
//! it leaves: a failover could undo it otherwise.

mod choice;
mod holder;
mod owner;

use std::time::Duration;

use crate::ids::Epoch;

pub use choice::{Budget, Changes, Choice, Heat};
pub use holder::Holder;
pub use owner::{Act as MirrorAct, Closing, HolderId, Owner};

/// How long a grant lasts at most. It is no setting, because a primary must know what another start has granted.
pub const GRANT: Duration = Duration::from_millis(100);

/// Longest reply in bytes that a holder keeps.
pub const REPLY_MAX: usize = 1 << 20;

/// Most keys of one question.
pub const ASK_MAX: usize = 1024;

/// A key.
pub type Key = Box<[u8]>;

/// The state of a mirrored key. While it is the same, so is the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The epoch of the owner.
    pub epoch: Epoch,
    /// The guards that the owner has begun in this epoch.
    pub number: u64,
}

/// A holder wants to hold these keys, or to go on holding them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The number of the question, which the answer repeats.
    pub number: u64,
    /// The keys.
    pub keys: Vec<Key>,
}

/// The right to answer reads of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What is granted: values of other versions must be dropped.
    pub version: Version,
    /// How long it lasts.
    pub lasts: Duration,
}

/// The answer to a question: of the keys that are not granted there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// The number of the question.
    pub number: u64,
    /// What is granted.
    pub grants: Vec<(Key, Grant)>,
}

/// A message about one key: the owner wants it dropped, or the holder has dropped it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The key.
    pub key: Key,
    /// The version that the owner has granted.
    pub version: Version,
}
