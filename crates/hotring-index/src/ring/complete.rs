//! Complete lines: a slot that hints every item of its arc answers a miss without a walk.
//!
//! * I8 If a line is COMPLETE, one of its words covers every key of its bucket that has a live item. A word
//!   covers a key if it is reserved with the key's tag, or leads to an item with that key that is live or
//!   dead by replacement. The keys of a bucket that is not yet split off count as its parent's, if no other
//!   bucket can lie between the two. If the parent is not split off either, the keys may lie beyond other
//!   anchors; no line covers these keys, and their readers must walk.
//! * I9 A covering word stops covering a live key only after COMPLETE and CANDIDATE were cleared, and
//!   COMPLETE is set only on a CANDIDATE that is three epochs old.
//!
//! An insert that finds no free word clears both bits before it links. An insert that read the word before
//! CANDIDATE was visible has been pinned since then, so it ends within the grace period. The age must be
//! three epochs and not two: the setter's epoch may be one behind the global one when the bit becomes
//! visible, and an inserter may pin at one more and still miss the bit. Three bits of the epoch would be
//! enough: while a setter is pinned at e, a CANDIDATE that is cleared and set again carries e - 1, e or
//! e + 1, at a distance (mod 8) of 7, 0 or 1, never of 3 to 6. The stamp has more bits, so that an old
//! candidate is not taken for a new one.
//!
//! A reader reads the anchor before and after the hints. COMPLETE both times means COMPLETE throughout,
//! because setting the bit again takes a grace period, which the pinned reader holds up. So the reader saw
//! the word that covers a live key, and a miss is certain.

use crate::core::hooks::sometimes;
use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::core::word::{CANDIDATE, COMPLETE, CONTROL, Hint, Link, MARK, Next, STAMPS};
use crate::ring::Ring;
use crate::session::Pinned;

/// Epochs between CANDIDATE and COMPLETE (I9).
pub(super) const GRACE: u64 = 3;
/// A larger distance may come from a stamp that is ahead of this session's epoch: stamp again.
const DISTANCE_MAX: u64 = STAMPS - 2;

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Advances a line one step, from no bit to CANDIDATE to COMPLETE, or clears CANDIDATE if an item lacks a
    /// hint. Called after a split, by eager work, on an R-th access that missed, and on each miss that walks
    /// through a candidate. False: the line may lack an item.
    pub(crate) fn try_complete(&mut self, index: u64) -> bool {
        let anchor = &self.engine.table.slot(index).anchor;
        // Before the anchor's word (I9).
        let epoch = self.shared.collector.epoch();
        // ORDERING: Acquire: the item that it leads to is initialised.
        let control = Next(anchor.load(Ordering::Acquire));
        if !control.is_start() || control.is(COMPLETE) {
            return true;
        }
        if !self.may_complete() {
            return false;
        }
        let distance = epoch.wrapping_sub(control.stamp()) % STAMPS;
        let grace = self.candidate_epochs();
        let after = if !control.is(CANDIDATE) || distance > DISTANCE_MAX {
            if !self.all_hinted(index, control) {
                return false;
            }
            sometimes!(Candidate);
            sometimes!(control.is(CANDIDATE) => StampRenewed);
            control.with_candidate(epoch)
        } else if distance < grace {
            // While no memory is retired, nothing else may advance the epoch. Done rarely, because an advance
            // costs a system call, and one line in many is enough.
            if self.local.random() >> 58 == 0 && !cfg!(any(loom, shuttle)) {
                self.shared.collector.try_advance_unhindered();
            }
            return true;
        } else if self.all_hinted(index, control) {
            sometimes!(Complete);
            Next(control.0 & !CONTROL | COMPLETE)
        } else {
            // The line has lost a word: the next miss need not check again.
            sometimes!(CandidateDropped);
            Next(control.0 & !CONTROL)
        };
        // ORDERING: Release: a reader that sees the line complete sees the hints that we saw in it. The CAS is on
        // the entire word: it fails if the bits or the first link have changed.
        let _ = anchor.compare_exchange(control.0, after.0, Ordering::Release, Ordering::Relaxed);
        after.is(CANDIDATE | COMPLETE)
    }

    /// Whether every live item of the arc is in one of the line's words.
    fn all_hinted(&self, index: u64, mut word: Next) -> bool {
        let mut addresses = [0u64; H];
        for (address, hint) in addresses.iter_mut().zip(&self.engine.table.slot(index).hints) {
            // ORDERING: Acquire, for a reader that sees the line complete (above); and the walk sees at least the
            // chain of that moment.
            *address = Hint(hint.load(Ordering::Acquire)).address();
        }
        loop {
            let link = word.link();
            if link.is_anchor() {
                return link == Link::END || link.slot() != index;
            }
            // ORDERING: Acquire, as for every step of a walk.
            word = Next(self.item(link).next().load(Ordering::Acquire));
            if !word.is(MARK) && !addresses.contains(&link.address()) {
                return false;
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::{Config, Growth, HotRing, U64};

    /// A stamp that is newer than our epoch must not pass for an old one: a line was complete as soon as it was a
    /// candidate of a session that had seen a newer epoch.
    #[test]
    fn only_a_candidate_of_three_epochs_and_more_becomes_complete() {
        let config =
            Config { growth: Some(Growth::Fixed), complete_lines: Some(true), ..Config::default() };
        let index = HotRing::<U64>::new(config).expect("a valid configuration");
        let mut session = index.session();
        session.insert(1, 1);
        let mut pinned = session.pin();
        let hash = pinned.shared.kind.hash(&1);
        let slot = pinned.bucket(hash);
        let anchor = &pinned.engine.table.slot(slot).anchor;
        for distance in 0..STAMPS {
            let epoch = pinned.shared.collector.epoch();
            // ORDERING: Relaxed, one thread.
            let plain = Next(anchor.load(Ordering::Relaxed) & !CONTROL);
            let stamped = plain.with_candidate((epoch + STAMPS).wrapping_sub(distance));
            // ORDERING: as above.
            anchor.store(stamped.0, Ordering::Relaxed);
            assert!(pinned.try_complete(slot), "nothing is lacking");
            // ORDERING: as above.
            let after = Next(anchor.load(Ordering::Relaxed));
            let expected = match distance {
                0..3 => stamped,
                _ if distance == STAMPS - 1 => plain.with_candidate(epoch),
                _ => Next(plain.0 | COMPLETE),
            };
            assert!(after == expected, "at a distance of {distance}");
        }
    }
}
