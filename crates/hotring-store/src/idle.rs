//! Idle times of keys, for policies that do not need the access bits. The eight bits date an access of the last days,
//! and a recent access to half a minute.
//!
//! # Picture
//! ```text
//!   stamp  | ring | label |    2 and 6 bits: an access in a span of time of the ring's unit
//!
//!   ring 0   64 labels of 30 s       an access leaves the label of its time
//!   ring 1   64 labels of 4 min      dates older than `OLD` labels have moved here
//!   ring 2   64 labels of 32 min     and so on
//!   ring 3   64 labels of 4.3 h      nothing gets older here than `AGE_MAX`, 8 days
//! ```
//! Labels wrap around: a stamp of 64 units ago is equal to a current one. So the owner's walk over all items
//! (`Session::age_some`) must move each old stamp to the next ring, which has a coarser resolution. A round of the
//! walk must not take longer than `ROUND_MS`.
//!
//! # Precision
//! The result is a lower bound of the idle time. A stamp moves to a label that ends no earlier, a stamp that has
//! wrapped around looks younger, and the age of a stamp never exceeds the time since recording began. So errors are on
//! one side: a command that removes keys with a long idle time never removes a key that was used recently.

use std::sync::atomic::{AtomicU64, Ordering};

const LABEL_BITS: u32 = 6;
const LABELS: u64 = 1 << LABEL_BITS;
const RING_LAST: u8 = 3;
/// Milliseconds of a label in ring 0. The unit of each further ring is 8 times as long.
const UNIT_MS: u64 = 30_000;
/// Age in labels above which a stamp moves to the next ring. That is three labels of the next ring, so that little
/// precision is lost.
const OLD: u64 = 24;
/// Greatest age in labels that a stamp of the last ring can have.
const AGE_MAX: u64 = 48;
/// Longest time of a round of the walk: each item must be visited before old labels of ring 0 wrap around.
pub(crate) const ROUND_MS: u64 = (LABELS - OLD) * 3 / 4 * UNIT_MS;

fn unit(ring: u8) -> u64 {
    UNIT_MS << (3 * u32::from(ring))
}

/// The stamp of an access.
pub(crate) fn stamp(now: u64) -> u8 {
    (now / UNIT_MS % LABELS) as u8
}

/// The age of a stamp, in labels of its ring.
fn age(stamp: u8, now: u64) -> u64 {
    let (ring, label) = (stamp >> LABEL_BITS, u64::from(stamp) % LABELS);
    (now / unit(ring)).wrapping_sub(label) % LABELS
}

/// A lower bound of the time since an access with this stamp, in milliseconds.
fn since(stamp: u8, now: u64) -> u64 {
    let unit = unit(stamp >> LABEL_BITS);
    // Its label ended when the next one began.
    age(stamp, now).checked_sub(1).map_or(0, |whole| whole * unit + now % unit)
}

/// The stamp of an access `idle` milliseconds ago; the oldest possible stamp if that is too long ago.
pub(crate) fn stamp_of(idle: u64, now: u64) -> u8 {
    let labels = |ring: u8| now / unit(ring) - now.saturating_sub(idle) / unit(ring);
    let ring = (0..RING_LAST).find(|ring| labels(*ring) <= OLD).unwrap_or(RING_LAST);
    let label = (now / unit(ring)).wrapping_sub(labels(ring).min(AGE_MAX));
    ring << LABEL_BITS | (label % LABELS) as u8
}

/// The stamp at time `now` of an item that has not been accessed since its stamp was set.
pub(crate) fn aged(stamp: u8, now: u64) -> u8 {
    let ring = stamp >> LABEL_BITS;
    let label = if ring < RING_LAST && age(stamp, now) > OLD {
        // The first label that ends no earlier.
        (now - since(stamp, now)).div_ceil(unit(ring + 1)).wrapping_sub(1)
    } else if ring == RING_LAST && age(stamp, now) > AGE_MAX {
        (now / unit(ring)).wrapping_sub(AGE_MAX)
    } else {
        return stamp;
    };
    (ring + 1).min(RING_LAST) << LABEL_BITS | (label % LABELS) as u8
}

/// The begin of the recording of access times, in Unix milliseconds.
#[derive(Default)]
pub(crate) struct IdleClock(AtomicU64);

impl IdleClock {
    pub(crate) fn begin(&self, now: u64) {
        // ORDERING: Relaxed, a figure for display that orders no other memory; the same holds for the load.
        self.0.store(now, Ordering::Relaxed);
    }

    /// A lower bound of the idle time of an item with this stamp, in milliseconds.
    pub(crate) fn idle_ms(&self, stamp: u8, now: u64) -> u64 {
        // ORDERING: Relaxed, as above.
        since(stamp, now).min(now.saturating_sub(self.0.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000_000;
    const DAY_MS: u64 = 86_400_000;

    /// Wherever in its label an access was, the reported time is never too long, and too short by a third
    /// at most.
    #[test]
    fn the_shown_idle_time_is_a_close_lower_bound() {
        for begun in (NOW..NOW + 2 * unit(1)).step_by(7_919) {
            let (mut bits, mut last, mut passed) = (stamp(begun), 0, 0);
            while passed < 30 * DAY_MS {
                let now = begun + passed;
                let told = since(bits, now);
                assert!(told <= passed, "{told} ms are told after {passed}");
                let near = passed.min(7 * DAY_MS);
                assert!(told + UNIT_MS >= near - near / 3, "{told} ms after {passed}");
                // A key without accesses must not become much younger.
                assert!(told + told / 2 + UNIT_MS >= last, "{told} ms after {last}");
                last = told;
                bits = aged(bits, now);
                passed += if passed < DAY_MS { ROUND_MS / 7 } else { ROUND_MS };
            }
            assert!(last > 7 * DAY_MS, "{last}");
        }
    }

    #[test]
    fn a_stamp_that_is_given_tells_as_much_as_one_that_has_aged() {
        for now in (NOW..NOW + 2 * unit(1)).step_by(79_190) {
            for idle in (0..20_000).map(|i| i * UNIT_MS * 2 / 3).chain([u64::MAX]) {
                let told = since(stamp_of(idle, now), now);
                let near = idle.min(7 * DAY_MS);
                assert!(told <= idle && told + UNIT_MS >= near - near / 3, "{told} of {idle}");
                assert_eq!(aged(stamp_of(idle, now), now), stamp_of(idle, now));
            }
        }
    }

    #[test]
    fn a_stamp_of_before_is_no_older_than_the_first_of_them() {
        let idle_clock = IdleClock::default();
        idle_clock.begin(NOW);
        for bits in 0..=u8::MAX {
            assert!(idle_clock.idle_ms(bits, NOW + 5) <= 5);
            assert!(since(aged(bits, NOW), NOW) <= since(bits, NOW));
        }
        assert_eq!(
            idle_clock.idle_ms(stamp(NOW), NOW + DAY_MS / 96),
            since(stamp(NOW), NOW + DAY_MS / 96)
        );
    }
}
