//! The executor of RESP: decodes batches of requests and runs them.
//!
//! [`RespExecutor::execute`] runs the requests of most batches. If a request may have to wait, be refused or be
//! observed, [`checked`] runs the requests one at a time.

mod batch;
mod checked;

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use hotring_protocol::{ArgsView, Decoder, Limits, ProtocolError, Writer};
use hotring_store::{KeyHash, Session};

use crate::commands::answer::answer;
use crate::commands::blocking::serve_ready;
use crate::observe::counters::Counters;
use crate::state::batching::{Fed, TURN_LEN};
use crate::state::client::{Client, Closing};
use crate::state::context::Context;
use crate::state::routes::Routes;
use crate::state::shown;
use crate::state::thread::ThreadState;
use crate::state::transaction::aborted;
use crate::table::{CommandError, CommandId, Flags, Spec, resolve};
use batch::{Batch, Stop};

/// Runs RESP requests. Each thread has one executor for all its connections.
pub(super) struct RespExecutor {
    batch: Batch,
}

/// The context that all requests of a batch share.
struct Run<'a> {
    input: &'a [u8],
    now: u64,
    /// The time of the wall clock, if `now` is not.
    wall: u64,
    reply_len_max: usize,
    /// No request begins if the output is longer than this.
    out_max: usize,
}

impl RespExecutor {
    pub(super) fn new() -> Self {
        RespExecutor { batch: Batch::new() }
    }

    /// As [`Executor::feed`](super::Executor::feed), after [`ThreadState::begin_run`].
    #[inline(always)]
    pub(super) fn feed(
        &mut self,
        thread: &mut ThreadState,
        (client, decoder): (&mut Client, &mut Decoder),
        input: &[u8],
        now: u64,
        out: &mut Vec<u8>,
    ) -> Fed {
        let reply_len_max = thread.reply_len_max(client);
        let out_start = out.len();
        let mut start = 0;
        let mut commands = 0;
        let fed = loop {
            let (begun, batch_start) = (thread.moment(), out.len());
            let stop = self.take_batch(thread, (client, decoder), input, start, now);
            let len = self.batch.len;
            // A request that changes these conditions is the last of its batch, or its batch is checked anyway.
            let is_plain = client.is_plain()
                && !thread.is_watched
                && !thread.is_timed
                && thread
                    .locals
                    .routes
                    .as_ref()
                    .is_none_or(|routes| self.is_served(routes, client, input));
            let out_max = out_start.saturating_add(match is_plain {
                true => thread.config.output_soft_max,
                false => client.output_soft_max(&thread.config),
            });
            let run = Run { input, now, wall: now, reply_len_max, out_max };
            let ran = match is_plain {
                true => {
                    let ran = self.execute(thread, 0..len, &run, client, out);
                    self.note_shown(thread, 0..ran, input);
                    ran
                }
                // A primary tells when a key is over. Until then its requests find the key, as they did there.
                false if client.is_of_primary() => {
                    self.execute_checked(thread, &Run { now: 0, ..run }, client, out)
                }
                false => self.execute_checked(thread, &run, client, out),
            };
            commands += ran as u64;
            if let Some(error) = thread.loss(&begun)
                && self.has_read(0..ran, input)
                && !client.is_of_primary()
            {
                thread.drop_replies(batch_start, out);
                self.answer_as_refused(0..ran, client, error, out);
            }
            if let Some(fed) = self.end_of_run(thread, (client, decoder), input, ran, stop, out) {
                break fed;
            }
            start = self.batch.end;
        };
        count(thread, client, commands);
        fed
    }

    /// Decodes the next batch, samples it for the hot keys, and prefetches its keys.
    #[inline(always)]
    fn take_batch(
        &mut self,
        thread: &mut ThreadState,
        (client, decoder): (&Client, &mut Decoder),
        input: &[u8],
        start: usize,
        now: u64,
    ) -> Option<Stop> {
        let is_locked = client.access().is_locked();
        let limits = if is_locked { &Limits::UNAUTHENTICATED } else { &thread.limits };
        let stop = self.batch.decode(decoder, input, start, limits);
        if !is_locked && !thread.notes.pass(self.batch.len) {
            self.note_keys(thread, client, input, now);
        }
        self.batch.prefetch(input, &mut thread.store);
        // All long requests are timed: reading their arguments may take long, regardless of the command.
        thread.is_timed |= self.batch.end - start >= TURN_LEN;
        stop
    }

    /// The outcome of the run, if it ends after `ran` requests of the batch; None if the next batch follows.
    #[inline(always)]
    fn end_of_run(
        &mut self,
        thread: &mut ThreadState,
        (client, decoder): (&mut Client, &mut Decoder),
        input: &[u8],
        ran: usize,
        stop: Option<Stop>,
        out: &mut Vec<u8>,
    ) -> Option<Fed> {
        if client.closing.is_some() {
            return Some(Fed::all(input));
        }
        let waits = client.wait().is_some();
        if ran < self.batch.len {
            // The decoder remembers an incomplete request at the end of the input, but must continue before it.
            *decoder = Decoder::new();
            return Some(Fed { consumed: self.batch.start(ran), stalled: !waits });
        }
        let consumed = self.batch.end;
        if waits {
            // A request that may wait is the last of its batch: nothing after it has been decoded.
            return Some(Fed { consumed, stalled: false });
        }
        match stop {
            // A wrong password delays the requests after it.
            None if consumed < input.len()
                && (consumed >= TURN_LEN || !client.penalty.is_zero()) =>
            {
                Some(Fed { consumed, stalled: true })
            }
            None => {
                // The last request may have changed a setting.
                thread.refresh_config();
                None
            }
            Some(Stop::Incomplete) => Some(Fed { consumed, stalled: false }),
            Some(Stop::Broken(error)) => {
                close_broken(client, &error, out);
                Some(Fed::all(input))
            }
        }
    }

    /// Whether this node of a cluster serves all requests of the batch. Others must be refused one by one.
    #[inline(never)]
    fn is_served(&self, routes: &Routes, client: &Client, input: &[u8]) -> bool {
        let serves = |i| {
            let spec = self.batch.spec(i);
            spec.is_none_or(|spec| routes.serves(spec, self.batch.args(i, input), client))
        };
        (0..self.batch.len).all(serves)
    }

    /// Runs requests of the batch until the output exceeds `run.out_max`, or a request ends the connection or waits.
    /// Returns the number of requests that have run.
    fn execute(
        &mut self,
        thread: &mut ThreadState,
        requests: Range<usize>,
        run: &Run<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> usize {
        let ThreadState { server, index, store, locals, .. } = thread;
        let mut context = Context {
            args: ArgsView::default(),
            key_hash: KeyHash::UNKNOWN,
            reply: Writer::new(out, client.version),
            reply_len_max: run.reply_len_max,
            now: run.now,
            store,
            counters: &server.thread(*index).counters,
            locals,
            client,
            server,
        };
        let mut ran = 0;
        for i in requests {
            if context.reply.written() + context.locals.long_values.len > run.out_max {
                break;
            }
            context.args = self.batch.args(i, run.input);
            // Another client may have swapped the database since the previous request.
            context.store.select(context.client.database);
            // A previous request may have selected another database, whose hashes differ.
            let is_same = context.store.database_id() == self.batch.database_id;
            context.key_hash = if is_same { self.batch.key_hash(i) } else { KeyHash::UNKNOWN };
            match self.batch.spec(i) {
                Some(spec) => {
                    answer(spec, &mut context);
                    if context.store.has_ready() {
                        serve_ready(spec, &mut context);
                    }
                }
                None => refuse(&mut context),
            }
            ran += 1;
            if context.client.is_interrupted() {
                // A request that must run again counts as one that has not begun.
                ran -= usize::from(context.client.must_run_again());
                break;
            }
        }
        ran
    }

    /// Whether these requests, which have run, may have read keys.
    #[cold]
    fn has_read(&self, mut requests: Range<usize>, input: &[u8]) -> bool {
        requests.any(|i| {
            let args = self.batch.args(i, input);
            self.batch.spec(i).is_some_and(|spec| {
                spec.id == CommandId::Exec
                    || spec.may_touch_any_key()
                    || spec.keys_of(args).next().is_some()
            })
        })
    }

    /// Answers these requests with an error, as if they had begun later, if they were reads only. Otherwise the
    /// connection ends, so that its client does not take a later reply for one of theirs.
    #[cold]
    fn answer_as_refused(
        &self,
        mut requests: Range<usize>,
        client: &mut Client,
        error: &str,
        out: &mut Vec<u8>,
    ) {
        let (n, is_free) = (requests.len(), client.is_plain() && client.wait().is_none());
        let reads = |spec: &Spec| {
            spec.flags.contains(Flags::READONLY) && !spec.flags.contains(Flags::NOSCRIPT)
        };
        if is_free && requests.all(|i| self.batch.spec(i).is_some_and(reads)) {
            let mut reply = Writer::new(out, client.version);
            (0..n).for_each(|_| reply.error(error.as_bytes()));
        } else {
            client.closing = Some(Closing::Killed);
        }
    }

    /// Has the replies to these requests, which have run, wait for the writes that they show.
    #[inline(always)]
    fn note_shown(&self, thread: &mut ThreadState, requests: Range<usize>, input: &[u8]) {
        if thread.store.marks_writes() {
            self.note_marked(&mut thread.store, requests, input);
        }
    }

    #[inline(never)]
    fn note_marked(&self, store: &mut Session, requests: Range<usize>, input: &[u8]) {
        if store.database_id() != self.batch.database_id {
            // Some ran there, some here.
            return shown::note_all(store);
        }
        // Most requests have one key.
        let has_others = Cell::new(false);
        let only_key = |i: usize| {
            let at = self.batch.spec(i)?.only_key_shown()?;
            Some(self.batch.args(i, input).at(at))
        };
        let keys = requests.clone().filter_map(|i| {
            let key = only_key(i);
            if key.is_none() {
                has_others.set(true);
            }
            key
        });
        shown::note_keys(store, keys);
        if has_others.get() {
            let request = |i| Some((self.batch.spec(i)?, self.batch.args(i, input)));
            let others = requests.filter(|i| only_key(*i).is_none());
            shown::note(store, others.filter_map(request));
        }
    }

    /// Samples the batch for the list of hot keys and the accesses of slots.
    #[cold]
    fn note_keys(&self, thread: &mut ThreadState, client: &Client, input: &[u8], now: u64) {
        let ThreadState { server, index, notes, locals, .. } = thread;
        let shared = server.thread(*index);
        let mut next = 0;
        while let Some((passed, weight)) = notes.next(self.batch.len - next, &mut locals.random) {
            let i = next + passed;
            next = i + 1;
            let args = self.batch.args(i, input);
            // A refused request does not use its keys.
            let may_run = |spec: &&Spec| client.access().check(spec, args).is_ok();
            let mut spec = self.batch.spec(i).filter(may_run);
            if let Some(routes) = &locals.routes {
                // Also what waits counts.
                spec = spec.filter(|spec| routes.place(spec, args, client).is_ok());
            }
            let keys = || spec.into_iter().flat_map(move |spec| spec.keys_of(args));
            if locals.routes.is_some() {
                shared.slot_accesses.note(keys(), weight);
            }
            shared.hot_keys.note(client.database, keys, weight, locals.random.u64(..), now);
        }
    }
}

/// Counts the commands of a run, with one update of the counter.
fn count(thread: &ThreadState, client: &Client, commands: u64) {
    thread.shared().counters.commands.add(commands);
    if let Some(id) = client.last {
        client.shared.ran(id);
    }
}

/// Closes a connection whose input is not RESP.
#[cold]
fn close_broken(client: &mut Client, error: &ProtocolError, out: &mut Vec<u8>) {
    tracing::debug!(client = client.shared.id, %error, "closing a connection");
    Writer::new(out, client.version).error_fmt(format_args!("ERR {error}"));
    client.closing = Some(Closing::Protocol);
}

/// Refuses a request that names no command or has a wrong number of arguments.
#[cold]
fn refuse(c: &mut Context<'_>) {
    let Err(error) = resolve(c.args) else { return };
    // A browser sends these words when a page makes it connect to this port. Redis closes the connection as well.
    let browser =
        |name: &[u8]| name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:");
    if matches!(error, CommandError::Unknown(_)) && c.args.get(0).is_some_and(browser) {
        tracing::warn!(
            client = c.client.shared.id,
            peer = %c.client.shared.peer,
            "possible attack: a client sent POST or Host:, as a browser does that was made to \
             speak to this port; connection closed"
        );
        c.client.closing = Some(Closing::CrossProtocol);
        return;
    }
    let id = match error {
        CommandError::WrongArity(spec) => Some(spec.id),
        _ => None,
    };
    reject(c.counters, c.client, id, &error.to_string(), c.reply.buffer());
}

/// Answers a request with an error instead of running it, and marks its transaction as failed.
fn reject(
    counters: &Counters,
    client: &mut Client,
    id: Option<CommandId>,
    error: &str,
    out: &mut Vec<u8>,
) {
    if let Some(id) = id {
        counters.by_command.reject(id as usize);
    }
    let error = if id == Some(CommandId::Exec) {
        client.end_transaction();
        Cow::Owned(aborted(error))
    } else {
        client.transaction.refuse();
        Cow::Borrowed(error)
    };
    client.note_failure();
    counters.error(&error);
    Writer::new(out, client.version).error(error.as_bytes());
}

#[cfg(test)]
mod tests {
    use crate::exec::tests::{NOW, server, talk};
    use crate::settings::config::Config;
    use crate::state::batching::{BATCH_LEN, Fed};

    #[test]
    fn nothing_behind_a_wait_is_decoded_before_its_end() {
        let server = server(Config::default());
        let (mut executor, mut conversation) = talk(&server);
        let wait = b"WAITKEY k 0\r\n";
        let input = [&wait[..], &b"INCR a\r\n".repeat(BATCH_LEN)].concat();
        let fed = executor.feed(&mut conversation, &input, NOW, &mut Vec::new());
        assert_eq!(fed, Fed { consumed: wait.len(), stalled: false });
        assert!((1..BATCH_LEN).all(|i| executor.resp.batch.args(i, b"").is_empty()));
    }
}
