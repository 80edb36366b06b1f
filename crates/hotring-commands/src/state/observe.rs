//! Measurements that all threads share, for INFO, LATENCY, SLOWLOG, the metrics and the status page.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::observe::ages::Ages;
use crate::observe::big_keys::BigKeys;
use crate::observe::counters::{AcceptCounters, Base, Counters};
use crate::observe::latency::Latency;
use crate::observe::rates::Rates;
use crate::observe::slowlog::SlowLog;
use crate::settings::config::Config;
use crate::state::warnings::Warnings;

/// The measurements that are not kept per thread.
pub struct Observe {
    /// The accepting thread's counters.
    pub accepts: AcceptCounters,
    /// The counters of the background task and of the expirer.
    pub background: Counters,
    /// The counters at the last CONFIG RESETSTAT.
    base: Mutex<Base>,
    /// The recent growth of the counters.
    pub rates: Rates,
    /// Slow events by kind.
    pub latency: Latency,
    /// The slowest requests.
    pub slowlog: SlowLog,
    /// Maps the store's access times to wall-clock time.
    pub ages: Ages,
    /// The store's count of changed access marks before the first client connects.
    pub access_marks_at_start: u64,
    /// The keys with the largest values.
    pub big_keys: BigKeys,
    pub warnings: Warnings,
}

impl Observe {
    pub(super) fn new(config: &Config, access_marks_at_start: u64) -> Self {
        Observe {
            accepts: AcceptCounters::default(),
            background: Counters::default(),
            base: Mutex::default(),
            rates: Rates::default(),
            latency: Latency::new(config.latency_threshold_ms),
            slowlog: SlowLog::new(config.slowlog_threshold_us, config.slowlog_len_max),
            ages: Ages::default(),
            access_marks_at_start,
            big_keys: BigKeys::default(),
            warnings: Warnings::default(),
        }
    }

    /// Applies changed settings.
    pub(super) fn set_limits(&self, config: &Config) {
        self.slowlog.set(config.slowlog_threshold_us, config.slowlog_len_max);
        self.latency.set_threshold(config.latency_threshold_ms);
    }

    pub(super) fn base(&self) -> MutexGuard<'_, Base> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
