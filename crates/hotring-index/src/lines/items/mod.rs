//! Lines of items: an engine whose table has four lanes to a cache line, each with a tag of a key's hash and the
//! address of the key's item.
//!
//! ```text
//!  line i, 64 bytes                                word of a lane
//! +----------+----------+----------+----------+   +------------------+----------------+
//! | tag item | tag item | tag item | tag item |   | tag of the hash  | control bits   |
//! +----------+----------+----------+----------+   +------------------+----------------+
//!    lane 0     lane 1     lane 2     lane 3        48 bits            16 bits
//! ```
//!
//! `docs/design/lines.md` has the protocol. It is the protocol of the map whose items lie in the table itself
//! (`lines`), with three differences: items lie in the index's memory, several items can match a tag, and readers are
//! pinned. The modules, from the lowest layer up: `handle`, `stash`, `table` (where a position belongs), `relocate`
//! (moves within a table), `find`, `write`, `sweep` (growing and shrinking), `scan`, `batch`, `engine`.
//!
//! # Invariants
//!
//! 1. An item is in at most one lane or stash, or in two, and then both copies are frozen.
//! 2. An item at PROBE `d` implies a REACH of its home of at least `d` at that moment.
//! 3. Only the holder of a home's LOCK adds items to the home or freezes them. No session holds two LOCKs of one table;
//!    of two tables the older one's is taken first.
//! 4. An item thaws only after its old copy was cleared.
//! 5. ACTIVE of a home is cleared after frozen copies of all its items are in the next table, whose lines for them were
//!    made ACTIVE before. A move within a table is counted after the copy is in its lane and before the old lane is
//!    cleared.
//! 6. A table begins to be left only when the table before it has been left: only the current table is ever swept.
//! 7. An item is retired once, by the session whose exchange took it out of an unfrozen lane (or the unfrozen stash),
//!    and only after that exchange. So by 1 no lane has it then, and an item that is read from a lane is alive under
//!    the reader's pin.
//! 8. A table is freed after a grace period that began after the next table became the current one. All sessions that
//!    may use it, or an earlier table, were pinned before that.
//!
//! # Progress
//!
//! Readers wait for no session, except for the lock of the stash. Replacements and removals are lock-free unless the
//! item is frozen, which lasts for one move of an item or a home. Inserts hold a bit of their home. No code of a caller
//! runs under LOCK; the stash may allocate.

#[cfg(loom)]
mod at_rest;
mod batch;
mod engine;
mod find;
mod handle;
mod relocate;
mod scan;
mod stash;
mod sweep;
mod table;
#[cfg(all(test, not(loom)))]
mod tests;
mod write;

use crate::core::config::{Config, ConfigError, Growth};
use crate::core::sync::spin::{SpinMutex, is_over};
use crate::core::sync::{AtomicPtr, Ordering, TallyU64};
use crate::lines::lane::Form;
use stash::Count;
use std::collections::VecDeque;
use sweep::Left;
use table::Table;

/// The engine of lines: four tagged items to a cache line.
///
/// Readers take no lock. The table grows above a load of three quarters, in steps, and shrinks: a small one doubles, a
/// large one grows by a quarter. A slot is a line.
pub struct ItemLines {
    current: Current,
    form: Form,
    grows: bool,
    lines_min: u64,
    lines_max: u64,
    /// Tables that have been left. A session must hold the lock to change the current table, or to give it a next one.
    left: SpinMutex<VecDeque<Left>>,
    /// The number of tables that are being left, or have been left and are not freed.
    pending: TallyU64,
    /// Lines of the newest table, and bytes of all tables.
    lines: TallyU64,
    bytes: TallyU64,
    growths: TallyU64,
    shrinks: TallyU64,
    homes_moved: TallyU64,
    /// Items that were put into a stash, and the number of those that are in one now.
    stashed: TallyU64,
    in_stash: Count,
}

/// Read by every operation, written when a table has been left.
#[repr(align(128))]
struct Current(AtomicPtr<Table>);

impl ItemLines {
    fn build(config: &Config) -> Result<Self, ConfigError> {
        config.engine.refuse()?;
        let grows = match config.growth {
            None => true,
            Some(Growth::Fixed) => false,
            Some(Growth::Auto { .. } | Growth::BytesPerKey(_)) => {
                return Err(ConfigError::Unsupported(
                    "a table of lines grows at three items a line: leave growth unset, or Fixed; HotRing and Chaining \
                     Hash have other rules",
                ));
            }
        };
        let form = Form::best().ok_or(ConfigError::Unsupported(
            "this processor lacks the instructions: lines need cmpxchg16b; use the engine hotring",
        ))?;
        let lines = config.slots_initial.max(1).next_power_of_two() as u64;
        let in_stash = Count::default();
        let table = Table::new(lines, config, &in_stash).map_err(ConfigError::NoMemory)?;
        table.open_all();
        Ok(Self {
            form,
            grows,
            lines_min: lines,
            lines_max: config.slots_max.next_power_of_two() as u64,
            left: SpinMutex::default(),
            pending: TallyU64::new(0),
            lines: TallyU64::new(lines),
            bytes: TallyU64::new(table.bytes()),
            growths: TallyU64::new(0),
            shrinks: TallyU64::new(0),
            homes_moved: TallyU64::new(0),
            stashed: TallyU64::new(0),
            in_stash,
            current: Current(AtomicPtr::new(Box::into_raw(table))),
        })
    }

    /// The table that operations begin with. The caller is pinned, or no session is left.
    #[inline(always)]
    fn table(&self) -> &Table {
        // ORDERING: Acquire pairs with the AcqRel in `leave`, and so with all moves out of the previous table.
        let table = self.current.0.load(Ordering::Acquire);
        // SAFETY: invariant 8.
        unsafe { &*table }
    }

    /// Lines of the newest table.
    #[inline(always)]
    fn lines(&self) -> u64 {
        // ORDERING: Relaxed, advice and reports.
        self.lines.load(Ordering::Relaxed)
    }
}

impl Drop for ItemLines {
    fn drop(&mut self) {
        if is_over() {
            return;
        }
        // ORDERING: Relaxed, no other thread is left.
        let mut at = self.current.0.load(Ordering::Relaxed);
        while !at.is_null() {
            // SAFETY: from `Box::into_raw`, and no session has it any more.
            let table = unsafe { Box::from_raw(at) };
            at = table.take_next();
        }
    }
}
