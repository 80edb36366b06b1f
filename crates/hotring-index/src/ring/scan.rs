//! Walking the whole ring with a cursor.

use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::core::word::{Link, MARK, Next};
use crate::engine::Hit;
use crate::ring::Ring;
use crate::ring::search::AnchorGoal;
use crate::session::Pinned;

/// Anchors that cost as much as an item to pass: a table that has become sparse holds no session up.
const ANCHORS_AN_ITEM: usize = 8;

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
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
                let hash = self.shared.kind.item_hash(item);
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
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Takes dead items out of the chain from bucket `from` up to the position `cursor`.
    pub(crate) fn sweep(&mut self, from: u64, cursor: u64) {
        let last = cursor.wrapping_sub(1).reverse_bits();
        self.find_from(&AnchorGoal(last), from, false);
    }

    /// Marks an item dead wherever it is, again and again if its word changes; the unlinking is
    /// left to a walk. False: it was dead already.
    pub(crate) fn kill_at(&mut self, hit: Hit) -> bool {
        let next = hit.item.next();
        let mut word = hit.word;
        while !word.is(MARK) {
            // ORDERING: Release, as in `kill`. Relaxed on failure: the next try validates the word.
            match next.compare_exchange_weak(
                word.0,
                word.0 | MARK,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.count_out(hit.item);
                    self.consider_shrinking();
                    return true;
                }
                Err(now) => word = Next(now),
            }
        }
        false
    }
}
