//! Scans and sweeps the table with a cursor.
//!
//! A bucket's keys are a range of positions (hashes with their bits reversed): on level n the range begins at the
//! bucket's number, reversed, and has length 2^(64 - n). A split halves the range, so a cursor is a position, and the
//! unit of a scan is a bucket. Its items are collected first, and visited once it is certain that none left meanwhile
//! (as in a reader's second look).

use crate::chaining::Chaining;
use crate::chaining::search::Home;
use crate::chaining::word::{SEALED, address, low_bits};
use hotring_index::sometimes;
use hotring_index::sync::Ordering;
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Engine, Hit, Scan};
use hotring_index::word::{MARK, Next};

/// Passing this many buckets counts as much as an item, so that a scan of a sparse table does not
/// hold other sessions up.
const BUCKETS_PER_ITEM: usize = 8;

/// The first position after the bucket with this index on this level; 0 after the last bucket.
fn end_of(index: u64, level: u32) -> u64 {
    let len = 1u64.checked_shl(64 - level).unwrap_or(0);
    index.reverse_bits().wrapping_add(len)
}

impl Scan for Chaining {
    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize) {
        let count = count.max(1);
        let buckets_max = count.saturating_mul(BUCKETS_PER_ITEM);
        let (mut position, mut visited, mut buckets) = (cursor, 0, 0);
        let mut unit = Vec::new();
        loop {
            position = Self::collect_bucket(p, position, &mut unit);
            for hit in unit.drain(..) {
                visited += f(p, hit);
            }
            buckets += 1;
            if position == 0 || visited >= count || buckets >= buckets_max {
                return (position, visited + buckets / BUCKETS_PER_ITEM);
            }
        }
    }

    fn sweep<K: Kind>(p: &mut Pinned<'_, K, Self>, from: <Self as Engine>::Bucket, to: u64) {
        let mut position = from.reverse_bits();
        loop {
            let home = Self::home(p, position.reverse_bits());
            if home.head.first() != 0 {
                Self::tidy(p, home.index);
            }
            position = end_of(home.index, home.head.level());
            if position == 0 || to != 0 && position >= to {
                return;
            }
        }
    }
}

impl Chaining {
    /// Collects the live items of the bucket at a position, from that position on, and returns the
    /// end of the bucket.
    fn collect_bucket<K: Kind>(p: &Pinned<'_, K, Self>, position: u64, unit: &mut Vec<Hit>) -> u64 {
        loop {
            let home = Self::home(p, position.reverse_bits());
            let level = Self::shown_level(p, home);
            Self::collect_live(p, home, level, position, unit);
            let head = p.engine.table.head(home.index);
            if Self::shown_level(p, Home { head, ..home }) == level {
                return end_of(home.index, level);
            }
            sometimes!(ScannedAgain);
            unit.clear();
        }
    }

    /// The level on which a bucket holds all keys of its range: the next level once the sibling is the home of the
    /// leaving items.
    fn shown_level<K: Kind>(p: &Pinned<'_, K, Self>, home: Home) -> u32 {
        let split =
            home.head.is_frozen() && p.engine.table.head(home.head.sibling(home.index)).is_ready();
        home.head.level() + u32::from(split)
    }

    fn collect_live<K: Kind>(
        p: &Pinned<'_, K, Self>,
        home: Home,
        level: u32,
        position: u64,
        unit: &mut Vec<Hit>,
    ) {
        let mut at = home.head.first();
        while at != 0 {
            let item = Self::item(p, at);
            // ORDERING: Acquire, as for every step of a walk.
            let word = Next(item.next().load(Ordering::Acquire));
            at = address(word.0);
            let hash = p.shared.kind.item_hash(item);
            let is_ours = low_bits(hash, level) == home.index;
            // Items that left before may still be linked; a scan visits them in the sibling.
            let is_live = if word.is(SEALED) { is_ours } else { !word.is(MARK) };
            // A live item that is not ours has a damaged hash: it is visited at the beginning of the bucket.
            let is_due = hash.reverse_bits() >= position;
            if is_live && if is_ours { is_due } else { position == home.index.reverse_bits() } {
                unit.push(Hit { item, word });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ranges_of_positions() {
        assert_eq!(end_of(0, 0), 0, "one bucket is everything");
        assert_eq!(end_of(0, 1), 1 << 63);
        assert_eq!(end_of(1, 1), 0);
        assert_eq!(end_of(2, 2), 1 << 63, "binary 10 comes before 01");
        let mut at = 0;
        for n in 0u64..8 {
            let index = (n << 61).reverse_bits();
            assert_eq!(index.reverse_bits(), at);
            at = end_of(index, 3);
        }
        assert_eq!(at, 0);
    }
}
