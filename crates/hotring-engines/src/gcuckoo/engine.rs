//! Implements [`Engine`] and its companion traits for G-Cuckoo.

use super::bucket_pair::{BucketPair, tag_of};
use super::tables::slots;
use super::{GCuckoo, Local};
use hotring_index::toolkit::EngineStats;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Batch, Engine, FastPath, Found, Hit, Hotspots, KeyGoal, Sizing};
use hotring_index::toolkit::{Item, Kind};
use hotring_index::toolkit::{prefetch, prefetch_item};
use hotring_index::{Config, ConfigError};

/// The most keys of a batch that are in flight together.
const CHUNK: usize = 64;

// SAFETY: the module's header proves the requirements of `Engine`.
unsafe impl<const S: usize> Engine for GCuckoo<S> {
    const NAME: &'static str = "gcuckoo";
    type Local = Local;
    type Bucket = ();
    type Position<'s> = ();
    type Reservation = ();

    fn new(config: &Config) -> Result<Self, ConfigError> {
        Self::build(config)
    }

    fn local(&self) -> Result<Local, ConfigError> {
        Ok(self.new_local())
    }

    #[inline(always)]
    fn bucket<K: Kind>(_p: &mut Pinned<'_, K, Self>, _hash: u64) {}

    #[inline(always)]
    fn lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        Self::read_item(p, goal)
    }

    #[inline(always)]
    fn probe<K: Kind>(p: &Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        Self::probe_item(p, goal)
    }

    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
    ) -> Found<()> {
        let found = Self::seek(p, goal, &mut 0);
        Found { hit: found.map(|(hit, ..)| hit), position: () }
    }

    fn link<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        _found: &Found<()>,
        item: Item,
        _reservation: &mut (),
    ) -> bool {
        Self::link_item(p, goal, item)
    }

    fn replace<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        old: Hit,
        copy: Item,
        _found: Option<&Found<()>>,
    ) -> bool {
        Self::replace_item(p, goal.hash, old.item, copy)
    }

    fn kill<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        found: &Found<()>,
    ) -> bool {
        let hit = found.hit.expect("the caller has found an item");
        Self::kill_item(p, goal.hash, hit.item)
    }

    fn kill_at<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool {
        let hash = p.shared.kind.item_hash(hit.item);
        Self::kill_item(p, hash, hit.item)
    }

    fn stats(&self) -> EngineStats {
        EngineStats::new(self.sum().fields())
    }

    fn drain<K: Kind>(&self, mut f: impl FnMut(Item)) {
        self.directory.for_each(|page| {
            for word in page.words() {
                // SAFETY: P: in the table (V1), and no session is left to take it out.
                f(unsafe { Item::at(word.address()) });
            }
        });
    }
}

impl<const S: usize> Sizing for GCuckoo<S> {
    fn is_busy(&self) -> bool {
        self.directory.is_busy()
    }

    fn step<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        p.engine.directory.free(|tag| p.shared.collector.is_over(tag));
    }

    fn grow<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        Self::split_all(p)
    }

    fn slots(&self) -> u64 {
        let mut slots = 0;
        self.directory.for_each(|page| slots += page.slots() as u64);
        slots
    }

    fn table_bytes(&self) -> u64 {
        self.directory.bytes()
    }
}

impl<const S: usize> Hotspots for GCuckoo<S> {
    #[inline(always)]
    fn accessed<K: Kind>(p: &mut Pinned<'_, K, Self>, _hash: u64, _hit: Option<Hit>, visits: u32) {
        Self::note_access(p, visits);
    }
}

impl<const S: usize> FastPath for GCuckoo<S> {}

impl<const S: usize> Batch for GCuckoo<S> {
    /// Prefetches both buckets of each key, then the items with its tag.
    fn warm<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
    ) where
        K::Key: 'k,
    {
        let mut found = [(0u64, BucketPair { one: 0, two: 0 }); CHUNK];
        for (i, found) in found[..n].iter_mut().enumerate() {
            let hash = goal(&p.shared.kind, i).hash;
            let page = Self::page(p, hash);
            *found = (hash, page.buckets_of(hash));
            for bucket in [found.1.one, found.1.two] {
                prefetch(std::ptr::from_ref(page.slot(bucket * S as u32)).cast());
            }
        }
        for &(hash, at) in &found[..n] {
            let page = Self::page(p, hash);
            let tag = tag_of(hash, page.depth);
            for slot in [at.one, at.two].into_iter().flat_map(slots::<S>) {
                let word = page.load(slot);
                if word.tag() == tag {
                    prefetch_item::<K>(word.address());
                }
            }
        }
    }
}
