//! A counted B+ tree over packed leaves, whose nodes are shared by clones.
//!
//! ```text
//!   Inner  children  c0   c1   c2        one leaf or inner node each, all of one height
//!          counts    17   40   9         entries below each child: an entry's rank is found by sums
//!          bounds       b1   b2          b2 is above the last entry of c1, at or below the first of c2
//! ```
//! Entries have ranks from 0. An ordered tree is searched by `bounds`, any other tree by `counts`; the leaf type
//! defines the order ([`Leaf::Bound`]).
//!
//! # Invariants
//! * A node changes only while it is not shared. [`Arc::make_mut`] copies a shared node first, so that a clone of the
//!   tree never changes.
//! * No leaf is empty, except the only leaf of an empty tree. The root has at least two children,
//!   if it has any.
//! * `counts` are exact, and so is `below`, for all nodes of this tree, shared or not.

mod build;
mod leaves;

use std::cell::Cell;

use arrayvec::{ArrayVec, Drain};
use triomphe::Arc;

pub(crate) use leaves::Leaves;

/// Children of an inner node.
const CHILDREN_MAX: usize = 64;
/// Capacity of an inner node: a node with this many children is split at once.
const ROOM: usize = CHILDREN_MAX + 1;
/// A node with fewer children is merged with a neighbour, if both fit in one node.
const CHILDREN_MIN: usize = 16;
/// The most children of a merged node, so that it does not split again at once.
const MERGED_MAX: usize = 48;

/// The most bytes of a leaf with more than one entry.
const BYTES_MAX: usize = 2048;

/// Packed entries.
pub(crate) trait Leaf: Clone + Default + Send + Sync + 'static {
    /// The key that separates a leaf from its left neighbour; `()` if entries have no order.
    type Bound: Clone + Send + Sync;

    /// Most entries of a leaf.
    const LEN_MAX: usize;

    /// Number of entries.
    fn len(&self) -> usize;

    /// The entries, one behind the other.
    fn data(&self) -> &Vec<u8>;

    /// Bytes of memory that its entries take.
    fn heap(&self) -> usize {
        self.data().capacity()
    }

    /// Whether the leaf must be split, if it can be.
    fn is_full(&self) -> bool {
        self.len() > Self::LEN_MAX || (self.data().len() > BYTES_MAX && self.len() > 1)
    }

    /// Whether a bulk build must begin the next leaf.
    fn is_filled(&self) -> bool {
        self.len() >= Self::LEN_MAX * 3 / 4 || self.data().len() >= BYTES_MAX * 3 / 4
    }

    /// Whether the leaf must be merged with a neighbour, if both fit in one leaf.
    fn is_sparse(&self) -> bool {
        self.len() < Self::LEN_MAX / 4 && self.data().len() < BYTES_MAX / 4
    }

    /// Whether both leaves fit in one leaf with space for more entries.
    fn fits_with(&self, right: &Self) -> bool {
        self.len() + right.len() <= Self::LEN_MAX * 3 / 4
            && self.data().len() + right.data().len() <= BYTES_MAX * 3 / 4
    }

    /// Moves the upper part to a new leaf, and returns it with its bound. None if the entries cannot be separated.
    fn split(&mut self, edge: Edge) -> Option<(Self::Bound, Self)>;

    /// Appends a right neighbour's entries.
    fn absorb(&mut self, right: &Self);

    /// Removes `n` entries from the one at `at` on.
    fn remove_run(&mut self, at: usize, n: usize);
}

/// The position in the tree of a leaf that is split. A leaf that grows at an end of the tree will grow there again, so
/// the part that stays behind is left full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    Start,
    Middle,
    End,
}

enum Node<L: Leaf> {
    Leaf(Arc<L>),
    Inner(Arc<Inner<L>>),
}

/// An inner node; the module's header has a picture.
pub(crate) struct Inner<L: Leaf> {
    pub(crate) counts: ArrayVec<usize, ROOM>,
    pub(crate) bounds: ArrayVec<L::Bound, ROOM>,
    children: ArrayVec<Node<L>, ROOM>,
    /// Bytes of all nodes below.
    below: usize,
}

/// The tree. Clone: O(1), shares all nodes.
pub(crate) struct Tree<L: Leaf> {
    root: Node<L>,
    len: usize,
}

impl<L: Leaf> Clone for Node<L> {
    fn clone(&self) -> Self {
        match self {
            Node::Leaf(leaf) => Node::Leaf(leaf.clone()),
            Node::Inner(inner) => Node::Inner(inner.clone()),
        }
    }
}

impl<L: Leaf> Clone for Inner<L> {
    fn clone(&self) -> Self {
        Inner {
            children: self.children.clone(),
            counts: self.counts.clone(),
            bounds: self.bounds.clone(),
            below: self.below,
        }
    }
}

impl<L: Leaf> Clone for Tree<L> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone(), len: self.len }
    }
}

impl<L: Leaf> Default for Tree<L> {
    fn default() -> Self {
        Tree { root: Node::Leaf(Arc::new(L::default())), len: 0 }
    }
}

impl<L: Leaf> Node<L> {
    /// Bytes of this node and all below. O(1)
    fn bytes(&self) -> usize {
        match self {
            Node::Leaf(_) => self.own_bytes(),
            Node::Inner(inner) => self.own_bytes() + inner.below,
        }
    }

    /// Bytes of this node alone.
    fn own_bytes(&self) -> usize {
        match self {
            Node::Leaf(leaf) => COUNT + size_of::<L>() + leaf.heap(),
            Node::Inner(_) => COUNT + size_of::<Inner<L>>(),
        }
    }

    /// Entries of this node and all below.
    fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Inner(inner) => inner.counts.iter().sum(),
        }
    }

    fn is_sparse(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_sparse(),
            Node::Inner(inner) => inner.children.len() < CHILDREN_MIN,
        }
    }

    /// Restores the invariants along `path` after a change of the leaf at its end: counts, byte totals and the sizes
    /// of nodes. The leaf had `leaf_bytes` before and may be too full or too sparse. Returns the number of entries in
    /// the subtree, and the part that was split off, if any.
    fn mend(&mut self, leaf_bytes: usize, edges: Edges, path: &[u8]) -> (usize, Option<Split<L>>) {
        match self {
            Node::Leaf(leaf) => {
                let leaf = Arc::make_mut(leaf);
                let split = if leaf.is_full() { leaf.split(edges.edge()) } else { None };
                let split = split.map(|(bound, right)| (bound, Node::Leaf(Arc::new(right))));
                (leaf.len(), split)
            }
            Node::Inner(inner) => Arc::make_mut(inner).mend(leaf_bytes, edges, path),
        }
    }

    /// Removes the entries of ranks `from..to`, which must not be all entries of the node. Nodes
    /// that are removed entirely are pushed to `gone`.
    fn cut(&mut self, from: usize, to: usize, gone: &mut Vec<Node<L>>) {
        match self {
            Node::Leaf(leaf) => Arc::make_mut(leaf).remove_run(from, to - from),
            Node::Inner(inner) => Arc::make_mut(inner).cut(from, to, gone),
        }
    }
}

/// A node that was split off, and its bound.
type Split<L> = (<L as Leaf>::Bound, Node<L>);

/// The index of the child in each inner node, from the root to a leaf. Each node but the lowest has
/// at least two children.
type Path = ArrayVec<u8, { usize::BITS as usize }>;

/// Whether a node lies at the start of the tree, and at its end.
#[derive(Clone, Copy)]
struct Edges {
    start: bool,
    end: bool,
}

impl Edges {
    fn edge(self) -> Edge {
        match self {
            Edges { end: true, .. } => Edge::End,
            Edges { start: true, .. } => Edge::Start,
            _ => Edge::Middle,
        }
    }
}

impl<L: Leaf> Inner<L> {
    /// The child that contains this rank; `rank` becomes the rank within the child. The rank behind the end belongs to
    /// the last child.
    pub(crate) fn child_of_rank(&self, rank: &mut usize) -> usize {
        for (i, count) in self.counts.iter().enumerate() {
            if *rank < *count {
                return i;
            }
            *rank -= count;
        }
        let last = self.counts.len() - 1;
        *rank += self.counts[last];
        last
    }

    /// The last child.
    fn last(&self) -> usize {
        self.children.len() - 1
    }

    /// The last child whose bound is at or below the target, by `is_below`.
    #[inline]
    pub(crate) fn child_of_bound(&self, is_below: impl FnMut(&L::Bound) -> bool) -> usize {
        self.bounds.partition_point(is_below)
    }

    fn mend(&mut self, leaf_bytes: usize, edges: Edges, path: &[u8]) -> (usize, Option<Split<L>>) {
        let (i, path) = path.split_first().expect("a path ends at a leaf");
        let i = usize::from(*i);
        let edges =
            Edges { start: edges.start && i == 0, end: edges.end && i + 1 == self.children.len() };
        let child = &mut self.children[i];
        let before = self.counts[i];
        let bytes = match child {
            Node::Leaf(_) => leaf_bytes,
            Node::Inner(_) => child.bytes(),
        };
        let (now, split) = child.mend(leaf_bytes, edges, path);
        let now_bytes = child.bytes();
        self.below = self.below - bytes + now_bytes;
        self.counts[i] = now;
        if let Some((bound, right)) = split {
            self.below += right.bytes();
            self.counts.insert(i + 1, right.len());
            self.children.insert(i + 1, right);
            self.bounds.insert(i, bound);
        } else if (now < before || now_bytes < bytes) && child.is_sparse() {
            self.merge(i);
        }
        let split = if self.children.len() > CHILDREN_MAX { Some(self.split(edges)) } else { None };
        (self.counts.iter().sum(), split)
    }

    fn split(&mut self, edges: Edges) -> Split<L> {
        let at = match edges.edge() {
            Edge::Start => 2,
            Edge::Middle => self.children.len() / 2,
            Edge::End => self.children.len() - 2,
        };
        let mut right = Inner {
            children: self.children.drain(at..).collect(),
            counts: self.counts.drain(at..).collect(),
            bounds: self.bounds.drain(at..).collect(),
            below: 0,
        };
        right.below = right.children.iter().map(Node::bytes).sum();
        self.below -= right.below;
        let bound = self.bounds.pop().expect("a bound between any two children");
        (bound, Node::Inner(Arc::new(right)))
    }

    /// Removes child `i` if it is empty; otherwise merges it with a neighbour, if both fit in one node.
    fn merge(&mut self, i: usize) {
        if self.children.len() == 1 {
            return;
        }
        if self.counts[i] == 0 {
            drop(self.take_children(i, i + 1));
            return;
        }
        let left = if i == 0 { 0 } else { i - 1 };
        let (before, after) = self.children.split_at_mut(left + 1);
        match (&mut before[left], &after[0]) {
            (Node::Leaf(a), Node::Leaf(b)) if a.fits_with(b) => {
                self.below -= COUNT + size_of::<L>() + a.heap();
                let a = Arc::make_mut(a);
                a.absorb(b);
                self.below += COUNT + size_of::<L>() + a.heap();
            }
            (Node::Inner(a), Node::Inner(b))
                if a.children.len() + b.children.len() <= MERGED_MAX =>
            {
                let a = Arc::make_mut(a);
                a.children.extend(b.children.iter().cloned());
                a.counts.extend(b.counts.iter().copied());
                a.bounds.push(self.bounds[left].clone());
                a.bounds.extend(b.bounds.iter().cloned());
                a.below += b.below;
                // Moved entries count at both nodes for the moment: `take_children` subtracts them from the right one.
                self.below += b.below;
            }
            _ => return,
        }
        self.counts[left] += self.counts[left + 1];
        // The left node has taken over the entries of the right one.
        drop(self.take_children(left + 1, left + 2));
    }

    /// Removes children and the bounds on their left. If the first child is among them, removes the bounds on their
    /// right instead.
    fn take_children(&mut self, from: usize, to: usize) -> Drain<'_, Node<L>, ROOM> {
        let bounds = from.saturating_sub(1);
        let n = (to - from).min(self.bounds.len() - bounds);
        self.bounds.drain(bounds..bounds + n);
        self.counts.drain(from..to);
        self.below -= self.children[from..to].iter().map(Node::bytes).sum::<usize>();
        self.children.drain(from..to)
    }

    fn cut(&mut self, from: usize, to: usize, gone: &mut Vec<Node<L>>) {
        let (mut start, mut whole) = (0, None);
        for i in 0..self.children.len() {
            let end = start + self.counts[i];
            let (a, b) = (from.max(start), to.min(end));
            if a < b {
                if b - a == self.counts[i] {
                    let (first, _) = whole.unwrap_or((i, i));
                    whole = Some((first, i + 1));
                } else {
                    let child = &mut self.children[i];
                    self.below -= child.bytes();
                    child.cut(a - start, b - start, gone);
                    self.below += child.bytes();
                    self.counts[i] -= b - a;
                }
            }
            start = end;
        }
        if let Some((first, end)) = whole {
            gone.extend(self.take_children(first, end));
        }
        self.merge_sparse();
    }

    /// Merges nodes left sparse by a cut: at most the children on both sides of it, and those below.
    fn merge_sparse(&mut self) {
        let mut i = 0;
        while i < self.children.len() {
            let n = self.children.len();
            if self.children[i].is_sparse() {
                self.merge(i);
            }
            if self.children.len() == n {
                i += 1;
            }
        }
    }
}

impl<L: Leaf> Tree<L> {
    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all nodes.
    pub(crate) fn footprint(&self) -> usize {
        self.root.bytes()
    }

    /// The leaf that is reached by following `choose` in each inner node.
    #[inline]
    pub(crate) fn leaf(&self, mut choose: impl FnMut(&Inner<L>) -> usize) -> &L {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Inner(inner) => node = &inner.children[choose(inner)],
            }
        }
    }

    /// The leaf that has this rank, and the rank within it. `rank` is below the number of entries.
    pub(crate) fn leaf_of_rank(&self, mut rank: usize) -> (&L, usize) {
        if rank + 1 == self.len {
            let leaf = self.leaf(Inner::last);
            return (leaf, leaf.len() - 1);
        }
        let leaf = self.leaf(|inner| inner.child_of_rank(&mut rank));
        (leaf, rank)
    }

    /// Changes the leaf that is reached by following `choose`, and restores the invariants.
    pub(crate) fn edit<R>(
        &mut self,
        mut choose: impl FnMut(&Inner<L>) -> usize,
        change: impl FnOnce(&mut L) -> R,
    ) -> R {
        let mut path = Path::new();
        let mut node = &mut self.root;
        let (leaf, len, heap) = loop {
            match node {
                // A copy of a shared leaf has no unused bytes.
                Node::Leaf(leaf) => {
                    let (len, heap) = (leaf.len(), leaf.heap());
                    break (Arc::make_mut(leaf), len, heap);
                }
                Node::Inner(inner) => {
                    let inner = Arc::make_mut(inner);
                    let i = choose(inner);
                    path.push(i as u8);
                    node = &mut inner.children[i];
                }
            }
        };
        let result = change(leaf);
        let (now_len, now_heap) = (leaf.len(), leaf.heap());
        let has_shrunk = now_len < len || now_heap < heap;
        if leaf.is_full() || (has_shrunk && leaf.is_sparse()) {
            self.mend(&path, COUNT + size_of::<L>() + heap);
        } else if (now_len, now_heap) != (len, heap) {
            self.count(&path, now_len.wrapping_sub(len), now_heap.wrapping_sub(heap));
        }
        result
    }

    /// Adds to the numbers of entries and of bytes on a path; differences wrap.
    #[inline]
    fn count(&mut self, path: &[u8], entries: usize, bytes: usize) {
        self.len = self.len.wrapping_add(entries);
        let mut node = &mut self.root;
        for i in path {
            let Node::Inner(inner) = node else { break };
            let inner = Arc::make_mut(inner);
            let i = usize::from(*i);
            inner.counts[i] = inner.counts[i].wrapping_add(entries);
            inner.below = inner.below.wrapping_add(bytes);
            node = &mut inner.children[i];
        }
    }

    fn mend(&mut self, path: &[u8], leaf_bytes: usize) {
        let (len, split) = self.root.mend(leaf_bytes, Edges { start: true, end: true }, path);
        self.len = len;
        if let Some((bound, right)) = split {
            let left = std::mem::replace(&mut self.root, Node::Leaf(Arc::new(L::default())));
            let right_len = right.len();
            self.len += right_len;
            let inner = Inner {
                counts: [len, right_len].into_iter().collect(),
                below: left.bytes() + right.bytes(),
                children: [left, right].into_iter().collect(),
                bounds: [bound].into_iter().collect(),
            };
            self.root = Node::Inner(Arc::new(inner));
        }
        self.lower();
    }

    /// Removes the entries of ranks `from..to`; the caller frees the returned remains. O(log n)
    pub(crate) fn cut(&mut self, from: usize, to: usize) -> Remains {
        let mut gone = Vec::new();
        if from == 0 && to == self.len {
            gone.push(std::mem::take(self).root);
        } else if from < to {
            self.root.cut(from, to, &mut gone);
            self.lower();
            self.len = self.root.len();
        }
        Remains::new(gone)
    }

    /// Removes inner nodes with one child from the top of the tree.
    fn lower(&mut self) {
        while let Node::Inner(inner) = &self.root {
            let [child] = &inner.children[..] else { break };
            self.root = child.clone();
        }
    }

    /// Changes the leaf that has this rank, or the last one for the rank behind the end. `change` gets the
    /// rank within it.
    pub(crate) fn edit_rank<R>(
        &mut self,
        rank: usize,
        change: impl FnOnce(&mut L, usize) -> R,
    ) -> R {
        if rank + 1 >= self.len {
            // Queues and logs work at the end, which is found without summing counts.
            let behind = rank + 1 - self.len;
            return self.edit(Inner::last, |leaf| {
                let i = (leaf.len() + behind).saturating_sub(1);
                change(leaf, i)
            });
        }
        let rank = Cell::new(rank);
        let choose = |inner: &Inner<L>| {
            let mut within = rank.get();
            let child = inner.child_of_rank(&mut within);
            rank.set(within);
            child
        };
        self.edit(choose, |leaf| change(leaf, rank.get()))
    }

    pub(crate) fn remains(self) -> Remains {
        Remains::new(vec![self.root])
    }

    /// Checks all invariants.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        fn check<L: Leaf>(node: &Node<L>, is_root: bool) -> (usize, usize, usize) {
            match node {
                Node::Leaf(leaf) => {
                    assert!(is_root || leaf.len() > 0, "an empty leaf");
                    (0, leaf.len(), node.bytes())
                }
                Node::Inner(inner) => {
                    let n = inner.children.len();
                    assert!((1 + usize::from(is_root)..=CHILDREN_MAX).contains(&n), "{n} children");
                    assert_eq!((inner.counts.len(), inner.bounds.len()), (n, n - 1));
                    let mut below = 0;
                    let mut heights = Vec::new();
                    for (child, count) in inner.children.iter().zip(&inner.counts) {
                        let (height, len, bytes) = check(child, false);
                        assert_eq!(len, *count);
                        below += bytes;
                        heights.push(height);
                    }
                    assert!(heights.iter().all(|height| *height == heights[0]));
                    assert_eq!(below, inner.below);
                    (heights[0] + 1, node.len(), node.bytes())
                }
            }
        }
        let (_, len, bytes) = check(&self.root, true);
        assert_eq!((len, bytes), (self.len(), self.footprint()));
    }
}

/// The nodes of dismantled containers, to be freed in steps. Dropping them frees all at once.
#[derive(Default)]
pub struct Remains(Vec<Box<dyn Dismantle>>);

pub(crate) trait Dismantle: Send + Sync {
    /// Frees one node, and returns its bytes; None if no node is left.
    fn free_one(&mut self) -> Option<usize>;
}

impl<L: Leaf> Dismantle for Vec<Node<L>> {
    fn free_one(&mut self) -> Option<usize> {
        let node = self.pop()?;
        let bytes = node.own_bytes();
        if let Node::Inner(inner) = node
            // A shared node lives on in a clone.
            && let Ok(inner) = Arc::try_unwrap(inner)
        {
            self.extend(inner.children);
        }
        Some(bytes)
    }
}

impl Remains {
    pub(crate) fn new(nodes: impl Dismantle + 'static) -> Remains {
        Remains(vec![Box::new(nodes)])
    }

    /// Frees up to this many nodes, of some kilobytes each, and returns their bytes; None if there was nothing
    /// left.
    pub fn free(&mut self, nodes: usize) -> Option<usize> {
        let mut freed = None;
        for _ in 0..nodes {
            let Some(last) = self.0.last_mut() else { break };
            match last.free_one() {
                Some(bytes) => freed = Some(freed.unwrap_or(0) + bytes),
                None => drop(self.0.pop()),
            }
        }
        freed.or_else(|| self.0.last().map(|_| 0))
    }

    /// Joins the nodes of both.
    pub fn and(mut self, other: Remains) -> Remains {
        self.0.extend(other.0);
        self
    }
}

/// Bytes of a node's reference count.
const COUNT: usize = size_of::<usize>();
