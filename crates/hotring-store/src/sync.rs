//! The primitives that the gate is built on: atomics, mutex, barriers, waiting, and constants. The model in
//! `tests/model_gate` compiles the same gate with the primitives of a model checker instead.

pub(crate) use std::sync::atomic::{AtomicU64, fence};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Wake, Waker};
use std::time::Duration;

pub(crate) use hotring_index::barrier;

/// Number of stripes, one for each bit of a word.
pub(crate) const STRIPES: usize = 64;
/// Rounds of a wait for a hold before it sleeps.
pub(crate) const SLEEPS_AFTER: u32 = 64;
/// Rounds of a wait that spin before it yields: about a microsecond, the length of a short hold.
const SPINS: u32 = 32;

/// Rounds of a wait before it sleeps instead of yielding.
const YIELDS: u32 = 256;
/// Length of one sleep. A wait lasts as long as one operation on a key.
const NAP: Duration = Duration::from_micros(50);

/// One round of waiting: spins, yields or sleeps, depending on the number of the round.
pub(crate) fn pause(round: u32) {
    match round {
        0..SPINS => std::hint::spin_loop(),
        SPINS..YIELDS => std::thread::yield_now(),
        _ => std::thread::park_timeout(NAP),
    }
}

/// Waits by parking the thread.
pub(crate) struct ThreadWait;

impl crate::wait::Wait for ThreadWait {
    fn waker(&mut self) -> Waker {
        struct Unpark(std::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        Arc::new(Unpark(std::thread::current())).into()
    }

    fn wait(&mut self) {
        std::thread::park();
    }
}
