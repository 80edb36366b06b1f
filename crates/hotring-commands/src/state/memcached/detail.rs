//! `stats detail on|off|dump`: counters per key prefix, which ends at the first colon. Counting is off until a client
//! turns it on.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The separator between a prefix and the rest of a key.
const DELIMITER: u8 = b':';

/// The counters, shared by all threads.
#[derive(Debug, Default)]
pub struct Detail {
    is_on: AtomicBool,
    prefixes: Mutex<BTreeMap<Box<[u8]>, Prefix>>,
}

/// The operations on keys of one prefix.
#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    gets: u64,
    hits: u64,
    sets: u64,
    deletes: u64,
}

/// An operation on a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Done {
    Hit,
    Miss,
    Set,
    Delete,
}

impl Detail {
    /// Starts or stops counting. The counters keep their values.
    pub(crate) fn turn(&self, on: bool) {
        // ORDERING: Relaxed, here and below: counting one request more or less makes no difference.
        self.is_on.store(on, Ordering::Relaxed);
    }

    /// Whether requests are counted.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Counts an operation if counting is on. There are at most `prefixes_max` prefixes.
    #[inline]
    pub(crate) fn note(&self, key: &[u8], done: Done, prefixes_max: usize) {
        if self.is_on() {
            self.count(key, done, prefixes_max);
        }
    }

    #[cold]
    fn count(&self, key: &[u8], done: Done, prefixes_max: usize) {
        let Some(len) = key.iter().position(|byte| *byte == DELIMITER) else { return };
        let mut prefixes = self.lock();
        if !prefixes.contains_key(&key[..len]) {
            if prefixes.len() >= prefixes_max {
                return;
            }
            prefixes.insert(key[..len].into(), Prefix::default());
        }
        let Some(prefix) = prefixes.get_mut(&key[..len]) else { return };
        match done {
            Done::Hit => (prefix.gets, prefix.hits) = (prefix.gets + 1, prefix.hits + 1),
            Done::Miss => prefix.gets += 1,
            Done::Set => prefix.sets += 1,
            Done::Delete => prefix.deletes += 1,
        }
    }

    /// Forgets all prefixes.
    pub(crate) fn reset(&self) {
        self.lock().clear();
    }

    /// All counters, a line for each prefix.
    pub(crate) fn dump(&self) -> String {
        let mut text = String::new();
        for (name, prefix) in &*self.lock() {
            let Prefix { gets, hits, sets, deletes } = prefix;
            let name = String::from_utf8_lossy(name);
            write!(text, "PREFIX {name} get {gets} hit {hits} set {sets} del {deletes}\r\n")
                .expect("writing to a string cannot fail");
        }
        text
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, Prefix>> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
