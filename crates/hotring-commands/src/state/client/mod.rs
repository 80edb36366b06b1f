//! The state of a connection, split by the threads that may touch it.
//!
//! [`Client`] belongs to the connection's task. Any thread may read [`ClientShared`] (CLIENT LIST) or signal through it
//! (CLIENT KILL); the task publishes into it with relaxed stores. [`Clients`] is the list of all connections.

mod inbox;
mod list;
mod memory;
mod reply;
mod shared;
mod wait;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_cluster::ShardId;
use hotring_cluster::directory::MoveId;
use hotring_protocol::{ArgsView, Version};
use hotring_store::KeyState;

use crate::acl::{Access, Acl, ChannelKind};
use crate::host::clock;
use crate::settings::config::Config;
use crate::state::subscriptions::Subscriptions;
use crate::state::tracking;
use crate::state::transaction::{Queue, Queued, Transaction};
use crate::table::{CommandId, Flags, Spec, specs};

pub use inbox::Inboxes;
pub use list::Clients;
use reply::Before;
pub(crate) use reply::Replies;
pub use shared::{
    BROADCASTS, BROKEN_REDIRECT, ClientShared, KILLED, Labels, MESSAGES, OVERFLOWED, TRACKING,
    USERS_CHANGED, Unblocked,
};
pub use wait::{Wait, Wanted};

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
    /// The last command, published once per batch.
    pub last: Option<CommandId>,
    /// Set when the connection must end once the written replies are sent.
    pub closing: Option<Closing>,
    /// Set when the connection speaks memcached's protocol from the next request on.
    pub(crate) becomes_memcached: bool,
    /// The wait of the last command. The next command must not run before the reply to the last one.
    wait: Option<Wait>,
    /// The next request has waited outside the gate for a slow script, and must not wait there again.
    pub(crate) has_waited_for_script: bool,
    /// MULTI and WATCH.
    pub transaction: Transaction,
    /// The subscriptions to channels, patterns and shard channels.
    pub subscriptions: Subscriptions,
    /// The connection is a monitor.
    pub monitors: bool,
    /// The options of CLIENT TRACKING, if the client caches its reads.
    tracking: Option<Box<tracking::Options>>,
    /// The mode of CLIENT REPLY.
    replies: Replies,
    /// Bytes of messages sent before the reply to this request.
    before_len: usize,
    /// The messages to send before the reply of the running transaction.
    before: Option<Before>,
    /// The connection came over TLS.
    pub uses_tls: bool,
    /// A script of the client runs commands.
    pub(crate) runs_script: bool,
    /// Reasons to check each request before it runs: [`QUEUES`], [`LISTENS`], [`TRACKS`], [`MUTES`], [`LINKS`].
    special: u8,
}

/// A transaction is open.
const QUEUES: u8 = 1;
/// The connection has subscriptions.
const LISTENS: u8 = 2;
/// The client caches its reads.
const TRACKS: u8 = 4;
/// CLIENT REPLY drops replies.
const MUTES: u8 = 8;
/// The requests come from the primary that this server follows.
const LINKS: u8 = 16;

/// The reason why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The client asked for it, or has closed its side.
    Asked,
    /// The input violates the protocol.
    Protocol,
    /// The input is an HTTP request: an attacker may be using a browser to send it.
    CrossProtocol,
    /// A reply would exceed the output limit; nothing more is sent.
    OutputLimit,
    /// The transaction exceeds the limit of a request; nothing more is sent.
    InputLimit,
    /// A request of the primary has failed: those behind it must not run.
    Failed,
    /// The connection becomes the link of a replica that listens on this port.
    BecomesLink(u16),
    /// The connection becomes one to the coordinator of this node.
    BecomesCoordination,
    /// The connection becomes the link of a move of slots to this shard.
    BecomesImport {
        /// The move.
        id: MoveId,
        /// The shard that gives the slots.
        from: ShardId,
    },
    /// The client has killed itself (CLIENT KILL), or has lost its user or a right, or the server ends.
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
            becomes_memcached: false,
            wait: None,
            has_waited_for_script: false,
            transaction: Transaction::default(),
            subscriptions: Subscriptions::default(),
            monitors: false,
            tracking: None,
            replies: Replies::All,
            before_len: 0,
            before: None,
            uses_tls: false,
            runs_script: false,
            special: 0,
        };
        client.publish_lock();
        client
    }

    /// The client on whose behalf the requests of a primary run. It may do everything, and is in no list of clients.
    pub(crate) fn of_primary(thread: usize, acl: &Acl) -> Self {
        let shared = ClientShared::new(0, String::new(), String::new(), thread, clock::unix_ms());
        let mut client = Client::new(Arc::new(shared), acl);
        client.become_user(Access::unrestricted());
        client.mark(LINKS, true);
        client
    }

    /// Whether the requests come from the primary that this server follows.
    pub(crate) fn is_of_primary(&self) -> bool {
        self.special & LINKS != 0
    }

    /// Notes that a request has failed. A request of the primary must not fail: those behind it may depend on it. A
    /// command of its script may.
    pub(crate) fn note_failure(&mut self) {
        if self.is_of_primary() && !self.runs_script {
            self.closing = Some(Closing::Failed);
        }
    }

    /// Selects a database for the next requests. The caller must switch the store's session as well.
    pub(crate) fn select(&mut self, number: u8) {
        self.database = number;
        // ORDERING: Relaxed, the number is only displayed.
        self.shared.database.store(number, std::sync::atomic::Ordering::Relaxed);
    }

    /// Publishes whether the client must authenticate before other commands.
    fn publish_lock(&self) {
        self.show_locked(self.access.is_locked());
    }

    /// As `publish_lock`, for a protocol with its own way to authenticate.
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

    /// Whether the requests after the last one must not run yet.
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

    /// Looks up the user again after a change of users, for a connection that has become a link. False if the user is
    /// gone, or may no longer begin such a link.
    pub fn may_stay_link(&mut self, acl: &Acl) -> bool {
        let id = match self.closing {
            Some(Closing::BecomesLink(_)) => CommandId::HotringReplicate,
            Some(Closing::BecomesCoordination) => CommandId::HotringCoordinate,
            Some(Closing::BecomesImport { .. }) => CommandId::HotringImport,
            _ => return false,
        };
        let spec = specs().find(|spec| spec.id == id).expect("every command has a row");
        self.renew_access(acl) && self.access.check(spec, ArgsView::default()).is_ok()
    }

    /// The number of unsent bytes above which the connection is not read. The limit is low before authentication:
    /// clients that cannot authenticate must not make the server keep replies. `handshake-timeout` ends clients that
    /// read no reply.
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

    /// Publishes the number of subscriptions. Must be called after each change of the subscriptions.
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

    /// Queues a request if a transaction is open and the request is one that transactions queue.
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

    /// Whether a request may change keys, itself or through a transaction. A script's commands are checked one by one.
    pub(crate) fn changes_keys(&self, spec: &Spec) -> bool {
        let writes = |spec: &Spec| spec.flags.contains(Flags::WRITE);
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

    /// Opens a transaction again that has ended without an effect.
    pub(crate) fn begin_transaction_again(
        &mut self,
        queue: Box<Queue>,
        watched: Vec<Arc<KeyState>>,
    ) {
        self.transaction.put_back(queue, watched);
        self.publish_transaction();
        self.publish_watched();
    }

    /// Publishes the watched keys.
    pub(crate) fn publish_watched(&self) {
        self.shared.show_watched(&self.transaction.watched);
        self.publish_names();
    }

    /// Publishes the length of the transaction's queue. Must be called after each change of the queue.
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

    /// Begins tracking with these options, or ends it (None), and publishes the state.
    pub(crate) fn track(&mut self, options: Option<tracking::Options>) {
        self.mark(TRACKS, options.is_some());
        self.shared.show_tracking(options.as_ref());
        self.tracking = options.map(Box::new);
        self.publish_names();
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
