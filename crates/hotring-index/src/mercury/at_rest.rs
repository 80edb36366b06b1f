//! A look at an index at rest, for checkers: every item that is not retired is in the chain that it
//! belongs to, and in no other, once.

use crate::checks::Fault;
use crate::item::{Item, Kind};
use crate::mercury::locking::{HASMOVED, Locking};
use crate::mercury::{Mercury, Tables};
use crate::session::Session;
use crate::word::MARK;
use std::collections::HashSet;

impl<K: Kind, L: Locking> Session<K, Mercury<L>> {
    /// Looks at all buckets.
    ///
    /// # Panics
    /// If something is not as it should be.
    pub fn check_chains(&mut self) {
        let shared = self.shared();
        assert!(shared.config.fault == Fault::None, "a wrong variant is judged by its effects");
        // SAFETY: no other session does anything.
        let Tables { current, next } = unsafe { shared.engine.tables_unchecked() };
        let mut chained = HashSet::new();
        for bucket in 0..current.len() {
            let moved = current.bucket(bucket).peek() & HASMOVED != 0;
            assert!(!moved || next.is_some(), "a bucket has moved to nowhere");
            for (table, is_in_use) in [(Some(current), !moved), (next, moved)] {
                let Some(table) = table else { continue };
                for at in (bucket..table.len()).step_by(current.len() as usize) {
                    let word = table.bucket(at).peek();
                    assert!(word & 1 == 0, "bucket {at} is locked");
                    for spot in super::chain::Items::of_word(word) {
                        let item = spot.hit.item;
                        assert!(is_in_use, "an item is in a bucket that is not in use");
                        assert!(!spot.hit.word.is(MARK), "a dead item is in a chain");
                        assert!(chained.insert(item.address()), "an item is in two chains");
                        assert_eq!(table.index(shared.kind.item_hash(item)), at, "its bucket");
                    }
                }
            }
        }
        for address in shared.arena.blocks() {
            // SAFETY: P: under a checker no block is handed back, and each holds an item.
            let item = unsafe { Item::at(address) };
            let is_chained = chained.contains(&address);
            assert_eq!(item.ghost().is_alive(), is_chained, "in a chain, or retired");
        }
    }
}
