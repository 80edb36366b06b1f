//! Inserting, replacing and removing items.
//!
//! Each operation is one critical section under the locks of both groups of the key, and of the groups on the path of
//! kicks. The path is found before; under the locks it is only compared, word by word.

use super::GCuckoo;
use super::bucket_pair::{BucketPair, Entry, tag_of};
use super::htm::{self, Hardware};
use super::lock::Frozen;
use super::page::{Page, STASH, Spot, State};
use super::tables::slots;
use super::vacancy::Outlook;
use crate::settings::Atomicity;
use hotring_index::sync::Ordering;
use hotring_index::sync::spin::{SpinGuard, SpinWait};
use hotring_index::toolkit::KeyGoal;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Item, Kind};
use hotring_index::word::{MADE_WITH, MARK, REPL};
use hotring_index::{sometimes, wrong};

/// With several slots per bucket, a page is split above this load, because paths get long soon
/// after.
const LOAD_MAX: (usize, usize) = (90, 100);
/// The same for one slot per bucket. Case C3 begins at a load of 0.5.
const LOAD_MAX_SINGLE: (usize, usize) = (45, 100);
/// A page below this load is not split because of its stash: otherwise keys with equal buckets could exhaust memory.
const LOAD_MIN: (usize, usize) = (25, 100);
/// A path with this number of kicks is a reason to check the page's load. Below a load of 0.9 most paths are shorter.
const KICKS_MANY: usize = 3;
/// The most items of a stash that a removal tries to move back into the tables.
const UNSTASH_TRIES: usize = STASH;

/// The outcome of an attempt to link an item.
enum Link {
    Done(Done),
    Present,
    Again,
}

/// How an item was linked.
#[derive(Clone, Copy, Default)]
struct Done {
    kicks: usize,
    stashed: bool,
    /// Items in the tables afterwards, if they are counted.
    items: Option<usize>,
}

/// Whether `n` items of `slots` are above a load.
fn is_above(n: usize, slots: usize, (a, b): (usize, usize)) -> bool {
    n * b > slots * a
}

impl<const S: usize> GCuckoo<S> {
    /// Runs `body` with some groups of a page locked, or as a transaction: other sessions see all
    /// of its effects at once. `body` must neither allocate nor lock.
    #[inline(always)]
    pub(crate) fn atomically<'s, K: Kind, R>(
        p: &Pinned<'s, K, Self>,
        page: &'s Page<S>,
        groups: &[u32],
        changes: bool,
        mut body: impl FnMut() -> R,
    ) -> Result<R, Frozen> {
        let mode = p.engine.mode;
        if mode == Atomicity::Rtm {
            let counts = &p.local.engine.counts;
            let locks = || page.groups.load_all(groups);
            let run = |frozen: bool| if frozen { Err(Frozen) } else { Ok(body()) };
            if let Some(result) = htm::elide(&Hardware, locks, counts, run) {
                return result;
            }
        }
        page.groups.take(groups, mode)?;
        let result = body();
        page.groups.release(groups, mode, changes);
        Ok(result)
    }

    /// Whether a key is present. Must be called under the locks of both its groups.
    fn is_present<'s, K: Kind>(
        p: &Pinned<'s, K, Self>,
        page: &'s Page<S>,
        at: BucketPair,
        goal: KeyGoal<'_, K>,
    ) -> bool {
        let view = Self::view(p, page);
        let tag = tag_of(goal.hash, page.depth);
        let is = |word: Entry| {
            word.tag() == tag
                && !word.is_vacant()
                && p.shared.kind.is(view.item(word), goal.hash, goal.key)
        };
        [at.one, at.two].into_iter().flat_map(slots::<S>).any(|slot| is(page.load(slot)))
            || (page.stashed() > 0
                && (0..page.shelf().len()).any(|index| is(page.load_stash(index))))
    }

    /// Inserts a private item; false if its key is present.
    pub(crate) fn link_item<K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
        item: Item,
    ) -> bool {
        let mut wait = SpinWait::default();
        loop {
            let page = Self::page(p, goal.hash);
            let link = if S == 1 {
                Self::link_foretold(p, page, goal, item)
            } else {
                Self::link_searched(p, page, goal, item)
            };
            match link {
                Link::Present => return false,
                Link::Again => wait.wait(),
                Link::Done(done) => {
                    p.count_in(item);
                    Self::count_path(p, done.kicks);
                    if Self::is_crowded(p, page, done) {
                        Self::split(p, page);
                    }
                    return true;
                }
            }
        }
    }

    fn count_path<'s, K: Kind>(p: &Pinned<'s, K, Self>, kicks: usize) {
        let counts = &p.local.engine.counts;
        counts.kicks_used.add(kicks as i64);
        let longer = kicks as i64 - counts.path_max.load();
        if longer > 0 {
            counts.path_max.add(longer);
        }
    }

    /// Links with one slot per bucket, under the page's lock: the graph predicts the outcome.
    fn link_foretold<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        page: &'s Page<S>,
        goal: KeyGoal<'_, K>,
        item: Item,
    ) -> Link {
        let mut state = page.state.lock();
        let at = page.buckets_of(goal.hash);
        let view = Self::view(p, page);
        let outlook = view.plan(&mut state, at, &mut p.local.engine.scratch);
        let is_full = p.local.engine.scratch.path.is_empty();
        let link = if is_full {
            Self::link_stashed(p, page, &mut state, at, goal, item)
        } else {
            Self::link_by_path(p, page, at, goal, item)
        };
        let Link::Done(done) = link else { return link };
        if is_full {
            let counts = &p.local.engine.counts;
            counts.predetermined.add(1);
            counts.maybes.add(i64::from(outlook == Outlook::Tried));
        } else {
            state.entered(at);
        }
        Link::Done(Done { items: Some(state.items), ..done })
    }

    /// Links with several slots per bucket, at the nearest vacancy. Takes the page's lock only if
    /// there is none.
    fn link_searched<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        page: &'s Page<S>,
        goal: KeyGoal<'_, K>,
        item: Item,
    ) -> Link {
        let at = page.buckets_of(goal.hash);
        let view = Self::view(p, page);
        view.search(at, &mut p.local.engine.scratch);
        let path = &p.local.engine.scratch.path;
        if path.is_empty() {
            let mut state = page.state.lock();
            return Self::link_stashed(p, page, &mut state, at, goal, item);
        }
        // Other sessions change the tables meanwhile, and may have led the search in a circle.
        if !path.is_simple() {
            return Link::Again;
        }
        Self::link_by_path(p, page, at, goal, item)
    }

    /// Links along the path that was found.
    fn link_by_path<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        page: &'s Page<S>,
        at: BucketPair,
        goal: KeyGoal<'_, K>,
        item: Item,
    ) -> Link {
        let view = Self::view(p, page);
        let word = page.entry(goal.hash, item);
        let mut groups = std::mem::take(&mut p.local.engine.scratch.groups);
        let path = &p.local.engine.scratch.path;
        page.gather_groups(at, path, &mut groups);
        let attempt = Self::atomically(p, page, &groups, true, || {
            if !path.holds(&view) && !wrong!(p, TrustPath) {
                return Link::Again;
            }
            if !wrong!(p, TrustAbsence) && Self::is_present(p, page, at, goal) {
                return Link::Present;
            }
            Link::Done(Done { kicks: path.apply(&view, word.0), ..Done::default() })
        });
        p.local.engine.scratch.groups = groups;
        let link = attempt.unwrap_or(Link::Again);
        match link {
            Link::Done(done) => p.local.engine.counts.kicks.add(done.kicks as i64),
            Link::Again => {
                sometimes!(PathLost);
            }
            Link::Present => {}
        }
        link
    }

    /// Links into the stash. Must be called under the page's lock.
    fn link_stashed<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        page: &'s Page<S>,
        state: &mut SpinGuard<'_, State>,
        at: BucketPair,
        goal: KeyGoal<'_, K>,
        item: Item,
    ) -> Link {
        let index = page.free_stash_slot(state);
        let word = page.entry(goal.hash, item);
        let (groups, n) = page.two_groups(at);
        let attempt = Self::atomically(p, page, &groups[..n], true, || {
            if !wrong!(p, TrustAbsence) && Self::is_present(p, page, at, goal) {
                return Link::Present;
            }
            page.stash(index, word.0);
            Link::Done(Done { stashed: true, ..Done::default() })
        });
        let link = attempt.unwrap_or(Link::Again);
        if matches!(link, Link::Done(_)) {
            sometimes!(Stashed);
            p.local.engine.counts.stashed.add(1);
        }
        link
    }

    /// Whether a page should be split, after an insertion.
    fn is_crowded<'s, K: Kind>(p: &Pinned<'s, K, Self>, page: &'s Page<S>, done: Done) -> bool {
        if !p.engine.grows {
            return false;
        }
        // A stashed item counts only if it makes the stash's size a power of two. If keys are so
        // alike that they all go to the stash, splitting does not help, and the attempt takes as
        // many steps as the page has slots.
        let stashed = if done.stashed { page.stashed() } else { 0 };
        let is_mark = stashed.is_power_of_two();
        if done.items.is_none() && done.kicks < KICKS_MANY && !is_mark {
            return false;
        }
        let items = done.items.unwrap_or_else(|| page.words().count());
        let load_max = if S == 1 { LOAD_MAX_SINGLE } else { LOAD_MAX };
        is_above(items, page.slots(), load_max)
            || (is_mark && stashed >= STASH && is_above(items, page.slots(), LOAD_MIN))
    }

    /// The place of an item. Must be called under the locks of both its groups. Without the page's
    /// lock, a result in the stash only tells that the item is there.
    fn locate(page: &Page<S>, at: BucketPair, word: Entry) -> Option<Spot> {
        let both = [at.one, at.two].into_iter().flat_map(slots::<S>);
        both.into_iter().find(|&slot| page.load(slot) == word).map(Spot::Slot).or_else(|| {
            let shelf = if page.stashed() == 0 { 0 } else { page.shelf().len() };
            (0..shelf).find(|&index| page.load_stash(index) == word).map(Spot::Stash)
        })
    }

    /// Changes the word of an item wherever it is, as one step: `change` is called under the locks.
    /// None: the item is no longer in the table. Also returns the page's lock, if it was needed.
    fn at_item<'s, K: Kind>(
        p: &Pinned<'s, K, Self>,
        (hash, item): (u64, Item),
        with_state: bool,
        change: impl Fn(&'s Page<S>, Spot),
    ) -> Option<(&'s Page<S>, Spot, Option<SpinGuard<'s, State>>)> {
        let mut wait = SpinWait::default();
        let mut with_state = with_state;
        loop {
            let page = Self::page(p, hash);
            let at = page.buckets_of(hash);
            let word = page.entry(hash, item);
            let (groups, n) = page.two_groups(at);
            let state = with_state.then(|| page.state.lock());
            let attempt = Self::atomically(p, page, &groups[..n], true, || {
                let spot = Self::locate(page, at, word)?;
                let reached = state.is_some() || matches!(spot, Spot::Slot(_));
                if reached {
                    change(page, spot);
                }
                Some((spot, reached))
            });
            match attempt {
                Ok(None) => return None,
                Ok(Some((spot, true))) => return Some((page, spot, state)),
                // The item is in the stash, which must be changed under the page's lock.
                Ok(Some((_, false))) => with_state = true,
                Err(Frozen) => wait.wait(),
            }
        }
    }

    /// Replaces an item by `copy`, which has the same key; false if the item is no longer in the
    /// table.
    pub(crate) fn replace_item<K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        hash: u64,
        old: Item,
        copy: Item,
    ) -> bool {
        // ORDERING: Relaxed, the copy is private; its word has no successor.
        let made = copy.next().load(Ordering::Relaxed) & MADE_WITH;
        // ORDERING: Relaxed, as above.
        copy.next().store(made, Ordering::Relaxed);
        let done = Self::at_item(p, (hash, old), false, |page, spot| {
            page.put(spot, page.entry(hash, copy));
            // ORDERING: AcqRel: publishes the copy to sessions that follow it; reads of the old item come
            // before its death.
            old.next().fetch_or(MARK | REPL | copy.address(), Ordering::AcqRel);
        });
        if done.is_none() {
            return false;
        }
        drop(done);
        p.count_replaced(old, copy);
        p.retire(old);
        true
    }

    /// Removes an item; false if it is no longer in the table.
    pub(crate) fn kill_item<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        hash: u64,
        item: Item,
    ) -> bool {
        let done = Self::at_item(p, (hash, item), S == 1, |page, spot| {
            match spot {
                Spot::Slot(slot) => page.store(slot, 0),
                Spot::Stash(index) => page.unstash(index),
            }
            // ORDERING: AcqRel: reads of the item come before its death.
            item.next().fetch_or(MARK, Ordering::AcqRel);
        });
        let Some((page, spot, mut state)) = done else { return false };
        if let (Spot::Slot(_), Some(state)) = (spot, &mut state)
            && let Some(graph) = &mut state.graph
        {
            graph.remove(page.buckets_of(hash));
            let is_stale = graph.is_stale();
            state.items -= 1;
            if is_stale {
                sometimes!(GraphRebuilt);
                Self::view(p, page).rebuild(state);
            }
        }
        if page.stashed() > 0 {
            let state = state.get_or_insert_with(|| page.state.lock());
            Self::unstash(p, page, state);
        }
        drop(state);
        p.count_out(item);
        p.retire(item);
        true
    }

    /// Moves an item from the stash back into the tables after a removal. Must be called under the
    /// page's lock.
    fn unstash<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        page: &'s Page<S>,
        state: &mut SpinGuard<'_, State>,
    ) {
        let shelf = page.shelf().len();
        for _ in 0..UNSTASH_TRIES.min(shelf) {
            let index = state.next % shelf;
            state.next = index + 1;
            let word = page.load_stash(index);
            if !word.is_vacant() && Self::unstash_one(p, page, state, index, word) {
                return;
            }
        }
    }

    fn unstash_one<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        page: &'s Page<S>,
        state: &mut SpinGuard<'_, State>,
        index: usize,
        word: Entry,
    ) -> bool {
        let view = Self::view(p, page);
        let at = view.buckets_of(word);
        view.plan(state, at, &mut p.local.engine.scratch);
        let mut groups = std::mem::take(&mut p.local.engine.scratch.groups);
        let path = &p.local.engine.scratch.path;
        let mut moved = Ok(false);
        if !path.is_empty() && path.is_simple() {
            page.gather_groups(at, path, &mut groups);
            moved = Self::atomically(p, page, &groups, true, || {
                // The word may belong to another version by now.
                let is_same = path.holds(&view) && page.load_stash(index) == word;
                if is_same {
                    path.apply(&view, word.0);
                    page.unstash(index);
                }
                is_same
            });
            if moved == Ok(true) {
                sometimes!(Unstashed);
                state.entered(at);
                let counts = &p.local.engine.counts;
                counts.unstashed.add(1);
                counts.kicks.add(path.kicks() as i64);
                counts.kicks_used.add(path.kicks() as i64);
            }
        }
        p.local.engine.scratch.groups = groups;
        moved == Ok(true)
    }
}
