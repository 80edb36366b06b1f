//! One pair of tables of plain numbers: the algorithm of a page without items, locks and readers. Serves to measure
//! kicks, and tests that choose the buckets.

use super::bucket_pair::BucketPair;
use super::graph::{Case, Graph};
use super::tables::{Tables, slots};
use super::vacancy::{Node, Outlook, predetermined, search};
use std::cell::Cell;

/// The outcome of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inserted {
    /// The case that the graph predicted (RHKV section 4.7.1); only with one slot per bucket.
    pub case: Option<Case>,
    /// The number of items that moved.
    pub kicks: usize,
    /// There was no vacancy: the key is in the stash, and nothing has moved.
    pub stashed: bool,
}

/// A pair of tables of keys other than 0, with `S` slots a bucket, and a stash without bound.
pub struct Pair<const S: usize> {
    words: Words<S>,
    graph: Option<Graph>,
    nodes: Vec<Node>,
    path: super::tables::Path,
    stash: Vec<u64>,
    maybes: usize,
}

/// Computes the two buckets of a key in tables with this number of buckets.
type BucketsOf = fn(u64, u32) -> BucketPair;

struct Words<const S: usize> {
    words: Box<[Cell<u64>]>,
    buckets: u32,
    buckets_of: BucketsOf,
}

impl<const S: usize> Tables<S> for Words<S> {
    fn word(&self, slot: u32) -> u64 {
        self.words[slot as usize].get()
    }

    fn other(&self, bucket: u32, word: u64) -> u32 {
        (self.buckets_of)(word, self.buckets).other(bucket)
    }

    fn set(&self, slot: u32, word: u64) {
        self.words[slot as usize].set(word);
    }
}

impl<const S: usize> Pair<S> {
    /// Empty tables with this number of buckets each, a power of two. Each key serves as its own hash.
    ///
    /// # Panics
    /// If `buckets` is not a power of two.
    pub fn new(buckets: u32) -> Self {
        Self::with_buckets_of(buckets, BucketPair::of)
    }

    pub(crate) fn with_buckets_of(buckets: u32, buckets_of: BucketsOf) -> Self {
        assert!(buckets.is_power_of_two(), "2^k buckets");
        let words = (0..2 * buckets as usize * S).map(|_| Cell::new(0)).collect();
        Self {
            words: Words { words, buckets, buckets_of },
            graph: (S == 1).then(|| Graph::new(2 * buckets)),
            nodes: Vec::new(),
            path: super::tables::Path::default(),
            stash: Vec::new(),
            maybes: 0,
        }
    }

    /// The two buckets of a key in tables with this number of buckets each, numbered through both.
    pub fn buckets_of(key: u64, buckets: u32) -> [u32; 2] {
        let at = BucketPair::of(key, buckets);
        [at.one, at.two]
    }

    /// The slots of both tables.
    pub fn slots(&self) -> usize {
        self.words.words.len()
    }

    /// Keys in the stash.
    pub fn stashed(&self) -> usize {
        self.stash.len()
    }

    /// Insertions for which the graph said maybe, and a walk that moved nothing found no vacancy.
    pub fn maybes(&self) -> usize {
        self.maybes
    }

    fn pair_of(&self, key: u64) -> BucketPair {
        (self.words.buckets_of)(key, self.words.buckets)
    }

    /// Inserts a key, which must be absent.
    pub fn insert(&mut self, key: u64) -> Inserted {
        let inserted = self.insert_into_tables(key);
        if inserted.stashed {
            self.stash.push(key);
        }
        inserted
    }

    fn insert_into_tables(&mut self, key: u64) -> Inserted {
        let at = self.pair_of(key);
        let mut case = None;
        match &mut self.graph {
            Some(graph) => match predetermined(&self.words, graph, at, &mut self.path) {
                Outlook::Foretold(foretold) => case = Some(foretold),
                _ => {
                    case = Some(Case::C3);
                    self.maybes += 1;
                }
            },
            None => search(&self.words, at, &mut self.nodes, &mut self.path),
        }
        if self.path.is_empty() {
            return Inserted { case, kicks: 0, stashed: true };
        }
        let kicks = self.path.apply(&self.words, key);
        if let Some(graph) = &mut self.graph {
            graph.add(at);
        }
        Inserted { case, kicks, stashed: false }
    }

    pub(crate) fn slot_of(&self, key: u64) -> Option<u32> {
        let at = self.pair_of(key);
        let mut both = [at.one, at.two].into_iter().flat_map(slots::<S>);
        both.find(|&slot| self.words.word(slot) == key)
    }

    /// Whether a key is present.
    pub fn contains(&self, key: u64) -> bool {
        self.slot_of(key).is_some() || self.stash.contains(&key)
    }

    /// Removes a key, and moves keys that fit into the tables now out of the stash; true if the key
    /// was present.
    pub fn remove(&mut self, key: u64) -> bool {
        let Some(slot) = self.slot_of(key) else {
            let index = self.stash.iter().position(|&other| other == key);
            return index.map(|index| self.stash.swap_remove(index)).is_some();
        };
        self.words.set(slot, 0);
        let at = self.pair_of(key);
        if let Some(graph) = &mut self.graph {
            graph.remove(at);
            if graph.is_stale() {
                let keys = self.words.words.iter().map(Cell::get).filter(|&word| word != 0);
                let buckets_of = |word| (self.words.buckets_of)(word, self.words.buckets);
                graph.rebuild(keys.map(buckets_of));
            }
        }
        let mut stash = std::mem::take(&mut self.stash);
        stash.retain(|&key| self.insert_into_tables(key).stashed);
        self.stash = stash;
        true
    }

    /// Whether the graph considers the part of a bucket maximal.
    #[cfg(test)]
    pub(crate) fn is_full(&mut self, bucket: u32) -> bool {
        self.graph.as_mut().expect("one slot a bucket").is_full(bucket)
    }
}
