//! The state of a replica's link to its primary, for INFO, ROLE, the metrics and the status page.

use std::time::{Duration, Instant};

use crate::host::clock;

/// The stage of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkStage {
    /// Not connected; the next attempt is due soon.
    #[default]
    Connect,
    /// Connecting and greeting.
    Connecting,
    /// A full copy is under way.
    Copying,
    /// Following the primary's stream.
    Connected,
}

impl LinkStage {
    /// Redis's name of the stage, in ROLE.
    pub fn name(self) -> &'static str {
        match self {
            LinkStage::Connect => "connect",
            LinkStage::Connecting => "connecting",
            LinkStage::Copying => "sync",
            LinkStage::Connected => "connected",
        }
    }
}

/// The link of a replica.
#[derive(Debug, Default)]
pub struct Link {
    stage: LinkStage,
    /// The time of the last change between up and down.
    since: Option<Instant>,
    /// The time of the last bytes from the primary.
    heard: Option<Instant>,
    received: u64,
    copied: Copied,
    failure: Option<String>,
    awaits_order: bool,
}

/// The progress of a full copy: of the one under way, or of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Bytes of the complete copy; 0 if the primary does not know them in advance.
    pub bytes_total: u64,
    /// Keys that have arrived.
    pub keys: u64,
    /// Keys of the complete copy, about; 0 if the primary does not tell.
    pub keys_total: u64,
}

impl Copied {
    /// The part that has arrived, from 0 to 1, in bytes if their total is known, or else in keys.
    pub fn progress(&self) -> f64 {
        let (done, total) = match self.bytes_total {
            0 => (self.keys, self.keys_total),
            total => (self.bytes, total),
        };
        // The stream brings new keys meanwhile.
        if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) }
    }
}

/// The state of a link at one moment.
#[derive(Clone, Debug)]
pub struct LinkStatus {
    pub stage: LinkStage,
    /// Time since the link went down; None while it is up.
    pub down: Option<Duration>,
    /// Time since the last bytes from the primary; None while the link is down.
    pub silent: Option<Duration>,
    /// The position in the primary's stream up to which everything has arrived, though perhaps it is not applied.
    pub received: u64,
    pub copied: Copied,
    /// Why the last link ended; None once a later one follows the stream.
    pub failure: Option<String>,
    /// The replica keeps its data until an operator orders it again to follow this primary.
    pub awaits_order: bool,
}

impl LinkStatus {
    /// Whether the replica follows its primary's stream.
    pub fn is_up(&self) -> bool {
        self.stage == LinkStage::Connected
    }

    /// Whether a full copy is under way.
    pub fn is_copying(&self) -> bool {
        self.stage == LinkStage::Copying
    }
}

impl Link {
    /// Forgets the link, as its primary is another one.
    pub(super) fn restart(&mut self) {
        *self = Link { since: Some(clock::monotonic()), ..Link::default() };
    }

    /// Enters a stage.
    pub fn enter(&mut self, stage: LinkStage) {
        let was_up = self.stage == LinkStage::Connected;
        let is_up = stage == LinkStage::Connected;
        self.stage = stage;
        if was_up != is_up || self.since.is_none() {
            self.since = Some(clock::monotonic());
        }
        if is_up {
            (self.failure, self.awaits_order) = (None, false);
        }
        if stage == LinkStage::Connect {
            self.heard = None;
        }
    }

    /// Records why the link ended, and that another attempt follows.
    pub fn fail(&mut self, why: String) {
        self.enter(LinkStage::Connect);
        self.failure = Some(why);
    }

    /// Records that the primary has other data than the replica, and that no order to take that was given.
    pub fn await_order(&mut self) {
        self.awaits_order = true;
    }

    /// Records that bytes have arrived.
    pub fn hear(&mut self) {
        self.heard = Some(clock::monotonic());
    }

    /// Records up to which position the stream has arrived.
    pub fn receive(&mut self, position: u64) {
        self.received = position;
    }

    /// Records the progress of a full copy.
    pub fn copy(&mut self, copied: Copied) {
        self.copied = copied;
    }

    pub(super) fn status(&self) -> LinkStatus {
        let Link { stage, since, heard, received, copied, awaits_order, .. } = *self;
        let is_up = stage == LinkStage::Connected;
        let down = if is_up { None } else { since.map(|since| since.elapsed()) };
        let silent = heard.map(|heard| heard.elapsed());
        let failure = self.failure.clone();
        LinkStatus { stage, down, silent, received, copied, failure, awaits_order }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_down_until_it_follows_the_stream() {
        let mut link = Link::default();
        link.restart();
        for stage in [LinkStage::Connect, LinkStage::Connecting, LinkStage::Copying] {
            link.enter(stage);
            assert!(link.status().down.is_some(), "{stage:?}");
        }
        link.hear();
        link.enter(LinkStage::Connected);
        assert!(link.status().down.is_none() && link.status().silent.is_some());
        link.fail("cut".into());
        let status = link.status();
        assert_eq!((status.stage, status.failure.as_deref()), (LinkStage::Connect, Some("cut")));
        assert!(status.down.is_some() && status.silent.is_none());
        link.enter(LinkStage::Connecting);
        assert_eq!(link.status().failure.as_deref(), Some("cut"), "no later link has followed yet");
    }

    #[test]
    fn progress_is_counted_in_bytes_or_else_in_keys() {
        let progress = |bytes, bytes_total, keys, keys_total| {
            Copied { bytes, bytes_total, keys, keys_total }.progress()
        };
        assert_eq!(progress(10, 0, 7, 0), 0.0);
        assert_eq!(progress(10, 40, 7, 8), 0.25);
        assert_eq!(progress(10, 0, 2, 8), 0.25);
        assert_eq!(progress(0, 0, 9, 8), 1.0);
    }
}
