//! Checks an index at rest, for model checkers: every item that is not retired is in the chain that
//! it belongs to, exactly once, and in no other chain.

use crate::mercury::locking::{HASMOVED, Locking};
use crate::mercury::{Mercury, Tables};
use hotring_index::checks::Checked;
use hotring_index::toolkit::Index;
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::Session;
use hotring_index::word::MARK;
use std::collections::HashSet;

impl<L: Locking> Checked for Mercury<L> {
    const GROWS_IN_STEPS: bool = true;

    fn check_at_rest<K: Kind>(_session: &mut Session<K, Self>, index: &Index<K, Self>) {
        let shared = &index.shared;
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
        assert_eq!(index.alive().collect::<HashSet<u64>>(), chained, "in a chain, or retired");
    }
}
