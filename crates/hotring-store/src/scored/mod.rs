//! Sorted sets: members with scores, a [`Type`] of container.
//!
//! A short sorted set stores its members and scores in sequence ([`crate::container::packed`]), ordered by (score,
//! member): a member and its score are two parts. The part of a score is its f64 bits, big-endian, without trailing
//! zero bytes, so that small integers take two bytes. A long sorted set is a [`Scores`].

pub(crate) mod change;
mod entry;
pub(crate) mod interval;
pub(crate) mod large;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::container::packed::{Head, is_same, push_number, split, split_number};
use crate::container::{ContainerOptions, Parts, Type, Weight};
use crate::value::ValueRef;
pub(crate) use change::{Change, Tally};
use entry::{push_entry, push_score, split_score};
use hotring_containers::Scored;
use large::Scores;

/// A sorted set, borrowed for the length of a closure.
#[derive(Clone, Copy, Debug)]
pub struct ScoredRef<'a>(Form<'a>);

#[derive(Clone, Copy, Debug)]
enum Form<'a> {
    Packed(&'a [u8]),
    Large(&'a Scores),
}

/// The type of sorted sets.
pub(crate) enum SortedSet {}

/// Maximum bytes of an entry in addition to its member: the lengths of the member and the score, and the score.
const ENTRY_MAX: usize = 16;
/// The kind of a change in the log, in the lowest two bits of its first number.
const PUT: u64 = 0;
const REMOVE: u64 = 1;
const REMOVE_RANKS: u64 = 2;

impl Type for SortedSet {
    type Ref<'a> = ScoredRef<'a>;
    type Parts = Scores;
    type Change<'c> = Change<'c>;
    type Tally = Tally;

    const KIND: u8 = 10;
    const KIND_LARGE: u8 = 11;

    fn packed(held: &[u8]) -> ScoredRef<'_> {
        ScoredRef(Form::Packed(held))
    }

    fn large(scores: &Scores) -> ScoredRef<'_> {
        ScoredRef(Form::Large(scores))
    }

    fn of_value(value: ValueRef<'_>) -> Option<ScoredRef<'_>> {
        match value {
            ValueRef::Scored(scored) => Some(scored),
            _ => None,
        }
    }

    fn of_parts(parts: &Parts) -> Option<&Scores> {
        match parts {
            Parts::Scored(scores) => Some(scores),
            _ => None,
        }
    }

    fn of_parts_mut(parts: &mut Parts) -> Option<&mut Scores> {
        match parts {
            Parts::Scored(scores) => Some(scores),
            _ => None,
        }
    }

    fn packed_len_max(scored: ScoredRef<'_>) -> usize {
        match scored.0 {
            Form::Packed(held) => held.len(),
            Form::Large(scores) => scores.len_of_all() + ENTRY_MAX * scores.len(),
        }
    }

    fn weigh(change: &Change<'_>) -> Weight {
        let (member, grows) = match change {
            Change::Put(member, _) => (member.len(), true),
            Change::Remove(member) => (member.len(), false),
            Change::RemoveRanks(..) => (0, false),
        };
        // Removed members were within the limits when they were added.
        Weight { longest: if grows { member } else { 0 }, len: member + ENTRY_MAX, grows }
    }

    fn changed(scored: ScoredRef<'_>, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
        match changes {
            [change] => scored.changed_once(*change),
            changes => scored.changed(changes),
        }
    }

    fn packs(held: &[u8], changes: &[Change<'_>], options: &ContainerOptions) -> bool {
        let len_max = options.scored.len();
        let fits = |change: &Change<'_>| match change {
            Change::Put(member, _) => member.len() <= len_max,
            Change::Remove(_) | Change::RemoveRanks(..) => true,
        };
        SortedSet::packed(held).len() <= options.scored.entries() && changes.iter().all(fits)
    }

    fn unpack(held: &[u8], options: &ContainerOptions) -> Option<Parts> {
        let scored = SortedSet::packed(held);
        let scores = Scores::of(entries_of(held), options.keys, || ());
        (scores.len() == scored.len()).then_some(Parts::Scored(scores))
    }

    fn apply(scores: &mut Scores, changes: &[Change<'_>]) -> Tally {
        scores.apply(changes)
    }

    fn emptied_by(scores: &Scores, changes: &[Change<'_>]) -> Option<Tally> {
        scores.emptied_by(changes)
    }

    fn had_no_effect(tally: Tally) -> bool {
        tally == Tally::default()
    }

    /// Encodes changes: the member's length and the kind in one number, the member, the score; or the first rank and
    /// the kind in one number, and the number of ranks.
    fn changes_to_bytes(changes: &[Change<'_>]) -> Vec<u8> {
        let len = changes.iter().map(|change| SortedSet::weigh(change).len).sum();
        let mut bytes = Vec::with_capacity(len);
        for change in changes {
            match *change {
                Change::Put(member, score) => {
                    push_number(&mut bytes, (member.len() as u64) << 2 | PUT);
                    bytes.extend_from_slice(member);
                    push_score(&mut bytes, score);
                }
                Change::Remove(member) => {
                    push_number(&mut bytes, (member.len() as u64) << 2 | REMOVE);
                    bytes.extend_from_slice(member);
                }
                Change::RemoveRanks(from, to) => {
                    push_number(&mut bytes, (from as u64) << 2 | REMOVE_RANKS);
                    push_number(&mut bytes, (to - from) as u64);
                }
            }
        }
        bytes
    }

    fn changes_from_bytes(mut bytes: &[u8]) -> Option<Vec<Change<'_>>> {
        let mut changes = Vec::new();
        while !bytes.is_empty() {
            let (number, tail) = split_number(bytes)?;
            let (kind, number) = (number & 3, usize::try_from(number >> 2).ok()?);
            let (change, tail) = match kind {
                PUT => {
                    let (member, tail) = tail.split_at_checked(number)?;
                    let (score, tail) = split_score(tail)?;
                    (Change::Put(member, score), tail)
                }
                REMOVE => {
                    let (member, tail) = tail.split_at_checked(number)?;
                    (Change::Remove(member), tail)
                }
                REMOVE_RANKS => {
                    let (len, tail) = split_number(tail)?;
                    let end = number.checked_add(usize::try_from(len).ok()?)?;
                    (Change::RemoveRanks(number, end), tail)
                }
                _ => return None,
            };
            changes.push(change);
            bytes = tail;
        }
        Some(changes)
    }
}

impl<'a> ScoredRef<'a> {
    /// The packed form; empty for a large set.
    pub(crate) fn held(&self) -> &'a [u8] {
        match self.0 {
            Form::Packed(held) => held,
            Form::Large(_) => &[],
        }
    }

    /// Whether the set is packed, that is stored as one value.
    pub fn is_packed(&self) -> bool {
        matches!(self.0, Form::Packed(_))
    }

    /// Memory of the set, in bytes.
    pub fn footprint(&self) -> usize {
        match self.0 {
            Form::Packed(held) => held.len(),
            Form::Large(scores) => scores.footprint(),
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match self.0 {
            Form::Packed(held) => Head::split(held).0.count,
            Form::Large(scores) => scores.len(),
        }
    }

    /// Number of members that a walk shows, even if the count of a packed set is damaged.
    pub fn count(&self) -> usize {
        match self.0 {
            Form::Packed(held) => entries_of(held).count(),
            Form::Large(scores) => scores.len(),
        }
    }

    /// Whether the set has no member, which is never true of a stored set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A member's score.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match self.0 {
            Form::Packed(held) => entries_of(held)
                .find(|entry| is_same(entry.member, member))
                .map(|entry| entry.score),
            Form::Large(scores) => scores.score(member),
        }
    }

    /// A member's rank, from 0, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match self.0 {
            Form::Packed(held) => entries_of(held)
                .enumerate()
                .find(|(_, entry)| is_same(entry.member, member))
                .map(|(rank, entry)| (rank, entry.score)),
            Form::Large(scores) => scores.rank(member),
        }
    }

    /// Number of members for which `is_before` is true. These must precede all other members.
    pub fn count_before(&self, mut is_before: impl FnMut(Scored<'_>) -> bool) -> usize {
        match self.0 {
            Form::Packed(held) => entries_of(held).take_while(|entry| is_before(*entry)).count(),
            Form::Large(scores) => {
                // The tree calls it for the bounds of nodes and for the entries of one leaf.
                let is_before = std::cell::RefCell::new(is_before);
                scores.count_before(|entry| is_before.borrow_mut()(entry))
            }
        }
    }

    /// Calls `f` with the members of these ranks, in order or reversed. Ranks past the end are skipped.
    pub fn each(&self, ranks: Range<usize>, reversed: bool, mut f: impl FnMut(Scored<'a>)) {
        let n = ranks.end.saturating_sub(ranks.start);
        match (self.0, reversed) {
            (Form::Packed(held), false) => {
                entries_of(held).skip(ranks.start).take(n).for_each(f);
            }
            (Form::Packed(held), true) => {
                let entries: Vec<_> = entries_of(held).skip(ranks.start).take(n).collect();
                entries.into_iter().rev().for_each(f);
            }
            (Form::Large(scores), false) => {
                scores.iter_from(ranks.start).take(n).for_each(f);
            }
            (Form::Large(scores), true) => {
                let end = ranks.end.min(scores.len());
                let n = end.saturating_sub(ranks.start);
                scores.iter_back_from(end).take(n).for_each(&mut f);
            }
        }
    }

    /// Calls `f` with all members in order.
    pub fn each_of_all(&self, f: impl FnMut(Scored<'a>)) {
        self.each(0..usize::MAX, false, f);
    }

    /// Calls `f` with the members until it returns false; true if it never did. The order is that of hashes for a large
    /// set, so that successive lookups of the members in other sets are close to each other.
    pub(crate) fn all(&self, f: impl FnMut(Scored<'a>) -> bool) -> bool {
        match self.0 {
            Form::Packed(held) => entries_of(held).all(f),
            Form::Large(scores) => scores.iter_by_hash().all(f),
        }
    }

    /// Calls `f` with about `count` members from a cursor on, and returns the next cursor, 0 at the end. Begin with 0.
    /// Visits every member that exists from the first call to the last. A packed set is shown in full.
    pub fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(Scored<'a>)) -> u64 {
        match self.0 {
            Form::Packed(held) => {
                entries_of(held).for_each(&mut f);
                0
            }
            Form::Large(scores) => scores.scan(cursor, count, f),
        }
    }

    /// Like [`changed`](Self::changed), for one change: copies the other entries unchanged.
    fn changed_once(&self, change: Change<'_>) -> (Tally, Option<Vec<u8>>) {
        let held = self.held();
        let (head, entries) = Head::split(held);
        let (gone, new, tally) = match change {
            Change::RemoveRanks(from, to) => {
                let mut at = 0..0;
                let mut n = 0;
                for (rank, (_, range)) in with_ranges(entries).enumerate() {
                    if rank < from {
                        at = range.end..range.end;
                    } else if rank < to {
                        (at.end, n) = (range.end, n + 1);
                    }
                }
                (at, None, Tally { removed: n, ..Tally::default() })
            }
            Change::Remove(member) => {
                let found = with_ranges(entries).find(|(entry, _)| is_same(entry.member, member));
                let removed = usize::from(found.is_some());
                (
                    found.map_or(0..0, |(_, range)| range),
                    None,
                    Tally { removed, ..Tally::default() },
                )
            }
            Change::Put(member, score) => {
                let score = without_sign_of_zero(score);
                let (old, at) = position_of(entries, Scored { score, member });
                let tally = match &old {
                    None => Tally { added: 1, ..Tally::default() },
                    Some((had, _)) if *had == score => {
                        return (Tally::default(), Some(held.into()));
                    }
                    Some(_) => Tally { moved: 1, ..Tally::default() },
                };
                let old = old.map_or(at..at, |(_, range)| range);
                (old, Some((at, Scored { score, member })), tally)
            }
        };
        let count = (head.count + tally.added).saturating_sub(tally.removed);
        if count == 0 {
            return (tally, None);
        }
        let more = new.map_or(0, |(_, new)| new.member.len() + ENTRY_MAX);
        let mut held = Head { number: head.number + 1, count }.begin(entries.len() + more);
        match new {
            None => {
                held.extend_from_slice(&entries[..gone.start]);
                held.extend_from_slice(&entries[gone.end..]);
            }
            Some((at, new)) if at <= gone.start => {
                held.extend_from_slice(&entries[..at]);
                push_entry(&mut held, new);
                held.extend_from_slice(&entries[at..gone.start]);
                held.extend_from_slice(&entries[gone.end..]);
            }
            Some((at, new)) => {
                held.extend_from_slice(&entries[..gone.start]);
                held.extend_from_slice(&entries[gone.end..at]);
                push_entry(&mut held, new);
                held.extend_from_slice(&entries[at..]);
            }
        }
        (tally, Some(held))
    }

    /// The packed form after these changes in their order; None if no member is left.
    fn changed(&self, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
        let mut scores: BTreeMap<&[u8], f64> =
            entries_of(self.held()).map(|entry| (entry.member, entry.score)).collect();
        let mut tally = Tally::default();
        for change in changes {
            match *change {
                Change::Put(member, score) => {
                    match scores.insert(member, without_sign_of_zero(score)) {
                        None => tally.added += 1,
                        Some(old) => tally.moved += usize::from(old != score),
                    }
                }
                Change::Remove(member) => {
                    tally.removed += usize::from(scores.remove(member).is_some());
                }
                Change::RemoveRanks(from, to) => {
                    let n = to.saturating_sub(from);
                    for entry in in_order(&scores).iter().skip(from).take(n) {
                        scores.remove(entry.member);
                        tally.removed += 1;
                    }
                }
            }
        }
        let entries = in_order(&scores);
        if entries.is_empty() {
            return (tally, None);
        }
        let number = Head::split(self.held()).0.number + 1;
        let len = entries.iter().map(|entry| entry.member.len() + ENTRY_MAX).sum();
        let mut held = Head { number, count: entries.len() }.begin(len);
        entries.into_iter().for_each(|entry| push_entry(&mut held, entry));
        held.shrink_to_fit();
        (tally, Some(held))
    }
}

/// As in Redis, a packed set has no negative zero.
fn without_sign_of_zero(score: f64) -> f64 {
    score + 0.0
}

fn in_order<'a>(scores: &BTreeMap<&'a [u8], f64>) -> Vec<Scored<'a>> {
    let mut entries: Vec<_> =
        scores.iter().map(|(member, score)| Scored { score: *score, member }).collect();
    // The sort is stable, and the map is ordered by member, so members of equal scores stay in order.
    entries.sort_by(|a, b| a.score.partial_cmp(&b.score).expect("no score is NaN"));
    entries
}

fn is_before(a: Scored<'_>, b: Scored<'_>) -> bool {
    a.score < b.score || (a.score == b.score && a.member < b.member)
}

/// The score and the range of a member's present entry, and the position of its new entry.
fn position_of(entries: &[u8], new: Scored<'_>) -> (Option<(f64, Range<usize>)>, usize) {
    let (mut old, mut at) = (None, 0);
    for (entry, range) in with_ranges(entries) {
        if is_before(entry, new) {
            at = range.end;
        }
        if is_same(entry.member, new.member) {
            old = Some((entry.score, range));
        }
    }
    (old, at)
}

/// The entries of a packed set.
fn entries_of<'a>(held: &'a [u8]) -> impl Iterator<Item = Scored<'a>> + use<'a> {
    with_ranges(Head::split(held).1).map(|(entry, _)| entry)
}

/// The entries of encoded bytes, each with its range of bytes.
fn with_ranges<'a>(
    entries: &'a [u8],
) -> impl Iterator<Item = (Scored<'a>, Range<usize>)> + use<'a> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let start = entries.len() - rest.len();
        let (member, tail) = split(rest)?;
        let (score, tail) = split_score(tail)?;
        rest = tail;
        Some((Scored { score, member }, start..entries.len() - tail.len()))
    })
}
