//! Measurements for INFO, LATENCY, SLOWLOG, the metrics and the status page: counters, histograms, rates, slow
//! requests, big keys.

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
