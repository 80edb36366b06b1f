//! The table of CLIENT TRACKING: the tracked keys with their readers.
//!
//! The table is divided into shards, each a map under a mutex. It knows readers only by number and sends no messages;
//! [`super`] sends them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of shards: enough that threads that write at the same time rarely lock the same shard.
const SHARDS: usize = 64;

/// Bytes of memory per key beyond its bytes and its list, for the node of the map and the allocator: 86 to 111 bytes
/// with glibc, measured with keys of 8 to 1000 bytes.
pub(super) const ENTRY_LEN: usize = 96;

/// The number of pairs that a step of a walk visits under the lock of a shard, plus the pairs of one key; about 50 µs.
/// A key counts as at least `KEY_PAIRS` pairs.
const STEP_PAIRS: usize = 1024;
const KEY_PAIRS: usize = 4;

/// The table.
#[derive(Default)]
pub(super) struct Table {
    shards: Shards,
    hasher: RandomState,
    keys: AtomicUsize,
    /// Pairs of a key and a reader.
    pairs: AtomicUsize,
    /// Bytes of the keys and their lists.
    memory: AtomicUsize,
    keys_max: AtomicUsize,
    memory_max: AtomicUsize,
    /// The next shard to evict from.
    hand: AtomicUsize,
}

struct Shards([Mutex<Shard>; SHARDS]);

impl Default for Shards {
    fn default() -> Self {
        Shards(std::array::from_fn(|_| Mutex::default()))
    }
}

#[derive(Default)]
struct Shard {
    /// The readers of each key, as sorted numbers.
    readers: BTreeMap<Box<[u8]>, Vec<u64>>,
    /// The last evicted key. The next eviction takes the key that follows it.
    taken_out: Box<[u8]>,
}

/// The size of the table.
#[derive(Default)]
pub struct Size {
    pub keys: usize,
    pub pairs: usize,
    pub memory: usize,
}

/// The position of a walk over the table.
#[derive(Default)]
pub(super) struct Cursor {
    shard: usize,
    /// The last visited key.
    key: Option<Box<[u8]>>,
}

// ORDERING: Relaxed for all figures: nothing else is read through them. A pair is added under the lock of its shard and
// subtracted later: no sum falls below 0.
impl Table {
    /// Sets the limits; 0 for no limit.
    pub(super) fn set_limits(&self, keys_max: usize, memory_max: usize) {
        let limit = |max| if max == 0 { usize::MAX } else { max };
        self.keys_max.store(limit(keys_max), Ordering::Relaxed);
        self.memory_max.store(limit(memory_max), Ordering::Relaxed);
    }

    pub(super) fn size(&self) -> Size {
        Size {
            keys: self.keys.load(Ordering::Relaxed),
            pairs: self.pairs.load(Ordering::Relaxed),
            memory: self.memory.load(Ordering::Relaxed),
        }
    }

    /// Whether the table is over a limit.
    fn is_over(&self) -> bool {
        let size = self.size();
        size.keys > self.keys_max.load(Ordering::Relaxed)
            || size.memory > self.memory_max.load(Ordering::Relaxed)
    }

    /// Records that `reader` reads a key; returns the growth in bytes, or None if the pair was there already.
    pub(super) fn enter(&self, key: &[u8], reader: u64) -> Option<usize> {
        let mut shard = self.shard(key);
        let mut more = Size { keys: 0, pairs: 1, memory: 0 };
        if let Some(readers) = shard.readers.get_mut(key) {
            let at = readers.binary_search(&reader).err()?;
            let before = list_len(readers);
            readers.insert(at, reader);
            more.memory = list_len(readers) - before;
        } else {
            let readers = vec![reader];
            (more.keys, more.memory) = (1, entry_len(key) + list_len(&readers));
            shard.readers.insert(key.into(), readers);
        }
        self.keys.fetch_add(more.keys, Ordering::Relaxed);
        self.pairs.fetch_add(more.pairs, Ordering::Relaxed);
        self.memory.fetch_add(more.memory, Ordering::Relaxed);
        Some(more.memory)
    }

    /// Removes a key; returns its readers.
    pub(super) fn remove(&self, key: &[u8]) -> Vec<u64> {
        let readers = self.shard(key).readers.remove(key).unwrap_or_default();
        if !readers.is_empty() {
            self.subtract(&Size::of(key, &readers));
        }
        readers
    }

    /// Removes all keys.
    pub(super) fn clear(&self) {
        for shard in &self.shards.0 {
            let readers = std::mem::take(&mut lock(shard).readers);
            let mut less = Size::default();
            readers.iter().for_each(|(key, readers)| less.add(&Size::of(key, readers)));
            self.subtract(&less);
        }
    }

    /// Evicts a key if the table is over a limit, from each shard in turn; returns the key and its readers.
    pub(super) fn take_excess(&self) -> Option<(Box<[u8]>, Vec<u64>)> {
        if !self.is_over() {
            return None;
        }
        let hand = self.hand.fetch_add(1, Ordering::Relaxed);
        let mut shards = (0..SHARDS).map(|i| &self.shards.0[hand.wrapping_add(i) % SHARDS]);
        let (key, readers) = shards.find_map(|shard| lock(shard).take_next())?;
        self.subtract(&Size::of(&key, &readers));
        Some((key, readers))
    }

    /// Takes one step of a walk that drops all readers except those that `stays` accepts; false after the last key.
    pub(super) fn drop_some(&self, cursor: &mut Cursor, stays: impl Fn(u64) -> bool) -> bool {
        let Some(shard) = self.shards.0.get(cursor.shard) else { return false };
        let mut shard = lock(shard);
        let last = cursor.key.take();
        let behind = last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut less, mut emptied) = (Size::default(), Vec::new());
        let mut left = STEP_PAIRS;
        for (key, readers) in shard.readers.range_mut::<[u8], _>((behind, Bound::Unbounded)) {
            let (len, memory) = (readers.len(), list_len(readers));
            readers.retain(|reader| stays(*reader));
            if readers.len() < len {
                readers.shrink_to(2 * readers.len());
                less.pairs += len - readers.len();
                less.memory += memory - list_len(readers);
            }
            if readers.is_empty() {
                emptied.push(key.clone());
            }
            left = left.saturating_sub(len.max(KEY_PAIRS));
            if left == 0 {
                cursor.key = Some(key.clone());
                break;
            }
        }
        for key in &emptied {
            shard.readers.remove(key);
            less.add(&Size { keys: 1, pairs: 0, memory: entry_len(key) });
        }
        self.subtract(&less);
        cursor.shard += usize::from(cursor.key.is_none());
        true
    }

    fn subtract(&self, less: &Size) {
        self.keys.fetch_sub(less.keys, Ordering::Relaxed);
        self.pairs.fetch_sub(less.pairs, Ordering::Relaxed);
        self.memory.fetch_sub(less.memory, Ordering::Relaxed);
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        lock(&self.shards.0[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

impl Shard {
    /// Evicts the key that follows the last evicted one.
    fn take_next(&mut self) -> Option<(Box<[u8]>, Vec<u64>)> {
        let behind = (Bound::Excluded(&*self.taken_out), Bound::Unbounded);
        let next = self.readers.range::<[u8], _>(behind).next();
        let (key, _) = next.or_else(|| self.readers.first_key_value())?;
        let key = key.clone();
        let readers = self.readers.remove(&key)?;
        self.taken_out.clone_from(&key);
        Some((key, readers))
    }
}

impl Size {
    fn of(key: &[u8], readers: &Vec<u64>) -> Size {
        Size { keys: 1, pairs: readers.len(), memory: entry_len(key) + list_len(readers) }
    }

    fn add(&mut self, more: &Size) {
        self.keys += more.keys;
        self.pairs += more.pairs;
        self.memory += more.memory;
    }
}

fn entry_len(key: &[u8]) -> usize {
    ENTRY_LEN + key.len()
}

fn list_len(readers: &Vec<u64>) -> usize {
    readers.capacity() * size_of::<u64>()
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic during a change leaves the map consistent.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(keys_max: usize, memory_max: usize) -> Table {
        let table = Table::default();
        table.set_limits(keys_max, memory_max);
        table
    }

    /// The count matches the contents.
    fn checked(table: &Table) -> Size {
        let mut size = Size::default();
        for shard in &table.shards.0 {
            lock(shard).readers.iter().for_each(|(key, readers)| size.add(&Size::of(key, readers)));
        }
        let counted = table.size();
        assert_eq!(
            (size.keys, size.pairs, size.memory),
            (counted.keys, counted.pairs, counted.memory)
        );
        size
    }

    #[test]
    fn each_key_has_its_readers() {
        let table = table(0, 0);
        assert!(table.enter(b"k", 2).is_some() && table.enter(b"k", 1).is_some());
        assert_eq!(table.enter(b"k", 2), None);
        table.enter(b"l", 3);
        let size = checked(&table);
        assert_eq!((size.keys, size.pairs), (2, 3));
        assert_eq!(table.remove(b"k"), [1, 2]);
        assert!(table.remove(b"k").is_empty());
        checked(&table);
        table.clear();
        assert_eq!((checked(&table).keys, table.size().memory), (0, 0));
        assert!(table.take_excess().is_none());
    }

    /// Pairs were bounded once and keys were not: a million keys of 64 KiB took 64 GiB.
    #[test]
    fn keys_and_memory_are_bounded_each_by_its_limit() {
        for (keys_max, memory_max) in [(50, 0), (0, 200_000)] {
            let table = table(keys_max, memory_max);
            for i in 0..2_000u64 {
                let key = [&i.to_le_bytes()[..], &vec![0; 5_000]].concat();
                (0..1 + i % 20).for_each(|reader| _ = table.enter(&key, reader));
                while table.take_excess().is_some() {}
                let size = table.size();
                assert!(keys_max == 0 || size.keys <= keys_max);
                assert!(memory_max == 0 || size.memory <= memory_max);
            }
            assert!(checked(&table).keys >= 30);
        }
    }

    /// A step was once bounded by keys alone: 256 keys of 10,000 readers each kept their shard for 50 ms.
    #[test]
    fn a_step_of_a_walk_looks_at_few_pairs_however_many_a_key_has() {
        const KEYS: u64 = 640;
        const READERS: u64 = 600;
        let table = table(0, 0);
        (0..KEYS).for_each(|key| {
            (0..READERS).for_each(|reader| _ = table.enter(&key.to_le_bytes(), reader));
        });
        let (mut cursor, mut all) = (Cursor::default(), 0);
        loop {
            let looked = std::cell::Cell::new(0);
            let goes_on = table.drop_some(&mut cursor, |reader| {
                looked.set(looked.get() + 1);
                reader % 2 == 0
            });
            assert!(looked.get() <= STEP_PAIRS as u64 + READERS, "{} in one step", looked.get());
            all += looked.get();
            if !goes_on {
                break;
            }
        }
        assert_eq!(all, KEYS * READERS, "each once");
        assert_eq!(checked(&table).pairs as u64, KEYS * READERS / 2);
    }

    #[test]
    fn a_walk_drops_only_the_chosen_readers() {
        let table = table(0, 0);
        let n = 3 * (STEP_PAIRS / KEY_PAIRS * SHARDS) as u64;
        for i in 0..n {
            table.enter(&i.to_le_bytes(), i % 3);
            table.enter(&i.to_le_bytes(), 1);
        }
        let (mut cursor, mut steps) = (Cursor::default(), 0);
        while table.drop_some(&mut cursor, |reader| reader == 2) {
            steps += 1;
        }
        // Nearly: how many keys are in which shard is up to chance.
        assert!((3 * SHARDS..6 * SHARDS).contains(&steps), "{steps} steps");
        let size = checked(&table);
        assert_eq!((size.keys as u64, size.pairs as u64), (n / 3, n / 3));
        (0..n).for_each(|i| {
            let stays: &[u64] = if i % 3 == 2 { &[2] } else { &[] };
            assert_eq!(table.remove(&i.to_le_bytes()), stays);
        });
        assert_eq!((checked(&table).keys, table.size().memory), (0, 0));
    }
}
