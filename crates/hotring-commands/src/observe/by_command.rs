//! What is counted of each command.

use std::time::Duration;

use crate::observe::counters::Counter;
use crate::observe::histogram::{Distribution, Histogram};

/// What one thread counts of each of a protocol's `N` commands, in the order of their numbers.
#[derive(Debug)]
pub struct ByCommand<const N: usize> {
    /// Times that it ran. Apart from the rest, as every request writes one of these: those of the
    /// commands that are common share a cache line or two.
    calls: [Counter; N],
    rest: Box<[UncommonCounts]>,
    timed: Counter,
}

/// What few requests count.
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
