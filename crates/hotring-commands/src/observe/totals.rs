//! The counters of all threads together.

use crate::observe::counters::{CommandTotals, Counters};
use crate::observe::histogram::Distribution;

/// Where the counters stood at the last CONFIG RESETSTAT.
#[derive(Debug, Default)]
pub(crate) struct Base {
    pub totals: Totals,
    /// One for each command by its id; none before the first reset.
    pub commands: Vec<CommandTotals>,
}

/// What the counters of all threads add up to.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub commands: u64,
    pub errors: u64,
    pub keyspace_hits: u64,
    pub keyspace_misses: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    pub input_limit_closed: u64,
    pub output_limit_closed: u64,
    pub rejected_stalled: u64,
    pub rejected_maxmemory: u64,
    pub damaged_reads: u64,
    pub expired_keys: u64,
    pub evicted_keys: u64,
    pub expire_lag: Distribution,
    pub accepted: u64,
    pub rejected: u64,
    pub protected: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, c: &Counters) {
        self.commands += c.commands.value();
        self.errors += c.errors.value();
        self.keyspace_hits += c.keyspace_hits.value();
        self.keyspace_misses += c.keyspace_misses.value();
        self.input_bytes += c.input_bytes.value();
        self.output_bytes += c.output_bytes.value();
        self.reads += c.reads.value();
        self.writes += c.writes.value();
        self.input_limit_closed += c.input_limit_closed.value();
        self.output_limit_closed += c.output_limit_closed.value();
        self.rejected_stalled += c.rejected_stalled.value();
        self.rejected_maxmemory += c.rejected_maxmemory.value();
        self.damaged_reads += c.damaged_reads.value();
        self.expired_keys += c.expired_keys.value();
    }

    pub(crate) fn subtract(&mut self, base: &Totals) {
        self.commands = self.commands.saturating_sub(base.commands);
        self.errors = self.errors.saturating_sub(base.errors);
        self.keyspace_hits = self.keyspace_hits.saturating_sub(base.keyspace_hits);
        self.keyspace_misses = self.keyspace_misses.saturating_sub(base.keyspace_misses);
        self.input_bytes = self.input_bytes.saturating_sub(base.input_bytes);
        self.output_bytes = self.output_bytes.saturating_sub(base.output_bytes);
        self.reads = self.reads.saturating_sub(base.reads);
        self.writes = self.writes.saturating_sub(base.writes);
        self.input_limit_closed = self.input_limit_closed.saturating_sub(base.input_limit_closed);
        self.output_limit_closed =
            self.output_limit_closed.saturating_sub(base.output_limit_closed);
        self.rejected_stalled = self.rejected_stalled.saturating_sub(base.rejected_stalled);
        self.rejected_maxmemory = self.rejected_maxmemory.saturating_sub(base.rejected_maxmemory);
        self.damaged_reads = self.damaged_reads.saturating_sub(base.damaged_reads);
        self.expired_keys = self.expired_keys.saturating_sub(base.expired_keys);
        self.evicted_keys = self.evicted_keys.saturating_sub(base.evicted_keys);
        self.expire_lag.subtract(&base.expire_lag);
        self.accepted = self.accepted.saturating_sub(base.accepted);
        self.rejected = self.rejected.saturating_sub(base.rejected);
        self.protected = self.protected.saturating_sub(base.protected);
    }
}
