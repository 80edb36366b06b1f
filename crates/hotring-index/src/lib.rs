//! HotRing: a concurrent hash index that gets faster when some keys are hot.
//!
//! In many stores most accesses go to a small set of keys, and this set changes within seconds. An
//! ordinary hash index treats all keys alike: a hot item may be the last of its bucket's chain.
//! HotRing (Chen et al., FAST'20) detects hot items and makes the bucket point straight at them. This
//! crate implements the complete algorithm without locks and extends it: a slot is one cache line with
//! up to seven such pointers ("hints"), each with a tag of the key's hash.
//!
//! # Kinds of items
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
//! # Guarantees
//!
//! All operations on a key are linearizable. A read is wait-free: it takes at most as many steps as its
//! bucket has items, and never restarts. Writes are lock-free. The memory of a removed item is reused
//! once no session can see it. A session that stays pinned for long (a slow callback) delays this reuse;
//! [`HotRing::stalled`] names the session. Operations do not check the amount of unreclaimed memory:
//! [`Config::limbo_max`] bounds it only if the caller calls [`Session::admit`] before each operation that
//! may allocate.
//!
//! The index reads no clock, draws no random numbers from the system and starts no threads. The caller
//! passes times and the seed as arguments.
//!
//! # Inside
//!
//! From the lowest layer up: `core/` (words, items, their memory and its reclamation), `engine.rs` and
//! `session/` (the engine trait and pins), `ring/`, `index.rs`, `bytes/` and `u64s/` (kinds of items),
//! `lines/` (a map of words, and another engine), `erased.rs` and `any.rs`. A module must not use a
//! higher layer; `cargo xtask tidy` checks that.
//!
//! `ring/mod.rs` describes the protocol: a picture, the invariants, short proofs, memory orders.
#![allow(unsafe_code)]

mod any;
mod bytes;
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub mod checks;
mod core;
mod engine;
mod erased;
mod index;
// `lines` needs atomic accesses of 16 bytes. Under loom it models them; under shuttle it has no model.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64", loom), not(shuttle)))]
mod lines;
mod ring;
mod session;
#[doc(hidden)]
pub mod toolkit;
mod u64s;

pub use crate::core::barrier;
pub use crate::core::block::{Block, BlockRef, Buffer, LONG_LEN, Object};
pub use crate::core::config::{
    Checksum, Config, ConfigError, EngineConfig, Growth, RcuCounts, Strategy,
};
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub use crate::core::faults;
#[doc(hidden)]
pub use crate::core::hooks;
pub use crate::core::item::{Damaged, Kind};
pub use crate::core::limbo::Stalled;
pub use crate::core::memory::trim_heap;
#[doc(hidden)]
pub use crate::core::memory_limit::{Full, PeerMemory, Refused, Taken};
#[doc(hidden)]
pub use crate::core::prefetch::prefetch_value;
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub use crate::core::shared::SharedFault;
pub use crate::core::shared::{Shared, Visitor, Visitors};
pub use crate::core::stats::{EngineStats, Stats};
#[doc(hidden)]
pub use crate::core::sync;
#[doc(hidden)]
pub use crate::core::word;
pub use any::{AnyIndex, AnySession};
pub use bytes::Part;
pub use bytes::{
    Action, Bytes, Entry, Expiry, FREQUENCY_NEW, Key, KeyHash, Marked, NewValue, Noting, Scrub,
    ScrubCounts, Value,
};
pub use engine::Engine;
pub use erased::{ErasedIndex, ErasedSession, Maintain};
pub use index::{HotRing, HotRingSession, Index};
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64", loom), not(shuttle)))]
pub use lines::items::ItemLines;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64", loom), not(shuttle)))]
pub use lines::{
    Form, Lines, LinesAnswer, LinesConfig, LinesOp, LinesQueue, LinesSession, LinesStats,
};
pub use ring::Ring;
pub use session::Session;
pub use session::compact::Compacted;
pub use u64s::U64;
pub use u64s::guard::Guard;
