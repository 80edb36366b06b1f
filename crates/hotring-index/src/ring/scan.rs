//! Scans: walk the entire ring with a cursor.

use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::core::word::{Link, MARK, Next};
use crate::engine::{Engine, Hit, Scan};
use crate::ring::Ring;
use crate::ring::search::AnchorGoal;
use crate::session::Pinned;

/// Passing this many anchors costs as much as an item. This bounds a step in a sparse table.
const ANCHORS_PER_ITEM: usize = 8;
/// Anchors that a step may pass for any count. So one step scans an entire table of the initial size: clients of
/// a small store expect a single step to find all keys.
const ANCHORS_MIN: usize = 1 << 10;

impl<const H: usize> Scan for Ring<H> {
    /// A step never separates the items of one hash. The position is the ring's own order.
    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize) {
        let count = count.max(1);
        let from = cursor.reverse_bits();
        let bucket = p.bucket(from);
        let found = p.find(&AnchorGoal(from), bucket);
        let mut link = found.at;
        let anchors_max = ANCHORS_PER_ITEM.saturating_mul(count).max(ANCHORS_MIN);
        let (mut visited, mut anchors) = (0, 0);
        let work = |visited: usize, anchors: usize| visited + anchors / ANCHORS_PER_ITEM;
        let mut last = None;
        while link != Link::END {
            // ORDERING: Acquire pairs with the CAS that linked or marked the node.
            let word = Next(p.next(link).load(Ordering::Acquire));
            if link.is_anchor() {
                anchors += 1;
                // An anchor's position is that of its slot number.
                if anchors > anchors_max && link != found.at {
                    return (link.slot().reverse_bits(), work(visited, anchors));
                }
            } else if !word.is(MARK) {
                let item = p.item(link);
                let hash = p.shared.kind.item_hash(item);
                if visited >= count && last != Some(hash) {
                    return (hash.reverse_bits(), work(visited, anchors));
                }
                last = Some(hash);
                visited += f(p, Hit { item, word });
            }
            link = word.link();
        }
        (0, work(visited, anchors))
    }

    fn sweep<K: Kind>(p: &mut Pinned<'_, K, Self>, from: <Self as Engine>::Bucket, to: u64) {
        let last = to.wrapping_sub(1).reverse_bits();
        p.find_from(&AnchorGoal(last), from, false);
    }
}
