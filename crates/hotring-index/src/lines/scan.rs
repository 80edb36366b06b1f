//! Scanning all items.
//!
//! A cursor is the least hash that has not been visited. It means the same in every table, since homes are in the
//! order of hashes. A home is read as a unit, as for a miss: each item is read at one moment, and none has moved
//! meanwhile.

use super::bits::{HASH_MAX, STASHED};
use super::lane::{Form, Search, by_form};
use super::session::LinesSession;
use super::stash::{Decision, Stash};
use super::table::Table;
use std::ops::RangeInclusive;

/// One call visits at most `HOMES_PER_ITEM` homes for each requested item, and `HOMES_MORE` in
/// addition.
const HOMES_PER_ITEM: usize = 4;
const HOMES_MORE: usize = 64;

/// A hash and its value.
type Item = (u64, u64);

impl LinesSession {
    /// Visits up to about `count` items (all of a line together; fewer or none where the table is sparse) from
    /// `cursor` on and returns the next cursor. 0 starts, 0 is the end. A key that is present all the time is visited
    /// exactly once between start and end, also while the table grows or shrinks. An item is visited with a value
    /// that it had during the call.
    pub fn scan(&mut self, cursor: u64, count: usize, mut f: impl FnMut(u64, u64)) -> u64 {
        let mut cursor = Some(cursor);
        let (mut items, mut visited) = (Vec::new(), 0);
        for _ in 0..count.saturating_mul(HOMES_PER_ITEM).saturating_add(HOMES_MORE) {
            let Some(from) = cursor.filter(|_| visited < count) else { break };
            cursor = self.home_of(from, &mut items);
            for (hash, value) in &items {
                f(self.key(*hash), *value);
            }
            visited += items.len();
        }
        cursor.unwrap_or(0)
    }

    /// Removes all keys that are present when the call begins, one by one. A key that is inserted meanwhile may be
    /// removed, too. Each removal is linearizable by itself; together they are not one step. If the map shrinks
    /// automatically, its memory is freed in the steps that follow.
    pub fn clear(&mut self) {
        let (mut cursor, mut items) = (Some(0), Vec::new());
        while let Some(from) = cursor {
            cursor = self.home_of(from, &mut items);
            for (hash, _) in &items {
                self.remove_hash(*hash, |_| Decision::Remove);
            }
        }
    }

    /// Collects the items of a hash's home from that hash on; returns the first hash behind the
    /// home.
    fn home_of(&mut self, hash: u64, items: &mut Vec<Item>) -> Option<u64> {
        self.switch_table_if_left();
        let table = self.table();
        by_form!(self.form, S => read_home::<S>(table, hash, items))
    }
}

/// A home that has moved on is read in the next table, and only as far as it went: the new home may cover others,
/// which have not moved yet.
fn read_home<S: Search>(mut table: &Table, from: u64, items: &mut Vec<Item>) -> Option<u64> {
    let mut last = HASH_MAX;
    loop {
        let shape = &table.shape;
        let index = shape.home(from).index;
        let Some(seen) = table.see(index) else {
            last = last.min(*shape.hashes(index).end());
            table = table.after();
            continue;
        };
        items.clear();
        shape.each_item::<S>(index, seen.reach, |found| {
            items.push((shape.hash(index, found.pair.word), found.pair.value));
        });
        let hashes = shape.hashes(index);
        if seen.reach == STASHED && !read_stash(&table.stash, &hashes, items) {
            continue;
        }
        if table.is_as(index, seen) {
            // A move within the table that was not counted yet may show both of its copies, which are equal.
            items.sort_unstable();
            items.dedup();
            let last = last.min(*hashes.end());
            items.retain(|(hash, _)| (from..=last).contains(hash));
            return (last < HASH_MAX).then(|| last + 1);
        }
    }
}

/// Collects the items of these hashes in the stash. Capacity is reserved before the stash is locked, because threads
/// that hold a LOCK may wait for that lock. False: the capacity was too small.
#[cold]
fn read_stash(stash: &Stash, hashes: &RangeInclusive<u64>, items: &mut Vec<Item>) -> bool {
    let mut has_room = true;
    items.reserve(stash.len());
    stash.each(hashes, |hash, value| {
        has_room &= items.len() < items.capacity();
        if has_room {
            items.push((hash, value));
        }
    });
    has_room
}
