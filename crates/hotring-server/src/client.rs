//! One connection's identity and state, split by who may touch it.
//!
//! [`Client`] belongs to the connection's task. [`ClientShared`] is what any thread may look at
//! (CLIENT LIST) or ask for (CLIENT KILL); the task publishes into it with relaxed stores.

use std::borrow::Cow;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Duration;

use hotring_protocol::{ArgsView, CommandId, Spec, Version, Writer};
use hotring_store::{Stamp, Watch};

use crate::acl::{Access, Acl};
use crate::clock;
use crate::config::Config;
use crate::pubsub::Kind;
use crate::subscriptions::Subscriptions;
use crate::tracking;
use crate::transaction::{Queue, Queued, Transaction};

/// Unsent bytes above which a connection is not read from that has yet to authenticate.
const LOCKED_OUTPUT_MAX: usize = 4 << 10;

/// What a connection's own task knows about it.
#[derive(Debug)]
pub(crate) struct Client {
    /// What other threads may see.
    pub shared: Arc<ClientShared>,
    /// RESP2 or RESP3, as HELLO chose.
    pub version: Version,
    /// Who it is and what it may do.
    access: Access,
    /// How long it is to be held back, because it has given a wrong password.
    pub penalty: Duration,
    /// The last command, published once a batch.
    pub last: Option<CommandId>,
    /// Set when the connection has to end after the replies that are already written.
    pub closing: Option<Closing>,
    /// What the last command waits for; the next one runs after its reply.
    wait: Option<Wait>,
    /// MULTI and WATCH.
    pub transaction: Transaction,
    /// What it listens to.
    pub subscriptions: Subscriptions,
    /// It is shown every request.
    pub monitors: bool,
    /// What it has asked for if it keeps copies of what it reads.
    tracking: Option<Box<tracking::Options>>,
    /// Why its requests are not just run: [`QUEUES`], [`LISTENS`], [`TRACKS`].
    special: u8,
}

/// There is an open transaction.
const QUEUES: u8 = 1;
/// It listens to channels.
const LISTENS: u8 = 2;
/// It keeps copies.
const TRACKS: u8 = 4;

/// A wait for a key.
#[derive(Debug)]
pub(crate) struct Wait {
    /// What is waited for.
    pub watch: Watch,
    /// How long at most; None for ever.
    pub limit: Option<Duration>,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The client asked for it, or has closed its side.
    Asked,
    /// What it sent is not the protocol.
    Protocol,
    /// It sent what a browser sends: somebody may be attacking through one.
    CrossProtocol,
    /// A reply would have become longer than may wait for it; nothing more is sent.
    OutputLimit,
    /// Its transaction is longer than a request may be; nothing more is sent.
    InputLimit,
    /// CLIENT KILL by itself, or the server ends.
    Killed,
}

impl Client {
    /// A fresh connection: RESP2, no name, the default user.
    pub(crate) fn new(shared: Arc<ClientShared>, acl: &Acl) -> Self {
        let client = Client {
            shared,
            version: Version::Resp2,
            access: Access::new(acl.default_user()),
            penalty: Duration::ZERO,
            last: None,
            closing: None,
            wait: None,
            transaction: Transaction::default(),
            subscriptions: Subscriptions::default(),
            monitors: false,
            tracking: None,
            special: 0,
        };
        client.publish_lock();
        client
    }

    /// Shows others whether its user has to authenticate.
    fn publish_lock(&self) {
        self.show_locked(self.access.is_locked());
    }

    /// Shows others whether it has to authenticate, from now on, by whatever its protocol has for that.
    pub(crate) fn show_locked(&self, is_locked: bool) {
        let since = if is_locked { clock::unix_ms() } else { 0 };
        // ORDERING: Relaxed, compared with a timeout.
        self.shared.locked_since.store(since, Ordering::Relaxed);
    }

    /// Whether each request is run as it comes, whatever it is, and nothing comes unasked.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.access.is_free() && self.special == 0
    }

    fn mark(&mut self, special: u8, is_so: bool) {
        self.special = if is_so { self.special | special } else { self.special & !special };
    }

    /// Who it is and what it may do.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Becomes another user, or the same one with other rights.
    pub(crate) fn become_user(&mut self, access: Access) {
        let name = String::from_utf8_lossy(&access.user().name).into_owned();
        self.shared.relabel(|labels| labels.user = name.into());
        self.access = access;
        self.publish_lock();
    }

    /// Looks for its user again, after a change. False, and it ends, if that user is gone, or may no longer
    /// listen to what it listens to.
    pub(crate) fn renew_access(&mut self, acl: &Acl) -> bool {
        // ORDERING: Acquire pairs with the Release in `users_changed`; before the look, so that a later
        // change is looked for again.
        self.shared.signals.fetch_and(!USERS_CHANGED, Ordering::Acquire);
        let renewed = acl.renew(&self.access, self.subscriptions.iter());
        let stays = renewed.is_some();
        match renewed {
            Some(access) => {
                let was_locked = self.access.is_locked();
                self.access = access;
                if self.access.is_locked() != was_locked {
                    self.publish_lock();
                }
            }
            None => {
                // The rest of its transaction may still run, with no rights of the user's.
                self.become_user(Access::unauthenticated(acl.default_user()));
                self.closing = Some(Closing::Killed);
            }
        }
        stays
    }

    /// Unsent bytes above which it is not read from: few as long as it has to say who it is, so that those
    /// who cannot do not make the server keep replies for them. `handshake-timeout` ends who fetches none.
    pub(crate) fn output_soft_max(&self, config: &Config) -> usize {
        // ORDERING: Relaxed, written by this thread.
        match self.shared.locked_since.load(Ordering::Relaxed) {
            0 => config.output_soft_max,
            _ => config.output_soft_max.min(LOCKED_OUTPUT_MAX),
        }
    }

    /// Whether it listens in RESP2 and may do little besides.
    pub(crate) fn is_confined(&self) -> bool {
        self.version == Version::Resp2 && self.subscriptions.len() > 0
    }

    /// Appends the messages that have come.
    pub(crate) fn fetch_messages(&self, out: &mut Vec<u8>) {
        if self.shared.signals() & MESSAGES != 0 {
            self.shared.fetch(out);
        }
    }

    /// Shows others how much it listens to. After every change of that.
    pub(crate) fn publish_subscriptions(&mut self) {
        self.mark(LISTENS, self.subscriptions.len() > 0);
        let [channels, patterns] =
            [Kind::Channel, Kind::Pattern].map(|kind| self.subscriptions.of(kind).len());
        self.shared.channels.store(channels, Ordering::Relaxed);
        self.shared.patterns.store(patterns, Ordering::Relaxed);
    }

    /// Puts a request into the transaction, if it is one that goes there.
    pub(crate) fn queue(
        &mut self,
        spec: &'static Spec,
        args: ArgsView<'_>,
        memory_max: usize,
    ) -> Queued {
        if !self.transaction.is_open() {
            return Queued::Runs;
        }
        let queued = self.transaction.queue_request(spec, args, memory_max);
        self.publish_transaction();
        queued
    }

    /// Ends the transaction and watches nothing any more; returns what was queued and watched.
    pub(crate) fn end_transaction(&mut self) -> (Option<Box<Queue>>, Vec<Stamp>) {
        let ended = self.transaction.take();
        self.publish_transaction();
        ended
    }

    /// Shows others how far the transaction is. After every change of that.
    pub(crate) fn publish_transaction(&mut self) {
        self.mark(QUEUES, self.transaction.is_open());
        let queue = self.transaction.queue();
        let queued = queue.map_or(-1, |queue| queue.len() as i64);
        self.shared.queued.store(queued, Ordering::Relaxed);
        let memory = queue.map_or(0, Queue::memory);
        self.shared.queued_len.store(memory, Ordering::Relaxed);
        self.shared.watched.store(self.transaction.watched.len(), Ordering::Relaxed);
    }

    /// What it has asked for if it keeps copies of what it reads.
    #[inline]
    pub(crate) fn tracking(&self) -> Option<&tracking::Options> {
        self.tracking.as_deref()
    }

    /// Keeps copies from now on, or none, and shows that to others.
    pub(crate) fn track(&mut self, options: Option<tracking::Options>) {
        self.mark(TRACKS, options.is_some());
        self.shared.show_tracking(options.as_ref());
        self.tracking = options.map(Box::new);
    }

    /// Makes the next request an exception to what is tracked.
    pub(crate) fn except_next(&mut self) {
        if let Some(tracking) = &mut self.tracking {
            tracking.caching = true;
        }
    }

    /// Notes that a request has been dealt with; None if it was no command. What CLIENT CACHING said was for
    /// this one, or for a transaction as a whole.
    pub(crate) fn end_request(&mut self, spec: Option<&Spec>) {
        let is_about_connection = spec.is_some_and(|spec| spec.parent == Some(CommandId::Client));
        if let Some(tracking) = &mut self.tracking
            && !is_about_connection
            && !self.transaction.is_open()
        {
            tracking.caching = false;
        }
    }

    /// What the last command waits for.
    #[inline]
    pub(crate) fn wait(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }

    /// Begins a wait; the command's reply comes when it ends.
    pub(crate) fn begin_wait(&mut self, wait: Wait) {
        self.wait = Some(wait);
        // ORDERING: Relaxed, a moment more or less of waiting does not matter.
        self.shared.waiting.store(true, Ordering::Relaxed);
    }

    /// Ends it at the Unix millisecond `now`.
    pub(crate) fn end_wait(&mut self, now: u64) {
        self.wait = None;
        // ORDERING: Relaxed, before the Release below.
        self.shared.active_at.store(now, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire of who closes idle connections: who sees the end of
        // the wait counts the idle time from there.
        self.shared.waiting.store(false, Ordering::Release);
    }

    /// Chooses the protocol version.
    pub(crate) fn speak(&mut self, version: Version) {
        self.version = version;
        self.shared.inbox().version = version;
        let number = if version == Version::Resp3 { 3 } else { 2 };
        // ORDERING: Relaxed here and for every other field of `ClientShared`: each is only shown to
        // people, and none guards other memory.
        self.shared.protocol.store(number, Ordering::Relaxed);
    }
}

/// What clients tell about themselves.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    /// The user that it has become.
    pub user: Cow<'static, str>,
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: String,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: String,
}

/// What any thread may know about a connection.
#[derive(Debug)]
pub(crate) struct ClientShared {
    /// Unique over the life of the process, from 1.
    pub id: u64,
    /// The other side's address.
    pub peer: String,
    /// Our address.
    pub local: String,
    /// Which thread serves it.
    pub thread: usize,
    /// Unix milliseconds of the accept.
    pub connected_at: u64,
    /// Unix milliseconds of the last bytes received.
    pub active_at: AtomicU64,
    /// The last command, as [`CommandId`]'s number plus one; 0 before the first.
    pub last_command: AtomicU16,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// Bytes of the unfinished request.
    pub input_len: AtomicUsize,
    /// Bytes reserved for it beyond these.
    pub input_free: AtomicUsize,
    /// Unix milliseconds since which an unfinished request is being waited for; 0 if none is.
    pub request_since: AtomicU64,
    /// Unix milliseconds since which it has to authenticate; 0 if it need not.
    pub locked_since: AtomicU64,
    /// Bytes that wait to be sent.
    pub unsent_len: AtomicUsize,
    /// Channels that it listens to.
    pub channels: AtomicUsize,
    /// Patterns that it listens to.
    pub patterns: AtomicUsize,
    /// Commands in its transaction, -1 if it has none.
    pub queued: AtomicI64,
    /// Bytes of memory that they take.
    pub queued_len: AtomicUsize,
    /// Keys that it watches.
    pub watched: AtomicUsize,
    /// It is shown every request.
    pub monitors: AtomicBool,
    /// The connection waits for a key.
    pub waiting: AtomicBool,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// [`TRACKING`], [`BROADCASTS`], [`BROKEN_REDIRECT`].
    pub tracking: AtomicU8,
    /// The connection that is told in its place: 0 if there is none, -1 if it keeps no copies.
    pub redirect: AtomicI64,
    has_left: AtomicBool,
    labels: Mutex<Labels>,
    /// [`KILLED`], [`MESSAGES`], [`OVERFLOWED`], [`USERS_CHANGED`].
    signals: AtomicU8,
    inbox: Mutex<Inbox>,
    waker: Mutex<Option<Waker>>,
}

/// CLIENT TRACKING ON.
pub(crate) const TRACKING: u8 = 1;
/// With BCAST.
pub(crate) const BROADCASTS: u8 = 2;
/// The connection has ended that should have been told in its place.
pub(crate) const BROKEN_REDIRECT: u8 = 4;

/// Somebody asked the connection to end.
pub(crate) const KILLED: u8 = 1;
/// There are messages in its inbox.
pub(crate) const MESSAGES: u8 = 2;
/// More messages came than may wait: the connection is to end.
pub(crate) const OVERFLOWED: u8 = 4;
/// Users have changed, and its own may be among them.
pub(crate) const USERS_CHANGED: u8 = 8;

/// Messages on their way to a connection, as they are to be sent.
#[derive(Debug, Default)]
struct Inbox {
    bytes: Vec<u8>,
    version: Version,
}

/// A key that the connection waits for has changed.
impl Wake for ClientShared {
    fn wake(self: Arc<Self>) {
        ClientShared::wake(&self);
    }
}

impl ClientShared {
    /// A connection that has just been accepted.
    pub(crate) fn new(id: u64, peer: String, local: String, thread: usize, now: u64) -> Self {
        ClientShared {
            id,
            peer,
            local,
            thread,
            connected_at: now,
            active_at: AtomicU64::new(now),
            last_command: AtomicU16::new(0),
            protocol: AtomicU8::new(2),
            input_len: AtomicUsize::new(0),
            input_free: AtomicUsize::new(0),
            request_since: AtomicU64::new(0),
            locked_since: AtomicU64::new(0),
            unsent_len: AtomicUsize::new(0),
            channels: AtomicUsize::new(0),
            patterns: AtomicUsize::new(0),
            queued: AtomicI64::new(-1),
            queued_len: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
            monitors: AtomicBool::new(false),
            waiting: AtomicBool::new(false),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            tracking: AtomicU8::new(0),
            redirect: AtomicI64::new(-1),
            has_left: AtomicBool::new(false),
            labels: Mutex::new(Labels {
                user: "default".into(),
                name: String::new(),
                lib_name: String::new(),
                lib_ver: String::new(),
            }),
            signals: AtomicU8::new(0),
            inbox: Mutex::default(),
            waker: Mutex::default(),
        }
    }

    /// What the client has told about itself.
    pub(crate) fn labels(&self) -> Labels {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes what the client has told about itself.
    pub(crate) fn relabel(&self, change: impl FnOnce(&mut Labels)) {
        change(&mut self.labels.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Remembers how to wake the connection's task.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let mut kept = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(waker.clone());
    }

    /// Wakes the connection's task so that it looks at its flags.
    pub(crate) fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Asks the connection to end, without sending what is still unsent.
    pub(crate) fn kill(&self) {
        // ORDERING: Release pairs with the Acquire in `signals`; the waker's own lock would do.
        self.signals.fetch_or(KILLED, Ordering::Release);
        self.wake();
    }

    /// Notes that the connection has ended.
    pub(crate) fn leave(&self) {
        // ORDERING: Relaxed, here and in `has_left`: who misses it leaves a message that nobody fetches.
        self.has_left.store(true, Ordering::Relaxed);
    }

    /// Whether the connection has ended.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Which version it speaks. A message in its inbox has to ask there.
    pub(crate) fn version(&self) -> Version {
        // ORDERING: Relaxed, as in `speak`.
        match self.protocol.load(Ordering::Relaxed) {
            3 => Version::Resp3,
            _ => Version::Resp2,
        }
    }

    /// Whether it listens to channels or patterns.
    pub(crate) fn listens(&self) -> bool {
        // ORDERING: Relaxed, two figures that are each published on their own.
        self.channels.load(Ordering::Relaxed) + self.patterns.load(Ordering::Relaxed) > 0
    }

    fn show_tracking(&self, options: Option<&tracking::Options>) {
        let broadcasts = |options: &tracking::Options| options.mode == tracking::Mode::Broadcast;
        let broadcasts = if options.is_some_and(broadcasts) { BROADCASTS } else { 0 };
        let flags = if options.is_some() { TRACKING | broadcasts } else { 0 };
        let redirect = options.map_or(-1, |options| options.redirect.unwrap_or(0) as i64);
        // ORDERING: Relaxed, shown to people.
        self.tracking.store(flags, Ordering::Relaxed);
        self.redirect.store(redirect, Ordering::Relaxed);
    }

    /// Notes that the connection has ended that should have been told in its place.
    pub(crate) fn note_broken_redirect(&self) {
        // ORDERING: Relaxed, shown to people.
        self.tracking.fetch_or(BROKEN_REDIRECT, Ordering::Relaxed);
    }

    /// Bytes that its buffers take.
    pub(crate) fn buffers_memory(&self) -> usize {
        let fields = [&self.input_len, &self.input_free, &self.queued_len, &self.unsent_len];
        // ORDERING: Relaxed, each is published on its own, and the sum is compared with a limit.
        let own: usize = fields.iter().map(|field| field.load(Ordering::Relaxed)).sum();
        own + self.inbox().bytes.capacity()
    }

    /// Tells the connection that users have changed.
    pub(crate) fn users_changed(&self) {
        // ORDERING: Release pairs with the Acquire in `signals`: who sees it finds the users as changed.
        self.signals.fetch_or(USERS_CHANGED, Ordering::Release);
        self.wake();
    }

    /// What others want of the connection: [`KILLED`], [`MESSAGES`], [`OVERFLOWED`], [`USERS_CHANGED`].
    #[inline]
    pub(crate) fn signals(&self) -> u8 {
        // ORDERING: Acquire pairs with the Release in `kill` and `users_changed`.
        self.signals.load(Ordering::Acquire)
    }

    /// Puts a message that `write` writes into the inbox, unless more than `max` bytes wait to be sent
    /// then, or 0: then the connection is to end.
    pub(crate) fn deliver(&self, max: usize, write: impl FnOnce(&mut Writer<'_>)) {
        let mut inbox = self.inbox();
        // ORDERING: Relaxed, here and below: the lock of the inbox orders what is in it, that of the waker
        // the mark before the look for it.
        if self.signals.load(Ordering::Relaxed) & OVERFLOWED != 0 {
            return;
        }
        let version = inbox.version;
        write(&mut Writer::new(&mut inbox.bytes, version));
        // ORDERING: Relaxed, a limit need not be exact while the other side is sending.
        let waiting = inbox.bytes.len() + self.unsent_len.load(Ordering::Relaxed);
        let signal = if max > 0 && waiting > max { OVERFLOWED } else { MESSAGES };
        if signal == OVERFLOWED {
            inbox.bytes = Vec::new();
        }
        let before = self.signals.fetch_or(signal, Ordering::Relaxed);
        drop(inbox);
        if before & signal == 0 {
            self.wake();
        }
    }

    /// Moves what is in the inbox to `out`. Not while users have changed: it may have come after the change,
    /// and be no longer for this one.
    pub(crate) fn fetch(&self, out: &mut Vec<u8>) {
        let mut inbox = self.inbox();
        // ORDERING: Relaxed, here and below, under the lock of the inbox: who put a message there after the
        // change's reply has made the mark of the change visible with it.
        if self.signals.load(Ordering::Relaxed) & USERS_CHANGED != 0 {
            return;
        }
        self.signals.fetch_and(!MESSAGES, Ordering::Relaxed);
        let bytes = std::mem::take(&mut inbox.bytes);
        if out.is_empty() {
            *out = bytes;
        } else {
            out.extend_from_slice(&bytes);
        }
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // A message that was written in half by a panic is not to be sent, but nothing panics there.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the last command of a batch.
    #[inline]
    pub(crate) fn ran(&self, id: CommandId) {
        self.last_command.store(id as u16 + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that was published after the reply to a change of users once came to a connection that was no
    /// longer to get it.
    #[test]
    fn no_message_is_taken_before_a_change_of_users_is_looked_at() {
        let acl = Acl::new(&Default::default());
        let shared = Arc::new(ClientShared::new(1, String::new(), String::new(), 0, 0));
        let mut client = Client::new(shared.clone(), &acl);
        let mut out = Vec::new();
        shared.users_changed();
        shared.deliver(0, |message| message.simple("news"));
        shared.fetch(&mut out);
        assert!(out.is_empty() && shared.signals() == MESSAGES | USERS_CHANGED);
        assert!(client.renew_access(&acl));
        shared.fetch(&mut out);
        assert_eq!((out.as_slice(), shared.signals()), (&b"+news\r\n"[..], 0));
    }
}
