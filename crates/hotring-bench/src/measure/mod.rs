//! Measurements: targets are loaded side by side and take turns in rounds.

pub mod fitness;
pub mod latency;
pub mod load;
pub mod rounds;
pub mod settle;
pub mod timeline;
