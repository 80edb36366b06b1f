//! RESP: requests in, replies out.

mod decode;
mod inline;
mod read;
mod write;

pub use decode::{Decoded, Decoder, Limits};
pub use read::{Part, read_part};
pub use write::{Version, Writer};

#[cfg(test)]
mod tests;
