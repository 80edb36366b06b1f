//! Decisions of the ring that have a deliberately wrong variant for model checkers.
//!
//! In ordinary builds each function is its plain expression. Under a checker [`Fault`] may select the wrong
//! variant, which the suites must detect. This keeps most hooks out of the files of the algorithm.
//!
//! [`Fault`]: crate::core::faults

use crate::core::hooks::{Step, cas, wrong};
use crate::core::item::{Item, Kind};
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{COMPLETE, CONTROL, HINTED, Hint, Next, REPL};
use crate::engine::KeyGoal;
use crate::ring::Ring;
use crate::ring::search::parent;
use crate::session::Pinned;

/// The reason for which a line stops being complete.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// An insert found no free word.
    Insert,
    /// A hint is displaced by another.
    Displaced,
    /// A child is about to be split off; its part of the line is not checked yet.
    SplitBegins,
    /// A child is split off, and its hints move to its own slot.
    SplitEnds,
    /// The hint word of a replaced item is cleared.
    StaleHint,
    /// The table is about to be halved.
    Halving,
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Whether a slot's anchor is linked, so that walks may start there (I7).
    #[inline(always)]
    pub(super) fn is_start(&self, control: Next) -> bool {
        control.is_start() || (control.0 != 0 && wrong!(self, NoBusy))
    }

    /// Whether the item under a hint with the key's tag is the key's.
    #[inline(always)]
    pub(super) fn has_key(&self, item: Item, goal: KeyGoal<'_, K>) -> bool {
        self.shared.kind.is(item, goal.hash, goal.key) || wrong!(self, TrustTag)
    }

    /// Whether a line is complete at the second check.
    #[inline(always)]
    pub(super) fn confirms_complete(&self, control: Next) -> bool {
        control.is(COMPLETE) || wrong!(self, NoSecondLook)
    }

    /// Whether a word is reserved, so that the line must not answer for a miss.
    #[inline(always)]
    pub(super) fn is_reserved(&self, hint: Hint) -> bool {
        hint.is_reserved() && !wrong!(self, ReservedMissed)
    }

    /// Whether a dead item's key has a newer version, which must get the hint (I8).
    #[inline(always)]
    pub(super) fn is_replaced(&self, dead: Next) -> bool {
        dead.is(REPL) && !wrong!(self, ClearReplaced)
    }

    /// Whether the line of `index`, if complete, answers for the keys of bucket `home` (I8). The keys must lie
    /// between the anchor of `index` and the next possible anchor in a table with this mask, not counting the
    /// anchor of `home`. This holds for the bucket itself, and for its parent if `home` is in the upper half of
    /// the table. Any other ancestor may have buckets in between that are already split off.
    #[inline(always)]
    pub(super) fn serves(&self, index: u64, home: u64, mask: u64) -> bool {
        match () {
            () if wrong!(self, ServesAll) => true,
            () if wrong!(self, ServesChildren) => index == home || index == parent(home),
            () => index == home || (home > mask >> 1 && index == parent(home)),
        }
    }

    /// Whether lines may become complete. Must be called before a line's words are read.
    #[inline(always)]
    pub(super) fn may_complete(&self) -> bool {
        !self.engine.resizing.forbids_completing() || wrong!(self, ShrinkComplete)
    }

    /// Epochs between CANDIDATE and COMPLETE (I9).
    #[inline(always)]
    pub(super) fn candidate_epochs(&self) -> u64 {
        match () {
            () if wrong!(self, CompleteNoGrace) => 0,
            () if wrong!(self, CompleteStampEarly) => super::complete::GRACE - 1,
            () => super::complete::GRACE,
        }
    }

    /// Whether a halving must make all lines incomplete first.
    #[inline(always)]
    pub(super) fn halving_needs_quiet(&self) -> bool {
        self.engine.completes && !wrong!(self, ShrinkComplete)
    }

    /// Whether the grace period with this tag is over.
    #[inline(always)]
    pub(super) fn is_grace_over(&self, tag: u64) -> bool {
        self.shared.collector.is_over(tag) || wrong!(self, NoGrace)
    }

    /// Whether a change must clear COMPLETE and CANDIDATE of a line.
    #[inline(always)]
    pub(super) fn invalidates(&self, cause: Cause) -> bool {
        match cause {
            Cause::Insert => !wrong!(self, InsertKeepsComplete),
            Cause::Displaced => !wrong!(self, DisplaceKeepsComplete),
            Cause::SplitBegins => !wrong!(self, SplitTrustsCandidate | SplitKeepsComplete),
            Cause::SplitEnds => !wrong!(self, SplitKeepsComplete),
            Cause::StaleHint | Cause::Halving => true,
        }
    }

    /// The bits of a line that is, or may become, complete.
    #[inline(always)]
    pub(super) fn completeness_bits(&self) -> u64 {
        if wrong!(self, InsertKeepsCandidate) { COMPLETE } else { CONTROL }
    }

    /// Whether a hint holds the item, so that it must not be retired yet (I5).
    #[inline(always)]
    pub(super) fn is_claimed(&self, word: Next) -> bool {
        word.is(HINTED) && !wrong!(self, NoUnlinkWait)
    }

    /// Takes the dead items behind a node out of the chain, unless another session has changed the node's word.
    #[inline(always)]
    pub(super) fn cut(&self, pred: &AtomicU64, before: Next, after: Next) -> bool {
        wrong!(self, CutStored => {
            // ORDERING: Release, as below.
            pred.store(after.0, Ordering::Release);
            return true;
        });
        // ORDERING: Release passes on the initialisation of the item behind the dead ones, which we acquired from the
        // word of the last of them; pairs with the Acquire of walks.
        cas(pred, before.0, after.0, Ordering::Release, Step::CutLost)
    }

    /// Whether hints move without claims.
    #[inline(always)]
    pub(super) fn moves_naively(&self) -> bool {
        wrong!(self, NaiveHead | RecheckHead)
    }

    /// The word from which a walk may continue at a dead head: none, because its successor may be freed (P3).
    #[inline(always)]
    pub(super) fn start_at_dead(
        &self,
        _goal: &KeyGoal<'_, K>,
        _dead: Item,
        _word: Next,
    ) -> Option<Next> {
        wrong!(self, TrustDead | FollowDead => return self.wrong_start(_goal, _dead, _word));
        None
    }

    /// Wrong variants of the queue of old versions, which remember an item beyond the pin. True: nothing is left to do.
    #[cfg(any(loom, shuttle))]
    pub(super) fn unlink_remembered(&mut self, hash: u64) -> bool {
        let address = std::mem::take(&mut self.local.engine.lazy.remembered);
        if address == 0 {
            return false;
        }
        // SAFETY: P: under a checker no block is handed back.
        let dead = unsafe { Item::at(address) };
        let bucket = self.bucket(hash);
        if wrong!(self, QueueRetires) {
            let _ = self.find_from(&super::search::AnchorGoal(hash), bucket, false);
            self.unlinked(dead);
            return true;
        }
        dead.lifetime().check_access(self.local.participant.pinned_at());
        false
    }
}
