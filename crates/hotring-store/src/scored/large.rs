//! The members of a large sorted set.

use hotring_containers::{Inserted, Remains, Scored, ScoredSet};
use siphasher::sip::SipHasher13;

use super::change::{Change, Tally};
use super::entry::push_entry;
use crate::container::detached::{add_cut, with_cut};
use crate::container::packed::Head;
use crate::container::scan::scan;

/// Bytes of a packed entry in addition to its member: a length below 128, and a score.
const ENTRY_LEN: usize = 10;

/// The members of a large sorted set. Clone: O(1).
pub(crate) struct Scores {
    set: ScoredSet,
    /// Keyed, so that clients cannot choose members with colliding hashes.
    hasher: SipHasher13,
    /// Bytes of all members.
    len_of_all: usize,
    /// Detached parts that were too many to be freed at once.
    cut: Option<Remains>,
}

impl Clone for Scores {
    fn clone(&self) -> Scores {
        let Scores { set, hasher, len_of_all, cut: _ } = self;
        Scores { set: set.clone(), hasher: *hasher, len_of_all: *len_of_all, cut: None }
    }
}

impl std::fmt::Debug for Scores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scores").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Scores {
    /// An empty set.
    pub(crate) fn new([a, b]: [u64; 2]) -> Scores {
        let hasher = SipHasher13::new_with_keys(a, b);
        Scores { set: ScoredSet::new(), hasher, len_of_all: 0, cut: None }
    }

    /// Builds a set of these members; the last of equal ones wins. No score may be NaN. Calls `step` continually, for
    /// callers with other work.
    pub(crate) fn of<'a>(
        entries: impl Iterator<Item = Scored<'a>>,
        keys: [u64; 2],
        mut step: impl FnMut(),
    ) -> Scores {
        let mut scores = Scores::new(keys);
        let entries = entries.inspect(|_| step());
        let mut members: Vec<_> = entries.map(|entry| (scores.hash(entry.member), entry)).collect();
        scores.set = ScoredSet::of_all(&mut members, step);
        scores.len_of_all = members.iter().map(|(_, entry)| entry.member.len()).sum();
        scores
    }

    pub(crate) fn len(&self) -> usize {
        self.set.len()
    }

    pub(crate) fn footprint(&self) -> usize {
        self.set.footprint()
    }

    /// Bytes of all members.
    pub(crate) fn len_of_all(&self) -> usize {
        self.len_of_all
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.set.score(self.hash(member), member)
    }

    pub(crate) fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let score = self.score(member)?;
        Some((self.set.rank(score, member), score))
    }

    pub(crate) fn count_before(&self, is_before: impl Fn(Scored<'_>) -> bool) -> usize {
        self.set.count_before(is_before)
    }

    pub(crate) fn iter_from(&self, rank: usize) -> impl Iterator<Item = Scored<'_>> {
        self.set.iter_from(rank)
    }

    pub(crate) fn iter_back_from(&self, rank: usize) -> impl Iterator<Item = Scored<'_>> {
        self.set.iter_back_from(rank)
    }

    /// All members in an order that makes lookups in other sets fast.
    pub(crate) fn iter_by_hash(&self) -> impl Iterator<Item = Scored<'_>> {
        self.set.iter_by_hash()
    }

    pub(crate) fn scan<'a>(
        &'a self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(Scored<'a>),
    ) -> u64 {
        scan(cursor, count, |from, visited| {
            // Visits one leaf per call.
            self.set.scan(from, 1, |entry| {
                visited.add(entry.member.len());
                f(entry);
            })
        })
    }

    /// The effect of changes that remove all members; None if some stay.
    pub(crate) fn emptied_by(&self, changes: &[Change<'_>]) -> Option<Tally> {
        if let [Change::RemoveRanks(0, to)] = changes {
            let removed = self.len();
            return (*to >= removed).then_some(Tally { removed, ..Tally::default() });
        }
        let removed_max = changes.iter().map(|change| match change {
            Change::Put(..) => 0,
            Change::Remove(_) => 1,
            Change::RemoveRanks(from, to) => to.saturating_sub(*from),
        });
        if removed_max.fold(0, usize::saturating_add) < self.len() {
            return None;
        }
        let mut after = self.clone();
        let tally = after.apply(changes);
        (after.len() == 0).then_some(tally)
    }

    /// Applies changes in their order.
    pub(crate) fn apply(&mut self, changes: &[Change<'_>]) -> Tally {
        let mut tally = Tally::default();
        for change in changes {
            match *change {
                Change::Put(member, score) => self.put(Scored { score, member }, &mut tally),
                Change::Remove(member) => {
                    let hash = self.hash(member);
                    if self.set.remove(hash, member).is_some() {
                        self.len_of_all -= member.len();
                        tally.removed += 1;
                    }
                }
                Change::RemoveRanks(from, to) => self.remove_ranks(from, to, &mut tally),
            }
        }
        tally
    }

    fn put(&mut self, Scored { score, member }: Scored<'_>, tally: &mut Tally) {
        let hash = self.hash(member);
        match self.set.insert(hash, member, score) {
            Inserted::New => {
                self.len_of_all += member.len();
                tally.added += 1;
            }
            Inserted::Had(old) => tally.moved += usize::from(old != score),
        }
    }

    fn remove_ranks(&mut self, from: usize, to: usize, tally: &mut Tally) {
        let to = to.min(self.len());
        let from = from.min(to);
        tally.removed += to - from;
        let len_of = |from, n| -> usize {
            self.iter_from(from).take(n).map(|entry| entry.member.len()).sum()
        };
        // Walks over the smaller part.
        let len = if to - from > self.len() / 2 {
            self.len_of_all - len_of(0, from) - len_of(to, self.len() - to)
        } else {
            len_of(from, to - from)
        };
        let hasher = self.hasher;
        let remains = self.set.remove_ranks(from..to, |member| hasher.hash(member) as u32);
        add_cut(&mut self.cut, remains);
        self.len_of_all -= len;
    }

    #[inline]
    fn hash(&self, member: &[u8]) -> u32 {
        self.hasher.hash(member) as u32
    }

    /// Encodes the packed form.
    pub(crate) fn to_packed(&self, number: u64) -> Vec<u8> {
        let head = Head { number, count: self.len() };
        let mut held = head.begin(self.len_of_all + ENTRY_LEN * self.len());
        self.iter_from(0).for_each(|entry| push_entry(&mut held, entry));
        held
    }

    /// Takes all nodes, for the caller to free, and leaves no members.
    pub(crate) fn take_remains(&mut self) -> Remains {
        self.len_of_all = 0;
        with_cut(std::mem::take(&mut self.set).into_remains(), &mut self.cut)
    }

    /// Takes the detached parts, for the caller to free.
    pub(crate) fn take_cut(&mut self) -> Option<Remains> {
        self.cut.take()
    }
}
