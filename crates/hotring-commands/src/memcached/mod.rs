//! memcached's text protocol over the same data.
//!
//! Requests are taken in batches as those of RESP are ([`crate::exec`]): decoded first, their keys
//! fetched side by side, then run in order ([`executor`]). The commands are in a file for each family:
//! [`classic`], [`meta`], [`stats`]; classic and meta commands share the operations of [`item`].
//!
//! The store keeps metadata with a value ([`hotring_store::Metadata`]). Here `flags` are the client's flags, the
//! unique number is the CAS number, a stale value was invalidated (`X` in replies), and a claimed one was won (`Z`):
//! one client was told to renew it (`W`).

mod access;
mod auth;
mod batch;
mod classic;
mod context;
mod dispatch;
mod executor;
mod item;
mod meta;
mod stats;

use hotring_protocol::memcached::{Data, Decoder, Limits};

use crate::settings::config::Config;
use crate::state::server::Server;
use context::Refusal;
pub(crate) use executor::Executor;

/// The version of memcached that this protocol is of; clients decide by it.
pub(crate) const VERSION: &str = "1.6.45";

/// Longest data of a request before the client has authenticated.
const AUTH_LEN_MAX: usize = 1 << 10;

/// A connection's state of this protocol.
#[derive(Debug)]
pub(crate) struct Talk {
    decoder: Decoder,
    /// The client has authenticated, or need not.
    authenticated: bool,
    /// The client has sent something.
    begun: bool,
}

impl Talk {
    /// The start of a conversation.
    pub(crate) fn new(server: &Server) -> Self {
        let authenticated = server.memcached.users.is_none();
        Talk { decoder: Decoder::new(), authenticated, begun: false }
    }

    /// Whether the client has authenticated, or need not.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// The length that the input must reach before feeding it again can make progress.
    pub(crate) fn input_len_wanted(&self) -> usize {
        self.decoder.input_len_wanted()
    }

    fn limits(&self, config: &Config) -> Limits {
        match self.authenticated {
            true => Limits {
                keys_line_max: config.memcached.line_len_max,
                data_len_max: config.memcached.value_len_max,
            },
            false => Limits { keys_line_max: 0, data_len_max: AUTH_LEN_MAX },
        }
    }
}

/// Whether a request has data that can be stored.
fn block<'a>(data: Data<'a>) -> Result<&'a [u8], Refusal> {
    match data {
        Data::Block(block) => Ok(block),
        Data::Unended => Err(Refusal::Text("CLIENT_ERROR bad data chunk")),
        Data::TooLong => Err(Refusal::TooLong),
        Data::None => Err(Refusal::BAD_LINE),
    }
}

#[cfg(test)]
mod tests;
