//! The settings in force, which CONFIG SET changes while the server runs.

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
    /// Held by a thread that changes the settings, or reads or writes a file that they name, from reading the settings
    /// to the end: the effect must match the settings in force. Requests do not wait for it.
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

    /// The settings as they are now.
    pub fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other settings in force. The caller must hold [`lock_changing`](Self::lock_changing).
    pub(super) fn replace(&self, changed: Config) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(changed);
        self.renew();
    }

    pub(super) fn set_log_level(&self, level: LogLevel) {
        (self.set_log_level)(level);
    }

    /// Changes with the settings and the observers. A thread keeps a copy of the settings and compares this.
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

    /// Keeps others from changing the settings.
    pub fn lock_changing(&self) -> MutexGuard<'_, ()> {
        // Some changes wait for sessions that hold keys.
        fiber::lock(&self.changing)
    }
}
