//! Moves of slots from one shard to another, while clients use them.
//!
//! ```text
//!  source's primary                target's primary           coordinator
//!    |--- Open(attempt) -------------->|  gives up an older import, marks a new one
//!    |<-- Opened(attempt, epoch) ------|
//!    |=== keys, then changes =========>|  which no client sees yet
//!    |--- Sync(attempt) -------------->|  little is left
//!    |<-- Synced(attempt) -------------|  once its log has them on the disk
//!    |    writes wait                  |
//!    |--- Mark(attempt, last) -------->|
//!    |<-- Has(attempt, last) ----------|  once its in-sync replicas have them, too
//!    |--- read, then, while reads wait as well, commit -------->|
//!    |--- Committed(attempt) --------->|--- read -------------->|  then it shows the keys
//! ```
//! 1. The owner of slots changes by one transaction of the source's primary. It holds only if the shards' records, the
//!    table and the move's own record are those that the source has just read; and these must show the epochs in which
//!    the attempt began.
//! 2. Once the transaction is sent, its outcome must be known before anything goes on.
//! 3. The target must not give an import up before a reading shows that the slots are not its own.
//! 4. Whoever becomes primary must read the records before it acts: an earlier primary's transaction may be through.
//! 5. The target's disk must have the keys before the transaction is sent: the source forgets them behind it.

mod incoming;
mod outgoing;
mod records;

use crate::ids::{Epoch, Lsn};
use crate::records::Revision;

pub use incoming::{Act as IncomingAct, Incoming};
pub use outgoing::{Act as OutgoingAct, GivenUp, Outgoing, Pace, Phase};
pub use records::{commit, view};

/// One attempt at a move. A later one is greater: a new primary of the source has a higher epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attempt {
    /// The epoch of the source.
    pub epoch: Epoch,
    /// The attempts in this epoch.
    pub number: u32,
}

/// Who owns the slots of a move, as the table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The shard that gives them.
    Source,
    /// The shard that gets them.
    Target,
    /// Neither, or each some of them.
    Other,
}

/// What the records showed of a move at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// The record of the source.
    pub source: (Revision, Epoch),
    /// The record of the target.
    pub target: (Revision, Epoch),
    /// The table of slots.
    pub table: Revision,
    /// The owner of the slots in it.
    pub owner: Owner,
    /// The move's own record; none if it is over or was cancelled.
    pub record: Option<Revision>,
}

/// What a machine asks of the coordinator. Each request has a number, which its outcome repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The records as they are at a moment after this request.
    Read(u64),
    /// Gives the slots to the target and removes the move's record, if all four records are as in this view.
    Commit(u64, View),
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// What was read.
    Read(View),
    /// The slots are the target's.
    Committed,
    /// A record had another revision. This request did not take effect and never will.
    Conflict,
    /// There was no answer: the request may have taken effect, or may yet.
    Unknown,
}

/// A message to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToTarget {
    /// Begin an import.
    Open(Attempt),
    /// Sync what has come so far. Clients do not wait for that.
    Sync(Attempt),
    /// Writes wait; this is the last change.
    Mark(Attempt, Lsn),
    /// The slots are the target's.
    Committed(Attempt),
    /// The attempt is over, and its transaction never takes effect.
    Abort(Attempt),
}

/// A message to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToSource {
    /// The import is open, in this epoch of the target.
    Opened(Attempt, Epoch),
    /// The target cannot take the slots yet: it is still giving them away or removing the keys, or it read records
    /// that do not show this move, or its log has failed. Or it has given the import up, because the move's record is
    /// gone, or its log has failed.
    NotReady(Attempt),
    /// The target's log has synced what had come before it was asked.
    Synced(Attempt),
    /// The target's in-sync replicas have all changes up to this one.
    Has(Attempt, Lsn),
}
