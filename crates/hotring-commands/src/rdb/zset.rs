//! RDB encodings of sorted sets.

use std::borrow::Cow;

use hotring_store::ScoredRef;

use super::{push_len, push_string};

/// Appends the members in descending order of their scores, as Redis does, each with a binary score of 8 bytes.
pub(super) fn push(out: &mut Vec<u8>, scored: ScoredRef<'_>) {
    push_len(out, scored.count());
    scored.each(0..usize::MAX, true, |entry| {
        push_string(out, entry.member);
        out.extend_from_slice(&entry.score.to_le_bytes());
    });
}

/// Parses a score. None for NaN, and for text that is not a number.
pub fn score_of(text: &[u8]) -> Option<f64> {
    let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}

/// Pairs up a list in which members and scores alternate.
pub fn pairs_of<T: AsRef<[u8]>>(items: &[T]) -> Option<Vec<(Cow<'static, [u8]>, f64)>> {
    let (pairs, []) = items.as_chunks::<2>() else { return None };
    let pair = |[member, score]: &[T; 2]| {
        Some((Cow::Owned(member.as_ref().to_vec()), score_of(score.as_ref())?))
    };
    pairs.iter().map(pair).collect()
}
