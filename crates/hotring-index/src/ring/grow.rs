//! The decision to double the table. [`crate::ring::split`] carries a doubling out, bucket by bucket.
//!
//! The table doubles because of its load, which inserts check, or because of the access overhead (FAST'20
//! section 3.4), which matters even if the table is only read. So each session sums the visits of its own
//! R-th accesses, and checks the sums of all sessions only when its own overhead is high. A session with
//! short lookups never pays for the check.

use crate::core::config::Growth;
use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::engine::Sizing;
use crate::ring::Ring;
use crate::session::Pinned;

/// The access overhead counts only once it is a mean over at least this many lookups, as R-th accesses estimate them.
const LOOKUPS_MIN: i64 = 4096;
/// After this many lookups the mean restarts: old accesses say nothing about the currently hot keys.
const LOOKUPS_MAX: i64 = 4 * LOOKUPS_MIN;
/// R-th accesses of a session between two checks of its sums.
const ACCESSES_PER_CHECK: u32 = 64;
/// Pages of memory for the next doubling that one check of the load requests. Many while the doubling is
/// near, because the pages must be present in time. Few in a crowded table, because the doubling waits for
/// the pages, and each insert that checks the load pays for its share.
const PAGES_WHEN_NEAR: u64 = 64;
const PAGES_WHEN_CROWDED: u64 = 8;
/// The memory for a doubling is requested while the load is between these fractions of the maximum.
const READY: [f64; 2] = [0.95, 0.98];

/// Sums over a session's R-th accesses since its last check.
#[derive(Default)]
pub(super) struct Seen {
    accesses: u32,
    lookups: u64,
    visits: u64,
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Adds the visits of an R-th access, which stands for `lookups` lookups. Periodically checks whether the
    /// table should double.
    pub(super) fn consider_overhead(&mut self, lookups: u64, visits: u64) {
        let seen = &mut self.local.engine.seen;
        seen.accesses += 1;
        seen.lookups += lookups;
        seen.visits += visits;
        if seen.accesses < ACCESSES_PER_CHECK {
            return;
        }
        let seen = std::mem::take(seen);
        let Growth::Auto { visits_max, .. } = self.engine.growth else { return };
        if seen.visits as f64 > visits_max * seen.lookups as f64 {
            self.grow_if_due();
        }
    }

    /// Doubles the table if its load is too high, or if the access overhead (FAST'20 section 3.4) is too high and
    /// the load is high enough for a larger table to help.
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
                let overhead = self.overhead();
                let crowded = load >= items_min && overhead > visits_max;
                // `near` starts late, because no session uses the memory before the doubling, but early enough for the
                // memory to be ready in time.
                let [from, to] = READY;
                let near = ((load / items_max - from) / (to - from)).clamp(0.0, 1.0);
                let (part, pages) =
                    if crowded { (1.0, PAGES_WHEN_CROWDED) } else { (near, PAGES_WHEN_NEAR) };
                let ready = self.engine.table.prefault(mask, part, pages);
                self.engine.is_small_for(items) || (crowded && ready)
            }
            Growth::BytesPerKey(_) => self.engine.is_small_for(items),
        };
        if !due {
            return;
        }
        if self.double(mask) {
            let (lookups, visits) = self.lookups();
            self.measure_from(lookups, visits);
        } else if self.engine.resizing.is_busy() {
            self.local.participant.request_collection();
        }
    }

    fn lookups(&self) -> (i64, i64) {
        (self.shared.sum(|r| r.lookups.load()), self.shared.sum(|r| r.visits.load()))
    }

    /// Restarts the measurement of the overhead at these sums.
    fn measure_from(&self, lookups: i64, visits: i64) {
        // ORDERING: Relaxed, statistics.
        self.engine.lookups_before.store(lookups, Ordering::Relaxed);
        // ORDERING: Relaxed, statistics.
        self.engine.visits_before.store(visits, Ordering::Relaxed);
    }

    /// Recent visits per lookup; 0 until half of the new buckets are split off, because a doubling pays off only
    /// as its buckets are split.
    fn overhead(&self) -> f64 {
        // ORDERING: Relaxed, statistics.
        let splits = self.engine.splits.load(Ordering::Relaxed);
        let sums = self.lookups();
        if splits < (self.engine.table.mask() + 1) * 3 / 4 {
            // The visits until then are the cost of this doubling, not a reason for the next one.
            self.measure_from(sums.0, sums.1);
            return 0.0;
        }
        // ORDERING: Relaxed, statistics.
        let lookups = sums.0 - self.engine.lookups_before.load(Ordering::Relaxed);
        // ORDERING: Relaxed, statistics.
        let visits = sums.1 - self.engine.visits_before.load(Ordering::Relaxed);
        if lookups > LOOKUPS_MAX {
            self.measure_from(sums.0, sums.1);
        }
        if lookups < LOOKUPS_MIN { 0.0 } else { visits as f64 / lookups as f64 }
    }
}
