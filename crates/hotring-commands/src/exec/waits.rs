//! Checks and ends the waits of connections: for a key, a pause, a script, the log or a snapshot.

use std::borrow::Cow;

use hotring_protocol::Writer;
use hotring_store::Watched;

use super::{Conversation, Executor};
use crate::commands::{save, wait_for_safety};
use crate::state::client::{Client, Closing, Unblocked, Wait};
use crate::state::cluster::Cluster;
use crate::state::shown;

/// Milliseconds between two checks of a write that waits because the log's queue is full.
const FULL_PAUSE_MS: u64 = 2;

/// Milliseconds between two checks of a request that waits for a sync (`SYNC_PAUSE_MS`) or for a snapshot
/// (`SAVE_PAUSE_MS`).
const SYNC_PAUSE_MS: u64 = 1;
const SAVE_PAUSE_MS: u64 = 5;

/// The error of a wait that ends because the server has become a replica. Clients know code and text from Redis.
const DEMOTED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// The reason why a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The awaited event has happened.
    Fired,
    /// The time limit has passed.
    TimedOut,
    /// The server stops.
    Stopping,
}

impl Executor {
    /// Checks whether the event that the conversation waits for has happened.
    pub fn poll_wait(&mut self, conversation: &Conversation, now: u64) -> Watched {
        if self.thread.locals.routes.is_some() && self.moved(&conversation.client, true).is_some() {
            // Fails if an element is on its way.
            conversation.client.shared.unblock(Unblocked::Moved);
        }
        match conversation.client.wait() {
            Some(Wait::Key { watch, .. }) => self.thread.store.poll_watch(watch, now),
            Some(Wait::Element { blocked, .. }) if blocked.served().is_none() => {
                Watched::Waiting { until: None }
            }
            // If the pause has changed, it may not hold this request back: the request must be checked again.
            Some(&Wait::Pause { until, paused }) => {
                match self.thread.server.clients.pause.lasts(now) {
                    Some(present) if present == (until, paused) => {
                        Watched::Waiting { until: Some(until) }
                    }
                    _ => Watched::Fired,
                }
            }
            Some(&Wait::Moving { version, until })
                if now < until
                    && self.thread.server.cluster.as_ref().map(Cluster::version)
                        == Some(version) =>
            {
                Watched::Waiting { until: Some(until) }
            }
            Some(Wait::Log) if self.thread.server.persist.durability.is_full() => {
                Watched::Waiting { until: Some(now + FULL_PAUSE_MS) }
            }
            Some(Wait::Script { key, since_ms }) => {
                match self.thread.look_at_script(key.as_deref(), *since_ms, now) {
                    Some(until) => Watched::Waiting { until: Some(until) },
                    None => Watched::Fired,
                }
            }
            Some(&Wait::Save { number, .. })
                if save::is_awaited(&self.thread.server.persist.durability, number) =>
            {
                Watched::Waiting { until: Some(now + SAVE_PAUSE_MS) }
            }
            Some(&Wait::Safe { lsn, wanted, .. })
                if !self.thread.server.replication.is_replica()
                    && !wait_for_safety::is_safe(&self.thread.server, lsn, wanted) =>
            {
                Watched::Waiting { until: Some(now + SYNC_PAUSE_MS) }
            }
            Some(
                Wait::Element { .. }
                | Wait::Save { .. }
                | Wait::Safe { .. }
                | Wait::Moving { .. }
                | Wait::Log,
            )
            | None => Watched::Fired,
        }
    }

    /// The error that sends a client that waits for keys to their new owner, if they are no longer of this shard. With
    /// `looks` other records may have come.
    fn moved(&mut self, client: &Client, looks: bool) -> Option<Cow<'static, str>> {
        if looks && matches!(client.wait(), Some(Wait::Key { .. } | Wait::Element { .. })) {
            self.thread.refresh_config();
        }
        let routes = self.thread.locals.routes.as_ref()?;
        match client.wait()? {
            Wait::Key { watch, .. } => routes.moved([watch.key()].into_iter(), client),
            Wait::Element { entry: Some(entry), .. } => routes.moved(entry.keys(), client),
            _ => None,
        }
    }

    /// Appends the messages that have arrived. They wait for the writes that they show, as replies do.
    pub fn fetch_messages(&mut self, conversation: &Conversation, out: &mut Vec<u8>) {
        if conversation.client.fetch_messages(out) {
            shown::note_all(&mut self.thread.store);
        }
    }

    /// Ends a wait and writes its reply, if it has one. The caller can feed the requests after it again.
    pub fn end_wait(
        &mut self,
        conversation: &mut Conversation,
        end: WaitEnd,
        now: u64,
        out: &mut Vec<u8>,
    ) {
        let client = &mut conversation.client;
        let is_paused = matches!(
            client.wait(),
            Some(Wait::Pause { .. } | Wait::Moving { .. } | Wait::Log | Wait::Script { .. })
        );
        let saved = match client.wait() {
            Some(&Wait::Save { number, ends }) => Some((number, ends)),
            _ => None,
        };
        let safe = match client.wait() {
            Some(&Wait::Safe { lsn, wanted, .. }) => Some((lsn, wanted)),
            _ => None,
        };
        let blocked = match client.wait() {
            Some(Wait::Element { blocked, .. }) => Some(blocked.clone()),
            _ => None,
        };
        if let Some(Wait::Key { watch, .. }) = client.wait()
            && end == WaitEnd::Fired
            && self.thread.store.marks_writes()
        {
            let last = self.thread.store.last_record_of_watch(watch);
            self.thread.store.note_logged(last);
        }
        let moved = match client.shared.unblocked() {
            Some(Unblocked::Moved) => self.moved(&conversation.client, false),
            _ => None,
        };
        let client = &mut conversation.client;
        client.has_waited_for_script = matches!(client.wait(), Some(Wait::Script { .. }));
        let unblocked = client.end_wait(now);
        if is_paused {
            // A request that was held back must not run just because the server ends.
            if end == WaitEnd::Stopping {
                client.closing = Some(Closing::Killed);
            }
            return;
        }
        let start = out.len();
        let mut reply = Writer::new(out, client.version);
        if let Some(saved) = saved {
            if let Some(error) = save::end_wait(&self.thread.server, client, saved, &mut reply) {
                self.thread.shared().counters.error(&error);
            }
            return client.end_request(None, start, out);
        }
        if let Some(moved) = moved.filter(|_| unblocked == Some(Unblocked::Moved)) {
            self.thread.shared().counters.error(&moved);
            reply.error(moved.as_bytes());
            return client.end_request(None, start, out);
        }
        if unblocked == Some(Unblocked::Demoted)
            || safe.is_some() && self.thread.server.replication.is_replica()
        {
            self.thread.shared().counters.error(DEMOTED);
            reply.error(DEMOTED);
            client.end_request(None, start, out);
            // As Redis does: the client must look for the primary.
            client.closing = Some(Closing::Killed);
            return;
        }
        if let Some((lsn, wanted)) = safe {
            wait_for_safety::tell(&self.thread.server, lsn, wanted, &mut reply);
            return client.end_request(None, start, out);
        }
        if let Some(served) = blocked.as_ref().and_then(|blocked| blocked.served()) {
            reply.buffer().extend_from_slice(&served.reply);
            if let Some(lsn) = served.logged {
                self.thread.store.note_logged(lsn);
            }
            return client.end_request(None, start, out);
        }
        let failed = match (unblocked, end) {
            (Some(Unblocked::Failed), _) => Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            (None, WaitEnd::Stopping) => Some("UNBLOCKED the server is shutting down"),
            _ => None,
        };
        match failed {
            Some(error) => {
                self.thread.shared().counters.error(error);
                reply.error(error);
            }
            None if blocked.is_some() => reply.null_array(),
            None => reply.int((unblocked.is_none() && end == WaitEnd::Fired).into()),
        }
        client.end_request(None, start, out);
    }
}
