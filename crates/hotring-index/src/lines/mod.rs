//! Lines: a map of `u64` to `u64` whose items lie in the table itself, four to a cache line.
//!
//! `docs/design/lines.md` has the protocol: words, invariants, memory orders, and the correctness argument. The
//! modules, from the lowest layer up: `bits`, `lane` (all accesses of the memory), `permutation` (keys to hashes),
//! `stash`, `table`, `lookup`, `write`, `sweep` (growing and shrinking), `relocate` (moves within a table), `map`,
//! `session`, `pipeline` (batches), `queue`, `scan`.

/// Whether a model checker asked for this wrong variant (`core/faults.rs`).
macro_rules! wrong {
    ($table:expr, $fault:ident) => {{
        #[cfg(loom)]
        let wrong = $table.fault == crate::core::faults::Fault::$fault;
        #[cfg(not(loom))]
        let wrong = {
            let _ = &$table;
            false
        };
        wrong
    }};
}

mod bits;
mod config;
pub(crate) mod items;
mod lane;
mod lookup;
mod map;
mod memory;
mod permutation;
mod pipeline;
mod queue;
mod relocate;
mod scan;
mod session;
mod stash;
mod sweep;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(test, not(loom)))]
mod watch;
mod write;

pub use config::LinesConfig;
pub use lane::Form;
pub use map::{Lines, LinesStats};
pub use queue::{LinesAnswer, LinesOp, LinesQueue};
pub use session::LinesSession;
