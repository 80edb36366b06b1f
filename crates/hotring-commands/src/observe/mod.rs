//! Counts and times, each written by one thread, for INFO, the metrics and the status page.

pub mod ages;
pub mod beats;
pub mod big_keys;
pub mod by_command;
pub mod counters;
pub mod error_kinds;
pub mod histogram;
pub mod latency;
pub mod rates;
pub mod slowlog;
pub mod throttle;
