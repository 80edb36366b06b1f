//! Replication and cluster without I/O.
//!
//! Replication: epochs, the last point in common of two streams, the primary's acknowledgements and in-sync set,
//! its right to answer, the replica's choices, and FAILOVER. Cluster: slots, the circle that places them, plans of
//! moves, and what keeps the records of nodes and shards.
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
//! threads, and does not see the records of the stream, only their numbers. `docs/design/replication.md` and
//! `docs/design/cluster.md` say what it promises; `tests/it/` checks it, replication by a simulator.

#![forbid(unsafe_code)]

#[macro_use]
mod faults;
pub mod changes;
mod circle;
pub mod coded;
pub mod controller;
pub mod directory;
mod failover;
mod feed;
mod founding;
mod history;
mod ids;
mod in_sync;
pub mod keeper;
pub mod kept;
mod layout;
mod membership;
mod message;
pub mod mirrors;
pub mod moves;
mod plan;
mod primary;
mod records;
mod relay;
mod replica;
mod rules;
mod slots;
mod succession;
mod tenure;

pub use circle::{
    Circle, IDENTIFIERS, Placement, SameIdentifier, USUAL_WEIGHT, drawn, identifiers,
};
pub use failover::{FailoverEnd, FailoverRefused};
pub use feed::{Feed, Follower, Lag, News, Source};
pub use founding::{NotFounded, founding_records};
pub use history::{History, OutOfOrder, Start};
pub use ids::{Epoch, Identity, Incarnation, Lsn, Moment, NodeId, StoreId};
pub use in_sync::Set;
pub use layout::{Site, place_nodes};
pub use message::{
    Ack, Answer, Beat, Course, Handover, Hello, Positions, Stamp, ToPrimary, ToReplica, Told,
};
pub use plan::{MAX_WEIGHT, Member, Move, NoPlan, Owners, balance, loads_and_shares, plan};
pub use primary::{Act as PrimaryAct, Kept, NameRefused, Origin, Primary, StartRefused, Writes};
pub use records::{Outcome, Records, Request, Revision, Shard, ShardId, Transaction};
pub use relay::ABOVE_MAX;
pub use replica::{Act as ReplicaAct, AnswerRefused, Held, PromoteRefused, Replica, TakeOver};
pub use rules::Rules;
pub use slots::{BadSlots, SLOTS, Slot, SlotSet, slot_of};
pub use tenure::Tenure;
