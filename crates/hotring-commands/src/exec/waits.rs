//! Requests that wait, for a key or for the end of a pause: how a wait begins and ends.

use hotring_protocol::Writer;
use hotring_store::Watched;

use super::{Conversation, Executor, Run};
use crate::commands::{process, save};
use crate::state::client::{Client, Closing, Unblocked, Wait};
use crate::state::pause::Paused;

/// While the log's queue is full, a request that writes looks again after this many milliseconds.
const FULL_PAUSE_MS: u64 = 2;

/// So does one that waits for a sync, or for a snapshot.
const SYNC_PAUSE_MS: u64 = 1;
const SAVE_PAUSE_MS: u64 = 5;

/// How a wait for a key ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// What was waited for has happened.
    Fired,
    /// It has not, in the time that there was.
    TimedOut,
    /// The server stops.
    Stopping,
}

impl Executor {
    /// Looks whether what the conversation waits for has happened.
    pub fn look(&mut self, conversation: &Conversation, now: u64) -> Watched {
        match conversation.client.wait() {
            Some(Wait::Key { watch, .. }) => self.store.look(watch, now),
            // Of another pause the request is to be asked for again: it may be none of those that wait.
            Some(&Wait::Pause { until, paused }) => match self.server.pause.lasts(now) {
                Some(present) if present == (until, paused) => {
                    Watched::Waiting { until: Some(until) }
                }
                _ => Watched::Fired,
            },
            Some(Wait::Log) if self.server.durability.is_full() => {
                Watched::Waiting { until: Some(now + FULL_PAUSE_MS) }
            }
            Some(Wait::Script { key, since_ms }) => {
                match self.look_at_script(key.as_deref(), *since_ms, now) {
                    Some(until) => Watched::Waiting { until: Some(until) },
                    None => Watched::Fired,
                }
            }
            Some(&Wait::Save { number, .. }) if save::is_awaited(&self.server, number) => {
                Watched::Waiting { until: Some(now + SAVE_PAUSE_MS) }
            }
            Some(&Wait::Synced { lsn, .. }) if self.server.durability.may_sync(lsn) => {
                Watched::Waiting { until: Some(now + SYNC_PAUSE_MS) }
            }
            Some(Wait::Save { .. } | Wait::Synced { .. } | Wait::Log) | None => Watched::Fired,
        }
    }

    /// Ends a wait by its reply, if it has one. The requests behind it can be fed again.
    pub fn end_wait(
        &mut self,
        conversation: &mut Conversation,
        end: WaitEnd,
        now: u64,
        out: &mut Vec<u8>,
    ) {
        let client = &mut conversation.client;
        let is_paused =
            matches!(client.wait(), Some(Wait::Pause { .. } | Wait::Log | Wait::Script { .. }));
        let saved = match client.wait() {
            Some(&Wait::Save { number, ends }) => Some((number, ends)),
            _ => None,
        };
        let synced = match client.wait() {
            Some(&Wait::Synced { lsn, .. }) => Some(lsn),
            _ => None,
        };
        client.has_waited_for_script = matches!(client.wait(), Some(Wait::Script { .. }));
        let unblocked = client.end_wait(now);
        if is_paused {
            // What was to wait is not to run just because the server ends.
            if end == WaitEnd::Stopping {
                client.closing = Some(Closing::Killed);
            }
            return;
        }
        let start = out.len();
        let mut reply = Writer::new(out, client.version);
        if let Some(saved) = saved {
            if let Some(error) = save::end_wait(&self.server, client, saved, &mut reply) {
                self.server.threads[self.thread].counters.error(&error);
            }
            return client.end_request(None, start, out);
        }
        if let Some(lsn) = synced {
            process::tell_synced(&self.server, lsn, &mut reply);
            return client.end_request(None, start, out);
        }
        let failed = match (unblocked, end) {
            (Some(Unblocked::Failed), _) => Some("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            (None, WaitEnd::Stopping) => Some("UNBLOCKED the server is shutting down"),
            _ => None,
        };
        match failed {
            Some(error) => {
                self.server.threads[self.thread].counters.error(error);
                reply.error(error);
            }
            None => reply.int((unblocked.is_none() && end == WaitEnd::Fired).into()),
        }
        client.end_request(None, start, out);
    }

    /// The pause that a request has to wait for, if there is one. What the client may not do is refused at
    /// once, and clients that have yet to authenticate do not wait: they must not queue much behind such a request.
    pub(super) fn pause_of(&mut self, i: usize, run: &Run<'_>, client: &Client) -> Option<Wait> {
        let pause = self.server.pause.lasts(run.now);
        if pause.is_none() {
            self.flush_if_due(run.now);
        }
        let spec = self.batch.spec(i)?;
        let wait = match pause {
            Some((until, paused)) if paused == Paused::Everything || client.may_write(spec) => {
                Wait::Pause { until, paused }
            }
            _ if self.server.durability.is_full() && client.may_write(spec) => Wait::Log,
            _ => return None,
        };
        let access = client.access();
        let may_run =
            !access.is_locked() && access.check(spec, self.batch.args(i, run.input)).is_ok();
        may_run.then_some(wait)
    }
}
