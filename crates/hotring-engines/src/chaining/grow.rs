//! Growth: the rule by which the table doubles, and the share of the splits that each session does.
//!
//! A doubling is one CAS on the mask. A bucket is split when a writer comes to it, and the rest in
//! small shares: each insert takes the next few buckets in turn, so that a doubling is complete long
//! before the next one is due. Collecting sessions take more, so that it also ends without inserts.

use crate::chaining::Chaining;
use crate::chaining::table::BUCKET;
use hotring_index::sometimes;
use hotring_index::toolkit::Kind;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{RESIZE_INTERVAL, Sizing};

/// Buckets that an insert looks at while the table grows, at least.
const SPLITS_PER_INSERT: u64 = match () {
    () if cfg!(loom) => 0,
    () if cfg!(shuttle) => 1,
    () => 4,
};
/// The upper bound of that number. An insert waits for its splits, and a table of more than 4 KiB
/// per key would need even more of them.
const SPLITS_PER_INSERT_MAX: u64 = 1024;
/// Buckets looked at at once when the next doubling is due before the last is complete: as long as a
/// table that began too small has not caught up. Some hundred microseconds.
const SPLITS_TO_CATCH_UP: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 8192 };
/// Buckets looked at in one step: some 50 microseconds with short chains of small items.
const SPLITS_PER_STEP: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 256 };

/// The number of buckets that an insert looks at: twice the number of buckets per insert until the
/// next doubling is due.
pub(crate) fn splits_an_insert(bytes_per_key: f64) -> u64 {
    let wanted = (2.0 * bytes_per_key / BUCKET as f64).ceil() as u64;
    wanted.clamp(SPLITS_PER_INSERT, SPLITS_PER_INSERT_MAX)
}

impl Chaining {
    /// Called once for each insert.
    #[inline(always)]
    pub(crate) fn consider_growth<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        p.local.inserts += 1;
        if p.local.inserts >= RESIZE_INTERVAL {
            p.local.inserts = 0;
            Self::grow_if_due(p);
        }
        if p.engine.table.is_growing() {
            Self::split_some(p, p.engine.splits_an_insert);
        }
    }

    /// The rule is that of HotRing, so that the tables of both have the same size.
    fn grow_if_due<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        let mask = p.engine.table.mask();
        if !p.engine.is_small_for(p.shared.items().max(0) as u64)
            || !p.shared.may_double()
            || Self::double(p, mask)
        {
            return;
        }
        if p.engine.table.is_growing() {
            Self::split_some(p, SPLITS_TO_CATCH_UP);
            Self::double(p, mask);
        }
    }

    pub(crate) fn double<K: Kind>(p: &mut Pinned<'_, K, Self>, mask: u64) -> bool {
        let doubled = p.engine.table.double(mask);
        if doubled {
            sometimes!(Grown);
        }
        doubled
    }

    /// Does a share of the remaining splits, for collecting sessions. Does nothing while limbo exceeds its limit,
    /// because leaving items would add to it.
    pub(crate) fn step_growth<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        if !p.local.participant.is_over_limit() {
            Self::split_some(p, SPLITS_PER_STEP);
        }
    }

    #[cold]
    #[inline(never)]
    fn split_some<K: Kind>(p: &mut Pinned<'_, K, Self>, buckets: u64) {
        for index in p.engine.table.next_to_split(buckets) {
            let head = p.engine.table.head(index);
            if head.level() < p.engine.table.level() {
                Self::split(p, index);
            }
        }
    }
}
