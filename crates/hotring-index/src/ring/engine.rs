//! The implementation of [`Engine`] for the ring: it maps each function of the trait to a step of the ring.

use crate::core::config::{Config, ConfigError, Growth};
use crate::core::item::{Item, Kind};
use crate::core::stats::EngineStats;
use crate::core::sync::{AtomicU64, Ordering, TallyI64, TallyU64};
use crate::core::word::{Hint, Link, Next, UNLINKED};
use crate::engine::{self, Engine, FastLookup, FastPath, Found, Hit, Hotspots, KeyGoal, Sizing};
use crate::ring::grow::Seen;
use crate::ring::lazy::Laziness;
use crate::ring::shrink::Resizing;
use crate::ring::split::EagerWork;
use crate::ring::table::{Slot, Table};
use crate::ring::write::Reservation;
use crate::ring::{Ring, search};
use crate::session::Pinned;

/// The ring's state in a session.
#[derive(Default)]
pub struct OfSession {
    pub(super) lazy: Laziness,
    pub(super) seen: Seen,
}

// SAFETY: `ring/mod.rs` proves P3, P4, and that each item is retired once.
unsafe impl<const H: usize> Engine for Ring<H> {
    const NAME: &'static str = "hotring";
    type Local = OfSession;
    type Bucket = u64;
    type Position<'s> = search::Found<'s>;
    type Reservation = Reservation;

    fn new(config: &Config) -> Result<Self, ConfigError> {
        config.engine.refuse()?;
        config.check_ring(H)?;
        let table = Table::new(config)?;
        // ORDERING: Relaxed, no other session sees the table yet. The empty ring is anchor 0 alone.
        table.slot(0).anchor.store(Link::END.address(), Ordering::Relaxed);
        Ok(Self {
            eager: EagerWork::new(table.mask() + 1),
            table,
            growth: config.growth_for(H),
            completes: config.completes(H),
            resizing: Resizing::new(),
            splits: TallyU64::new(1),
            lookups_before: TallyI64::new(0),
            visits_before: TallyI64::new(0),
        })
    }

    fn local(&self) -> Result<OfSession, ConfigError> {
        Ok(OfSession::default())
    }

    #[inline(always)]
    fn bucket<K: Kind>(p: &mut Pinned<'_, K, Self>, hash: u64) -> u64 {
        p.bucket(hash)
    }

    #[inline(always)]
    fn lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        p.lookup(goal)
    }

    #[inline(always)]
    fn probe<K: Kind>(p: &Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        p.probe(goal)
    }

    #[inline(always)]
    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: u64,
    ) -> Found<search::Found<'s>> {
        // A walk waits for one item after the other, and most of them are hinted. With one hint it begins there.
        if H > 1 {
            p.prefetch_hinted(bucket);
        }
        let position = p.find(&goal, bucket);
        let hit = position.exact.then(|| Hit { item: p.item(position.at), word: position.word });
        Found { hit, position }
    }

    #[inline(always)]
    fn link<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: u64,
        found: &Found<search::Found<'s>>,
        item: Item,
        reservation: &mut Reservation,
    ) -> bool {
        p.link(&goal, bucket, &found.position, item, reservation)
    }

    #[inline(always)]
    fn replace<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: u64,
        old: Hit,
        copy: Item,
        found: Option<&Found<search::Found<'s>>>,
    ) -> bool {
        let position = found.map(|found| &found.position);
        p.replace(&goal, bucket, old, copy, position)
    }

    fn kill<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: u64,
        found: &Found<search::Found<'s>>,
    ) -> bool {
        p.kill(&goal, bucket, &found.position)
    }

    fn kill_at<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool {
        p.kill_at(hit)
    }

    fn catch_up<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        p.unlink_queued();
    }

    fn stats(&self) -> EngineStats {
        // ORDERING: Relaxed, statistics.
        let slots_split = self.splits.load(Ordering::Relaxed);
        EngineStats::new(vec![("slots_split", slots_split)])
    }

    /// Passes the items in the chain, and the unlinked items that only a hint still holds.
    fn drain<K: Kind>(&self, mut f: impl FnMut(Item)) {
        for anchor in self.chain().filter(|link| link.is_anchor()) {
            for hint in &self.table.slot(anchor.slot()).hints {
                // ORDERING: Relaxed, no other thread is left.
                let address = Hint(hint.load(Ordering::Relaxed)).address();
                if address == 0 {
                    continue;
                }
                // SAFETY: P: a hinted item is not freed before its hint is cleared (I4).
                let item = unsafe { Item::at(address) };
                // ORDERING: Relaxed, as above.
                if Next(item.next().load(Ordering::Relaxed)).is(UNLINKED) {
                    f(item);
                }
            }
        }
        for link in self.chain().filter(|link| !link.is_anchor()) {
            // SAFETY: P: in the chain, and freed only here.
            f(unsafe { Item::at(link.address()) });
        }
    }
}

impl<const H: usize> Sizing for Ring<H> {
    fn is_busy(&self) -> bool {
        self.resizing.is_busy()
    }

    fn step<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        p.step_resizing();
    }

    fn growth_step<K: Kind>(p: &mut Pinned<'_, K, Self>, count: u64) -> bool {
        p.growth_step(count)
    }

    fn grow<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        let mask = p.engine.table.mask();
        p.double(mask)
    }

    fn shrink<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        p.begin_halving()
    }

    fn is_small_for(&self, items: u64) -> bool {
        let load = items as f64 / self.slots() as f64;
        match self.growth {
            Growth::Fixed => false,
            Growth::Auto { items_max, .. } => load > items_max,
            Growth::BytesPerKey(bytes) => load * bytes > size_of::<Slot<H>>() as f64,
        }
    }

    fn slots(&self) -> u64 {
        self.table.mask() + 1
    }

    fn table_bytes(&self) -> u64 {
        self.slots() * (8 + 8 * H as u64)
    }
}

impl<const H: usize> Hotspots for Ring<H> {
    #[inline(always)]
    fn accessed<K: Kind>(p: &mut Pinned<'_, K, Self>, hash: u64, hit: Option<Hit>, visits: u32) {
        p.access(hash, hit, visits);
    }

    fn rewritten<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        copy: Item,
        found: Option<&Found<<Self as Engine>::Position<'s>>>,
    ) {
        p.access_rcu(copy, found.map_or(Link::END, |found| found.position.pred_link));
    }

    fn is_hot<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool {
        p.is_hot(hit)
    }
}

impl<const H: usize> FastPath for Ring<H> {
    // Checkers run without the fast path, so that each lookup has only one code path.
    const HAS_FAST_PATH: bool = H > 1 && !cfg!(any(loom, shuttle));

    #[inline(always)]
    fn fast_lookup<K: Kind>(p: &Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> FastLookup {
        p.fast_lookup(goal)
    }

    #[inline(always)]
    fn slow_lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        p.slow_lookup(goal)
    }
}

impl<const H: usize> engine::Reservation<Ring<H>> for Reservation {
    #[inline(always)]
    fn give_back<K: Kind>(self, p: &mut Pinned<'_, K, Ring<H>>, bucket: u64) {
        p.unreserve(bucket, self);
    }
}

impl<const H: usize> Ring<H> {
    /// The links of the chain from anchor 0 on. Only while no other thread uses the index.
    fn chain(&self) -> impl Iterator<Item = Link> {
        let mut at = Link::anchor(0);
        std::iter::from_fn(move || {
            let next = if at.is_anchor() {
                &self.table.slot(at.slot()).anchor
            } else {
                // SAFETY: P: an item is freed only after the walk has passed it.
                unsafe { Item::at(at.address()) }.next()
            };
            let here = at;
            // ORDERING: Relaxed, no other thread is left.
            at = Next(next.load(Ordering::Relaxed)).link();
            Some((here, at))
        })
        .scan(false, |ended, (here, next)| {
            let last = std::mem::replace(ended, next == Link::END);
            (!last).then_some(here)
        })
    }
}

impl<'s, K: Kind, const H: usize> Pinned<'s, K, Ring<H>> {
    /// The `next` word behind a link.
    #[inline(always)]
    pub(crate) fn next(&self, link: Link) -> &'s AtomicU64 {
        if link.is_anchor() {
            &self.engine.table.slot(link.slot()).anchor
        } else {
            self.item(link).next()
        }
    }

    #[inline(always)]
    pub(crate) fn item(&self, link: Link) -> Item {
        debug_assert!(!link.is_anchor());
        #[cfg(any(loom, shuttle))]
        assert!(link.address() != 0, "a walk leads into a slot that is not in use");
        // SAFETY: P: the link was read from a node of a walk under this pin (P1, P3).
        let item = unsafe { Item::at(link.address()) };
        item.lifetime().check_access(self.local.participant.pinned_at());
        item
    }

    /// The item of a hint word that was loaded under this pin.
    #[inline(always)]
    pub(crate) fn hinted(&self, hint: Hint) -> Option<Item> {
        if hint.address() == 0 {
            return None;
        }
        // SAFETY: P: the item of a hint word is claimed, hence not freed under our pin (P4).
        let item = unsafe { Item::at(hint.address()) };
        item.lifetime().check_access(self.local.participant.pinned_at());
        Some(item)
    }
}
