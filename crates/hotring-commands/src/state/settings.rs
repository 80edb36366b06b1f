//! The settings in force, which CONFIG SET can change while the server runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::host::fiber;
use crate::settings::config::{Config, LogLevel};

/// Sets the level of the server's own log.
pub type SetLogLevel = Box<dyn Fn(LogLevel) + Send + Sync>;

/// The settings in force.
pub struct Settings {
    config: RwLock<Arc<Config>>,
    version: AtomicU64,
    /// Held by a thread that changes the settings, or reads or writes a file that the settings name. The thread must
    /// hold this lock from reading the settings to the end, so that the effect matches the settings in force. Requests
    /// do not wait for this lock.
    changing: Mutex<()>,
    set_log_level: SetLogLevel,
}

impl Settings {
    pub(super) fn new(config: Config, set_log_level: SetLogLevel) -> Self {
        Settings {
            config: RwLock::new(Arc::new(config)),
            version: AtomicU64::new(0),
            changing: Mutex::default(),
            set_log_level,
        }
    }

    /// The current settings.
    pub fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the settings. The caller must hold [`lock_changing`](Self::lock_changing).
    pub(super) fn replace(&self, changed: Config) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(changed);
        self.renew();
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        (self.set_log_level)(level);
    }

    /// The version of the settings and the observers. A thread keeps a copy of the settings, and reads them again when
    /// the version has changed.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `renew`.
        self.version.load(Ordering::Acquire)
    }

    /// Makes all threads read the settings and the observers again.
    pub fn renew(&self) {
        // ORDERING: Release pairs with the Acquire in `version`.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Locks the settings against changes by other threads.
    pub fn lock_changing(&self) -> MutexGuard<'_, ()> {
        // Must be a fiber lock: some changes wait for sessions that hold keys.
        fiber::lock(&self.changing)
    }
}
