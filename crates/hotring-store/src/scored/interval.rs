//! Intervals of a sorted set: by rank, score or member.

use std::ops::Range;

use super::ScoredRef;

/// An end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreEnd {
    /// The score.
    pub score: f64,
    /// Whether the range excludes members with that score.
    pub is_exclusive: bool,
}

/// An end of a range of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberEnd<'a> {
    /// Before all members.
    First,
    /// After all members.
    Last,
    /// The range includes this member.
    Inclusive(&'a [u8]),
    /// The range excludes this member.
    Exclusive(&'a [u8]),
}

/// A part of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Interval<'a> {
    /// From a rank to another, both included; negative ranks count from the end, -1 is the last.
    Ranks(i64, i64),
    /// From a score to another.
    Scores(ScoreEnd, ScoreEnd),
    /// From a member to another, for a set in which all scores are equal.
    Members(MemberEnd<'a>, MemberEnd<'a>),
}

impl ScoredRef<'_> {
    /// The ranks of an interval's members; with `reversed`, the ranks of the interval count from the end.
    pub fn ranks(&self, interval: &Interval<'_>, reversed: bool) -> Range<usize> {
        let (from, to) = match *interval {
            Interval::Ranks(from, to) => return self.given_ranks(from, to, reversed),
            Interval::Scores(min, max) => (
                self.count_before(|entry| match min.is_exclusive {
                    true => entry.score <= min.score,
                    false => entry.score < min.score,
                }),
                self.count_before(|entry| match max.is_exclusive {
                    true => entry.score < max.score,
                    false => entry.score <= max.score,
                }),
            ),
            Interval::Members(min, max) => (
                self.count_before(|entry| min.is_above(entry.member, false)),
                self.count_before(|entry| max.is_above(entry.member, true)),
            ),
        };
        from..to.max(from)
    }

    fn given_ranks(&self, from: i64, to: i64, reversed: bool) -> Range<usize> {
        let len = self.len();
        let clamped = |rank: i64| match usize::try_from(rank) {
            Ok(rank) => rank.min(len),
            Err(_) => len.saturating_sub(usize::try_from(rank.unsigned_abs()).unwrap_or(len)),
        };
        // An end before the first member gives an empty range.
        let is_before_all = to < 0 && to.unsigned_abs() > len as u64;
        let start = clamped(from);
        let end = if is_before_all { 0 } else { clamped(to).saturating_add(1).min(len) };
        let end = end.max(start);
        if reversed { len - end..len - start } else { start..end }
    }
}

impl MemberEnd<'_> {
    /// Whether the end is above a member. For the member itself it depends on `is_upper`, whether this is the upper
    /// end.
    fn is_above(&self, member: &[u8], is_upper: bool) -> bool {
        match self {
            MemberEnd::First => false,
            MemberEnd::Last => true,
            MemberEnd::Inclusive(end) => member < *end || (is_upper && member == *end),
            MemberEnd::Exclusive(end) => member < *end || (!is_upper && member == *end),
        }
    }
}
