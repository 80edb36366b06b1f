//! What a primary and its replicas tell each other. The link gives these bytes, and carries the records.
//!
//! A message may be lost, come late, twice or out of order: each names the epoch and the session to which it
//! belongs, and is ignored in any other.

use std::time::Duration;

use crate::history::History;
use crate::ids::{Epoch, Identity, Incarnation, Lsn, NodeId, StoreId};

/// The connection to which a message belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The primary's epoch.
    pub epoch: Epoch,
    /// The primary's start. One that came back empty begins with the same epoch again.
    pub start: Incarnation,
    /// The primary's number for this connection. It is never used again after this start.
    pub session: u64,
}

/// How far a node has a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Positions {
    /// The lowest record that all appliers have passed: readers of the node see all up to it.
    pub applied: Lsn,
    /// The last record that the node's own log has in its file.
    pub written: Lsn,
    /// The last record that the node's own log has synced.
    pub synced: Lsn,
}

/// A replica's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The replica.
    pub from: Identity,
    /// The replica's number for this try, which the answer repeats.
    pub attempt: u64,
    /// The start of the primary that was not ready, if one was: this hello was surely sent after it.
    pub not_ready: Option<Incarnation>,
    /// The store whose data the replica has.
    pub store: StoreId,
    /// The epochs of the replica's stream.
    pub history: History,
    /// The last record that the replica has applied.
    pub last: Lsn,
    /// The lowest record to which the replica could cut its stream: it has all later records, none of them
    /// removes all keys, and no snapshot of it ends behind this record.
    pub floor: Lsn,
    /// Whether the replica has all data up to `last`: false if a full copy was not finished.
    pub whole: bool,
    /// Whether an operator has just told the replica to follow this primary, whatever data it has.
    pub adopt: bool,
}

/// How a replica gets what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// The records after this one follow.
    Continue(Lsn),
    /// The replica's records after this one are not in the stream. It names their keys, and gets the records
    /// after this one and the present values of those keys as one batch.
    Repair(Lsn),
    /// All data, then the records behind it.
    FullCopy,
}

/// The answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The start of the replica that had said hello.
    pub to: Incarnation,
    /// The number of the hello.
    pub attempt: u64,
    /// Who answers.
    pub from: NodeId,
    /// The connection of all that follows.
    pub stamp: Stamp,
    /// The primary's store.
    pub store: StoreId,
    /// The primary's epochs.
    pub history: History,
    /// Whether the sender is the primary itself. If it is a replica, no reply waits for the one that gets this.
    pub leads: bool,
    /// The starts of the nodes that the sender follows, from the primary down, as far as it knows them. A node that
    /// finds its own start among them would follow itself.
    pub above: Vec<Incarnation>,
    /// What follows.
    pub course: Course,
}

/// A primary's regular message: it asks for a promise, and tells what a later primary must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The connection.
    pub stamp: Stamp,
    /// The number of the beat, from 1. All replicas get a beat under the same number.
    pub number: u64,
    /// The replica that answers must not serve as primary for this long.
    pub lease: Duration,
    /// The last record that may have been acknowledged to a client.
    pub committed: Lsn,
    /// Whether the replica is in the in-sync set.
    pub member: bool,
    /// Whether the replica has all that may have been acknowledged.
    pub caught_up: bool,
    /// The primary's clocks and counters, which the next primary continues.
    pub told: Told,
}

/// What a new primary must not fall behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The primary's wall clock, in Unix milliseconds.
    pub wall: u64,
    /// The last compare-and-swap number that was given to a client of memcached's protocol.
    pub cas: u64,
}

/// The primary gives up its role in favour of the replica, and answers nothing more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The connection.
    pub stamp: Stamp,
    /// The last beat before. A replica that has answered a later one must ignore the handover.
    pub after_beat: u64,
    /// The last record of the stream.
    pub last: Lsn,
    /// The other members of the in-sync set of the new primary, if an operator names the set.
    pub set: Vec<NodeId>,
    /// Whether the replica takes over even if it lacks records.
    pub force: bool,
}

/// A replica's regular message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The connection.
    pub stamp: Stamp,
    /// The last beat that this answers; 0 before the first.
    pub beat: u64,
    /// How far the replica is.
    pub positions: Positions,
    /// Whether the replica has all data up to its position: false during a full copy or a repair.
    pub whole: bool,
    /// Whether its log cannot write at present.
    pub is_full: bool,
}

/// From a primary to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToReplica {
    /// The answer to its hello.
    Answer(Answer),
    /// Its hello is refused for now, by a primary in this start. The next hello repeats that number.
    NotReady(Incarnation),
    /// A regular message.
    Beat(Beat),
    /// The role.
    Handover(Handover),
}

/// From a replica, or from a later primary, to a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToPrimary {
    /// The first message.
    Hello(Hello),
    /// A regular message.
    Ack(Ack),
    /// The handover after this beat is not taken up.
    Declined(Stamp, u64),
    /// There is a later epoch, which this node has seen, or in which it leads.
    Fenced {
        /// The later epoch.
        epoch: Epoch,
        /// Whether the sender is the primary of that epoch.
        leads: bool,
    },
}
