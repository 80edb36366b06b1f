//! Mercury as an engine: each step under the lock of one bucket.

use crate::config::{Config, ConfigError};
use crate::engine::{Engine, Found, Hit, KeyGoal, sealed};
use crate::index::Index;
use crate::item::{Item, Kind};
use crate::mercury::chain::{Held, Items};
use crate::mercury::expand::Mover;
use crate::mercury::locking::{HASMOVED, Locking};
use crate::mercury::table::Table;
use crate::mercury::workers::Worker;
use crate::mercury::{Mercury, Tables};
use crate::prefetch::{prefetch, prefetch_item};
use crate::rare::{sometimes, wrong};
use crate::session::Pinned;
use crate::stats::EngineStats;
use crate::sync::Ordering;
use crate::word::Next;

/// Lookups of which one is counted, on average.
const SAMPLED: u32 = 64;
/// The most lookups that can be in flight.
const FLIGHTS_MAX: usize = 64;

impl<L: Locking> sealed::Engine for Mercury<L> {}

impl<L: Locking> Engine for Mercury<L> {
    const NAME: &'static str = "mercury";
    /// Section 3, "Memory allocator".
    const WHOLE_CHUNKS: bool = true;
    type Local = Worker<L>;
    type Bucket = ();
    type Place<'s> = ();
    type Reservation = ();

    fn new(config: &Config) -> Result<Self, ConfigError> {
        Self::build(config)
    }

    fn local(&self) -> Result<Worker<L>, ConfigError> {
        self.workers.join().ok_or(ConfigError::Unsupported(
            "Mercury without locks serves one session at a time, and there is one: end it first, or \
             use the locking test-and-set",
        ))
    }

    #[inline(always)]
    fn bucket<K: Kind>(_p: &mut Pinned<'_, K, Self>, _hash: u64) {}

    #[inline(always)]
    fn lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let (hit, visits) = p.search(goal);
        p.note(visits);
        hit
    }

    #[inline(always)]
    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
    ) -> Found<()> {
        Found { hit: p.search(goal).0, place: () }
    }

    fn link<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        _found: &Found<()>,
        item: Item,
        _reservation: &mut (),
    ) -> bool {
        let kind = &p.shared.kind;
        let linked = p.with_bucket(goal.hash, |held| {
            let is_absent = held.search(|other| kind.is(other, goal.hash, goal.key)).0.is_none();
            if is_absent {
                held.push(item);
            }
            is_absent
        });
        if linked {
            p.count_in(item);
            p.expand_if_due();
        } else {
            sometimes!(LinkLost);
        }
        linked
    }

    fn replace<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        old: Hit,
        copy: Item,
        _found: Option<&Found<()>>,
    ) -> bool {
        let replaced = p.with_bucket(goal.hash, |held| {
            let spot = held.search(|item| item == old.item).0;
            if let Some(spot) = &spot {
                held.replace(spot, copy);
            }
            spot.is_some()
        });
        if replaced {
            p.count_replaced(old.item, copy);
            p.retire(old.item);
        } else {
            sometimes!(ReplaceLost);
        }
        replaced
    }

    fn kill<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        _goal: KeyGoal<'_, K>,
        _bucket: (),
        found: &Found<()>,
    ) -> bool {
        Self::kill_at(p, found.hit.expect("what is to be killed was found"))
    }

    fn kill_at<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool {
        let hash = p.shared.kind.item_hash(hit.item);
        let killed = p.with_bucket(hash, |held| {
            let spot = held.search(|item| item == hit.item).0;
            if let Some(spot) = &spot {
                held.remove(spot);
            }
            spot.is_some()
        });
        if killed {
            p.count_out(hit.item);
            p.retire(hit.item);
        } else {
            sometimes!(KillLost);
        }
        killed
    }

    #[inline(always)]
    fn accessed<K: Kind>(p: &mut Pinned<'_, K, Self>, _hash: u64, _hit: Option<Hit>, visits: u32) {
        p.note(visits);
    }

    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        cursor: u64,
        count: usize,
        f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize) {
        p.scan_buckets(cursor, count, f)
    }

    /// Asks for the lines of so many keys together, and then looks up one after the other.
    #[inline(always)]
    fn pipeline<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
        mut land: impl FnMut(usize, Option<Hit>),
    ) where
        K::Key: 'k,
    {
        let depth = p.shared.config.pipeline_depth;
        for from in (0..n).step_by(depth) {
            let to = n.min(from + depth);
            p.fetch(to - from, |kind, i| goal(kind, from + i).hash);
            for i in from..to {
                let hit = Self::lookup(p, goal(&p.shared.kind, i));
                land(i, hit);
            }
        }
    }

    fn warm<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
    ) where
        K::Key: 'k,
    {
        p.fetch(n, |kind, i| goal(kind, i).hash);
    }

    fn is_busy(&self) -> bool {
        self.expansion.waits_for_sessions()
    }

    fn step<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        if let Some(mut mover) = Mover::take(p.shared) {
            mover.step();
        }
    }

    fn maintain<K: Kind>(index: &Index<K, Self>, stop: impl Fn() -> bool) {
        Mover::run(&index.shared, stop);
    }

    fn wake(&self) {
        self.expansion.bell.ring();
    }

    /// Begins to, to be exact.
    fn grow<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        Mover::take(p.shared).is_some_and(|mut mover| mover.begin())
    }

    fn slots(&self) -> u64 {
        self.expansion.len()
    }

    fn table_bytes(&self) -> u64 {
        self.expansion.table_bytes()
    }

    fn stats(&self) -> EngineStats {
        // ORDERING: Relaxed, statistics.
        let lock_waits = self.lock_waits.load(Ordering::Relaxed);
        self.expansion.stats(lock_waits)
    }

    fn drain<K: Kind>(&self, mut f: impl FnMut(Item)) {
        // SAFETY: no session is left.
        let Tables { current, next } = unsafe { self.tables_unchecked() };
        for table in std::iter::once(current).chain(next) {
            for bucket in 0..table.len() {
                Items::of_word(table.bucket(bucket).peek()).for_each(|spot| f(spot.hit.item));
            }
        }
    }
}

impl<'s, K: Kind, L: Locking> Pinned<'s, K, Mercury<L>> {
    /// Calls `f` with the bucket of a hash, locked. It must not call anything but what the bucket
    /// and the kind of items can do.
    #[inline(always)]
    fn with_bucket<R>(&self, hash: u64, f: impl FnOnce(&mut Held<'_, L>) -> R) -> R {
        let inside = self.local.engine.enter();
        f(&mut self.hold(self.engine.tables(&inside), hash).0)
    }

    /// The bucket that a hash belongs to (M2), locked, and its table.
    #[inline(always)]
    pub(crate) fn hold<'w>(&self, tables: Tables<'w, L>, hash: u64) -> (Held<'w, L>, &'w Table<L>) {
        let Tables { current, next } = tables;
        let held =
            |table: &'w Table<L>| (Held::lock(table.bucket(hash), &self.engine.lock_waits), table);
        let Some(next) = next else { return held(current) };
        // ORDERING: Acquire pairs with the Release in `Mover::move_some` (M4).
        if current.index(hash) < self.engine.moved.0.load(Ordering::Acquire) {
            return held(next);
        }
        let old = held(current);
        if !old.0.has_moved() || wrong!(self, MovedUnseen) {
            return old;
        }
        sometimes!(MovedMeanwhile);
        drop(old);
        held(next)
    }

    #[inline(always)]
    fn search(&self, goal: KeyGoal<'_, K>) -> (Option<Hit>, u32) {
        let kind = &self.shared.kind;
        let (spot, visits) = self
            .with_bucket(goal.hash, |held| held.search(|item| kind.is(item, goal.hash, goal.key)));
        (spot.map(|spot| spot.hit), visits)
    }

    /// Notes a lookup, of which a few are counted.
    #[inline(always)]
    fn note(&mut self, visits: u32) {
        self.local.countdown -= 1;
        if self.local.countdown == 0 {
            self.count(visits);
        }
    }

    #[cold]
    #[inline(never)]
    fn count(&mut self, visits: u32) {
        // At random: a fixed number can fall in step with accesses that repeat.
        self.local.countdown = SAMPLED / 2 + (self.local.random() % u64::from(SAMPLED)) as u32;
        self.local.participant.nudge(self.engine.is_busy(), SAMPLED);
        self.record().lookups.add(1);
        self.record().visits.add(i64::from(visits));
    }

    /// Asks for the buckets of hashes, and then for the first item of each.
    fn fetch(&self, n: usize, hash: impl Fn(&K, usize) -> u64) {
        debug_assert!(n <= FLIGHTS_MAX, "no more fit into the nearest cache");
        let inside = self.local.engine.enter();
        let tables = self.engine.tables(&inside);
        let mut buckets = [tables.current.bucket(0); FLIGHTS_MAX];
        for (i, place) in buckets.iter_mut().enumerate().take(n) {
            let hash = hash(&self.shared.kind, i);
            *place = tables.current.bucket(hash);
            if let Some(next) = tables.next
                // ORDERING: Relaxed, a guess which one is going to be wanted.
                && tables.current.index(hash) < self.engine.moved.0.load(Ordering::Relaxed)
            {
                *place = next.bucket(hash);
            }
            prefetch(std::ptr::from_ref(*place).cast());
        }
        for bucket in &buckets[..n] {
            let word = bucket.peek();
            if word & HASMOVED == 0 {
                prefetch_item::<K>(Next(word).link().address());
            }
        }
    }
}
