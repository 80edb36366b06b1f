//! Implements [`Engine`] and its companion traits for Chaining Hash.

use crate::chaining::Chaining;
use crate::chaining::grow::splits_an_insert;
use crate::chaining::search::Position;
use crate::chaining::table::{BUCKET, Table};
use crate::chaining::word::address;
use hotring_index::sync::{Ordering, TallyU64};
use hotring_index::toolkit::EngineStats;
use hotring_index::toolkit::Pinned;
use hotring_index::toolkit::{Engine, FastPath, Found, Hit, Hotspots, KeyGoal, Sizing};
use hotring_index::toolkit::{Item, Kind};
use hotring_index::{Config, ConfigError, Growth};

/// The default load: one bucket per item, or as many bytes per item as HotRing's slots of 64 bytes have at
/// 8 items per slot.
const BYTES_PER_KEY_DEFAULT: f64 = 8.0;

// SAFETY: the module's header proves the requirements of `Engine`.
unsafe impl Engine for Chaining {
    const NAME: &'static str = "chaining";
    type Local = ();
    /// The hash itself: a writer that finds its bucket split must look for the bucket again.
    type Bucket = u64;
    type Position<'s> = Position<'s>;
    type Reservation = ();

    fn new(config: &Config) -> Result<Self, ConfigError> {
        config.engine.refuse()?;
        let bytes_per_key = match config.growth {
            None => BYTES_PER_KEY_DEFAULT,
            Some(Growth::BytesPerKey(bytes)) => bytes,
            Some(Growth::Fixed) => 0.0,
            Some(Growth::Auto { .. }) => {
                return Err(ConfigError::Unsupported(
                    "a table of chains grows by its load alone, and does not shrink: use \
                     Growth::BytesPerKey in the place of Growth::Auto",
                ));
            }
        };
        Ok(Self {
            table: Table::new(config)?,
            bytes_per_key,
            splits_an_insert: splits_an_insert(bytes_per_key),
            items_copied: TallyU64::new(0),
        })
    }

    fn local(&self) -> Result<(), ConfigError> {
        Ok(())
    }

    #[inline(always)]
    fn bucket<K: Kind>(_p: &mut Pinned<'_, K, Self>, hash: u64) -> u64 {
        hash
    }

    #[inline(always)]
    fn lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit> {
        Self::read_item(p, goal)
    }

    #[inline(always)]
    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _hash: u64,
    ) -> Found<Position<'s>> {
        Self::find_item(p, goal)
    }

    #[inline(always)]
    fn link<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        _goal: KeyGoal<'_, K>,
        _hash: u64,
        found: &Found<Position<'s>>,
        item: Item,
        _reservation: &mut (),
    ) -> bool {
        Self::link_item(p, found, item)
    }

    #[inline(always)]
    fn replace<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        _hash: u64,
        old: Hit,
        copy: Item,
        found: Option<&Found<Position<'s>>>,
    ) -> bool {
        Self::replace_item(p, goal.hash, old, copy, found)
    }

    fn kill<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        _goal: KeyGoal<'_, K>,
        _hash: u64,
        found: &Found<Position<'s>>,
    ) -> bool {
        Self::kill_found(p, found)
    }

    fn kill_at<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool {
        Self::kill_item(p, hit)
    }

    fn stats(&self) -> EngineStats {
        let (doublings, buckets_split) = self.table.history();
        // ORDERING: Relaxed, statistics.
        let items_copied = self.items_copied.load(Ordering::Relaxed);
        EngineStats::new(vec![
            ("doublings", doublings),
            ("buckets_split", buckets_split),
            ("items_copied", items_copied),
        ])
    }

    fn drain<K: Kind>(&self, mut f: impl FnMut(Item)) {
        for index in 0..self.slots() {
            let mut at = self.table.head(index).first();
            while at != 0 {
                // SAFETY: P: in a chain, and freed only here, after this.
                let item = unsafe { Item::at(at) };
                // ORDERING: Relaxed, no other thread is left.
                at = address(item.next().load(Ordering::Relaxed));
                f(item);
            }
        }
    }
}

impl Sizing for Chaining {
    #[inline(always)]
    fn is_busy(&self) -> bool {
        self.table.is_growing()
    }

    fn step<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        Self::step_growth(p);
    }

    fn grow<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        let mask = p.engine.table.mask();
        Self::double(p, mask)
    }

    fn is_small_for(&self, items: u64) -> bool {
        let load = items as f64 / self.slots() as f64;
        load * self.bytes_per_key > BUCKET as f64
    }

    fn slots(&self) -> u64 {
        self.table.mask() + 1
    }

    fn table_bytes(&self) -> u64 {
        self.slots() * BUCKET as u64
    }
}

impl Hotspots for Chaining {
    #[inline(always)]
    fn accessed<K: Kind>(p: &mut Pinned<'_, K, Self>, _hash: u64, _hit: Option<Hit>, visits: u32) {
        Self::access(p, visits);
    }
}

impl FastPath for Chaining {}
