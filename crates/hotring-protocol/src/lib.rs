//! The Redis protocol (RESP2 and RESP3) and memcached's text protocol ([`memcached`]) as pure functions
//! from bytes to bytes.
//!
//! The crate owns the wire formats. [`Decoder`] decodes requests, and [`PrefixCache`] also finds the command.
//! [`Writer`] writes replies; [`ReplyReader`] reads them, [`find_part`] does so without copies, and [`ReplyEnd`] only
//! finds where they end. The crate must not
//! read sockets or clocks and must know neither the commands nor the store. It allocates nothing per request once its
//! buffers have grown to their working size.
//!
//! ```
//! use hotring_protocol::{Args, Decoded, Decoder, Limits, Version, Writer};
//!
//! let input = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n";
//! let (mut decoder, mut args) = (Decoder::new(), Args::new());
//! let decoded = decoder.decode(input, &Limits::default(), &mut args).unwrap();
//! assert_eq!(decoded, Decoded::Request { consumed: 22 });
//!
//! let request = args.view(input);
//! assert_eq!(&request[0], b"ECHO");
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
mod prefix_cache;
mod resp;

pub use args::{Args, ArgsView, KeptArgs};
pub use error::ProtocolError;
pub use glob::glob_match;
pub use number::parse_i64;
pub use prefix_cache::{Called, PrefixCache};
pub use resp::{
    Decoded, Decoder, Limits, Part, Reply, ReplyEnd, ReplyError, ReplyLimits, ReplyReader, Version,
    Writer, find_part, read_part,
};
