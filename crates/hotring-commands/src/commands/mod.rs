//! The command handlers, one file per family, and the table that maps a command's id to its handler.
//!
//! A handler is a function `fn(&mut Context) -> Outcome`. It reads `args`, uses the store, and must write exactly one
//! reply. It must return a [`Failure`](crate::state::failure::Failure) instead of writing an error itself. The number
//! of arguments has already been checked against the command table.
//!
//! ```text
//! pub(crate) fn strlen(c: &mut Context<'_>) -> Outcome {
//!     let len = c.store.strlen(&c.args[1], c.now);
//!     c.reply.int(len as i64);
//!     Ok(())
//! }
//! ```

mod acl;
pub(crate) mod answer;
mod bit_fields;
mod bits;
pub(crate) mod blocking;
pub(crate) mod client;
mod cluster;
pub(crate) mod command;
mod compare;
mod config;
mod connection;
mod counter;
mod database;
mod debug;
mod dump;
mod expire;
mod fields;
mod flow;
mod function;
mod geo;
mod hash;
mod history;
mod hyperloglog;
mod info;
mod key;
mod latency;
mod lcs;
mod list;
mod lolwut;
mod memory;
mod mirror;
mod monitor;
mod multi;
mod numeric;
mod object;
mod pin;
pub(crate) mod process;
pub mod pubsub;
mod random;
mod range;
mod replication;
pub(crate) mod save;
mod scan;
mod script;
mod scrub;
mod set;
mod slowlog;
mod sort;
pub(crate) mod string;
#[cfg(test)]
mod tests;
mod tracking;
mod transaction;
mod wait;
pub(crate) mod wait_for_safety;
mod zset;

use std::time::Duration;

pub use connection::REDIS_VERSION;
use hotring_protocol::ArgsView;

use crate::acl::has_secrets;
use crate::host::clock;
use crate::observe::counters::Counters;
use crate::observe::latency::COMMAND;
use crate::state::client::Client;
use crate::state::context::Context;
use crate::state::failure::Outcome;
use crate::state::server::Server;
use crate::table::{COMMAND_IDS, CommandId, all_commands};

/// The function that runs a command.
type Handler = fn(&mut Context<'_>) -> Outcome;

/// Generates the table of handlers from the list of commands.
macro_rules! handlers {
    (
        commands {
            $($id:ident = $name:literal $arity:literal $group:ident
                => $module:ident::$handler:ident $(. $set:ident ( $($value:expr),* ))*;)*
        }
        subcommands {
            $($sub:ident of $parent:ident = $sub_name:literal $sub_arity:literal $sub_group:ident
                => $sub_module:ident::$sub_handler:ident $(. $sub_set:ident ( $($sub_value:expr),* ))*;)*
        }
    ) => {
        /// The handlers, indexed by command id.
        static HANDLERS: [Handler; COMMAND_IDS] =
            [$($module::$handler,)* $($sub_module::$sub_handler,)*];
    };
}
all_commands!(handlers);

/// Runs one command.
#[inline]
pub(crate) fn run(id: CommandId, c: &mut Context<'_>) -> Outcome {
    HANDLERS[id as usize](c)
}

/// Runs one command and times it.
#[cold]
pub(crate) fn run_timed(id: CommandId, c: &mut Context<'_>) -> Outcome {
    let begun = clock::monotonic();
    let outcome = run(id, c);
    note_time(id, c.args, begun.elapsed(), c.now, (c.counters, c.client, c.server));
    outcome
}

/// Records the duration of a command for the statistics, LATENCY and SLOWLOG.
pub(crate) fn note_time(
    id: CommandId,
    args: ArgsView<'_>,
    took: Duration,
    now: u64,
    (counters, client, server): (&Counters, &Client, &Server),
) {
    counters.by_command.time(id as usize, took);
    server.observe.latency.note(COMMAND, took, now);
    if !has_secrets(id, args) {
        let shared = &client.shared;
        let who = || (shared.peer.to_string(), shared.labels().name.into());
        server.observe.slowlog.note(args, took, now, who);
    }
}
