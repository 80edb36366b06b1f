//! The packed form of a set.
//!
//! ```text
//!   number of changes | number of members | 0 | length of a member, the member | ...
//!                                         | 2, 4 or 8: the width | an integer, little endian | ...
//! ```
//! A set with only integers has the second form: sorted, and all as wide as the widest one. Another member changes it
//! to the first form for good. The bytes may be damaged: they give wrong members, not a panic.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::change::{Change, LEN_MAX, Member, Tally};
use crate::container::packed::{Head, is_same, push, split};
use crate::decimal::parse_int;

/// Marker in place of a width: a list of members with their lengths.
const LIST: u8 = 0;
/// Number of changes in one operation above which an index of the members is faster than a splice for each.
const SPLICES_MAX: usize = 8;
/// Maximum length of the text of an integer.
const INT_LEN_MAX: usize = 20;

/// The bytes after the header.
#[derive(Clone, Copy)]
pub(super) enum Body<'a> {
    Ints(Ints<'a>),
    List(&'a [u8]),
}

#[derive(Clone, Copy)]
pub(super) struct Ints<'a> {
    width: usize,
    bytes: &'a [u8],
}

impl<'a> Body<'a> {
    pub(super) fn of(held: &'a [u8]) -> Body<'a> {
        match Head::split(held).1.split_first() {
            Some((width @ (2 | 4 | 8), bytes)) => {
                Body::Ints(Ints { width: usize::from(*width), bytes })
            }
            Some((&LIST, members)) => Body::List(members),
            _ => Body::List(&[]),
        }
    }

    pub(super) fn is_ints(&self) -> bool {
        matches!(self, Body::Ints(_))
    }

    pub(super) fn count(&self) -> usize {
        match self {
            Body::Ints(ints) => ints.len(),
            Body::List(members) => list(members).count(),
        }
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Member<'a>> {
        let (ints, members) = match self {
            Body::Ints(ints) => (Some(ints), None),
            Body::List(members) => (None, Some(members)),
        };
        let ints = ints.into_iter().flat_map(|ints| (0..ints.len()).map(move |i| ints.at(i)));
        let members = members.into_iter().flat_map(list);
        ints.map(Member::Int).chain(members.map(Member::Bytes))
    }

    pub(super) fn contains(&self, member: &[u8]) -> bool {
        match self {
            Body::Ints(ints) => parse_int(member).is_some_and(|n| ints.find(n).is_ok()),
            Body::List(members) => list(members).any(|other| is_same(other, member)),
        }
    }

    pub(super) fn of_rank(&self, rank: usize) -> Option<Member<'a>> {
        match self {
            Body::Ints(ints) => (rank < ints.len()).then(|| Member::Int(ints.at(rank))),
            Body::List(members) => list(members).nth(rank).map(Member::Bytes),
        }
    }
}

impl Ints<'_> {
    fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// The integer at position `i`, which must be below [`len`](Self::len).
    fn at(&self, i: usize) -> i64 {
        let bytes = &self.bytes[i * self.width..][..self.width];
        let mut wide = [0; 8];
        wide[8 - self.width..].copy_from_slice(bytes);
        // An arithmetic shift, which extends the sign.
        i64::from_le_bytes(wide) >> (64 - 8 * self.width)
    }

    /// The position of an integer; as `Err`, the position at which to insert it.
    fn find(&self, n: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.at(middle).cmp(&n) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }
}

/// The width that an integer needs: 2, 4 or 8 bytes.
fn width_of(n: i64) -> usize {
    match (i16::try_from(n), i32::try_from(n)) {
        (Ok(_), _) => 2,
        (_, Ok(_)) => 4,
        _ => 8,
    }
}

fn push_int(held: &mut Vec<u8>, n: i64, width: usize) {
    held.extend_from_slice(&n.to_le_bytes()[..width]);
}

/// The members of a list.
fn list<'a>(mut rest: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    std::iter::from_fn(move || {
        let (member, tail) = split(rest)?;
        rest = tail;
        Some(member)
    })
}

/// Upper bound of the set's length once another member makes it a list.
pub(super) fn len_max(held: &[u8]) -> usize {
    match Body::of(held) {
        Body::Ints(ints) => held.len() + ints.len() * (INT_LEN_MAX + 1),
        Body::List(_) => held.len(),
    }
}

/// The packed form after these changes in their order; None if no member is left, or nothing changed.
pub(super) fn changed(held: &[u8], changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
    let number = Head::split(held).0.number + 1;
    if changes.len() > SPLICES_MAX {
        return changed_together(held, number, changes);
    }
    let (mut tally, mut now) = (Tally::default(), Cow::Borrowed(held));
    for change in changes {
        let after = match change.adds {
            true => added(&now, number, &change.member).inspect(|_| tally.added += 1),
            false => removed(&now, number, &change.member).inspect(|_| tally.removed += 1),
        };
        now = after.map_or(now, Cow::Owned);
    }
    let is_set = tally != Tally::default() && !now.is_empty();
    (tally, is_set.then(|| now.into_owned()))
}

/// The packed form with one more member. None if the set has it already.
fn added(held: &[u8], number: u64, member: &[u8]) -> Option<Vec<u8>> {
    let (Head { count, .. }, body) = Head::split(held);
    let head = Head { number, count: count + 1 };
    let n = parse_int(member);
    match (Body::of(held), n) {
        (Body::Ints(ints), Some(n)) => {
            let at = ints.find(n).err()?;
            let width = ints.width.max(width_of(n));
            let mut held = head.begin(1 + (ints.len() + 1) * width);
            held.push(width as u8);
            if width == ints.width {
                let (before, tail) = ints.bytes.split_at(at * width);
                held.extend_from_slice(before);
                push_int(&mut held, n, width);
                held.extend_from_slice(tail);
            } else {
                (0..at).for_each(|i| push_int(&mut held, ints.at(i), width));
                push_int(&mut held, n, width);
                (at..ints.len()).for_each(|i| push_int(&mut held, ints.at(i), width));
            }
            Some(held)
        }
        // An empty set.
        (Body::List(_), Some(n)) if body.is_empty() => {
            let mut held = head.begin(1 + width_of(n));
            held.push(width_of(n) as u8);
            push_int(&mut held, n, width_of(n));
            Some(held)
        }
        (Body::Ints(ints), None) => {
            let mut held = head.begin(1 + ints.len() * (INT_LEN_MAX + 1) + member.len() + LEN_MAX);
            held.push(LIST);
            for i in 0..ints.len() {
                Member::Int(ints.at(i)).with_bytes(|text| push(&mut held, text));
            }
            push(&mut held, member);
            held.shrink_to_fit();
            Some(held)
        }
        (Body::List(members), _) => {
            if list(members).any(|other| is_same(other, member)) {
                return None;
            }
            let mut held = head.begin(1 + members.len() + member.len() + LEN_MAX);
            held.push(LIST);
            held.extend_from_slice(members);
            push(&mut held, member);
            Some(held)
        }
    }
}

/// The packed form without a member, empty if it was the last. None if the set does not have it.
fn removed(held: &[u8], number: u64, member: &[u8]) -> Option<Vec<u8>> {
    let (head, body) = Head::split(held);
    let (start, end) = match Body::of(held) {
        Body::Ints(ints) => {
            let at = ints.find(parse_int(member)?).ok()?;
            (1 + at * ints.width, 1 + (at + 1) * ints.width)
        }
        Body::List(members) => {
            let mut rest = members;
            loop {
                let (other, tail) = split(rest)?;
                if is_same(other, member) {
                    break (body.len() - rest.len(), body.len() - tail.len());
                }
                rest = tail;
            }
        }
    };
    let count = head.count.saturating_sub(1);
    if count == 0 {
        return Some(Vec::new());
    }
    let mut held = Head { number, count }.begin(body.len() - (end - start));
    held.extend_from_slice(&body[..start]);
    held.extend_from_slice(&body[end..]);
    Some(held)
}

/// A decoded set, for many changes.
enum Open<'a> {
    Ints(BTreeSet<i64>),
    /// Members with numbers in order of insertion.
    List(BTreeMap<Cow<'a, [u8]>, usize>),
}

/// Like [`changed`], for many changes.
fn changed_together(held: &[u8], number: u64, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
    let mut open = match Body::of(held) {
        Body::Ints(ints) => Open::Ints((0..ints.len()).map(|i| ints.at(i)).collect()),
        Body::List([]) => Open::Ints(BTreeSet::new()),
        Body::List(members) => Open::List(list(members).map(Cow::Borrowed).zip(0..).collect()),
    };
    let (mut tally, mut came) = (Tally::default(), held.len());
    for change in changes {
        let did = match (&mut open, parse_int(&change.member)) {
            (Open::Ints(ints), Some(n)) if change.adds => ints.insert(n),
            (Open::Ints(ints), n) if !change.adds => n.is_some_and(|n| ints.remove(&n)),
            (Open::Ints(ints), _) => {
                let text = |n: &i64| Cow::Owned(Member::Int(*n).to_vec());
                let mut members: BTreeMap<_, _> = ints.iter().map(text).zip(0..).collect();
                came = came.max(members.len());
                members.insert(Cow::Borrowed(&*change.member), came);
                open = Open::List(members);
                true
            }
            (Open::List(members), _) if change.adds => {
                let is_new = !members.contains_key(&*change.member);
                if is_new {
                    members.insert(Cow::Borrowed(&*change.member), came);
                }
                is_new
            }
            (Open::List(members), _) => members.remove(&*change.member).is_some(),
        };
        came += 1;
        tally.added += usize::from(did && change.adds);
        tally.removed += usize::from(did && !change.adds);
    }
    (tally, open.close(number).filter(|_| tally != Tally::default()))
}

impl Open<'_> {
    fn close(self, number: u64) -> Option<Vec<u8>> {
        match self {
            Open::Ints(ints) => {
                let (first, last) = (*ints.first()?, *ints.last()?);
                let width = width_of(first).max(width_of(last));
                let mut held = Head { number, count: ints.len() }.begin(1 + ints.len() * width);
                held.push(width as u8);
                ints.into_iter().for_each(|n| push_int(&mut held, n, width));
                Some(held)
            }
            Open::List(members) => {
                let len: usize = members.keys().map(|member| member.len() + 2).sum();
                let count = members.len();
                let mut members: Vec<_> = members.into_iter().collect();
                members.sort_unstable_by_key(|(_, came)| *came);
                let mut held = Head { number, count }.begin(1 + len);
                held.push(LIST);
                members.iter().for_each(|(member, _)| push(&mut held, member));
                (count > 0).then_some(held)
            }
        }
    }
}

/// Begins the form of a list, with capacity for this many bytes of members.
pub(super) fn begin_list(head: Head, len: usize) -> Vec<u8> {
    let mut held = head.begin(1 + len);
    held.push(LIST);
    held
}
