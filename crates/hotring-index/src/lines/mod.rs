//! Lines: a map of `u64` to `u64` whose items lie in the table itself, four to a cache line.
//!
//! `docs/design/lines.md` has the protocol: words, invariants, memory orders, and why it is right. From the lowest
//! layer up: `bits`, `lane` (all accesses of the memory), `permutation` (keys to hashes), `stash`, `table`, `lookup`,
//! `write`, `sweep` (growing and shrinking), `relocate` (moves within a table), `map`, `session`, `pipeline`, `scan`.

mod bits;
mod lane;
mod lookup;
mod map;
mod permutation;
mod pipeline;
mod relocate;
mod scan;
mod session;
mod stash;
mod sweep;
mod table;
#[cfg(test)]
mod tests;
mod write;

pub use lane::Form;
pub use map::{Lines, LinesConfig, LinesStats};
pub use session::LinesSession;
