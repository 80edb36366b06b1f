//! The latest times of slow events, by kind of event, for LATENCY.
//!
//! Timed are requests that can take long, as for SLOWLOG, and runs of the removal of expired keys.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The maximum number of samples per event, one per second.
const SAMPLES_MAX: usize = 160;

/// The event of a slow command.
pub(crate) const COMMAND: &str = "command";
/// The event of a slow run of the removal of expired keys.
pub const EXPIRE_CYCLE: &str = "expire-cycle";

/// The Unix second of an event, and its duration in milliseconds.
pub(crate) type Sample = (u64, u64);

/// All events.
#[derive(Debug, Default)]
pub struct Latency {
    /// The minimum duration in milliseconds of a kept event; 0 keeps none.
    threshold: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Event>>,
}

/// One kind of event.
#[derive(Clone, Debug, Default)]
pub(crate) struct Event {
    /// The samples, latest last.
    pub samples: VecDeque<Sample>,
    /// The longest duration ever, in milliseconds.
    pub max: u64,
}

impl Latency {
    pub(crate) fn new(threshold: u64) -> Self {
        Latency { threshold: threshold.into(), events: Mutex::default() }
    }

    pub(crate) fn set_threshold(&self, threshold: u64) {
        // ORDERING: Relaxed, no other memory is read through this value.
        self.threshold.store(threshold, Ordering::Relaxed);
    }

    /// Keeps an event if its duration reaches the threshold. `now` is in Unix milliseconds.
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
            // Keep one sample per second, the longest.
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

    /// Removes the events with these names, or all events (None). Returns the number of removed events.
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
