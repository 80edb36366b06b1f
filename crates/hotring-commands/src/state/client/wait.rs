//! The wait of a connection: its next request must not run before the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_log::Lsn;
use hotring_store::{Place, Watch};

use super::Client;
use super::shared::{PAUSED, RUNS, Unblocked, WAITS, unblocked};
use crate::state::blocked::Blocked;
use crate::state::pause::Paused;

/// A wait: the connection must not run its next request before the end.
#[derive(Debug)]
pub enum Wait {
    /// The last request waits for a key.
    Key {
        /// The watch on the key.
        watch: Watch,
        /// The time limit; None for ever.
        limit: Option<Duration>,
    },
    /// The last request waits for an element of a key.
    Element {
        /// The client, as shown to those that serve it.
        blocked: Arc<Blocked>,
        /// Its place in the lines; None once an element is on its way.
        place: Option<Place>,
        /// The time limit; None for ever.
        limit: Option<Duration>,
    },
    /// The next request waits for the end of a CLIENT PAUSE. It has not begun.
    Pause {
        /// Its end in Unix milliseconds.
        until: u64,
        /// The requests that the pause holds back.
        paused: Paused,
    },
    /// The next request waits for space in the log's queue. It has not begun.
    Log,
    /// The next request waits for the end of a slow script that holds its keys. It has not begun.
    Script {
        /// A key that the script holds; None if the request needs all keys.
        key: Option<Box<[u8]>>,
        /// The start of the hold.
        since_ms: u64,
    },
    /// The last request waits until the log is synced up to a record.
    Synced {
        /// The record.
        lsn: Lsn,
        /// The time limit; None for ever.
        limit: Option<Duration>,
    },
    /// The last request waits for a snapshot.
    Save {
        /// Its number.
        number: u64,
        /// The server must end afterwards.
        ends: bool,
    },
}

impl Client {
    /// Whether a command may wait: within a transaction or a script none does.
    pub(crate) fn may_wait(&self) -> bool {
        self.before.is_none() && !self.runs_script
    }

    /// The wait of the last command.
    #[inline]
    pub fn wait(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }

    /// Begins a wait; the command's reply comes when it ends.
    pub fn begin_wait(&mut self, wait: Wait) {
        let waiting = match wait {
            // It has begun already, and may be over.
            Wait::Element { .. } => return self.wait = Some(wait),
            Wait::Key { .. } => WAITS,
            Wait::Pause { .. }
            | Wait::Log
            | Wait::Script { .. }
            | Wait::Synced { .. }
            | Wait::Save { .. } => PAUSED,
        };
        self.wait = Some(wait);
        // ORDERING: Release pairs with the Acquire in `is_waiting`: a thread that sees the wait finds its place in the
        // queue of its key.
        self.shared.waiting.store(waiting, Ordering::Release);
    }

    /// Ends the wait at the Unix millisecond `now`. Returns how another thread has ended it, if one has: its client
    /// relies on that.
    pub fn end_wait(&mut self, now: u64) -> Option<Unblocked> {
        self.wait = None;
        self.publish_transaction();
        // ORDERING: Relaxed, before the Release below.
        self.shared.active_at.store(now, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire of the task that closes idle connections: if it sees the end of
        // the wait, it counts the idle time from there.
        unblocked(self.shared.waiting.swap(RUNS, Ordering::Release))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ClientShared;
    use super::*;

    #[test]
    fn a_wait_ends_in_one_way() {
        let shared = || {
            let shared = ClientShared::new(1, String::new(), String::new(), 0, 0);
            shared.waiting.store(WAITS, Ordering::Relaxed);
            shared
        };
        let client = shared();
        assert!(client.claim() && !client.claim(), "there is one element for it");
        assert!(!client.end_own_wait(), "the element is on its way");
        assert!(!client.unblock(Unblocked::Failed) && client.unblocked().is_none());
        assert!(!client.is_blocked());
        let client = shared();
        assert!(client.end_own_wait() && !client.claim() && !client.unblock(Unblocked::TimedOut));
        let client = shared();
        assert!(client.unblock(Unblocked::TimedOut) && !client.claim());
        assert!(client.end_own_wait() && client.unblocked() == Some(Unblocked::TimedOut));
        let client = shared();
        client.kill();
        assert!(!client.claim(), "nothing goes to it from now on");
    }
}
