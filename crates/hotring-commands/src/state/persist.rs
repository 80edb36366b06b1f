//! Persistence: the log with its snapshots, and loading them at the start.

use crate::settings::config::Config;
use crate::state::durability::Durability;
use crate::state::loading::Loading;

/// The state of persistence.
pub struct Persist {
    /// The log, if there is one.
    pub durability: Durability,
    /// The progress of loading at the start.
    pub loading: Loading,
}

impl Persist {
    pub(super) fn new(config: &Config) -> Self {
        Persist { durability: Durability::default(), loading: Loading::new(config.log.is_on) }
    }
}
