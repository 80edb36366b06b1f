//! Support for the model-checker suites: deliberately wrong variants that a suite must catch, accesses that
//! move hints on demand, and checks of an index at rest. Ordinary builds do not contain this module.

pub use crate::core::faults::{Fault, Reclaim};

use crate::Index;
use crate::core::config::Strategy;
use crate::core::hooks::wrong;
use crate::core::item::{Item, Kind};
use crate::core::sync::{AtomicU64, Ordering};
use crate::core::word::{COMPLETE, HINTED, Hint, Link, MARK, Next};
use crate::engine::{Engine, KeyGoal};
use crate::ring::Ring;
use crate::ring::search::{Found, Goal};
use crate::session::{Pinned, Session};
use std::collections::HashSet;

impl<K: Kind, E: Engine> Session<K, E> {
    /// Makes the next access one that may move a hint.
    pub fn heat_next(&mut self) {
        self.local().countdown = 1;
    }

    /// Pins the session for an inspection of an index at rest.
    pub fn pin_to_look(&mut self) -> Pinned<'_, K, E> {
        self.pin()
    }

    /// Tries to advance the epoch.
    pub fn advance(&mut self) {
        self.shared().collector.try_advance();
    }

    /// The hash of a key.
    pub fn hash_of(&self, key: &K::Key) -> u64 {
        self.shared().kind.hash(key)
    }
}

/// Checks of an engine, for the model-checker suites.
pub trait Checked: Engine {
    /// Whether `grow` only begins a doubling, which later steps complete.
    const GROWS_IN_STEPS: bool = false;

    /// Checks the invariants of an index at rest.
    ///
    /// # Panics
    /// If an invariant does not hold.
    fn check_at_rest<K: Kind>(session: &mut Session<K, Self>, index: &Index<K, Self>);

    /// Advances the line of a hash's slot one step toward complete, if the engine has lines.
    fn complete<K: Kind>(_session: &mut Session<K, Self>, _hash: u64) {}

    /// Makes the line of a hash's slot a candidate, whether or not all its items are hinted. An insert that
    /// links while another session reads the items leaves the same state.
    fn make_candidate<K: Kind>(_session: &mut Session<K, Self>, _hash: u64) {}
}

impl<K: Kind, E: Engine> Index<K, E> {
    /// The addresses of all items that are neither retired nor freed.
    #[doc(hidden)]
    pub fn alive(&self) -> impl Iterator<Item = u64> {
        self.shared.arena.blocks().into_iter().filter(|&address| {
            // SAFETY: P: under a checker no block is handed back, and each holds an item.
            unsafe { Item::at(address) }.lifetime().is_alive()
        })
    }
}

impl<const H: usize> Checked for Ring<H> {
    fn complete<K: Kind>(session: &mut Session<K, Self>, hash: u64) {
        let mut pinned = session.pin();
        let slot = hash & pinned.engine.table.mask();
        pinned.try_complete(slot);
    }

    fn make_candidate<K: Kind>(session: &mut Session<K, Self>, hash: u64) {
        let pinned = session.pin();
        let anchor = &pinned.engine.table.slot(hash & pinned.engine.table.mask()).anchor;
        // ORDERING: Relaxed, part of a scenario's setup.
        let word = Next(anchor.load(Ordering::Relaxed));
        let after = word.with_candidate(pinned.shared.collector.epoch());
        // ORDERING: as above.
        anchor.store(after.0, Ordering::Relaxed);
    }

    /// Checks that order, marks, claims and hints agree, that a line marked complete hints all its items, and
    /// that every item that is not retired is in the chain or in a hint.
    fn check_at_rest<K: Kind>(session: &mut Session<K, Self>, index: &Index<K, Self>) {
        let end = AtEnd;
        let mut pinned = session.pin();
        let _ = pinned.find_from(&end, 0, false);
        let mut chained = HashSet::new();
        let mut hinted = HashSet::new();
        let mut at = Link::anchor(0);
        let mut last: Option<u64> = None;
        loop {
            let word = pinned.next(at);
            // ORDERING: Acquire, as for readers.
            let word = Next(word.load(Ordering::Acquire));
            assert!(!word.is(MARK), "a dead node is still in the chain after a sweep");
            let hash = if at.is_anchor() {
                pinned.check_line(at.slot(), word, &mut hinted);
                at.slot()
            } else {
                let item = pinned.item(at);
                assert!(item.lifetime().is_alive(), "a retired item is in the chain");
                chained.insert(at.address());
                pinned.shared.kind.item_hash(item)
            };
            let order = hash.reverse_bits();
            assert!(last.is_none_or(|last| last <= order), "the ring is not in order");
            last = Some(order);
            at = word.link();
            if at == Link::END {
                break;
            }
        }
        for &address in &chained {
            let item = pinned.item(Link::item(address));
            // ORDERING: Acquire, as for readers.
            let word = Next(item.next().load(Ordering::Acquire));
            assert_eq!(word.is(HINTED), hinted.contains(&address), "a claim without a hint");
        }
        for address in index.alive() {
            let held = chained.contains(&address) || hinted.contains(&address);
            assert!(held, "an item is neither in the chain, nor hinted, nor retired");
        }
    }
}

impl<K: Kind, const H: usize> Session<K, Ring<H>> {
    /// Whether the line of a hash's slot is complete.
    pub fn is_complete(&mut self, hash: u64) -> bool {
        let pinned = self.pin();
        let slot = pinned.engine.table.slot(hash & pinned.engine.table.mask());
        // ORDERING: Acquire, as for readers.
        Next(slot.anchor.load(Ordering::Acquire)).is(COMPLETE)
    }
}

impl<K: Kind, const H: usize> Pinned<'_, K, Ring<H>> {
    fn check_line(&mut self, slot: u64, anchor: Next, hinted: &mut HashSet<u64>) {
        let mut line = HashSet::new();
        for word in &self.engine.table.slot(slot).hints {
            // ORDERING: Acquire, as for readers.
            let hint = Hint(word.load(Ordering::Acquire));
            // Under the sampling strategy a head word without an item looks like a reservation.
            let voted = self.shared.config.strategy == Strategy::Vote;
            assert!(!(voted && hint.is_reserved()), "a reservation is left");
            let Some(item) = self.hinted(hint) else { continue };
            assert!(item.lifetime().is_alive(), "a retired item is hinted");
            assert!(hinted.insert(item.address()), "an item is in two hint words");
            line.insert(item.address());
        }
        let mut at = anchor.link();
        while anchor.is(COMPLETE) && !at.is_anchor() {
            assert!(line.contains(&at.address()), "a complete line misses an item");
            // ORDERING: Acquire, as for readers.
            at = Next(self.next(at).load(Ordering::Acquire)).link();
        }
    }
}

/// The position after all items and anchors.
struct AtEnd;

impl<K: Kind> Goal<K> for AtEnd {
    fn hash(&self) -> u64 {
        u64::MAX
    }

    fn cmp_item(&self, _kind: &K, _item: Item) -> std::cmp::Ordering {
        std::cmp::Ordering::Less
    }

    fn cmp_anchor(&self, _slot: u64) -> std::cmp::Ordering {
        std::cmp::Ordering::Less
    }
}

/// The steps of wrong variants.
impl<'s, K: Kind, const H: usize> Pinned<'s, K, Ring<H>> {
    /// The word from which a wrong variant continues at a dead head. The correct code starts at the anchor
    /// instead.
    pub(crate) fn wrong_start(
        &self,
        goal: &KeyGoal<'_, K>,
        dead: Item,
        mut word: Next,
    ) -> Option<Next> {
        let follow = wrong!(self, FollowDead);
        if !(follow || wrong!(self, TrustDead)) || !goal.cmp_item(&self.shared.kind, dead).is_lt() {
            return None;
        }
        while follow && word.is(MARK) && !word.link().is_anchor() {
            let item = self.item(word.link());
            if !goal.cmp_item(&self.shared.kind, item).is_lt() {
                return None;
            }
            // ORDERING: Acquire, as for every step of a walk.
            word = Next(item.next().load(Ordering::Acquire));
        }
        Some(word)
    }

    /// Wrong variant: stores a hint for an item that is already in the chain.
    pub(crate) fn hint_late(&mut self, hash: u64, bucket: u64, item: Item) {
        // ORDERING: Relaxed, the CAS validates it.
        let empty = |word: &AtomicU64| word.load(Ordering::Relaxed) == 0;
        if let Some(k) = self.engine.table.slot(bucket).hints.iter().position(empty) {
            let after = Hint::new(Hint::tag_of(hash), item.address(), 1);
            self.move_hint(bucket, k, Hint::EMPTY, item, after);
        }
    }

    /// Wrong variant of `replace`: links the copy without marking the old item.
    pub(crate) fn drop_in(&mut self, found: &Found<'s>, old: Item, copy: Item) -> bool {
        let (word, after) = (found.pred_word.0, found.pred_word.with(Link::item(copy.address())));
        // ORDERING: AcqRel, as in `link`.
        let cas = found.pred.compare_exchange(word, after.0, Ordering::AcqRel, Ordering::Relaxed);
        if cas.is_ok() {
            self.retire(old);
        }
        cas.is_ok()
    }

    /// Wrong variant: unlinks an anchor that is not marked.
    pub(crate) fn cut_anchor(&mut self, index: u64) {
        let bucket = self.bucket(index);
        let found = self.find_from(&crate::ring::search::AnchorGoal(index), bucket, false);
        if found.at == Link::anchor(index) {
            let (word, after) = (found.pred_word.0, found.pred_word.with(found.word.link()));
            // ORDERING: AcqRel, as in `find`.
            let _ = found.pred.compare_exchange(word, after.0, Ordering::AcqRel, Ordering::Relaxed);
        }
        let _ = self.find_from(&crate::ring::search::AnchorGoal(index), bucket, false);
    }
}
