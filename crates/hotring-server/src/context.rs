//! What a command function gets: the request, the reply, and the three owners of state.
//!
//! State has three lifetimes. [`Client`] is one connection's, `Worker` is one thread's (its door to
//! the store, its counters, its random numbers), [`Server`] is shared by all threads. A command
//! borrows all of them for the time that it runs, and never blocks.

use hotring_protocol::{ArgsView, Writer};
use hotring_store::Session;

use crate::client::Client;
use crate::counters::Counters;
use crate::failure::{Failure, Outcome};
use crate::random::Random;
use crate::server::Server;

/// Everything that one command may read and change while it runs.
pub(crate) struct Context<'a> {
    /// The request; `args[0]` is the command's name as the client wrote it. Dispatch has checked
    /// the number of arguments against the command table.
    pub args: ArgsView<'a>,
    /// Where the reply goes; exactly one reply, unless the command returns a failure.
    pub reply: Writer<'a>,
    /// Length that the whole buffer of `reply` may reach. Commands whose replies can be much longer
    /// than their requests and than one value look at it as they go.
    pub reply_len_max: usize,
    /// Unix milliseconds, read once for the whole batch of requests.
    pub now: u64,
    /// This thread's door to the store.
    pub store: &'a mut Session,
    /// This thread's counters; nobody else writes them.
    pub counters: &'a Counters,
    /// This thread's random numbers.
    pub random: &'a mut Random,
    /// The connection that sent the request.
    pub client: &'a mut Client,
    /// What all threads share.
    pub server: &'a Server,
}

impl Context<'_> {
    /// How much longer the reply may get.
    pub(crate) fn room(&self) -> usize {
        self.reply_len_max.saturating_sub(self.reply.written())
    }

    /// Fails when the reply has become too long.
    pub(crate) fn check_room(&self) -> Outcome {
        if self.reply.written() > self.reply_len_max { Err(Failure::ReplyTooLong) } else { Ok(()) }
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
