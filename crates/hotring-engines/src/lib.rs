//! Engines for [`hotring_index`] that serve as comparison for HotRing: the baseline of its paper and two other papers'
//! designs, on the same items, hashes, memory and reclamation.
//!
//! * [`Chaining`]: lock-free chains.
//! * [`Mercury`]: chains with a lock in each bucket.
//! * [`GCuckoo`]: a cuckoo hash table that knows before the first kick whether there is a vacancy.
//!
//! Each is a type parameter of [`hotring_index::Index`], with its proof in its module's header. [`EngineChoice::open`]
//! opens any of them by name, and also HotRing with one movable head, and lines; a store takes the result.
//!
//! ```
//! use hotring_engines::MercuryHash;
//! use hotring_index::{Config, U64};
//!
//! let index: MercuryHash<U64> = MercuryHash::new(Config::default())?;
//! let mut session = index.session();
//! session.insert(7, 42);
//! assert_eq!(session.get(7), Some(42));
//! # Ok::<(), hotring_index::ConfigError>(())
//! ```
#![allow(unsafe_code)]

mod chaining;
mod choice;
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub mod faults;
mod gcuckoo;
#[doc(hidden)]
pub mod hooks;
mod mercury;
mod settings;

use hotring_index::Index;

pub use chaining::Chaining;
pub use choice::EngineChoice;
#[doc(hidden)]
pub use gcuckoo::{
    Case as CuckooCase,
    lab::{Inserted, Pair as CuckooPair},
};
pub use gcuckoo::{GCuckoo, GCuckooStats};
pub use mercury::{Locking, Mercury, NoLock, OsMutex, TestAndSet};
pub use settings::{Atomicity, Expander, GCuckooConfig, MercuryConfig};

/// The paper's baseline: lock-free chains (see [`Chaining`]).
pub type ChainingHash<K> = Index<K, Chaining>;

/// Mercury's hash table, with one of three ways to lock a bucket (see [`Mercury`]).
pub type MercuryHash<K, L = TestAndSet> = Index<K, Mercury<L>>;

/// A G-Cuckoo hash index with `S` slots a bucket (see [`GCuckoo`]).
pub type GCuckooHash<K, const S: usize = 4> = Index<K, GCuckoo<S>>;
