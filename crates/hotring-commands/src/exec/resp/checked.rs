//! The slow path of the RESP executor, which checks the requests of a batch one at a time. A request may have to wait
//! for the end of a pause, for the log or for a script, may be refused or queued in a transaction, and may be timed,
//! published and shown to monitors.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use hotring_protocol::Writer;

use super::{RespExecutor, Run, reject};
use crate::acl::Origin;
use crate::commands;
use crate::commands::answer::deny;
use crate::host::clock;
use crate::observe::counters::Counters;
use crate::state::client::{Client, Closing, Wait};
use crate::state::loading::LOADING;
use crate::state::monitors;
use crate::state::notify;
use crate::state::pause::Paused;
use crate::state::scripts::BUSY;
use crate::state::server::Server;
use crate::state::shown;
use crate::state::subscriptions::is_allowed_while_listening;
use crate::state::thread::ThreadState;
use crate::state::tracking;
use crate::state::transaction::Queued;
use crate::table::{CommandId, Spec};

impl RespExecutor {
    /// As [`execute`](Self::execute) for the entire batch, with all checks before and after each request.
    pub(super) fn execute_checked(
        &mut self,
        thread: &mut ThreadState,
        run: &Run<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> usize {
        let len = self.batch.len;
        for i in 0..len {
            if out.len() + thread.locals.long_values.len > run.out_max {
                return i;
            }
            if let Some(wait) = self.wait_before(thread, i, run, client) {
                client.begin_wait(wait);
                return i;
            }
            let mut shows_writes = client.fetch_messages(out);
            client.begin_request();
            let start = out.len();
            if !self.is_answered(thread, i, run, client, out) {
                self.execute_observed(thread, i, run, client, out);
                if client.must_run_again() {
                    return i;
                }
            }
            client.end_request(self.batch.spec(i), start, out);
            thread.locals.long_values.cut(out.len());
            shows_writes |= client.fetch_messages(out);
            if shows_writes {
                shown::note_all(&mut thread.store);
            }
            if client.is_interrupted() {
                return i + 1;
            }
        }
        len
    }

    /// The wait before a request may run, if there is one.
    fn wait_before(
        &self,
        thread: &mut ThreadState,
        i: usize,
        run: &Run<'_>,
        client: &Client,
    ) -> Option<Wait> {
        if let Some(pause) = self.pause_of(thread, i, run, client) {
            return Some(pause);
        }
        let (spec, args) = (self.batch.spec(i)?, self.batch.args(i, run.input));
        thread.script_wait(spec, args, client, run.wall)
    }

    /// The wait for a pause or for the log, if the request must wait. Forbidden requests are refused at once. Clients
    /// that have not authenticated never wait: they must not queue much input behind a waiting request.
    fn pause_of(
        &self,
        thread: &mut ThreadState,
        i: usize,
        run: &Run<'_>,
        client: &Client,
    ) -> Option<Wait> {
        let pause = thread.server.clients.pause.lasts(run.wall);
        if pause.is_none() {
            thread.flush_if_due(run.wall);
        }
        let spec = self.batch.spec(i)?;
        let wait = match pause {
            Some((until, paused)) if paused == Paused::Everything || client.may_write(spec) => {
                Wait::Pause { until, paused }
            }
            _ if thread.server.persist.durability.is_full() && client.may_write(spec) => Wait::Log,
            _ => self.move_of(thread, i, run, client)?,
        };
        let access = client.access();
        let may_run =
            !access.is_locked() && access.check(spec, self.batch.args(i, run.input)).is_ok();
        (may_run && self.redirection(thread, i, run, client).is_none()).then_some(wait)
    }

    /// The wait for the end of a move, if keys of the request are about to move.
    fn move_of(
        &self,
        thread: &ThreadState,
        i: usize,
        run: &Run<'_>,
        client: &Client,
    ) -> Option<Wait> {
        let routes = thread.locals.routes.as_ref()?;
        let (spec, args) = (self.batch.spec(i)?, self.batch.args(i, run.input));
        // Only a request that may run ends mirrors.
        let access = client.access();
        let must_wait = !access.is_locked()
            && access.check(spec, args).is_ok()
            && routes.must_wait(spec, args, client, client.shared.id);
        must_wait.then(|| Wait::moving(routes.version(), run.wall))
    }

    /// Answers a request without running it, if the request is refused or queued in a transaction; otherwise returns
    /// false.
    fn is_answered(
        &self,
        thread: &mut ThreadState,
        i: usize,
        run: &Run<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(spec) = self.batch.spec(i) else { return false };
        if let Some(error) = self.denial(thread, i, run, client) {
            reject(&thread.shared().counters, client, Some(spec.id), &error, out);
            return true;
        }
        if let Some(error) = self.redirection(thread, i, run, client) {
            redirect(&thread.shared().counters, client, spec.id, &error, out);
            return true;
        }
        if let Some(error) = self.refusal(thread, i, run, client) {
            reject(&thread.shared().counters, client, Some(spec.id), &error, out);
            return true;
        }
        match client.queue(spec, self.batch.args(i, run.input), thread.config.query_buffer_max) {
            Queued::Runs => return false,
            Queued::Yes => Writer::new(out, client.version).simple("QUEUED"),
            Queued::Refused => {
                let error = "ERR Command not allowed inside a transaction";
                reject(&thread.shared().counters, client, Some(spec.id), error, out);
            }
            Queued::TooMuch => client.closing = Some(Closing::InputLimit),
        }
        true
    }

    /// The error if the client's user may not run the request.
    fn denial(
        &self,
        thread: &ThreadState,
        i: usize,
        run: &Run<'_>,
        client: &Client,
    ) -> Option<String> {
        let (spec, args) = (self.batch.spec(i)?, self.batch.args(i, run.input));
        let denied = client.access().check(spec, args).err()?;
        let in_transaction = client.transaction.is_open();
        let origin = if in_transaction { Origin::Transaction } else { Origin::Client };
        Some(deny(denied, spec, args, client, &thread.server, origin))
    }

    /// The error if another node of the cluster serves the request, or none does.
    fn redirection(
        &self,
        thread: &ThreadState,
        i: usize,
        run: &Run<'_>,
        client: &Client,
    ) -> Option<Cow<'static, str>> {
        let routes = thread.locals.routes.as_ref()?;
        routes.refusal(self.batch.spec(i)?, self.batch.args(i, run.input), client)
    }

    /// The error if the request must not run now.
    fn refusal(
        &self,
        thread: &mut ThreadState,
        i: usize,
        run: &Run<'_>,
        client: &Client,
    ) -> Option<Cow<'static, str>> {
        let (spec, args) = (self.batch.spec(i)?, self.batch.args(i, run.input));
        if thread.server.persist.loading.refuses(spec, args, &mut thread.store, run.now) {
            return Some(LOADING.into());
        }
        if thread.is_slow && thread.is_busy(spec, args, client, run.wall) {
            return Some(BUSY.into());
        }
        if !client.is_of_primary()
            && client.changes_keys(spec)
            && let Some(why) = thread.server.replication.refuses_writes()
        {
            return Some(why.into());
        }
        if client.may_write(spec)
            && let Some(refusal) = thread.server.persist.durability.refuses(&thread.config.log)
        {
            return Some(refusal.into());
        }
        let is_refused = client.is_confined() && !is_allowed_while_listening(spec.id);
        is_refused.then(|| only_while_listening(spec).into())
    }

    /// Runs one request; if required, times it, publishes its changes and shows it to monitors.
    fn execute_observed(
        &mut self,
        thread: &mut ThreadState,
        i: usize,
        run: &Run<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) {
        let timer = thread.is_timed.then(|| Timer::start(thread));
        if let Some(spec) = self.batch.spec(i) {
            tracking::before(
                spec,
                self.batch.args(i, run.input),
                client,
                &thread.server.push.tracking,
            );
        }
        // Messages that have just arrived must not prevent a request that has begun from running.
        let unlimited = Run { out_max: usize::MAX, ..*run };
        self.execute(thread, i..i + 1, &unlimited, client, out);
        if client.must_run_again() {
            return;
        }
        self.note_shown(thread, i..i + 1, run.input);
        let Some(spec) = self.batch.spec(i) else { return };
        let args = self.batch.args(i, run.input);
        if let Some(took) = timer.and_then(|timer| timer.stop(thread)) {
            let target = (&thread.shared().counters, &*client, &*thread.server);
            commands::note_time(spec.id, args, took, run.wall, target);
        }
        notify::notify_changes(spec, &mut thread.store, &thread.server, &thread.config);
        let Server { push, settings, .. } = &*thread.server;
        push.monitors.show(spec, args, monitors::From::Client(&client.shared), settings);
    }
}

/// Answers a request with the error that sends the client elsewhere. EXEC ends its transaction with this very error,
/// whose first word clients act on.
fn redirect(
    counters: &Counters,
    client: &mut Client,
    id: CommandId,
    error: &str,
    out: &mut Vec<u8>,
) {
    if id == CommandId::Exec {
        client.end_transaction();
    }
    counters.by_command.reject(id as usize);
    client.transaction.refuse();
    counters.misplaced(error);
    Writer::new(out, client.version).error(error.as_bytes());
}

/// Times one request of a sampled run.
struct Timer {
    begun: Instant,
    /// The number of timed commands at that time.
    timed: u64,
}

impl Timer {
    fn start(thread: &ThreadState) -> Self {
        Timer { begun: clock::monotonic(), timed: thread.shared().counters.by_command.timed() }
    }

    /// The duration of the request; None if the request has been timed already, as some always are.
    fn stop(self, thread: &ThreadState) -> Option<Duration> {
        let is_untimed = thread.shared().counters.by_command.timed() == self.timed;
        is_untimed.then(|| self.begun.elapsed())
    }
}

fn only_while_listening(spec: &Spec) -> String {
    format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context",
        spec.name
    )
}
