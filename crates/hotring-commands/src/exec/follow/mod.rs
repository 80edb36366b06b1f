//! Applies the stream of commands that a Redis primary sends to its replicas. No I/O.
//!
//! The commands run on the ordinary path, in order. `position` is the place in the stream up to which everything is
//! applied. It never lies inside a transaction: a replica whose link is cut there gets the whole transaction again.
//!
//! A command that this server does not have, that fails here, or that is for a database beyond `databases` is counted
//! by its kind. The setting `replicaof-unknown` decides whether it is passed over or stops the link in front of it. A
//! command that fails for lack of memory or of a log never counts as passed over.

mod absolute;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hotring_protocol::{Args, ArgsView, Decoded, Decoder, Limits, Part, parse_i64, read_part};
use hotring_store::Watched;

use super::{Conversation, Executor, Protocol, WaitEnd};
use crate::host::clock;
use crate::settings::config::Unknown;
use crate::state::client::{Client, Closing};
use crate::state::server::Server;
use crate::table::{CommandId, Flags, Spec, quoted, resolve};

/// Bytes of requests that run as one batch, unless a single one is longer.
const RUN_LEN: usize = 64 << 10;

/// Errors that pass: the same command may succeed later.
const PASSING: [&str; 6] = ["OOM", "MISCONF", "BUSY", "LOADING", "NOREPLICAS", "UNBLOCKED"];

/// Applies the commands of one primary.
pub struct Follower {
    server: Arc<Server>,
    executor: Executor,
    conversation: Conversation,
    decoder: Decoder,
    replies: Vec<u8>,
    /// All bytes of the stream before this are applied.
    position: u64,
    /// Bytes behind `position` that are queued in a transaction.
    ahead: u64,
    /// The selected database, if this server does not have it: now, and before the open transaction.
    absent: Option<i64>,
    absent_before: Option<i64>,
}

/// The outcome of one call of [`Follower::apply`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Bytes of the input that have been processed. The caller must pass the rest again.
    pub consumed: usize,
    /// The next command must wait, for the log or for the end of a pause, or this server is no replica any more: the
    /// caller must look again a little later.
    pub waits: bool,
    /// The primary wants to know the position.
    pub wants_position: bool,
}

/// The reason why the stream cannot go on from its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub what: String,
    /// It will not pass by itself.
    pub is_lasting: bool,
    /// A part of a transaction has been applied: only a full copy helps.
    pub is_torn: bool,
}

/// What a request of the stream asks for.
enum Meaning {
    /// It runs, together with its neighbours.
    Runs,
    /// It selects a database that is there.
    Selects,
    /// A transaction begins or ends with it.
    Begins,
    Ends,
    /// It says nothing about the data.
    Idle,
    /// The primary wants to know the position.
    Asks,
    /// The next commands are for this database, which is absent.
    Leaves(i64),
    /// It cannot run here; with its kind.
    Unknown(String),
    /// It runs in this form.
    Instead(Vec<u8>),
}

/// How far a batch came.
enum Ran {
    All,
    /// The rest must wait.
    Until(usize),
}

impl Follower {
    /// A follower at the beginning of a stream; `seed` seeds its random numbers.
    pub fn new(server: &Arc<Server>, seed: u64) -> Follower {
        let mut executor = Executor::new(server.clone(), server.threads.len(), seed);
        executor.thread.store.follow_foreign();
        Follower {
            server: server.clone(),
            executor,
            conversation: conversation(server),
            decoder: Decoder::new(),
            replies: Vec::new(),
            position: 0,
            ahead: 0,
            absent: None,
            absent_before: None,
        }
    }

    /// Begins a stream behind a full copy, at this position.
    pub fn begin(&mut self, position: u64) {
        self.cut();
        self.conversation = conversation(&self.server);
        (self.position, self.absent) = (position, None);
    }

    /// The position up to which everything is applied.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The position up to which everything has arrived, if this many bytes wait for [`apply`](Self::apply).
    pub fn received(&self, unread: usize) -> u64 {
        self.position + self.ahead + unread as u64
    }

    /// Forgets what has arrived behind `position`, as the link is gone.
    pub fn cut(&mut self) {
        let client = &mut self.conversation.client;
        if client.transaction.is_open() {
            self.absent = self.absent_before;
        }
        client.end_wait(clock::unix_ms());
        client.end_transaction();
        client.closing = None;
        self.conversation.protocol = Protocol::Resp(Decoder::new());
        self.decoder = Decoder::new();
        self.ahead = 0;
    }

    /// Frees a part of the memory that the commands have removed.
    pub fn collect(&mut self) {
        self.executor.collect();
    }

    /// The length that the input must reach before applying more of it can make progress.
    pub fn input_len_wanted(&self) -> usize {
        self.decoder.input_len_wanted()
    }

    /// Applies the complete requests at the start of `input`, which continues where the last call stopped.
    ///
    /// # Errors
    /// The stream cannot go on. Everything before [`position`](Self::position) is applied; [`cut`](Self::cut) must
    /// follow.
    pub fn apply(&mut self, input: &[u8]) -> Result<Applied, Refused> {
        let server = self.server.clone();
        // No command of a former primary may run beside those of clients.
        let _applying = server.replication.lock_applying();
        let waits = !server.replication.is_replica() || self.is_waiting();
        let mut applied = Applied { waits, ..Applied::default() };
        if waits {
            return Ok(applied);
        }
        let mut args = Args::new();
        let (mut start, mut end) = (0, 0);
        let damage = loop {
            let len = match self.decode(&input[end..], &mut args) {
                Ok(Some(len)) => len,
                Ok(None) => break None,
                Err(refused) => break Some(refused),
            };
            let meaning = self.meaning(args.view(&input[end..]));
            let next = end + len;
            if matches!(meaning, Meaning::Selects) {
                self.absent = None;
            }
            let joins = matches!(meaning, Meaning::Runs | Meaning::Selects | Meaning::Ends);
            end = if joins { next } else { end };
            if (!joins || matches!(meaning, Meaning::Ends) || end - start >= RUN_LEN)
                && let Ran::Until(at) = self.run(&input[start..end])?
            {
                self.decoder = Decoder::new();
                return Ok(Applied { consumed: start + at, waits: true, ..applied });
            }
            match meaning {
                Meaning::Runs | Meaning::Selects if end - start < RUN_LEN => continue,
                Meaning::Runs | Meaning::Selects | Meaning::Ends => {}
                Meaning::Begins => {
                    self.absent_before = self.absent;
                    (start, end) = (end, next);
                    continue;
                }
                Meaning::Idle => self.advance(len),
                Meaning::Asks => {
                    self.advance(len);
                    applied.wants_position = true;
                }
                Meaning::Leaves(number) => {
                    self.absent = Some(number);
                    self.advance(len);
                }
                Meaning::Unknown(kind) => {
                    self.pass_over(kind, false)?;
                    self.advance(len);
                }
                Meaning::Instead(request) => {
                    if let Ran::Until(_) = self.run_instead(&request, len)? {
                        self.decoder = Decoder::new();
                        return Ok(Applied { consumed: end, waits: true, ..applied });
                    }
                }
            }
            (start, end) = (next, next);
        };
        if let Ran::Until(at) = self.run(&input[start..end])? {
            self.decoder = Decoder::new();
            return Ok(Applied { consumed: start + at, waits: true, ..applied });
        }
        damage.map_or(Ok(Applied { consumed: end, ..applied }), Err)
    }

    /// The length of the request at the start of the input, if it is complete.
    fn decode(&mut self, input: &[u8], args: &mut Args) -> Result<Option<usize>, Refused> {
        let config = self.executor.config();
        let limits = Limits {
            args_max: config.args_max,
            bulk_len_max: config.bulk_len_max,
            inline_len_max: config.inline_len_max,
            authenticated: true,
        };
        match self.decoder.decode(input, &limits, args) {
            Ok(Decoded::Request { consumed }) => Ok(Some(consumed)),
            Ok(Decoded::Incomplete) => Ok(None),
            Err(error) => {
                let what = format!("the primary's stream is damaged: {error}");
                Err(Refused { what, is_lasting: false, is_torn: false })
            }
        }
    }

    fn meaning(&self, args: ArgsView<'_>) -> Meaning {
        let Some(name) = args.get(0) else { return Meaning::Runs };
        let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
        if is("replconf") {
            let asks = args.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"getack"));
            return if asks { Meaning::Asks } else { Meaning::Idle };
        }
        let spec = match resolve(args) {
            Ok(spec) => spec,
            Err(_) => return Meaning::Unknown(kind_of(args)),
        };
        match spec.id {
            CommandId::Ping => return Meaning::Idle,
            CommandId::Multi => return Meaning::Begins,
            CommandId::Exec => return Meaning::Ends,
            CommandId::Select => {
                let number = parse_i64(args.at(1)).unwrap_or(i64::MAX);
                let databases = self.executor.config().databases as i64;
                return match (0..databases).contains(&number) {
                    true => Meaning::Selects,
                    false => Meaning::Leaves(number),
                };
            }
            // A script is propagated as its effects, by every Redis whose times are absolute.
            CommandId::Eval | CommandId::EvalSha => return Meaning::Unknown(kind_of(args)),
            // A primary sends effects and messages. Any other command could wait here, or change this server itself.
            _ if !is_effect(spec) => return Meaning::Unknown(kind_of(args)),
            id => {
                let is_of_database =
                    spec.keys_of(args).next().is_some() || id == CommandId::FlushDb;
                if let Some(number) = self.absent.filter(|_| is_of_database) {
                    return Meaning::Unknown(format!("database {number}"));
                }
                if let Some(request) = absolute::absolute(id, args, clock::unix_ms()) {
                    return Meaning::Instead(request);
                }
            }
        }
        Meaning::Runs
    }

    /// Runs complete requests.
    fn run(&mut self, input: &[u8]) -> Result<Ran, Refused> {
        let mut at = 0;
        while at < input.len() {
            let (len, failed) = self.feed(&input[at..])?;
            at += len;
            // The position must stay before a transaction whose EXEC stops the link.
            match failed {
                Some(failed) if failed.is_exec => {
                    self.pass_over(failed.kind, failed.is_torn)?;
                    self.advance(len + failed.len);
                    at += failed.len;
                }
                Some(failed) => {
                    self.advance(len);
                    self.pass_over(failed.kind, false)?;
                    self.advance(failed.len);
                    at += failed.len;
                }
                None => self.advance(len),
            }
            if self.conversation.client.wait().is_some() {
                return Ok(Ran::Until(at));
            }
        }
        Ok(Ran::All)
    }

    /// Runs a request that takes the place of one of `len` bytes.
    fn run_instead(&mut self, request: &[u8], len: usize) -> Result<Ran, Refused> {
        let (ran, failed) = self.feed(request)?;
        match failed {
            Some(failed) => self.pass_over(failed.kind, failed.is_torn)?,
            None if ran < request.len() => return Ok(Ran::Until(0)),
            None => {}
        }
        self.advance(len);
        Ok(Ran::All)
    }

    /// Runs requests up to one that must wait or that fails. Returns the bytes of those that ran.
    fn feed(&mut self, input: &[u8]) -> Result<(usize, Option<Failed>), Refused> {
        self.replies.clear();
        let now = clock::unix_ms();
        let fed = self.executor.feed(&mut self.conversation, input, now, &mut self.replies);
        // No reply acknowledges it.
        self.executor.take_logged();
        let client = &mut self.conversation.client;
        let Some(closing) = client.closing.take() else { return Ok((fed.consumed, None)) };
        self.conversation.protocol = Protocol::Resp(Decoder::new());
        let Some(failed) = failed(input, &self.replies).filter(|_| closing == Closing::Failed)
        else {
            let what = format!("a command of the primary ended with {closing:?}");
            return Err(Refused { what, is_lasting: true, is_torn: true });
        };
        let (before, failed) = failed;
        let words: Vec<&str> = failed.error.split_ascii_whitespace().collect();
        if !failed.is_torn && words.iter().any(|word| PASSING.contains(word)) {
            let what = format!("{}: {}", failed.kind, failed.error);
            if !failed.is_exec {
                self.advance(before);
            }
            return Err(Refused { what, is_lasting: false, is_torn: false });
        }
        Ok((before, Some(failed)))
    }

    /// Counts a command that cannot be applied.
    ///
    /// # Errors
    /// The setting says that the link must stop.
    fn pass_over(&self, kind: String, is_torn: bool) -> Result<(), Refused> {
        self.server.replication.redis.count_unknown(&kind);
        match self.server.settings.config().replication.unknown {
            Unknown::Skip => Ok(()),
            Unknown::Stop => Err(Refused { what: kind, is_lasting: true, is_torn }),
        }
    }

    /// Moves the position, or what lies ahead of it in an open transaction.
    fn advance(&mut self, len: usize) {
        self.ahead += len as u64;
        if !self.conversation.client.transaction.is_open() {
            self.position += std::mem::take(&mut self.ahead);
        }
    }

    /// Whether the last command still waits.
    fn is_waiting(&mut self) -> bool {
        if self.conversation.client.wait().is_none() {
            return false;
        }
        let now = clock::unix_ms();
        if let Watched::Waiting { .. } = self.executor.poll_wait(&self.conversation, now) {
            return true;
        }
        self.executor.end_wait(&mut self.conversation, WaitEnd::Fired, now, &mut self.replies);
        false
    }
}

/// A command that has failed.
struct Failed {
    /// Its length in the stream.
    len: usize,
    kind: String,
    error: String,
    /// It is the end of a transaction, and other commands of it have run.
    is_exec: bool,
    is_torn: bool,
}

fn conversation(server: &Server) -> Conversation {
    let client = Client::of_primary(server.threads.len(), &server.acl);
    Conversation { client, protocol: Protocol::Resp(Decoder::new()) }
}

/// Whether a primary's stream may have this command.
fn is_effect(spec: &Spec) -> bool {
    let writes = spec.flags.contains(Flags::WRITE) && !spec.flags.contains(Flags::BLOCKING);
    // Before Redis 7 scripts were loaded and forgotten in the stream, too.
    let others =
        [CommandId::Publish, CommandId::SPublish, CommandId::ScriptLoad, CommandId::ScriptFlush];
    writes || others.contains(&spec.id)
}

/// The kind of a command: its name, and the name of its subcommand if it has one.
fn kind_of(args: ArgsView<'_>) -> String {
    let names = if args.at(0).eq_ignore_ascii_case(b"function") { 2 } else { 1 };
    let names: Vec<_> = args.iter().take(names).map(|word| quoted(word).to_string()).collect();
    names.join(" ").to_ascii_lowercase()
}

/// The command whose error is the last of these replies to `input`, and the bytes before it.
fn failed(input: &[u8], mut replies: &[u8]) -> Option<(usize, Failed)> {
    let (mut count, mut left, mut error) = (0, 0, None);
    while let Some(part) = read_part(&mut replies) {
        if left == 0 {
            (count, left, error) = (count + 1, 1, None);
        }
        left = left - 1 + part.n_elements();
        if let Part::Error(text) = part {
            error.get_or_insert(text);
        }
    }
    let error = String::from_utf8_lossy(error?).into_owned();
    let (mut before, mut args) = (0, Args::new());
    loop {
        let rest = &input[before..];
        let decoded = Decoder::new().decode(rest, &Limits::default(), &mut args);
        let Ok(Decoded::Request { consumed: len }) = decoded else { return None };
        // An empty request has no reply.
        count -= usize::from(!args.is_empty());
        if count > 0 {
            before += len;
            continue;
        }
        let name = kind_of(args.view(rest));
        let code = error.split_ascii_whitespace().next().unwrap_or_default();
        let is_exec = name == "exec";
        let is_torn = is_exec && code != "EXECABORT";
        let kind = format!("{name} ({code})");
        return Some((before, Failed { len, kind, error, is_exec, is_torn }));
    }
}
