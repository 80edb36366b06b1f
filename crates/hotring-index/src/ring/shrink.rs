//! Halving the table: the upper slots are returned to the system. Readers are not affected, and no session
//! waits.
//!
//! FAST'20 leaves this open. A halving consists of phases, and any session may advance it by one step
//! (`step_resizing`), so no operation pays for more than a bounded part:
//!
//! 1. *Quiet* (only with complete lines): no further line may become complete. After a grace period no
//!    session is about to complete a line, and all lines are made incomplete: lookups are going to ask a
//!    lower line for the arc of its upper slot, too, and inserts are going to skip the upper line.
//! 2. *Halved*: the mask loses its top bit. After a grace period no session enters through an upper slot,
//!    splits an upper slot off, or puts a hint into it. Until then the halving can be undone by restoring
//!    the bit.
//! 3. *Sweep*: in each upper slot the hints are removed and released, and the anchor is MARKed, so that
//!    nothing can be linked behind it (I1). A walk unlinks the anchor like a dead item.
//! 4. *Unlinked*: after another grace period no session holds a reference to an upper slot. The upper slots
//!    are zeroed in steps, entire pages by returning them to the system.
//!
//! A doubling needs zeroed slots, so the table does not grow during phases 3 and 4. A session that needs a
//! doubling advances the halving (`grow_if_due`): if all sessions only insert, no other session would.

use crate::core::config::{Growth, Strategy};
use crate::core::hooks::{sometimes, wrong};
use crate::core::item::Kind;
use crate::core::sync::{AtomicBool, Mutex, Ordering, TallyU64};
use crate::core::word::{Hint, MARK};
use crate::ring::Ring;
use crate::ring::search::AnchorGoal;
use crate::ring::variants::Cause;
use crate::session::Pinned;

/// Slots processed in one step: about 20 microseconds.
const SLOTS_PER_STEP: u64 = if cfg!(any(loom, shuttle)) { 8 } else { 1024 };

#[derive(Clone, Copy)]
enum Phase {
    Idle,
    /// Waiting for the grace period `tag` before lines are made incomplete.
    Quiet {
        tag: u64,
    },
    /// Lines from `next` on may still be complete.
    Incomplete {
        next: u64,
    },
    /// The mask is halved; waiting for the grace period `tag`.
    Halved {
        tag: u64,
    },
    /// Upper slots from `next` on are still linked.
    Sweep {
        next: u64,
    },
    /// All upper slots are unlinked; waiting for the grace period `tag`.
    Unlinked {
        tag: u64,
    },
    /// Upper slots from `next` on are not zeroed yet.
    Zero {
        next: u64,
    },
}

/// Slots zeroed in one step: one huge page of the largest slots. Takes about 20 microseconds, or 500 with small
/// pages.
const SLOTS_ZEROED: u64 = 1 << 15;

const BUSY: u64 = 1;
/// The mask is halved, and upper slots may still have hints.
const HALVED: u64 = 2;

/// The progress of a resize. The lock must be held to change the mask. Sessions only try the lock and never
/// wait for it.
pub(crate) struct Resizing {
    phase: Mutex<Phase>,
    /// 0 while none is under way, `BUSY` or `HALVED` while one is.
    busy: TallyU64,
    /// No line may become complete.
    quiet: AtomicBool,
}

impl Resizing {
    pub(crate) fn new() -> Self {
        Self {
            phase: Mutex::new(Phase::Idle),
            busy: TallyU64::new(0),
            quiet: AtomicBool::new(false),
        }
    }

    /// Whether a halving waits for a session to advance it.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        // ORDERING: Relaxed, advice.
        self.busy.load(Ordering::Relaxed) != 0
    }

    /// Whether upper slots may still have hints. Must be called under a pin.
    pub(crate) fn is_halved(&self) -> bool {
        // ORDERING: Relaxed, advice: a session that reads an old value has been pinned since before the end
        // of the last grace period, so the slots are not zeroed yet.
        self.busy.load(Ordering::Relaxed) == HALVED
    }

    /// Whether lines must not become complete. Must be called under a pin, before a line's words are read.
    pub(crate) fn forbids_completing(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `set_quiet`; a session that misses it has been pinned
        // since before the end of the grace period that follows.
        self.quiet.load(Ordering::Acquire)
    }

    fn set_quiet(&self, quiet: bool) {
        // ORDERING: Release, see `forbids_completing`; when it ends, the slots are zeroed before.
        self.quiet.store(quiet, Ordering::Release);
    }

    fn set(&self, phase: &mut Phase, next: Phase) {
        *phase = next;
        let busy = match next {
            Phase::Idle => 0,
            Phase::Quiet { .. }
            | Phase::Incomplete { .. }
            | Phase::Unlinked { .. }
            | Phase::Zero { .. } => BUSY,
            Phase::Halved { .. } | Phase::Sweep { .. } => HALVED,
        };
        // ORDERING: Relaxed, advice.
        self.busy.store(busy, Ordering::Relaxed);
    }
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Advances a halving by one step, if one is in progress.
    pub(crate) fn step_resizing(&mut self) {
        let engine = self.engine;
        let Ok(mut phase) = engine.resizing.phase.try_lock() else { return };
        let next = self.take_step(*phase);
        engine.resizing.set(&mut phase, next);
        drop(phase);
        if matches!(next, Phase::Idle) {
            // A table that has become far too large is halved several times.
            self.shrink_if_due();
        }
    }

    /// Doubles the table if it still has `mask + 1` slots; a halving before phase 3 is undone. False: the table
    /// has not grown.
    pub(crate) fn double(&mut self, mask: u64) -> bool {
        let resizing = &self.engine.resizing;
        let Ok(mut phase) = resizing.phase.try_lock() else { return false };
        if self.engine.table.mask() != mask {
            return false;
        }
        match *phase {
            Phase::Idle => {
                let grown = self.engine.table.double(mask);
                if grown {
                    sometimes!(Grown);
                    self.engine.eager.restart(mask + 1);
                }
                grown
            }
            Phase::Quiet { .. } | Phase::Incomplete { .. } => {
                // Some lines have become incomplete, which is allowed at any time.
                sometimes!(ShrinkUndone);
                // Lets eager work complete these lines again, even if the table does not double.
                self.engine.eager.restart(mask + 1);
                resizing.set_quiet(false);
                resizing.set(&mut phase, Phase::Idle);
                self.engine.table.double(mask)
            }
            Phase::Halved { .. } => {
                // The upper slots are unchanged: this is an ordinary doubling with fewer buckets to split.
                sometimes!(ShrinkUndone);
                self.engine.table.set_mask(mask << 1 | 1);
                resizing.set_quiet(false);
                resizing.set(&mut phase, Phase::Idle);
                true
            }
            Phase::Sweep { .. } | Phase::Unlinked { .. } | Phase::Zero { .. } => false,
        }
    }

    /// Begins a halving if the table holds few items for its size. Called periodically by removals.
    pub(crate) fn shrink_if_due(&mut self) {
        let Growth::Auto { items_low, .. } = self.engine.growth else { return };
        let slots = self.engine.table.mask() + 1;
        if slots as usize <= self.shared.config.slots_initial || self.engine.resizing.is_busy() {
            return;
        }
        let items = self.shared.items();
        if (items as f64) < slots as f64 * items_low {
            self.begin_halving();
        }
    }

    pub(crate) fn begin_halving(&mut self) -> bool {
        let resizing = &self.engine.resizing;
        let Ok(mut phase) = resizing.phase.try_lock() else { return false };
        let mask = self.engine.table.mask();
        let initial = self.shared.config.slots_initial.max(1).next_power_of_two() as u64;
        if !matches!(*phase, Phase::Idle) || mask < initial {
            return false;
        }
        sometimes!(Shrinking);
        let next = if self.halving_needs_quiet() {
            resizing.set_quiet(true);
            Phase::Quiet { tag: self.local.participant.grace() }
        } else {
            self.halve()
        };
        resizing.set(&mut phase, next);
        true
    }

    fn halve(&mut self) -> Phase {
        self.engine.table.set_mask(self.engine.table.mask() >> 1);
        self.engine.eager.restart(self.engine.table.mask() + 1);
        Phase::Halved { tag: self.local.participant.grace() }
    }

    /// Takes one step; returns the next phase of the halving.
    fn take_step(&mut self, phase: Phase) -> Phase {
        let slots = self.engine.table.mask() + 1;
        match phase {
            Phase::Idle => Phase::Idle,
            Phase::Quiet { tag } if self.is_grace_over(tag) => Phase::Incomplete { next: 0 },
            Phase::Halved { tag } if self.is_grace_over(tag) => Phase::Sweep { next: slots },
            Phase::Unlinked { tag } if self.is_grace_over(tag) => self.zero(slots),
            Phase::Zero { next } => self.zero(next),
            waiting @ (Phase::Quiet { .. } | Phase::Halved { .. } | Phase::Unlinked { .. }) => {
                waiting
            }
            Phase::Incomplete { next } => {
                // The upper lines, too: once the mask is halved, inserts of their keys do not read them, and
                // the halving may be undone.
                let end = (next + SLOTS_PER_STEP).min(slots);
                (next..end).for_each(|slot| self.make_incomplete(slot, Cause::Halving));
                if end < slots { Phase::Incomplete { next: end } } else { self.halve() }
            }
            Phase::Sweep { next } => {
                let end = (next + SLOTS_PER_STEP).min(2 * slots);
                (next..end).for_each(|slot| self.sweep_slot(slot));
                if end < 2 * slots {
                    Phase::Sweep { next: end }
                } else {
                    Phase::Unlinked { tag: self.local.participant.grace() }
                }
            }
        }
    }

    /// Zeroes upper slots from `next` on. No session may use them.
    fn zero(&mut self, next: u64) -> Phase {
        let slots = self.engine.table.mask() + 1;
        let end = (next + SLOTS_ZEROED).min(2 * slots);
        self.engine.table.give_back(next, end);
        if end < 2 * slots {
            return Phase::Zero { next: end };
        }
        self.engine.resizing.set_quiet(false);
        sometimes!(Shrunk);
        Phase::Idle
    }

    /// Removes the hints of an upper slot, and unlinks its anchor.
    fn sweep_slot(&mut self, index: u64) {
        let slot = self.engine.table.slot(index);
        // ORDERING: Relaxed; no split of this slot is in progress since the grace period.
        if slot.anchor.load(Ordering::Relaxed) == 0 {
            return;
        }
        for word in &slot.hints {
            // ORDERING: Acquire: the item and its claim, which we clear, happen before (I5). No session
            // searches this slot for items any more.
            let hint = Hint(word.swap(0, Ordering::Acquire));
            // Under the sampling strategy an empty head that counts samples looks reserved.
            debug_assert!(
                !hint.is_reserved() || self.shared.config.strategy != Strategy::Vote,
                "its inserter is gone since the grace period"
            );
            if let Some(item) = self.hinted(hint) {
                sometimes!(SweptHint);
                if !wrong!(self, ShrinkForgetsClaim) {
                    self.release(item);
                }
            }
        }
        self.unlink_anchor(index);
        // ORDERING: Relaxed, statistics.
        self.engine.splits.fetch_sub(1, Ordering::Relaxed);
    }

    /// Marks the anchor of an upper slot, so that a walk unlinks it.
    fn unlink_anchor(&mut self, index: u64) {
        wrong!(self, NoAnchorMark => return self.cut_anchor(index););
        // ORDERING: Relaxed: a CAS that links behind the anchor either happens before this change or fails,
        // because all change this one word (I1); as a read-modify-write it continues their release sequences.
        self.engine.table.slot(index).anchor.fetch_or(MARK, Ordering::Relaxed);
        let bucket = self.bucket(index);
        let _ = self.find_from(&AnchorGoal(index), bucket, false);
    }
}
