//! memcached's text protocol over the same data: what a connection of that protocol has, and how its
//! requests become commands.
//!
//! Requests are taken in batches as those of RESP are ([`crate::exec`]): decoded first, their keys
//! fetched side by side, then run in order. The commands are in a file for each family: [`classic`],
//! [`meta`], [`stats`]; both protocols' commands on items share what [`item`] does to the store.

mod access;
mod auth;
mod classic;
mod context;
mod item;
mod meta;
mod stats;

use fastrand::Rng;
use hotring_protocol::ArgsView;
use hotring_protocol::memcached::{
    Command, Data, Decoded, Decoder, Limits, LineTooLong, Request, Writer,
};
use hotring_store::{Key, Session};

use crate::host::clock;
use crate::observe::counters::Counters;
use crate::settings::config::Config;
use crate::state::batching::{BATCH_LEN, Fed, Notes, PREFETCH_MIN, TURN_LEN};
use crate::state::client::{Client, Closing};
use crate::state::hot_keys::HotKeys;
use crate::state::memcached::Counts;
use crate::state::notify;
use crate::state::server::Server;
use crate::table::{Spec, lookup};
use context::{Context, Outcome, Refusal};

/// The version of memcached that this protocol is of; clients decide by it.
pub(crate) const VERSION: &str = "1.6.45";

/// The byte that each request of memcached's binary protocol begins with.
const BINARY: u8 = 0x80;

/// Longest data of a request before the client has said who it is.
const AUTH_LEN_MAX: usize = 1 << 10;

/// What a connection of this protocol has besides what every one has.
#[derive(Debug)]
pub(crate) struct Talk {
    decoder: Decoder,
    /// The client may ask for everything.
    authenticated: bool,
    /// The client has said something.
    begun: bool,
}

/// One request of a batch.
#[derive(Debug, Default)]
struct Decodable {
    start: usize,
    request: Request,
}

/// One thread's storage for the requests of a batch.
#[derive(Debug)]
pub(crate) struct Batch {
    requests: Vec<Decodable>,
    len: usize,
    /// Where the batch ends in the input.
    end: usize,
    stop: Option<Stop>,
}

/// Why a batch has fewer requests than it may have.
#[derive(Debug)]
enum Stop {
    Incomplete,
    Broken,
}

impl Default for Batch {
    fn default() -> Self {
        let requests = (0..BATCH_LEN).map(|_| Decodable::default()).collect();
        Batch { requests, len: 0, end: 0, stop: None }
    }
}

/// What a thread runs requests with.
pub(crate) struct Means<'a> {
    pub server: &'a Server,
    pub config: &'a Config,
    pub store: &'a mut Session,
    pub counters: &'a Counters,
    pub counts: &'a Counts,
    /// Where keys are noted, and what chooses them.
    pub hot_keys: (&'a HotKeys, &'a mut Notes, &'a mut Rng),
    /// Unix milliseconds.
    pub now: u64,
    /// Length that the whole buffer of replies may reach.
    pub reply_len_max: usize,
    /// Why writes are refused, if they are.
    pub refusal: Option<String>,
    /// Each request is timed.
    pub is_timed: bool,
}

impl Talk {
    /// The start of a conversation.
    pub(crate) fn new(server: &Server) -> Self {
        let authenticated = server.memcached.users.is_none();
        Talk { decoder: Decoder::new(), authenticated, begun: false }
    }

    /// Whether it has said who it is, where that is asked for.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// How long the input must at least get before feeding it again is of any use.
    pub(crate) fn input_len_wanted(&self) -> usize {
        self.decoder.input_len_wanted()
    }

    /// Runs all complete requests at the start of `input` and appends their replies to `out`. Stops
    /// early when a command ends the connection, when `out` grows past the soft limit, or after a turn.
    pub(crate) fn feed(
        &mut self,
        batch: &mut Batch,
        client: &mut Client,
        input: &[u8],
        out: &mut Vec<u8>,
        mut means: Means<'_>,
    ) -> Fed {
        if !self.begun && !self.begin(client, input, &means) {
            return Fed { consumed: input.len(), stalled: false };
        }
        let out_start = out.len();
        let mut consumed = 0;
        loop {
            let out_max = out_start.saturating_add(client.output_soft_max(means.config));
            self.decode(batch, input, consumed, means.config);
            batch.prefetch(input, means.store);
            if self.authenticated && !means.hot_keys.1.pass(batch.len) {
                batch.note_keys(input, &mut means);
            }
            for decoded in &batch.requests[..batch.len] {
                if out.len() > out_max {
                    // The tail that the decoder remembers is no longer the next thing it will see.
                    self.decoder = Decoder::new();
                    return Fed { consumed: decoded.start, stalled: true };
                }
                self.run(&decoded.request, &input[decoded.start..], client, out, &mut means);
                if client.closing.is_some() {
                    return Fed { consumed: input.len(), stalled: false };
                }
            }
            consumed = batch.end;
            match batch.stop {
                // A wrong password holds back what is behind it.
                None if consumed < input.len()
                    && (consumed >= TURN_LEN || !client.penalty.is_zero()) =>
                {
                    return Fed { consumed, stalled: true };
                }
                None => {}
                Some(Stop::Incomplete) => return Fed { consumed, stalled: false },
                Some(Stop::Broken) => {
                    tracing::debug!(
                        client = client.shared.id,
                        "closing a connection: no end of a line"
                    );
                    Writer::new(out).line("CLIENT_ERROR line too long");
                    client.closing = Some(Closing::Protocol);
                    return Fed { consumed: input.len(), stalled: false };
                }
            }
        }
    }

    /// Looks at the first byte that comes: false if it is no text, and ends the connection. A client of the binary form
    /// sends no ends of lines, and would wait for a reply.
    #[cold]
    fn begin(&mut self, client: &mut Client, input: &[u8], means: &Means<'_>) -> bool {
        self.begun = !input.is_empty();
        if input.first() != Some(&BINARY) {
            return true;
        }
        if means.server.memcached.binary_log.allows(means.now) {
            tracing::warn!(
                client = client.shared.id,
                peer = %client.shared.peer,
                "a client spoke memcached's binary protocol, which is not spoken here; connection closed"
            );
        }
        client.closing = Some(Closing::Protocol);
        false
    }

    fn decode(&mut self, batch: &mut Batch, input: &[u8], start: usize, config: &Config) {
        let limits = self.limits(config);
        (batch.len, batch.end, batch.stop) = (0, start, None);
        while batch.len < BATCH_LEN && batch.end - start < TURN_LEN {
            let decoded = &mut batch.requests[batch.len];
            match self.decoder.decode(&input[batch.end..], &limits, &mut decoded.request) {
                Ok(Decoded::Request { consumed }) => {
                    decoded.start = batch.end;
                    batch.end += consumed;
                    batch.len += 1;
                    // What follows is read by other limits.
                    if !self.authenticated {
                        return;
                    }
                }
                Ok(Decoded::Passed { consumed }) => batch.end += consumed,
                Ok(Decoded::Incomplete) => {
                    batch.stop = Some(Stop::Incomplete);
                    return;
                }
                Err(LineTooLong) => {
                    batch.stop = Some(Stop::Broken);
                    return;
                }
            }
        }
    }

    fn limits(&self, config: &Config) -> Limits {
        match self.authenticated {
            true => Limits {
                keys_line_max: config.memcached.line_len_max,
                data_len_max: config.memcached.value_len_max,
            },
            false => Limits { keys_line_max: 0, data_len_max: AUTH_LEN_MAX },
        }
    }

    fn run(
        &mut self,
        request: &Request,
        input: &[u8],
        client: &mut Client,
        out: &mut Vec<u8>,
        means: &mut Means<'_>,
    ) {
        means.counters.commands.add(1);
        let start = out.len();
        let mut context = Context {
            args: request.args(input),
            data: request.data(input),
            reply: Writer::new(out),
            reply_len_max: means.reply_len_max,
            now: means.now,
            store: &mut *means.store,
            counters: means.counters,
            counts: means.counts,
            server: means.server,
            config: means.config,
            client,
        };
        let outcome = match (self.authenticated, &means.refusal) {
            (true, _) if misses(request.command, &mut context) => Err(Refusal::Loading),
            (true, Some(why)) if request.command.is_some_and(writes) => {
                Err(Refusal::NotLogged(why.clone()))
            }
            (true, _) => run_counted(request.command, means.is_timed, &mut context),
            (false, _) => self.run_locked(request.command, &mut context),
        };
        if let Err(refusal) = outcome {
            context.refuse(start, refusal);
        }
        if means.config.notify.is_on() {
            match request.command.and_then(event) {
                Some(spec) => notify::tell(spec, means.store, means.server, means.config),
                None => notify::tell_evicted(means.store, means.server, means.config),
            }
        }
    }

    /// Runs a request of a client that has not said yet who it is.
    #[cold]
    fn run_locked(&mut self, command: Option<Command>, c: &mut Context<'_>) -> Outcome {
        let outcome = auth::run(command, c, &mut self.authenticated);
        if let (Some(command), Err(_)) = (command, &outcome) {
            c.counts.by_command.reject(command as usize);
        }
        outcome
    }
}

impl Batch {
    /// Fetches the cache lines of all keys of the batch side by side.
    fn prefetch(&self, input: &[u8], store: &mut Session) {
        let requests = &self.requests[..self.len];
        let words = requests.iter().filter_map(|decoded| {
            let args = decoded.request.args(&input[decoded.start..]);
            Some(decoded.request.command?.keys(args))
        });
        let mut keys = [Key::from(b""); BATCH_LEN];
        let mut n_keys = 0;
        for key in words.flat_map(|words| words.iter()) {
            if n_keys == BATCH_LEN {
                store.prefetch(&mut keys);
                n_keys = 0;
            }
            keys[n_keys] = key.into();
            n_keys += 1;
        }
        if n_keys >= PREFETCH_MIN {
            store.prefetch(&mut keys[..n_keys]);
        }
    }

    /// Notes the keys of those requests that are chosen.
    #[cold]
    fn note_keys(&self, input: &[u8], means: &mut Means<'_>) {
        let (hot_keys, notes, random) = &mut means.hot_keys;
        let mut next = 0;
        while let Some((passed, weight)) = notes.next(self.len - next, random) {
            let decoded = &self.requests[next + passed];
            next += passed + 1;
            let args = decoded.request.args(&input[decoded.start..]);
            let keys = decoded.request.command.map(|command| command.keys(args));
            let keys = || keys.into_iter().flat_map(ArgsView::iter);
            hot_keys.note(keys, weight, random.u64(..), means.now);
        }
    }
}

/// Runs one command and counts it.
#[inline(always)]
fn run_counted(command: Option<Command>, is_timed: bool, c: &mut Context<'_>) -> Outcome {
    let Some(number) = command.map(|command| command as usize) else { return run(command, c) };
    let by_command = &c.counts.by_command;
    by_command.call(number);
    let begun = is_timed.then(clock::monotonic);
    let outcome = run(command, c);
    // What it answered took the key of a damaged item for absent.
    let outcome = c.damage().map_or(outcome, Err);
    if outcome.is_err() {
        by_command.fail(number);
    }
    if let Some(begun) = begun {
        by_command.time(number, begun.elapsed());
    }
    outcome
}

/// Runs one command.
fn run(command: Option<Command>, c: &mut Context<'_>) -> Outcome {
    use Command as Cmd;
    match command {
        Some(Cmd::Get) => classic::get(c, false),
        Some(Cmd::Gets) => classic::get(c, true),
        Some(Cmd::MetaGet) => meta::get(c),
        Some(Cmd::Set | Cmd::Add | Cmd::Replace | Cmd::Append | Cmd::Prepend | Cmd::Cas) => {
            classic::store(c, command.expect("it has just been looked at"))
        }
        Some(Cmd::MetaSet) => meta::set(c),
        Some(Cmd::Gat) => classic::touch_and_get(c, false),
        Some(Cmd::Gats) => classic::touch_and_get(c, true),
        Some(Cmd::Touch) => classic::touch(c),
        Some(Cmd::Incr) => classic::count(c, false),
        Some(Cmd::Decr) => classic::count(c, true),
        Some(Cmd::Delete) => classic::delete(c),
        Some(Cmd::MetaDelete) => meta::delete(c),
        Some(Cmd::MetaArithmetic) => meta::arithmetic(c),
        Some(Cmd::MetaDebug) => meta::debug(c),
        Some(Cmd::MetaNoop) => meta::noop(c),
        Some(Cmd::Stats) => stats::stats(c),
        Some(command) => classic::run_rare(c, command),
        None => classic::unknown(c),
    }
}

/// The command of RESP that does the same to a key, whose name a notification of the change carries.
fn event(command: Command) -> Option<&'static Spec> {
    use Command as Cmd;
    let name = match command {
        Cmd::Set | Cmd::Add | Cmd::Replace | Cmd::Cas | Cmd::MetaSet | Cmd::MetaGet => "set",
        Cmd::Append | Cmd::Prepend => "append",
        Cmd::Incr | Cmd::Decr | Cmd::MetaArithmetic => "incrby",
        Cmd::Delete | Cmd::MetaDelete => "del",
        Cmd::Touch | Cmd::Gat | Cmd::Gats => "expire",
        _ => return None,
    };
    lookup(name.as_bytes())
}

/// Whether it is there to change something. `mg` may do so on the way.
fn writes(command: Command) -> bool {
    command == Command::FlushAll || command != Command::MetaGet && event(command).is_some()
}

/// Whether it asks for what is not loaded yet.
#[inline]
fn misses(command: Option<Command>, c: &mut Context<'_>) -> bool {
    let Some(command) = command.filter(|_| c.server.loading.is_on()) else { return false };
    let keys = command.keys(c.args);
    // Flags of `mg` that store something or change its time.
    let is_write = |flag: &[u8]| matches!(flag.first(), Some(b'N' | b'T'));
    let is_read =
        !writes(command) && (command != Command::MetaGet || !c.args.iter().skip(2).any(is_write));
    let is_of_keys = !keys.is_empty() || event(command).is_some() || writes(command);
    is_of_keys && (!is_read || c.server.loading.misses(keys.iter(), c.store, c.now))
}

/// Whether a request has data that can be stored.
fn block<'a>(data: Data<'a>) -> Result<&'a [u8], Refusal> {
    match data {
        Data::Block(block) => Ok(block),
        Data::Unended => Err(Refusal::Text("CLIENT_ERROR bad data chunk")),
        Data::TooLong => Err(Refusal::TooLong),
        Data::None => Err(Refusal::BAD_LINE),
    }
}

#[cfg(test)]
mod tests;
