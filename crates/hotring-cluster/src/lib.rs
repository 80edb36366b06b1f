//! Replication without I/O: epochs, the last point in common of two streams, the primary's acknowledgements and
//! in-sync set, its right to answer, the replica's choices, and FAILOVER.
//!
//! ```text
//!            Hello, Ack, Declined, Fenced
//!  Replica ------------------------------->  Primary ---Ask---> Records (a coordinator)
//!     |    <-------------------------------     |   <--Outcome--
//!     |      Answer, Beat, Handover             |
//!     +--TakeOver--> Primary      Superseded----+--> Replica
//! ```
//! A replica answers the hellos of replicas of its own, too.
//!
//! Machines take messages and the time, and give back messages. The crate has no sockets, files, clocks or
//! threads, and does not see the records of the stream, only their numbers. `docs/design/replication.md` says
//! what it promises; `tests/it/` is a simulator that checks it.

#![forbid(unsafe_code)]

#[macro_use]
mod faults;
mod failover;
mod feed;
mod history;
mod ids;
mod in_sync;
mod membership;
mod message;
mod primary;
mod records;
mod relay;
mod replica;
mod rules;
mod succession;

pub use failover::{FailoverEnd, FailoverRefused};
pub use feed::{Feed, Follower, Lag, News, Source};
pub use history::{History, OutOfOrder, Start};
pub use ids::{Epoch, Identity, Incarnation, Lsn, Moment, NodeId, StoreId};
pub use in_sync::Set;
pub use message::{
    Ack, Answer, Beat, Course, Handover, Hello, Positions, Stamp, ToPrimary, ToReplica, Told,
};
pub use primary::{Act as PrimaryAct, Kept, NameRefused, Origin, Primary, StartRefused, Writes};
pub use records::{Outcome, Records, Request, Revision, Shard, ShardId, Transaction};
pub use relay::ABOVE_MAX;
pub use replica::{Act as ReplicaAct, AnswerRefused, Held, PromoteRefused, Replica, TakeOver};
pub use rules::Rules;
