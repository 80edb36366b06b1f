//! The allocator of item memory, in three variants with one interface. This file selects the variant; the rest
//! of the crate must not depend on the choice.
//!
//! * `spans`: size classes in mapped memory, cached per session, returned to the system after removals;
//!   `large`: entire pages for longer items. The default. Builds with debug assertions detect misuse of this
//!   memory (`spans/poison.rs`).
//! * `plain`: every item is an allocation of the process (`--cfg hotring_plain_arena`), so that a sanitizer
//!   follows each item's lifetime.
//! * `checked`: no block is reused, for model checkers.

#[cfg(any(loom, shuttle))]
mod checked;
#[cfg_attr(any(loom, shuttle, hotring_plain_arena), allow(dead_code))]
mod classes;
mod compaction;
#[cfg(not(any(loom, shuttle, hotring_plain_arena)))]
mod large;
#[cfg(all(hotring_plain_arena, not(any(loom, shuttle))))]
mod plain;
#[cfg(not(any(loom, shuttle, hotring_plain_arena)))]
mod spans;

#[cfg(any(loom, shuttle))]
pub(crate) use checked::{Arena, LocalArena, Survey};
#[cfg(all(hotring_plain_arena, not(any(loom, shuttle))))]
pub(crate) use plain::{Arena, LocalArena, Survey};
#[cfg(not(any(loom, shuttle, hotring_plain_arena)))]
pub(crate) use spans::{Arena, LocalArena, Survey};

pub(crate) use classes::{CLASSED_MAX, footprint};
pub(crate) use compaction::{Compaction, CompactionPhase, CompactionWalk};
