//! The trait of an eviction policy, as the replay uses it.

use crate::workload::trace::Trace;

/// A cache with an eviction policy.
pub trait Policy {
    /// Looks up a key, and inserts it if it is missing. Gives true for a hit.
    fn access(&mut self, key: u32) -> bool;
}

/// The trace to replay, and the size of the cache.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'t> {
    /// The trace. Keys are numbers below [`Trace::distinct`]; the trace gives their bytes.
    pub trace: &'t Trace,
    /// Capacity in items, at least 1. A cache that counts bytes gets the bytes of that number of items of equal
    /// size.
    pub items: usize,
}

/// A policy with its row of the table.
#[derive(Debug)]
pub struct Contestant {
    /// The name in the table.
    pub name: &'static str,
    /// Whether plots show it.
    pub drawn: bool,
    /// Makes an empty cache.
    pub build: for<'t> fn(&Setting<'t>) -> Box<dyn Policy + 't>,
}

impl Setting<'_> {
    /// Counts the hits of the entire trace.
    pub fn hits(&self, contestant: &Contestant) -> u64 {
        let mut policy = (contestant.build)(self);
        let accesses = self.trace.accesses().iter();
        accesses.map(|&key| u64::from(policy.access(key))).sum()
    }
}
