//! The activity of interpreters: what SCRIPT KILL may end, the memory that they take, and which scripts are slow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// Number of running scripts that have used up their first time slice.
#[derive(Debug, Default)]
pub struct Slow(AtomicU64);

impl Slow {
    // ORDERING: Relaxed throughout: a thread that sees a slow script late waits for the script's keys in the gate.
    /// Whether there are slow scripts.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Counts a script that has become slow.
    pub(crate) fn begin(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a slow script.
    pub(crate) fn end(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The activity of an interpreter, for SCRIPT KILL.
#[derive(Debug)]
pub struct Running {
    state: AtomicU8,
    /// Memory of the interpreter.
    memory: AtomicUsize,
    /// Memory of all interpreters.
    all: Arc<AtomicUsize>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.take_note(0);
    }
}

/// The minimum memory limit of an interpreter in bytes, even if the total is exhausted.
const LEAST: usize = 1 << 20;

const NOTHING: u8 = 0;
const READING: u8 = 1;
const WRITTEN: u8 = 2;
const KILLED: u8 = 3;

/// The outcome of SCRIPT KILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// No script runs.
    Nothing,
    /// The script will end.
    Killed,
    /// The script has written and continues.
    TooLate,
}

// ORDERING: Relaxed throughout: the word is the entire message, and all threads see its changes in the same order.
impl Running {
    pub(super) fn of(all: &Arc<AtomicUsize>) -> Self {
        Running { state: AtomicU8::new(NOTHING), memory: AtomicUsize::new(0), all: all.clone() }
    }

    /// Sets the memory of the interpreter.
    pub fn take_note(&self, memory: usize) {
        match self.memory.swap(memory, Ordering::Relaxed) {
            less if less < memory => self.all.fetch_add(memory - less, Ordering::Relaxed),
            more => self.all.fetch_sub(more - memory, Ordering::Relaxed),
        };
    }

    /// The memory limit of this interpreter, if all interpreters together may take `all_max`. The limit shrinks with
    /// the unused part of that total.
    pub(crate) fn share(&self, all_max: usize) -> usize {
        all_max.saturating_sub(self.all.load(Ordering::Relaxed)).saturating_mul(2).max(LEAST)
    }

    pub(crate) fn begin(&self) {
        self.state.store(READING, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.state.store(NOTHING, Ordering::Relaxed);
    }

    /// Records that the script is about to write; false if it must not, because it was killed.
    pub(crate) fn write(&self) -> bool {
        let before =
            self.state.compare_exchange(READING, WRITTEN, Ordering::Relaxed, Ordering::Relaxed);
        before.is_ok() || before == Err(WRITTEN)
    }

    pub(crate) fn has_written(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WRITTEN
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == KILLED
    }

    /// Asks the script to end.
    pub(crate) fn kill(&self) -> Kill {
        match self.state.compare_exchange(READING, KILLED, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) | Err(KILLED) => Kill::Killed,
            Err(WRITTEN) => Kill::TooLate,
            Err(_) => Kill::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_has_written_cannot_be_killed() {
        let running = Running::of(&Arc::default());
        assert_eq!(running.kill(), Kill::Nothing);
        running.begin();
        assert!(running.write() && running.write() && running.has_written());
        assert_eq!(running.kill(), Kill::TooLate);
        running.begin();
        assert_eq!(running.kill(), Kill::Killed);
        assert!(running.is_killed() && !running.write() && !running.has_written());
        running.end();
        assert_eq!(running.kill(), Kill::Nothing);
    }
}
