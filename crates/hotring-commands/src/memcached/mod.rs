//! memcached's text protocol, over the same data as RESP.
//!
//! Requests run in batches as those of RESP do ([`crate::exec`]): a batch is decoded, its keys are prefetched in
//! parallel, then its requests run in order ([`executor`]). Each family of commands has a file: [`classic`], [`meta`],
//! [`stats`]. Classic and meta commands share the operations of [`item`].
//!
//! The store keeps metadata with a value ([`hotring_store::Metadata`]). In this protocol, `flags` are the client's
//! flags and the unique number is the CAS number. A stale value was invalidated (`X` in replies). A claimed value was
//! won (`Z`): one client was told to renew it (`W`).

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

/// The memcached version that this server reports; clients choose features by it.
pub const VERSION: &str = "1.6.45";

/// Longest data block before the client has authenticated, in bytes.
const AUTH_LEN_MAX: usize = 1 << 10;

/// A connection's state of this protocol.
#[derive(Debug)]
pub(crate) struct Talk {
    decoder: Decoder,
    /// The client has authenticated, or authentication is off.
    authenticated: bool,
    /// The client has sent at least one byte.
    begun: bool,
    /// Whether a replica may answer reads.
    may_read_copy: bool,
}

impl Talk {
    /// The state of a new connection.
    pub(crate) fn new(server: &Server) -> Self {
        let authenticated = server.memcached.users.is_none();
        Talk { decoder: Decoder::new(), authenticated, begun: false, may_read_copy: true }
    }

    /// The state of a connection that has spoken RESP until now, and has authenticated there.
    pub(crate) fn of_proxy() -> Self {
        Talk { decoder: Decoder::new(), authenticated: true, begun: true, may_read_copy: false }
    }

    /// Whether the client has authenticated, or authentication is off.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// The input length in bytes from which feeding it again can make progress.
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

/// The data block of a request; an error if it cannot be stored.
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
