//! A dictionary from byte strings to byte strings, ordered by the keys' hashes.

use std::hint::black_box;
use std::ops::Range;

use arrayvec::ArrayVec;

use crate::entries::{append, len_of_len, open, read_len, write_len};
use crate::tree::{Edge, Leaf, Leaves, Remains, Tree};

/// Bytes of a hash.
const HASH: usize = size_of::<u32>();
/// The fewest bytes before the key: the hash, and two lengths of one byte.
const HEAD: usize = HASH + 2;

/// A map from byte strings to byte strings. Get, insert, remove: O(log n), with 64 children a node. Clone: O(1).
///
/// Callers pass each key with its hash, which must always be the same. Keys with equal hashes share a leaf, so clients
/// must not be able to predict the hash.
#[derive(Clone, Default)]
pub struct Dict {
    tree: Tree<Bucket>,
}

/// The most keys of one call of [`Dict::keep_present`].
pub const BATCH_MAX: usize = 16;

/// A key with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// The entries of a range of hashes, packed in no particular order. Each is hash, length of the key, length of the
/// value, key, value.
#[derive(Clone, Default)]
struct Bucket {
    data: Vec<u8>,
    len: u16,
}

/// The offsets of an entry's parts.
#[derive(Clone, Copy)]
struct EntryRange {
    start: usize,
    key: usize,
    value: usize,
    end: usize,
}

impl Bucket {
    #[inline]
    fn range(&self, start: usize) -> EntryRange {
        let (key_len, at) = read_len(&self.data, start + HASH);
        let (value_len, key) = read_len(&self.data, at);
        let value = key + key_len;
        EntryRange { start, key, value, end: value + value_len }
    }

    fn hash(&self, start: usize) -> u32 {
        let hash = self.data[start..].first_chunk();
        u32::from_le_bytes(*hash.expect("an entry begins with its hash"))
    }

    fn find(&self, hash: u32, key: &[u8]) -> Option<EntryRange> {
        let mut at = 0;
        // Most of an operation's time is spent here, and nearly all lengths take one byte.
        while let Some(head) = self.data.get(at..).and_then(|rest| rest.first_chunk::<HEAD>()) {
            let [a, b, c, d, key_len, value_len] = *head;
            let range = if (key_len | value_len) < 0x80 {
                let key = at + HEAD;
                let value = key + usize::from(key_len);
                EntryRange { start: at, key, value, end: value + usize::from(value_len) }
            } else {
                self.range(at)
            };
            if u32::from_le_bytes([a, b, c, d]) == hash && self.entry(range).key == key {
                return Some(range);
            }
            at = range.end;
        }
        None
    }

    fn entry(&self, range: EntryRange) -> Entry<'_> {
        Entry { key: &self.data[range.key..range.value], value: &self.data[range.value..range.end] }
    }

    fn ranges(&self) -> impl Iterator<Item = EntryRange> {
        let mut at = 0;
        std::iter::from_fn(move || {
            (at < self.data.len()).then(|| {
                let range = self.range(at);
                at = range.end;
                range
            })
        })
    }

    fn put(&mut self, at: Range<usize>, hash: u32, key: &[u8], value: &[u8]) {
        let lens = len_of_len(key.len()) + len_of_len(value.len());
        let gap = open(&mut self.data, at.start, at.end, HASH + lens + key.len() + value.len());
        gap[..HASH].copy_from_slice(&hash.to_le_bytes());
        let mut at = HASH + write_len(&mut gap[HASH..], key.len());
        at += write_len(&mut gap[at..], value.len());
        gap[at..at + key.len()].copy_from_slice(key);
        gap[at + key.len()..].copy_from_slice(value);
    }

    /// Adds an entry behind the others.
    fn push(&mut self, hash: u32, key: &[u8], value: &[u8]) {
        let end = self.data.len();
        self.put(end..end, hash, key, value);
        self.len += 1;
    }

    /// The entries for which `keep` is true.
    fn kept(&self, keep: &mut impl FnMut(u32, Entry<'_>) -> bool) -> Bucket {
        let mut kept = Bucket { data: Vec::with_capacity(self.data.len()), len: 0 };
        for range in self.ranges() {
            if keep(self.hash(range.start), self.entry(range)) {
                kept.data.extend_from_slice(&self.data[range.start..range.end]);
                kept.len += 1;
            }
        }
        kept.data.shrink_to_fit();
        kept
    }

    /// Moves all entries to a new bucket without unused bytes. This bucket keeps its memory for the
    /// next entries.
    fn take_filled(&mut self) -> Bucket {
        let filled = self.clone();
        self.data.clear();
        self.len = 0;
        filled
    }

    /// Stores a value, and returns the result of `old` for the replaced one.
    fn insert<R>(
        &mut self,
        hash: u32,
        key: &[u8],
        value: &[u8],
        old: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let Some(range) = self.find(hash, key) else {
            self.push(hash, key, value);
            return None;
        };
        let result = old(&self.data[range.value..range.end]);
        if range.end - range.value == value.len() {
            self.data[range.value..range.end].copy_from_slice(value);
        } else {
            self.put(range.start..range.end, hash, key, value);
        }
        Some(result)
    }
}

impl Leaf for Bucket {
    /// The lowest hash.
    type Bound = u32;

    // Each operation walks over a leaf. Fewer entries would take more memory for leaves than for entries.
    const LEN_MAX: usize = 16;

    fn len(&self) -> usize {
        usize::from(self.len)
    }

    fn data(&self) -> &Vec<u8> {
        &self.data
    }

    fn split(&mut self, _edge: Edge) -> Option<(u32, Self)> {
        let mut hashes: Vec<u32> = self.ranges().map(|range| self.hash(range.start)).collect();
        hashes.sort_unstable();
        let middle = hashes.len() / 2;
        // The split is at the first hash from the middle on that differs from its predecessor; if there is none, at
        // the last such hash before the middle.
        let differs = |i: &usize| hashes[*i] != hashes[*i - 1];
        let at =
            (middle..hashes.len()).find(differs).or_else(|| (1..middle).rev().find(differs))?;
        let bound = hashes[at];
        let (mut left, mut right) = (Vec::with_capacity(self.data.len() / 2), Vec::new());
        for range in self.ranges() {
            let entry = &self.data[range.start..range.end];
            let side = if self.hash(range.start) < bound { &mut left } else { &mut right };
            side.extend_from_slice(entry);
        }
        left.shrink_to_fit();
        right.shrink_to_fit();
        let right = Bucket { data: right, len: (hashes.len() - at) as u16 };
        *self = Bucket { data: left, len: at as u16 };
        Some((bound, right))
    }

    fn absorb(&mut self, right: &Self) {
        append(&mut self.data, &right.data);
        self.len += right.len;
    }

    fn remove_run(&mut self, at: usize, n: usize) {
        for _ in 0..n {
            let range = self.ranges().nth(at).expect("an entry of the leaf");
            open(&mut self.data, range.start, range.end, 0);
            self.len -= 1;
        }
    }
}

impl Dict {
    /// An empty dictionary.
    pub fn new() -> Dict {
        Dict::default()
    }

    /// Builds a dictionary from entries, which must be in the order of their hashes and have distinct keys. O(n).
    pub fn of_sorted<'a>(entries: impl Iterator<Item = (u32, Entry<'a>)>) -> Dict {
        let (mut leaves, mut bucket, mut last) = (Vec::new(), Bucket::default(), 0);
        let mut bound = 0;
        for (hash, Entry { key, value }) in entries {
            // Keys of equal hashes share a leaf.
            if bucket.is_filled() && hash != last {
                leaves.push((bound, bucket.take_filled()));
                bound = hash;
            }
            bucket.push(hash, key, value);
            last = hash;
        }
        if bucket.len > 0 {
            leaves.push((bound, bucket.take_filled()));
        }
        Dict { tree: Tree::of_leaves(leaves) }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory in use.
    pub fn footprint(&self) -> usize {
        self.tree.footprint()
    }

    /// The value of a key.
    #[inline]
    pub fn get(&self, hash: u32, key: &[u8]) -> Option<&[u8]> {
        let bucket = self.bucket(hash);
        bucket.find(hash, key).map(|range| &bucket.data[range.value..range.end])
    }

    /// Removes the keys that are absent from `keys`, which holds at most [`BATCH_MAX`] keys with their hashes. Faster
    /// than a [`get`](Self::get) for each key, because the cache misses of all keys overlap.
    ///
    /// # Panics
    /// If there are more keys.
    pub fn keep_present(&self, keys: &mut Vec<(u32, &[u8])>) {
        let buckets: ArrayVec<&Bucket, BATCH_MAX> =
            keys.iter().map(|(hash, _)| self.bucket(*hash)).collect();
        for bucket in &buckets {
            // Loads of different keys do not depend on each other, so the processor does not wait for any of them.
            black_box(bucket.data.first());
        }
        let mut buckets = buckets.iter();
        keys.retain(|(hash, key)| {
            let bucket = buckets.next().expect("a bucket for each key");
            bucket.find(*hash, key).is_some()
        });
    }

    #[inline]
    fn bucket(&self, hash: u32) -> &Bucket {
        self.tree.leaf(|inner| inner.child_of_bound(|bound| *bound <= hash))
    }

    /// Stores a value. True if the key is new.
    pub fn insert(&mut self, hash: u32, key: &[u8], value: &[u8]) -> bool {
        self.replace(hash, key, value, |_| ()).is_none()
    }

    /// Stores a value under a key that must be absent: the leaf is not searched.
    pub fn insert_new(&mut self, hash: u32, key: &[u8], value: &[u8]) {
        self.tree.edit(
            |inner| inner.child_of_bound(|bound| *bound <= hash),
            |bucket| {
                debug_assert!(bucket.find(hash, key).is_none(), "the key is there");
                bucket.push(hash, key, value);
            },
        );
    }

    /// Stores a value, and returns the result of `old` for the replaced one; None if the key is new.
    pub fn replace<R>(
        &mut self,
        hash: u32,
        key: &[u8],
        value: &[u8],
        old: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        self.tree.edit(
            |inner| inner.child_of_bound(|bound| *bound <= hash),
            |bucket| bucket.insert(hash, key, value, old),
        )
    }

    /// Removes a key. True if it was there.
    pub fn remove(&mut self, hash: u32, key: &[u8]) -> bool {
        self.take(hash, key, |_| ()).is_some()
    }

    /// Removes a key, and returns the result of `old` for its value; None if it was not there.
    pub fn take<R>(&mut self, hash: u32, key: &[u8], old: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.tree.edit(
            |inner| inner.child_of_bound(|bound| *bound <= hash),
            |bucket| {
                let range = bucket.find(hash, key)?;
                let result = old(&bucket.data[range.value..range.end]);
                open(&mut bucket.data, range.start, range.end, 0);
                bucket.len -= 1;
                Some(result)
            },
        )
    }

    /// Keeps the entries for which `keep`, which gets their hashes, too, is true. Returns the old nodes, to be freed.
    /// One walk instead of an edit for each entry: O(n).
    pub fn retain(&mut self, mut keep: impl FnMut(u32, Entry<'_>) -> bool) -> Remains {
        let (mut kept, mut bound): (Vec<(u32, Bucket)>, u32) = (Vec::new(), 0);
        let mut leaves = self.tree.leaves(|_| 0);
        loop {
            let bucket = leaves.leaf().kept(&mut keep);
            match kept.last_mut() {
                Some((_, last)) if last.fits_with(&bucket) => last.absorb(&bucket),
                _ if bucket.len == 0 => {}
                _ => kept.push((bound, bucket)),
            }
            let Some(next) = leaves.bound() else { break };
            bound = *next;
            leaves.forward();
        }
        std::mem::replace(&mut self.tree, Tree::of_leaves(kept)).remains()
    }

    /// The entry at a rank in the order of [`iter`](Self::iter), for drawing random entries. None
    /// behind the last.
    pub fn entry_of_rank(&self, rank: usize) -> Option<Entry<'_>> {
        if rank >= self.len() {
            return None;
        }
        let (bucket, i) = self.tree.leaf_of_rank(rank);
        bucket.ranges().nth(i).map(|range| bucket.entry(range))
    }

    /// All entries, in the order of their hashes except within a leaf.
    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.iter_with_hashes().map(|(_, entry)| entry)
    }

    /// Like [`iter`](Self::iter), with the hashes of the keys.
    pub fn iter_with_hashes(&self) -> impl Iterator<Item = (u32, Entry<'_>)> {
        Walk { leaves: self.tree.leaves(|_| 0), at: 0 }
    }

    /// Calls `f` with the entries whose hashes are `from` or above, and with some just below, until it has been called
    /// `at_least` times. Returns the hash at which to continue, None at the end.
    ///
    /// A series of calls, each of which begins where the last one ended, visits each entry that is present throughout
    /// at least once, whatever changes in between.
    pub fn scan<'a>(
        &'a self,
        from: u32,
        at_least: usize,
        mut f: impl FnMut(Entry<'a>),
    ) -> Option<u32> {
        let mut leaves = self.tree.leaves(|inner| inner.child_of_bound(|bound| *bound <= from));
        let mut seen = 0;
        loop {
            let bucket = leaves.leaf();
            bucket.ranges().for_each(|range| f(bucket.entry(range)));
            seen += bucket.len();
            let next = *leaves.bound()?;
            if seen >= at_least {
                return Some(next);
            }
            leaves.forward();
        }
    }

    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.tree.check();
    }

    /// Dismantles the dictionary, to be freed in steps.
    pub fn into_remains(self) -> Remains {
        self.tree.remains()
    }
}

struct Walk<'a> {
    leaves: Leaves<'a, Bucket>,
    at: usize,
}

impl<'a> Iterator for Walk<'a> {
    type Item = (u32, Entry<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.leaves.leaf().data.len() {
            if !self.leaves.forward() {
                return None;
            }
            self.at = 0;
        }
        let bucket = self.leaves.leaf();
        let range = bucket.range(self.at);
        self.at = range.end;
        Some((bucket.hash(range.start), bucket.entry(range)))
    }
}
