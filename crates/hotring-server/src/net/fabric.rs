//! A thread that serves clients of messages over an endpoint of its own (`docs/design/messages.md`).
//!
//! A job goes from the endpoint to the executor, and back as a reply once the log has what the reply shows. Until then
//! it keeps its slot, so that a slow disk makes clients wait in their sockets. What must wait before it is run (a
//! pause, a key that another client holds or that moves) gives its slot to others.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, Instant};

use hotring_cluster::Incarnation;
use hotring_log::Lsn;
use hotring_messages::message::{Answer, Hello, Operation, Status, Term};
use hotring_messages::{
    AnyEndpoint, Bounds, Endpoint, Fabric, Given, Host, Job, Listener, Patience, Peer, Provider,
    ReplyCache, Server as Messages, Sockets, UNIX, Wait,
};
use hotring_store::Watch;

use crate::net::listen::{self, UnixPath};
use hotring_commands::host::clock;
use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads;
use hotring_commands::messages::{Executor, Held, Ran, Waited, log_in, take_back};
use hotring_commands::observe::beats::BEAT;
use hotring_commands::settings::config::{Config, OnError};
use hotring_commands::state::client::{Client, ClientShared, KILLED};
use hotring_commands::state::durability;
use hotring_commands::state::server::Server;

/// How long a request waits before it is tried again that a pause or the log holds back.
const HELD_PAUSE: Duration = Duration::from_millis(1);

/// The answer to a request that would be one too many of those that are held back.
const TOO_MANY_HELD: &str = "TRYAGAIN as many requests as fabric-slots are held back already";

/// The answer to a wait that would be one too many of its client.
const TOO_MANY_WAITS: &str = "ERR the client waits for as many keys as fabric-window already";

/// Time limit for the log to reach what has been answered when the server stops.
const FINISH_MAX: Duration = Duration::from_secs(5);

/// An endpoint, and the file of its Unix socket, if it has one.
pub(crate) type Bound = (AnyEndpoint, Option<UnixPath>);

/// The endpoints of the settings, which get their real addresses.
pub(crate) fn bind(config: &mut Config) -> Result<Vec<Bound>, StartError> {
    let bound = config.fabric.listen.iter().map(|address| bind_one(address, config));
    let bound: Vec<Bound> = bound.collect::<Result<_, _>>()?;
    config.fabric.listen = bound.iter().map(|(endpoint, _)| address(endpoint)).collect();
    Ok(bound)
}

fn bind_one(address: &str, config: &Config) -> Result<Bound, StartError> {
    let (provider, place) = Provider::split(address);
    let (listener, path) = match place.strip_prefix(UNIX) {
        Some(path) => {
            let (listener, path) = listen::bind_unix(Path::new(path), config)?;
            (Listener::Unix(listener), Some(path))
        }
        None => {
            let mut bound = listen::bind_tcp(&[place.to_string()], config)?;
            (Listener::Tcp(bound.remove(0)), None)
        }
    };
    let endpoint = open(provider, listener, config)
        .map_err(|why| StartError::new(format!("cannot serve messages on {address}: {why}")))?;
    Ok((endpoint, path))
}

fn open(
    provider: Option<Provider>,
    listener: Listener,
    config: &Config,
) -> io::Result<AnyEndpoint> {
    let (slots, len) = (config.fabric.slots, config.fabric.message_len_max);
    let silence = Duration::from_secs(config.tcp_keepalive_s);
    let silence = (!silence.is_zero()).then_some(silence);
    match provider {
        None => {
            let mut endpoint = Sockets::on(listener, config.maxclients, slots, len)?;
            endpoint.set_datagram_max(config.fabric.datagram_len_max);
            endpoint.set_keepalive(silence);
            Ok(Box::new(endpoint))
        }
        Some(provider) => {
            let mut endpoint = Fabric::on(provider, listener, config.maxclients, slots, len)?;
            endpoint.set_keepalive(silence);
            Ok(Box::new(endpoint))
        }
    }
}

fn address(endpoint: &AnyEndpoint) -> String {
    String::from_utf8_lossy(&endpoint.address()).into_owned()
}

/// Serves an endpoint until the server stops. Runs on its own thread, the I/O thread `index`.
pub(crate) fn run(server: &Arc<Server>, (endpoint, _path): Bound, index: usize, seed: u64) {
    server.threads[index].beats.beat(server.process.started);
    match threads::event_loop() {
        Ok(runtime) => runtime.block_on(server.persist.loading.grace()),
        Err(error) => tracing::debug!(%error, "messages may meet data that is still loading"),
    }
    let mut thread = Thread::new(server.clone(), endpoint, index, seed);
    while !server.process.is_stopping() {
        thread.turn();
    }
    thread.finish();
    server.threads[index].beats.end();
}

/// A connection.
struct Guest {
    shared: Arc<ClientShared>,
    /// Set by its greeting.
    known: Option<Known>,
    /// How many keys it waits for.
    waits: usize,
}

/// Who has greeted over a connection.
struct Known {
    number: u64,
    user: Box<[u8]>,
    client: Client,
}

/// The connections of an endpoint.
struct Guests {
    server: Arc<Server>,
    index: usize,
    local: String,
    waker: Waker,
    all: BTreeMap<Peer, Guest>,
}

impl Guests {
    /// The client of a connection that has greeted and was not killed.
    fn client(&mut self, peer: Peer) -> Option<&mut Client> {
        let guest = self.all.get_mut(&peer)?;
        let is_killed = guest.shared.signals() & KILLED != 0;
        guest.known.as_mut().filter(|_| !is_killed).map(|known| &mut known.client)
    }

    /// Counts a wait of this peer more or less.
    fn count_wait(&mut self, peer: Peer, change: isize) {
        if let Some(guest) = self.all.get_mut(&peer) {
            guest.waits = guest.waits.saturating_add_signed(change);
        }
    }
}

impl Host for Guests {
    fn admits(&mut self, peer: Peer, origin: &str) -> bool {
        let Guests { server, index, local, waker, all } = self;
        let ip = origin.parse().map(|origin: SocketAddr| origin.ip());
        if ip.is_ok_and(|ip| server.is_protected_from(ip)) {
            tracing::debug!(peer = origin, "protected mode: messages of another machine refused");
            return false;
        }
        // ORDERING: Relaxed, as in `Acceptor`.
        let open = server.threads.iter().map(|thread| thread.connections.load(Ordering::Relaxed));
        if open.sum::<usize>() >= server.settings.config().maxclients {
            tracing::debug!(peer = origin, "a client of messages is above maxclients");
            return false;
        }
        server.threads[*index].connections.fetch_add(1, Ordering::Relaxed);
        let shared = server.clients.enter(origin.to_string(), local.clone(), *index);
        shared.set_waker(waker);
        all.insert(peer, Guest { shared, known: None, waits: 0 });
        true
    }

    fn knows(&mut self, peer: Peer, hello: &Hello<'_>) -> bool {
        let Some(guest) = self.all.get_mut(&peer) else { return false };
        if let Some(known) = &guest.known {
            return known.number == hello.client && *known.user == *hello.user;
        }
        let client = log_in(&self.server, &guest.shared, hello.user, hello.password);
        let user = hello.user.into();
        guest.known = client.map(|client| Known { number: hello.client, user, client });
        guest.known.is_some()
    }

    fn left(&mut self, peer: Peer) {
        if let Some(guest) = self.all.remove(&peer) {
            self.server.leave(&guest.shared);
        }
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.all.values().for_each(|guest| self.server.leave(&guest.shared));
    }
}

/// Answers that wait for the log.
struct Unsafe {
    lsn: Lsn,
    to: To,
    given: Vec<Given>,
    has_run: u64,
    /// Since when it waits for replicas, if it does.
    since: Option<Instant>,
}

/// Where answers go.
enum To {
    Job(Job),
    Wait(Wait, Box<[u8]>),
}

/// A client that waits for a key.
struct Waiting {
    wait: Wait,
    watch: Watch,
    deadline: Duration,
    /// When it is looked at again at the latest.
    due: Duration,
}

/// The state of the thread.
struct Thread {
    server: Arc<Server>,
    index: usize,
    incarnation: Incarnation,
    messages: Messages<AnyEndpoint>,
    waker: Waker,
    executor: Executor,
    guests: Guests,
    /// Requests that must be run.
    jobs: Vec<Job>,
    /// Requests that are held back, in their order.
    held: Vec<Job>,
    unsafe_answers: Vec<Unsafe>,
    waits: Vec<Waiting>,
    /// How long the thread may sleep.
    rest: Duration,
    looked_at: Duration,
}

impl Thread {
    fn new(server: Arc<Server>, endpoint: AnyEndpoint, index: usize, seed: u64) -> Thread {
        let config = server.settings.config();
        let bounds = Bounds {
            sessions_max: config.maxclients,
            idle: config.fabric.idle,
            window: config.fabric.window,
            reply_bytes_max: config.fabric.reply_bytes_max,
        };
        let incarnation = server.replication.me().incarnation;
        let term = Term { incarnation, epoch: server.replication.told_epoch() };
        // The numbers of two threads never meet.
        let cache = ReplyCache::new(term, bounds, (index as u64 + 1) << 48);
        let local = address(&endpoint);
        let waker = endpoint.waker();
        let all = BTreeMap::new();
        let guests = Guests { server: server.clone(), index, local, waker: waker.clone(), all };
        Thread {
            executor: Executor::new(server.clone(), index, seed),
            server,
            index,
            incarnation,
            messages: Messages::new(endpoint, cache),
            waker,
            guests,
            jobs: Vec::new(),
            held: Vec::new(),
            unsafe_answers: Vec::new(),
            waits: Vec::new(),
            rest: Duration::ZERO,
            looked_at: Duration::ZERO,
        }
    }

    /// The time since the server's start.
    fn now(&self) -> Duration {
        clock::monotonic() - self.server.process.started
    }

    fn rest_at_most(&mut self, rest: Duration) {
        self.rest = self.rest.min(rest);
    }

    fn turn(&mut self) {
        let spin = self.server.settings.config().fabric.spin;
        self.messages.endpoint().wait(spin.min(self.rest), self.rest);
        self.rest = BEAT;
        let now = self.now();
        if now - self.looked_at >= BEAT {
            self.looked_at = now;
            self.look_after();
        }
        // Before anything is run.
        let epoch = self.server.replication.told_epoch();
        self.messages.begin(Term { incarnation: self.incarnation, epoch });
        self.messages.step(now, &mut self.guests, &mut self.jobs);
        let unix_ms = clock::unix_ms();
        for job in std::mem::take(&mut self.held) {
            // Its client may have given it up, and its term may be over.
            match self.messages.is_wanted(&job) {
                true => self.run(job, now, unix_ms),
                false => self.messages.give_up(job),
            }
        }
        for job in std::mem::take(&mut self.jobs) {
            self.run(job, now, unix_ms);
        }
        self.look_at_waits(now, unix_ms);
        self.send_safe();
    }

    /// What must be done now and then.
    fn look_after(&mut self) {
        self.server.threads[self.index].beats.beat(self.server.process.started);
        self.executor.collect();
        let config = self.server.settings.config();
        let greeting_max = match config.handshake_timeout_s {
            0 => Duration::MAX,
            seconds => Duration::from_secs(seconds),
        };
        let denial_delay = Duration::from_millis(config.auth_failure_delay_ms);
        self.messages.set_patience(Patience { greeting_max, denial_delay });
        let unread_max = match config.output_soft_s {
            0 => Duration::MAX,
            seconds => Duration::from_secs(seconds),
        };
        self.messages.endpoint().set_unread_max(unread_max);
        self.messages.sweep(self.looked_at);
        let is_killed = |guest: &Guest| guest.shared.signals() & KILLED != 0;
        let killed = self.guests.all.iter().filter(|(_, guest)| is_killed(guest));
        let killed: Vec<Peer> = killed.map(|(peer, _)| *peer).collect();
        killed.into_iter().for_each(|peer| self.send_away(peer));
    }

    fn send_away(&mut self, peer: Peer) {
        self.messages.send_away(peer);
        self.guests.left(peer);
    }

    fn run(&mut self, job: Job, now: Duration, unix_ms: u64) {
        let peer = job.peer();
        let Some(client) = self.guests.client(peer) else {
            return self.fail(job, "ERR the connection ended before the request was run");
        };
        let operations = self.messages.operations(&job);
        match self.executor.begin(client, operations.iter(), unix_ms) {
            Ok(()) => {}
            Err(Held::Back) => return self.hold(job),
            Err(Held::Gone) => {
                self.fail(job, "NOAUTH the user was removed or has lost a right");
                return self.send_away(peer);
            }
        }
        // ORDERING: Relaxed, shown to people and compared with the idle timeout.
        client.shared.active_at.store(unix_ms, Ordering::Relaxed);
        let operations = self.messages.operations(&job);
        let first = operations.iter().next().filter(|_| operations.len() == 1);
        let Some(limit_ms) = first.as_ref().and_then(Operation::wait_ms) else {
            let ran = self.executor.run(client, operations.iter(), unix_ms);
            return self.answer(To::Job(job), ran);
        };
        let first = first.expect("it has a limit");
        let window = self.server.settings.config().fabric.window as usize;
        if self.guests.all.get(&peer).is_some_and(|guest| guest.waits >= window) {
            return self.fail(job, TOO_MANY_WAITS);
        }
        let Some(client) = self.guests.client(peer) else {
            return self.fail(job, "ERR the connection ended before the request was run");
        };
        match self.executor.watch(client, &first, self.waker.clone(), unix_ms) {
            Ok(watch) => {
                let wait = self.messages.put_aside(job);
                let deadline = now.saturating_add(Duration::from_millis(limit_ms));
                self.guests.count_wait(peer, 1);
                self.waits.push(Waiting { wait, watch, deadline, due: now });
            }
            Err(ran) => self.answer(To::Job(job), ran),
        }
    }

    /// Holds a request back until the next turns.
    fn hold(&mut self, job: Job) {
        if self.held.len() >= self.server.settings.config().fabric.slots as usize {
            return self.fail(job, TOO_MANY_HELD);
        }
        let job = self.messages.hold(job);
        self.held.push(job);
        self.rest_at_most(HELD_PAUSE);
    }

    /// Answers a request that was not run.
    fn fail(&mut self, job: Job, why: &str) {
        let len = self.messages.operations(&job).len();
        let failed = || Given { status: Status::Failed, version: 0, value: why.into() };
        self.send(To::Job(job), &(0..len).map(|_| failed()).collect::<Vec<_>>());
    }

    /// Sends answers now, or once what they show is safe.
    fn answer(&mut self, to: To, ran: Ran) {
        match ran.logged.filter(|lsn| !self.server.has_reached(*lsn)) {
            None => self.send(to, &ran.given),
            Some(lsn) => {
                let awaits_replicas = self.server.persist.durability.awaits_replicas();
                let since = awaits_replicas.then(clock::monotonic);
                let Ran { given, has_run, .. } = ran;
                self.unsafe_answers.push(Unsafe { lsn, to, given, has_run, since });
            }
        }
    }

    fn send(&mut self, to: To, given: &[Given]) {
        match to {
            To::Job(job) => {
                let operations = self.messages.operations(&job).iter();
                let answers: Vec<Answer<'_>> =
                    operations.zip(given).map(|(one, given)| answer(one.key(), given)).collect();
                self.messages.finish(job, &answers);
            }
            To::Wait(wait, key) => {
                if let Some(given) = given.first() {
                    self.messages.answer(wait, &answer(&key, given));
                }
            }
        }
    }

    fn look_at_waits(&mut self, now: Duration, unix_ms: u64) {
        for mut waiting in std::mem::take(&mut self.waits) {
            if waiting.due > now && !waiting.watch.has_fired() {
                self.rest_at_most(waiting.due - now);
                self.waits.push(waiting);
                continue;
            }
            let peer = waiting.wait.peer();
            let client = self.guests.client(peer);
            let Some(client) = client.filter(|_| self.messages.is_awaited(&waiting.wait)) else {
                self.guests.count_wait(peer, -1);
                self.messages.give_up_wait(waiting.wait);
                continue;
            };
            // ORDERING: Relaxed, as in `run`. A client that waits is not idle.
            client.shared.active_at.store(unix_ms, Ordering::Relaxed);
            let until = match self.executor.poll_watch(client, &waiting.watch, unix_ms) {
                Ok(Waited::Ended(ran)) => {
                    let key = waiting.watch.key().into();
                    self.guests.count_wait(peer, -1);
                    self.answer(To::Wait(waiting.wait, key), ran);
                    continue;
                }
                Ok(Waited::Waiting(until)) => until,
                Err(_) => {
                    self.send_away(peer);
                    continue;
                }
            };
            if waiting.deadline <= now {
                self.end_wait(waiting, Status::TimedOut, "");
                continue;
            }
            let until = until.map_or(BEAT, |at| Duration::from_millis(at.saturating_sub(unix_ms)));
            waiting.due = waiting.deadline.min(now + until.min(BEAT));
            self.rest_at_most(waiting.due - now);
            self.waits.push(waiting);
        }
    }

    fn end_wait(&mut self, waiting: Waiting, status: Status, why: &str) {
        self.guests.count_wait(waiting.wait.peer(), -1);
        let given = Given { status, version: 0, value: why.into() };
        let key = waiting.watch.key().into();
        self.send(To::Wait(waiting.wait, key), &[given]);
    }

    /// Sends the answers whose records are as safe as the settings require.
    fn send_safe(&mut self) {
        for mut answers in std::mem::take(&mut self.unsafe_answers) {
            let error = match self.server.has_reached(answers.lsn) {
                true => None,
                false => match self.server.persist.durability.error_for(answers.lsn) {
                    Some(error) => Some(error),
                    None => {
                        self.unsafe_answers.push(answers);
                        continue;
                    }
                },
            };
            if let Some(since) = answers.since {
                let counters = &self.server.threads[self.index].counters;
                counters.replica_waits.add(1);
                counters.replica_wait_us.add(since.elapsed().as_micros() as u64);
            }
            let on_error = self.server.settings.config().log.on_error;
            if let Some(error) =
                error.filter(|error| error.of_replicas || on_error == OnError::Stop)
            {
                self.take_back(&mut answers, &durability::refusal(&error));
            }
            self.send(answers.to, &answers.given);
        }
        let first = self.unsafe_answers.iter().map(|answers| answers.lsn).min();
        let durability = &self.server.persist.durability;
        if first.is_some_and(|lsn| durability.poll_reached(lsn, &self.waker).is_ready()) {
            self.rest = Duration::ZERO;
        }
    }

    /// Replaces answers that may never become safe.
    fn take_back(&mut self, answers: &mut Unsafe, why: &str) {
        let Unsafe { to, given, has_run, .. } = answers;
        match to {
            To::Job(job) => take_back(self.messages.operations(job).iter(), given, *has_run, why),
            To::Wait(_, key) => {
                let read = Operation::Get { key };
                take_back([read].into_iter(), given, *has_run, why);
            }
        }
    }

    /// Runs what has arrived, and sends what becomes safe in time.
    fn finish(&mut self) {
        let end = self.now() + FINISH_MAX;
        loop {
            for waiting in std::mem::take(&mut self.waits) {
                self.end_wait(waiting, Status::Failed, "UNBLOCKED the server is shutting down");
            }
            self.rest = Duration::ZERO;
            self.turn();
            let is_safe = self.unsafe_answers.is_empty() && self.waits.is_empty();
            // What is held back was not run, and its client sees the end of the connection.
            if is_safe && self.messages.has_sent_all() || self.now() >= end {
                return;
            }
        }
    }
}

/// The answer for a key.
fn answer<'a>(key: &[u8], given: &'a Given) -> Answer<'a> {
    Answer::new(key, given.status, given.version, &given.value)
}
