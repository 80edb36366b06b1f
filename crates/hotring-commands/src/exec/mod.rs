//! Bytes in, bytes out: decodes the requests of a buffer, runs them, and collects the replies.
//!
//! This is the whole server without its sockets. An [`Executor`] belongs to one thread, a
//! [`Conversation`] to one connection; neither reads, writes or waits.
//!
//! Requests are taken in batches. A batch is decoded first, then the cache lines of all its keys
//! are fetched side by side, then the commands run in order: while one key's line is on its way from
//! memory the others' are too, instead of each waiting for the one before.

mod batch;
mod busy;
#[cfg(test)]
pub(crate) mod dialogue;
#[cfg(fuzzing)]
pub mod fuzzing;
mod waits;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use fastrand::Rng;
use hotring_log::Lsn;
use hotring_protocol::{ArgsView, Decoder, Limits, Writer};
use hotring_store::{Buffer, KeyHash, Session};

use crate::acl::{Access, Origin};
use crate::commands;
use crate::commands::answer::{answer, deny};
use crate::host::clock;
use crate::host::fiber;
use crate::host::threads;
use crate::memcached::{self, Talk};
use crate::observe::counters::Counters;
use crate::script;
use crate::settings::config::Config;
use crate::state::batching::{Fed, Notes, Sampler, TURN_LEN};
use crate::state::client::{Client, ClientShared, Closing, USERS_CHANGED, Wait};
use crate::state::context::{Context, Own};
use crate::state::lent::{Attached, Lent};
use crate::state::loading::LOADING;
use crate::state::monitors;
use crate::state::notify;
use crate::state::scripts::BUSY;
use crate::state::server::Server;
use crate::state::subscriptions::is_allowed_while_listening;
use crate::state::tracking;
use crate::state::transaction::{Queued, aborted};
use crate::table::{CommandError, CommandId, Spec, resolve};
use batch::{Batch, Stop};
pub use waits::WaitEnd;

/// How often the store is asked to free a part (about 1,000 items) at one time. Where there is nothing
/// to free, each is a comparison; where there is much, all of them are about a millisecond.
const COLLECT_STEPS: usize = 16;

/// Bytes that arrive for each step of evictions, which evicts as many or more.
const ROOM_STEP: usize = 128 << 10;

/// One connection's part of the protocol state.
#[derive(Debug)]
pub struct Conversation {
    /// Who talks, and how.
    pub client: Client,
    decoder: Decoder,
    /// What there is besides if it talks memcached's protocol.
    memcached: Option<Box<Talk>>,
}

impl Conversation {
    /// The start of a conversation.
    pub fn new(shared: Arc<ClientShared>, server: &Server) -> Self {
        let client = Client::new(shared, &server.acl);
        Conversation { client, decoder: Decoder::new(), memcached: None }
    }

    /// The start of a conversation in memcached's protocol.
    pub fn memcached(shared: Arc<ClientShared>, server: &Server) -> Self {
        let mut client = Client::new(shared, &server.acl);
        // Its protocol has passwords of its own, and no users.
        client.become_user(Access::authenticated(server.acl.default_user()));
        let talk = Talk::new(server);
        client.show_locked(!talk.is_authenticated());
        Conversation { client, decoder: Decoder::new(), memcached: Some(Box::new(talk)) }
    }

    /// Whether it is one in memcached's protocol.
    pub fn is_memcached(&self) -> bool {
        self.memcached.is_some()
    }

    /// How long the input must at least get before feeding it again is of any use.
    pub fn input_len_wanted(&self) -> usize {
        match &self.memcached {
            Some(talk) => talk.input_len_wanted(),
            None => self.decoder.input_len_wanted(),
        }
    }
}

/// One thread's means to run commands.
pub struct Executor {
    server: Arc<Server>,
    thread: usize,
    store: Session,
    own: Own,
    config: Arc<Config>,
    config_version: u64,
    /// A script is slow: requests that need what it holds wait outside the gate, or are refused.
    is_slow: bool,
    /// Observers want to know what requests do, or which there are.
    is_watched: bool,
    limits: Limits,
    batch: Batch,
    memcached: memcached::Batch,
    sampler: Sampler,
    notes: Notes,
    /// The rest of the present run is timed, one request after the other.
    is_timed: bool,
}

impl Executor {
    /// The executor of `thread`; `seed` starts its random numbers.
    pub fn new(server: Arc<Server>, thread: usize, seed: u64) -> Self {
        let config_version = server.config_version();
        let config = server.config();
        let mut executor = Executor {
            thread,
            store: server.store.session_named(&threads::io_name(thread)),
            own: Own {
                random: Rng::with_seed(seed),
                interpreter: None,
                new_interpreter: script::interpreter,
                lent: Lent::default(),
            },
            config_version,
            is_slow: false,
            is_watched: false,
            limits: limits(&config),
            config,
            batch: Batch::new(),
            memcached: memcached::Batch::default(),
            sampler: Sampler::default(),
            notes: Notes::default(),
            is_timed: false,
            server,
        };
        executor.store.set_wait(Box::new(fiber::Beside));
        executor.look_around();
        executor
    }

    /// The settings, as of the last batch.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// As [`feed`](Self::feed), of an input that lies in memory of the store if it is a long one: values are neither
    /// copied out of it, nor into the replies. Those that belong into them are `attached`.
    pub fn feed_lent(
        &mut self,
        conversation: &mut Conversation,
        (input, buffer): (&[u8], Option<&Arc<Buffer>>),
        now: u64,
        (out, attached): (&mut Vec<u8>, &mut Vec<Attached>),
    ) -> Fed {
        debug_assert!(out.is_empty(), "places are counted from the beginning");
        let attaches = Some(std::mem::take(attached));
        self.own.lent = Lent { buffer: buffer.cloned(), attached: attaches, len: 0 };
        let fed = self.feed(conversation, input, now, out);
        let lent = std::mem::take(&mut self.own.lent);
        *attached = lent.attached.unwrap_or_default();
        fed
    }

    /// Memory for a request of this length, if there is any.
    pub fn buffer(&self, capacity: usize) -> Option<Buffer> {
        self.server.store.buffer(capacity).ok()
    }

    /// Makes room for about this many bytes that have come, as far as the policy lets items go: so a long value need
    /// not do so all at once when it is stored.
    pub fn make_room(&mut self, bytes: usize) {
        if self.server.loading.is_on() {
            return;
        }
        let steps = bytes.div_ceil(ROOM_STEP);
        (0..steps).all(|_| self.store.evict_some());
        // No reply tells of that.
        self.store.take_logged();
        notify::tell_evicted(&mut self.store, &self.server, &self.config);
    }

    /// The last record of the log with what this thread's commands have done since it was last asked for, if any.
    pub fn take_logged(&mut self) -> Option<Lsn> {
        self.store.take_logged()
    }

    /// Gives back a part of the memory that this thread's commands have removed. Busy threads do so
    /// as they go; one that is idle has to be told.
    pub fn collect(&mut self) {
        for _ in 0..COLLECT_STEPS {
            self.store.collect();
        }
    }

    /// Runs all complete requests at the start of `input` and appends their replies to `out`. Stops
    /// early when a command ends the connection or has to wait, when `out` grows past the soft limit, or
    /// after a turn.
    pub(crate) fn feed(
        &mut self,
        conversation: &mut Conversation,
        input: &[u8],
        now: u64,
        out: &mut Vec<u8>,
    ) -> Fed {
        debug_assert!(conversation.client.wait().is_none(), "requests wait for the one before");
        let client = &mut conversation.client;
        // After the input was read: what was sent after the change of a user meets the change.
        if client.shared.signals() & USERS_CHANGED != 0 && !client.renew_access(&self.server.acl) {
            return Fed { consumed: input.len(), stalled: false };
        }
        self.refresh_config();
        self.store.act_for(client.shared.id);
        // ORDERING: Relaxed, only this thread changes it.
        self.store.set_noted(!client.shared.no_touch.load(Ordering::Relaxed));
        let is_flushed = self.flush_if_due(now);
        // No reply tells of that.
        self.store.take_logged();
        if self.server.durability.is_full() || is_flushed {
            // It comes before the first request that meets no pause.
            self.is_watched = true;
        }
        let reply_len_max = self.reply_len_max(&conversation.client);
        self.is_timed = self.sampler.begin_run(&mut self.own.random);
        self.notes.begin_run(&mut self.own.random, now);
        if let Some(talk) = &mut conversation.memcached {
            if self.is_watched {
                let pause = self.server.pause.lasts(now).filter(|_| talk.is_authenticated());
                let is_full = self.server.durability.is_full();
                let wait = pause.map(|(until, paused)| Wait::Pause { until, paused });
                if let Some(wait) = wait.or_else(|| is_full.then_some(Wait::Log)) {
                    conversation.client.begin_wait(wait);
                    return Fed { consumed: 0, stalled: false };
                }
                self.flush_if_due(now);
            }
            let refusal = if self.is_watched {
                self.server.durability.refuses(&self.config.log)
            } else {
                None
            };
            let thread = &self.server.threads[self.thread];
            let means = memcached::Means {
                server: &self.server,
                config: &self.config,
                store: &mut self.store,
                counters: &thread.counters,
                counts: &thread.memcached,
                hot_keys: (&thread.hot_keys, &mut self.notes, &mut self.own.random),
                now,
                reply_len_max,
                refusal,
                is_timed: self.is_timed,
            };
            return talk.feed(&mut self.memcached, &mut conversation.client, input, out, means);
        }
        let out_start = out.len();
        let mut consumed = 0;
        let mut commands = 0;
        loop {
            let is_locked = conversation.client.access().is_locked();
            let limits = if is_locked { &Limits::UNAUTHENTICATED } else { &self.limits };
            let stop = self.batch.decode(&mut conversation.decoder, input, consumed, limits);
            if !is_locked && !self.notes.pass(self.batch.len) {
                self.note_keys(&conversation.client, input, now);
            }
            self.batch.prefetch(input, &mut self.store);
            let (len, end) = (self.batch.len, self.batch.end);
            // Of long requests each is timed: what it has to read may take its time, whatever the command.
            self.is_timed |= end - consumed >= TURN_LEN;
            // What changes it ends its batch, or is in a batch that it is asked for anyway.
            let is_plain = conversation.client.is_plain() && !self.is_watched && !self.is_timed;
            let out_max = out_start.saturating_add(match is_plain {
                true => self.config.output_soft_max,
                false => conversation.client.output_soft_max(&self.config),
            });
            let client = &mut conversation.client;
            let run = Run { input, now, reply_len_max, out_max };
            let ran = match is_plain {
                true => self.execute(0..len, &run, client, out),
                false => self.execute_specially(len, &run, client, out),
            };
            commands += ran as u64;
            if client.closing.is_some() {
                self.count(conversation, commands);
                return Fed { consumed: input.len(), stalled: false };
            }
            let waits = client.wait().is_some();
            if ran < len {
                // The tail that the decoder remembers is no longer the next thing it will see.
                conversation.decoder = Decoder::new();
                self.count(conversation, commands);
                return Fed { consumed: self.batch.start(ran), stalled: !waits };
            }
            if waits {
                // For what the last one of its batch wants: nothing behind it has been decoded.
                self.count(conversation, commands);
                return Fed { consumed: end, stalled: false };
            }
            consumed = end;
            match stop {
                // A wrong password holds back what is behind it.
                None if consumed < input.len()
                    && (consumed >= TURN_LEN || !conversation.client.penalty.is_zero()) =>
                {
                    self.count(conversation, commands);
                    return Fed { consumed, stalled: true };
                }
                // The last request may have changed a setting.
                None => self.refresh_config(),
                Some(Stop::Incomplete) => break,
                Some(Stop::Broken(error)) => {
                    let client = &mut conversation.client;
                    tracing::debug!(client = client.shared.id, %error, "closing a connection");
                    Writer::new(out, client.version).error_fmt(format_args!("ERR {error}"));
                    client.closing = Some(Closing::Protocol);
                    consumed = input.len();
                    break;
                }
            }
        }
        self.count(conversation, commands);
        Fed { consumed, stalled: false }
    }

    /// What the hard limit leaves for replies that are not yet among the unsent ones.
    fn reply_len_max(&self, client: &Client) -> usize {
        // ORDERING: Relaxed, written by this thread.
        let unsent = client.shared.unsent_len.load(Ordering::Relaxed);
        match self.config.output_hard_max {
            0 => usize::MAX,
            max => max.saturating_sub(unsent),
        }
    }

    /// Empties the store if that is due; true if a pause holds it back.
    #[inline]
    fn flush_if_due(&mut self, now: u64) -> bool {
        self.server.memcached.flush_if_due(&mut self.store, &self.server.pause, now)
    }

    fn refresh_config(&mut self) {
        let version = self.server.config_version();
        if self.server.scripts.slow.any() != self.is_slow {
            self.is_slow = !self.is_slow;
            self.look_around();
        }
        if version != self.config_version {
            self.config_version = version;
            self.config = self.server.config();
            self.limits = limits(&self.config);
            self.look_around();
        }
    }

    /// Checks which observers want to know what requests do.
    fn look_around(&mut self) {
        let notes = self.config.notify.is_on();
        self.store.note_changes(notes);
        let is_held_up = self.is_slow
            || self.server.pause.is_set()
            || self.server.loading.is_on()
            || self.server.durability.is_held_up(&self.config.log);
        self.is_watched = notes || self.server.monitors.any() || is_held_up;
    }

    /// Runs requests of the batch until the output is long, or one of them ends the connection or waits.
    /// Returns how many it has run.
    fn execute(
        &mut self,
        requests: Range<usize>,
        run: &Run<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> usize {
        let counters = &self.server.threads[self.thread].counters;
        let mut context = Context {
            args: ArgsView::default(),
            key_hash: KeyHash::UNKNOWN,
            reply: Writer::new(out, client.version),
            reply_len_max: run.reply_len_max,
            now: run.now,
            store: &mut self.store,
            counters,
            own: &mut self.own,
            client,
            server: &self.server,
        };
        let mut ran = 0;
        for i in requests {
            if context.reply.written() + context.own.lent.len > run.out_max {
                break;
            }
            context.args = self.batch.args(i, run.input);
            context.key_hash = self.batch.key_hash(i);
            match self.batch.spec(i) {
                Some(spec) => answer(spec, &mut context),
                None => refuse(&mut context),
            }
            ran += 1;
            if context.client.is_interrupted() {
                break;
            }
        }
        ran
    }

    /// As [`execute`](Self::execute), where more has to be done for each request than to run it.
    fn execute_specially(
        &mut self,
        len: usize,
        run: &Run<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> usize {
        // Messages that come in between are no reason not to run a request that has begun.
        let one = Run { out_max: usize::MAX, ..*run };
        for i in 0..len {
            if out.len() + self.own.lent.len > run.out_max {
                return i;
            }
            if let Some(pause) = self.pause_of(i, run, client) {
                client.begin_wait(pause);
                return i;
            }
            if let Some(wait) = self.script_of(i, run, client) {
                client.begin_wait(wait);
                return i;
            }
            client.fetch_messages(out);
            client.begin_request();
            let start = out.len();
            if !self.is_answered(i, (run.input, run.now), client, out) {
                let timer = self.is_timed.then(|| self.timer());
                if let Some(spec) = self.batch.spec(i) {
                    tracking::before(spec, self.batch.args(i, run.input), client, &self.server);
                }
                self.execute(i..i + 1, &one, client, out);
                if let Some(timer) = timer {
                    self.note_time(i, timer, run, client);
                }
                self.tell(i, run.input, client);
            }
            client.end_request(self.batch.spec(i), start, out);
            self.own.lent.cut(out.len());
            client.fetch_messages(out);
            if client.is_interrupted() {
                return i + 1;
            }
        }
        len
    }

    /// Notes the keys of those requests of a batch that are chosen.
    #[cold]
    fn note_keys(&mut self, client: &Client, input: &[u8], now: u64) {
        let hot_keys = &self.server.threads[self.thread].hot_keys;
        let mut next = 0;
        while let Some((passed, weight)) =
            self.notes.next(self.batch.len - next, &mut self.own.random)
        {
            let i = next + passed;
            next = i + 1;
            let args = self.batch.args(i, input);
            // What is refused is no use of a key.
            let may_run = |spec: &&Spec| client.access().check(spec, args).is_ok();
            let spec = self.batch.spec(i).filter(may_run);
            let keys = || spec.into_iter().flat_map(move |spec| spec.keys_of(args));
            hot_keys.note(keys, weight, self.own.random.u64(..), now);
        }
    }

    /// When a request begins, and how many were timed until then.
    fn timer(&self) -> (Instant, u64) {
        let counters = &self.server.threads[self.thread].counters;
        (clock::monotonic(), counters.by_command.timed())
    }

    /// Notes how long a request took, unless it is one of those that are always timed.
    fn note_time(&self, i: usize, (begun, timed): (Instant, u64), run: &Run<'_>, client: &Client) {
        let counters = &self.server.threads[self.thread].counters;
        if let Some(spec) = self.batch.spec(i).filter(|_| counters.by_command.timed() == timed) {
            let (args, took) = (self.batch.args(i, run.input), begun.elapsed());
            commands::note_time(spec.id, args, took, run.now, (counters, client, &self.server));
        }
    }

    /// Publishes what a request has done to keys, and shows it to monitors.
    fn tell(&mut self, i: usize, input: &[u8], client: &Client) {
        if let Some(spec) = self.batch.spec(i) {
            notify::tell(spec, &mut self.store, &self.server, &self.config);
            let args = self.batch.args(i, input);
            monitors::show(spec, args, monitors::From::Client(&client.shared), &self.server);
        }
    }

    /// Answers a request that is not to be run now, because the client may not, or listens, or because it
    /// goes into its transaction.
    fn is_answered(
        &mut self,
        i: usize,
        (input, now): (&[u8], u64),
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(spec) = self.batch.spec(i) else { return false };
        let args = self.batch.args(i, input);
        let counters = &self.server.threads[self.thread].counters;
        if let Err(denied) = client.access().check(spec, args) {
            let in_transaction = client.transaction.is_open();
            let origin = if in_transaction { Origin::Transaction } else { Origin::Client };
            let error = deny(denied, spec, args, client, &self.server, origin);
            reject(counters, client, Some(spec.id), &error, out);
            return true;
        }
        if self.server.loading.refuses(spec, args, &mut self.store, now) {
            reject(counters, client, Some(spec.id), LOADING, out);
            return true;
        }
        if self.is_slow && self.is_busy(spec, args, client, now) {
            reject(counters, client, Some(spec.id), BUSY, out);
            return true;
        }
        if client.may_write(spec)
            && let Some(refusal) = self.server.durability.refuses(&self.config.log)
        {
            reject(counters, client, Some(spec.id), &refusal, out);
            return true;
        }
        if client.is_confined() && !is_allowed_while_listening(spec.id) {
            let error = format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                spec.name
            );
            reject(counters, client, Some(spec.id), &error, out);
            return true;
        }
        match client.queue(spec, args, self.config.query_buffer_max) {
            Queued::Runs => return false,
            Queued::Yes => Writer::new(out, client.version).simple("QUEUED"),
            Queued::Refused => {
                let error = "ERR Command not allowed inside a transaction";
                reject(counters, client, Some(spec.id), error, out);
            }
            Queued::TooMuch => client.closing = Some(Closing::InputLimit),
        }
        true
    }

    /// Publishes what a run of commands did, once for all of them.
    fn count(&self, conversation: &Conversation, commands: u64) {
        let counters = &self.server.threads[self.thread].counters;
        counters.commands.add(commands);
        if let Some(id) = conversation.client.last {
            conversation.client.shared.ran(id);
        }
    }
}

/// What the requests of a batch have in common.
struct Run<'a> {
    input: &'a [u8],
    now: u64,
    reply_len_max: usize,
    /// No request begins when there is more output than this.
    out_max: usize,
}

fn limits(config: &Config) -> Limits {
    Limits {
        args_max: config.args_max,
        bulk_len_max: config.bulk_len_max,
        inline_len_max: config.inline_len_max,
        authenticated: true,
    }
}

/// Answers a request that names no command or has a wrong number of arguments.
#[cold]
fn refuse(c: &mut Context<'_>) {
    let Err(error) = resolve(c.args) else { return };
    // What a browser sends when a page makes it talk to this port. Redis closes as well.
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

/// Answers a request that was not run with an error, which its transaction does not outlive.
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
    counters.error(&error);
    Writer::new(out, client.version).error(error.as_bytes());
}

#[cfg(test)]
mod tests;
