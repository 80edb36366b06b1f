//! The settings of the machines, the same on all nodes of a shard.

use std::time::Duration;

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long an answered beat binds a replica. Beats are sent every eighth of it.
    pub lease: Duration,
    /// Whether a primary answers only while its in-sync replicas' promises last. Without, a primary that was
    /// stopped or cut off may answer old values after another one was promoted; no write is lost by that.
    pub promises: bool,
    /// A replica that is further behind is no longer in sync. Below nine tenths of `lease`.
    pub in_sync_lag: Duration,
    /// Writes are refused if fewer other nodes are in sync.
    pub min_in_sync: usize,
    /// A replica that has not heard its primary for this long answers nothing.
    pub stale_max: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            lease: Duration::from_secs(2),
            promises: true,
            in_sync_lag: Duration::from_secs(1),
            min_in_sync: 0,
            stale_max: Duration::from_secs(10),
        }
    }
}

impl Rules {
    /// No promise is longer, whatever a peer asks for.
    pub const LEASE_MAX: Duration = Duration::from_secs(3600);

    /// The time between two beats.
    pub fn beat(&self) -> Duration {
        self.lease / 8
    }

    /// How long after the question an answer of the records shows that this node hears.
    pub fn answer_max(&self) -> Duration {
        self.beat() * 2
    }

    /// How long the primary relies on a promise, by its own clock: less than `lease`, because two clocks may
    /// run at different rates, though never by a tenth.
    pub fn relied_on(&self) -> Duration {
        self.lease * 9 / 10
    }

    /// Whether the lag is below the time that the primary relies on a promise, so that a dead replica leaves
    /// the set before its primary must fall silent.
    pub fn are_consistent(&self) -> bool {
        self.in_sync_lag < self.relied_on() && self.lease <= Self::LEASE_MAX
    }
}
