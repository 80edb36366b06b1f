//! The search of writers: it starts at a bucket's anchor or head, walks to the key's position, and unlinks
//! dead items on its way.

use crate::core::hooks::sometimes;
use crate::core::item::{Item, Kind};
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{Hint, Link, MARK, Next, REPL, ring_cmp};
use crate::engine::KeyGoal;
use crate::ring::Ring;
use crate::session::Pinned;
use std::cmp;

/// A position in the ring's order.
pub(crate) trait Goal<K: Kind> {
    fn hash(&self) -> u64;
    /// Compares an item's position with the goal.
    fn cmp_item(&self, kind: &K, item: Item) -> cmp::Ordering;
    /// Compares the position of a slot's anchor with the goal.
    fn cmp_anchor(&self, slot: u64) -> cmp::Ordering;
}

impl<K: Kind> Goal<K> for KeyGoal<'_, K> {
    #[inline(always)]
    fn hash(&self) -> u64 {
        self.hash
    }

    #[inline(always)]
    fn cmp_item(&self, kind: &K, item: Item) -> cmp::Ordering {
        self.order_of(kind, item)
    }

    #[inline(always)]
    fn cmp_anchor(&self, slot: u64) -> cmp::Ordering {
        // An anchor precedes the items that hash to its slot number.
        ring_cmp(slot, self.hash).then(cmp::Ordering::Less)
    }
}

/// The position of an anchor: before every item of its bucket. Also the position of a scan's cursor.
pub(crate) struct AnchorGoal(pub(crate) u64);

impl<K: Kind> Goal<K> for AnchorGoal {
    fn hash(&self) -> u64 {
        self.0
    }

    fn cmp_item(&self, kind: &K, item: Item) -> cmp::Ordering {
        ring_cmp(kind.item_hash(item), self.0).then(cmp::Ordering::Greater)
    }

    fn cmp_anchor(&self, slot: u64) -> cmp::Ordering {
        ring_cmp(slot, self.0)
    }
}

/// The position where a writer's walk ended.
pub struct Found<'s> {
    /// The `next` word of the last live node before the goal, that node's link, and the word's value as read.
    pub(crate) pred: &'s AtomicU64,
    pub(crate) pred_link: Link,
    pub(crate) pred_word: Next,
    /// The first live node that is not before the goal.
    pub(crate) at: Link,
    /// That node's word, if it is an item.
    pub(crate) word: Next,
    /// Whether that node is the goal itself.
    pub(crate) exact: bool,
}

impl<'s, K: Kind, const H: usize> Pinned<'s, K, Ring<H>> {
    /// The slot with the nearest usable anchor before `hash`. Splits the bucket on first use.
    #[inline(always)]
    pub(crate) fn bucket(&mut self, hash: u64) -> u64 {
        let index = hash & self.engine.table.mask();
        // ORDERING: Acquire pairs with the AcqRel that clears BUSY: a usable anchor is linked (I7).
        let word = Next(self.engine.table.slot(index).anchor.load(Ordering::Acquire));
        if self.is_start(word) { index } else { self.bucket_or_parent(index) }
    }

    /// The bucket, which is split off if it is new, or its nearest usable ancestor.
    #[cold]
    pub(crate) fn bucket_or_parent(&mut self, mut index: u64) -> u64 {
        while index != 0 {
            // ORDERING: Acquire, as in `bucket`.
            let word = Next(self.engine.table.slot(index).anchor.load(Ordering::Acquire));
            if word.is_start() || (word.0 == 0 && self.split(index)) {
                return index;
            }
            sometimes!(SplitBusy);
            index = parent(index);
        }
        0
    }

    /// The walk of writers: unlinks dead items on its way, and restarts when another session interferes.
    pub(crate) fn find(&mut self, goal: &impl Goal<K>, bucket: u64) -> Found<'s> {
        self.find_from(goal, bucket, H == 1)
    }

    /// As `find`; with `from_head` the walk may start at the bucket's head and skip the items before it.
    pub(crate) fn find_from(
        &mut self,
        goal: &impl Goal<K>,
        bucket: u64,
        mut from_head: bool,
    ) -> Found<'s> {
        'start: loop {
            let (mut pred_link, mut pred_word) = self.start(goal, bucket, from_head);
            from_head = false;
            loop {
                let pred = self.next(pred_link);
                let (at, word) = self.skip_dead(pred_word.link());
                if at != pred_word.link() {
                    let after = pred_word.with(at);
                    if !self.cut(pred, pred_word, after) {
                        continue 'start;
                    }
                    self.unlinked_run(pred_word.link(), at);
                    pred_word = after;
                }
                let order = match at {
                    Link::END => cmp::Ordering::Greater,
                    _ if at.is_anchor() => goal.cmp_anchor(at.slot()),
                    _ => goal.cmp_item(&self.shared.kind, self.item(at)),
                };
                if order.is_ge() {
                    let exact = order.is_eq();
                    return Found { pred, pred_link, pred_word, at, word, exact };
                }
                (pred_link, pred_word) = (at, word);
            }
        }
    }

    /// A live node strictly before the goal, and its word.
    fn start(&mut self, goal: &impl Goal<K>, bucket: u64, from_head: bool) -> (Link, Next) {
        let slot = self.engine.table.slot(bucket);
        if from_head {
            // ORDERING: Acquire pairs with the CAS that installed the hint.
            let hint = Hint(slot.hints[0].load(Ordering::Acquire));
            if let Some(item) = self.hinted(hint) {
                // ORDERING: Acquire, as for every step of a walk.
                let word = Next(item.next().load(Ordering::Acquire));
                if word.is(MARK) {
                    if !word.is(REPL) {
                        self.clear_word(bucket, 0, hint, item);
                    }
                } else if goal.cmp_item(&self.shared.kind, item).is_lt() {
                    return (Link::item(item.address()), word);
                }
            }
        }
        // ORDERING: Acquire, as above.
        (Link::anchor(bucket), Next(slot.anchor.load(Ordering::Acquire)))
    }

    /// The first node from `link` on that is not dead, and its word.
    #[inline]
    fn skip_dead(&self, mut link: Link) -> (Link, Next) {
        loop {
            if link == Link::END {
                return (link, Next(0));
            }
            // ORDERING: Acquire pairs with the CAS that linked or marked the node.
            let word = Next(self.next(link).load(Ordering::Acquire));
            if !word.is(MARK) {
                return (link, word);
            }
            link = word.link();
        }
    }

    /// Retires the dead items from `from` up to `to`, which our CAS unlinked, or leaves them to their claims.
    fn unlinked_run(&mut self, from: Link, to: Link) {
        let mut link = from;
        while link != to {
            let dead = link;
            // ORDERING: Relaxed, the successor of a dead node is frozen (I1) and was read before.
            link = Next(self.next(dead).load(Ordering::Relaxed)).link();
            if dead.is_anchor() {
                // The anchor of a slot that a halving discards; an anchor has no memory to retire.
                sometimes!(AnchorCut);
                continue;
            }
            sometimes!(link != to => RunCut);
            self.unlinked(self.item(dead));
        }
    }
}

/// The bucket that a bucket was split from: its number without the top bit.
pub(crate) fn parent(index: u64) -> u64 {
    debug_assert!(index != 0, "bucket 0 has no parent");
    index & !(1 << (63 - index.leading_zeros()))
}
