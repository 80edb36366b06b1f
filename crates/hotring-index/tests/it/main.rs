//! One binary of integration tests.

mod adversarial;
mod ahead;
mod budget;
mod bytes;
mod chaining;
mod checksums;
mod colliding;
mod flooding;
mod gcuckoo;
mod guard;
mod history;
mod history_checks;
mod linearizability;
mod marks;
mod memory;
mod mercury;
mod metamorphic;
mod model_bytes;
mod model_u64s;
mod operate;
mod regressions;
mod shapes;
mod shrink;
mod stalled;
mod target;
mod u64s;
