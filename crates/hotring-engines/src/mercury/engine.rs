//! Implements [`Engine`] and its companion traits for Mercury: each step runs under the lock of one
//! bucket.

use crate::mercury::chain::{Held, Items, Spot};
use crate::mercury::expand::Mover;
use crate::mercury::locking::{HASMOVED, Locking};
use crate::mercury::table::Table;
use crate::mercury::workers::Worker;
use crate::mercury::{Mercury, Tables};
use hotring_index::sync::Ordering;
use hotring_index::toolkit::EngineStats;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Batch, Engine, FastPath, Found, Hit, Hotspots, KeyGoal, Sizing};
use hotring_index::toolkit::{Item, Kind};
use hotring_index::toolkit::{prefetch, prefetch_item};
use hotring_index::word::Next;
use hotring_index::{Config, ConfigError};
use hotring_index::{sometimes, wrong};

/// One lookup in this many is counted, on average.
const SAMPLED: u32 = 64;
/// The most lookups that can be in flight.
const IN_FLIGHT_MAX: usize = 64;

// SAFETY: the module's header proves the requirements of `Engine`.
unsafe impl<L: Locking> Engine for Mercury<L> {
    const NAME: &'static str = "mercury";
    /// As in the paper, section 3, "Memory allocator".
    const PRIVATE_CHUNKS: bool = true;
    type Local = Worker<L>;
    type Bucket = ();
    type Position<'s> = ();
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
        let (hit, visits) = Self::search(p, goal);
        Self::note(p, visits);
        hit
    }

    #[inline(always)]
    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
    ) -> Found<()> {
        Found { hit: Self::search(p, goal).0, position: () }
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
        let linked = Self::with_bucket(p, goal.hash, |held| {
            let is_absent = held.search(|other| kind.is(other, goal.hash, goal.key)).0.is_none();
            if is_absent {
                held.push(item);
            }
            is_absent
        });
        if linked {
            p.count_in(item);
            Self::expand_if_due(p);
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
        let replaced =
            Self::change_item(p, goal.hash, old.item, |held, spot| held.replace(spot, copy));
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
        Self::kill_at(p, found.hit.expect("the item to be killed was found"))
    }

    fn kill_at<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool {
        let hash = p.shared.kind.item_hash(hit.item);
        let killed = Self::change_item(p, hash, hit.item, |held, spot| held.remove(spot));
        if killed {
            p.count_out(hit.item);
            p.retire(hit.item);
        } else {
            sometimes!(KillLost);
        }
        killed
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

impl<L: Locking> Sizing for Mercury<L> {
    fn is_busy(&self) -> bool {
        self.expansion.waits_for_sessions()
    }

    fn step<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        if let Some(mut mover) = Mover::take(p.shared) {
            mover.step();
        }
    }

    /// Only begins to grow the table; later steps move the buckets.
    fn grow<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        Mover::take(p.shared).is_some_and(|mut mover| mover.begin())
    }

    fn slots(&self) -> u64 {
        self.expansion.len()
    }

    fn table_bytes(&self) -> u64 {
        self.expansion.table_bytes()
    }
}

impl<L: Locking> Hotspots for Mercury<L> {
    #[inline(always)]
    fn accessed<K: Kind>(p: &mut Pinned<'_, K, Self>, _hash: u64, _hit: Option<Hit>, visits: u32) {
        Self::note(p, visits);
    }
}

impl<L: Locking> FastPath for Mercury<L> {}

impl<L: Locking> Mercury<L> {
    /// Calls `f` with the locked bucket of a hash. `f` must call nothing but operations of the bucket and
    /// of the item kind.
    #[inline(always)]
    fn with_bucket<K: Kind, R>(
        p: &Pinned<'_, K, Self>,
        hash: u64,
        f: impl FnOnce(&mut Held<'_, L>) -> R,
    ) -> R {
        let inside = p.local.engine.enter();
        f(&mut Self::hold(p, p.engine.tables(&inside), hash).0)
    }

    /// Calls `change` with an item's position in its locked bucket. False: the item is no longer
    /// there.
    fn change_item<K: Kind>(
        p: &Pinned<'_, K, Self>,
        hash: u64,
        item: Item,
        change: impl FnOnce(&mut Held<'_, L>, &Spot),
    ) -> bool {
        Self::with_bucket(p, hash, |held| {
            let spot = held.search(|other| other == item).0;
            if let Some(spot) = &spot {
                change(held, spot);
            }
            spot.is_some()
        })
    }

    /// The bucket that a hash belongs to (M2), locked, and its table.
    #[inline(always)]
    pub(crate) fn hold<'w, K: Kind>(
        p: &Pinned<'_, K, Self>,
        tables: Tables<'w, L>,
        hash: u64,
    ) -> (Held<'w, L>, &'w Table<L>) {
        let Tables { current, next } = tables;
        let held =
            |table: &'w Table<L>| (Held::lock(table.bucket(hash), &p.engine.lock_waits), table);
        let Some(next) = next else { return held(current) };
        // ORDERING: Acquire pairs with the Release in `Mover::move_some` (M4).
        if current.index(hash) < p.engine.moved.0.load(Ordering::Acquire) {
            return held(next);
        }
        let old = held(current);
        if !old.0.has_moved() || wrong!(p, MovedUnseen) {
            return old;
        }
        sometimes!(MovedMeanwhile);
        drop(old);
        held(next)
    }

    #[inline(always)]
    fn search<K: Kind>(p: &Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> (Option<Hit>, u32) {
        let kind = &p.shared.kind;
        let (spot, visits) = Self::with_bucket(p, goal.hash, |held| {
            held.search(|item| kind.is(item, goal.hash, goal.key))
        });
        (spot.map(|spot| spot.hit), visits)
    }

    /// Counts a lookup if it is one of the sample.
    #[inline(always)]
    fn note<K: Kind>(p: &mut Pinned<'_, K, Self>, visits: u32) {
        p.local.countdown -= 1;
        if p.local.countdown == 0 {
            Self::count(p, visits);
        }
    }

    #[cold]
    #[inline(never)]
    fn count<K: Kind>(p: &mut Pinned<'_, K, Self>, visits: u32) {
        // At random: a fixed period can fall in step with accesses that repeat.
        p.local.countdown = SAMPLED / 2 + (p.local.random() % u64::from(SAMPLED)) as u32;
        p.local.participant.count_accesses(p.engine.is_busy(), SAMPLED);
        p.record().lookups.add(1);
        p.record().visits.add(i64::from(visits));
    }
}

impl<L: Locking> Batch for Mercury<L> {
    /// Prefetches the buckets, then the first item of each.
    fn warm<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
    ) where
        K::Key: 'k,
    {
        debug_assert!(n <= IN_FLIGHT_MAX, "no more fit into the nearest cache");
        let inside = p.local.engine.enter();
        let tables = p.engine.tables(&inside);
        let mut buckets = [tables.current.bucket(0); IN_FLIGHT_MAX];
        for (i, bucket) in buckets.iter_mut().enumerate().take(n) {
            let hash = goal(&p.shared.kind, i).hash;
            *bucket = tables.current.bucket(hash);
            if let Some(next) = tables.next
                // ORDERING: Relaxed, a guess at the table that the lookup will need.
                && tables.current.index(hash) < p.engine.moved.0.load(Ordering::Relaxed)
            {
                *bucket = next.bucket(hash);
            }
            prefetch(std::ptr::from_ref(*bucket).cast());
        }
        for bucket in &buckets[..n] {
            let word = bucket.peek();
            if word & HASMOVED == 0 {
                prefetch_item::<K>(Next(word).link().address());
            }
        }
    }
}
