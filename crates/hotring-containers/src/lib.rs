//! Containers for values that are too long to be copied at each change: [`List`], [`Dict`],
//! [`ScoredSet`] and [`Text`].
//!
//! All but `Text` are counted B+ trees (`tree.rs`) whose leaves pack their entries into one allocation; `Text` is a
//! tree of chunks by position. So an entry costs a few bytes more than its content, and a change moves at most about
//! two kilobytes.
//!
//! * **Changes in place.** A change touches one leaf and the counts above it: O(log n).
//! * **Snapshots in O(1).** A clone shares all nodes. From then on a change copies the nodes on its
//!   path that are still shared, and no others, so a reader may keep a clone for as long as it wants.
//! * **Freed in steps.** Dropping millions of entries takes long. [`Remains`] frees a container's nodes a bounded
//!   number at a time.
//!
//! The crate computes no hashes and knows no time: callers pass both in. It has no locks; a
//! caller that shares a container between threads brings its own.

#![forbid(unsafe_code)]

mod dict;
mod entries;
mod list;
mod scored;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub use dict::{BATCH_MAX, Dict, Entry};
pub use list::List;
pub use scored::{Inserted, Scored, ScoredSet};
pub use text::{Piece, Text};
pub use tree::Remains;
