//! The store's integration tests, one binary.

mod concurrency;
mod growth;
mod history;
mod linearizability;
mod model;
mod random;
mod stalled;
