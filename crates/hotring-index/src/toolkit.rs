//! Building blocks of engines outside this crate. No part of the API: it changes with the engines.
//!
//! Much of it is unsafe to misuse although it is not marked so: retiring an item twice, for example.
//! Safe code cannot reach it. All of it starts from a [`Pinned`], which only the functions of
//! [`Engine`] get, and to implement that trait takes `unsafe`.

pub use crate::core::item::{Item, Kind};
#[cfg(not(any(loom, shuttle)))]
pub use crate::core::memory::{HUGE_PAGE, Mapping};
pub use crate::core::prefetch::{prefetch, prefetch_item};
pub use crate::core::reclaim::Counter;
pub use crate::engine::{
    Batch, Engine, FastLookup, FastPath, Found, Hit, Hotspots, KeyGoal, RESIZE_INTERVAL,
    Reservation, Scan, Sizing,
};
pub use crate::session::{Pinned, Shared};
pub use crate::{EngineStats, Index, Session, Stats};
