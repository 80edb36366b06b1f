//! Walking the whole table with a cursor.
//!
//! A home is a range of positions in every table, and is read as a unit, as for a miss: each item is read at one
//! moment, and no item of the home moves meanwhile.

use super::ItemLines;
use crate::core::item::Kind;
use crate::engine::{Hit, Scan};
use crate::lines::bits::STASHED;
use crate::lines::lane::{Form, Search, by_form};
use crate::session::Pinned;

/// Passing this many homes counts as much as an item, so that a scan of a sparse table does not
/// hold other sessions up.
const HOMES_AN_ITEM: usize = 8;

impl Scan for ItemLines {
    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize) {
        let count = count.max(1);
        let homes_max = count.saturating_mul(HOMES_AN_ITEM);
        let (mut position, mut visited, mut homes) = (cursor, 0, 0);
        let mut unit = Vec::new();
        loop {
            position =
                by_form!(p.engine.form, S => Self::collect_home::<S, K>(p, position, &mut unit));
            for (_, value) in unit.drain(..) {
                let hit = Self::hit(p, value);
                visited += f(p, hit);
            }
            homes += 1;
            if position == 0 || visited >= count || homes >= homes_max {
                return (position, visited + homes / HOMES_AN_ITEM);
            }
        }
    }
}

impl ItemLines {
    /// Collects the items of the home at a position, from that position on and in order. Returns the end of the home,
    /// 0 after the last. An item with a damaged hash is visited at the beginning of its home.
    ///
    /// A home that has moved on is read in the next table, and only as far as it went: the new home may cover others,
    /// which have not moved yet.
    fn collect_home<S: Search, K: Kind>(
        p: &Pinned<'_, K, Self>,
        position: u64,
        unit: &mut Vec<(u64, u64)>,
    ) -> u64 {
        let mut table = p.engine.table();
        let mut last = u64::MAX;
        loop {
            let index = table.shape.home(position).index;
            let Some(seen) = table.see(index) else {
                last = last.min(*table.shape.positions(index).end());
                table = table.after();
                continue;
            };
            let mut take = |value| {
                let own = p.shared.kind.item_hash(Self::item(p, value)).reverse_bits();
                unit.push((own, value));
            };
            table.shape.each_item::<S>(index, seen.reach, |found| take(found.pair.value));
            let positions = table.shape.positions(index);
            if seen.reach == STASHED {
                table.stash.each(positions.clone(), take);
            }
            if !table.is_as(index, seen) {
                unit.clear();
                continue;
            }
            let last = last.min(*positions.end());
            let is_first = *positions.start() == position;
            unit.retain(|(own, _)| {
                (position..=last).contains(own) || is_first && !positions.contains(own)
            });
            // A move within the table that was not counted yet may show both of its copies, which are equal.
            unit.sort_unstable();
            unit.dedup();
            return last.wrapping_add(1);
        }
    }
}
