//! A list: byte strings addressed by position.

use std::ops::Range;

use crate::entries::{self, append, len_of_len, open, read_len, write_len};
use crate::tree::{Edge, Leaf, Leaves, Remains, Tree};

/// A list of byte strings. Ends, index, insertion: O(log n), with 64 children a node. Clone: O(1).
#[derive(Clone, Default)]
pub struct List {
    tree: Tree<Run>,
}

/// Packed elements, each with its length before its bytes.
#[derive(Clone, Default)]
struct Run {
    data: Vec<u8>,
    len: u16,
    /// The offset of the last element, 0 if unknown: queues read it before each removal.
    last: u32,
}

impl Run {
    /// The offset of the element at `i`; for `i` behind the last element, the end of the bytes.
    fn start(&self, i: usize) -> usize {
        if i + 1 == self.len() && self.last > 0 {
            return self.last as usize;
        }
        let mut at = 0;
        for _ in 0..i {
            let (len, start) = read_len(&self.data, at);
            at = start + len;
        }
        at
    }

    fn bytes(&self, start: usize) -> Range<usize> {
        let (len, start) = read_len(&self.data, start);
        start..start + len
    }

    fn get(&self, i: usize) -> &[u8] {
        &self.data[self.bytes(self.start(i))]
    }

    fn insert(&mut self, i: usize, element: &[u8]) {
        let is_last = i == self.len();
        let at = if is_last { self.data.len() } else { self.start(i) };
        put(&mut self.data, at..at, element);
        self.len += 1;
        self.last = if is_last { u32::try_from(at).unwrap_or(0) } else { 0 };
    }

    fn set(&mut self, i: usize, element: &[u8]) {
        let start = self.start(i);
        let end = self.bytes(start).end;
        put(&mut self.data, start..end, element);
        if i + 1 < self.len() {
            self.last = 0;
        }
    }
}

/// Replaces a range of bytes by an element.
fn put(data: &mut Vec<u8>, range: Range<usize>, element: &[u8]) {
    let gap = open(data, range.start, range.end, len_of_len(element.len()) + element.len());
    let at = write_len(gap, element.len());
    gap[at..].copy_from_slice(element);
}

impl Leaf for Run {
    type Bound = ();

    const LEN_MAX: usize = 64;

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn data(&self) -> &Vec<u8> {
        &self.data
    }

    fn split(&mut self, edge: Edge) -> Option<((), Self)> {
        let at = match edge {
            Edge::Start => 1,
            Edge::Middle => self.len() / 2,
            Edge::End => self.len() - 1,
        };
        let start = self.start(at);
        let right = Run {
            len: self.len - at as u16,
            data: entries::split_off(&mut self.data, start),
            last: 0,
        };
        (self.len, self.last) = (at as u16, 0);
        Some(((), right))
    }

    fn absorb(&mut self, right: &Self) {
        append(&mut self.data, &right.data);
        self.len += right.len;
        self.last = 0;
    }

    fn remove_run(&mut self, at: usize, n: usize) {
        if at > 0 && at + n == self.len() {
            // A queue reads the previous element next.
            let last = self.start(at - 1);
            let end = self.bytes(last).end;
            let len = self.data.len();
            open(&mut self.data, end, len, 0);
            (self.len, self.last) = (at as u16, u32::try_from(last).unwrap_or(0));
            return;
        }
        let start = self.start(at);
        let mut end = start;
        for _ in 0..n {
            end = self.bytes(end).end;
        }
        open(&mut self.data, start, end, 0);
        self.len -= n as u16;
        self.last = 0;
    }
}

impl List {
    /// An empty list.
    pub fn new() -> List {
        List::default()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory in use.
    pub fn footprint(&self) -> usize {
        self.tree.footprint()
    }

    /// The element at a position.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        if at >= self.len() {
            return None;
        }
        let (run, i) = self.tree.leaf_of_rank(at);
        Some(run.get(i))
    }

    /// Appends an element.
    pub fn push_back(&mut self, element: &[u8]) {
        self.insert(self.len(), element);
    }

    /// Prepends an element.
    pub fn push_front(&mut self, element: &[u8]) {
        self.insert(0, element);
    }

    /// Inserts an element before the one at a position, or at the end.
    ///
    /// # Panics
    /// The position is behind the end.
    pub fn insert(&mut self, at: usize, element: &[u8]) {
        assert!(at <= self.len(), "a position of the list, or its end");
        self.tree.edit_rank(at, |run, i| run.insert(i, element));
    }

    /// Replaces the element at a position; false if there is none.
    pub fn set(&mut self, at: usize, element: &[u8]) -> bool {
        if at >= self.len() {
            return false;
        }
        self.tree.edit_rank(at, |run, i| run.set(i, element));
        true
    }

    /// Removes the elements of these positions and returns their nodes, to be freed. O(log n).
    pub fn remove(&mut self, range: Range<usize>) -> Remains {
        let to = range.end.min(self.len());
        if to == range.start + 1 {
            // The common case: a queue removes one element.
            self.tree.edit_rank(range.start, |run, i| run.remove_run(i, 1));
            return Remains::default();
        }
        self.tree.cut(range.start.min(to), to)
    }

    /// All elements from a position on.
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = &[u8]> {
        let mut rank = from.min(self.len());
        let leaves = self.tree.leaves(|inner| inner.child_of_rank(&mut rank));
        let at = leaves.leaf().start(rank);
        Forward { leaves, at }
    }

    /// All elements before a position, the nearest first.
    pub fn iter_back_from(&self, to: usize) -> impl Iterator<Item = &[u8]> {
        let mut rank = to.min(self.len());
        let leaves = self.tree.leaves(|inner| inner.child_of_rank(&mut rank));
        let mut back = Backward { leaves, starts: [0; Run::LEN_MAX + 1], left: 0 };
        back.find_starts(rank);
        back
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.tree.check();
    }

    /// Dismantles the list, to be freed in steps.
    pub fn into_remains(self) -> Remains {
        self.tree.remains()
    }
}

struct Forward<'a> {
    leaves: Leaves<'a, Run>,
    at: usize,
}

impl<'a> Iterator for Forward<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.at == self.leaves.leaf().data.len() {
            if !self.leaves.forward() {
                return None;
            }
            self.at = 0;
        }
        let run = self.leaves.leaf();
        let bytes = run.bytes(self.at);
        self.at = bytes.end;
        Some(&run.data[bytes])
    }
}

struct Backward<'a> {
    leaves: Leaves<'a, Run>,
    /// The offsets of the leaf's elements.
    starts: [u32; Run::LEN_MAX + 1],
    /// Elements of the leaf that are still to come.
    left: usize,
}

impl Backward<'_> {
    fn find_starts(&mut self, n: usize) {
        let run = self.leaves.leaf();
        let mut at = 0;
        for start in &mut self.starts[..n] {
            *start = at as u32;
            at = run.bytes(at).end;
        }
        self.left = n;
    }
}

impl<'a> Iterator for Backward<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.left == 0 {
            if !self.leaves.backward() {
                return None;
            }
            self.find_starts(self.leaves.leaf().len());
        }
        self.left -= 1;
        let run = self.leaves.leaf();
        Some(&run.data[run.bytes(self.starts[self.left] as usize)])
    }
}
