//! Finding an item: the path of readers, and the search of writers.

use super::GCuckoo;
use super::bucket_pair::{BucketPair, Entry, tag_of};
use super::lock::LOCKED;
use super::page::{Page, Spot, View};
use crate::settings::Atomicity;
use hotring_index::sync::Ordering;
use hotring_index::sync::spin::SpinWait;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Hit, KeyGoal};
use hotring_index::toolkit::{Item, Kind};
use hotring_index::word::{MARK, Next, REPL};
use hotring_index::{sometimes, wrong};

/// Failed looks after which a reader takes the locks, as writers may go on changing the groups.
const PATIENCE: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 32 };
/// One lookup in this many is counted.
const PERIOD: u32 = 64;

/// Items that a look touched.
type Visits = u32;

impl<const S: usize> GCuckoo<S> {
    /// The page of a hash, as it is now.
    #[inline(always)]
    pub(crate) fn page<'s, K: Kind>(p: &Pinned<'s, K, Self>, hash: u64) -> &'s Page<S> {
        p.engine.directory.page(hash)
    }

    #[inline(always)]
    pub(crate) fn view<'s, K: Kind>(p: &Pinned<'s, K, Self>, page: &'s Page<S>) -> View<'s, K, S> {
        let since = p.local.participant.pinned_at();
        View { page, kind: &p.shared.kind, since }
    }

    /// The item, or the version that has replaced it since it was found.
    #[inline(always)]
    pub(crate) fn live<K: Kind>(p: &Pinned<'_, K, Self>, mut item: Item) -> Option<Hit> {
        loop {
            // ORDERING: Acquire pairs with the AcqRel of the step that marked it. For a hit this
            // load is the linearization point.
            let word = Next(item.next().load(Ordering::Acquire));
            if !word.is(MARK) {
                return Some(Hit { item, word });
            }
            if !word.is(REPL) {
                return None;
            }
            sometimes!(CopyFollowed);
            // SAFETY: P: the copy was linked when this was marked, which was after our pin began,
            // as the item was in the table then (V1); so it was retired later still, if at all.
            item = unsafe { Item::at(word.link().address()) };
            item.lifetime().check_access(p.local.participant.pinned_at());
        }
    }

    /// Looks at both buckets, and at the stash if there is something in it.
    #[inline(always)]
    fn examine<'s, K: Kind>(
        p: &Pinned<'s, K, Self>,
        page: &'s Page<S>,
        at: BucketPair,
        goal: KeyGoal<'_, K>,
        visits: &mut Visits,
    ) -> Option<(Hit, Spot, Entry)> {
        let view = Self::view(p, page);
        let tag = tag_of(goal.hash, page.depth);
        let mut test = |word: Entry| {
            if word.tag() != tag || word.is_vacant() {
                return None;
            }
            *visits += 1;
            let item = view.item(word);
            p.shared.kind.is(item, goal.hash, goal.key).then(|| Self::live(p, item)).flatten()
        };
        for bucket in [at.one, at.two] {
            let mut matches = page.matches(bucket, tag);
            while matches != 0 {
                let slot = bucket * S as u32 + matches.trailing_zeros();
                let word = page.load(slot);
                if let Some(hit) = test(word) {
                    return Some((hit, Spot::Slot(slot), word));
                }
                matches &= matches - 1;
            }
        }
        if page.stashed() == 0 {
            return None;
        }
        (0..page.shelf().len()).find_map(|index| {
            let word = page.load_stash(index);
            test(word).map(|hit| (hit, Spot::Stash(index), word))
        })
    }

    /// The item of a key: the path of readers.
    #[inline(always)]
    pub(crate) fn read_item<K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
    ) -> Option<Hit> {
        if !p.local.engine.cache.is_off()
            && let Some(hit) = Self::recall(p, goal)
        {
            Self::note_access(p, 1);
            return Some(hit);
        }
        let mut visits = 0;
        let found = Self::seek(p, goal, &mut visits);
        Self::note_access(p, visits);
        let (hit, spot, word) = found?;
        if let Spot::Slot(slot) = spot
            && !p.local.engine.cache.is_off()
        {
            p.local.engine.cache.note(goal.hash, slot, word);
        }
        Some(hit)
    }

    /// The item of a key, by the cache.
    fn recall<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let local = &p.local.engine;
        local.counts.cache_lookups.add(1);
        let recent = local.cache.recall(goal.hash)?;
        let page = Self::page(p, goal.hash);
        let word = page.load(recent.slot);
        if word.0 != recent.word {
            return None;
        }
        let item = Self::view(p, page).item(word);
        if !p.shared.kind.is(item, goal.hash, goal.key) {
            return None;
        }
        let hit = Self::live(p, item)?;
        p.local.engine.counts.cache_hits.add(1);
        Some(hit)
    }

    /// As `seek`, without certainty: it may miss an item that is present.
    #[inline(always)]
    pub(crate) fn probe_item<K: Kind>(
        p: &Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
    ) -> Option<Hit> {
        let page = Self::page(p, goal.hash);
        let found = Self::examine(p, page, page.buckets_of(goal.hash), goal, &mut 0);
        found.map(|(hit, ..)| hit)
    }

    /// The item of a key; None if the key is certainly absent.
    #[inline(always)]
    pub(crate) fn seek<K: Kind>(
        p: &Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
        visits: &mut Visits,
    ) -> Option<(Hit, Spot, Entry)> {
        if p.engine.mode != Atomicity::Optimistic {
            return Self::seek_locked(p, goal, visits);
        }
        let page = Self::page(p, goal.hash);
        // The common case first: a hit needs no versions.
        let found = Self::examine(p, page, page.buckets_of(goal.hash), goal, visits);
        if found.is_some() || wrong!(p, NoVersions) {
            return found;
        }
        Self::seek_miss(p, goal, visits)
    }

    /// As `seek`, by versions: if neither group was locked nor has changed, the key was in neither
    /// bucket, nor in the stash, at the moment of the first look at them (V2).
    #[inline(never)]
    fn seek_miss<K: Kind>(
        p: &Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
        visits: &mut Visits,
    ) -> Option<(Hit, Spot, Entry)> {
        let mut wait = SpinWait::default();
        for _ in 0..PATIENCE {
            let page = Self::page(p, goal.hash);
            let at = page.buckets_of(goal.hash);
            let versions = || [at.one, at.two].map(|bucket| page.groups.load(page.group(bucket)));
            let before = versions();
            let found = Self::examine(p, page, at, goal, visits);
            let locked = (before[0] | before[1]) & LOCKED != 0;
            if found.is_some() || (!locked && versions() == before) {
                return found;
            }
            sometimes!(LookedAgain);
            p.local.engine.counts.retries.add(1);
            wait.wait();
        }
        sometimes!(Impatient);
        p.local.engine.counts.impatient.add(1);
        Self::seek_locked(p, goal, visits)
    }

    /// As `seek`, with both groups locked (or as a transaction).
    #[inline(never)]
    fn seek_locked<K: Kind>(
        p: &Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
        visits: &mut Visits,
    ) -> Option<(Hit, Spot, Entry)> {
        let page = Self::page(p, goal.hash);
        let at = page.buckets_of(goal.hash);
        let (groups, n) = page.two_groups(at);
        let search = || {
            let mut touched = 0;
            let found = Self::examine(p, page, at, goal, &mut touched);
            (found, touched)
        };
        // A frozen page never changes. Its content is current, or was when its halves replaced it, and we found the
        // page in the directory after our operation began (V5).
        let (found, touched) =
            Self::atomically(p, page, &groups[..n], false, search).unwrap_or_else(|_| search());
        *visits += touched;
        found
    }

    /// Samples accesses for the statistics, and lets waiting work be done.
    #[inline(always)]
    pub(crate) fn note_access<K: Kind>(p: &mut Pinned<'_, K, Self>, visits: Visits) {
        p.local.countdown -= 1;
        if p.local.countdown == 0 {
            p.local.countdown = PERIOD;
            p.record().lookups.add(1);
            p.record().visits.add(i64::from(visits));
            p.local.participant.count_accesses(p.engine.directory.is_busy(), PERIOD);
        }
    }
}
