//! A policy as the replay sees it.

use crate::workload::trace::Trace;

/// A cache with a policy.
pub trait Policy {
    /// Asks for the key of this number, and puts it if it is missing. True for a hit.
    fn access(&mut self, key: u32) -> bool;
}

/// The trace to replay, and the size of the cache.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'t> {
    /// Keys are numbers below [`Trace::distinct`]; the trace gives their bytes.
    pub trace: &'t Trace,
    /// Items that fit, from 1 on. A cache that counts bytes has room for this number of items of one size.
    pub items: usize,
}

/// A row of the table.
#[derive(Debug)]
pub struct Contestant {
    /// As the table has it.
    pub name: &'static str,
    /// Whether it is drawn; all would be too many.
    pub drawn: bool,
    /// An empty cache.
    pub build: for<'t> fn(&Setting<'t>) -> Box<dyn Policy + 't>,
}

impl Setting<'_> {
    /// Hits of the whole trace.
    pub fn hits(&self, contestant: &Contestant) -> u64 {
        let mut policy = (contestant.build)(self);
        let accesses = self.trace.accesses().iter();
        accesses.map(|&key| u64::from(policy.access(key))).sum()
    }
}
