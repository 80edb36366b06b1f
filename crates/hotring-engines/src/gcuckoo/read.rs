//! Finding an item: the path of readers, and the search of writers.

use super::GCuckoo;
use super::lock::LOCKED;
use super::page::{Page, Spot, View};
use super::place::{Entry, Places, tag_of};
use crate::config::Atomicity;
use crate::engine::{Hit, KeyGoal};
use crate::item::{Item, Kind};
use crate::rare::{sometimes, wrong};
use crate::session::Pinned;
use crate::sync::Ordering;
use crate::sync::spin::SpinWait;
use crate::word::{MARK, Next, REPL};

/// Looks in vain after which a reader takes the locks: others may go on changing the groups.
const PATIENCE: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 32 };
/// Lookups of which one is counted.
const PERIOD: u32 = 64;

/// Items that a look touched.
type Visits = u32;

impl<'s, K: Kind, const S: usize> Pinned<'s, K, GCuckoo<S>> {
    /// The page of a hash, as it is now.
    #[inline(always)]
    pub(crate) fn page(&self, hash: u64) -> &'s Page<S> {
        self.engine.directory.page(hash)
    }

    #[inline(always)]
    pub(crate) fn view(&self, page: &'s Page<S>) -> View<'s, K, S> {
        let since = self.local.participant.since();
        View { page, kind: &self.shared.kind, since }
    }

    /// The item, or the version that has replaced it since it was found.
    #[inline(always)]
    pub(crate) fn live(&self, mut item: Item) -> Option<Hit> {
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
            item.ghost().seen(self.local.participant.since());
        }
    }

    /// Looks at both buckets, and at the stash if there is something in it.
    #[inline(always)]
    fn examine(
        &self,
        page: &'s Page<S>,
        at: Places,
        goal: KeyGoal<'_, K>,
        visits: &mut Visits,
    ) -> Option<(Hit, Spot, Entry)> {
        let view = self.view(page);
        let tag = tag_of(goal.hash, page.depth);
        let mut test = |word: Entry| {
            if word.tag() != tag || word.is_vacant() {
                return None;
            }
            *visits += 1;
            let item = view.item(word);
            self.shared.kind.is(item, goal.hash, goal.key).then(|| self.live(item)).flatten()
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
    pub(crate) fn lookup(&mut self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        if !self.local.engine.cache.is_off()
            && let Some(hit) = self.recall(goal)
        {
            self.note_access(1);
            return Some(hit);
        }
        let mut visits = 0;
        let found = self.seek(goal, &mut visits);
        self.note_access(visits);
        let (hit, spot, word) = found?;
        if let Spot::Slot(slot) = spot
            && !self.local.engine.cache.is_off()
        {
            self.local.engine.cache.note(goal.hash, slot, word);
        }
        Some(hit)
    }

    /// The item of a key, by the cache.
    fn recall(&mut self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let local = &self.local.engine;
        local.counts.cache_lookups.add(1);
        let recent = local.cache.recall(goal.hash)?;
        let page = self.page(goal.hash);
        let word = page.load(recent.slot);
        if word.0 != recent.word {
            return None;
        }
        let item = self.view(page).item(word);
        if !self.shared.kind.is(item, goal.hash, goal.key) {
            return None;
        }
        let hit = self.live(item)?;
        self.local.engine.counts.cache_hits.add(1);
        Some(hit)
    }

    /// A look without certainty: what it finds is there, what it misses may be, too.
    #[inline(always)]
    pub(crate) fn glance(&self, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let page = self.page(goal.hash);
        let found = self.examine(page, page.places(goal.hash), goal, &mut 0);
        found.map(|(hit, ..)| hit)
    }

    /// The item of a key, or for certain that there is none.
    #[inline(always)]
    pub(crate) fn seek(
        &self,
        goal: KeyGoal<'_, K>,
        visits: &mut Visits,
    ) -> Option<(Hit, Spot, Entry)> {
        if self.engine.mode != Atomicity::Optimistic {
            return self.seek_locked(goal, visits);
        }
        let page = self.page(goal.hash);
        // The usual case first: what is found needs no versions.
        let found = self.examine(page, page.places(goal.hash), goal, visits);
        if found.is_some() || wrong!(self, NoVersions) {
            return found;
        }
        self.seek_miss(goal, visits)
    }

    /// As `seek`, by versions: if neither group was locked nor has changed, the key was in neither
    /// bucket, nor in the stash, at the moment of the first look at them (V2).
    #[inline(never)]
    fn seek_miss(&self, goal: KeyGoal<'_, K>, visits: &mut Visits) -> Option<(Hit, Spot, Entry)> {
        let mut wait = SpinWait::default();
        for _ in 0..PATIENCE {
            let page = self.page(goal.hash);
            let at = page.places(goal.hash);
            let look = || [at.one, at.two].map(|bucket| page.groups.look(page.group(bucket)));
            let before = look();
            let found = self.examine(page, at, goal, visits);
            let locked = (before[0] | before[1]) & LOCKED != 0;
            if found.is_some() || (!locked && look() == before) {
                return found;
            }
            sometimes!(LookedAgain);
            self.local.engine.counts.retries.add(1);
            wait.wait();
        }
        sometimes!(Impatient);
        self.local.engine.counts.impatient.add(1);
        self.seek_locked(goal, visits)
    }

    /// As `seek`, with both groups locked (or as a transaction).
    #[inline(never)]
    fn seek_locked(&self, goal: KeyGoal<'_, K>, visits: &mut Visits) -> Option<(Hit, Spot, Entry)> {
        let page = self.page(goal.hash);
        let at = page.places(goal.hash);
        let (groups, n) = page.two_groups(at);
        let look = || {
            let mut touched = 0;
            let found = self.examine(page, at, goal, &mut touched);
            (found, touched)
        };
        // A frozen page changes no more: what is in it was there when its halves took its place, or
        // is so still, and we have found it in the directory since we began (V5).
        let (found, touched) =
            self.atomically(page, &groups[..n], false, look).unwrap_or_else(|_| look());
        *visits += touched;
        found
    }

    /// Counts one access in so many, for the statistics, and lets waiting work be done.
    #[inline(always)]
    pub(crate) fn note_access(&mut self, visits: Visits) {
        self.local.countdown -= 1;
        if self.local.countdown == 0 {
            self.local.countdown = PERIOD;
            self.record().lookups.add(1);
            self.record().visits.add(i64::from(visits));
            self.local.participant.nudge(self.engine.directory.is_busy(), PERIOD);
        }
    }
}
