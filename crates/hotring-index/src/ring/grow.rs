//! When the table doubles. How it does is in [`crate::ring::split`]: bucket by bucket.

use crate::config::Growth;
use crate::engine::Engine;
use crate::item::Kind;
use crate::ring::Ring;
use crate::session::Pinned;
use crate::sync::Ordering;

/// Sampled lookups that a mean must rest on.
const LOOKUPS_MIN: i64 = 4096;
/// Pages of memory for the next doubling that are asked for at one look at the load: as it comes near,
/// many, as they have to be there in time; in a crowded table, few, as the doubling waits for them and so
/// does every insert.
const PAGES_WHEN_NEAR: u64 = 64;
const PAGES_WHEN_CROWDED: u64 = 8;
/// Between these parts of the load that doubles the table, its memory is asked for.
const READY: [f64; 2] = [0.95, 0.98];

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Doubles the table if the load says so, or the access overhead (FAST'20 section 3.4) while
    /// the load would let a larger table help.
    pub(crate) fn grow_if_due(&mut self) {
        if !self.shared.may_double() {
            return;
        }
        let mask = self.engine.table.mask();
        let items = self.shared.items().max(0) as u64;
        let due = match self.engine.growth {
            Growth::Fixed => return,
            Growth::Auto { visits_max, items_min, items_max, .. } => {
                let load = items as f64 / (mask + 1) as f64;
                let crowded = load >= items_min && self.overhead() > visits_max;
                // Late, as it is memory that nobody uses yet; early enough to be ready in time.
                let [from, to] = READY;
                let near = ((load / items_max - from) / (to - from)).clamp(0.0, 1.0);
                let (part, pages) =
                    if crowded { (1.0, PAGES_WHEN_CROWDED) } else { (near, PAGES_WHEN_NEAR) };
                let ready = self.engine.table.touch_ahead(mask, part, pages);
                self.engine.is_small_for(items) || (crowded && ready)
            }
            Growth::BytesPerKey(_) => self.engine.is_small_for(items),
        };
        if !due {
            return;
        }
        if self.double(mask) {
            let (lookups, visits) = self.lookups();
            // ORDERING: Relaxed, statistics.
            self.engine.lookups_before.store(lookups, Ordering::Relaxed);
            // ORDERING: Relaxed, statistics.
            self.engine.visits_before.store(visits, Ordering::Relaxed);
        } else if self.engine.resizing.is_busy() {
            self.local.participant.hurry();
        }
    }

    fn lookups(&self) -> (i64, i64) {
        (self.shared.sum(|r| r.lookups.load()), self.shared.sum(|r| r.visits.load()))
    }

    /// Items visited per lookup since the last doubling, once half of the new buckets are split
    /// off: the benefit of a doubling comes with them.
    fn overhead(&self) -> f64 {
        // ORDERING: Relaxed, statistics.
        let splits = self.engine.splits.load(Ordering::Relaxed);
        if splits < (self.engine.table.mask() + 1) * 3 / 4 {
            return 0.0;
        }
        let (lookups, visits) = self.lookups();
        // ORDERING: Relaxed, statistics.
        let lookups = lookups - self.engine.lookups_before.load(Ordering::Relaxed);
        // ORDERING: Relaxed, statistics.
        let visits = visits - self.engine.visits_before.load(Ordering::Relaxed);
        if lookups < LOOKUPS_MIN { 0.0 } else { visits as f64 / lookups as f64 }
    }
}
