//! The store's integration tests, one binary.

mod concurrency;
mod container_history;
mod container_log;
mod containers;
mod damage;
mod databases;
mod evict;
mod expiry;
mod fields;
mod growth;
mod history;
mod large_hash;
mod large_scored;
mod linearizability;
mod list;
mod logged;
mod logged_stress;
mod long_text;
mod memory;
mod model;
mod random;
mod sets;
mod snapshot;
mod stalled;
mod waiting;
