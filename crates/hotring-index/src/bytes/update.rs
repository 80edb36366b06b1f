//! The operations on byte-string items under a pin: put, update, remove and version.

use crate::bytes::item::{Bytes, Parts, is_expired, version_of};
use crate::bytes::key::Key;
use crate::bytes::seen::{Seen, Written, doom, stays_live, write_word};
use crate::bytes::value::{Action, Content, Entry, Expiry};
use crate::core::block::{Block, BlockRef, LONG_LEN};
use crate::core::config::{Checksum, RcuCounts, Strategy};
use crate::core::hooks::wrong;
use crate::core::item::{Item, Kind};
use crate::core::memory::PAGE;
use crate::engine::{Engine, Found, Hit, KeyGoal, Reservation};
use crate::session::Pinned;
use std::alloc::{Layout, handle_alloc_error};

pub(crate) type Goal<'k> = KeyGoal<'k, Bytes>;

impl<'s, E: Engine> Pinned<'s, Bytes, E> {
    pub(crate) fn kind(&self) -> &'s Bytes {
        &self.shared.kind
    }

    #[inline]
    pub(crate) fn bytes_goal<'k>(&self, key: Key<'k>) -> Goal<'k> {
        KeyGoal { hash: key.hash_or(|bytes| self.shared.kind.hash(bytes)), key: key.bytes() }
    }

    /// The hashes of `n` keys, at most 64.
    #[inline]
    pub(crate) fn hashes<'k>(&self, n: usize, key: impl Fn(usize) -> &'k [u8]) -> [u64; 64] {
        let mut hashes = [0; 64];
        self.shared.kind.hash_all(key, &mut hashes[..n]);
        hashes
    }

    fn make(
        &mut self,
        goal: Goal<'_>,
        value: Content<'_>,
        expire_at: Option<u64>,
        version: Option<u64>,
    ) -> Item {
        let checksum = self.shared.kind.checksum != Checksum::Off;
        let parts = Parts { hash: goal.hash, key: goal.key, value, expire_at, version, checksum };
        parts.check();
        let is_long = match value {
            Content::Word { .. } => false,
            Content::Bytes { bytes, .. } => bytes.len() > LONG_LEN && !checksum,
            Content::Block { .. } => true,
        };
        if is_long {
            return self.make_long(&parts);
        }
        let block = self.alloc(parts.size());
        // SAFETY: the block is fresh, 8-aligned, and as large as the parts say.
        unsafe { parts.write(block) }
    }

    /// Makes an item whose value is in a block, unless items have checksums.
    #[cold]
    #[inline(never)]
    fn make_long(&mut self, parts: &Parts<'_>) -> Item {
        let copied;
        // A block of another index is counted by that index, so copy it.
        let is_ours = |block: BlockRef<'_>| block.is_of(&self.shared.blocks);
        let value = match parts.value {
            Content::Block { kind, block } if parts.checksum || !is_ours(block) => {
                assert!(
                    block.object().is_none(),
                    "an object of this index, in one without checksums"
                );
                Content::Bytes { kind, bytes: block.bytes() }
            }
            stored => stored,
        };
        let value = match value {
            Content::Bytes { .. } if parts.checksum => value,
            Content::Bytes { kind, bytes } => {
                copied = Block::copy_of(&self.shared.blocks, bytes).unwrap_or_else(|_| {
                    let layout = Layout::from_size_align(bytes.len(), PAGE);
                    handle_alloc_error(layout.expect("a value is shorter than the address space"))
                });
                Content::Block { kind, block: copied.lend() }
            }
            stored => stored,
        };
        let parts = Parts { value, ..*parts };
        // Also counts a copy of an item, which takes no further pages. Such copies are rare.
        if let Content::Block { block, .. } = value {
            self.took(block.weight());
        }
        let block = self.alloc(parts.size());
        // SAFETY: the block is fresh, 8-aligned, and as large as the parts say.
        unsafe { parts.write(block) }
    }

    /// The live, unexpired item of a key, by the search of writers. Removes an expired item on the way.
    fn find_live(&mut self, goal: Goal<'_>, bucket: E::Bucket, now: u64) -> Found<E::Position<'s>> {
        loop {
            let found = E::find(self, goal, bucket);
            match found.hit {
                Some(hit) if is_expired(self.kind(), hit.item, now) => {
                    self.kill_expired(goal, bucket, hit, &found, now);
                }
                _ => return found,
            }
        }
    }

    /// Removes an expired item: first prevents its renewal, then marks it.
    fn kill_expired(
        &mut self,
        goal: Goal<'_>,
        bucket: E::Bucket,
        hit: Hit,
        found: &Found<E::Position<'s>>,
        now: u64,
    ) -> bool {
        (wrong!(self, NoDoom) || doom(self.kind(), hit.item, now))
            && E::kill(self, goal, bucket, found)
    }

    /// Stores a value unconditionally. True if it replaced a live entry.
    pub(crate) fn put_blind(
        &mut self,
        goal: Goal<'_>,
        value: Content<'_>,
        expire_at: Option<u64>,
        now: u64,
    ) -> bool {
        if let Some(hit) = E::probe(self, goal)
            && !is_expired(self.kind(), hit.item, now)
        {
            if expire_at.is_none() && write_word(hit, value, None) == Written::Yes {
                self.accessed(goal.hash, hit);
                return true;
            }
            if self.may_replace_without_pred() && stays_live(self.kind(), hit.item, now) {
                let copy = self.make(goal, value, expire_at, None);
                self.mark(copy, Some(hit));
                let bucket = E::bucket(self, goal.hash);
                if E::replace(self, goal, bucket, hit, copy, None) {
                    E::rewritten(self, copy, None);
                    return true;
                }
                self.discard(copy);
            }
        }
        self.put_by_walk(goal, value, expire_at, now)
    }

    fn put_by_walk(
        &mut self,
        goal: Goal<'_>,
        value: Content<'_>,
        expire_at: Option<u64>,
        now: u64,
    ) -> bool {
        let bucket = E::bucket(self, goal.hash);
        let suspects = self.suspects();
        let mut reservation = E::Reservation::default();
        let mut new = None;
        let existed = loop {
            let found = self.find_live(goal, bucket, now);
            let Some(hit) = found.hit else {
                let item = *new.get_or_insert_with(|| self.make(goal, value, expire_at, None));
                self.mark(item, None);
                if E::link(self, goal, bucket, &found, item, &mut reservation) {
                    new = None;
                    self.note_entered(goal.hash);
                    break false;
                }
                continue;
            };
            if expire_at.is_none() && write_word(hit, value, None) == Written::Yes {
                self.accessed(goal.hash, hit);
                break true;
            }
            if !stays_live(self.kind(), hit.item, now) {
                continue;
            }
            let copy = *new.get_or_insert_with(|| self.make(goal, value, expire_at, None));
            self.mark(copy, Some(hit));
            if E::replace(self, goal, bucket, hit, copy, Some(&found)) {
                new = None;
                E::rewritten(self, copy, Some(&found));
                break true;
            }
        };
        if let Some(item) = new {
            self.discard(item);
        }
        reservation.give_back(self, bucket);
        self.remove_suspects(goal, suspects) || existed
    }

    /// Whether a replacement may skip the search for the predecessor. If accesses count for predecessors (the
    /// paper's mode), a write must know the predecessor.
    fn may_replace_without_pred(&self) -> bool {
        self.shared.config.strategy != Strategy::Sampling
            || self.shared.config.rcu_counts == RcuCounts::Item
    }

    pub(crate) fn update<'x, R>(
        &mut self,
        goal: Goal<'_>,
        now: u64,
        mut decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        let bucket = E::bucket(self, goal.hash);
        let suspects = self.suspects();
        loop {
            let probed = E::probe(self, goal).filter(|hit| {
                self.may_replace_without_pred() && !is_expired(self.kind(), hit.item, now)
            });
            let (hit, found) = match probed {
                Some(hit) => (Some(hit), None),
                None => {
                    let found = self.find_live(goal, bucket, now);
                    (found.hit, Some(found))
                }
            };
            let Some(hit) = hit else {
                let found = found.expect("a probe that finds nothing is followed by a walk");
                let (action, result) = decide(None);
                if !self.vouches_for_absence(goal, suspects) {
                    return result;
                }
                if self.apply_to_absent(goal, bucket, &found, action) {
                    return result;
                }
                continue;
            };
            if !self.vouches(goal.key, hit.item) {
                // The closure must see the absent key, but nothing may be changed.
                return decide(None).1;
            }
            let seen = Seen::of(hit);
            if seen.is_past(now) {
                continue;
            }
            let (action, result) = decide(Some(seen.entry()));
            if self.apply(goal, bucket, seen, found.as_ref(), action) {
                return result;
            }
        }
    }

    fn apply_to_absent(
        &mut self,
        goal: Goal<'_>,
        bucket: E::Bucket,
        found: &Found<E::Position<'s>>,
        action: Action<'_>,
    ) -> bool {
        let Action::Put { value, expiry } = action else {
            E::accessed(self, goal.hash, None, 1);
            return true;
        };
        let expire_at = match expiry {
            Expiry::At(at) => Some(at.max(1)),
            Expiry::Never | Expiry::Keep => None,
        };
        let item = self.make(goal, value.content(), expire_at, None);
        self.mark(item, None);
        let mut reservation = E::Reservation::default();
        let linked = E::link(self, goal, bucket, found, item, &mut reservation);
        if !linked {
            // Free the item before `decide` runs again, because `decide` may panic.
            reservation.give_back(self, bucket);
            self.discard(item);
        } else {
            self.note_entered(goal.hash);
        }
        linked
    }

    /// Records an access by a write that kept the item.
    fn accessed(&mut self, hash: u64, hit: Hit) {
        E::accessed(self, hash, Some(hit), 1);
        self.mark_access(hit);
    }

    /// Carries out a decision based on `seen`. False if the item has changed since.
    fn apply(
        &mut self,
        goal: Goal<'_>,
        bucket: E::Bucket,
        seen: Seen,
        found: Option<&Found<E::Position<'s>>>,
        action: Action<'_>,
    ) -> bool {
        let hit = seen.hit;
        match action {
            Action::Keep => {
                self.accessed(goal.hash, hit);
                true
            }
            Action::Put { value, expiry } => {
                if seen.may_stay(expiry) {
                    match write_word(hit, value.content(), seen.word) {
                        Written::Yes => {
                            self.accessed(goal.hash, hit);
                            return true;
                        }
                        Written::Changed => return false,
                        Written::NeedsCopy => {}
                    }
                }
                let expire_at = seen.next_expiry(expiry);
                self.replace_seen(goal, bucket, seen, found, value.content(), expire_at)
            }
            Action::Expire(expiry) => {
                if let Some(done) = seen.expire_in_place(expiry) {
                    self.accessed(goal.hash, hit);
                    return done;
                }
                let (value, expire_at) = (seen.entry().content(), seen.next_expiry(expiry));
                self.replace_seen(goal, bucket, seen, found, value, expire_at)
            }
            Action::Remove => self.remove_seen(goal, bucket, seen),
        }
    }

    fn replace_seen(
        &mut self,
        goal: Goal<'_>,
        bucket: E::Bucket,
        seen: Seen,
        found: Option<&Found<E::Position<'s>>>,
        value: Content<'_>,
        expire_at: Option<u64>,
    ) -> bool {
        if !wrong!(self, NoFreeze) && !seen.freeze() {
            return false;
        }
        let copy = self.make(goal, value, expire_at, None);
        self.put_copy(goal, bucket, seen, found, copy)
    }

    fn put_copy(
        &mut self,
        goal: Goal<'_>,
        bucket: E::Bucket,
        seen: Seen,
        found: Option<&Found<E::Position<'s>>>,
        copy: Item,
    ) -> bool {
        let hit = seen.hit;
        self.mark(copy, Some(hit));
        if !E::replace(self, goal, bucket, hit, copy, found) {
            self.discard(copy);
            return false;
        }
        E::rewritten(self, copy, found);
        true
    }

    fn remove_seen(&mut self, goal: Goal<'_>, bucket: E::Bucket, seen: Seen) -> bool {
        let found = E::find(self, goal, bucket);
        if found.hit.is_none_or(|hit| hit.item != seen.hit.item) {
            return false;
        }
        if !wrong!(self, NoFreeze) && !seen.freeze() {
            return false;
        }
        E::kill(self, goal, bucket, &found)
    }

    pub(crate) fn remove(&mut self, goal: Goal<'_>, now: u64) -> bool {
        let bucket = E::bucket(self, goal.hash);
        let suspects = self.suspects();
        loop {
            let found = self.find_live(goal, bucket, now);
            let Some(hit) = found.hit else { return self.remove_suspects(goal, suspects) };
            if stays_live(self.kind(), hit.item, now) && E::kill(self, goal, bucket, &found) {
                self.remove_suspects(goal, suspects);
                return true;
            }
        }
    }

    /// The item's version. An item without a version is replaced with a copy that has one.
    pub(crate) fn version(&mut self, goal: Goal<'_>, now: u64) -> Option<u64> {
        let bucket = E::bucket(self, goal.hash);
        let suspects = self.suspects();
        loop {
            let found = self.find_live(goal, bucket, now);
            let Some(hit) = found.hit else {
                self.vouches_for_absence(goal, suspects);
                return None;
            };
            if !self.vouches(goal.key, hit.item) {
                return None;
            }
            if let Some(version) = version_of(hit.item) {
                return Some(version);
            }
            let seen = Seen::of(hit);
            if !seen.freeze() {
                continue;
            }
            let version = self.fresh_version();
            let entry = seen.entry();
            let copy = self.make(goal, entry.content(), entry.expire_at, Some(version));
            if self.put_copy(goal, bucket, seen, Some(&found), copy) {
                return Some(version);
            }
        }
    }
}
