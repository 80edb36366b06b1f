//! One binary of integration tests.

mod bytes;
mod history;
mod linearizability;
mod regressions;
mod shrink;
mod u64s;
