//! A deterministic simulator: nodes, network, records, clients, an operator and faults, in virtual time.
//!
//! Every choice comes from the seed of a schedule. After each event these must hold:
//!
//! 1. At most one node would answer a client.
//! 2. A node that would answer has every write that was acknowledged, and every value that was read.
//! 3. No reader of any node sees half of a batch.
//! 4. A mirror shows nothing older than what was acknowledged or seen, there or elsewhere.
//!
//! After the faults have stopped, one primary must serve again, and all replicas must be equal to it.
//!
//! The operator is honest: he promotes no node that he has taken out of the set himself, and forces nothing. No
//! fault destroys the last copy: at least one node always has everything, knows it and has not restarted
//! (or has lost nothing by it).

mod clients;
pub mod data;
mod faults;
mod mirrors;
mod net;
mod node;
mod operator;
mod plan;
mod records;
mod stats;
mod world;

pub use plan::Mode;
pub use stats::Stats;
pub use world::run;
