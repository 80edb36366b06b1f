//! The state of a connection, split by the threads that may touch it.
//!
//! [`Client`] belongs to the connection's task. Any thread may read [`ClientShared`] (CLIENT LIST) or signal through it
//! (CLIENT KILL); the task publishes into it with relaxed stores. [`Clients`] is the list of all connections.

mod inbox;
mod list;
mod shared;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_log::Lsn;
use hotring_protocol::{ArgsView, Version};
use hotring_store::{KeyState, Place, Watch};

use crate::acl::ChannelKind;
use crate::acl::{Access, Acl};
use crate::host::clock;
use crate::settings::config::Config;
use crate::state::blocked::Blocked;
use crate::state::pause::Paused;
use crate::state::subscriptions::{Subscriptions, is_confirmed};
use crate::state::tracking;
use crate::state::transaction::{Queue, Queued, Transaction};
use crate::table::{CommandId, Flags, Spec};

pub use inbox::Inboxes;
pub use list::Clients;
pub use shared::{
    BROADCASTS, BROKEN_REDIRECT, ClientShared, KILLED, Labels, MESSAGES, OVERFLOWED, TRACKING,
    USERS_CHANGED, Unblocked,
};
use shared::{PAUSED, RUNS, WAITS, unblocked};

/// Unsent bytes above which a connection that has not authenticated is not read.
const LOCKED_OUTPUT_MAX: usize = 4 << 10;

/// The state that only the connection's task touches.
#[derive(Debug)]
pub struct Client {
    /// The part that other threads may read.
    pub shared: Arc<ClientShared>,
    /// RESP2 or RESP3, as chosen by HELLO.
    pub version: Version,
    /// The selected database.
    pub database: u8,
    /// The user and its rights.
    access: Access,
    /// The delay after a wrong password.
    pub penalty: Duration,
    /// The last command, published once a batch.
    pub last: Option<CommandId>,
    /// Set when the connection must end once the written replies are sent.
    pub closing: Option<Closing>,
    /// The wait of the last command. The next command must not run before its reply.
    wait: Option<Wait>,
    /// The next request has waited outside the gate for a slow script, and must not do so again.
    pub(crate) has_waited_for_script: bool,
    /// MULTI and WATCH.
    pub transaction: Transaction,
    /// Its subscriptions.
    pub subscriptions: Subscriptions,
    /// The connection is a monitor.
    pub monitors: bool,
    /// The options of CLIENT TRACKING, if the client caches its reads.
    tracking: Option<Box<tracking::Options>>,
    /// The mode of CLIENT REPLY.
    replies: Replies,
    /// Bytes of messages sent before the reply to this request.
    before_len: usize,
    /// The messages before the reply of the transaction that runs.
    before: Option<Before>,
    /// A script of the client runs commands.
    pub(crate) runs_script: bool,
    /// Reasons to check each request before it runs: [`QUEUES`], [`LISTENS`], [`TRACKS`], [`MUTES`].
    special: u8,
}

/// Memory of a name beyond its bytes, which are in two lists: the nodes of both, and the allocator's overhead.
const NAME_MEMORY: usize = 160;

/// A transaction is open.
const QUEUES: u8 = 1;
/// The connection has subscriptions.
const LISTENS: u8 = 2;
/// The client caches its reads.
const TRACKS: u8 = 4;
/// CLIENT REPLY drops replies.
const MUTES: u8 = 8;

/// Messages to send before the reply of a transaction.
#[derive(Debug)]
struct Before {
    messages: Vec<u8>,
    /// The connection had subscriptions when the transaction began.
    listened: bool,
    /// The protocol version at that time, which the reply has.
    version: Version,
}

/// The mode of CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    All,
    None,
    /// Drop the reply to the next request.
    AllButNext,
    /// Drop the reply to this request.
    AllButThis,
}

/// A wait: the connection must not run its next request before the end.
#[derive(Debug)]
pub enum Wait {
    /// The last request waits for a key.
    Key {
        /// The watch on the key.
        watch: Watch,
        /// The time limit; None for ever.
        limit: Option<Duration>,
    },
    /// The last request waits for an element of a key.
    Element {
        /// The client, as shown to those that serve it.
        blocked: Arc<Blocked>,
        /// Its place in the lines; None once an element is on its way.
        place: Option<Place>,
        /// The time limit; None for ever.
        limit: Option<Duration>,
    },
    /// The next request waits for the end of a CLIENT PAUSE. It has not begun.
    Pause {
        /// Its end in Unix milliseconds.
        until: u64,
        /// The requests that the pause holds back.
        paused: Paused,
    },
    /// The next request waits for space in the log's queue. It has not begun.
    Log,
    /// The next request waits for the end of a slow script that holds its keys. It has not begun.
    Script {
        /// A key that the script holds; None if the request needs all keys.
        key: Option<Box<[u8]>>,
        /// The start of the hold.
        since_ms: u64,
    },
    /// The last request waits until the log is synced up to a record.
    Synced {
        /// The record.
        lsn: Lsn,
        /// The time limit; None for ever.
        limit: Option<Duration>,
    },
    /// The last request waits for a snapshot.
    Save {
        /// Its number.
        number: u64,
        /// The server must end afterwards.
        ends: bool,
    },
}

/// The reason why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The client asked for it, or has closed its side.
    Asked,
    /// The input is not the protocol.
    Protocol,
    /// The input is a browser's: an attacker may be using one.
    CrossProtocol,
    /// A reply would exceed the output limit; nothing more is sent.
    OutputLimit,
    /// The transaction exceeds the limit of a request; nothing more is sent.
    InputLimit,
    /// The client has killed itself (CLIENT KILL), or the server ends.
    Killed,
}

impl Client {
    /// A fresh connection: RESP2, no name, the default user.
    pub fn new(shared: Arc<ClientShared>, acl: &Acl) -> Self {
        let client = Client {
            shared,
            version: Version::Resp2,
            database: 0,
            access: Access::new(acl.default_user()),
            penalty: Duration::ZERO,
            last: None,
            closing: None,
            wait: None,
            has_waited_for_script: false,
            transaction: Transaction::default(),
            subscriptions: Subscriptions::default(),
            monitors: false,
            tracking: None,
            replies: Replies::All,
            before_len: 0,
            before: None,
            runs_script: false,
            special: 0,
        };
        client.publish_lock();
        client
    }

    /// Selects a database for the requests from now on; the store's session has to follow.
    pub(crate) fn select(&mut self, number: u8) {
        self.database = number;
        // ORDERING: Relaxed, a figure for people.
        self.shared.database.store(number, std::sync::atomic::Ordering::Relaxed);
    }

    /// Publishes whether the user must authenticate.
    fn publish_lock(&self) {
        self.show_locked(self.access.is_locked());
    }

    /// Publishes whether the client must authenticate, in the way of its protocol.
    pub(crate) fn show_locked(&self, is_locked: bool) {
        let since = if is_locked { clock::unix_ms() } else { 0 };
        // ORDERING: Relaxed, compared with a timeout.
        self.shared.locked_since.store(since, Ordering::Relaxed);
    }

    /// Whether requests need no checks before they run, and no messages arrive.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.access.is_free() && self.special == 0
    }

    fn mark(&mut self, special: u8, is_so: bool) {
        self.special = if is_so { self.special | special } else { self.special & !special };
    }

    /// Whether the requests behind the last one must not run now.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.closing.is_some() || self.wait.is_some()
    }

    /// The user and its rights.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Changes the user or its rights.
    pub(crate) fn become_user(&mut self, access: Access) {
        let name = String::from_utf8_lossy(&access.user().name).into_owned();
        self.shared.relabel(|labels| labels.user = name.into());
        self.access = access;
        self.publish_lock();
    }

    /// Looks up the user again after a change of users. If the user is gone, or has lost the right to a subscription,
    /// the connection ends and this returns false.
    pub fn renew_access(&mut self, acl: &Acl) -> bool {
        // ORDERING: Acquire pairs with the Release in `users_changed`; before the lookup, so that a later
        // change causes another lookup.
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
                // The rest of the transaction may still run, without the user's rights.
                self.become_user(Access::unauthenticated(acl.default_user()));
                self.closing = Some(Closing::Killed);
            }
        }
        stays
    }

    /// Unsent bytes above which the connection is not read. Few before authentication: clients that cannot authenticate
    /// must not make the server keep replies. `handshake-timeout` ends those that read none.
    pub fn output_soft_max(&self, config: &Config) -> usize {
        // ORDERING: Relaxed, written by this thread.
        match self.shared.locked_since.load(Ordering::Relaxed) {
            0 => config.output_soft_max,
            _ => config.output_soft_max.min(LOCKED_OUTPUT_MAX),
        }
    }

    /// Whether the connection is in RESP2 with subscriptions, where only a few commands are allowed.
    pub(crate) fn is_confined(&self) -> bool {
        self.version == Version::Resp2 && self.subscriptions.len() > 0
    }

    /// Appends the messages that have arrived.
    pub(crate) fn fetch_messages(&self, out: &mut Vec<u8>) {
        // A connection that is being closed may have lost the right to them.
        if self.shared.signals() & MESSAGES != 0 && self.closing.is_none() {
            self.shared.fetch(out);
        }
    }

    /// Publishes the number of subscriptions. Must follow each change of them.
    pub(crate) fn publish_subscriptions(&mut self) {
        let listens = self.subscriptions.len() > 0;
        self.mark(LISTENS, listens);
        self.shared.show_listens(listens);
        for kind in ChannelKind::ALL {
            let shown = match kind {
                ChannelKind::Channel => &self.shared.channels,
                ChannelKind::Pattern => &self.shared.patterns,
                ChannelKind::Shard => &self.shared.shards,
            };
            shown.store(self.subscriptions.of(kind).len(), Ordering::Relaxed);
        }
        self.publish_names();
    }

    /// Publishes the memory of its names.
    fn publish_names(&self) {
        let prefixes = self.tracking().into_iter().flat_map(|options| &options.prefixes);
        let others = prefixes.map(|prefix| prefix.len());
        let others = others.chain(self.transaction.watched.iter().map(|stamp| stamp.key().len()));
        let (names, len) = others.fold(
            (self.subscriptions.len(), self.subscriptions.names_len()),
            |(names, sum), len| (names + 1, sum + len),
        );
        // ORDERING: Relaxed, a figure.
        self.shared.names_memory.store(names * NAME_MEMORY + 2 * len, Ordering::Relaxed);
    }

    /// Moves the messages that have arrived before the reply, which has not begun: a subscription or tracking has
    /// ended, and none of its messages may follow the reply. Must be called before the subscriptions are forgotten,
    /// because users may have changed.
    pub(crate) fn end_messages(&mut self, listens: bool, acl: &Acl, out: &mut Vec<u8>) {
        let mut messages = Vec::new();
        while !self.shared.end_messages(listens, &mut messages) {
            if !self.renew_access(acl) {
                return;
            }
        }
        self.put_before(&messages, out);
    }

    /// Puts messages before the reply, which has not begun, or before the reply of the whole transaction.
    fn put_before(&mut self, messages: &[u8], out: &mut Vec<u8>) {
        match &mut self.before {
            // A client that does not know yet of its subscription or of the new version would take a message
            // for a reply.
            Some(before) if before.version != self.version => {}
            Some(before) if self.version == Version::Resp2 && !before.listened => {}
            Some(before) => before.messages.extend_from_slice(messages),
            None => {
                out.extend_from_slice(messages);
                self.before_len += messages.len();
            }
        }
    }

    /// Begins to run a transaction.
    pub(crate) fn begin_exec(&mut self) {
        let listened = self.subscriptions.len() > 0;
        self.before = Some(Before { messages: Vec::new(), listened, version: self.version });
    }

    /// Whether a command may wait: within a transaction or a script none does.
    pub(crate) fn may_wait(&self) -> bool {
        self.before.is_none() && !self.runs_script
    }

    /// Limits the bytes of messages before a transaction's reply; drops them and returns false if there are too many.
    pub(crate) fn check_before(&mut self, len_max: usize) -> bool {
        let Some(before) = &mut self.before else { return true };
        let fits = before.messages.len() <= len_max;
        if !fits {
            before.messages = Vec::new();
        }
        fits
    }

    /// Ends the run of a transaction, whose reply is `out[start..]`.
    pub(crate) fn end_exec(&mut self, start: usize, out: &mut Vec<u8>) {
        let messages = self.before.take().map(|before| before.messages).unwrap_or_default();
        self.before_len += messages.len();
        drop(out.splice(start..start, messages));
    }

    /// Queues a request if a transaction is open and the request belongs there.
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

    /// Whether a request may write or publish, itself or through a transaction or script.
    pub(crate) fn may_write(&self, spec: &Spec) -> bool {
        let writes = |spec: &Spec| {
            use CommandId as Id;
            spec.flags.contains(Flags::WRITE)
                || matches!(spec.id, Id::Publish | Id::Eval | Id::EvalSha)
        };
        let queued = self.transaction.queue().filter(|_| spec.id == CommandId::Exec);
        writes(spec) || queued.is_some_and(|queue| queue.commands().any(|(spec, _)| writes(spec)))
    }

    /// Ends the transaction and all watches; returns the queue and the watched keys.
    pub fn end_transaction(&mut self) -> (Option<Box<Queue>>, Vec<Arc<KeyState>>) {
        let ended = self.transaction.take();
        self.publish_transaction();
        if !ended.1.is_empty() {
            self.publish_watched();
        }
        ended
    }

    /// Publishes the watched keys.
    pub(crate) fn publish_watched(&self) {
        self.shared.show_watched(&self.transaction.watched);
        self.publish_names();
    }

    /// Publishes the length of the transaction. Must follow each change of it.
    pub(crate) fn publish_transaction(&mut self) {
        self.mark(QUEUES, self.transaction.is_open());
        let queue = self.transaction.queue();
        let queued = queue.map_or(-1, |queue| queue.len() as i64);
        self.shared.queued.store(queued, Ordering::Relaxed);
        let memory = queue.map_or(0, Queue::memory);
        self.shared.queued_len.store(memory, Ordering::Relaxed);
    }

    /// The options of CLIENT TRACKING, if the client caches its reads.
    #[inline]
    pub(crate) fn tracking(&self) -> Option<&tracking::Options> {
        self.tracking.as_deref()
    }

    /// The same, mutable.
    #[inline]
    pub(crate) fn tracking_mut(&mut self) -> Option<&mut tracking::Options> {
        self.tracking.as_deref_mut()
    }

    /// Begins or ends tracking, and publishes that.
    pub(crate) fn track(&mut self, options: Option<tracking::Options>) {
        self.mark(TRACKS, options.is_some());
        self.shared.show_tracking(options.as_ref());
        self.tracking = options.map(Box::new);
        self.publish_names();
    }

    /// Sets the mode of CLIENT REPLY.
    pub(crate) fn want_replies(&mut self, replies: Replies) {
        self.mark(MUTES, replies != Replies::All);
        self.replies = replies;
    }

    /// The mode of CLIENT REPLY.
    pub(crate) fn replies(&self) -> Replies {
        self.replies
    }

    /// Begins a request.
    pub(crate) fn begin_request(&mut self) {
        self.before_len = 0;
        self.has_waited_for_script = false;
        if self.replies == Replies::AllButNext {
            self.replies = Replies::AllButThis;
        }
    }

    /// Ends a request, unless it waits; `spec` is None if it was no command. Its reply is in `out[start..]`, behind
    /// messages. A reply that is not wanted is dropped; messages and confirmations of subscriptions stay.
    pub(crate) fn end_request(&mut self, spec: Option<&Spec>, start: usize, out: &mut Vec<u8>) {
        if self.wait.is_some() {
            return;
        }
        self.end_caching(spec);
        let start = start + self.before_len;
        let is_confirmed = spec.is_some_and(|spec| is_confirmed(spec.id));
        // Otherwise the reply is an error or QUEUED.
        let comes_anyway = is_confirmed && matches!(out.get(start), Some(b'>' | b'*'));
        if self.replies != Replies::All && !comes_anyway {
            out.truncate(start);
        }
        if self.replies == Replies::AllButThis {
            self.want_replies(Replies::All);
        }
    }

    /// CLIENT CACHING applies to this request, or to a whole transaction.
    fn end_caching(&mut self, spec: Option<&Spec>) {
        let is_about_connection = spec.is_some_and(|spec| spec.parent == Some(CommandId::Client));
        if let Some(tracking) = &mut self.tracking
            && !is_about_connection
            && !self.transaction.is_open()
        {
            tracking.caching = false;
        }
    }

    /// The wait of the last command.
    #[inline]
    pub fn wait(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }

    /// Begins a wait; the command's reply comes when it ends.
    pub fn begin_wait(&mut self, wait: Wait) {
        let waiting = match wait {
            // It has begun already, and may be over.
            Wait::Element { .. } => return self.wait = Some(wait),
            Wait::Key { .. } => WAITS,
            Wait::Pause { .. }
            | Wait::Log
            | Wait::Script { .. }
            | Wait::Synced { .. }
            | Wait::Save { .. } => PAUSED,
        };
        self.wait = Some(wait);
        // ORDERING: Release pairs with the Acquire in `is_waiting`: a thread that sees the wait finds its place in the
        // queue of its key.
        self.shared.waiting.store(waiting, Ordering::Release);
    }

    /// Ends the wait at the Unix millisecond `now`. Returns how another thread has ended it, if one has: its client
    /// relies on that.
    pub fn end_wait(&mut self, now: u64) -> Option<Unblocked> {
        self.wait = None;
        self.publish_transaction();
        // ORDERING: Relaxed, before the Release below.
        self.shared.active_at.store(now, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire of the task that closes idle connections: if it sees the end of
        // the wait, it counts the idle time from there.
        unblocked(self.shared.waiting.swap(RUNS, Ordering::Release))
    }

    /// Sets the protocol version. Messages that have arrived are in the previous version and go before the reply.
    pub(crate) fn speak(&mut self, version: Version, acl: &Acl, out: &mut Vec<u8>) {
        if version != self.version {
            let mut messages = Vec::new();
            while !self.shared.change_version(version, &mut messages) {
                if !self.renew_access(acl) {
                    return;
                }
            }
            self.put_before(&messages, out);
        }
        self.version = version;
        let number = if version == Version::Resp3 { 3 } else { 2 };
        // ORDERING: Relaxed here and for every other field of `ClientShared`: each is only shown to
        // people, and none guards other memory.
        self.shared.protocol.store(number, Ordering::Relaxed);
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

    #[test]
    fn a_wait_ends_in_one_way() {
        let shared = || {
            let shared = ClientShared::new(1, String::new(), String::new(), 0, 0);
            shared.waiting.store(WAITS, Ordering::Relaxed);
            shared
        };
        let client = shared();
        assert!(client.claim() && !client.claim(), "there is one element for it");
        assert!(!client.end_own_wait(), "the element is on its way");
        assert!(!client.unblock(Unblocked::Failed) && client.unblocked().is_none());
        assert!(!client.is_blocked());
        let client = shared();
        assert!(client.end_own_wait() && !client.claim() && !client.unblock(Unblocked::TimedOut));
        let client = shared();
        assert!(client.unblock(Unblocked::TimedOut) && !client.claim());
        assert!(client.end_own_wait() && client.unblocked() == Some(Unblocked::TimedOut));
        let client = shared();
        client.kill();
        assert!(!client.claim(), "nothing goes to it from now on");
    }

    /// The messages that each UNSUBSCRIBE of a transaction takes out of the inbox were once bounded by nothing.
    #[test]
    fn what_comes_before_the_reply_of_a_transaction_is_bounded_and_in_its_version() {
        let acl = Acl::new(&Default::default());
        let shared = Arc::new(ClientShared::new(1, String::new(), String::new(), 0, 0));
        let mut client = Client::new(shared.clone(), &acl);
        let mut out = Vec::new();
        client.speak(Version::Resp3, &acl, &mut out);
        let end = |client: &mut Client, out: &mut Vec<u8>| {
            shared.deliver(0, |message| message.simple("news"));
            client.end_messages(false, &acl, out);
        };
        client.begin_exec();
        end(&mut client, &mut out);
        assert!(client.check_before(7) && !client.check_before(6));
        end(&mut client, &mut out);
        client.speak(Version::Resp2, &acl, &mut out);
        end(&mut client, &mut out);
        client.end_exec(0, &mut out);
        assert_eq!(
            out, b"+news\r\n",
            "what was too much is forgotten, and what is in another version"
        );
        // A connection that is being closed may have lost the right to the messages.
        shared.deliver(0, |message| message.simple("news"));
        client.closing = Some(Closing::Killed);
        client.fetch_messages(&mut out);
        assert_eq!(out, b"+news\r\n");
    }
}
