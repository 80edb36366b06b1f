//! The members of a large set.

use hotring_containers::{BATCH_MAX, Dict, Entry, Remains};
use siphasher::sip::SipHasher13;

use super::change::{Change, Tally};
use super::packed::begin_list;
use crate::container::detached::{add_cut, with_cut};
use crate::container::packed::{Head, push};
use crate::container::scan::scan;

/// If changes remove more than one in `WALK_FROM` members, a walk over all of them is faster than an edit for each.
const WALK_FROM: usize = 32;

/// The members of a large set. Clone: O(1).
pub(crate) struct Members {
    /// The members as keys, each with an empty value.
    dict: Dict,
    /// Keyed, so that clients cannot choose members with colliding hashes.
    hasher: SipHasher13,
    /// Bytes of all members.
    len_of_all: usize,
    /// Detached parts that were too many to be freed at once.
    cut: Option<Remains>,
}

impl Clone for Members {
    fn clone(&self) -> Members {
        let Members { dict, hasher, len_of_all, cut: _ } = self;
        Members { dict: dict.clone(), hasher: *hasher, len_of_all: *len_of_all, cut: None }
    }
}

impl std::fmt::Debug for Members {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Members").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Members {
    /// An empty set.
    pub(crate) fn new([a, b]: [u64; 2]) -> Members {
        let hasher = SipHasher13::new_with_keys(a, b);
        Members { dict: Dict::new(), hasher, len_of_all: 0, cut: None }
    }

    /// Fills an empty set with these members, which must be sorted by hash and without duplicates.
    pub(super) fn filled<'m>(mut self, members: impl Iterator<Item = (u32, &'m [u8])>) -> Members {
        let len = &mut self.len_of_all;
        self.dict = Dict::of_sorted(members.map(|(hash, key)| {
            *len += key.len();
            (hash, Entry { key, value: b"" })
        }));
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.dict.len()
    }

    pub(crate) fn footprint(&self) -> usize {
        self.dict.footprint()
    }

    /// Bytes of all members.
    pub(crate) fn len_of_all(&self) -> usize {
        self.len_of_all
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.dict.iter().map(|entry| entry.key)
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        self.dict.get(self.hash(member), member).is_some()
    }

    /// Calls `f` with each member that all `others` have, too, until `f` returns false; and `step` for each member. All
    /// sets must be of one store.
    pub(super) fn intersect(
        &self,
        others: &[&Members],
        mut step: impl FnMut(),
        mut f: impl FnMut(&[u8]) -> bool,
    ) {
        let mut members = self.dict.iter_with_hashes();
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            batch.clear();
            let next = members.by_ref().take(BATCH_MAX).map(|(hash, entry)| (hash, entry.key));
            batch.extend(next.inspect(|_| step()));
            if batch.is_empty() {
                return;
            }
            // Sets of one store have one hasher.
            others.iter().for_each(|other| other.dict.keep_present(&mut batch));
            if !batch.iter().all(|(_, member)| f(member)) {
                return;
            }
        }
    }

    pub(crate) fn of_rank(&self, rank: usize) -> Option<&[u8]> {
        self.dict.entry_of_rank(rank).map(|entry| entry.key)
    }

    pub(crate) fn scan<'a>(
        &'a self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&'a [u8]),
    ) -> u64 {
        scan(cursor, count, |from, visited| {
            // Visits one leaf per call.
            self.dict.scan(from, 1, |entry| {
                visited.add(entry.key.len());
                f(entry.key);
            })
        })
    }

    /// The effect of changes that remove all members; None if some stay.
    pub(crate) fn emptied_by(&self, changes: &[Change<'_>]) -> Option<Tally> {
        if changes.len() < self.len() || changes.iter().any(|change| change.adds) {
            return None;
        }
        let mut after = self.clone();
        let tally = after.apply(changes);
        (after.len() == 0).then_some(tally)
    }

    /// Applies changes in their order.
    pub(crate) fn apply(&mut self, changes: &[Change<'_>]) -> Tally {
        let mut tally = Tally::default();
        if changes.len() > 1
            && changes.len() > self.len() / WALK_FROM
            && changes.iter().all(|change| !change.adds)
        {
            tally.removed = self.remove_all(changes);
            return tally;
        }
        for change in changes {
            match change.adds {
                true => tally.added += usize::from(self.add(&change.member)),
                false => tally.removed += usize::from(self.remove(&change.member)),
            }
        }
        tally
    }

    /// Adds a member; true if it is new.
    pub(crate) fn add(&mut self, member: &[u8]) -> bool {
        let hash = self.hash(member);
        // Checked first, because an edit would copy shared nodes on its path in vain.
        if self.dict.get(hash, member).is_some() {
            return false;
        }
        self.len_of_all += member.len();
        self.dict.insert_new(hash, member, b"");
        true
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let hash = self.hash(member);
        let was_there = self.dict.get(hash, member).is_some() && self.dict.remove(hash, member);
        self.len_of_all -= if was_there { member.len() } else { 0 };
        was_there
    }

    /// Removes many members in one walk over all of them, and returns the number of removed ones.
    fn remove_all(&mut self, changes: &[Change<'_>]) -> usize {
        let mut gone: Vec<(u32, &[u8])> =
            changes.iter().map(|change| (self.hash(&change.member), &*change.member)).collect();
        gone.sort_unstable();
        let (before, mut len) = (self.len(), 0);
        let remains = self.dict.retain(|hash, entry| {
            let goes = gone.binary_search(&(hash, entry.key)).is_ok();
            len += if goes { entry.key.len() } else { 0 };
            !goes
        });
        add_cut(&mut self.cut, remains);
        self.len_of_all -= len;
        before - self.len()
    }

    #[inline]
    pub(super) fn hash(&self, member: &[u8]) -> u32 {
        self.hasher.hash(member) as u32
    }

    /// Encodes the packed form.
    pub(crate) fn to_packed(&self, number: u64) -> Vec<u8> {
        // A length of up to 127 takes one byte.
        let mut held = begin_list(Head { number, count: self.len() }, self.len_of_all + self.len());
        self.iter().for_each(|member| push(&mut held, member));
        held
    }

    /// Takes all nodes, for the caller to free, and leaves no members.
    pub(crate) fn take_remains(&mut self) -> Remains {
        self.len_of_all = 0;
        with_cut(std::mem::take(&mut self.dict).into_remains(), &mut self.cut)
    }

    /// Takes the detached parts, for the caller to free.
    pub(crate) fn take_cut(&mut self) -> Option<Remains> {
        self.cut.take()
    }
}
