//! A server of a pool, and whether it is fit to be asked.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::counter::Counter;

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Redis, Valkey, or what speaks their protocol.
    Redis,
    Memcached,
    /// Speaks both protocols at its address for Redis's clients.
    Hotring,
}

impl Kind {
    const NAMES: [(&str, Kind); 4] = [
        ("redis", Kind::Redis),
        ("valkey", Kind::Redis),
        ("memcached", Kind::Memcached),
        ("hotring", Kind::Hotring),
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Kind::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    pub(crate) fn name(self) -> &'static str {
        Kind::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A server of a pool.
#[derive(Clone)]
pub(crate) struct Server {
    pub name: String,
    /// `HOST:PORT`.
    pub address: Arc<str>,
    pub kind: Kind,
    pub weight: u32,
    /// Name and password as which the proxy logs in. They must not be shown.
    pub login: Option<(Vec<u8>, Vec<u8>)>,
    pub tls: bool,
    /// Kept when the file is read again.
    pub health: Arc<Health>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {})", self.name, self.kind.name(), self.address)
    }
}

/// How a server has behaved. A server is ejected after some failures in a row, and returns after some good probes in a
/// row: what happens in between changes nothing, so that it does not go to and fro.
#[derive(Debug)]
pub(crate) struct Health {
    pub requests: Counter,
    /// Replies that were errors.
    pub errors: Counter,
    /// Connections that could not be made or that ended while a reply was owed, and failed probes.
    pub failures: Counter,
    pub ejections: Counter,
    failures_in_row: AtomicU32,
    good_in_row: AtomicU32,
    is_ejected: AtomicBool,
    probe_us: AtomicU64,
    changed: Mutex<Changed>,
}

/// Failures within this time count as one: connections of all threads end at once.
const ONE_FAILURE: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Changed {
    at: Instant,
    why: String,
    /// The last failure that counted.
    failed: Option<Instant>,
}

impl Default for Health {
    fn default() -> Self {
        Health {
            requests: Counter::default(),
            errors: Counter::default(),
            failures: Counter::default(),
            ejections: Counter::default(),
            failures_in_row: AtomicU32::new(0),
            good_in_row: AtomicU32::new(0),
            is_ejected: AtomicBool::new(false),
            probe_us: AtomicU64::new(0),
            changed: Mutex::new(Changed { at: Instant::now(), why: String::new(), failed: None }),
        }
    }
}

// ORDERING: all are Relaxed. A thread that sees a state a moment later asks a server once more, or not yet; the layout
// that follows from it is published by a lock.
impl Health {
    pub(crate) fn is_ejected(&self) -> bool {
        self.is_ejected.load(Ordering::Relaxed)
    }

    /// The time of the last successful probe.
    pub(crate) fn probe_us(&self) -> u64 {
        self.probe_us.load(Ordering::Relaxed)
    }

    /// How long it has been ejected or not, and what ejected it last.
    pub(crate) fn since(&self) -> (Duration, String) {
        let changed = self.changed();
        (changed.at.elapsed(), changed.why.clone())
    }

    /// Notes an answer to a client's request.
    pub(crate) fn answered(&self, is_error: bool) {
        self.requests.add(1);
        if is_error {
            self.errors.add(1);
        }
        if self.failures_in_row.load(Ordering::Relaxed) != 0 {
            self.failures_in_row.store(0, Ordering::Relaxed);
        }
    }

    /// Notes a failure at this time. True: the server is ejected by it.
    pub(crate) fn failed(&self, now: Instant, why: &str, eject_after: u32) -> bool {
        self.failures.add(1);
        self.good_in_row.store(0, Ordering::Relaxed);
        {
            let changed = &mut *self.changed();
            let is_one = |last: Instant| now.saturating_duration_since(last) < ONE_FAILURE;
            if changed.failed.is_some_and(is_one) {
                return false;
            }
            changed.failed = Some(now);
        }
        let in_row = self.failures_in_row.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if in_row < eject_after || self.is_ejected.swap(true, Ordering::Relaxed) {
            return false;
        }
        self.ejections.add(1);
        self.change(why);
        true
    }

    /// Notes a probe that was answered after this time. True: the server returns.
    pub(crate) fn probed(&self, took: Duration, return_after: u32) -> bool {
        self.probe_us.store(took.as_micros() as u64, Ordering::Relaxed);
        if !self.is_ejected() {
            self.failures_in_row.store(0, Ordering::Relaxed);
            return false;
        }
        let in_row = self.good_in_row.fetch_add(1, Ordering::Relaxed) + 1;
        if in_row < return_after {
            return false;
        }
        self.failures_in_row.store(0, Ordering::Relaxed);
        self.good_in_row.store(0, Ordering::Relaxed);
        self.is_ejected.store(false, Ordering::Relaxed);
        self.change("");
        true
    }

    fn change(&self, why: &str) {
        let changed = &mut *self.changed();
        (changed.at, changed.why) = (Instant::now(), why.to_string());
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_goes_after_failures_in_a_row_and_returns_after_good_probes_in_a_row() {
        let (health, mut now) = (Health::default(), Instant::now());
        let mut failed = |why: &str| {
            now += ONE_FAILURE;
            // Those of other threads at the same time are the same one.
            let is_ejected = health.failed(now, why, 3);
            assert!(!health.failed(now, why, 3));
            is_ejected
        };
        assert!(!failed("") && !failed(""));
        health.answered(false);
        assert!(!failed("") && !failed("") && failed("late"));
        assert!(!failed("") && health.is_ejected());
        let probed = || health.probed(Duration::ZERO, 3);
        assert!(!probed() && !probed() && !failed(""));
        // A late answer is no probe.
        health.answered(false);
        assert!(!probed() && !probed() && health.is_ejected());
        assert!(probed() && !health.is_ejected());
        assert!(!failed("") && !failed(""));
        assert_eq!(health.ejections.value(), 1);
    }
}
