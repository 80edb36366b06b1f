//! RESP: requests in, replies out.

mod decode;
mod inline;
mod write;

pub use decode::{Decoded, Decoder, Limits};
pub use write::{Version, Writer};

#[cfg(test)]
mod tests;
