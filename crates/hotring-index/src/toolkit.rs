//! Building blocks for engines outside this crate. Not part of the stable API: they change with the engines.
//!
//! Many of these functions are not marked `unsafe`, although misuse is unsound (retiring an item twice, for
//! example). Safe code cannot reach them: each starts from a [`Pinned`], which only the functions of
//! [`Engine`] receive, and implementing that trait requires `unsafe`.

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
