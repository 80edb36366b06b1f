//! The shared state of the background threads (`hotring-server`'s `tasks`).

use std::sync::OnceLock;
use std::thread::Thread;

use crate::state::bound;
use crate::state::expirer::Expirer;
use crate::state::scrub::Scrubber;

/// The state of the background threads that other threads may use.
#[derive(Default)]
pub struct Tasks {
    /// The thread that removes expired keys.
    pub expirer: Expirer,
    /// The watchdog, which looks for stuck threads (`tasks/watchdog.rs`).
    pub watchdog: OnceLock<Thread>,
    /// The thread that keeps the process within `maxmemory`.
    pub bound: bound::Found,
    /// The walk of SCRUB.
    pub scrubber: Scrubber,
}

impl Tasks {
    /// Makes all background threads check whether the server stops.
    pub(super) fn wake(&self) {
        self.expirer.wake();
        self.bound.wake();
        if let Some(watchdog) = self.watchdog.get() {
            watchdog.unpark();
        }
    }
}
