//! The argument of every command function: the request, the reply, and the state that the command may use.
//!
//! State belongs to a connection ([`Client`]), to a thread (its session of the store, its counters, [`ThreadLocals`]),
//! or to all threads ([`Server`]). A command borrows all three while it runs, and must never block.

use fastrand::Rng;
use hotring_protocol::{ArgsView, Version, Writer};
use hotring_store::{Key, KeyHash, Origin, ReplyCapacity, Session};

use crate::observe::counters::Counters;
use crate::state::client::Client;
use crate::state::failure::{Failure, Outcome};
use crate::state::interpreter::{Interpreter, NewInterpreter};
use crate::state::long_values::LongValues;
use crate::state::routes::Routes;
use crate::state::server::Server;
use crate::state::transaction::Queue;

/// The state that only the commands of one thread use, in addition to the thread's session of the store.
pub(crate) struct ThreadLocals {
    /// The thread's random number generator.
    pub random: Rng,
    /// The script interpreter; None before the first script, and while a script runs.
    pub interpreter: Option<Box<dyn Interpreter>>,
    /// The constructor of the interpreter.
    pub new_interpreter: NewInterpreter,
    /// Which requests this node serves; None outside of a cluster.
    pub routes: Option<Box<Routes>>,
    /// Long values that need no copy. Taken out while the reply does not go to the client.
    pub long_values: LongValues,
    /// The memory of a transaction's queue that has ended, for the next one.
    pub idle_queue: Option<Box<Queue>>,
}

/// Everything that one command may read and change while it runs.
pub(crate) struct Context<'a> {
    /// The request; `args[0]` is the command's name as the client wrote it. Dispatch has checked
    /// the number of arguments against the command table.
    pub args: ArgsView<'a>,
    /// The hash of the request's first key, if it is known.
    pub key_hash: KeyHash,
    /// The writer of the reply. The command must write exactly one reply, unless it returns a failure.
    pub reply: Writer<'a>,
    /// The maximum total length of the pending replies. A command whose reply may be much longer than its request and
    /// one value must check this limit as it proceeds.
    pub reply_len_max: usize,
    /// Unix milliseconds, read once for the entire batch of requests.
    pub now: u64,
    /// This thread's session of the store.
    pub store: &'a mut Session,
    /// This thread's counters; no other thread writes them.
    pub counters: &'a Counters,
    /// This thread's other state.
    pub locals: &'a mut ThreadLocals,
    /// The connection that sent the request.
    pub client: &'a mut Client,
    /// The state that all threads share.
    pub server: &'a Server,
}

impl<'a> Context<'a> {
    /// The key of a command whose first argument is its only key.
    #[inline]
    pub(crate) fn key(&self) -> Key<'a> {
        Key::with_hash(self.args.at(1), self.key_hash)
    }

    /// Runs `f` while no other session can read or change the keys of the client's database; an empty list stands for
    /// all keys of all databases.
    pub(crate) fn alone<R>(&mut self, keys: &[&[u8]], f: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let (store, run) = self.split(f);
        store.exclusive_in_selected(keys, run)
    }

    /// As [`alone`](Self::alone), for the keys of the database that the store's session is in.
    pub(crate) fn alone_here<R>(
        &mut self,
        keys: &[&[u8]],
        f: impl FnOnce(&mut Context<'_>) -> R,
    ) -> R {
        let (store, run) = self.split(f);
        store.exclusive(keys, run)
    }

    /// Runs `f`, whose writes are admitted together and may store up to `bytes` bytes.
    pub(crate) fn admitted<R>(&mut self, bytes: usize, f: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let (store, run) = self.split(f);
        store.admitted(bytes, run)
    }

    /// Sets whether this client's requests count as accesses to keys.
    pub(crate) fn mark_accesses(&mut self, marks_accesses: bool) {
        self.store.act(Origin { marks_accesses, ..self.store.origin() });
    }

    /// Splits the context into the store, and `f` as a function of the store that gets the complete context again.
    fn split<R>(
        &mut self,
        f: impl FnOnce(&mut Context<'_>) -> R,
    ) -> (&mut Session, impl FnOnce(&mut Session) -> R) {
        let Context { args, key_hash, reply_len_max, now, counters, server, .. } = *self;
        let Context { reply, store, locals, client, .. } = self;
        let version = reply.version();
        let run = move |store: &mut Session| {
            f(&mut Context {
                args,
                key_hash,
                reply: Writer::new(reply.buffer(), version),
                reply_len_max,
                now,
                store,
                counters,
                locals,
                client,
                server,
            })
        };
        (store, run)
    }

    /// A context for another request, with its reply in `out`.
    pub(crate) fn inner<'b>(
        &'b mut self,
        args: ArgsView<'b>,
        out: &'b mut Vec<u8>,
        version: Version,
        reply_len_max: usize,
    ) -> Context<'b> {
        Context {
            args,
            key_hash: KeyHash::UNKNOWN,
            reply: Writer::new(out, version),
            reply_len_max,
            now: self.now,
            store: self.store,
            counters: self.counters,
            locals: self.locals,
            client: self.client,
            server: self.server,
        }
    }

    /// The number of bytes by which the reply may still grow.
    pub(crate) fn reply_left(&self) -> usize {
        self.reply_len_max.saturating_sub(self.replied())
    }

    /// The space that the reply has left for values that a command removes from a container, when the reply continues
    /// with the bulk string `before`.
    pub(crate) fn reply_capacity(&self, before: &[u8]) -> ReplyCapacity {
        let bytes = self.reply_left().saturating_sub(HEAD_LEN_MAX + bulk_len(before));
        ReplyCapacity { bytes, cost: bulk_len }
    }

    /// Fails if the reply is too long.
    pub(crate) fn check_reply_len(&self) -> Outcome {
        if self.replied() > self.reply_len_max { Err(Failure::ReplyTooLong) } else { Ok(()) }
    }

    /// Length of the reply, including the values that are sent without being copied into it.
    fn replied(&self) -> usize {
        self.reply.written() + self.locals.long_values.len
    }

    /// Counts a key that was looked up and found, for `INFO`.
    pub(crate) fn hit(&self) {
        self.counters.keyspace_hits.add(1);
    }

    /// Counts a key that was looked up and not found, for `INFO`.
    pub(crate) fn miss(&self) {
        self.counters.keyspace_misses.add(1);
    }
}

/// Bytes that a reply takes for its outer lists, at most.
const HEAD_LEN_MAX: usize = 48;

/// Bytes that a value takes in a reply.
pub(crate) fn bulk_len(value: &[u8]) -> usize {
    let digits = value.len().checked_ilog10().unwrap_or(0) as usize + 1;
    "$\r\n\r\n".len() + digits + value.len()
}
