//! Slow events by kind, for LATENCY: the latest times of each.
//!
//! As for SLOWLOG, only requests that can take long are timed, and stretches of the removal of expired
//! keys.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Samples kept per event, one per second.
const SAMPLES_MAX: usize = 160;

/// A command.
pub(crate) const COMMAND: &str = "command";
/// A stretch of the removal of expired keys.
pub const EXPIRE_CYCLE: &str = "expire-cycle";

/// Unix second and milliseconds.
pub(crate) type Sample = (u64, u64);

/// All events.
#[derive(Debug, Default)]
pub struct Latency {
    /// The least time in milliseconds that is kept; 0 for none.
    threshold: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Event>>,
}

/// One kind of event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    /// The latest last.
    pub samples: VecDeque<Sample>,
    /// The longest ever.
    pub max: u64,
}

impl Latency {
    pub(crate) fn new(threshold: u64) -> Self {
        Latency { threshold: threshold.into(), events: Mutex::default() }
    }

    pub(crate) fn set_threshold(&self, threshold: u64) {
        // ORDERING: Relaxed, nothing else is read through it.
        self.threshold.store(threshold, Ordering::Relaxed);
    }

    /// Keeps the time if it was long. `now` is in Unix milliseconds.
    pub fn note(&self, event: &'static str, took: Duration, now: u64) {
        // ORDERING: Relaxed, as above.
        let threshold = self.threshold.load(Ordering::Relaxed);
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if threshold > 0 && took >= threshold {
            self.keep(event, took, now / 1000);
        }
    }

    #[cold]
    fn keep(&self, event: &'static str, took: u64, second: u64) {
        let mut events = self.events();
        let event = events.entry(event).or_default();
        event.max = event.max.max(took);
        match event.samples.back_mut() {
            // One a second: the longest.
            Some((last, longest)) if *last == second => *longest = took.max(*longest),
            _ => event.samples.push_back((second, took)),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    /// All events, by name.
    pub(crate) fn all(&self) -> Vec<(&'static str, Event)> {
        self.events().iter().map(|(name, event)| (*name, event.clone())).collect()
    }

    /// Forgets the events of these names, or all of them. Returns their number.
    pub(crate) fn forget(&self, names: Option<Vec<&[u8]>>) -> usize {
        let mut events = self.events();
        let before = events.len();
        events.retain(|name, _| {
            let is_named =
                |names: &Vec<&[u8]>| names.iter().any(|n| n.eq_ignore_ascii_case(name.as_bytes()));
            names.as_ref().is_some_and(|names| !is_named(names))
        });
        before - events.len()
    }

    fn events(&self) -> MutexGuard<'_, BTreeMap<&'static str, Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
