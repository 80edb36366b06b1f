//! Walking the whole ring: scans with a cursor, random picks, removal of everything.

use crate::ring::item::Kind;
use crate::ring::search::{AnchorGoal, Hit};
use crate::ring::session::{Pinned, Session};
use crate::ring::word::{Link, MARK, Next, REPL};
use crate::sync::Ordering;

/// Items handled under one pin when the whole ring is walked.
const STEP: usize = 1024;
/// Anchors that cost as much as an item to pass: a table that has become sparse holds nobody up.
const ANCHORS_AN_ITEM: usize = 8;

impl<K: Kind, const H: usize> Pinned<'_, K, H> {
    /// Visits live items from the position `cursor` on until `f`'s returns add up to `count`, and
    /// then the rest of those with the same hash; or fewer, where the table is sparse. Returns
    /// where to go on, 0 at the end, and the work that it was, in items.
    ///
    /// A cursor is a hash with its bits reversed: the ring's own order, which growth leaves alone.
    pub(crate) fn scan(
        &mut self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&mut Self, Hit) -> usize,
    ) -> (u64, usize) {
        let count = count.max(1);
        let from = cursor.reverse_bits();
        let bucket = self.bucket(from);
        let found = self.find(&AnchorGoal(from), bucket);
        let mut link = found.at;
        let (mut visited, mut anchors) = (0, 0);
        let work = |visited: usize, anchors: usize| visited + anchors / ANCHORS_AN_ITEM;
        let mut last = None;
        while link != Link::END {
            // ORDERING: Acquire pairs with the CAS that linked or marked the node.
            let word = Next(self.next(link).load(Ordering::Acquire));
            if link.is_anchor() {
                anchors += 1;
                // An anchor's position is that of its slot number.
                if anchors > ANCHORS_AN_ITEM.saturating_mul(count) && link != found.at {
                    return (link.slot().reverse_bits(), work(visited, anchors));
                }
            } else if !word.is(MARK) {
                let item = self.item(link);
                let hash = self.ring.kind.item_hash(item);
                if visited >= count && last != Some(hash) {
                    return (hash.reverse_bits(), work(visited, anchors));
                }
                last = Some(hash);
                visited += f(self, Hit { item, word });
            }
            link = word.link();
        }
        (0, work(visited, anchors))
    }

    /// One of the next few items from `cursor` on that `usable` accepts, if there is one within a
    /// step, and where that step ended.
    pub(crate) fn pick(
        &mut self,
        cursor: u64,
        random: u64,
        usable: impl Fn(&mut Self, Hit) -> bool,
    ) -> (u64, Option<Hit>) {
        // Not always the first one: an item after a gap would be picked more often than others.
        let mut skip = random.rotate_right(17) % 8;
        let mut picked = None;
        let (next, _) = self.scan(cursor, STEP, |pinned, hit| {
            if !usable(pinned, hit) {
                return 1;
            }
            picked = Some(hit);
            if skip == 0 {
                return STEP;
            }
            skip -= 1;
            1
        });
        (next, picked)
    }
}

impl<K: Kind, const H: usize> Session<K, H> {
    pub(crate) fn clear_ring(&mut self) {
        let mut cursor = 0u64;
        loop {
            let mut pinned = self.pin();
            let from = pinned.bucket(cursor.reverse_bits());
            (cursor, _) = pinned.scan(cursor, STEP, |pinned, hit| {
                pinned.kill_present(hit);
                1
            });
            pinned.sweep(from, cursor);
            drop(pinned);
            if cursor == 0 {
                return;
            }
        }
    }
}

impl<K: Kind, const H: usize> Pinned<'_, K, H> {
    /// Takes dead items out of the chain from bucket `from` up to the position `cursor`.
    pub(crate) fn sweep(&mut self, from: u64, cursor: u64) {
        let last = cursor.wrapping_sub(1).reverse_bits();
        self.find_from(&AnchorGoal(last), from, false);
    }

    /// Kills the item, or the version that has replaced it meanwhile.
    fn kill_present(&mut self, mut hit: Hit) {
        while !self.kill_at(hit) {
            // ORDERING: Acquire pairs with the CAS that marked it.
            let dead = Next(hit.item.next().load(Ordering::Acquire));
            if !dead.is(REPL) {
                return;
            }
            // A replaced item's successor is its copy, for good (I1).
            let item = self.item(dead.link());
            // ORDERING: Acquire, as for every step of a walk.
            hit = Hit { item, word: Next(item.next().load(Ordering::Acquire)) };
        }
    }

    /// Marks an item dead wherever it is, again and again if its word changes; the unlinking is
    /// left to a walk. False: it was dead already.
    pub(crate) fn kill_at(&mut self, hit: Hit) -> bool {
        let next = hit.item.next();
        let mut word = hit.word;
        while !word.is(MARK) {
            // ORDERING: AcqRel, as in `kill`; Acquire on failure, the word is used again.
            match next.compare_exchange_weak(
                word.0,
                word.0 | MARK,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    self.record().items.add(-1);
                    if K::expires(hit.item) {
                        self.record().expiring.add(-1);
                    }
                    self.consider_shrinking();
                    return true;
                }
                Err(now) => word = Next(now),
            }
        }
        false
    }
}
