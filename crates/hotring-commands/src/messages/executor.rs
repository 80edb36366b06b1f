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
use crate::acl::Origin;
use crate::commands::answer::deny;
use crate::host::clock;
use crate::script;
use crate::state::batching::PREFETCH_MIN;
use crate::state::client::Client;
use crate::state::failure::Failure;
use crate::state::loading::LOADING;
use crate::state::notify;
use crate::state::pause::Paused;
use crate::state::scripts::BUSY;
use crate::state::server::Server;
use crate::state::shown;
use crate::state::thread::ThreadState;
use crate::table::{Spec, lookup};

/// The error of a wait that ends because the server has become a replica, as of RESP's blocking commands.
const DEMOTED: &str =
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)";

/// The answers to a request.
#[derive(Debug)]
pub struct Ran {
    /// An answer to each operation.
    pub given: Vec<Given>,
    /// The record that must be safe before they are sent.
    pub logged: Option<Lsn>,
}

/// The reason why a request must be tried again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The client's user is gone: its connection must end.
    Gone,
    /// A pause, a slow script with one of its keys, or a full queue of the log holds it back.
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
        self.thread.refresh_config();
        self.thread.store.collect();
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
        let mut is_held = || operations.any(|operation| self.is_held(operation.key(), now));
        match is_paused || is_full() || (self.thread.is_slow && is_held()) {
            true => Err(Held::Back),
            false => Ok(()),
        }
    }

    /// Whether a slow script holds this key, and not for long enough to refuse others.
    fn is_held(&self, key: &[u8], now: u64) -> bool {
        let held = self.thread.held_by_script(Some(key));
        held.is_some_and(|info| !self.thread.is_long(info, now))
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
        self.note_keys(operations.clone(), now);
        let refusal = self.write_refusal();
        let mut given: Vec<Given> = Vec::with_capacity(keys.len());
        for operation in operations.clone() {
            given.push(self.run_one(client, &operation, refusal.as_deref(), now));
        }
        if self.thread.store.marks_writes() {
            let keys: Vec<&[u8]> = operations.clone().map(|operation| operation.key()).collect();
            shown::note_keys(&mut self.thread.store, keys.into_iter());
        }
        if let Some(why) = self.thread.loss(&begun) {
            for (operation, given) in operations.zip(&mut given) {
                let status = if operation.is_write() { Status::Unknown } else { Status::Failed };
                *given = Given { status, version: 0, value: why.into() };
            }
        }
        Ran { given, logged: self.thread.take_logged() }
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

    fn run_one(
        &mut self,
        client: &mut Client,
        operation: &Operation<'_>,
        refusal: Option<&str>,
        now: u64,
    ) -> Given {
        let spec = spec_of(operation);
        self.thread.store.select(client.database);
        self.thread.shared().counters.commands.add(1);
        client.shared.ran(spec.id);
        if let Err(why) = self.check(client, operation, spec, refusal, now) {
            self.thread.shared().counters.by_command.reject(spec.id as usize);
            return failed(why);
        }
        let ThreadState { server, index, store, config, is_timed, .. } = &mut self.thread;
        let counters = &server.threads[*index].counters;
        counters.by_command.call(spec.id as usize);
        let begun = is_timed.then(clock::monotonic);
        let mut context = Context {
            store,
            counters,
            now,
            value_len_max: config.fabric.message_len_max,
            may_number: refusal.is_none(),
        };
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

    /// Why an operation must not run, if it must not.
    fn check(
        &mut self,
        client: &Client,
        operation: &Operation<'_>,
        spec: &'static Spec,
        refusal: Option<&str>,
        now: u64,
    ) -> Result<(), String> {
        self.check_user(client, operation, spec)?;
        let key = operation.key();
        // `begin` holds requests back before that.
        let is_busy = self.thread.is_slow && self.thread.held_by_script(Some(key)).is_some();
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
        if client.access().is_free() {
            return Ok(());
        }
        self.args.clear();
        self.args.add(spec.name.as_bytes());
        self.args.add(operation.key());
        self.args.end();
        let args = self.args.iter().next().expect("it was just added");
        let server = &self.thread.server;
        client.access().check(spec, args).map_err(|denied| {
            let why = deny(denied, spec, args, client, server, Origin::Client);
            self.thread.shared().counters.error(&why);
            why
        })
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
        let counters = &self.thread.server.threads[self.thread.index].counters;
        counters.commands.add(1);
        client.shared.ran(spec.id);
        if let Err(why) = self.check(client, operation, spec, None, now) {
            self.thread.shared().counters.by_command.reject(spec.id as usize);
            return Err(Ran { given: vec![failed(why)], logged: None });
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
            Ok(watch) if watch.has_fired() => Err(self.fired(&watch)),
            Ok(watch) => Ok(watch),
            Err(error) => {
                let given = self.answer(spec, Err(error.into()), now);
                Err(Ran { given: vec![given], logged: None })
            }
        }
    }

    /// Looks at a wait.
    pub fn poll_watch(&mut self, client: &Client, watch: &Watch, now: u64) -> Waited {
        self.thread.refresh_config();
        let routes = self.thread.locals.routes.as_ref();
        let moved = routes.and_then(|routes| routes.moved([watch.key()].into_iter(), client));
        let is_replica = self.thread.server.replication.is_replica();
        let why = moved.or_else(|| is_replica.then_some(DEMOTED.into()));
        if let Some(why) = why {
            self.thread.shared().counters.error(&why);
            return Waited::Ended(Ran { given: vec![failed(why.into_owned())], logged: None });
        }
        match self.thread.store.poll_watch(watch, now) {
            Watched::Fired => Waited::Ended(self.fired(watch)),
            Watched::Waiting { until } => Waited::Waiting(until),
        }
    }

    /// The answer to a wait whose change has come. It shows the write that has ended it.
    fn fired(&mut self, watch: &Watch) -> Ran {
        if self.thread.store.marks_writes() {
            let last = self.thread.store.last_record_of_watch(watch);
            self.thread.store.note_logged(last);
        }
        let given = Given { status: Status::Done, version: 0, value: Vec::new() };
        Ran { given: vec![given], logged: self.thread.take_logged() }
    }

    /// Samples the request for the list of hot keys and the accesses of slots.
    fn note_keys<'k>(&mut self, operations: impl Iterator<Item = Operation<'k>> + Clone, now: u64) {
        let ThreadState { server, index, notes, locals, .. } = &mut self.thread;
        let len = operations.clone().count();
        if notes.pass(len) {
            return;
        }
        let shared = &server.threads[*index];
        let mut next = 0;
        while let Some((passed, weight)) = notes.next(len - next, &mut locals.random) {
            let key = operations.clone().nth(next + passed).map(|operation| operation.key());
            next += passed + 1;
            let keys = || key.into_iter();
            if locals.routes.is_some() {
                shared.slot_accesses.note(keys(), weight);
            }
            shared.hot_keys.note(0, keys, weight, locals.random.u64(..), now);
        }
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
