//! The executor of messages: checks the operations of a request, runs them, and tells what must be safe before their
//! answers are.

use std::sync::Arc;
use std::task::Waker;

use hotring_log::Lsn;
use hotring_messages::Given;
use hotring_messages::message::{Operation, Status};
use hotring_protocol::KeptArgs;
use hotring_store::{Key, StoreError, Watch, Watched};

use super::operation::{self, Context, Outcome};
use crate::acl::{Denied, Origin};
use crate::commands::answer::deny;
use crate::host::clock;
use crate::script;
use crate::state::batching::PREFETCH_MIN;
use crate::state::client::{Client, USERS_CHANGED};
use crate::state::failure::Failure;
use crate::state::loading::LOADING;
use crate::state::notify;
use crate::state::pause::Paused;
use crate::state::routes::Routes;
use crate::state::scripts::{BUSY, HOLDER};
use crate::state::server::Server;
use crate::state::shown;
use crate::state::thread::ThreadState;
use crate::table::{Spec, lookup};

/// The bytes of an answer besides its value, about.
const ANSWER_LEN: usize = 32;

/// The answers to a request.
#[derive(Debug)]
pub struct Ran {
    /// An answer to each operation.
    pub given: Vec<Given>,
    /// A bit for each operation, from the lowest: whether it was run. What was refused has changed nothing.
    pub has_run: u64,
    /// The record that must be safe before they are sent.
    pub logged: Option<Lsn>,
}

/// The reason why a request must be tried again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The client's user is gone: its connection must end.
    Gone,
    /// A pause, another client that holds one of its keys, a move of slots, a mirror, or a full queue of the log holds
    /// it back.
    Back,
}

/// How a wait stands.
#[derive(Debug)]
pub enum Waited {
    /// It has not ended. It must be looked at again at this Unix millisecond, unless its waker comes first.
    Waiting(Option<u64>),
    /// It has ended.
    Ended(Ran),
}

/// Runs the requests of one thread's clients.
pub struct Executor {
    thread: ThreadState,
    /// The operation as a request of RESP, by which users are checked.
    args: KeptArgs,
}

impl Executor {
    /// The executor of thread `index`; `seed` seeds its random number generator.
    pub fn new(server: Arc<Server>, index: usize, seed: u64) -> Self {
        let thread = ThreadState::new(server, index, seed, script::interpreter);
        Executor { thread, args: KeptArgs::default() }
    }

    /// As [`exec::Executor::collect`](crate::exec::Executor::collect).
    pub fn collect(&mut self) {
        self.thread.collect();
    }

    /// Begins a request of this client.
    ///
    /// # Errors
    /// The request must not run now; it has done nothing.
    pub fn begin<'k>(
        &mut self,
        client: &mut Client,
        mut operations: impl Iterator<Item = Operation<'k>> + Clone,
        now: u64,
    ) -> Result<(), Held> {
        if !self.thread.begin_run(client, now) {
            return Err(Held::Gone);
        }
        let is_write = operations.clone().any(|operation| operation.is_write());
        let pause = self.thread.server.clients.pause.lasts(now);
        let is_paused = pause.is_some_and(|(_, paused)| is_write || paused == Paused::Everything);
        let is_full = || is_write && self.thread.server.persist.durability.is_full();
        if is_paused || is_full() || operations.any(|one| self.must_wait(client, &one, now)) {
            return Err(Held::Back);
        }
        Ok(())
    }

    /// Whether the thread would have to sleep for a key, which all its clients would feel, or the key is moving or
    /// mirrored. Who may not use the key waits for nothing, and ends no mirror.
    fn must_wait(&mut self, client: &Client, operation: &Operation<'_>, now: u64) -> bool {
        let key = operation.key();
        // A script that has it for long makes others fail instead.
        let held = self.thread.store.held_by(key);
        let is_held =
            held.is_some_and(|info| info.label != HOLDER || !self.thread.is_long(info, now));
        if !is_held && self.thread.locals.routes.is_none() {
            return false;
        }
        if self.denied(client, operation, spec_of(operation)).is_some() {
            return false;
        }
        let routes = self.thread.locals.routes.as_deref();
        let is_moving =
            |routes: &Routes| routes.must_wait_with(Some([key].into_iter()), operation.is_write());
        is_held || routes.is_some_and(is_moving)
    }

    /// Runs operations, none of which waits, after [`begin`](Self::begin).
    pub fn run<'k>(
        &mut self,
        client: &mut Client,
        operations: impl Iterator<Item = Operation<'k>> + Clone,
        now: u64,
    ) -> Ran {
        let begun = self.thread.moment();
        let mut keys: Vec<Key<'_>> =
            operations.clone().map(|operation| operation.key().into()).collect();
        if keys.len() >= PREFETCH_MIN {
            self.thread.store.prefetch(&mut keys);
        }
        let refusal = self.write_refusal();
        let mut given: Vec<Given> = Vec::with_capacity(keys.len());
        let mut has_run = 0;
        // All values together must fit into a message.
        let mut room = self.thread.config.fabric.message_len_max;
        for (at, operation) in operations.clone().enumerate() {
            let answer = match self.check(client, &operation, refusal.as_deref(), now) {
                Ok(()) => {
                    has_run |= 1 << at;
                    self.run_one(&operation, refusal.is_none(), room, now)
                }
                Err(why) => failed(why),
            };
            room = room.saturating_sub(ANSWER_LEN + answer.value.len());
            given.push(answer);
        }
        let all = operations.clone().enumerate();
        let ran =
            all.filter(|(at, _)| has_run & (1 << at) != 0).map(|(_, operation)| operation.key());
        self.note_keys(ran.clone(), now);
        if self.thread.store.marks_writes() {
            let keys: Vec<&[u8]> = ran.collect();
            shown::note_keys(&mut self.thread.store, keys.into_iter());
        }
        if let Some(why) = self.thread.loss(&begun) {
            take_back(operations, &mut given, has_run, why);
        }
        Ran { given, has_run, logged: self.thread.take_logged() }
    }

    /// Why writes are refused, if they are.
    fn write_refusal(&self) -> Option<String> {
        let ThreadState { server, config, is_watched, .. } = &self.thread;
        if !is_watched {
            return None;
        }
        match server.replication.refuses_writes() {
            Some(why) => Some(why.to_string()),
            None => server.persist.durability.refuses(&config.log),
        }
    }

    /// Runs an operation that has passed [`check`](Self::check); its value has at most `room` bytes.
    fn run_one(
        &mut self,
        operation: &Operation<'_>,
        may_number: bool,
        room: usize,
        now: u64,
    ) -> Given {
        let spec = spec_of(operation);
        let ThreadState { server, index, store, is_timed, .. } = &mut self.thread;
        let counters = &server.threads[*index].counters;
        counters.by_command.call(spec.id as usize);
        let begun = is_timed.then(clock::monotonic);
        let mut context = Context { store, counters, now, value_len_max: room, may_number };
        let outcome = operation::run(operation, &mut context);
        if let Some(begun) = begun {
            counters.by_command.time(spec.id as usize, begun.elapsed());
        }
        let given = self.answer(spec, outcome, now);
        self.tell_changes(spec);
        given
    }

    fn tell_changes(&mut self, spec: &Spec) {
        let ThreadState { server, store, config, .. } = &mut self.thread;
        if config.notify.is_on() {
            notify::notify_changes(spec, store, server, config);
        }
    }

    /// The answer to an operation that has run.
    fn answer(&mut self, spec: &Spec, outcome: Outcome, now: u64) -> Given {
        let ThreadState { server, index, store, .. } = &mut self.thread;
        let counters = &server.threads[*index].counters;
        let outcome = match store.take_damage() {
            // The operation has treated the key as absent.
            Some(damaged) => {
                let key = damaged.key.unwrap_or_default();
                counters.damaged_reads.add(1);
                server.observe.warnings.damage(&key, now);
                Err(Failure::Damaged(key))
            }
            None => outcome,
        };
        let failure = match outcome {
            Ok(given) => return given,
            Err(failure) => failure,
        };
        let warnings = &server.observe.warnings;
        match &failure {
            Failure::Store(StoreError::OutOfMemory(full)) => {
                counters.by_command.refuse(spec.id as usize);
                counters.rejected_maxmemory.add(1);
                warnings.maxmemory(full, &server.settings, now);
            }
            Failure::Store(StoreError::Stalled(stalled)) => {
                counters.by_command.refuse(spec.id as usize);
                counters.rejected_stalled.add(1);
                warnings.stalled(stalled, &server.settings, now);
            }
            _ => counters.by_command.fail(spec.id as usize),
        }
        let why = failure.message();
        counters.error(&why);
        failed(why.into_owned())
    }

    /// Counts an operation, and says why it must not run, if it must not.
    fn check(
        &mut self,
        client: &mut Client,
        operation: &Operation<'_>,
        refusal: Option<&str>,
        now: u64,
    ) -> Result<(), String> {
        let spec = spec_of(operation);
        self.thread.store.select(client.database);
        self.thread.shared().counters.commands.add(1);
        client.shared.ran(spec.id);
        let checked = self
            .check_user(client, operation, spec)
            .and_then(|()| self.check_key(client, operation, refusal, now));
        checked.inspect_err(|_| {
            self.thread.shared().counters.by_command.reject(spec.id as usize);
        })
    }

    fn check_key(
        &mut self,
        client: &Client,
        operation: &Operation<'_>,
        refusal: Option<&str>,
        now: u64,
    ) -> Result<(), String> {
        let key = operation.key();
        let script = self.thread.held_by_script(Some(key));
        let is_busy = script.is_some_and(|info| self.thread.is_long(info, now));
        let ThreadState { server, index, store, locals, .. } = &mut self.thread;
        let counters = &server.threads[*index].counters;
        let refuse = |why: String| {
            counters.error(&why);
            Err(why)
        };
        if let Some(routes) = &locals.routes {
            if let Some(why) = routes.stranger([key].into_iter(), false, client.uses_tls) {
                counters.misplaced(&why);
                return Err(why);
            }
            // `begin` waits. What begins to move since then is refused, as operations before this one may have run.
            if routes.must_wait_with(Some([key].into_iter()), operation.is_write()) {
                return refuse(Failure::from(StoreError::Displaced).message().into_owned());
            }
        }
        let loading = &server.persist.loading;
        if loading.is_on() && (operation.is_write() || loading.misses([key], store, now)) {
            return refuse(LOADING.to_string());
        }
        if is_busy {
            return refuse(BUSY.to_string());
        }
        match refusal.filter(|_| operation.is_write()) {
            Some(why) => refuse(why.to_string()),
            None => Ok(()),
        }
    }

    fn check_user(
        &mut self,
        client: &Client,
        operation: &Operation<'_>,
        spec: &'static Spec,
    ) -> Result<(), String> {
        let Some(denied) = self.denied(client, operation, spec) else { return Ok(()) };
        let args = self.args.iter().next().expect("it was just added");
        let why = deny(denied, spec, args, client, &self.thread.server, Origin::Client);
        self.thread.shared().counters.error(&why);
        Err(why)
    }

    /// What the client's user may not do, if that is so.
    fn denied(
        &mut self,
        client: &Client,
        operation: &Operation<'_>,
        spec: &'static Spec,
    ) -> Option<Denied> {
        if client.access().is_free() {
            return None;
        }
        self.args.clear();
        self.args.add(spec.name.as_bytes());
        self.args.add(operation.key());
        self.args.end();
        let args = self.args.iter().next().expect("it was just added");
        client.access().check(spec, args).err()
    }

    /// Begins a wait, after [`begin`](Self::begin).
    ///
    /// # Errors
    /// The answer, if the wait is over or refused.
    pub fn watch(
        &mut self,
        client: &mut Client,
        operation: &Operation<'_>,
        waker: Waker,
        now: u64,
    ) -> Result<Watch, Ran> {
        let spec = spec_of(operation);
        let begun = self.thread.moment();
        if let Err(why) = self.check(client, operation, None, now) {
            return Err(Ran::refused(why));
        }
        self.thread.shared().counters.by_command.call(spec.id as usize);
        let expected = match operation {
            Operation::WaitForValue { value, .. } => Some(*value),
            _ => None,
        };
        let store = &mut self.thread.store;
        let watch = store.watch(operation.key(), expected, waker, now);
        let watch = watch.and_then(|watch| {
            // The end of all waits for keys that are no longer served may have come before this one began.
            match store.is_displaced() {
                true => Err(StoreError::Displaced),
                false => Ok(watch),
            }
        });
        self.tell_changes(spec);
        match watch {
            Ok(watch) if watch.has_fired() => Err(match self.thread.loss(&begun) {
                Some(why) => Ran::refused(why),
                None => self.fired(&watch),
            }),
            Ok(watch) => Ok(watch),
            Err(error) => Err(Ran::one(self.answer(spec, Err(error.into()), now))),
        }
    }

    /// Looks at a wait.
    ///
    /// # Errors
    /// The client's user is gone: its connection must end.
    pub fn poll_watch(
        &mut self,
        client: &mut Client,
        watch: &Watch,
        now: u64,
    ) -> Result<Waited, Held> {
        if client.shared.signals() & USERS_CHANGED != 0
            && !client.renew_access(&self.thread.server.acl)
        {
            return Err(Held::Gone);
        }
        self.thread.refresh_config();
        let routes = self.thread.locals.routes.as_ref();
        let moved = routes.and_then(|routes| routes.moved([watch.key()].into_iter(), client));
        if let Some(why) = moved {
            self.thread.shared().counters.error(&why);
            return Ok(Waited::Ended(Ran::refused(why.into_owned())));
        }
        let begun = self.thread.moment();
        match self.thread.store.poll_watch(watch, now) {
            Watched::Fired => Ok(Waited::Ended(match self.thread.loss(&begun) {
                Some(why) => Ran::refused(why),
                None => self.fired(watch),
            })),
            Watched::Waiting { until } => Ok(Waited::Waiting(until)),
        }
    }

    /// The answer to a wait whose change has come. It shows the write that has ended it.
    fn fired(&mut self, watch: &Watch) -> Ran {
        if self.thread.store.marks_writes() {
            let last = self.thread.store.last_record_of_watch(watch);
            self.thread.store.note_logged(last);
        }
        let given = Given { status: Status::Done, version: 0, value: Vec::new() };
        Ran { logged: self.thread.take_logged(), ..Ran::one(given) }
    }

    /// Samples what was run for the list of hot keys and the accesses of slots.
    fn note_keys<'k>(&mut self, all: impl Iterator<Item = &'k [u8]> + Clone, now: u64) {
        let ThreadState { server, index, notes, locals, .. } = &mut self.thread;
        let len = all.clone().count();
        if notes.pass(len) {
            return;
        }
        let shared = &server.threads[*index];
        let mut next = 0;
        while let Some((passed, weight)) = notes.next(len - next, &mut locals.random) {
            let key = all.clone().nth(next + passed);
            next += passed + 1;
            let keys = || key.into_iter();
            if locals.routes.is_some() {
                shared.slot_accesses.note(keys(), weight);
            }
            shared.hot_keys.note(0, keys, weight, locals.random.u64(..), now);
        }
    }
}

impl Ran {
    fn one(given: Given) -> Ran {
        Ran { given: vec![given], has_run: 1, logged: None }
    }

    /// The only operation was not run.
    fn refused(why: impl Into<Vec<u8>>) -> Ran {
        Ran { has_run: 0, ..Ran::one(failed(why)) }
    }
}

/// Replaces answers that must not be shown: what was written has an unknown fate, what was read is not shown. What was
/// refused stays refused.
pub fn take_back<'k>(
    operations: impl Iterator<Item = Operation<'k>>,
    given: &mut [Given],
    has_run: u64,
    why: &str,
) {
    let pairs = operations.zip(given).enumerate();
    for (_, (operation, given)) in pairs.filter(|(at, _)| has_run & (1 << at) != 0) {
        let status = if operation.is_write() { Status::Unknown } else { Status::Failed };
        *given = Given { status, version: 0, value: why.into() };
    }
}

fn failed(why: impl Into<Vec<u8>>) -> Given {
    Given { status: Status::Failed, version: 0, value: why.into() }
}

/// The command of RESP that does the same.
fn spec_of(operation: &Operation<'_>) -> &'static Spec {
    let name = match operation {
        Operation::Get { .. } => "get",
        Operation::Set { .. } | Operation::Update { .. } | Operation::CompareAndSet { .. } => "set",
        Operation::Delete { .. } => "del",
        Operation::Increment { .. } => "incrby",
        Operation::Expire { .. } => "pexpire",
        Operation::WaitForChange { .. } | Operation::WaitForValue { .. } => "waitkey",
        Operation::History { .. } => "history",
        Operation::Rollback { .. } => "rollback",
    };
    lookup(name.as_bytes()).expect("the table has it")
}
