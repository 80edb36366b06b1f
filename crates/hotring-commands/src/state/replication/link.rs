//! The state of a replica's link to its primary, for INFO, ROLE and the metrics.

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
    copied: u64,
    failure: Option<String>,
}

/// The state of a link at one moment.
#[derive(Clone, Debug)]
pub struct LinkStatus {
    pub stage: LinkStage,
    /// Time since the link went down; None while it is up.
    pub down: Option<Duration>,
    /// Time since the last bytes from the primary; None while the link is down.
    pub silent: Option<Duration>,
    /// Bytes of the full copy under way that have arrived.
    pub copied: u64,
    /// Why the last link ended; None once a later one follows the stream.
    pub failure: Option<String>,
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
            self.failure = None;
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

    /// Records that bytes have arrived.
    pub fn hear(&mut self) {
        self.heard = Some(clock::monotonic());
    }

    /// Records the progress of a full copy: bytes that have arrived.
    pub fn copy(&mut self, copied: u64) {
        self.copied = copied;
    }

    pub(super) fn status(&self) -> LinkStatus {
        let Link { stage, since, heard, copied, .. } = *self;
        let is_up = stage == LinkStage::Connected;
        let down = if is_up { None } else { since.map(|since| since.elapsed()) };
        let silent = heard.map(|heard| heard.elapsed());
        LinkStatus { stage, down, silent, copied, failure: self.failure.clone() }
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
}
