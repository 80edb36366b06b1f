//! Tests of RESP.

mod inline;
mod random;
mod requests;
mod write;

use super::{Decoded, Decoder, Limits};
use crate::args::Args;
use crate::error::ProtocolError;
use fastrand::Rng;

/// Decodes with a fresh decoder; returns the arguments and the bytes consumed, or `None` if the
/// request is incomplete.
fn decode_once(input: &[u8], limits: &Limits) -> Result<Option<Found>, ProtocolError> {
    let mut args = Args::new();
    let decoded = Decoder::new().decode(input, limits, &mut args)?;
    Ok(found(decoded, &args, input))
}

/// A request's arguments and length.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    args: Vec<Vec<u8>>,
    consumed: usize,
}

fn found(decoded: Decoded, args: &Args, input: &[u8]) -> Option<Found> {
    match decoded {
        Decoded::Incomplete => None,
        Decoded::Request { consumed } => {
            let args = args.view(input).iter().map(<[u8]>::to_vec).collect();
            Some(Found { args, consumed })
        }
    }
}

/// The request `words`, of `consumed` bytes.
fn request(words: &[&str], consumed: usize) -> Found {
    let args = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    Found { args, consumed }
}
