//! Walking the whole table with a cursor, bucket by bucket in the order of reversed hash bits.
//!
//! A bucket of a table of 2^k is the range of positions that begin with the same k bits. A split
//! divides the bucket into the halves of that range. So a scan may read a range from either table, at
//! any time, and covers the same keys.

use crate::mercury::locking::{Bucket, HASMOVED, Locking};
use crate::mercury::table::Table;
use crate::mercury::{Mercury, Tables};
use hotring_index::sync::Ordering;
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Hit, Scan};
use hotring_index::word::{Link, Next};

/// Passing this many empty buckets, a few cache lines in a row, counts as much as an item, so that
/// a scan of a sparse table does not hold other sessions up.
const BUCKETS_PER_ITEM: usize = 32;
/// Empty buckets passed before the thread lock is released.
const BUCKETS_PER_STEP: usize = if cfg!(any(loom, shuttle)) { 2 } else { 64 };

impl<L: Locking> Scan for Mercury<L> {
    /// Collects the items of a bucket under its lock, and visits them after the unlock.
    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        mut cursor: u64,
        count: usize,
        mut f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize) {
        let count = count.max(1);
        let (mut visited, mut passed) = (0, 0);
        let mut met = Vec::new();
        loop {
            cursor = Self::collect_bucket(p, cursor, &mut met, &mut passed);
            for hit in met.drain(..) {
                visited += f(p, hit);
            }
            let is_sparse = passed > BUCKETS_PER_ITEM.saturating_mul(count);
            if cursor == 0 || visited >= count || is_sparse {
                return (cursor, visited + passed / BUCKETS_PER_ITEM);
            }
        }
    }
}

impl<L: Locking> Mercury<L> {
    /// Collects the items of the next bucket that is not empty, if there is one nearby, from the position
    /// `cursor` on. Returns the first position that is not covered.
    fn collect_bucket<K: Kind>(
        p: &Pinned<'_, K, Self>,
        mut cursor: u64,
        met: &mut Vec<Hit>,
        passed: &mut usize,
    ) -> u64 {
        let inside = p.local.engine.enter();
        let tables = p.engine.tables(&inside);
        for _ in 0..BUCKETS_PER_STEP {
            *passed += 1;
            if let Some(table) = Self::sees_empty(p, tables, cursor.reverse_bits()) {
                cursor = end_of(table, cursor);
                if cursor == 0 {
                    return 0;
                }
                continue;
            }
            let (held, table) = Self::hold(p, tables, cursor.reverse_bits());
            let bucket = table.index(cursor.reverse_bits());
            let is_due = |hit: &Hit| {
                let hash = p.shared.kind.item_hash(hit.item);
                // An item that does not belong to this bucket has a damaged hash: it is visited at
                // the beginning of the bucket.
                let is_ours = table.index(hash) == bucket;
                if is_ours {
                    hash.reverse_bits() >= cursor
                } else {
                    bucket.reverse_bits() == cursor
                }
            };
            met.extend(held.items().map(|spot| spot.hit).filter(is_due));
            return end_of(table, cursor);
        }
        cursor
    }

    /// The table in which the bucket of a hash was empty a moment ago, without its lock.
    fn sees_empty<'w, K: Kind>(
        p: &Pinned<'_, K, Self>,
        tables: Tables<'w, L>,
        hash: u64,
    ) -> Option<&'w Table<L>> {
        let Tables { current, next } = tables;
        let table = match next {
            // ORDERING: Acquire, as in `hold`.
            Some(next) if current.index(hash) < p.engine.moved.0.load(Ordering::Acquire) => next,
            _ => current,
        };
        let word = table.bucket(hash).peek();
        (word & HASMOVED == 0 && Next(word).link() == Link::NONE).then_some(table)
    }
}

/// The first position after the bucket that a position is in; 0 after the last.
fn end_of<B: Bucket>(table: &Table<B>, position: u64) -> u64 {
    let inside = u64::MAX >> table.len().trailing_zeros();
    (position | inside).wrapping_add(1)
}
