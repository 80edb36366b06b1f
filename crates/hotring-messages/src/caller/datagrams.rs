//! Whether a client asks for answers as datagrams.

use std::time::Duration;

/// If as many answers, one after the other, do not come in time, all come over the connection for a while: the way of
/// datagrams is closed, or the server slower than expected.
const LOSSES_MAX: u32 = 8;
const PAUSE: Duration = Duration::from_secs(1);

/// The way of datagrams to a client.
#[derive(Debug, Default)]
pub struct Datagrams {
    /// Where they come to; empty if none do.
    pub address: Vec<u8>,
    /// Answers that did not come in time, since one came.
    losses: u32,
    /// Nothing is asked for before.
    again_at: Duration,
}

impl Datagrams {
    /// Whether an answer may be asked for.
    pub fn are_open(&self, now: Duration) -> bool {
        !self.address.is_empty() && self.again_at <= now
    }

    /// An answer has come.
    pub fn come(&mut self) {
        self.losses = 0;
    }

    /// An answer has not come in time.
    pub fn lose(&mut self, now: Duration) {
        self.losses += 1;
        if self.losses >= LOSSES_MAX {
            (self.losses, self.again_at) = (0, now.saturating_add(PAUSE));
        }
    }
}
