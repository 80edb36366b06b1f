//! What a command function gets: the request, the reply, and the three owners of state.
//!
//! State has three lifetimes. [`Client`] is one connection's, `Worker` is one thread's (its door to
//! the store, its counters, what is in [`Own`]), [`Server`] is shared by all threads. A command
//! borrows all of them for the time that it runs, and never blocks.

use fastrand::Rng;
use hotring_protocol::{ArgsView, Version, Writer};
use hotring_store::{Key, KeyHash, Session};

use crate::observe::counters::Counters;
use crate::state::client::Client;
use crate::state::failure::{Failure, Outcome};
use crate::state::interpreter::{Interpreter, NewInterpreter};
use crate::state::lent::Lent;
use crate::state::server::Server;

/// What one thread has to itself besides its door to the store.
pub(crate) struct Own {
    /// Its random numbers.
    pub random: Rng,
    /// What runs its scripts, once there has been one. Taken out while a script runs.
    pub interpreter: Option<Box<dyn Interpreter>>,
    /// Makes one.
    pub new_interpreter: NewInterpreter,
    /// Where long values are that need not be copied. Taken away while the reply is not the client's own.
    pub lent: Lent,
}

/// Everything that one command may read and change while it runs.
pub(crate) struct Context<'a> {
    /// The request; `args[0]` is the command's name as the client wrote it. Dispatch has checked
    /// the number of arguments against the command table.
    pub args: ArgsView<'a>,
    /// The hash of the request's first key, if it is known.
    pub key_hash: KeyHash,
    /// Where the reply goes; exactly one reply, unless the command returns a failure.
    pub reply: Writer<'a>,
    /// Length that the whole buffer of `reply` may reach. Commands whose replies can be much longer
    /// than their requests and than one value look at it as they go.
    pub reply_len_max: usize,
    /// Unix milliseconds, read once for the whole batch of requests.
    pub now: u64,
    /// This thread's door to the store.
    pub store: &'a mut Session,
    /// This thread's counters; no other thread writes them.
    pub counters: &'a Counters,
    /// What else is this thread's.
    pub own: &'a mut Own,
    /// The connection that sent the request.
    pub client: &'a mut Client,
    /// What all threads share.
    pub server: &'a Server,
}

impl<'a> Context<'a> {
    /// The key of a command whose only one is its first argument.
    #[inline]
    pub(crate) fn key(&self) -> Key<'a> {
        Key::with_hash(self.args.at(1), self.key_hash)
    }
    /// Runs `f` while no other session can look at or change the keys; no keys stand for all.
    pub(crate) fn alone<R>(&mut self, keys: &[&[u8]], f: impl FnOnce(&mut Context<'_>) -> R) -> R {
        let Context { args, key_hash, reply_len_max, now, counters, server, .. } = *self;
        let Context { reply, store, own, client, .. } = self;
        store.exclusive(keys, |store| {
            let reply = Writer::new(reply.buffer(), client.version);
            f(&mut Context {
                args,
                key_hash,
                reply,
                reply_len_max,
                now,
                store,
                counters,
                own,
                client,
                server,
            })
        })
    }

    /// The same for another request, whose reply goes to `out`.
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
            own: self.own,
            client: self.client,
            server: self.server,
        }
    }

    /// How much longer the reply may get.
    pub(crate) fn room(&self) -> usize {
        self.reply_len_max.saturating_sub(self.replied())
    }

    /// Fails when the reply has become too long.
    pub(crate) fn check_room(&self) -> Outcome {
        if self.replied() > self.reply_len_max { Err(Failure::ReplyTooLong) } else { Ok(()) }
    }

    /// Bytes that are to be sent, with the values that are not copied into the reply.
    fn replied(&self) -> usize {
        self.reply.written() + self.own.lent.len
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
