//! Sums of all threads' counters, since the start or since the last CONFIG RESETSTAT.

use std::collections::BTreeMap;

use crate::observe::by_command::CommandTotals;
use crate::observe::counters::{Base, Totals};
use crate::state::memcached;
use crate::state::server::Server;
use crate::state::slot_accesses;
use crate::table::{Spec, specs};

impl Server {
    /// The counters of all threads since the start or the last CONFIG RESETSTAT.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.totals_since_start();
        totals.subtract(&self.observe.base().totals);
        totals
    }

    /// The counters of all threads since the start.
    pub fn totals_since_start(&self) -> Totals {
        let mut totals = Totals::default();
        self.running_threads().for_each(|t| t.counters.add_to(&mut totals));
        self.observe.background.add_to(&mut totals);
        self.observe.accepts.add_to(&mut totals);
        totals.expire_lag.add(&self.tasks.expirer.lag);
        totals.evicted_keys = self.store.stats().evicted;
        totals
    }

    /// The counters of each command since the start or the last CONFIG RESETSTAT.
    pub(crate) fn command_totals(&self) -> Vec<(&'static Spec, CommandTotals)> {
        let mut commands = self.command_totals_since_start();
        for ((_, totals), base) in commands.iter_mut().zip(&self.observe.base().commands) {
            totals.subtract(base);
        }
        commands
    }

    /// The counters of each command since the start.
    pub fn command_totals_since_start(&self) -> Vec<(&'static Spec, CommandTotals)> {
        let sum = |spec: &'static Spec| {
            let mut totals = CommandTotals::default();
            self.running_threads()
                .for_each(|t| t.counters.by_command.add_to(spec.id as usize, &mut totals));
            (spec, totals)
        };
        specs().map(sum).collect()
    }

    /// The counters of each of memcached's commands since the start.
    pub fn memcached_totals_since_start(&self) -> Vec<(&'static str, CommandTotals)> {
        let mut all = vec![CommandTotals::default(); memcached::NAMES.len()];
        for thread in &self.threads {
            let by_command = &thread.memcached.by_command;
            all.iter_mut().enumerate().for_each(|(i, totals)| by_command.add_to(i, totals));
        }
        memcached::NAMES.into_iter().zip(all).collect()
    }

    /// The number of error replies of each kind since the start or the last CONFIG RESETSTAT.
    pub(crate) fn error_kinds(&self) -> BTreeMap<String, u64> {
        let mut kinds = BTreeMap::new();
        self.running_threads().for_each(|t| t.counters.error_kinds.add_to(&mut kinds));
        kinds
    }

    /// Resets the counters. Each counter belongs to its thread, and no other thread may set it: instead the current
    /// values are recorded, to be subtracted from later ones.
    pub(crate) fn reset_totals(&self) {
        self.memcached.reset(&self.threads);
        self.tasks.expirer.reset();
        self.running_threads().for_each(|thread| thread.counters.error_kinds.clear());
        slot_accesses::reset(self.running_threads());
        let commands =
            self.command_totals_since_start().into_iter().map(|(_, totals)| totals).collect();
        *self.observe.base() = Base { totals: self.totals_since_start(), commands };
    }
}
