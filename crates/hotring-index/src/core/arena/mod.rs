//! Item memory, in one of three ways with one interface; this file chooses, and nothing else in the
//! crate knows which.
//!
//! * `spans`: size classes in memory of our own, cached per session, given back to the system after
//!   removals; `large`: whole pages for what is longer. What everybody uses. Builds with debug assertions
//!   notice who uses such memory wrongly (`spans/poison.rs`).
//! * `plain`: every item from the process's allocator (`--cfg hotring_plain_arena`), so that a
//!   sanitizer sees the life of each.
//! * `checked`: no block is used twice, for model checkers.

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
