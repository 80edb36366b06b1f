//! The executor of memcached's protocol: decodes batches of requests and runs them.

use fastrand::Rng;
use hotring_protocol::ArgsView;
use hotring_protocol::memcached::{Command, Decoder, MetaKey, Request, Writer};
use hotring_store::{Session, StoreError};

use super::batch::{Batch, Stop};
use super::context::{Context, Outcome, Refusal};
use super::{Talk, auth, dispatch};
use crate::settings::config::Config;
use crate::state::batching::{Fed, Notes, TURN_LEN};
use crate::state::client::{Client, Closing, Wait};
use crate::state::notify;
use crate::state::routes::Routes;
use crate::state::server::Server;
use crate::state::shown;
use crate::state::thread::ThreadState;
use crate::state::thread_shared::ThreadShared;

/// The byte that each request of memcached's binary protocol begins with.
const BINARY: u8 = 0x80;

/// Runs the requests of this protocol. Each thread has one executor, for all its connections.
#[derive(Debug, Default)]
pub(crate) struct Executor {
    batch: Batch,
}

/// The state that all requests of a run share.
struct Run<'a> {
    server: &'a Server,
    config: &'a Config,
    shared: &'a ThreadShared,
    store: &'a mut Session,
    notes: &'a mut Notes,
    random: &'a mut Rng,
    /// Which keys this node has; None outside of a cluster.
    routes: Option<&'a Routes>,
    /// Unix milliseconds.
    now: u64,
    /// Maximum length of the reply buffer, in bytes.
    reply_len_max: usize,
    /// The reason that writes are refused, if they are.
    refusal: Option<String>,
    /// Whether each request is timed.
    is_timed: bool,
}

impl Executor {
    /// As [`exec::Executor::feed`](crate::exec::Executor::feed), after [`ThreadState::begin_run`].
    pub(crate) fn feed(
        &mut self,
        thread: &mut ThreadState,
        (client, talk): (&mut Client, &mut Talk),
        input: &[u8],
        now: u64,
        out: &mut Vec<u8>,
    ) -> Fed {
        if let Some(wait) = wait_before(thread, talk, now) {
            client.begin_wait(wait);
            return Fed { consumed: 0, stalled: false };
        }
        let mut run = Run::new(thread, client, now);
        if !talk.begun && !talk.begin(client, input, &run) {
            return Fed::all(input);
        }
        let out_max = out.len().saturating_add(client.output_soft_max(run.config));
        let mut start = 0;
        loop {
            self.batch.decode(talk, input, start, run.config);
            self.batch.prefetch(input, run.store);
            if talk.authenticated && !run.notes.pass(self.batch.requests().len()) {
                self.note_keys(input, &mut run);
            }
            let ended = self.run_batch(talk, client, input, out_max, out, &mut run);
            if run.store.marks_writes() {
                self.note_shown(input, &mut run);
            }
            if let Some(fed) = ended {
                return fed;
            }
            start = self.batch.end;
            if let Some(fed) = self.end_after_batch(client, input, out) {
                return fed;
            }
        }
    }

    /// Runs the requests of the batch; Some if the run ends before the end of the batch.
    #[inline(always)]
    fn run_batch(
        &self,
        talk: &mut Talk,
        client: &mut Client,
        input: &[u8],
        out_max: usize,
        out: &mut Vec<u8>,
        run: &mut Run<'_>,
    ) -> Option<Fed> {
        for decoded in self.batch.requests() {
            if out.len() > out_max {
                // The decoder has already decoded later requests of the batch, which the next call decodes again.
                talk.decoder = Decoder::new();
                return Some(Fed { consumed: decoded.start, stalled: true });
            }
            // Another client may have swapped the database since the previous request.
            run.store.select(client.database);
            talk.run(&decoded.request, &input[decoded.start..], client, out, run);
            if client.must_run_again() {
                talk.decoder = Decoder::new();
                return Some(Fed { consumed: decoded.start, stalled: false });
            }
            if client.closing.is_some() {
                return Some(Fed::all(input));
            }
        }
        None
    }

    /// Decides after a complete batch whether the run ends; None to run the next batch.
    #[inline(always)]
    fn end_after_batch(&self, client: &mut Client, input: &[u8], out: &mut Vec<u8>) -> Option<Fed> {
        let consumed = self.batch.end;
        match self.batch.stop {
            // After a wrong password, later requests must wait.
            None if consumed < input.len()
                && (consumed >= TURN_LEN || !client.penalty.is_zero()) =>
            {
                Some(Fed { consumed, stalled: true })
            }
            None => None,
            Some(Stop::Incomplete) => Some(Fed { consumed, stalled: false }),
            Some(Stop::Broken) => {
                let id = client.shared.id;
                tracing::debug!(client = id, "closing a connection: a line exceeds the limit");
                Writer::new(out).line("CLIENT_ERROR line too long");
                client.closing = Some(Closing::Protocol);
                Some(Fed::all(input))
            }
        }
    }

    /// Has the replies wait for the writes that they show.
    #[inline(never)]
    fn note_shown(&self, input: &[u8], run: &mut Run<'_>) {
        let refuses_writes = run.refusal.is_some();
        let is_refused =
            |command: Option<Command>| refuses_writes && command.is_some_and(dispatch::writes);
        let requests = self.batch.requests().iter();
        let ran = requests.filter(|decoded| !is_refused(decoded.request.command));
        let keys = ran.filter_map(|decoded| decoded.keys(input));
        shown::note_keys(run.store, keys.flat_map(ArgsView::iter));
    }

    /// Samples the batch for the list of hot keys and the accesses of slots.
    #[cold]
    fn note_keys(&self, input: &[u8], run: &mut Run<'_>) {
        let requests = self.batch.requests();
        let mut next = 0;
        while let Some((passed, weight)) = run.notes.next(requests.len() - next, run.random) {
            let decoded = &requests[next + passed];
            next += passed + 1;
            let keys = || decoded.keys(input).into_iter().flat_map(ArgsView::iter);
            if run.routes.is_some() {
                run.shared.slot_accesses.note(keys(), weight);
            }
            run.shared.hot_keys.note(0, keys, weight, run.random.u64(..), run.now);
        }
    }
}

/// The wait that must end before the next request may run, if there is one.
#[inline(always)]
fn wait_before(thread: &mut ThreadState, talk: &Talk, now: u64) -> Option<Wait> {
    if !thread.is_watched {
        return None;
    }
    let pause = thread.server.clients.pause.lasts(now).filter(|_| talk.authenticated);
    if let Some((until, paused)) = pause {
        return Some(Wait::Pause { until, paused });
    }
    if thread.server.persist.durability.is_full() {
        return Some(Wait::Log);
    }
    thread.flush_if_due(now);
    None
}

/// Why this node of a cluster does not run a request now.
enum Misplaced {
    /// Another shard has a key. This protocol has no redirections.
    Elsewhere(String),
    /// Keys are about to move to another shard.
    Moving,
}

/// How a connection chooses its node.
struct Place<'a> {
    routes: &'a Routes,
    /// Whether a replica is good enough.
    may_read_copy: bool,
    uses_tls: bool,
}

impl Place<'_> {
    fn misplaced(&self, command: Command, args: ArgsView<'_>) -> Option<Misplaced> {
        use Command as Cmd;
        let shows_keys = command == Cmd::Stats && args.get(1) == Some(b"cachedump");
        if (shows_keys || command == Cmd::FlushAll)
            && let Some(why) = self.routes.unanswered()
        {
            return Some(Misplaced::Elsewhere(why));
        }
        if command == Cmd::FlushAll {
            let none = None::<std::iter::Empty<&[u8]>>;
            return self.routes.must_wait_with(none, true).then_some(Misplaced::Moving);
        }
        let may_write = dispatch::changes(command, args);
        if command.is_meta() && args.tail(2).iter().any(|flag| flag.first() == Some(&b'b')) {
            // The command itself refuses a key that is no base64.
            let key = MetaKey::parse(args.get(1)?, true).ok()?;
            return self.misplaced_keys(may_write, || std::iter::once(key.bytes()));
        }
        self.misplaced_keys(may_write, || command.keys(args).iter())
    }

    fn misplaced_keys<'k, K: Iterator<Item = &'k [u8]>>(
        &self,
        may_write: bool,
        keys: impl Fn() -> K,
    ) -> Option<Misplaced> {
        if let Some(why) = self.routes.stranger(keys(), self.may_read_copy, self.uses_tls) {
            return Some(Misplaced::Elsewhere(why));
        }
        let must_wait = self.routes.must_wait_with(Some(keys()), may_write);
        must_wait.then_some(Misplaced::Moving)
    }
}

impl<'a> Run<'a> {
    fn new(thread: &'a mut ThreadState, client: &Client, now: u64) -> Self {
        let reply_len_max = thread.reply_len_max(client);
        let ThreadState {
            server, index, config, store, locals, notes, is_timed, is_watched, ..
        } = thread;
        let refusal = match *is_watched {
            true => match server.replication.refuses_writes() {
                Some(why) => Some(why.to_string()),
                None => server.persist.durability.refuses(&config.log),
            },
            false => None,
        };
        Run {
            shared: &server.threads[*index],
            server,
            config,
            store,
            notes,
            random: &mut locals.random,
            routes: locals.routes.as_deref(),
            now,
            reply_len_max,
            refusal,
            is_timed: *is_timed,
        }
    }
}

impl Talk {
    /// Checks the first byte of the connection. A client of the binary protocol sends no line ends and would wait for a
    /// reply forever, so its connection is closed and this returns false.
    #[cold]
    fn begin(&mut self, client: &mut Client, input: &[u8], run: &Run<'_>) -> bool {
        self.begun = !input.is_empty();
        if input.first() != Some(&BINARY) {
            return true;
        }
        if run.server.memcached.binary_log.allows(run.now) {
            tracing::warn!(
                client = client.shared.id,
                peer = %client.shared.peer,
                "a client used memcached's binary protocol, which is not supported; connection closed"
            );
        }
        client.closing = Some(Closing::Protocol);
        false
    }

    fn run(
        &mut self,
        request: &Request,
        input: &[u8],
        client: &mut Client,
        out: &mut Vec<u8>,
        run: &mut Run<'_>,
    ) {
        run.shared.counters.commands.add(1);
        let start = out.len();
        let mut context = Context {
            args: request.args(input),
            data: request.data(input),
            reply: Writer::new(out),
            reply_len_max: run.reply_len_max,
            now: run.now,
            store: &mut *run.store,
            counters: &run.shared.counters,
            counts: &run.shared.memcached,
            server: run.server,
            config: run.config,
            client,
        };
        // Only a request that may run ends mirrors.
        let misplaced = run.routes.filter(|_| self.authenticated).and_then(|routes| {
            let place = Place {
                routes,
                may_read_copy: self.may_read_copy,
                uses_tls: context.client.uses_tls,
            };
            place.misplaced(request.command?, context.args)
        });
        let outcome = match (self.authenticated, misplaced, &run.refusal) {
            (true, Some(Misplaced::Elsewhere(why)), _) => Err(Refusal::Misplaced(why)),
            (true, Some(Misplaced::Moving), _) => Err(StoreError::Displaced.into()),
            (true, ..) if dispatch::misses(request.command, &mut context) => Err(Refusal::Loading),
            (true, _, Some(why)) if request.command.is_some_and(dispatch::writes) => {
                Err(Refusal::NotLogged(why.clone()))
            }
            (true, ..) => dispatch::run_counted(request.command, run.is_timed, &mut context),
            (false, ..) => self.run_locked(request.command, &mut context),
        };
        match outcome {
            // It has done nothing, and runs again once they have moved.
            Err(Refusal::Store(StoreError::Displaced)) => {
                out.truncate(start);
                let version = run.routes.map_or(0, Routes::version);
                return client.wait_for_move(version, run.now);
            }
            Err(refusal) => context.refuse(start, refusal),
            Ok(()) => {}
        }
        if run.config.notify.is_on() {
            match request.command.and_then(dispatch::event) {
                Some(spec) => notify::notify_changes(spec, run.store, run.server, run.config),
                None => notify::notify_evicted(run.store, run.server, run.config),
            }
        }
    }

    /// Runs a request of a client that has not authenticated.
    #[cold]
    fn run_locked(&mut self, command: Option<Command>, c: &mut Context<'_>) -> Outcome {
        let outcome = auth::run(command, c, &mut self.authenticated);
        if let (Some(command), Err(_)) = (command, &outcome) {
            c.counts.by_command.reject(command as usize);
        }
        outcome
    }
}
