//! The Redis protocol (RESP2 and RESP3) and memcached's text protocol ([`memcached`]) as pure functions
//! from bytes to bytes.
//!
//! The crate owns the wire formats: how requests are decoded
//! ([`Decoder`]), how replies are written ([`Writer`]), and which commands exist
//! ([`commands`], [`lookup`], [`resolve`]; [`Starts`] does both at once). It must not read sockets or clocks, knows
//! nothing about the store, and allocates nothing per request once its buffers have
//! grown to their working size.
//!
//! ```
//! use hotring_protocol::{Args, CommandId, Decoded, Decoder, Limits, Version, Writer, resolve};
//!
//! let input = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n";
//! let (mut decoder, mut args) = (Decoder::new(), Args::new());
//! let decoded = decoder.decode(input, &Limits::default(), &mut args).unwrap();
//! assert_eq!(decoded, Decoded::Request { consumed: 22 });
//!
//! let request = args.view(input);
//! assert_eq!(resolve(request).unwrap().id, CommandId::Echo);
//! let mut out = Vec::new();
//! Writer::new(&mut out, Version::Resp3).bulk(&request[1]);
//! assert_eq!(out, b"$2\r\nhi\r\n");
//! ```
#![forbid(unsafe_code)]

mod args;
mod error;
mod glob;
pub mod memcached;
mod number;
#[cfg(test)]
mod random;
mod resp;
mod starts;
mod table;

pub use args::{Args, ArgsView, KeptArgs};
pub use error::ProtocolError;
pub use glob::glob_match;
pub use number::parse_i64;
pub use resp::{Decoded, Decoder, Limits, Part, Version, Writer, read_part};
pub use starts::{Called, Starts};
pub use table::{
    Access, COMMAND_IDS, Categories, CommandError, CommandId, Flags, Group, KeyRange, RedisCommand,
    Spec, command_docs, command_info, commands, is_redis_command, lookup, lookup_full, markdown,
    quoted, redis_commands, resolve, specs, subcommands,
};
