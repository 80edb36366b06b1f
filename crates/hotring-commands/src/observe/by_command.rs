//! The counters of each command: calls, errors, refusals and times.

use std::time::Duration;

use crate::observe::counters::Counter;
use crate::observe::histogram::{Distribution, Histogram};

/// One thread's counters of a protocol's `N` commands, in the order of their numbers.
#[derive(Debug)]
pub struct ByCommand<const N: usize> {
    /// Calls. They are separate from the other counters because every request writes one of them: so the counters of
    /// common commands share one or two cache lines.
    calls: [Counter; N],
    rest: Box<[UncommonCounts]>,
    timed: Counter,
}

/// The counters that few requests change.
#[derive(Debug, Default)]
struct UncommonCounts {
    failed: Counter,
    rejected: Counter,
    times: Histogram,
}

impl<const N: usize> Default for ByCommand<N> {
    fn default() -> Self {
        ByCommand {
            calls: std::array::from_fn(|_| Counter::default()),
            rest: (0..N).map(|_| UncommonCounts::default()).collect(),
            timed: Counter::default(),
        }
    }
}

impl<const N: usize> ByCommand<N> {
    /// Counts a call, regardless of its outcome.
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

    /// Counts a call that was refused, such as for lack of memory, as a request that was refused before it ran.
    pub(crate) fn refuse(&self, command: usize) {
        // The sum wraps, so that this subtracts one.
        self.calls[command].add(u64::MAX);
        self.reject(command);
    }

    /// Records the time of a call.
    pub(crate) fn time(&self, command: usize, took: Duration) {
        self.rest[command].times.note(took);
        self.timed.add(1);
    }

    /// Number of timed calls of all commands.
    pub(crate) fn timed(&self) -> u64 {
        self.timed.value()
    }

    /// Adds the counters of a command to `totals`.
    pub(crate) fn add_to(&self, command: usize, totals: &mut CommandTotals) {
        let rest = &self.rest[command];
        totals.calls += self.calls[command].value();
        totals.failed += rest.failed.value();
        totals.rejected += rest.rejected.value();
        totals.times.add(&rest.times);
    }
}

/// The sums of all threads' counters of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandTotals {
    /// Calls.
    pub calls: u64,
    /// Calls that answered with an error.
    pub failed: u64,
    /// Requests that were refused before the command ran.
    pub rejected: u64,
    /// Times of the timed calls.
    pub times: Distribution,
}

impl CommandTotals {
    pub(crate) fn subtract(&mut self, base: &CommandTotals) {
        self.calls = self.calls.saturating_sub(base.calls);
        self.failed = self.failed.saturating_sub(base.failed);
        self.rejected = self.rejected.saturating_sub(base.rejected);
        self.times.subtract(&base.times);
    }

    /// Whether the command was ever called or refused.
    pub fn is_used(&self) -> bool {
        self.calls + self.rejected > 0
    }
}
