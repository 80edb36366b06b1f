//! The wait of a connection, such as a blocking command or a pause. The connection's next request must not run before
//! the wait ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_log::Lsn;
use hotring_store::{LineEntry, Watch};

use super::Client;
use super::shared::{PAUSED, RUNS, Unblocked, WAITS, unblocked};
use crate::state::blocked::Blocked;
use crate::state::pause::Paused;

/// Milliseconds after which a request is checked again whose keys are about to move. It is woken when they have.
const MOVING_MS: u64 = 10;

/// A wait. The connection must not run its next request before the wait ends.
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
        /// The client, as visible to the sessions that may serve it.
        blocked: Arc<Blocked>,
        /// The position in the queues of the keys; None once an element is on its way.
        entry: Option<LineEntry>,
        /// The time limit; None for ever.
        limit: Option<Duration>,
    },
    /// The next request, which has not begun, waits for the end of a CLIENT PAUSE.
    Pause {
        /// The end of the pause in Unix milliseconds.
        until: u64,
        /// The requests that the pause holds back.
        paused: Paused,
    },
    /// The next request, which has not begun or has done nothing, waits because its keys are about to move to another
    /// node.
    Moving {
        /// The number of the publication by which it was checked
        /// ([`Cluster::version`](crate::state::cluster::Cluster::version)).
        version: u64,
        /// When it is checked again at the latest.
        until: u64,
    },
    /// The next request, which has not begun, waits for space in the log's queue.
    Log,
    /// The next request, which has not begun, waits for the end of a slow script that holds its keys.
    Script {
        /// A key that the script holds; None if the request needs all keys.
        key: Option<Box<[u8]>>,
        /// The start of the hold.
        since_ms: u64,
    },
    /// The last request waits until a record is safe.
    Safe {
        /// The record.
        lsn: Lsn,
        /// How safe it must be.
        wanted: Wanted,
        /// The time limit; None for ever.
        limit: Option<Duration>,
    },
    /// The last request waits for a snapshot.
    Save {
        /// The number of the snapshot.
        number: u64,
        /// The server must shut down afterwards.
        ends: bool,
    },
}

impl Wait {
    /// The wait for the end of a move, of a request that was checked by this publication.
    pub(crate) fn moving(version: u64, now: u64) -> Wait {
        Wait::Moving { version, until: now + MOVING_MS }
    }
}

/// How safe a record must be before a wait ends, and which command asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// WAIT: this many replicas have applied it.
    Applied(usize),
    /// WAITAOF: it is synced here, if asked for, and at this many replicas.
    Synced {
        /// Whether it must be synced here.
        here: bool,
        /// The number of replicas.
        replicas: usize,
    },
}

impl Client {
    /// Whether a command may wait. Commands in a transaction or a script must not.
    pub(crate) fn may_wait(&self) -> bool {
        self.before.is_none() && !self.runs_script
    }

    /// The wait of the last command.
    #[inline]
    pub fn wait(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }

    /// Lets the request be run again, because its keys are about to move. It must have done nothing.
    pub(crate) fn wait_for_move(&mut self, version: u64, now: u64) {
        self.begin_wait(Wait::moving(version, now));
    }

    /// Whether the last request must be run again.
    pub(crate) fn must_run_again(&self) -> bool {
        matches!(self.wait, Some(Wait::Moving { .. }))
    }

    /// Begins a wait. The command's reply follows when the wait ends.
    pub fn begin_wait(&mut self, wait: Wait) {
        let waiting = match wait {
            // `await_element` has begun this wait already, and the wait may be over.
            Wait::Element { .. } => return self.wait = Some(wait),
            Wait::Key { .. } => WAITS,
            Wait::Pause { .. }
            | Wait::Moving { .. }
            | Wait::Log
            | Wait::Script { .. }
            | Wait::Safe { .. }
            | Wait::Save { .. } => PAUSED,
        };
        self.wait = Some(wait);
        // ORDERING: Release pairs with the Acquire in `is_waiting`: a thread that sees the wait also sees the client's
        // position in the queue of its key.
        self.shared.waiting.store(waiting, Ordering::Release);
    }

    /// Ends the wait at the Unix millisecond `now`. If CLIENT UNBLOCK has ended the wait, returns the way it did. The
    /// connection must then reply accordingly: the client that has sent CLIENT UNBLOCK relies on it.
    pub fn end_wait(&mut self, now: u64) -> Option<Unblocked> {
        self.wait = None;
        self.publish_transaction();
        // ORDERING: Relaxed, before the Release below.
        self.shared.active_at.store(now, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire in `is_waiting`, for the task that closes idle connections: if that
        // task sees the end of the wait, it counts the idle time from there.
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
