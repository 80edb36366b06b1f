//! HotRing: a concurrent hash index that gets faster when some keys are hot.
//!
//! Many stores see most of their accesses go to a small part of the keys, and which part that is
//! changes within seconds. A hash index treats all keys alike: a hot item may be the last of its
//! bucket's chain. HotRing (Chen et al., FAST'20) notices hot items and lets the bucket point
//! straight at them. This crate is a complete lock-free version of it, and goes further: a slot is
//! one cache line with up to seven such pointers, each with a tag of the key's hash.
//!
//! # Which kind of item
//!
//! * [`U64`]: `u64` keys and values, 24 bytes an item, every value updated in place.
//! * [`Bytes`]: byte strings with expiry and versions; key and value inline in one allocation.
//!
//! ```
//! use hotring_index::{Config, HotRing, U64};
//!
//! let index: HotRing<U64> = HotRing::new(Config::default())?;
//! let mut session = index.session(); // one per thread
//! session.insert(7, 1);
//! session.fetch_add(7, 41);
//! assert_eq!(session.get(7), Some(42));
//! # Ok::<(), hotring_index::ConfigError>(())
//! ```
//!
//! # What is guaranteed
//!
//! All operations on a key are linearizable. Reads are wait-free in the number of items of a bucket
//! and never start anew; writes are lock-free. Memory that is removed is reused once no session can
//! see it any more. A session that is pinned for long (a slow callback) holds that up:
//! [`HotRing::stalled`] names it. Operations do not look at how much is waiting. Who asks
//! [`Session::admit`] before each one that may take memory has a bound, [`Config::limbo_max`]; who
//! does not has none.
//!
//! The index reads no clock, draws no random numbers from the system and starts no thread: times
//! and the seed are arguments.
//!
//! # Inside
//!
//! `ring/mod.rs` has the protocol: picture, invariants, proofs in short, memory orders.
#![allow(unsafe_code)]

mod arena;
pub mod barrier;
mod bytes;
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub mod checks;
mod config;
mod ghost;
mod limit;
#[cfg(not(any(loom, shuttle)))]
mod memory;
#[doc(hidden)]
pub mod rare;
mod reclaim;
mod ring;
mod stats;
mod sync;
mod u64s;

pub use bytes::{Action, Bytes, Entry, Expiry, NewValue, Value};
pub use config::{Config, ConfigError, Growth, RcuCounts, Strategy};
pub use limit::Stalled;
pub use ring::item::Kind;
pub use ring::session::Session;
pub use stats::Stats;
pub use u64s::U64;

use ring::session::Shared;
use sync::{Arc, Ordering};

/// A HotRing hash index with `H` hints a slot. Cloning gives another handle to the same index.
///
/// `H` is 7 (a slot is a cache line of 64 bytes, the default and the fastest), 3 (32 bytes) or 1
/// (16 bytes; the paper's one movable head, and the only shape for [`Strategy::Random`] and
/// [`Strategy::Sampling`]).
pub struct HotRing<K: Kind, const H: usize = 7> {
    shared: Arc<Shared<K, H>>,
}

impl<K: Kind, const H: usize> Clone for HotRing<K, H> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Kind, const H: usize> HotRing<K, H> {
    /// An empty index.
    ///
    /// # Errors
    /// Settings that do not go together, or no address space for the table.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self { shared: Arc::new(Shared::new(config)?) })
    }

    /// A new session for the calling thread.
    pub fn session(&self) -> Session<K, H> {
        Session::new(self.shared.clone(), None)
    }

    /// A new session for the calling thread, with a name for [`Stalled`]: what the thread is called,
    /// for example. The first 32 bytes of it are kept.
    pub fn session_named(&self, name: &str) -> Session<K, H> {
        Session::new(self.shared.clone(), Some(name))
    }

    /// The session that stays pinned while removed memory piles up behind it: at least a sixteenth
    /// of [`Config::limbo_max`] (or 64 MiB) since its pin. O(sessions).
    pub fn stalled(&self) -> Option<Stalled> {
        self.shared.collector.stalled()
    }

    /// Changes [`Config::limbo_max`].
    pub fn set_limbo_max(&self, bytes: u64) {
        self.shared.collector.limit().set_max(bytes);
    }

    /// Items present; exact when no operation is running.
    pub fn len(&self) -> usize {
        self.shared.sum(|record| record.items.load()).max(0) as usize
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts of everything. O(sessions).
    pub fn stats(&self) -> Stats {
        let shared = &*self.shared;
        let sum = |counter: fn(&reclaim::Record) -> i64| shared.sum(counter).max(0) as u64;
        let slots = shared.table.mask() + 1;
        Stats {
            items: sum(|r| r.items.load()),
            expiring: sum(|r| r.expiring.load()),
            bytes: sum(|r| r.item_bytes.load()),
            limbo_bytes: shared.collector.limbo_bytes().max(0) as u64,
            limbo_max: shared.collector.limit().max(),
            mapped_bytes: shared.arena.mapped_bytes() as u64,
            held_bytes: shared.arena.held_bytes() as u64,
            table_bytes: slots * (8 + 8 * H as u64),
            slots,
            // ORDERING: Relaxed, statistics.
            slots_split: shared.splits.load(Ordering::Relaxed),
            lookups_sampled: sum(|r| r.lookups.load()),
            visits_sampled: sum(|r| r.visits.load()),
            head_moves: sum(|r| r.head_moves.load()),
            sampling_rounds: sum(|r| r.sampling_rounds.load()),
            oldest_pin: shared.collector.oldest_pin(),
        }
    }
}
