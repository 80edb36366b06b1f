//! The executor: decodes the requests in a buffer, runs them, and collects the replies.
//!
//! This is the entire server without its sockets: bytes in, bytes out. An [`Executor`] belongs to one thread, a
//! [`Conversation`] to one connection; neither must read from a socket, write to one, or block.
//!
//! Each protocol has its own executor: [`resp`] here, memcached's in [`crate::memcached`]. Both run on the same
//! [`ThreadState`], and both take requests in batches. A batch is decoded first, then the cache lines of all its keys
//! are prefetched, then the commands run in order: so the cache misses of the keys overlap in time.

mod busy;
#[cfg(test)]
pub(crate) mod dialogue;
pub mod follow;
#[cfg(fuzzing)]
pub mod fuzzing;
mod resp;
mod waits;

use std::sync::Arc;

use hotring_log::Lsn;
use hotring_protocol::Decoder;
use hotring_store::Buffer;

use crate::acl::Access;
use crate::memcached::{self, Talk};
use crate::script;
use crate::settings::config::Config;
use crate::state::batching::Fed;
use crate::state::client::{Client, ClientShared, Closing};
use crate::state::long_values::{Attached, LongValues};
use crate::state::notify;
use crate::state::server::Server;
use crate::state::thread::ThreadState;
use resp::RespExecutor;
pub use waits::WaitEnd;

/// The number of received bytes per eviction step. A step evicts at least this many bytes.
const EVICT_STEP: usize = 128 << 10;

/// One connection's part of the protocol state.
#[derive(Debug)]
pub struct Conversation {
    /// The client.
    pub client: Client,
    protocol: Protocol,
}

/// The protocol of a connection, with its decoder.
#[derive(Debug)]
enum Protocol {
    Resp(Decoder),
    Memcached(Box<Talk>),
}

impl Conversation {
    /// The start of a conversation.
    pub fn new(shared: Arc<ClientShared>, server: &Server) -> Self {
        let client = Client::new(shared, &server.acl);
        Conversation { client, protocol: Protocol::Resp(Decoder::new()) }
    }

    /// The start of a conversation in memcached's protocol.
    pub fn memcached(shared: Arc<ClientShared>, server: &Server) -> Self {
        let mut client = Client::new(shared, &server.acl);
        // memcached's protocol has its own passwords, and no users.
        client.become_user(Access::authenticated(server.acl.default_user()));
        let talk = Talk::new(server);
        client.show_locked(!talk.is_authenticated());
        Conversation { client, protocol: Protocol::Memcached(Box::new(talk)) }
    }

    /// Whether the conversation is in memcached's protocol.
    pub fn is_memcached(&self) -> bool {
        matches!(self.protocol, Protocol::Memcached(_))
    }

    /// The length that the input must reach before feeding it again can make progress.
    pub fn input_len_wanted(&self) -> usize {
        match &self.protocol {
            Protocol::Resp(decoder) => decoder.input_len_wanted(),
            Protocol::Memcached(talk) => talk.input_len_wanted(),
        }
    }
}

/// Runs the requests of one thread's connections.
pub struct Executor {
    thread: ThreadState,
    resp: RespExecutor,
    memcached: memcached::Executor,
}

impl Executor {
    /// The executor of thread `index`; `seed` seeds its random number generator.
    pub fn new(server: Arc<Server>, index: usize, seed: u64) -> Self {
        Executor {
            thread: ThreadState::new(server, index, seed, script::interpreter),
            resp: RespExecutor::new(),
            memcached: memcached::Executor::default(),
        }
    }

    /// The settings, as of the last batch.
    pub fn config(&self) -> &Config {
        &self.thread.config
    }

    /// As [`feed`](Self::feed), without copies of long values. If `input` is in memory of the store (`buffer`), long
    /// values are not copied out of it. Long values of replies are not copied into `out`, but added to `attached`.
    pub fn feed_zero_copy(
        &mut self,
        conversation: &mut Conversation,
        (input, buffer): (&[u8], Option<&Arc<Buffer>>),
        now: u64,
        (out, attached): (&mut Vec<u8>, &mut Vec<Attached>),
    ) -> Fed {
        debug_assert!(out.is_empty(), "places are counted from the beginning");
        let attaches = Some(std::mem::take(attached));
        self.thread.locals.long_values =
            LongValues { buffer: buffer.cloned(), attached: attaches, len: 0 };
        let fed = self.feed(conversation, input, now, out);
        let long_values = std::mem::take(&mut self.thread.locals.long_values);
        *attached = long_values.attached.unwrap_or_default();
        fed
    }

    /// Runs all complete requests at the start of `input` and appends their replies to `out`. Stops early if a command
    /// ends the connection or has to wait, if `out` exceeds the soft limit, or if the turn is over.
    pub(crate) fn feed(
        &mut self,
        conversation: &mut Conversation,
        input: &[u8],
        now: u64,
        out: &mut Vec<u8>,
    ) -> Fed {
        let Executor { thread, resp, memcached } = self;
        let Conversation { client, protocol } = conversation;
        debug_assert!(client.wait().is_none(), "requests wait for the one before");
        if !thread.begin_run(client, now) {
            return Fed::all(input);
        }
        match protocol {
            Protocol::Resp(decoder) => {
                let fed = resp.feed(thread, (client, decoder), input, now, out);
                if std::mem::take(&mut client.becomes_memcached) {
                    *protocol = Protocol::Memcached(Box::new(Talk::of_proxy()));
                }
                fed
            }
            Protocol::Memcached(talk) => {
                let (begun, start) = (thread.moment(), out.len());
                let fed = memcached.feed(thread, (client, talk), input, now, out);
                if thread.loss(&begun).is_none() {
                    return fed;
                }
                thread.drop_replies(start, out);
                client.closing = Some(Closing::Killed);
                Fed::all(input)
            }
        }
    }

    /// A buffer for a request of this length in memory of the store; None if the store has no memory for it.
    pub fn buffer(&self, capacity: usize) -> Option<Buffer> {
        self.thread.server.store.buffer(capacity).ok()
    }

    /// Evicts for this number of received bytes, as far as the policy allows, so that the request that stores a long
    /// value need not evict for the entire value at once.
    pub fn evict_for(&mut self, bytes: usize) {
        let ThreadState { server, store, config, .. } = &mut self.thread;
        if server.persist.loading.is_on() || server.replication.is_replica() {
            return;
        }
        let steps = bytes.div_ceil(EVICT_STEP);
        (0..steps).all(|_| store.evict_some());
        notify::notify_evicted(store, server, config);
        // No reply acknowledges evictions.
        self.thread.take_logged();
    }

    /// The last log record of this thread's commands since the last call, if any.
    #[inline]
    pub fn take_logged(&mut self) -> Option<Lsn> {
        self.thread.take_logged()
    }

    /// Frees a part of the memory that this thread's commands have removed. The commands of a busy thread do so as they
    /// run; an idle thread must call this. It then also sees new settings and records of the cluster.
    pub fn collect(&mut self) {
        self.thread.collect();
    }
}

#[cfg(test)]
mod tests;
