//! memcached's text protocol: classic and meta commands in, replies out.
//!
//! A request is a line of words; storage commands have a data block behind it. [`Command`] and
//! [`MetaFlags`] define the words; the caller implements the commands.

mod command;
mod decode;
mod end;
mod meta;
mod number;
mod write;

pub use command::{Command, NAMES};
pub use decode::{Data, Decoded, Decoder, Limits, LineTooLong, Request};
pub use end::{ReplyEnd, ReplyForm, is_quiet};
pub use meta::{KEY_LEN_MAX, MetaFlags, MetaKey, OPAQUE_LEN_MAX};
pub use number::{parse_i32, parse_u32, parse_u64};
pub use write::Writer;

#[cfg(test)]
mod tests;
