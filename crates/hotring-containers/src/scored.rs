//! A set whose members have scores and are ranked by them.

use std::cell::Cell;
use std::cmp::Ordering;
use std::ops::Range;

use crate::dict::{Dict, Entry};
use crate::entries::{self, append, len_of_len, open, read_len, write_len};
use crate::tree::{Edge, Leaf, Leaves, Remains, Tree};

/// Bytes of a score.
const SCORE: usize = size_of::<f64>();
/// If more than one in `WALK_FROM` members is removed, a walk over all members is faster than an edit for each.
const WALK_FROM: usize = 32;

/// Members with scores, ordered by score and then by bytes. Score, rank, insert, remove: O(log n), with 64 children a
/// node. Clone: O(1).
///
/// A score must not be NaN. Callers pass each member with its hash, as for [`Dict`].
#[derive(Clone, Default)]
pub struct ScoredSet {
    order: Tree<Row>,
    /// The score of each member, 8 bytes.
    scores: Dict,
}

/// A member with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored<'a> {
    /// Its score.
    pub score: f64,
    /// The member.
    pub member: &'a [u8],
}

/// The effect of an insertion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inserted {
    /// The member is new.
    New,
    /// The member had this score before.
    Had(f64),
}

/// Packed entries in order. Each is score, length of the member, member.
#[derive(Clone, Default)]
struct Row {
    data: Vec<u8>,
    len: u16,
}

/// An owned member with its score.
#[derive(Clone)]
struct Bound {
    score: f64,
    member: Box<[u8]>,
}

impl Bound {
    fn scored(&self) -> Scored<'_> {
        Scored { score: self.score, member: &self.member }
    }
}

impl Scored<'_> {
    fn is_before(&self, other: Scored<'_>) -> bool {
        self.score < other.score || (self.score == other.score && self.member < other.member)
    }

    fn order(&self, other: &Scored<'_>) -> Ordering {
        let scores = self.score.partial_cmp(&other.score).expect("no score is NaN");
        scores.then_with(|| self.member.cmp(other.member))
    }
}

impl Row {
    /// The entry at an offset, and the offset behind it.
    #[inline]
    fn at(&self, start: usize) -> (Scored<'_>, usize) {
        let score = self.data[start..].first_chunk().expect("an entry begins with its score");
        let (len, member) = read_len(&self.data, start + SCORE);
        let end = member + len;
        (Scored { score: f64::from_le_bytes(*score), member: &self.data[member..end] }, end)
    }

    /// The offset of the entry at `i`; for `i` behind the last entry, the end of the bytes.
    fn start(&self, i: usize) -> usize {
        (0..i).fold(0, |at, _| self.at(at).1)
    }

    /// The first entry not before the target: its byte offset, and the number of entries before it.
    fn find(&self, is_before: impl Fn(Scored<'_>) -> bool) -> (usize, usize) {
        let (mut start, mut i) = (0, 0);
        while start < self.data.len() {
            let (entry, end) = self.at(start);
            if !is_before(entry) {
                break;
            }
            (start, i) = (end, i + 1);
        }
        (start, i)
    }

    fn insert(&mut self, new: Scored<'_>) {
        let (at, _) = self.find(|entry| entry.is_before(new));
        self.put(at, new);
    }

    fn put(&mut self, at: usize, new: Scored<'_>) {
        let member_len = new.member.len();
        let gap = open(&mut self.data, at, at, SCORE + len_of_len(member_len) + member_len);
        gap[..SCORE].copy_from_slice(&new.score.to_le_bytes());
        let member = SCORE + write_len(&mut gap[SCORE..], member_len);
        gap[member..].copy_from_slice(new.member);
        self.len += 1;
    }

    /// Moves all entries to a new row without unused bytes, and returns the row with its first entry. This row keeps
    /// its memory for the next entries.
    fn take_filled(&mut self) -> (Bound, Row) {
        let filled = (self.bound(), self.clone());
        self.data.clear();
        self.len = 0;
        filled
    }

    fn bound(&self) -> Bound {
        let (first, _) = self.at(0);
        Bound { score: first.score, member: first.member.into() }
    }

    fn remove(&mut self, old: Scored<'_>) {
        let (start, _) = self.find(|entry| entry.is_before(old));
        let (entry, end) = self.at(start);
        assert_eq!(entry.member, old.member, "both trees have the same members");
        open(&mut self.data, start, end, 0);
        self.len -= 1;
    }
}

impl Leaf for Row {
    /// The lowest entry of the leaf when the leaf was created.
    type Bound = Bound;

    // Each operation walks over one leaf or two.
    const LEN_MAX: usize = 16;

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn data(&self) -> &Vec<u8> {
        &self.data
    }

    fn split(&mut self, edge: Edge) -> Option<(Bound, Self)> {
        let at = match edge {
            Edge::Start => 1,
            Edge::Middle => self.len() / 2,
            Edge::End => self.len() - 1,
        };
        let start = self.start(at);
        let right =
            Row { len: self.len - at as u16, data: entries::split_off(&mut self.data, start) };
        self.len = at as u16;
        Some((right.bound(), right))
    }

    fn absorb(&mut self, right: &Self) {
        append(&mut self.data, &right.data);
        self.len += right.len;
    }

    fn remove_run(&mut self, at: usize, n: usize) {
        let start = self.start(at);
        let end = (0..n).fold(start, |at, _| self.at(at).1);
        open(&mut self.data, start, end, 0);
        self.len -= n as u16;
    }
}

impl ScoredSet {
    /// An empty set.
    pub fn new() -> ScoredSet {
        ScoredSet::default()
    }

    /// Builds a set from members with their hashes; of equal members, the last one counts. `members` then holds each
    /// member once, in order. O(n log n), without an edit for each member. `step` is called throughout, for callers
    /// that have other work.
    ///
    /// # Panics
    /// A score is NaN.
    pub fn of_all(members: &mut Vec<(u32, Scored<'_>)>, mut step: impl FnMut()) -> ScoredSet {
        // Stable: the last one of equal members comes last.
        members.sort_by(|(a_hash, a), (b_hash, b)| {
            step();
            a_hash.cmp(b_hash).then_with(|| a.member.cmp(b.member))
        });
        members.dedup_by(|later, kept| {
            let is_same = later.1.member == kept.1.member;
            if is_same {
                *kept = *later;
            }
            is_same
        });
        let values: Vec<[u8; SCORE]> =
            members.iter().map(|(_, entry)| entry.score.to_le_bytes()).collect();
        let entries = members.iter().zip(&values).inspect(|_| step());
        let scores = Dict::of_sorted(
            entries.map(|((hash, entry), value)| (*hash, Entry { key: entry.member, value })),
        );
        members.sort_unstable_by(|(_, a), (_, b)| {
            step();
            a.order(b)
        });
        let mut rows: Vec<(Bound, Row)> = Vec::new();
        let mut row = Row::default();
        for (_, entry) in members.iter() {
            if row.is_filled() {
                rows.push(row.take_filled());
            }
            row.put(row.data.len(), *entry);
        }
        if row.len > 0 {
            rows.push(row.take_filled());
        }
        ScoredSet { order: Tree::of_leaves(rows), scores }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory in use.
    pub fn footprint(&self) -> usize {
        self.order.footprint() + self.scores.footprint()
    }

    /// A member's score.
    pub fn score(&self, hash: u32, member: &[u8]) -> Option<f64> {
        self.scores.get(hash, member).map(score_of)
    }

    /// Gives a member a score.
    ///
    /// # Panics
    /// The score is NaN.
    pub fn insert(&mut self, hash: u32, member: &[u8], score: f64) -> Inserted {
        assert!(!score.is_nan(), "scores have an order");
        let old = self.scores.replace(hash, member, &score.to_le_bytes(), score_of);
        if old.map(f64::to_bits) == Some(score.to_bits()) {
            return Inserted::Had(score);
        }
        if let Some(score) = old {
            self.edit(Scored { score, member }, |row, old| row.remove(old));
        }
        self.edit(Scored { score, member }, |row, new| row.insert(new));
        old.map_or(Inserted::New, Inserted::Had)
    }

    /// Removes a member, and returns the score that it had.
    pub fn remove(&mut self, hash: u32, member: &[u8]) -> Option<f64> {
        let score = self.scores.take(hash, member, score_of)?;
        self.edit(Scored { score, member }, |row, old| row.remove(old));
        Some(score)
    }

    fn edit(&mut self, entry: Scored<'_>, change: impl FnOnce(&mut Row, Scored<'_>)) {
        self.order.edit(
            |inner| inner.child_of_bound(|bound| !entry.is_before(bound.scored())),
            |row| change(row, entry),
        );
    }

    /// The rank of a member of the set that has this score: the number of members before it.
    pub fn rank(&self, score: f64, member: &[u8]) -> usize {
        let entry = Scored { score, member };
        self.count_before(|other| other.is_before(entry))
    }

    /// The number of members before the target: those for which `is_before` is true, which all come
    /// before those for which it is not.
    pub fn count_before(&self, is_before: impl Fn(Scored<'_>) -> bool) -> usize {
        let rank = Cell::new(0);
        let row = self.order.leaf(|inner| {
            let child = inner.child_of_bound(|bound| is_before(bound.scored()));
            rank.set(rank.get() + inner.counts[..child].iter().sum::<usize>());
            child
        });
        rank.get() + row.find(is_before).1
    }

    /// All members from a rank on.
    pub fn iter_from(&self, rank: usize) -> impl Iterator<Item = Scored<'_>> {
        let mut rank = rank.min(self.len());
        let leaves = self.order.leaves(|inner| inner.child_of_rank(&mut rank));
        let at = leaves.leaf().start(rank);
        Forward { leaves, at }
    }

    /// All members before a rank, the nearest first.
    pub fn iter_back_from(&self, rank: usize) -> impl Iterator<Item = Scored<'_>> {
        let mut rank = rank.min(self.len());
        let leaves = self.order.leaves(|inner| inner.child_of_rank(&mut rank));
        let mut back = Backward { leaves, starts: [0; Row::LEN_MAX + 1], left: 0 };
        back.find_starts(rank);
        back
    }

    /// All members in the order of [`Dict::iter`]: faster for a caller that looks each of them up in another container
    /// of that order.
    pub fn iter_by_hash(&self) -> impl Iterator<Item = Scored<'_>> {
        self.scores.iter().map(|entry| Scored { score: score_of(entry.value), member: entry.key })
    }

    /// A walk over all members in the order of their hashes, as [`Dict::scan`].
    pub fn scan<'a>(
        &'a self,
        from: u32,
        at_least: usize,
        mut f: impl FnMut(Scored<'a>),
    ) -> Option<u32> {
        self.scores.scan(from, at_least, |entry| {
            f(Scored { score: score_of(entry.value), member: entry.key });
        })
    }

    /// Removes the members of these ranks and returns their nodes, to be freed. `hash` computes a member's hash. Few
    /// members take an edit each, many take one walk over all: O(min(k log n, n)).
    pub fn remove_ranks(&mut self, ranks: Range<usize>, hash: impl Fn(&[u8]) -> u32) -> Remains {
        let to = ranks.end.min(self.len());
        let from = ranks.start.min(to);
        let mut scores = std::mem::take(&mut self.scores);
        let mut gone = None;
        if to - from > self.order.len() / WALK_FROM {
            let (first, behind) = (self.entry_of_rank(from), self.entry_of_rank(to));
            let is_before = |end: Option<Scored<'_>>, entry: Scored<'_>| {
                end.is_none_or(|end| entry.is_before(end))
            };
            gone = Some(scores.retain(|_, entry| {
                let entry = Scored { score: score_of(entry.value), member: entry.key };
                is_before(first, entry) || !is_before(behind, entry)
            }));
        } else {
            for scored in self.iter_from_in_order(from).take(to - from) {
                scores.remove(hash(scored.member), scored.member);
            }
        }
        self.scores = scores;
        let cut = self.order.cut(from, to);
        match gone {
            Some(gone) => cut.and(gone),
            None => cut,
        }
    }

    /// The member at a rank; None behind the last.
    fn entry_of_rank(&self, rank: usize) -> Option<Scored<'_>> {
        if rank >= self.order.len() {
            return None;
        }
        self.iter_from_in_order(rank).next()
    }

    fn iter_from_in_order(&self, mut rank: usize) -> Forward<'_> {
        let leaves = self.order.leaves(|inner| inner.child_of_rank(&mut rank));
        let at = leaves.leaf().start(rank);
        Forward { leaves, at }
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.order.check();
        self.scores.check();
        assert_eq!(self.order.len(), self.scores.len());
    }

    /// Dismantles the set, to be freed in steps.
    pub fn into_remains(self) -> Remains {
        self.order.remains().and(self.scores.into_remains())
    }
}

fn score_of(value: &[u8]) -> f64 {
    f64::from_le_bytes(*value.first_chunk().expect("a score has 8 bytes"))
}

struct Forward<'a> {
    leaves: Leaves<'a, Row>,
    at: usize,
}

impl<'a> Iterator for Forward<'a> {
    type Item = Scored<'a>;

    fn next(&mut self) -> Option<Scored<'a>> {
        if self.at == self.leaves.leaf().data.len() {
            if !self.leaves.forward() {
                return None;
            }
            self.at = 0;
        }
        let (scored, end) = self.leaves.leaf().at(self.at);
        self.at = end;
        Some(scored)
    }
}

struct Backward<'a> {
    leaves: Leaves<'a, Row>,
    /// The offsets of the leaf's entries.
    starts: [u32; Row::LEN_MAX + 1],
    /// Entries of the leaf that are still to come.
    left: usize,
}

impl Backward<'_> {
    fn find_starts(&mut self, n: usize) {
        let mut at = 0;
        for start in &mut self.starts[..n] {
            *start = at as u32;
            at = self.leaves.leaf().at(at).1;
        }
        self.left = n;
    }
}

impl<'a> Iterator for Backward<'a> {
    type Item = Scored<'a>;

    fn next(&mut self) -> Option<Scored<'a>> {
        if self.left == 0 {
            if !self.leaves.backward() {
                return None;
            }
            self.find_starts(self.leaves.leaf().len());
        }
        self.left -= 1;
        Some(self.leaves.leaf().at(self.starts[self.left] as usize).0)
    }
}
