//! The foundation of engines and item kinds: words, items, their memory and its reclamation.

pub(crate) mod arena;
pub mod barrier;
pub(crate) mod block;
pub(crate) mod config;
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub mod faults;
#[doc(hidden)]
pub mod hooks;
pub(crate) mod item;
mod lifetime;
pub(crate) mod limbo;
#[cfg_attr(any(loom, shuttle), allow(dead_code))]
pub(crate) mod memory;
pub(crate) mod memory_limit;
pub(crate) mod prefetch;
pub(crate) mod reclaim;
pub(crate) mod shared;
pub(crate) mod stats;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod word;
