//! G-Cuckoo as an engine: which of its steps is which of [`Engine`]'s.

use super::place::{Places, tag_of};
use super::tables::slots;
use super::{GCuckoo, Local};
use crate::config::{Config, ConfigError};
use crate::engine::{Engine, Found, Hit, KeyGoal, sealed};
use crate::item::{Item, Kind};
use crate::prefetch::{prefetch, prefetch_item};
use crate::session::Pinned;
use crate::stats::EngineStats;

/// Keys of a batch that are on their way together.
const CHUNK: usize = 64;

impl<const S: usize> sealed::Engine for GCuckoo<S> {}

impl<const S: usize> Engine for GCuckoo<S> {
    const NAME: &'static str = "gcuckoo";
    type Local = Local;
    type Bucket = ();
    type Place<'s> = ();
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
        p.lookup(goal)
    }

    #[inline(always)]
    fn probe<K: Kind>(p: &Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        p.glance(goal)
    }

    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
    ) -> Found<()> {
        let found = p.seek(goal, &mut 0);
        Found { hit: found.map(|(hit, ..)| hit), place: () }
    }

    fn link<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        _found: &Found<()>,
        item: Item,
        _reservation: &mut (),
    ) -> bool {
        p.link_item(goal, item)
    }

    fn replace<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        old: Hit,
        copy: Item,
        _found: Option<&Found<()>>,
    ) -> bool {
        p.replace_item(goal.hash, old.item, copy)
    }

    fn kill<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        found: &Found<()>,
    ) -> bool {
        let hit = found.hit.expect("the caller has found an item");
        p.kill_item(goal.hash, hit.item)
    }

    fn kill_at<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool {
        let hash = p.shared.kind.item_hash(hit.item);
        p.kill_item(hash, hit.item)
    }

    #[inline(always)]
    fn accessed<K: Kind>(p: &mut Pinned<'_, K, Self>, _hash: u64, _hit: Option<Hit>, visits: u32) {
        p.note_access(visits);
    }

    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        cursor: u64,
        count: usize,
        f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize) {
        p.scan(cursor, count, f)
    }

    fn pipeline<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
        mut land: impl FnMut(usize, Option<Hit>),
    ) where
        K::Key: 'k,
    {
        let depth = p.shared.config.pipeline_depth;
        for start in (0..n).step_by(depth) {
            let end = (start + depth).min(n);
            p.prefetch_all(end - start, |kind, i| goal(kind, start + i));
            for i in start..end {
                let goal = goal(&p.shared.kind, i);
                let hit = p.lookup(goal);
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
        p.prefetch_all(n, goal);
    }

    fn is_busy(&self) -> bool {
        self.directory.is_busy()
    }

    fn step<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        p.engine.directory.free(|tag| p.shared.collector.is_over(tag));
    }

    fn grow<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        p.split_all()
    }

    fn slots(&self) -> u64 {
        let mut slots = 0;
        self.directory.for_each(|page| slots += page.slots() as u64);
        slots
    }

    fn table_bytes(&self) -> u64 {
        self.directory.bytes()
    }

    fn stats(&self) -> EngineStats {
        EngineStats::GCuckoo(self.sum())
    }

    fn drain<K: Kind>(&self, mut f: impl FnMut(Item)) {
        self.directory.for_each(|page| {
            for word in page.words() {
                // SAFETY: P: in the table (V1), and nobody is left to take it out.
                f(unsafe { Item::at(word.address()) });
            }
        });
    }
}

impl<K: Kind, const S: usize> Pinned<'_, K, GCuckoo<S>> {
    /// Brings both buckets of up to 64 keys into the cache, then what seem to be their items.
    fn prefetch_all<'k>(&self, n: usize, goal: impl Fn(&K, usize) -> KeyGoal<'k, K>)
    where
        K::Key: 'k,
    {
        let mut known = [(0u64, Places { one: 0, two: 0 }); CHUNK];
        for (i, known) in known[..n].iter_mut().enumerate() {
            let hash = goal(&self.shared.kind, i).hash;
            let page = self.page(hash);
            *known = (hash, page.places(hash));
            for bucket in [known.1.one, known.1.two] {
                prefetch(std::ptr::from_ref(page.slot(bucket * S as u32)).cast());
            }
        }
        for &(hash, at) in &known[..n] {
            let page = self.page(hash);
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
