//! A page: a pair of tables, the locks of its groups, and a stash.
//!
//! ```text
//!           buckets of S slots                     groups of 8 buckets
//!  table 1  | 0 | 1 | 2 | 3 | ... | B-1 |          | lock and version | ... |
//!  table 2  | B | B+1 | ...      | 2B-1 |          the page's lock: graph, stash
//!  stash    | . | . | . | . | . | . | . | . |      grows to twice its size if it must
//! ```
//!
//! This is the paper's data structure; the table of the index consists of many.

use super::bucket_pair::{BucketPair, Entry, TAG_BITS, tag_of};
use super::graph::Graph;
use super::lock::Groups;
use super::tables::{Path, Tables};
use super::vacancy::{Node, Outlook, predetermined, search};
use hotring_index::sync::spin::SpinMutex;
use hotring_index::sync::{AtomicPtr, AtomicU64, Ordering};
use hotring_index::toolkit::{Item, Kind};
use std::ptr::{NonNull, null_mut};

/// Buckets that share a lock.
const GROUP_BUCKETS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 8 };
/// The most items of a stash that is not crowded. Of 200 tables with one slot per bucket, filled to
/// 0.45, none ever had more than 8 stashed items.
pub(crate) const STASH: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };
/// The greatest depth of a page: the page's prefix and the tag above it must fit into a hash of a
/// byte string, which has 48 bits.
pub(crate) const DEPTH_MAX: u32 = 48 - TAG_BITS;

/// A line of slots: a bucket never straddles two.
#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// The words of a stash.
type Shelf = Box<[AtomicU64]>;

pub(crate) struct Page<const S: usize> {
    /// The number of hash bits that all its items share.
    pub(crate) depth: u32,
    /// The value of these bits.
    pub(crate) prefix: u64,
    /// Buckets of each table, a power of two.
    pub(crate) buckets: u32,
    pub(crate) groups: Groups,
    lines: Box<[Line]>,
    /// Null while nothing was ever stashed. Changed under the page's lock; the words too.
    shelf: AtomicPtr<Shelf>,
    /// Words of the stash that are not vacant.
    stashed: AtomicU64,
    pub(crate) state: SpinMutex<State>,
}

/// State that only the holder of the page's lock reads.
pub(crate) struct State {
    /// The cuckoo graph, only with one slot per bucket.
    pub(crate) graph: Option<Graph>,
    /// Items in the tables, counted only with one slot per bucket.
    pub(crate) items: usize,
    /// All stashes that the page ever had, each twice as large as the previous one. Readers may
    /// still use any of them, so they are freed with the page.
    shelves: Vec<NonNull<Shelf>>,
    /// The position of the search for an item that may leave the stash.
    pub(crate) next: usize,
}

// SAFETY: the shelves belong to the page.
unsafe impl Send for State {}
// SAFETY: they are slices of atomics.
unsafe impl Sync for State {}

impl Drop for State {
    fn drop(&mut self) {
        for &shelf in &self.shelves {
            // SAFETY: leaked from a box by `free_stash_slot`, and freed only here, once.
            drop(unsafe { Box::from_raw(shelf.as_ptr()) });
        }
    }
}

/// Buffers for the search for a vacancy, kept by the searching session.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) path: Path,
    pub(crate) nodes: Vec<Node>,
    /// Groups to be taken.
    pub(crate) groups: Vec<u32>,
}

/// The position of an item in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spot {
    Slot(u32),
    Stash(usize),
}

impl<const S: usize> Page<S> {
    pub(crate) fn new(depth: u32, prefix: u64, buckets: u32) -> Self {
        let slots = 2 * buckets as usize * S;
        Self {
            depth,
            prefix,
            buckets,
            groups: Groups::new((2 * buckets).div_ceil(GROUP_BUCKETS)),
            lines: (0..slots.div_ceil(8)).map(|_| Line::default()).collect(),
            shelf: AtomicPtr::new(null_mut()),
            stashed: AtomicU64::new(0),
            state: SpinMutex::new(State {
                graph: (S == 1).then(|| Graph::new(2 * buckets)),
                items: 0,
                shelves: Vec::new(),
                next: 0,
            }),
        }
    }

    pub(crate) fn slots(&self) -> usize {
        2 * self.buckets as usize * S
    }

    pub(crate) fn bytes(&self) -> usize {
        let graph = if S == 1 { Graph::bytes_of(2 * self.buckets) } else { 0 };
        size_of::<Self>() + 64 * self.lines.len() + 8 * self.groups.len() as usize + graph
    }

    /// The first position of its range.
    pub(crate) fn base(&self) -> u64 {
        self.prefix.reverse_bits()
    }

    /// The first position after its range, 0 if it is the last one.
    pub(crate) fn end(&self) -> u64 {
        self.base().wrapping_add(1u64.checked_shl(64 - self.depth).unwrap_or(0))
    }

    #[inline(always)]
    pub(crate) fn buckets_of(&self, hash: u64) -> BucketPair {
        BucketPair::of(hash, self.buckets)
    }

    /// The word of a slot that holds this item.
    #[inline(always)]
    pub(crate) fn entry(&self, hash: u64, item: Item) -> Entry {
        Entry::new(tag_of(hash, self.depth), item.address())
    }

    #[inline(always)]
    pub(crate) fn slot(&self, slot: u32) -> &AtomicU64 {
        &self.lines[slot as usize / 8].0[slot as usize % 8]
    }

    #[inline(always)]
    pub(crate) fn load(&self, slot: u32) -> Entry {
        // ORDERING: Acquire pairs with the Release of `store`: the item is initialised; and a
        // second look at the versions, which comes after, is not older than the lock under which
        // this was stored.
        Entry(self.slot(slot).load(Ordering::Acquire))
    }

    #[inline(always)]
    pub(crate) fn store(&self, slot: u32, word: u64) {
        // ORDERING: Release pairs with the Acquire of `load`.
        self.slot(slot).store(word, Ordering::Release);
    }

    /// The set of slots of a bucket that have a tag, with bit k for slot k. Free of branches, which
    /// could not be predicted.
    #[inline(always)]
    pub(crate) fn matches(&self, bucket: u32, tag: u64) -> u32 {
        let first = bucket as usize * S;
        let words = &self.lines[first / 8].0[first % 8..first % 8 + S];
        // ORDERING: Acquire, as in `load`: in a miss these are the only loads.
        let tags = words.iter().map(|word| Entry(word.load(Ordering::Acquire)).tag());
        tags.enumerate().fold(0, |set, (k, other)| set | u32::from(other == tag) << k)
    }

    #[inline(always)]
    pub(crate) fn group(&self, bucket: u32) -> u32 {
        bucket / GROUP_BUCKETS
    }

    /// The groups of both buckets of a key, and of a path, in order.
    pub(crate) fn gather_groups(&self, at: BucketPair, path: &Path, groups: &mut Vec<u32>) {
        groups.clear();
        groups.extend([self.group(at.one), self.group(at.two)]);
        groups.extend(path.0.iter().map(|step| self.group(step.slot / S as u32)));
        groups.sort_unstable();
        groups.dedup();
    }

    /// The groups of both buckets of a key, in order.
    #[inline(always)]
    pub(crate) fn two_groups(&self, at: BucketPair) -> ([u32; 2], usize) {
        let groups = [self.group(at.one), self.group(at.two)];
        (groups, if groups[0] == groups[1] { 1 } else { 2 })
    }

    /// Words of the stash that are not vacant.
    #[inline(always)]
    pub(crate) fn stashed(&self) -> usize {
        // ORDERING: Acquire pairs with the Release of `stash` and `unstash`.
        self.stashed.load(Ordering::Acquire) as usize
    }

    pub(crate) fn shelf(&self) -> &[AtomicU64] {
        // ORDERING: Acquire pairs with the Release in `free_stash_slot`.
        let shelf = self.shelf.load(Ordering::Acquire);
        // SAFETY: shelves are freed with the page.
        unsafe { shelf.as_ref() }.map_or(&[], |shelf| shelf)
    }

    #[inline(always)]
    pub(crate) fn load_stash(&self, index: usize) -> Entry {
        // ORDERING: Acquire, as in `load`.
        Entry(self.shelf()[index].load(Ordering::Acquire))
    }

    /// The index of a vacant word of the stash, which is enlarged if there is none. Must be called
    /// under the page's lock.
    pub(crate) fn free_stash_slot(&self, state: &mut State) -> usize {
        let shelf = self.shelf();
        if let Some(index) = (0..shelf.len()).find(|&i| self.load_stash(i).is_vacant()) {
            return index;
        }
        let words = (0..shelf.len()).map(|i| AtomicU64::new(self.load_stash(i).0));
        let vacant = std::iter::repeat_with(|| AtomicU64::new(0)).take(shelf.len().max(STASH));
        let larger: Shelf = words.chain(vacant).collect();
        let larger = NonNull::from(Box::leak(Box::new(larger)));
        state.shelves.push(larger);
        // ORDERING: Release publishes the words.
        self.shelf.store(larger.as_ptr(), Ordering::Release);
        shelf.len()
    }

    /// Puts a word at an index from `free_stash_slot`. Must be called under the page's lock and the
    /// locks of both groups.
    pub(crate) fn stash(&self, index: usize, word: u64) {
        // ORDERING: Release, as in `store`.
        self.shelf()[index].store(word, Ordering::Release);
        // ORDERING: Release: a session that has seen the count finds the word. A reader that misses it
        // checks a version that changed afterwards.
        self.stashed.fetch_add(1, Ordering::Release);
    }

    /// Removes a word. Must be called under the same locks.
    pub(crate) fn unstash(&self, index: usize) {
        // ORDERING: Release, as in `store`.
        self.shelf()[index].store(0, Ordering::Release);
        // ORDERING: Release, as in `stash`; it wraps to one less.
        self.stashed.fetch_add(u64::MAX, Ordering::Release);
    }

    /// Replaces an item by another version of the same key. Must be called under the same locks.
    pub(crate) fn put(&self, spot: Spot, word: Entry) {
        match spot {
            Spot::Slot(slot) => self.store(slot, word.0),
            // ORDERING: Release, as in `store`.
            Spot::Stash(index) => self.shelf()[index].store(word.0, Ordering::Release),
        }
    }

    /// All words of tables and stash that are not vacant. They are a consistent state only if the
    /// page does not change meanwhile.
    pub(crate) fn words(&self) -> impl Iterator<Item = Entry> {
        let slots = (0..self.slots() as u32).map(|slot| self.load(slot));
        let shelf = if self.stashed() == 0 { &[][..] } else { self.shelf() };
        // ORDERING: Acquire, as in `load`.
        let stash = shelf.iter().map(|word| Entry(word.load(Ordering::Acquire)));
        slots.chain(stash).filter(|word| !word.is_vacant())
    }

    /// Puts an item into a page that is private and locked.
    pub(crate) fn fill<K: Kind>(
        &self,
        state: &mut State,
        kind: &K,
        (hash, item): (u64, Item),
        scratch: &mut Scratch,
    ) {
        let (at, word) = (self.buckets_of(hash), self.entry(hash, item));
        let view = View { page: self, kind, since: 0 };
        view.plan(state, at, scratch);
        if scratch.path.is_empty() {
            let index = self.free_stash_slot(state);
            self.stash(index, word.0);
        } else {
            scratch.path.apply(&view, word.0);
            state.entered(at);
        }
    }
}

impl State {
    /// Records that an item is in one of these buckets now.
    pub(crate) fn entered(&mut self, at: BucketPair) {
        if let Some(graph) = &mut self.graph {
            graph.add(at);
            self.items += 1;
        }
    }
}

/// A page as a pair of tables, in which an item's other bucket is computed from the item's hash.
pub(crate) struct View<'a, K, const S: usize> {
    pub(crate) page: &'a Page<S>,
    pub(crate) kind: &'a K,
    /// The pin, for a checker.
    pub(crate) since: u64,
}

impl<K: Kind, const S: usize> View<'_, K, S> {
    /// The item of a word that was read from the page under the pin.
    #[inline(always)]
    pub(crate) fn item(&self, word: Entry) -> Item {
        // SAFETY: P: it was in the table after the pin began (V1), so it is not freed before that
        // ends.
        let item = unsafe { Item::at(word.address()) };
        item.lifetime().check_access(self.since);
        item
    }

    /// The places of the item of a word.
    pub(crate) fn buckets_of(&self, word: Entry) -> BucketPair {
        self.page.buckets_of(self.kind.item_hash(self.item(word)))
    }

    /// Looks for a vacancy without moving anything, and leaves the path to it in `scratch`; an
    /// empty path if there is no vacancy.
    pub(crate) fn plan(&self, state: &mut State, at: BucketPair, scratch: &mut Scratch) -> Outlook {
        match &mut state.graph {
            Some(graph) => predetermined(self, graph, at, &mut scratch.path),
            None => self.search(at, scratch),
        }
    }

    /// Like `plan`, for several slots per bucket, where no graph is kept.
    pub(crate) fn search(&self, at: BucketPair, scratch: &mut Scratch) -> Outlook {
        search(self, at, &mut scratch.nodes, &mut scratch.path);
        Outlook::Searched
    }

    /// Rebuilds the graph.
    pub(crate) fn rebuild(&self, state: &mut State) {
        if let Some(graph) = &mut state.graph {
            let slots = (0..self.page.slots() as u32).map(|slot| self.page.load(slot));
            graph.rebuild(slots.filter(|word| !word.is_vacant()).map(|word| self.buckets_of(word)));
        }
    }
}

impl<K: Kind, const S: usize> Tables<S> for View<'_, K, S> {
    #[inline(always)]
    fn word(&self, slot: u32) -> u64 {
        self.page.load(slot).0
    }

    fn other(&self, bucket: u32, word: u64) -> u32 {
        self.buckets_of(Entry(word)).other(bucket)
    }

    fn set(&self, slot: u32, word: u64) {
        self.page.store(slot, word);
    }
}
