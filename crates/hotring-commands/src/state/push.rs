//! Messages that the server pushes to clients: Pub/Sub, MONITOR, and invalidations of client-side caches.

use std::sync::Arc;

use crate::settings::config::Config;
use crate::state::monitors::Monitors;
use crate::state::pubsub::PubSub;
use crate::state::tracking::Tracking;

/// The registered receivers of pushed messages.
pub struct Push {
    /// The subscriptions to channels and patterns.
    pub pubsub: PubSub,
    /// The connections that are shown every request.
    pub monitors: Monitors,
    /// Client-side caching: the keys that each connection tracks.
    pub tracking: Arc<Tracking>,
}

impl Push {
    pub(super) fn new(config: &Config) -> Self {
        Push {
            pubsub: PubSub::default(),
            monitors: Monitors::default(),
            tracking: Arc::new(Tracking::new(config)),
        }
    }
}
