//! Admission control: admits or refuses operations that take memory, by the limits of
//! [`memory_limit`](crate::core::memory_limit) and [`limbo`](crate::core::limbo).

use super::{Session, Shared};
use crate::core::item::Kind;
use crate::core::memory_limit::{Full, Refused, Taken};
use crate::core::sync::Ordering;
use crate::engine::Engine;

/// Rounds in which a write at the memory limit tries to free memory. A grace period takes three rounds, if no
/// session is pinned meanwhile.
const FULL_ROUNDS: usize = 8;

/// Items of the table that each round sweeps.
const SWEPT: usize = 64;

/// Items that one step of compaction visits.
const MOVED: usize = 2048;

/// Steps of compaction before a write is refused.
const MOVES: usize = 64;

impl<K: Kind, E: Engine> Shared<K, E> {
    /// The memory of this index alone.
    pub(crate) fn own_bytes(&self) -> Taken {
        let both = self.engine.table_bytes() + self.blocks.bytes();
        Taken {
            used: self.item_bytes() + both,
            limbo: self.collector.limbo_bytes().max(0).cast_unsigned() + self.blocks.dying_bytes(),
            held: self.arena.held_bytes() as u64 + both,
        }
    }

    /// All memory that counts toward the limit: this index, the other indexes, and external memory.
    fn taken(&self) -> Taken {
        let external = self.budget.external();
        let external = Taken { used: external, held: external, limbo: 0 };
        self.own_bytes() + self.budget.of_peers() + external
    }

    /// Held bytes of all memory that counts toward the limit.
    pub(super) fn held_bytes(&self) -> u64 {
        self.taken().held
    }

    /// Whether held memory exceeds the limit.
    pub(crate) fn is_tight(&self) -> bool {
        self.budget.is_tight(self.held_bytes())
    }

    /// Whether the memory limit permits a table of twice the size. Without it lookups are slower, but no operation
    /// is refused.
    pub fn may_double(&self) -> bool {
        self.may_take(self.engine.table_bytes())
    }

    /// Whether the memory limit permits this many more bytes of a table.
    pub fn may_take(&self, bytes: u64) -> bool {
        let max = self.budget.max();
        max == u64::MAX || self.taken().used + bytes <= max
    }

    /// Checks whether this many more bytes fit into the limit, and publishes the result to all sessions.
    pub(crate) fn check_memory(&self, more: u64) -> Result<(), Full> {
        if self.budget.max() == u64::MAX {
            self.collector.shown().show_full(false);
            return Ok(());
        }
        let Taken { used, limbo, held } = self.taken();
        let waste = self.budget.waste(used, held);
        self.collector.shown().show_full(self.budget.check(used, limbo, waste).is_err());
        self.budget.check(used.saturating_add(more), limbo, waste)
    }

    /// As `check_memory`, but free pages that would return to the system later are returned first, as far
    /// as the limit requires.
    fn check_memory_after_release(&self, more: u64) -> Result<(), Full> {
        self.check_memory(more).or_else(|full| {
            self.blocks.give_back(full.used_bytes - full.max);
            self.check_memory(more)
        })
    }
}

impl<K: Kind, E: Engine> Session<K, E> {
    /// Checks whether an operation that takes memory may begin. It is refused while more than
    /// [`Config::limbo_max`](crate::Config::limbo_max) bytes of removed items wait for a session that stays
    /// pinned, or while usage exceeds [`Index::set_memory_max`](crate::Index::set_memory_max). Operations do not
    /// call this: the caller must call it before each insert and update, or a stalled reader lets memory grow
    /// without bound. Removals and reads need no admission.
    ///
    /// Costs one load. Over a limit it costs up to eight collections, each of which frees up to 1,024 items, a
    /// pass over all sessions' records, and a walk over some hundred items.
    ///
    /// # Errors
    /// * A session is stalled. Writes are admitted once it proceeds.
    /// * The memory limit is exceeded. Writes are admitted once items are removed and no session can see them.
    #[inline(always)]
    pub fn admit(&mut self) -> Result<(), Refused> {
        if self.local.participant.is_refusing() { self.admit_more(0) } else { Ok(()) }
    }

    /// As [`admit`](Self::admit), for an operation that takes this many bytes. For small operations `admit` is
    /// sufficient. O(sessions).
    ///
    /// # Errors
    /// As `admit`.
    pub fn admit_bytes(&mut self, bytes: usize) -> Result<(), Refused> {
        self.admit_more(bytes as u64)
    }

    /// Whether the last check of the limits refused operations that take memory. Costs one load.
    #[inline(always)]
    pub fn is_refusing(&self) -> bool {
        self.local.participant.is_refusing()
    }

    /// As [`admit_bytes`](Self::admit_bytes), for a caller that evicts items to make space: at the memory limit
    /// it frees only memory that can be freed at once.
    ///
    /// # Errors
    /// As `admit`.
    pub fn try_admit_bytes(&mut self, bytes: usize) -> Result<(), Refused> {
        if self.local.participant.is_over_limit() {
            self.admit_over_limit()?;
        }
        match self.shared.check_memory_after_release(bytes as u64) {
            Ok(()) => return Ok(()),
            Err(full) if full.waste_bytes > 0 => _ = self.move_together(),
            Err(_) => {}
        }
        if self.local.participant.has_garbage() {
            self.collect_garbage();
        }
        self.shared.check_memory_after_release(bytes as u64).map_err(Refused::Full)
    }

    #[cold]
    fn admit_more(&mut self, bytes: u64) -> Result<(), Refused> {
        if self.local.participant.is_over_limit() {
            self.admit_over_limit()?;
        }
        for round in 0..FULL_ROUNDS {
            match self.shared.check_memory_after_release(bytes) {
                Ok(()) => return Ok(()),
                Err(full) if bytes > full.max => return Err(Refused::Full(full)),
                Err(full)
                    if full.waste_bytes > 0 && round == 0 && self.compact_until_free(bytes) =>
                {
                    return Ok(());
                }
                Err(_) => {}
            }
            // Dead items count until they are freed.
            self.sweep_some();
            if self.local.participant.has_garbage() {
                self.collect_garbage();
            }
        }
        self.shared.check_memory_after_release(bytes).map_err(Refused::Full)
    }

    /// Does one step of compaction. False: there was no work.
    fn move_together(&mut self) -> bool {
        // A cached block keeps its chunk.
        self.local.arena.give_back();
        self.compact_step(MOVED).visited > 0
    }

    /// Compacts until this many bytes fit into the limit, with a bounded number of steps. A write should not be
    /// refused while most of the held memory is free.
    fn compact_until_free(&mut self, bytes: u64) -> bool {
        for _ in 0..MOVES {
            if !self.move_together() {
                return false;
            }
            if self.shared.check_memory_after_release(bytes).is_ok() {
                return true;
            }
        }
        false
    }

    /// Unlinks dead versions in a part of the table that no walk has passed since.
    fn sweep_some(&mut self) {
        let mut pinned = self.pin();
        // ORDERING: Relaxed, a position to continue from; two sessions at the same position do no harm.
        let cursor = pinned.shared.sweep_cursor.load(Ordering::Relaxed);
        let from = E::bucket(&mut pinned, cursor.reverse_bits());
        let (next, _) = E::scan(&mut pinned, cursor, SWEPT, |_, _| 1);
        E::sweep(&mut pinned, from, next);
        // The position decreases only after an item with a damaged hash.
        let next = if next <= cursor { 0 } else { next };
        // ORDERING: Relaxed, as above.
        pinned.shared.sweep_cursor.store(next, Ordering::Relaxed);
    }
}
