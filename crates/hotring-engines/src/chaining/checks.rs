//! Checks the invariants of chains at rest, for model checkers.

use crate::chaining::Chaining;
use crate::chaining::word::{SEALED, address};
use hotring_index::checks::Checked;
use hotring_index::sync::Ordering;
use hotring_index::toolkit::Index;
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::{Pinned, Session};
use hotring_index::word::{MARK, Next};
use std::collections::HashSet;

impl Checked for Chaining {
    const GROWS_IN_STEPS: bool = true;

    /// No bucket is being split; each item is live and in its bucket; buckets that are ready, and
    /// only those, have taken part in splits; every item that is not retired is in a chain.
    fn check_at_rest<K: Kind>(session: &mut Session<K, Self>, index: &Index<K, Self>) {
        let mut pinned = session.pin_to_look();
        let (mask, level) = (pinned.engine.table.mask(), pinned.engine.table.level());
        let mut chained = HashSet::new();
        let mut ready = 0;
        for index in 0..=mask {
            let head = pinned.engine.table.head(index);
            if !head.is_ready() {
                assert!(index > mask >> 1, "a bucket of a complete table is not ready");
                continue;
            }
            ready += 1;
            assert!(!head.is_frozen(), "a split was left in the middle");
            let sibling = index | (mask + 1) >> 1;
            let is_split = pinned.engine.table.head(sibling).is_ready();
            assert_eq!(head.level(), level - u32::from(!is_split), "a bucket's level");
            Self::tidy(&mut pinned, index);
            Self::check_chain(&pinned, index, &mut chained);
        }
        let (_, splits) = pinned.engine.table.history();
        assert_eq!(ready, splits + 1, "splits are counted");
        for address in index.alive() {
            assert!(chained.contains(&address), "an item is neither in a chain nor retired");
        }
    }
}

impl Chaining {
    fn check_chain<K: Kind>(p: &Pinned<'_, K, Self>, index: u64, chained: &mut HashSet<u64>) {
        let head = p.engine.table.head(index);
        let mut at = head.first();
        while at != 0 {
            let item = Self::item(p, at);
            // ORDERING: Acquire, as for readers.
            let word = Next(item.next().load(Ordering::Acquire));
            assert!(!word.is(MARK), "a dead item is still in a chain after a sweep");
            assert!(!word.is(SEALED), "an item is sealed where no split is under way");
            assert!(item.lifetime().is_alive(), "a retired item is in a chain");
            assert!(head.holds(index, p.shared.kind.item_hash(item)), "an item's bucket");
            assert!(chained.insert(at), "an item is in two chains");
            at = address(word.0);
        }
    }
}
