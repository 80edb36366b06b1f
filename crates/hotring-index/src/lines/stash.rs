//! The stash: a tree behind a lock, for keys that found no free lane in any line of their home's
//! sequence.
//!
//! At ordinary load the stash is empty. A client that knows the seed can choose keys with neighbouring hashes, of
//! which all but the first 60 of a home go to the stash. Each then costs a lock and a walk of up to 64 steps, but the
//! table does not grow without end.
//!
//! The tree is a *digital search tree*: each node has a hash, and all hashes below a node of depth `d` share its first
//! `d` bits. So the tree needs no balancing, no choice of hashes makes it deeper than a hash has bits, and an insert
//! only appends a node.
//!
//! Code under the lock must not allocate or free, because threads that hold the LOCK of a home wait for it: nodes come
//! from a [`Spare`] that was filled before, and go back to a `Spare`.

use super::bits::HASH_BITS;
use crate::core::sync::spin::SpinMutex;
use std::mem::take;
use std::ops::RangeInclusive;

/// The stash of one table, by hash.
#[derive(Default)]
pub(super) struct Stash {
    items: SpinMutex<Items>,
}

#[derive(Default)]
struct Items {
    root: Tree,
    len: usize,
}

type Tree = Option<Box<Node>>;

struct Node {
    hash: u64,
    item: Stashed,
    /// The children, by the next bit of the hash.
    below: [Tree; 2],
}

/// A value in the stash.
#[derive(Clone, Copy)]
pub(super) struct Stashed {
    pub(super) value: u64,
    /// Like FROZEN of a lane: the item is being moved and must not change.
    pub(super) is_frozen: bool,
}

/// The fewest nodes that a thread allocates at a time, and the most that it keeps.
const SPARE_MORE: usize = if cfg!(loom) { 1 } else { 16 };
const SPARE_MAX: usize = 4 * SPARE_MORE;

/// Nodes that a thread has allocated for a stash.
#[derive(Default)]
pub(super) struct Spare {
    /// A list: each node is below the previous one.
    first: Tree,
    len: usize,
}

/// A decision about an item.
#[derive(Clone, Copy)]
pub(super) enum Decision {
    Keep,
    Write(u64),
    Remove,
}

impl Spare {
    /// Allocates nodes, more each time. Must not be called under a LOCK.
    #[cold]
    pub(super) fn fill(&mut self) {
        for _ in 0..self.len + SPARE_MORE {
            let item = Stashed { value: 0, is_frozen: false };
            self.put(Box::new(Node { hash: 0, item, below: [None, None] }));
        }
    }

    /// Frees the nodes above `SPARE_MAX`. Must not be called under a LOCK.
    #[inline(always)]
    pub(super) fn trim(&mut self) {
        if self.len > SPARE_MAX {
            self.free(SPARE_MAX);
        }
    }

    #[cold]
    #[inline(never)]
    fn free(&mut self, kept: usize) {
        while self.len > kept {
            drop(self.take());
        }
    }

    fn put(&mut self, mut node: Box<Node>) {
        node.below = [self.first.take(), None];
        self.first = Some(node);
        self.len += 1;
    }

    fn take(&mut self) -> Tree {
        let mut node = self.first.take()?;
        self.first = node.below[0].take();
        self.len -= 1;
        Some(node)
    }
}

impl Drop for Spare {
    /// Frees the nodes one by one: a recursive drop of a long list would overflow the call stack.
    fn drop(&mut self) {
        self.free(0);
    }
}

impl Stash {
    pub(super) fn get(&self, hash: u64) -> Option<Stashed> {
        self.items.lock().find(hash).map(|item| *item)
    }

    /// Must be called under the LOCK of the hash's home; the hash must be absent. False: there is no spare node.
    #[must_use]
    pub(super) fn insert(&self, hash: u64, item: Stashed, spare: &mut Spare) -> bool {
        let Some(mut node) = spare.take() else { return false };
        (node.hash, node.item) = (hash, item);
        let mut items = self.items.lock();
        debug_assert!(items.find(hash).is_none());
        *items.link(hash) = Some(node);
        items.len += 1;
        true
    }

    /// Changes an item if it has this value and is not frozen. False: try again.
    pub(super) fn change(
        &self,
        hash: u64,
        old: u64,
        decision: Decision,
        spare: &mut Spare,
    ) -> bool {
        let mut items = self.items.lock();
        let Some(item) = items.find(hash).filter(|item| item.value == old && !item.is_frozen)
        else {
            return false;
        };
        match decision {
            Decision::Keep => {}
            Decision::Write(value) => item.value = value,
            Decision::Remove => items.remove(hash, spare),
        }
        true
    }

    /// Unfreezes a copy, which is the only one left. False: it is not in the stash.
    pub(super) fn thaw(&self, hash: u64) -> bool {
        let mut items = self.items.lock();
        items.find(hash).map(|item| item.is_frozen = false).is_some()
    }

    /// Freezes the first item of these hashes; returns it as it was.
    pub(super) fn freeze(&self, hashes: &RangeInclusive<u64>) -> Option<(u64, Stashed)> {
        let mut items = self.items.lock();
        let hash = first(&items.root, hashes, 0, 0)?;
        let item = items.find(hash)?;
        let before = *item;
        item.is_frozen = true;
        Some((hash, before))
    }

    /// The first of these hashes that is in the stash.
    pub(super) fn first(&self, hashes: &RangeInclusive<u64>) -> Option<u64> {
        first(&self.items.lock().root, hashes, 0, 0)
    }

    /// Calls `see` with each item of these hashes, in any order, under the lock.
    pub(super) fn each(&self, hashes: &RangeInclusive<u64>, mut see: impl FnMut(u64, u64)) {
        each(&self.items.lock().root, hashes, 0, 0, &mut see);
    }

    /// Removes an item, frozen or not.
    pub(super) fn remove(&self, hash: u64, spare: &mut Spare) {
        self.items.lock().remove(hash, spare);
    }

    pub(super) fn len(&self) -> usize {
        self.items.lock().len
    }
}

impl Items {
    /// The link at which the node of a hash is, or would be.
    fn link(&mut self, hash: u64) -> &mut Tree {
        let (mut link, mut depth) = (&mut self.root, 0);
        while link.as_ref().is_some_and(|node| node.hash != hash) {
            let node = link.as_mut().expect("it was just looked at");
            link = &mut node.below[bit(hash, depth)];
            depth += 1;
        }
        link
    }

    fn find(&mut self, hash: u64) -> Option<&mut Stashed> {
        self.link(hash).as_mut().map(|node| &mut node.item)
    }

    fn remove(&mut self, hash: u64, spare: &mut Spare) {
        let link = self.link(hash);
        let Some(mut node) = link.take() else { return };
        // Any leaf below shares the bits that this position requires.
        if let Some(mut leaf) = take_leaf(&mut node) {
            leaf.below = take(&mut node.below);
            *link = Some(leaf);
        }
        spare.put(node);
        self.len -= 1;
    }
}

/// The bit of a hash that selects the child of a node of this depth.
fn bit(hash: u64, depth: u32) -> usize {
    (hash >> (HASH_BITS - 1 - depth) & 1) as usize
}

/// Removes a leaf from below a node; None if the node is itself a leaf.
fn take_leaf(node: &mut Node) -> Tree {
    let below = node.below.iter_mut().find(|below| below.is_some())?;
    let leaf = below.as_mut().and_then(|node| take_leaf(node));
    leaf.or_else(|| below.take())
}

/// Whether a subtree of this depth can contain any of these hashes; `least` is the least hash that it can contain.
fn may_have(least: u64, depth: u32, hashes: &RangeInclusive<u64>) -> bool {
    let most = least | (u64::MAX >> (64 - HASH_BITS)).checked_shr(depth).unwrap_or(0);
    least <= *hashes.end() && *hashes.start() <= most
}

/// The least hash that the child of a node in this direction can contain.
fn least_below(least: u64, depth: u32, way: u64) -> u64 {
    least | way << (HASH_BITS - 1 - depth)
}

fn first(tree: &Tree, hashes: &RangeInclusive<u64>, least: u64, depth: u32) -> Option<u64> {
    let node = tree.as_ref().filter(|_| may_have(least, depth, hashes))?;
    let below = (0..2).find_map(|way| {
        let tree = &node.below[way as usize];
        tree.as_ref()?;
        first(tree, hashes, least_below(least, depth, way), depth + 1)
    });
    let own = Some(node.hash).filter(|hash| hashes.contains(hash));
    below.into_iter().chain(own).min()
}

fn each(
    tree: &Tree,
    hashes: &RangeInclusive<u64>,
    least: u64,
    depth: u32,
    see: &mut impl FnMut(u64, u64),
) {
    let Some(node) = tree.as_ref().filter(|_| may_have(least, depth, hashes)) else { return };
    if hashes.contains(&node.hash) {
        see(node.hash, node.item.value);
    }
    for (way, tree) in (0..2).zip(&node.below).filter(|(_, tree)| tree.is_some()) {
        each(tree, hashes, least_below(least, depth, way), depth + 1, see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn a_stash_agrees_with_a_map() {
        for seed in 0..20 {
            let mut random = Rng::with_seed(seed);
            let (stash, mut spare, mut model) =
                (Stash::default(), Spare::default(), BTreeMap::new());
            // Neighbours, which share all but their last bits, and others.
            let mask = [0x3ff, u64::MAX, 0xff << 56 | 0xf][seed as usize % 3];
            for step in 0..5000 {
                let hash = random.u64(..) & mask;
                if random.bool() && !model.contains_key(&hash) {
                    if spare.len == 0 {
                        spare.fill();
                    }
                    let item = Stashed { value: step, is_frozen: false };
                    assert!(stash.insert(hash, item, &mut spare));
                    model.insert(hash, step);
                } else if let Some((&hash, _)) = model.range(hash..).next() {
                    stash.remove(hash, &mut spare);
                    model.remove(&hash);
                }
                let other = random.u64(..) & mask;
                let hashes = hash.min(other)..=hash.max(other);
                let mut met = Vec::new();
                stash.each(&hashes, |hash, value| met.push((hash, value)));
                met.sort_unstable();
                let range = || model.range(hashes.clone()).map(|(hash, value)| (*hash, *value));
                assert_eq!(met, range().collect::<Vec<_>>(), "seed {seed}, step {step}");
                assert_eq!(stash.first(&hashes), range().next().map(|(hash, _)| hash));
                assert_eq!(stash.get(other).map(|item| item.value), model.get(&other).copied());
                assert_eq!(stash.len(), model.len());
            }
        }
    }
}
