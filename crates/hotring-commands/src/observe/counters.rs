//! Counters of one thread, written by that thread only and summed when somebody asks.
//!
//! A counter is an atomic only so that another thread may read it: the owner adds with a plain load
//! and store, which costs what an ordinary addition costs and shares no cache line.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::observe::error_kinds::ErrorKinds;
use crate::observe::histogram::{Distribution, Histogram};
use crate::table::COMMAND_IDS;

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`. Only the owning thread calls this: concurrent additions would be lost.
    #[inline]
    pub fn add(&self, n: u64) {
        // ORDERING: Relaxed, statistics only; no other memory is read through this value.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// The value as it is now.
    pub fn value(&self) -> u64 {
        // ORDERING: Relaxed, statistics only.
        self.0.load(Ordering::Relaxed)
    }
}

/// What one thread counts. Aligned so that two threads' counters never share a cache line pair.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Commands executed, failed ones included.
    pub commands: Counter,
    /// Commands that answered with an error.
    pub errors: Counter,
    /// The same by kind, of RESP.
    pub error_kinds: ErrorKinds,
    /// Keys that a read found.
    pub keyspace_hits: Counter,
    /// Keys that a read did not find.
    pub keyspace_misses: Counter,
    /// Bytes received from clients.
    pub input_bytes: Counter,
    /// Bytes sent to clients.
    pub output_bytes: Counter,
    /// Read system calls that brought data.
    pub reads: Counter,
    /// Write system calls.
    pub writes: Counter,
    /// Connections closed because a request was too large.
    pub input_limit_closed: Counter,
    /// Connections closed because too much waited to be sent.
    pub output_limit_closed: Counter,
    /// Commands refused because removed memory waits for a stalled thread.
    pub rejected_stalled: Counter,
    /// Commands refused because `maxmemory` is reached.
    pub rejected_maxmemory: Counter,
    /// Commands that met a damaged item.
    pub damaged_reads: Counter,
    /// Expired items that the expirer removed. Not those that a command met and removed or
    /// replaced: the index does that without telling.
    pub expired_keys: Counter,
    /// What is counted of each command, by its id.
    pub by_command: ByCommand<COMMAND_IDS>,
}

impl Counters {
    /// Counts a request that is answered with this error.
    #[cold]
    pub(crate) fn error(&self, error: &str) {
        self.errors.add(1);
        self.error_kinds.note(error);
    }
}

/// What one thread counts of each of a protocol's `N` commands, in the order of their numbers.
#[derive(Debug)]
pub struct ByCommand<const N: usize> {
    /// Times that it ran. Apart from the rest, as every request writes one of these: those of the
    /// commands that are common share a cache line or two.
    calls: [Counter; N],
    rest: Box<[RareCounts]>,
    timed: Counter,
}

/// What few requests count.
#[derive(Debug, Default)]
struct RareCounts {
    failed: Counter,
    rejected: Counter,
    times: Histogram,
}

impl<const N: usize> Default for ByCommand<N> {
    fn default() -> Self {
        ByCommand {
            calls: std::array::from_fn(|_| Counter::default()),
            rest: (0..N).map(|_| RareCounts::default()).collect(),
            timed: Counter::default(),
        }
    }
}

impl<const N: usize> ByCommand<N> {
    /// Counts a call, whatever comes of it.
    #[inline]
    pub(crate) fn call(&self, command: usize) {
        self.calls[command].add(1);
    }

    /// Counts a call that answered with an error.
    pub(crate) fn fail(&self, command: usize) {
        self.rest[command].failed.add(1);
    }

    /// Counts a request that was refused before it ran.
    pub(crate) fn reject(&self, command: usize) {
        self.rest[command].rejected.add(1);
    }

    /// Notes how long a call took.
    pub(crate) fn time(&self, command: usize, took: Duration) {
        self.rest[command].times.note(took);
        self.timed.add(1);
    }

    /// How many calls have been timed, of all commands.
    pub(crate) fn timed(&self) -> u64 {
        self.timed.value()
    }

    /// Adds what is counted of a command to `totals`.
    pub(crate) fn add_to(&self, command: usize, totals: &mut CommandTotals) {
        let rest = &self.rest[command];
        totals.calls += self.calls[command].value();
        totals.failed += rest.failed.value();
        totals.rejected += rest.rejected.value();
        totals.times.add(&rest.times);
    }
}

/// What all threads' counts of one command add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandTotals {
    /// Times that it ran.
    pub calls: u64,
    /// Of these, times that it answered with an error.
    pub failed: u64,
    /// Requests that were refused before it ran.
    pub rejected: u64,
    /// How long calls took, of those that were timed.
    pub times: Distribution,
}

impl CommandTotals {
    pub(crate) fn subtract(&mut self, base: &CommandTotals) {
        self.calls = self.calls.saturating_sub(base.calls);
        self.failed = self.failed.saturating_sub(base.failed);
        self.rejected = self.rejected.saturating_sub(base.rejected);
        self.times.subtract(&base.times);
    }

    /// Whether anything was ever asked of the command.
    pub fn is_used(&self) -> bool {
        self.calls + self.rejected > 0
    }
}
