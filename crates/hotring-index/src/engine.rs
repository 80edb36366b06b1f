//! The engine trait: finding, inserting, replacing and deleting items.
//!
//! The rest is common. Above an engine are the operations on values, expiries and versions
//! (`bytes/`, `u64s.rs`), beside it the memory of items and their reclamation; below it is nothing.
//! A comparison of two engines is therefore one of the index alone.

use crate::core::config::{Config, ConfigError};
use crate::core::item::{Item, Kind};
use crate::core::stats::EngineStats;
use crate::core::word::{Next, ring_cmp};
use crate::session::Pinned;
use std::cmp;

/// Inserts or removals of a session between two looks at the table's load: one number for all
/// engines, so that their tables grow alike.
pub const RESIZE_INTERVAL: u32 = 64;

/// A key that is looked for, and its hash.
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
    /// Where an item stands relative to the goal: in the order of bit-reversed hashes, then keys.
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
    /// Its word.
    pub word: Next,
}

/// The result of a writer's search: the key's live item, if there is one, and the place.
pub struct Found<P> {
    /// The item, if there is one.
    pub hit: Option<Hit>,
    /// Where the search ended.
    pub place: P,
}

/// A way to find items: [`Ring`](crate::Ring), and those of the crate `hotring-engines`.
///
/// # Guarantees of every engine
///
/// * Each operation on one key is linearizable; so is the answer that there is no such key.
/// * An item that a session has found stays readable until its operation ends. The operation's closure
///   may take long and may use other sessions: no engine must hold a lock while it runs.
/// * Removed or replaced memory is reused once no session can see it any more, within the limits of
///   [`Config::limbo_max`].
/// * A scan visits a key that is present all the time exactly once, also while the table grows.
/// * No choice of keys makes an operation fail or run for ever; at worst it is slow. Keys that collide
///   (byte strings) cannot be chosen without knowing the seed.
/// * A setting without a meaning for an engine is refused, with a sentence that names an alternative.
///
/// Where they differ, the engine's own page says so: whether readers ever wait, how the table grows,
/// whether it shrinks.
///
/// Further traits hold [`Scan`] (visiting all items), [`Batch`] (many keys at once), and with defaults, as
/// only some engines do it, [`Sizing`] (growing and shrinking), [`Hotspots`] (learning which items are
/// hot) and [`FastPath`] (a lookup in few instructions).
///
/// # Safety
/// An engine hands out raw memory. Each [`Item`] that it returns must satisfy the invariant P (see
/// there) under the pin it was found with. Each item that leaves the table must be retired once.
#[doc(hidden)]
pub unsafe trait Engine:
    Scan + Batch + Sizing + Hotspots + FastPath + Send + Sync + 'static
{
    /// As settings, errors and reports call it.
    const NAME: &'static str;
    /// Whether sessions take memory for items a chunk of 2 MiB at a time, for themselves only,
    /// or share chunks.
    const PRIVATE_CHUNKS: bool = false;
    /// A session's own part.
    type Local: Send;
    /// Where a hash belongs; asked for once per operation, under its pin.
    type Bucket: Copy;
    /// Where the search of a writer ended. Holds no lock.
    type Place<'s>;
    /// Kept by an insert between two attempts.
    type Reservation: Reservation<Self>;

    /// The empty engine.
    fn new(config: &Config) -> Result<Self, ConfigError>;

    /// The part of a new session.
    fn local(&self) -> Result<Self::Local, ConfigError>;

    /// Where a hash belongs.
    fn bucket<K: Kind>(p: &mut Pinned<'_, K, Self>, hash: u64) -> Self::Bucket;

    /// The live item with this key: the path of readers. Counts as an access.
    fn lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit>;

    /// A cheap search for writers, which may miss an item that is present.
    #[inline(always)]
    fn probe<K: Kind>(_p: &Pinned<'_, K, Self>, _goal: KeyGoal<'_, K>) -> Option<Hit> {
        None
    }

    /// The search of a writer: the key's live item, or for certain that there is none.
    fn find<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: Self::Bucket,
    ) -> Found<Self::Place<'s>>;

    /// Puts a private item in, of which `found` said that its key is absent. False: nothing has
    /// happened, and the caller searches again, keeping the reservation.
    fn link<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: Self::Bucket,
        found: &Found<Self::Place<'s>>,
        item: Item,
        reservation: &mut Self::Reservation,
    ) -> bool;

    /// Puts the private `copy` in the place of the live item `old` of the same key, as one step.
    /// `found` is the search that led there, if one did. False: nothing has happened.
    fn replace<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: Self::Bucket,
        old: Hit,
        copy: Item,
        found: Option<&Found<Self::Place<'s>>>,
    ) -> bool;

    /// Takes out the live item that `found` ended at. False: nothing has happened.
    fn kill<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        goal: KeyGoal<'_, K>,
        bucket: Self::Bucket,
        found: &Found<Self::Place<'s>>,
    ) -> bool;

    /// As `kill`, for an item that a scan has met. False: it was dead already.
    fn kill_at<K: Kind>(p: &mut Pinned<'_, K, Self>, hit: Hit) -> bool;

    /// The counts of this engine.
    fn stats(&self) -> EngineStats;

    /// Hands every item that is still held to `f`, each once. No session is left.
    fn drain<K: Kind>(&self, f: impl FnMut(Item));
}

/// A reservation of an insert, made before its item is linked. Most engines reserve nothing: `()`.
#[doc(hidden)]
pub trait Reservation<E: Engine>: Default {
    /// Gives it back, as no item came to use it.
    fn give_back<K: Kind>(self, p: &mut Pinned<'_, K, E>, bucket: E::Bucket);
}

impl<E: Engine> Reservation<E> for () {
    #[inline(always)]
    fn give_back<K: Kind>(self, _p: &mut Pinned<'_, K, E>, _bucket: E::Bucket) {}
}

/// Visits all items of an engine with a cursor.
#[doc(hidden)]
pub trait Scan: Sized {
    /// Visits live items from the position `cursor` on until `f`'s returns add up to `count`, and
    /// then the rest of the unit; or fewer, where the table is sparse. Returns the position to continue
    /// at, 0 at the end, and the work done, in items. `f` may kill the items that it gets.
    ///
    /// A position is a hash with its bits reversed. Growth keeps that order: a bucket is split into the
    /// two halves of its range.
    fn scan<'s, K: Kind>(
        p: &mut Pinned<'s, K, Self>,
        cursor: u64,
        count: usize,
        f: impl FnMut(&mut Pinned<'s, K, Self>, Hit) -> usize,
    ) -> (u64, usize)
    where
        Self: Engine;

    /// Unlinks the items that `kill_at` has left between `from` and the position `to`.
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
    /// Looks up `n` keys with many memory accesses in flight, and hands each result to `land`, in
    /// any order. By default groups of keys are prefetched, then looked up one after the other.
    #[inline(always)]
    fn pipeline<'k, K: Kind>(
        p: &mut Pinned<'_, K, Self>,
        n: usize,
        goal: impl Fn(&K, usize) -> KeyGoal<'k, K>,
        mut land: impl FnMut(usize, Option<Hit>),
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
                land(i, hit);
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

/// The size of an engine's table, and how it changes. By default it does not.
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

    /// A bounded part of the pending work of growing or shrinking. Called by collections of removed
    /// memory.
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

    /// Whether the table doubles for this many items, however they are found; false where it grows otherwise.
    fn is_small_for(&self, _items: u64) -> bool {
        false
    }

    /// Doubles the table now, or begins to, if it may; true if it did.
    fn grow<K: Kind>(_p: &mut Pinned<'_, K, Self>) -> bool
    where
        Self: Engine,
    {
        false
    }

    /// Begins to halve the table, if it may; true if it did.
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

    /// The usual case of a lookup. Counts no access and changes nothing, so that the slow path can
    /// follow.
    #[inline(always)]
    fn fast_lookup<K: Kind>(_p: &Pinned<'_, K, Self>, _goal: KeyGoal<'_, K>) -> FastLookup
    where
        Self: Engine,
    {
        FastLookup::Unknown
    }

    /// The whole lookup, where the fast path did not answer. Counts as an access.
    #[inline(always)]
    fn slow_lookup<K: Kind>(p: &mut Pinned<'_, K, Self>, goal: KeyGoal<'_, K>) -> Option<Hit>
    where
        Self: Engine,
    {
        Self::lookup(p, goal)
    }
}

/// How an engine learns which items are hot. By default it does not.
#[doc(hidden)]
pub trait Hotspots: Sized {
    /// Notes an access other than a lookup: one that changed `hit` in place, or found nothing.
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
        _found: Option<&Found<<Self as Engine>::Place<'s>>>,
    ) where
        Self: Engine,
    {
    }

    /// Whether the item is one of those that reads come to first because they were accessed often.
    #[inline(always)]
    fn is_hot<K: Kind>(_p: &mut Pinned<'_, K, Self>, _hit: Hit) -> bool
    where
        Self: Engine,
    {
        false
    }
}
