//! Walks over the leaves of a tree.

use super::{Inner, Leaf, Node, Tree};

impl<L: Leaf> Tree<L> {
    /// A walk over the leaves that begins with the leaf that `choose` leads to.
    pub(crate) fn leaves(&self, mut choose: impl FnMut(&Inner<L>) -> usize) -> Leaves<'_, L> {
        let mut path = Vec::new();
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return Leaves { path, leaf },
                Node::Inner(inner) => {
                    let i = choose(inner);
                    path.push((&**inner, i));
                    node = &inner.children[i];
                }
            }
        }
    }
}

/// A walk over leaves, in both directions.
pub(crate) struct Leaves<'a, L: Leaf> {
    path: Vec<(&'a Inner<L>, usize)>,
    leaf: &'a L,
}

impl<'a, L: Leaf> Leaves<'a, L> {
    /// The current leaf.
    pub(crate) fn leaf(&self) -> &'a L {
        self.leaf
    }

    /// Goes to the next leaf; false if there is none.
    pub(crate) fn forward(&mut self) -> bool {
        self.step(|inner, i| if i + 1 < inner.children.len() { Some(i + 1) } else { None }, |_| 0)
    }

    /// Goes to the previous leaf; false if there is none.
    pub(crate) fn backward(&mut self) -> bool {
        self.step(|_, i| i.checked_sub(1), |inner| inner.children.len() - 1)
    }

    /// The upper bound of this leaf's entries; None if it is the last.
    pub(crate) fn bound(&self) -> Option<&'a L::Bound> {
        self.path.iter().rev().find_map(|(inner, i)| inner.bounds.get(*i))
    }

    /// Goes to a neighbouring leaf: takes one `step` on the lowest level that has one, and descends from there to the
    /// `first` child on each level below. False if no level has a step.
    fn step(
        &mut self,
        step: impl Fn(&Inner<L>, usize) -> Option<usize>,
        first: impl Fn(&Inner<L>) -> usize,
    ) -> bool {
        let level = self.path.iter().rposition(|(inner, i)| step(inner, *i).is_some());
        let Some(level) = level else { return false };
        self.path.truncate(level + 1);
        let (inner, i) = &mut self.path[level];
        *i = step(inner, *i).expect("this level has a step");
        let mut node = &inner.children[*i];
        loop {
            match node {
                Node::Leaf(leaf) => {
                    self.leaf = leaf;
                    return true;
                }
                Node::Inner(inner) => {
                    let i = first(inner);
                    self.path.push((inner, i));
                    node = &inner.children[i];
                }
            }
        }
    }
}
