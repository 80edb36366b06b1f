//! The cuckoo graph of a page with one slot a bucket (RHKV sections 4.3 and 4.7).
//!
//! A bucket is a vertex, an item an edge from the bucket that it is in to its other bucket. A
//! vertex has at most one edge out, and none if the bucket is vacant. So a connected part, of V
//! vertices and E edges, is one of two things:
//!
//! * a tree, E = V - 1: *non-maximal*, with exactly one vacancy, and every walk ends there;
//! * with one loop, E = V: *maximal*, without vacancy, and every walk is endless.
//!
//! Parts only grow together, which suits union-find: two numbers at the root of each part predict the
//! outcome of an insertion before anything is kicked out.
//!
//! # Removals
//!
//! The paper has no removals. A removal lowers E of its part and makes the part *dirty*: the part
//! may have come apart, which union-find cannot represent. E = V still means that there is no
//! vacancy: each of the true parts within has at most as many edges as vertices, and a sum of these
//! is equal only if each is. E < V in a dirty part means *maybe*: there is a vacancy, but perhaps
//! not in reach. A walk that moves nothing decides. After many removals the graph is rebuilt.

use super::bucket_pair::BucketPair;

/// The outcome of an insertion (RHKV section 4.7.1, table 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Two new vertices.
    A,
    /// One new vertex.
    B,
    /// Both in non-maximal parts, or in the same one.
    C1,
    /// One in a non-maximal part, one in a maximal one.
    C2,
    /// Both in maximal parts: there is no vacancy.
    C3,
}

/// A case, and the buckets from which a walk ends at a vacancy; that is certain if nothing was
/// removed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    pub(crate) case: Case,
    pub(crate) sides: [Option<u32>; 2],
}

const ROOT: u32 = 1 << 31;
const DIRTY: u32 = 1 << 31;

/// The connected parts that the buckets form, with the number of vertices and edges of each.
#[derive(Debug)]
pub(crate) struct Graph {
    /// The parent of a vertex; for a root, its number of vertices and ROOT.
    up: Box<[u32]>,
    /// For a root: its number of edges, and DIRTY.
    edges: Box<[u32]>,
    removed: usize,
}

impl Graph {
    /// A graph without edges.
    pub(crate) fn new(vertices: u32) -> Self {
        debug_assert!(vertices < ROOT);
        let n = vertices as usize;
        Self { up: vec![ROOT | 1; n].into(), edges: vec![0; n].into(), removed: 0 }
    }

    pub(crate) const fn bytes_of(vertices: u32) -> usize {
        8 * vertices as usize
    }

    fn root(&mut self, mut vertex: u32) -> u32 {
        loop {
            let parent = self.up[vertex as usize];
            if parent & ROOT != 0 {
                return vertex;
            }
            let beyond = self.up[parent as usize];
            if beyond & ROOT != 0 {
                return parent;
            }
            // Path halving: the path is half as long next time.
            self.up[vertex as usize] = beyond;
            vertex = beyond;
        }
    }

    fn vertices(&self, root: u32) -> u32 {
        self.up[root as usize] & !ROOT
    }

    fn edge_count(&self, root: u32) -> u32 {
        self.edges[root as usize] & !DIRTY
    }

    fn is_maximal(&self, root: u32) -> bool {
        // Never more, unless an item's hash is damaged and leads to another part.
        self.edge_count(root) >= self.vertices(root)
    }

    /// Whether a bucket has had no items since the graph was built.
    fn is_new(&self, root: u32) -> bool {
        self.up[root as usize] == ROOT | 1 && self.edges[root as usize] == 0
    }

    /// The outcome of an insertion at these places. O(1), apart from the paths of union-find.
    pub(crate) fn predetermine(&mut self, at: BucketPair) -> Forecast {
        let (one, two) = (self.root(at.one), self.root(at.two));
        let maximal = (self.is_maximal(one), self.is_maximal(two));
        let (case, sides) = match (self.is_new(one), self.is_new(two)) {
            (true, true) => (Case::A, [Some(at.one), None]),
            (true, false) => (Case::B, [Some(at.one), None]),
            (false, true) => (Case::B, [Some(at.two), None]),
            (false, false) => match maximal {
                (false, false) => (Case::C1, [Some(at.one), Some(at.two)]),
                (false, true) => (Case::C2, [Some(at.one), None]),
                (true, false) => (Case::C2, [Some(at.two), None]),
                (true, true) => (Case::C3, [None, None]),
            },
        };
        Forecast { case, sides }
    }

    /// Notes that an item with these places is in one of them.
    pub(crate) fn add(&mut self, at: BucketPair) {
        let (mut big, mut small) = (self.root(at.one), self.root(at.two));
        if self.vertices(big) < self.vertices(small) {
            std::mem::swap(&mut big, &mut small);
        }
        let mut edges = self.edges[big as usize];
        if big != small {
            edges = (edges + (self.edges[small as usize] & !DIRTY))
                | (self.edges[small as usize] & DIRTY);
            self.up[big as usize] += self.vertices(small);
            self.up[small as usize] = big;
        }
        self.edges[big as usize] = edges + 1;
    }

    /// Records that an item has left one of these places.
    pub(crate) fn remove(&mut self, at: BucketPair) {
        let root = self.root(at.one);
        self.edges[root as usize] = self.edge_count(root).saturating_sub(1) | DIRTY;
        self.removed += 1;
    }

    /// Whether enough edges were removed (a quarter of the vertices) to rebuild the graph.
    pub(crate) fn is_stale(&self) -> bool {
        self.removed * 4 > self.up.len()
    }

    /// Rebuilds the graph from all items in the tables. O(vertices).
    pub(crate) fn rebuild(&mut self, items: impl Iterator<Item = BucketPair>) {
        self.up.fill(ROOT | 1);
        self.edges.fill(0);
        self.removed = 0;
        items.for_each(|at| self.add(at));
    }

    /// Whether a bucket is in a maximal part. For tests and checkers.
    #[cfg(any(test, loom, shuttle))]
    pub(crate) fn is_full(&mut self, bucket: u32) -> bool {
        let root = self.root(bucket);
        self.is_maximal(root)
    }
}
