//! One binary of integration tests.

mod bytes;
mod history;
mod linearizability;
mod model_bytes;
mod model_u64s;
mod regressions;
mod shapes;
mod shrink;
mod u64s;
