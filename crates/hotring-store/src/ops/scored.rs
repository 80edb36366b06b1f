//! Operations on sorted sets: single-key reads, and single-key writes that decide on changes of members. A key without
//! members is absent. The expiry stays.

use std::collections::BTreeMap;

use hotring_index::Key;

use crate::changes::Step;
use crate::container::Changes;
use crate::error::{NumberKind, StoreError};
use crate::list::End;
use crate::ops::reply_capacity::ReplyCapacity;
use crate::scored::interval::Interval;
use crate::scored::{Change, ScoredRef, SortedSet, Tally};
use crate::session::Session;

/// Number of pairs in one addition above which an index of the members is faster than a walk for each pair.
const WALKS_MAX: usize = 8;

/// Conditions of an addition. By default every pair is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// Only add new members (NX).
    pub if_absent: bool,
    /// Only update existing members (XX).
    pub if_present: bool,
    /// Update existing members only to a higher score (GT).
    pub if_greater: bool,
    /// Update existing members only to a lower score (LT).
    pub if_less: bool,
}

/// The result of an addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Number of new members.
    pub added: usize,
    /// Number of existing members whose score changed.
    pub moved: usize,
}

/// An owned member and its score.
pub type OwnedScored = (Vec<u8>, f64);

impl AddOptions {
    fn allow(self, old: Option<f64>, new: f64) -> bool {
        match old {
            None => !self.if_present,
            Some(old) => {
                let is_held_back = (self.if_greater && new <= old) || (self.if_less && new >= old);
                !self.if_absent && !is_held_back && new != old
            }
        }
    }
}

impl Session {
    /// Calls `f` with the sorted set. Writers wait meanwhile, so `f` must be short. None if the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn scored<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(ScoredRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        self.read_container::<SortedSet, R>(key, now, f)
    }

    /// Like [`scored`](Self::scored), for a walk over much of it: writers of a large set do not wait for `f`.
    ///
    /// # Errors
    /// Those of [`scored`](Self::scored).
    pub fn scored_walk<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(ScoredRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        self.walk_container::<SortedSet, R>(key, now, f)
    }

    /// Sets the scores of members, one after the other, if the options allow it.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], [`StoreError::NotANumber`] for NaN, [`StoreError::ValueTooLong`], and those of every
    /// write.
    pub fn scored_add<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        pairs: &[(f64, &[u8])],
        options: AddOptions,
        now: u64,
    ) -> Result<Added, StoreError> {
        if pairs.iter().any(|(score, _)| score.is_nan()) {
            return Err(StoreError::NotANumber(NumberKind::Decimal));
        }
        self.admit_bytes(pairs.iter().map(|(_, member)| member.len()).sum())?;
        let (tally, ()) = self.update_container::<SortedSet, _>(key, now, |scored| {
            Ok((additions(scored, pairs, options), ()))
        })?;
        Ok(Added { added: tally.added, moved: tally.moved })
    }

    /// Adds to a member's score (0 if it is absent), and returns the sum; None if the options do not allow it.
    ///
    /// # Errors
    /// [`StoreError::Overflow`] if the sum is NaN, and those of [`scored_add`](Self::scored_add).
    pub fn scored_incr<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        delta: f64,
        member: &[u8],
        options: AddOptions,
        now: u64,
    ) -> Result<Option<f64>, StoreError> {
        let (_, sum) = self.update_container::<SortedSet, _>(key, now, |scored| {
            let old = scored.score(member);
            let sum = old.map_or(delta, |old| old + delta);
            let is_barred = match old {
                None => options.if_present,
                Some(old) => {
                    options.if_absent
                        || (options.if_greater && sum <= old)
                        || (options.if_less && sum >= old)
                }
            };
            if is_barred {
                return Ok((Changes::NONE, None));
            }
            if sum.is_nan() {
                return Err(StoreError::Overflow(NumberKind::Decimal));
            }
            let change = (old != Some(sum)).then_some(Change::Put(member, sum));
            Ok((change.into(), Some(sum)))
        })?;
        self.note_step(Step::Raised);
        Ok(sum)
    }

    /// Removes members and returns the number of removed ones. Removes the key with its last member.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], and those of every write except [`StoreError::OutOfMemory`].
    pub fn scored_remove(
        &mut self,
        key: &[u8],
        members: &[&[u8]],
        now: u64,
    ) -> Result<usize, StoreError> {
        let changes: Vec<_> = members.iter().map(|member| Change::Remove(member)).collect();
        let (tally, ()) = self.reduce(key, now, |_| (Changes::Given(&changes[..]), ()))?;
        Ok(tally.removed)
    }

    /// Removes the members of an interval and returns their number.
    ///
    /// # Errors
    /// Those of [`scored_remove`](Self::scored_remove).
    pub fn scored_remove_interval(
        &mut self,
        key: &[u8],
        interval: &Interval<'_>,
        now: u64,
    ) -> Result<usize, StoreError> {
        let (tally, ()) = self.reduce(key, now, |scored| {
            let ranks = scored.ranks(interval, false);
            (without(ranks.start, ranks.end), ())
        })?;
        Ok(tally.removed)
    }

    /// Removes up to `n` members with the lowest scores, or the highest ones, and returns them in that order.
    ///
    /// # Errors
    /// Those of [`scored_remove`](Self::scored_remove); [`StoreError::ValuesTooLong`], and nothing is removed, if
    /// several members do not fit `room`.
    pub fn scored_pop(
        &mut self,
        key: &[u8],
        (n, capacity): (usize, ReplyCapacity),
        is_max: bool,
        now: u64,
    ) -> Result<Vec<OwnedScored>, StoreError> {
        self.check_key(key)?;
        self.admit_little()?;
        let (_, members) = self.change_container::<SortedSet, _>(key, now, |scored| {
            let len = scored.count();
            let n = n.min(len);
            let ranks = if is_max { len - n..len } else { 0..n };
            let (mut members, mut capacity_left, mut fits) =
                (Vec::new(), capacity.for_parts(n), Ok(()));
            scored.each(ranks.clone(), is_max, |entry| {
                // Members that do not fit are not collected.
                if fits.is_ok() {
                    fits = capacity_left.add(entry.member);
                    members.push((entry.member.to_vec(), entry.score));
                }
            });
            fits?;
            Ok((without(ranks.start, ranks.end), members))
        })?;
        if !members.is_empty() {
            self.note_step(Step::Popped(if is_max { End::Back } else { End::Front }));
        }
        Ok(members)
    }

    /// Makes changes that only remove members.
    fn reduce<'c, R>(
        &mut self,
        key: &[u8],
        now: u64,
        mut decide: impl FnMut(ScoredRef<'_>) -> (Changes<'c, Change<'c>>, R),
    ) -> Result<(Tally, R), StoreError> {
        self.check_key(key)?;
        self.admit_little()?;
        self.change_container::<SortedSet, _>(key, now, |scored| Ok(decide(scored)))
    }
}

/// The change that removes the ranks `from..to`, if there are any.
fn without<'c>(from: usize, to: usize) -> Changes<'c, Change<'c>> {
    let change = (from < to).then_some(Change::RemoveRanks(from, to));
    change.into()
}

/// The changes for an addition. Each pair sees the effect of the previous ones.
fn additions<'c>(
    scored: ScoredRef<'_>,
    pairs: &[(f64, &'c [u8])],
    options: AddOptions,
) -> Changes<'c, Change<'c>> {
    if let [(score, member)] = *pairs {
        // Without conditions the change itself compares the scores.
        let is_allowed =
            options == AddOptions::default() || options.allow(scored.score(member), score);
        return is_allowed.then_some(Change::Put(member, score)).into();
    }
    let mut changes = Vec::with_capacity(pairs.len());
    // Walks over a packed set once, instead of once for each pair.
    let is_indexed = scored.is_packed() && pairs.len() > WALKS_MAX;
    let mut index: BTreeMap<&[u8], f64> = BTreeMap::new();
    if is_indexed {
        scored.each_of_all(|entry| _ = index.insert(entry.member, entry.score));
    }
    let mut pending: BTreeMap<&[u8], f64> = BTreeMap::new();
    for (score, member) in pairs {
        let held = || if is_indexed { index.get(member).copied() } else { scored.score(member) };
        let old = pending.get(member).copied().or_else(held);
        if options.allow(old, *score) {
            pending.insert(member, *score);
            changes.push(Change::Put(member, *score));
        }
    }
    Changes::Many(changes)
}
