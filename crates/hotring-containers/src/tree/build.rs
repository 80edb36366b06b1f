//! Bulk construction of trees from their leaves, without an edit for each entry.

use arrayvec::ArrayVec;
use triomphe::Arc;

use super::{Inner, Leaf, MERGED_MAX, Node, Split, Tree};

impl<L: Leaf> Tree<L> {
    /// Builds a tree from leaves in their order, none of which may be empty. Each leaf comes with the bound between
    /// its predecessor and itself. O(leaves).
    pub(crate) fn of_leaves(leaves: impl IntoIterator<Item = (L::Bound, L)>) -> Tree<L> {
        let leaves = leaves.into_iter();
        let mut level: Vec<Split<L>> =
            leaves.map(|(bound, leaf)| (bound, Node::Leaf(Arc::new(leaf)))).collect();
        while level.len() > 1 {
            level = level_above(level);
        }
        let Some((_, root)) = level.pop() else { return Tree::default() };
        Tree { len: root.len(), root }
    }
}

/// The inner nodes above these nodes. The children are spread evenly, and each node has capacity
/// for more.
fn level_above<L: Leaf>(level: Vec<Split<L>>) -> Vec<Split<L>> {
    let len = level.len();
    let n = len.div_ceil(MERGED_MAX);
    let mut nodes = level.into_iter();
    let mut above = Vec::with_capacity(n);
    for i in 0..n {
        let mut inner = Inner {
            counts: ArrayVec::new(),
            bounds: ArrayVec::new(),
            children: ArrayVec::new(),
            below: 0,
        };
        let mut first = None;
        for (bound, node) in nodes.by_ref().take((i + 1) * len / n - i * len / n) {
            match first {
                None => first = Some(bound),
                Some(_) => inner.bounds.push(bound),
            }
            inner.counts.push(node.len());
            inner.below += node.bytes();
            inner.children.push(node);
        }
        above.push((first.expect("no node is empty"), Node::Inner(Arc::new(inner))));
    }
    above
}
