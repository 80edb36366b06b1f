//! What only a link to a Redis primary has. The thread of the link writes it; INFO, ROLE and the metrics read it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kinds of commands and values that are counted one by one.
const KINDS_MAX: usize = 64;
/// The kind of all others.
const OTHERS: &str = "others";
/// The position before there is a complete copy.
const NOWHERE: u64 = u64::MAX;

// ORDERING: Relaxed throughout, figures for people; each is published on its own.

/// The state of a link to a Redis primary.
#[derive(Debug, Default)]
pub struct RedisLink {
    is_on: AtomicBool,
    /// The position in the primary's stream up to which everything is applied, or `NOWHERE`.
    position: AtomicU64,
    /// Bytes of the present or last full copy, 0 if the primary does not tell; and the keys that have arrived.
    pub copy_len: AtomicU64,
    pub copy_keys: AtomicU64,
    /// Full copies, and reconnections that needed none, since the start.
    pub full_copies: AtomicU64,
    pub partial_copies: AtomicU64,
    /// Commands and keys that could not be applied.
    pub unknown: AtomicU64,
    /// The same by kind.
    kinds: Mutex<BTreeMap<String, u64>>,
}

impl RedisLink {
    /// Whether this server follows a Redis.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// The position up to which everything is applied, if there is a complete copy of a Redis.
    pub fn position(&self) -> Option<u64> {
        let position = self.position.load(Relaxed);
        (self.is_on() && position != NOWHERE).then_some(position)
    }

    /// Publishes this position.
    pub fn reach(&self, position: u64) {
        self.position.store(position, Relaxed);
    }

    /// Begins to follow a Redis.
    pub fn begin(&self) {
        self.kinds().clear();
        let figures = [&self.copy_len, &self.copy_keys, &self.unknown];
        figures.into_iter().for_each(|figure| figure.store(0, Relaxed));
        self.reach(NOWHERE);
        self.is_on.store(true, Relaxed);
    }

    /// Ends following a Redis.
    pub fn end(&self) {
        self.reach(NOWHERE);
        self.is_on.store(false, Relaxed);
    }

    /// Counts something that cannot be applied. Each kind is named in the log once.
    pub fn count_unknown(&self, kind: &str) {
        self.unknown.fetch_add(1, Relaxed);
        let mut kinds = self.kinds();
        let is_listed = kinds.contains_key(kind) || kinds.len() < KINDS_MAX;
        let count = kinds.entry(if is_listed { kind } else { OTHERS }.to_string()).or_default();
        *count += 1;
        if *count == 1 {
            tracing::warn!(kind, "the primary has something that this server cannot apply");
        }
    }

    /// The kinds of what could not be applied, with their counts.
    pub fn unknown_kinds(&self) -> Vec<(String, u64)> {
        self.kinds().iter().map(|(kind, count)| (kind.clone(), *count)).collect()
    }

    fn kinds(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_cannot_fill_memory_with_names_of_commands() {
        let link = RedisLink::default();
        (0..1000).for_each(|i| link.count_unknown(&format!("command{i}")));
        let kinds = link.unknown_kinds();
        assert_eq!(kinds.len(), KINDS_MAX + 1);
        assert_eq!(kinds.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        assert!(kinds.contains(&(OTHERS.to_string(), 1000 - KINDS_MAX as u64)));
        link.begin();
        assert!(link.is_on() && link.unknown_kinds().is_empty());
    }
}
