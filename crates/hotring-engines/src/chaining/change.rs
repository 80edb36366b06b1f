//! The steps that change a chain: link a new item, replace one, mark one dead. One CAS each.

use crate::chaining::Chaining;
use crate::chaining::search::Position;
use crate::chaining::word::{SEALED, address, with_address};
use crate::hooks::{Step, cas};
use hotring_index::sync::Ordering;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Found, Hit};
use hotring_index::toolkit::{Item, Kind};
use hotring_index::word::{MADE_WITH, MARK, Next, REPL};
use hotring_index::{order, wrong};

impl Chaining {
    /// Links a private item at the head of the home in which `found` has missed its key.
    pub(crate) fn link_item<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        found: &Found<Position<'s>>,
        item: Item,
    ) -> bool {
        let home = found.position.home;
        let word = p.engine.table.word(home.index);
        let head =
            if wrong!(p, ChainBlindInsert) { p.engine.table.head(home.index) } else { home.head };
        Self::point(item, head.first());
        let after = with_address(head.0, item.address());
        // ORDERING: Release publishes the item's fields to Acquire walks. Acquire because the word
        // may have returned to an older value: the unlinking it went through must happen before us.
        let order = order!(p, Ordering::AcqRel, RelaxedPublish);
        if !cas(word, head.0, after, order, Step::LinkLost) {
            return false;
        }
        p.count_in(item);
        Self::consider_growth(p);
        true
    }

    /// Gives a private item its successor.
    pub(crate) fn point(item: Item, successor: u64) {
        // ORDERING: Relaxed, private until a CAS publishes it.
        let made = item.next().load(Ordering::Relaxed) & MADE_WITH;
        // ORDERING: as above.
        item.next().store(made | successor, Ordering::Relaxed);
    }

    /// Replaces the live item `old` by the private `copy` with one CAS.
    pub(crate) fn replace_item<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        hash: u64,
        old: Hit,
        copy: Item,
        found: Option<&Found<Position<'s>>>,
    ) -> bool {
        Self::point(copy, address(old.word.0));
        let dead = with_address(old.word.0 | MARK | REPL, copy.address());
        // ORDERING: AcqRel: publishes the copy; our reads of the old item come before its death.
        let order = order!(p, Ordering::AcqRel, RelaxedPublish);
        if !cas(old.item.next(), old.word.0, dead, order, Step::ReplaceLost) {
            return false;
        }
        p.count_replaced(old.item, copy);
        match found {
            Some(found) => Self::unlink_one(p, &found.position, old.item, copy.address()),
            None => {
                let home = Self::home(p, hash);
                Self::tidy(p, home.index);
            }
        }
        true
    }

    /// Marks the live item that `found` ended at. False: its word has changed.
    pub(crate) fn kill_found<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        found: &Found<Position<'s>>,
    ) -> bool {
        let Some(hit) = found.hit else { return false };
        let word = hit.word.0;
        // ORDERING: AcqRel: our reads of the item come before its death.
        if !cas(hit.item.next(), word, word | MARK, Ordering::AcqRel, Step::KillLost) {
            return false;
        }
        p.count_out(hit.item);
        Self::unlink_one(p, &found.position, hit.item, address(word));
        true
    }

    /// Takes the dead item behind a position out of the chain, or lets a new walk do it.
    fn unlink_one<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        position: &Position<'s>,
        dead: Item,
        successor: u64,
    ) {
        let after = with_address(position.pred_word, successor);
        // ORDERING: AcqRel, as in `pass`.
        if !cas(position.pred, position.pred_word, after, Ordering::AcqRel, Step::UnlinkLeft) {
            // Tidies the bucket in which the item died: its key may have another home by now.
            Self::tidy(p, position.home.index);
        } else {
            p.retire(dead);
        }
    }

    /// Marks an item dead wherever it is; a later walk unlinks it. False: the item is dead already,
    /// or is about to leave; in that case REPL says that its key lives on.
    pub(crate) fn kill_item<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool {
        let next = hit.item.next();
        let mut word = hit.word;
        while !word.is(MARK | SEALED) {
            // ORDERING: AcqRel, as in `kill`; Acquire on failure, the word is used again.
            match next.compare_exchange_weak(
                word.0,
                word.0 | MARK,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    p.count_out(hit.item);
                    return true;
                }
                Err(now) => word = Next(now),
            }
        }
        false
    }
}
