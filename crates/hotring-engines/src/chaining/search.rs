//! Finding items: a key's home, the walk of readers with its second look, and the walk of writers.

use crate::chaining::Chaining;
use crate::chaining::word::{Head, SEALED, address, with_address};
use crate::hooks::{Step, cas};
use hotring_index::sync::{AtomicU64, Ordering};
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Found, Hit, KeyGoal};
use hotring_index::toolkit::{Item, Kind};
use hotring_index::word::{MARK, Next};
use hotring_index::{sometimes, wrong};

/// One lookup in this many is counted, on average.
const PERIOD: u32 = if cfg!(shuttle) { 2 } else { 64 };

/// A bucket, and its word when it was the home of a key (C5).
#[derive(Clone, Copy)]
pub(crate) struct Home {
    pub(crate) index: u64,
    pub(crate) head: Head,
}

/// Where the walk of a writer ended.
pub struct Position<'s> {
    pub(crate) home: Home,
    /// The word that leads to the item that was found, and the value of that word.
    pub(crate) pred: &'s AtomicU64,
    pub(crate) pred_word: u64,
}

impl Chaining {
    #[inline(always)]
    pub(crate) fn item<'s, K: Kind>(p: &Pinned<'s, K, Self>, address: u64) -> Item {
        // SAFETY: P: the address was read from a bucket's word, or from an item of a walk, under this
        // pin, so the item is retired after it ("not too early").
        let item = unsafe { Item::at(address) };
        item.lifetime().check_access(p.local.participant.pinned_at());
        item
    }

    /// The home of a hash, for readers.
    #[inline(always)]
    pub(crate) fn home<K: Kind>(p: &Pinned<'_, K, Self>, hash: u64) -> Home {
        let index = hash & p.engine.table.mask();
        let head = p.engine.table.head(index);
        if head.is_ready() && !head.is_frozen() && head.holds(index, hash) {
            return Home { index, head };
        }
        Self::home_from(p, index, hash)
    }

    /// As `home`, starting at bucket `index`, whose number the hash has on some level.
    #[cold]
    #[inline(never)]
    pub(crate) fn home_from<K: Kind>(p: &Pinned<'_, K, Self>, mut index: u64, hash: u64) -> Home {
        loop {
            let head = p.engine.table.head(index);
            if !head.is_ready() {
                // The bucket was not ready at this load. Its keys are in the parent, which is read
                // later and so is at least as recent.
                index &= !(1 << (63 - index.leading_zeros()));
                continue;
            }
            if !head.holds(index, hash) {
                // Split since the index was chosen.
                index = hash & ((1 << head.level()) - 1);
                continue;
            }
            let sibling = head.sibling(index);
            if head.is_frozen()
                && hash & head.leaving() != 0
                && p.engine.table.head(sibling).is_ready()
            {
                index = sibling;
                continue;
            }
            return Home { index, head };
        }
    }

    /// The second look: None if the bucket that a walk ended in was the home of the hash
    /// throughout. Otherwise the home in which the walk must go on.
    #[inline(always)]
    pub(crate) fn moved_on<K: Kind>(
        p: &Pinned<'_, K, Self>,
        home: Home,
        hash: u64,
    ) -> Option<Home> {
        let now = p.engine.table.head(home.index);
        // If the word differs only in its address, the bucket has not been split.
        if now.level() == home.head.level() && !now.is_frozen() {
            return None;
        }
        let now = Self::home_from(p, home.index, hash);
        if now.index == home.index || wrong!(p, ChainUnnoticed) {
            return None;
        }
        sometimes!(LookedAgain);
        Some(now)
    }

    /// The live item with this key: the read path. Notes an access.
    #[inline(always)]
    pub(crate) fn read_item<K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
    ) -> Option<Hit> {
        let home = Self::home(p, goal.hash);
        let (hit, visits) = Self::walk_home(p, goal, home, home.head.first());
        Self::access(p, visits);
        hit
    }

    /// The walk of readers from the item at `at` of a home on, and in the homes that follow.
    #[inline(always)]
    pub(crate) fn walk_home<'s, K: Kind>(
        p: &Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        mut home: Home,
        mut at: u64,
    ) -> (Option<Hit>, u32) {
        let mut visits = 0;
        loop {
            while at != 0 {
                visits += 1;
                let (hit, next) = Self::look_at(p, goal, at);
                if hit.is_some() {
                    return (hit, visits);
                }
                at = next;
            }
            match Self::moved_on(p, home, goal.hash) {
                Some(now) => (home, at) = (now, now.head.first()),
                None => return (None, visits),
            }
        }
    }

    /// A reader's look at one item: the hit, or the next item's address.
    #[inline(always)]
    pub(crate) fn look_at<K: Kind>(
        p: &Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
        at: u64,
    ) -> (Option<Hit>, u64) {
        let item = Self::item(p, at);
        // ORDERING: Acquire pairs with the CAS that linked or marked the item, or linked the next
        // one. For the hit of an unsealed item this load is the linearization point.
        let word = Next(item.next().load(Ordering::Acquire));
        if p.shared.kind.is(item, goal.hash, goal.key) {
            if !word.is(MARK) || word.is(SEALED) {
                return (Some(Hit { item, word }), 0);
            }
            sometimes!(DeadPassed);
        }
        (None, address(word.0))
    }

    /// Notes an access.
    #[inline(always)]
    pub(crate) fn access<K: Kind>(p: &mut Pinned<'_, K, Self>, visits: u32) {
        p.local.countdown -= 1;
        if p.local.countdown == 0 {
            Self::count_access(p, visits);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_access<'s, K: Kind>(p: &mut Pinned<'s, K, Self>, visits: u32) {
        // At random: a fixed period can fall in step with periodic accesses.
        p.local.countdown = PERIOD / 2 + 1 + (p.local.random() >> 40) as u32 % PERIOD;
        p.local.participant.count_accesses(p.engine.table.is_growing(), PERIOD);
        p.record().lookups.add(1);
        p.record().visits.add(i64::from(visits));
    }

    // --- writers

    /// The key's live item, if any, and the place at which the walk ended.
    pub(crate) fn find_item<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
    ) -> Found<Position<'s>> {
        loop {
            let home = Self::home_to_write(p, goal.hash);
            let Some(found) = Self::pass(p, home, Some(goal)) else { continue };
            if found.hit.is_some() || Self::moved_on(p, home, goal.hash).is_none() {
                return found;
            }
        }
    }

    /// The home of a hash for writers. Splits it as far as the table requires, and finishes a split
    /// under way.
    #[inline(always)]
    fn home_to_write<K: Kind>(p: &mut Pinned<'_, K, Self>, hash: u64) -> Home {
        loop {
            let mask = p.engine.table.mask();
            let index = hash & mask;
            let head = p.engine.table.head(index);
            if !head.is_ready() {
                Self::split(p, index & (mask >> 1));
            } else if head.is_frozen() || head.level() < mask.trailing_ones() {
                Self::split(p, index);
            } else if head.holds(index, hash) {
                return Home { index, head };
            }
            // Otherwise the table has doubled again since.
        }
    }

    /// The walk of writers: unlinks dead items on its way to the goal, or to the end. None if another
    /// session interferes: the caller must restart.
    pub(crate) fn pass<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        mut home: Home,
        goal: Option<KeyGoal<'_, K>>,
    ) -> Option<Found<Position<'s>>> {
        let mut pred = p.engine.table.word(home.index);
        let mut pred_word = home.head.0;
        let mut at_home = true;
        loop {
            let first = address(pred_word);
            let (at, word) = Self::skip_dead(p, first);
            if at != first {
                let after = with_address(pred_word, at);
                // ORDERING: AcqRel publishes nothing new but keeps the release sequence of the skipped
                // items; pairs with the Acquire of walks.
                if !cas(pred, pred_word, after, Ordering::AcqRel, Step::CutLost) {
                    return None;
                }
                Self::retire_run(p, first, at);
                pred_word = after;
                if at_home {
                    home.head = Head(after);
                }
            }
            if at == 0 {
                return Some(Found { hit: None, position: Position { home, pred, pred_word } });
            }
            if word.is(SEALED) {
                // A split of the bucket has begun since the walk began.
                sometimes!(SealedMet);
                return None;
            }
            let item = Self::item(p, at);
            if goal.is_some_and(|goal| p.shared.kind.is(item, goal.hash, goal.key)) {
                let hit = Some(Hit { item, word });
                return Some(Found { hit, position: Position { home, pred, pred_word } });
            }
            (pred, pred_word, at_home) = (item.next(), word.0, false);
        }
    }

    /// The first item from `at` on that is not dead, and its word; 0 at the end.
    #[inline]
    fn skip_dead<K: Kind>(p: &Pinned<'_, K, Self>, mut at: u64) -> (u64, Next) {
        while at != 0 {
            // ORDERING: Acquire pairs with the CAS that linked or marked the item.
            let word = Next(Self::item(p, at).next().load(Ordering::Acquire));
            if !word.is(MARK) {
                return (at, word);
            }
            at = address(word.0);
        }
        (0, Next(0))
    }

    /// Retires the dead items from `from` up to `to`, which our CAS took out.
    fn retire_run<K: Kind>(p: &mut Pinned<'_, K, Self>, from: u64, to: u64) {
        let mut at = from;
        while at != to {
            let dead = Self::item(p, at);
            // ORDERING: Relaxed, the successor of a dead item is fixed (C1) and was read before.
            at = address(dead.next().load(Ordering::Relaxed));
            sometimes!(at != to => RunCut);
            p.retire(dead);
        }
    }

    /// Unlinks the dead items of a bucket. Leaves them to the session that splits the bucket, if any,
    /// because its winner unlinks them afterwards.
    pub(crate) fn tidy<K: Kind>(p: &mut Pinned<'_, K, Self>, index: u64) {
        loop {
            let head = p.engine.table.head(index);
            if head.is_frozen() || Self::pass(p, Home { index, head }, None).is_some() {
                return;
            }
        }
    }
}
