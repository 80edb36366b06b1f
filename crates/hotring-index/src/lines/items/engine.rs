//! Implements [`Engine`] and its companion traits for lines of items.

use super::stash::STASHED_BYTES;
use super::{ItemLines, handle};
use crate::core::config::{Config, ConfigError};
use crate::core::hooks::{Step, sometimes};
use crate::core::item::{Item, Kind};
use crate::core::stats::EngineStats;
use crate::core::sync::Ordering;
use crate::engine::{Engine, FastPath, Found, Hit, Hotspots, KeyGoal, Sizing};
use crate::lines::lane::{Best, Form, by_form};
use crate::lines::relocate;
use crate::session::Pinned;

/// One access in this many is counted, on average.
const SAMPLED: u32 = 64;

/// Chunks of homes that are moved in one step: some 50 microseconds.
const CHUNKS_A_STEP: u64 = if cfg!(loom) { 1 } else { 16 };

// SAFETY: the module's header proves the requirements of `Engine`.
unsafe impl Engine for ItemLines {
    const NAME: &'static str = "lines";
    type Local = ();
    type Bucket = ();
    type Position<'s> = ();
    type Reservation = ();

    fn new(config: &Config) -> Result<Self, ConfigError> {
        Self::build(config)
    }

    fn local(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    #[inline(always)]
    fn bucket<K: Kind>(_p: &mut Pinned<'_, K, Self>, _hash: u64) {}

    #[inline(always)]
    fn lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        let (hit, visits) = Self::look_up(p, goal);
        Self::note(p, goal.hash, hit, visits);
        hit
    }

    #[inline(always)]
    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
    ) -> Found<()> {
        Found { hit: Self::look_up(p, goal).0, position: () }
    }

    fn link<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        _found: &Found<()>,
        item: Item,
        _reservation: &mut (),
    ) -> bool {
        let is_stashed = by_form!(p.engine.form, S => {
            Self::insert::<S, K>(p, goal, item).map(|placed| placed.is_stash())
        });
        let Some(is_stashed) = is_stashed else {
            sometimes!(LinkLost);
            return false;
        };
        p.count_in(item);
        Self::after_insert(p, is_stashed);
        true
    }

    fn replace<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _bucket: (),
        old: Hit,
        copy: Item,
        _found: Option<&Found<()>>,
    ) -> bool {
        Self::make_live(copy);
        let (item, new) = (old.item, Some(copy));
        let replaced = by_form!(p.engine.form, S => Self::change::<S, K>(p, goal.hash, item, new, Step::ReplaceLost));
        if replaced {
            p.count_replaced(old.item, copy);
            p.retire(old.item);
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
        let (item, hash) = (hit.item, p.shared.kind.item_hash(hit.item));
        let killed =
            by_form!(p.engine.form, S => Self::change::<S, K>(p, hash, item, None, Step::KillLost));
        if killed {
            p.count_out(item);
            p.retire(item);
            Self::after_removal(p);
        }
        killed
    }

    fn stats(&self) -> EngineStats {
        // ORDERING: Relaxed, statistics.
        let number = |count: &crate::core::sync::TallyU64| count.load(Ordering::Relaxed);
        EngineStats::new(vec![
            ("growths", number(&self.growths)),
            ("shrinks", number(&self.shrinks)),
            ("homes_moved", number(&self.homes_moved)),
            ("stashed", number(&self.stashed)),
        ])
    }

    fn drain<K: Kind>(&self, mut f: impl FnMut(Item)) {
        let mut table = Some(self.table());
        while let Some(now) = table {
            by_form!(self.form, S => now.each_value::<S>(|value| {
                // SAFETY: P: no session is left, and each item is in one lane.
                f(unsafe { handle::item(value) });
            }));
            table = now.next();
        }
    }
}

impl Sizing for ItemLines {
    #[inline(always)]
    fn is_busy(&self) -> bool {
        // ORDERING: Relaxed, advice.
        self.pending.load(Ordering::Relaxed) != 0
    }

    fn step<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        for _ in 0..CHUNKS_A_STEP {
            if !Self::move_some(p) && !Self::free_left(p) {
                return;
            }
        }
    }

    fn growth_step<K: Kind>(p: &mut Pinned<'_, K, Self>, count: u64) -> bool {
        let chunks = count.div_ceil(super::sweep::CHUNK);
        (0..chunks).map(|_| Self::move_some(p)).fold(false, |any, moved| any | moved)
    }

    fn is_small_for(&self, items: u64) -> bool {
        self.is_full_with(items)
    }

    /// Only begins to grow the table; later steps move the homes.
    fn grow<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        let lines = p.engine.lines() * 2;
        Self::begin(p, lines)
    }

    fn shrink<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        let lines = p.engine.lines() / 2;
        Self::begin(p, lines)
    }

    fn slots(&self) -> u64 {
        self.lines()
    }

    fn table_bytes(&self) -> u64 {
        // ORDERING: Relaxed, reports.
        let stashed = self.in_stash.load(Ordering::Relaxed) * STASHED_BYTES;
        // ORDERING: Relaxed, as above.
        self.bytes.load(Ordering::Relaxed) + stashed
    }
}

impl Hotspots for ItemLines {
    #[inline(always)]
    fn accessed<K: Kind>(p: &mut Pinned<'_, K, Self>, hash: u64, hit: Option<Hit>, visits: u32) {
        Self::note(p, hash, hit, visits);
    }
}

impl FastPath for ItemLines {}

impl ItemLines {
    /// The best form is compiled into the caller's code, the others are not.
    #[inline(always)]
    fn look_up<K: Kind>(p: &Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> (Option<Hit>, u32) {
        if p.engine.form == Form::BEST {
            return Self::search::<Best, K>(p, goal);
        }
        Self::look_up_otherwise(p, goal)
    }

    #[inline(never)]
    fn look_up_otherwise<K: Kind>(
        p: &Pinned<'_, K, Self>,
        goal: KeyGoal<'_, K>,
    ) -> (Option<Hit>, u32) {
        by_form!(p.engine.form, S => Self::search::<S, K>(p, goal))
    }

    /// Counts an access if it is one of the sample, and notes it in the item's lane.
    #[inline(always)]
    fn note<K: Kind>(p: &mut Pinned<'_, K, Self>, hash: u64, hit: Option<Hit>, visits: u32) {
        p.local.countdown -= 1;
        if p.local.countdown == 0 {
            Self::count(p, visits);
            if let Some(hit) = hit {
                Self::warm(p, hash, hit.item);
            }
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

    /// Makes an item warmer; moves it into its home line if it is hot.
    #[cold]
    #[inline(never)]
    fn warm<K: Kind>(p: &Pinned<'_, K, Self>, hash: u64, item: Item) {
        let (table, value) = (p.engine.table(), handle::of(item));
        let home = table.shape.home(hash.reverse_bits());
        by_form!(p.engine.form, S => relocate::warm::<S, _>(table, home.index, |reach| {
            table.shape.find::<S>(home, reach, |other| other == value)
        }));
    }
}
