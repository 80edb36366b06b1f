//! How targets are measured: loaded side by side, in rounds in which they take turns.

pub mod fitness;
pub mod latency;
pub mod load;
pub mod rounds;
pub mod settle;
pub mod timeline;
