//! Workloads of measurements: mixes of operations, skewed distributions of keys, recorded traces, and the streams
//! drawn from them before a clock starts.

pub mod feed;
pub mod mix;
pub mod operations;
pub mod scramble;
pub mod skew;
pub mod streams;
pub mod trace;
pub mod zipf;
