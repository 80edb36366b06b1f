//! One connection's identity and state, split by the threads that may touch it.
//!
//! [`Client`] belongs to the connection's task. [`ClientShared`] is what any thread may look at
//! (CLIENT LIST) or ask for (CLIENT KILL); the task publishes into it with relaxed stores.

mod inbox;
mod list;
mod shared;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_log::Lsn;
use hotring_protocol::{ArgsView, Version};
use hotring_store::{Stamp, Watch};

use crate::acl::ChannelKind;
use crate::acl::{Access, Acl};
use crate::host::clock;
use crate::settings::config::Config;
use crate::state::pause::Paused;
use crate::state::subscriptions::Subscriptions;
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

/// Unsent bytes above which a connection is not read from that has yet to authenticate.
const LOCKED_OUTPUT_MAX: usize = 4 << 10;

/// What a connection's own task knows about it.
#[derive(Debug)]
pub struct Client {
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
    /// The next request has waited outside the gate for a slow script, and must not do so again.
    pub(crate) has_waited_for_script: bool,
    /// MULTI and WATCH.
    pub transaction: Transaction,
    /// What it listens to.
    pub subscriptions: Subscriptions,
    /// It is shown every request.
    pub monitors: bool,
    /// What it has asked for if it keeps copies of what it reads.
    tracking: Option<Box<tracking::Options>>,
    /// Which replies it wants.
    replies: Replies,
    /// Bytes of messages that went before the reply of this request.
    before_len: usize,
    /// What goes before the reply of a transaction that is being run.
    before: Option<Before>,
    /// Why its requests are not just run: [`QUEUES`], [`LISTENS`], [`TRACKS`], [`MUTES`].
    special: u8,
}

/// What a name takes besides its own bytes, which are in two lists: nodes of both, and what the allocator adds.
const NAME_MEMORY: usize = 160;

/// There is an open transaction.
const QUEUES: u8 = 1;
/// It listens to channels.
const LISTENS: u8 = 2;
/// It keeps copies.
const TRACKS: u8 = 4;
/// It does not want all replies.
const MUTES: u8 = 8;

/// Messages that go before the reply of a transaction.
#[derive(Debug)]
struct Before {
    messages: Vec<u8>,
    /// It listened when the transaction began.
    listened: bool,
    /// The version of then, in which its reply is.
    version: Version,
}

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Replies {
    #[default]
    All,
    None,
    /// All but the one to the next request.
    AllButNext,
    /// All but the one to this request.
    AllButThis,
}

/// What keeps a connection from running its next request.
#[derive(Debug)]
pub enum Wait {
    /// The last one waits for a key.
    Key {
        /// What is waited for.
        watch: Watch,
        /// How long at most; None for ever.
        limit: Option<Duration>,
    },
    /// CLIENT PAUSE. The next one has not begun.
    Pause {
        /// Its end in Unix milliseconds.
        until: u64,
        /// What waits for that.
        paused: Paused,
    },
    /// Room in the log's queue. The next one has not begun.
    Log,
    /// The end of a slow script that holds what the next one needs. The next one has not begun.
    Script {
        /// A key that the script holds; None if the next one needs all of them.
        key: Option<Box<[u8]>>,
        /// Since when it holds it.
        since_ms: u64,
    },
    /// The last one waits until the log is synced up to a record.
    Synced {
        /// Which one.
        lsn: Lsn,
        /// How long at most; None for ever.
        limit: Option<Duration>,
    },
    /// The last one waits for a snapshot.
    Save {
        /// Which one.
        number: u64,
        /// The server is to end then.
        ends: bool,
    },
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The client asked for it, or has closed its side.
    Asked,
    /// What it sent is not the protocol.
    Protocol,
    /// It sent what a browser sends: an attacker may be using one.
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
    pub fn new(shared: Arc<ClientShared>, acl: &Acl) -> Self {
        let client = Client {
            shared,
            version: Version::Resp2,
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

    /// Whether the requests behind the last one are not to run now.
    #[inline]
    pub(crate) fn is_interrupted(&self) -> bool {
        self.closing.is_some() || self.wait.is_some()
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
    pub fn renew_access(&mut self, acl: &Acl) -> bool {
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
    pub fn output_soft_max(&self, config: &Config) -> usize {
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
        // Who is to be closed may have lost the right to them.
        if self.shared.signals() & MESSAGES != 0 && self.closing.is_none() {
            self.shared.fetch(out);
        }
    }

    /// Shows others how much it listens to. After every change of that.
    pub(crate) fn publish_subscriptions(&mut self) {
        let listens = self.subscriptions.len() > 0;
        self.mark(LISTENS, listens);
        self.shared.show_listens(listens);
        let [channels, patterns] = [ChannelKind::Channel, ChannelKind::Pattern]
            .map(|kind| self.subscriptions.of(kind).len());
        self.shared.channels.store(channels, Ordering::Relaxed);
        self.shared.patterns.store(patterns, Ordering::Relaxed);
        self.publish_names();
    }

    /// Shows others what its names take.
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

    /// Moves the messages that have come to before the reply, which has not begun: something has ended that they are
    /// of, and behind the reply nothing of it is to come. Before it is forgotten what that was, as users may have
    /// changed.
    pub(crate) fn end_messages(&mut self, listens: bool, acl: &Acl, out: &mut Vec<u8>) {
        let mut messages = Vec::new();
        while !self.shared.end_messages(listens, &mut messages) {
            if !self.renew_access(acl) {
                return;
            }
        }
        self.put_before(&messages, out);
    }

    /// Puts messages before the reply, which has not begun, or is that of the whole transaction.
    fn put_before(&mut self, messages: &[u8], out: &mut Vec<u8>) {
        match &mut self.before {
            // Who has not been told yet that it listens, or that the version is another one, would take a
            // message for a reply.
            Some(before) if before.version != self.version => {}
            Some(before) if self.version == Version::Resp2 && !before.listened => {}
            Some(before) => before.messages.extend_from_slice(messages),
            None => {
                out.extend_from_slice(messages);
                self.before_len += messages.len();
            }
        }
    }

    /// Notes that a transaction is run from here on.
    pub(crate) fn begin_exec(&mut self) {
        let listened = self.subscriptions.len() > 0;
        self.before = Some(Before { messages: Vec::new(), listened, version: self.version });
    }

    /// Bytes of messages that are to come before a transaction's reply, and are forgotten if they are too many.
    pub(crate) fn check_before(&mut self, len_max: usize) -> bool {
        let Some(before) = &mut self.before else { return true };
        let fits = before.messages.len() <= len_max;
        if !fits {
            before.messages = Vec::new();
        }
        fits
    }

    /// Ends that. The transaction's reply is what `out` has from `start` on.
    pub(crate) fn end_exec(&mut self, start: usize, out: &mut Vec<u8>) {
        let messages = self.before.take().map(|before| before.messages).unwrap_or_default();
        self.before_len += messages.len();
        drop(out.splice(start..start, messages));
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

    /// Whether a request may write, also by what it runs of a transaction or script, or tell others.
    pub(crate) fn may_write(&self, spec: &Spec) -> bool {
        let writes = |spec: &Spec| {
            use CommandId as Id;
            spec.flags.contains(Flags::WRITE)
                || matches!(spec.id, Id::Publish | Id::Eval | Id::EvalSha)
        };
        let queued = self.transaction.queue().filter(|_| spec.id == CommandId::Exec);
        writes(spec) || queued.is_some_and(|queue| queue.commands().any(|(spec, _)| writes(spec)))
    }

    /// Ends the transaction and watches nothing any more; returns what was queued and watched.
    pub fn end_transaction(&mut self) -> (Option<Box<Queue>>, Vec<Arc<Stamp>>) {
        let ended = self.transaction.take();
        self.publish_transaction();
        if !ended.1.is_empty() {
            self.publish_watched();
        }
        ended
    }

    /// Shows others what it watches.
    pub(crate) fn publish_watched(&self) {
        self.shared.show_watched(&self.transaction.watched);
        self.publish_names();
    }

    /// Shows others how far the transaction is. After every change of that.
    pub(crate) fn publish_transaction(&mut self) {
        self.mark(QUEUES, self.transaction.is_open());
        let queue = self.transaction.queue();
        let queued = queue.map_or(-1, |queue| queue.len() as i64);
        self.shared.queued.store(queued, Ordering::Relaxed);
        let memory = queue.map_or(0, Queue::memory);
        self.shared.queued_len.store(memory, Ordering::Relaxed);
    }

    /// What it has asked for if it keeps copies of what it reads.
    #[inline]
    pub(crate) fn tracking(&self) -> Option<&tracking::Options> {
        self.tracking.as_deref()
    }

    /// The same to be changed.
    #[inline]
    pub(crate) fn tracking_mut(&mut self) -> Option<&mut tracking::Options> {
        self.tracking.as_deref_mut()
    }

    /// Keeps copies from now on, or none, and shows that to others.
    pub(crate) fn track(&mut self, options: Option<tracking::Options>) {
        self.mark(TRACKS, options.is_some());
        self.shared.show_tracking(options.as_ref());
        self.tracking = options.map(Box::new);
        self.publish_names();
    }

    /// Chooses which replies it wants.
    pub(crate) fn want_replies(&mut self, replies: Replies) {
        self.mark(MUTES, replies != Replies::All);
        self.replies = replies;
    }

    /// Which replies it wants.
    pub(crate) fn replies(&self) -> Replies {
        self.replies
    }

    /// Notes that a request begins.
    pub(crate) fn begin_request(&mut self) {
        self.before_len = 0;
        self.has_waited_for_script = false;
        if self.replies == Replies::AllButNext {
            self.replies = Replies::AllButThis;
        }
    }

    /// Notes that a request has been dealt with, unless it waits; None if it was no command. Its reply is what
    /// `out` has from `start` on, behind messages. What comes unasked stays, the confirmations of subscriptions among
    /// it.
    pub(crate) fn end_request(&mut self, spec: Option<&Spec>, start: usize, out: &mut Vec<u8>) {
        if self.wait.is_some() {
            return;
        }
        self.end_caching(spec);
        let start = start + self.before_len;
        let is_confirmed = spec.is_some_and(|spec| is_confirmed(spec.id));
        // Else it is an error, or that it is queued.
        let comes_anyway = is_confirmed && matches!(out.get(start), Some(b'>' | b'*'));
        if self.replies != Replies::All && !comes_anyway {
            out.truncate(start);
        }
        if self.replies == Replies::AllButThis {
            self.want_replies(Replies::All);
        }
    }

    /// What CLIENT CACHING said was for this request, or for a transaction as a whole.
    fn end_caching(&mut self, spec: Option<&Spec>) {
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
    pub fn wait(&self) -> Option<&Wait> {
        self.wait.as_ref()
    }

    /// Begins a wait; the command's reply comes when it ends.
    pub fn begin_wait(&mut self, wait: Wait) {
        let waiting = match wait {
            Wait::Key { .. } => WAITS,
            Wait::Pause { .. }
            | Wait::Log
            | Wait::Script { .. }
            | Wait::Synced { .. }
            | Wait::Save { .. } => PAUSED,
        };
        self.wait = Some(wait);
        // ORDERING: Release pairs with the Acquire in `is_waiting`: who sees the wait finds its place in the queue for
        // its key.
        self.shared.waiting.store(waiting, Ordering::Release);
    }

    /// Ends it at the Unix millisecond `now`. Says whether another thread has, which counts on that.
    pub fn end_wait(&mut self, now: u64) -> Option<Unblocked> {
        self.wait = None;
        self.publish_transaction();
        // ORDERING: Relaxed, before the Release below.
        self.shared.active_at.store(now, Ordering::Relaxed);
        // ORDERING: Release pairs with the Acquire of the task that closes idle connections: if it sees the end of
        // the wait counts the idle time from there.
        unblocked(self.shared.waiting.swap(RUNS, Ordering::Release))
    }

    /// Chooses the protocol version. Messages that are there in the one before go out before the reply.
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

/// Whether what a command answers is no reply, but comes as messages do.
fn is_confirmed(id: CommandId) -> bool {
    use CommandId as Id;
    matches!(id, Id::Subscribe | Id::Unsubscribe | Id::PSubscribe | Id::PUnsubscribe)
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
        // Who is to be closed may have lost the right to what comes.
        shared.deliver(0, |message| message.simple("news"));
        client.closing = Some(Closing::Killed);
        client.fetch_messages(&mut out);
        assert_eq!(out, b"+news\r\n");
    }
}
