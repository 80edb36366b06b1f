//! What is counted and timed, each by one thread, for INFO, the metrics and the status page.

pub(crate) mod ages;
pub(crate) mod beats;
pub(crate) mod big_keys;
pub(crate) mod counters;
pub(crate) mod error_kinds;
pub(crate) mod histogram;
pub(crate) mod latency;
pub(crate) mod rates;
pub(crate) mod slowlog;
pub(crate) mod throttle;
pub(crate) mod totals;
