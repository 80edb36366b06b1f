//! The engine trait: an engine finds, inserts, replaces and deletes items.
//!
//! All engines share everything else: the operations on values, expiries and versions (`bytes/`, `u64s/`)
//! and the allocation and reclamation of items (`core/`). A benchmark of two engines therefore compares
//! only their index structures.

use crate::core::config::{Config, ConfigError};
use crate::core::item::{Item, Kind};
use crate::core::stats::EngineStats;
use crate::core::word::{Next, ring_cmp};
use crate::session::Pinned;
use std::cmp;

/// A session checks the table's load once per this many inserts and removals. All engines use the same
/// number, so that their tables grow at the same points.
pub const RESIZE_INTERVAL: u32 = 64;

/// The key of a search, and its hash.
pub struct KeyGoal<'k, K: Kind> {
    /// The hash.
    pub hash: u64,
    /// The key.
    pub key: &'k K::Key,
}

impl<K: Kind> Clone for KeyGoal<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K: Kind> Copy for KeyGoal<'_, K> {}

impl<K: Kind> KeyGoal<'_, K> {
    /// Compares the item with the goal, by bit-reversed hash, then by key.
    #[inline(always)]
    pub(crate) fn order_of(&self, kind: &K, item: Item) -> cmp::Ordering {
        ring_cmp(kind.item_hash(item), self.hash).then_with(|| kind.key_cmp(item, self.key))
    }
}

/// A live item that was found, and its `next` word at that moment.
#[derive(Clone, Copy)]
pub struct Hit {
    /// The item.
    pub item: Item,
    /// The item's `next` word.
    pub word: Next,
}

/// The result of a writer's search: the key's live item, if any, and the position where the search ended.
pub struct Found<P> {
    /// The key's live item, if any.
    pub hit: Option<Hit>,
    /// The position where the search ended.
    pub position: P,
}

/// An index structure: [`Ring`](crate::Ring), or an engine of the crate `hotring-engines`.
///
/// # Guarantees of every engine
///
/// * Each operation on one key is linearizable, including a lookup that finds no item.
/// * An item that a session has found stays readable until its operation ends. The operation's closure
///   may take long and may use other sessions, so an engine must not hold a lock while the closure runs.
/// * The memory of a removed or replaced item is reused once no session can see it, within the limits of
///   [`Config::limbo_max`].
/// * A scan visits a key exactly once if the key is present during the entire scan, even while the table
///   grows.
/// * No choice of keys makes an operation fail or run forever; at worst the operation is slow. Choosing
///   colliding keys (of byte strings) requires the seed.
/// * An engine must refuse a setting that has no meaning for it, with a message that names an alternative.
///
/// Each engine documents where it differs: whether readers ever wait, how the table grows, and whether it
/// shrinks.
///
/// The supertraits are [`Scan`] (visiting all items) and [`Batch`] (many keys at once), and three with
/// defaults, which only some engines override: [`Sizing`] (growing and shrinking), [`Hotspots`] (detecting
/// hot items) and [`FastPath`] (a lookup in few instructions).
///
/// # Safety
/// An engine hands out raw memory. Each [`Item`] that it returns must satisfy the invariant P (see
/// [`Item`]) under the pin it was found with. Each item that leaves the table must be retired exactly once.
#[doc(hidden)]
pub unsafe trait Engine:
    Scan + Batch + Sizing + Hotspots + FastPath + Send + Sync + 'static
{
    /// The engine's name in settings, errors and reports.
    const NAME: &'static str;
    /// Whether each session takes private 2 MiB chunks of item memory. False: sessions share chunks.
    const PRIVATE_CHUNKS: bool = false;
    /// The engine's state in a session.
    type Local: Send;
    /// The bucket of a hash; computed once per operation, under its pin.
    type Bucket: Copy;
    /// The position where a writer's search ended. Must not hold a lock.
    type Position<'s>;
    /// An insert's reservation, kept between two attempts.
    type Reservation: Reservation<Self>;

    /// An empty engine.
    fn new(config: &Config) -> Result<Self, ConfigError>;

    /// The engine's state for a new session.
    fn local(&self) -> Result<Self::Local, ConfigError>;

    /// The bucket of a hash.
    fn bucket<K: Kind>(p: &mut Pinned<'_, K, Self>, hash: u64) -> Self::Bucket;

    /// The live item with this key, if any: the search of readers. Counts as an access.
    fn lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit>;

    /// A cheap search for writers, which may miss an item that is present.
    #[inline(always)]
    fn probe<K: Kind>(_p: &Pinned<'_, K, Self>, _goal: KeyGoal<'_, K>) -> Option<Hit> {
        None
    }

    /// The search of a writer: the key's live item, or proof that there is none.
    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: Self::Bucket,
    ) -> Found<Self::Position<'s>>;

    /// Links a private item whose key `found` reported absent. False: nothing has changed, and the caller
    /// searches again, keeping the reservation.
    fn link<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: Self::Bucket,
        found: &Found<Self::Position<'s>>,
        item: Item,
        reservation: &mut Self::Reservation,
    ) -> bool;

    /// Atomically replaces the live item `old` with the private `copy` of the same key. `found` is the search
    /// that led to `old`, if any. False: nothing has changed.
    fn replace<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: Self::Bucket,
        old: Hit,
        copy: Item,
        found: Option<&Found<Self::Position<'s>>>,
    ) -> bool;

    /// Removes the live item that `found` ended at. False: nothing has changed.
    fn kill<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: Self::Bucket,
        found: &Found<Self::Position<'s>>,
    ) -> bool;

    /// Removes a live item that a scan has met. False: the item was already dead.
    fn kill_at<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool;

    /// Does what the session has put off, as it ends or will not be used for a while.
    #[inline(always)]
    fn catch_up<K: Kind>(_p: &mut Pinned<'_, K, Self>) {}

    /// The counts of this engine.
    fn stats(&self) -> EngineStats;

    /// Hands every item that is still held to `f`, each once. No session is left.
    fn drain<K: Kind>(&self, f: impl FnMut(Item));
}

/// A reservation of an insert, made before its item is linked. Most engines reserve nothing: `()`.
#[doc(hidden)]
pub trait Reservation<E: Engine>: Default {
    /// Releases a reservation that no item has used.
    fn give_back<K: Kind>(self, p: &mut Pinned<'_, K, E>, bucket: E::Bucket);
}

impl<E: Engine> Reservation<E> for () {
    #[inline(always)]
    fn give_back<K: Kind>(self, _p: &mut Pinned<'_, K, E>, _bucket: E::Bucket) {}
}

/// Visits all items of an engine with a cursor.
#[doc(hidden)]
pub trait Scan: Sized {
    /// Visits live items from the position `cursor` until the values returned by `f` add up to `count`, then
    /// completes the current bucket. Visits fewer items if the table is sparse. Returns the position to
    /// continue at (0 at the end) and the work done, in items. `f` may kill the items it receives.
    ///
    /// A position is a hash with its bits reversed. Growth preserves this order: a bucket is split into the
    /// two halves of its range.
    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        cursor: u64,
        count: usize,
        f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize)
    where
        Self: Engine;

    /// Unlinks the dead items that `kill_at` has left between `from` and the position `to`.
    #[inline(always)]
    fn sweep<K: Kind>(_p: &mut Pinned<'_, K, Self>, _from: Self::Bucket, _to: u64)
    where
        Self: Engine,
    {
    }
}

/// Operations on many keys at once.
#[doc(hidden)]
pub trait Batch: Sized {
    /// Looks up `n` keys with many memory accesses in flight, and passes each result to `done`, in any order.
    /// The default prefetches a group of keys, then looks them up one after the other.
    #[inline(always)]
    fn pipeline<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
        mut done: impl FnMut(usize, Option<Hit>),
    ) where
        K::Key: 'k,
        Self: Engine,
    {
        let depth = p.shared.config.pipeline_depth;
        for from in (0..n).step_by(depth) {
            let to = n.min(from + depth);
            Self::warm(p, to - from, |kind, i| goal(kind, from + i));
            for i in from..to {
                let hit = Self::lookup(p, goal(&p.shared.kind, i));
                done(i, hit);
            }
        }
    }

    /// Prefetches the memory that operations on up to 64 keys will touch.
    fn warm<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
    ) where
        K::Key: 'k,
        Self: Engine;
}

/// The size of an engine's table, and its changes. By default the size is fixed.
#[doc(hidden)]
pub trait Sizing: Sized {
    /// Slots (or buckets) of the table in use.
    fn slots(&self) -> u64;

    /// Bytes of the table in use.
    fn table_bytes(&self) -> u64;

    /// Whether work waits for [`Sizing::step`].
    #[inline(always)]
    fn is_busy(&self) -> bool {
        false
    }

    /// Does a bounded part of the pending work of growing or shrinking. The collection of removed memory
    /// calls it.
    fn step<K: Kind>(_p: &mut Pinned<'_, K, Self>)
    where
        Self: Engine,
    {
    }

    /// Does pending work of a growth on up to `count` buckets. False: there is none.
    fn growth_step<K: Kind>(_p: &mut Pinned<'_, K, Self>, _count: u64) -> bool
    where
        Self: Engine,
    {
        false
    }

    /// Whether the table doubles for this many items, whatever their access pattern. False if the engine grows
    /// by another rule.
    fn is_small_for(&self, _items: u64) -> bool {
        false
    }

    /// Doubles the table, or begins to, if permitted; true if it did.
    fn grow<K: Kind>(_p: &mut Pinned<'_, K, Self>) -> bool
    where
        Self: Engine,
    {
        false
    }

    /// Begins to halve the table, if permitted; true if it did.
    fn shrink<K: Kind>(_p: &mut Pinned<'_, K, Self>) -> bool
    where
        Self: Engine,
    {
        false
    }
}

/// The result of a lookup's fast path.
#[doc(hidden)]
pub enum FastLookup {
    /// The live item.
    Hit(Hit),
    /// The key is absent.
    Miss,
    /// Neither is certain: the slow path must decide.
    Unknown,
}

/// A fast path for lookups of small items. By default there is none.
#[doc(hidden)]
pub trait FastPath: Sized {
    /// Whether [`FastPath::fast_lookup`] is worth a call.
    const HAS_FAST_PATH: bool = false;

    /// The usual case of a lookup. Counts no access and changes nothing, so the slow path can follow.
    #[inline(always)]
    fn fast_lookup<K: Kind>(_p: &Pinned<'_, K, Self>, _goal: KeyGoal<'_, K>) -> FastLookup
    where
        Self: Engine,
    {
        FastLookup::Unknown
    }

    /// The complete lookup, for keys that the fast path could not decide. Counts as an access.
    #[inline(always)]
    fn slow_lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit>
    where
        Self: Engine,
    {
        Self::lookup(p, goal)
    }
}

/// Detection of hot items. By default there is none.
#[doc(hidden)]
pub trait Hotspots: Sized {
    /// Notes an access other than a lookup: one that changed `hit` in place, or found no item.
    #[inline(always)]
    fn accessed<K: Kind>(_p: &mut Pinned<'_, K, Self>, _hash: u64, _hit: Option<Hit>, _visits: u32)
    where
        Self: Engine,
    {
    }

    /// Notes that `copy` has replaced an item.
    #[inline(always)]
    fn rewritten<'s, K: Kind>(
        _p: &mut Pinned<'s, K, Self>,
        _copy: Item,
        _found: Option<&Found<<Self as Engine>::Position<'s>>>,
    ) where
        Self: Engine,
    {
    }

    /// Whether the engine places the item first for reads because it is accessed often.
    #[inline(always)]
    fn is_hot<K: Kind>(_p: &mut Pinned<'_, K, Self>, _hit: Hit) -> bool
    where
        Self: Engine,
    {
        false
    }
}
