//! Sorted sets in Redis's encodings.

use std::borrow::Cow;

use hotring_store::ScoredRef;

use super::{push_len, push_string};

/// Adds the members, the highest score first, as Redis does, each with its score in 8 bytes.
pub(super) fn push(out: &mut Vec<u8>, scored: ScoredRef<'_>) {
    push_len(out, scored.count());
    scored.each(0..usize::MAX, true, |entry| {
        push_string(out, entry.member);
        out.extend_from_slice(&entry.score.to_le_bytes());
    });
}

/// A score from text. None for NaN, and for text that is no number.
pub fn score_of(text: &[u8]) -> Option<f64> {
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

/// Members and scores that are elements of one list in turn.
pub fn pairs_of<T: AsRef<[u8]>>(items: &[T]) -> Option<Vec<(Cow<'static, [u8]>, f64)>> {
    let (pairs, []) = items.as_chunks::<2>() else { return None };
    let pair = |[member, score]: &[T; 2]| {
        Some((Cow::Owned(member.as_ref().to_vec()), score_of(score.as_ref())?))
    };
    pairs.iter().map(pair).collect()
}
