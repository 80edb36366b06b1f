//! Measurements: several targets are loaded at the same time and take turns in rounds.

pub mod fitness;
pub mod latency;
pub mod load;
pub mod rounds;
pub mod settle;
pub mod timeline;
