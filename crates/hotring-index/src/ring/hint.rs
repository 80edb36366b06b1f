//! Hints: the life of a hinted item, which is claimed for a hint word, released, and finally retired by exactly
//! one session.
//!
//! A hint word owns its item: the claim is the HINTED bit in the item's `next`, set by one CAS on
//! the unmarked word (I4). Taking the item out of a hint word clears the bit; taking it out of the
//! chain sets UNLINKED if the bit is set; the second of the two sessions retires it (I5). One word
//! decides all of this, so no generation counter and no re-check is needed.

use crate::core::config::Strategy;
use crate::core::hooks::{Step, cas, order, sometimes, wrong};
use crate::core::item::{Item, Kind};
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{HINTED, Hint, MARK, Next, REPL, UNLINKED};
use crate::engine::Hit;
use crate::ring::Ring;
use crate::ring::lazy::LEFT;
use crate::ring::search::parent;
use crate::ring::variants::Cause;
use crate::session::Pinned;

/// Votes of an item that receives a free word.
pub(crate) const VOTES_NEW: u64 = if cfg!(any(loom, shuttle)) { 0 } else { 1 };

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    /// Whether a hint leads to the item and has more votes than a new item's hint.
    pub(crate) fn is_hot(&mut self, hit: Hit) -> bool {
        if !hit.word.is(HINTED) || self.shared.config.strategy != Strategy::Vote {
            return false;
        }
        let bucket = self.bucket(self.shared.kind.item_hash(hit.item));
        self.engine.table.slot(bucket).hints.iter().any(|hint| {
            // ORDERING: Relaxed, the item is not read through it.
            let hint = Hint(hint.load(Ordering::Relaxed));
            hint.address() == hit.item.address() && hint.votes() > VOTES_NEW
        })
    }

    /// Releases a claim. The item must not be in any hint word any more.
    #[inline(never)]
    pub(crate) fn release(&mut self, item: Item) {
        if self.moves_naively() {
            return;
        }
        // ORDERING: AcqRel: if the other side already set UNLINKED, its removal from the chain
        // happens before our retire; if not, our removal from the hint happens before its retire.
        let old = Next(item.next().fetch_and(!HINTED, Ordering::AcqRel));
        debug_assert!(old.is(HINTED), "released without a claim");
        if old.is(UNLINKED) {
            sometimes!(RetiredByRelease);
            self.retire(item);
        }
    }

    /// Must be called once for each dead item that left the chain, by the session whose CAS removed it.
    pub(crate) fn unlinked(&mut self, item: Item) {
        // ORDERING: Acquire: if the bit is clear, the release that cleared it happens before our
        // retire (pairs with `release`).
        let order = order!(self, Ordering::Acquire, RelaxedUnlinked);
        let word = Next(item.next().load(order));
        debug_assert!(word.is(MARK), "only dead items leave the chain (I2)");
        if word.debt() == LEFT {
            self.note_cleared(item);
        }
        wrong!(self, NaiveHead | RecheckHead => let _ = self.swap_hint(item, |_| Hint::EMPTY););
        if !self.is_claimed(word) {
            self.retire(item);
            return;
        }
        sometimes!(UnlinkedHinted);
        // ORDERING: AcqRel, as in `release`.
        let old = Next(item.next().fetch_or(UNLINKED, Ordering::AcqRel));
        if !old.is(HINTED) {
            self.retire(item);
        } else if !old.is(REPL) {
            self.clear_hint(item);
        }
        // The session that replaced an item puts the copy into its hint word.
    }

    /// Empties hint `k` of a slot, which leads to a dead item, if it still is `hint`.
    #[inline(never)]
    pub(crate) fn clear_word(&mut self, slot: u64, k: usize, hint: Hint, item: Item) {
        sometimes!(DeadHint);
        if change_word(&self.engine.table.slot(slot).hints[k], hint, Hint::EMPTY).is_ok() {
            self.release(item);
        }
    }

    /// Finds the hint word that holds an item: in the slot of its bucket, or of a bucket from which that one was
    /// split off. During a halving the upper slot is searched, too: otherwise items removed meanwhile would be
    /// kept, uncounted, until that slot is swept.
    pub(crate) fn locate(&self, item: Item) -> Option<(u64, usize, Hint)> {
        let mut mask = self.engine.table.mask();
        if self.engine.resizing.is_halved() && self.engine.table.has(mask << 1 | 1) {
            mask = mask << 1 | 1;
        }
        let mut slot = self.shared.kind.item_hash(item) & mask;
        loop {
            for (k, word) in self.engine.table.slot(slot).hints.iter().enumerate() {
                // ORDERING: Relaxed, only compared; a change of the word validates it.
                let hint = Hint(word.load(Ordering::Relaxed));
                if hint.address() == item.address() {
                    return Some((slot, k, hint));
                }
            }
            if slot == 0 {
                return None;
            }
            slot = parent(slot);
        }
    }

    /// Changes the hint word that holds `item`, if one does. Meanwhile other sessions can only change the word's
    /// votes or remove the item.
    fn swap_hint(&mut self, item: Item, after: impl Fn(Hint) -> Hint) -> Option<u64> {
        loop {
            let (slot, k, hint) = self.locate(item)?;
            if change_word(&self.engine.table.slot(slot).hints[k], hint, after(hint)).is_ok() {
                return Some(slot);
            }
        }
    }

    /// Empties the hint word that holds `item`, if one does.
    pub(crate) fn clear_hint(&mut self, item: Item) {
        if self.swap_hint(item, |_| Hint::EMPTY).is_some() {
            self.release(item);
        }
    }

    /// Hotspot inheritance (FAST'20 section 3.2.3): the hint of a replaced item goes to its copy,
    /// which was born with the claim.
    pub(crate) fn inherit(&mut self, old: Item, copy: Item) {
        if let Some(slot) = self.swap_hint(old, |hint| hint.with_address(copy.address())) {
            self.release(old);
            self.recheck(slot, copy);
        } else {
            sometimes!(NothingInherited);
            self.release(copy);
        }
    }

    /// Must be called after putting an item into a word. If the item died meanwhile, the session that killed it
    /// may have missed the word, so this function clears the word. Best effort: a reader that meets a dead hint
    /// clears it as well.
    pub(crate) fn recheck(&mut self, slot: u64, item: Item) {
        if wrong!(self, NaiveHead) {
            return;
        }
        // ORDERING: Relaxed, a guess that saves readers a step; the CAS below decides.
        let word = Next(item.next().load(Ordering::Relaxed));
        if word.is(MARK) {
            sometimes!(DeadOnArrival);
            if word.is(REPL) {
                self.make_incomplete(slot, Cause::StaleHint);
            }
            self.clear_hint(item);
        }
    }

    /// Called by a reader that met a replaced item in word `k`. Points the word to the live version that the reader
    /// then found, or clears the word if there was none.
    pub(crate) fn mend_stale(&mut self, slot: u64, k: usize, hint: Hint, live: Option<Item>) {
        let Some(dead) = self.hinted(hint) else { return };
        let Some(live) = live else {
            self.make_incomplete(slot, Cause::StaleHint);
            self.clear_word(slot, k, hint, dead);
            return;
        };
        // If the live version is claimed, the claiming session is about to put it into a word.
        if !self.claim(live) {
            return;
        }
        let after = hint.with_address(live.address());
        if change_word(&self.engine.table.slot(slot).hints[k], hint, after).is_ok() {
            sometimes!(StaleMended);
            self.release(dead);
            self.recheck(slot, live);
        } else {
            self.release(live);
        }
    }

    /// Claims a live, unhinted item: it is not retired before `release`. False: the item is dead or already
    /// claimed.
    pub(crate) fn claim(&mut self, item: Item) -> bool {
        // ORDERING: Relaxed, a decision on this one word; the CAS validates it.
        let word = Next(item.next().load(Ordering::Relaxed));
        if word.is(MARK | HINTED) {
            sometimes!(ClaimRefused);
            return false;
        }
        if self.moves_naively() {
            return true;
        }
        let after = word.0 | HINTED;
        // ORDERING: Relaxed, as above; the CAS that installs the hint publishes.
        cas(item.next(), word.0, after, Ordering::Relaxed, Step::ClaimRefused)
    }

    /// Moves hint `k` of a slot from its present value `hint`, which may be empty, to `item`, unless
    /// another session has changed either.
    pub(crate) fn move_hint(
        &mut self,
        slot: u64,
        k: usize,
        hint: Hint,
        item: Item,
        after: Hint,
    ) -> bool {
        if hint.is_reserved() || !self.claim(item) {
            return false;
        }
        if !hint.is_empty() {
            // The displaced item leaves the line (I9).
            self.make_incomplete(slot, Cause::Displaced);
        }
        let word = &self.engine.table.slot(slot).hints[k];
        // ORDERING: AcqRel, as in `change_word`.
        if !cas(word, hint.0, after.0, Ordering::AcqRel, Step::MoveLost) {
            self.release(item);
            return false;
        }
        if let Some(old) = self.hinted(hint) {
            self.release(old);
        }
        self.recheck(slot, item);
        true
    }

    /// Clears COMPLETE and CANDIDATE of a line (I9).
    #[inline(always)]
    pub(super) fn make_incomplete(&mut self, slot: u64, cause: Cause) {
        if self.invalidates(cause) {
            self.clear_completeness(slot);
        }
    }

    fn clear_completeness(&mut self, slot: u64) {
        let anchor = &self.engine.table.slot(slot).anchor;
        // ORDERING: Relaxed: nothing is read through it. Bits that we miss are those of a candidate
        // that is younger than our pin, which cannot become complete before the pin ends (I9).
        let mut word = Next(anchor.load(Ordering::Relaxed));
        let bits = self.completeness_bits();
        while word.is(bits) {
            // ORDERING: Relaxed: the caller's next CAS publishes. A reader that sees the changed hint word or
            // the linked item sees at its second check that the line is not complete.
            match anchor.compare_exchange_weak(
                word.0,
                word.0 & !bits,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => word = Next(now),
            }
        }
    }
}

/// Changes a hint word if it still is `from`. On success the caller owns the claim of the old item.
pub(crate) fn change_word(word: &AtomicU64, from: Hint, to: Hint) -> Result<u64, u64> {
    // ORDERING: Release publishes the new item, and tells a reader that misses the removed item that the line
    // is not complete any more (I9). Acquire, because the word may have been emptied and refilled with the
    // same item since it was read: that claim, which we are going to clear, must happen before (I5).
    word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed)
}
