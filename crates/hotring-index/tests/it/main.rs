//! One binary of integration tests.

mod adversarial;
mod blocks;
mod budget;
mod bytes;
mod chaining;
mod checksums;
mod colliding;
mod compaction;
mod eager;
mod flooding;
mod gcuckoo;
mod guard;
mod history;
mod history_checks;
#[cfg(target_arch = "x86_64")]
mod item_lines;
mod linearizability;
mod lines;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod lines_queue;
mod marks;
mod memory;
mod mercury;
mod metamorphic;
mod model_bytes;
mod model_u64s;
mod objects;
mod operate;
mod overhead;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod quotient_lines;
mod regressions;
mod shapes;
mod shrink;
mod stalled;
mod target;
mod u64s;
