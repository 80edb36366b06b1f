//! RESP: requests in, replies out, and replies read on a client's side.

mod decode;
mod end;
mod inline;
mod read;
mod reply;
mod write;

pub use decode::{Decoded, Decoder, Limits};
pub use end::ReplyEnd;
pub use read::{Part, ReplyError, ReplyLimits, find_part, read_part};
pub use reply::{Reply, ReplyReader};
pub use write::{Version, Writer};

#[cfg(test)]
mod tests;
