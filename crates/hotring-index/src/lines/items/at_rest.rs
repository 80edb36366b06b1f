//! Checks the invariants of lines of items at rest, for model checkers.

use super::ItemLines;
use super::table::Table;
use crate::checks::Checked;
use crate::core::item::{Item, Kind};
use crate::index::Index;
use crate::lines::bits::{FROZEN, LIVE, LOCK, PROBE_MAX, SPREAD, STASHED, probe_of};
use crate::lines::lane::Model;
use crate::session::{Pinned, Session};
use std::collections::HashSet;

impl Checked for ItemLines {
    const GROWS_IN_STEPS: bool = true;

    /// Each item that is not retired is in one lane (or the stash) of the one home that it belongs to, within REACH;
    /// nothing is frozen or locked.
    fn check_at_rest<K: Kind>(session: &mut Session<K, Self>, index: &Index<K, Self>) {
        let pinned = session.pin_to_look();
        let (mut all, mut table) = (HashSet::new(), Some(pinned.engine.table()));
        while let Some(now) = table {
            Self::check_table(&pinned, now, &mut all);
            table = now.next();
        }
        assert_eq!(index.alive().collect::<HashSet<u64>>(), all, "in a lane, or retired");
    }
}

impl ItemLines {
    fn check_table<K: Kind>(p: &Pinned<'_, K, Self>, table: &Table, all: &mut HashSet<u64>) {
        let hash = |item: Item| p.shared.kind.item_hash(item).reverse_bits();
        for index in 0..table.shape.lines() {
            let control = table.shape.line(index).control();
            assert!(control & LOCK == 0, "home {index} is locked");
            let reach = table.see(index).map(|seen| seen.reach);
            assert!(control & SPREAD == 0 || reach != Some(0), "home {index} is SPREAD");
            table.shape.each_item::<Model>(index, PROBE_MAX, |found| {
                let word = found.pair.word;
                assert!(word & (LIVE | FROZEN) == LIVE, "an item is frozen");
                let item = Self::item(p, found.pair.value);
                assert_eq!(table.shape.home(hash(item)).index, index, "its home");
                assert!(reach.is_some_and(|reach| probe_of(word) <= reach), "beyond REACH");
                assert!(all.insert(item.address()), "an item is in two lanes");
            });
            table.stash.each(table.shape.positions(index), |value| {
                assert_eq!(reach, Some(STASHED), "beyond REACH");
                assert!(all.insert(Self::item(p, value).address()), "an item is in two places");
            });
        }
    }
}
