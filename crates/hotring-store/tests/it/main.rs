//! The store's integration tests, one binary.

mod concurrency;
mod damage;
mod evict;
mod expiry;
mod growth;
mod history;
mod large_hash;
mod large_scored;
mod linearizability;
mod logged;
mod logged_stress;
mod long_text;
mod memory;
mod model;
mod random;
mod snapshot;
mod stalled;
mod waiting;
