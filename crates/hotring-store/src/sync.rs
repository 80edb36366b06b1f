//! What the gate is built on: atomics, a mutex, barriers, waiting, and its constants. The model in
//! `tests/model_gate` compiles the same gate with a model checker's in their place.

pub(crate) use std::sync::atomic::{AtomicU64, fence};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) use hotring_index::barrier;

/// Stripes, one for each bit of a word.
pub(crate) const STRIPES: usize = 64;
/// Failed attempts before a waiter has others queue behind it.
pub(crate) const TRIES_BEFORE_RESERVING: u32 = 64;
/// Rounds of a wait that spin before the first that yields: about a microsecond, the length of a
/// short hold.
const SPINS: u32 = 32;

/// One round of waiting.
pub(crate) fn pause(round: u32) {
    if round < SPINS {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
