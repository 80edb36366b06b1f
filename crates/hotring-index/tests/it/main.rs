//! One binary of integration tests.

mod bytes;
mod history;
mod linearizability;
mod regressions;
mod u64s;
