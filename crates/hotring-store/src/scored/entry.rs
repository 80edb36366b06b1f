//! Entries of a packed sorted set.

use hotring_containers::Scored;

use crate::container::packed::{push, split};

pub(super) fn push_entry(held: &mut Vec<u8>, entry: Scored<'_>) {
    push(held, entry.member);
    push_score(held, entry.score);
}

pub(super) fn push_score(held: &mut Vec<u8>, score: f64) {
    let bits = score.to_bits();
    let len = size_of::<f64>() - bits.trailing_zeros() as usize / 8;
    push(held, &bits.to_be_bytes()[..len]);
}

/// Decodes a score, and returns it with the remaining bytes. None if it is damaged or NaN.
pub(super) fn split_score(held: &[u8]) -> Option<(f64, &[u8])> {
    let (part, tail) = split(held)?;
    let zeros = size_of::<f64>().checked_sub(part.len())?;
    let bits = part.iter().fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte));
    // A score of 0 has an empty part: then all 64 bits must be shifted, which is not a valid shift.
    let score = f64::from_bits(bits.checked_shl(8 * zeros as u32).unwrap_or(0));
    (!score.is_nan()).then_some((score, tail))
}
