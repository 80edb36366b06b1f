//! The seam for model checkers: this crate imports atomics, thread primitives and cells only from here.
//! `--cfg loom` and `--cfg shuttle` replace the real types with a checker's, so that the unmodified code of
//! the ring runs under the checker.
//!
//! There are two kinds of atomics: protocol atomics, which a checker explores, and *tallies*, which only
//! count or draw unique numbers. Nothing is read through a tally, so a checker need not try every order of
//! their accesses, and tallies are real under all configurations. `Arc` and `Mutex` are real, too: protocol
//! atomics must not be accessed under a lock that another thread may wait for in the middle of an
//! operation.

pub mod spin;

#[cfg(not(any(loom, shuttle)))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};

#[cfg(shuttle)]
mod shuttle_points;
#[cfg(shuttle)]
pub use shuttle_points::one_step;
#[cfg(shuttle)]
pub use shuttle_points::{AtomicBool, AtomicPtr, AtomicU64, fence};

#[cfg(not(hotring_plain_arena))]
pub use std::sync::Mutex;
#[cfg(not(any(loom, shuttle, hotring_plain_arena)))]
pub use std::sync::atomic::AtomicU32 as TallyU32;
pub use std::sync::atomic::{
    AtomicI64 as TallyI64, AtomicU64 as TallyU64, Ordering, compiler_fence,
};
pub use std::sync::{Arc, Condvar};

#[cfg(hotring_plain_arena)]
mod instrumented;
#[cfg(hotring_plain_arena)]
pub use instrumented::Mutex;
