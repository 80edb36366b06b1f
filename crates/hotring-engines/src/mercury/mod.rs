//! Mercury: chains, a lock in each bucket's own cache line, and a table that doubles one bucket at
//! a time (Gandhi et al., SYSTOR'13).
//!
//! ```text
//!  current, N buckets                          next, 2 N buckets
//! +-----------------------+                   +-----------------------+
//! | 0: HASMOVED           |                   | 0: -> a               |
//! | 1: HASMOVED           |  moved = 2        | 1: -> b -> d          |
//! | 2: LOCK -> e -> f     |  <- the expander  | 2:                    |  not reached yet (M3)
//! | 3: -> g               |                   | ...                   |
//! +-----------------------+                   | N: -> c    N+1: -> h  |
//!                                             +-----------------------+
//! ```
//!
//! A bucket is one word: the address of its first item, LOCK and HASMOVED ([`locking`]). So one fetch lets an
//! operation find its item, lock the bucket, and see whether the bucket has moved. Readers lock, too. Items that they
//! found stay readable after the unlock because of their pin.
//!
//! As soon as there are more items than buckets the table doubles: a new one is made, the buckets
//! are split into it one by one, each under its own lock alone, and the old one is given back. The
//! beginning and the end are *changes of state*. A session takes its own *thread lock* before it
//! looks at tables and releases it before the operation returns; a change of state takes the thread
//! locks of all sessions ([`workers`]). Nothing else takes another session's lock, so the lock's
//! line stays with its session.
//!
//! # Invariants
//!
//! * M1 `current` and `next` change only while every thread lock is taken.
//! * M2 A hash belongs to one chain: that of its bucket in `current`, or, once this has HASMOVED,
//!   of its bucket in `next`. HASMOVED is set under the bucket's lock and stays.
//! * M3 A session comes to a bucket of `next` only after it has seen that its source bucket in `current`
//!   has moved. Only items of that bucket go there, so the expander fills both halves before any other
//!   session can know of them, and one lock is enough.
//! * M4 All buckets of `current` below `moved` have moved, and a session that has read `moved` sees them
//!   so.
//! * M5 A chain, and the `next` words of its items, are read and written under the bucket's lock. An
//!   item is MARKed by the step that takes it out, and retired after that.
//!
//! # Where the paper is silent, or wrong
//!
//! The paper has a count r of re-hashed buckets, and two invariants: below r a worker goes to the new table, above r
//! to the old table; for bucket r itself there is the HASMOVED bit.
//!
//! * The second invariant holds when r is read, not when the bucket is locked: the expander may have passed any number
//!   of buckets meanwhile. So HASMOVED must be checked under the lock for *every* bucket of the old table. With that
//!   check, a stale r does no harm in this direction. Here r advances once for a batch of buckets, so that its line is
//!   not fetched for each of them.
//! * In the other direction r must not be early: a session that reads that a bucket is below r must find its items in
//!   the new table. The paper names no memory order. The count is stored with Release after the batch and loaded with
//!   Acquire; with less, a machine that reorders stores shows an empty bucket, and a present key is missed.
//! * The paper does not exclude that workers lock a bucket of the new table while the expander
//!   fills it, or that the expander takes those locks, too. M3 says why neither happens here.
//! * The old table is freed after the last change of state. A session that still used it would hold its thread lock
//!   (M1), so this needs no grace period; and no session keeps a reference to a bucket between two of its steps.
//!
//! # Linearization points
//!
//! An operation takes effect at one moment while it holds the bucket's lock. A value that is written in place takes
//! effect as in the ring (`hotring_index::Ring`).
//!
//! # Progress
//!
//! Nothing here is lock-free. A thread that is stopped while it holds a bucket blocks all operations on that bucket. A
//! thread that is stopped in any operation blocks the next change of state, and thereby all operations that begin
//! until it resumes. No lock is held while a caller's closure runs. During system calls (memory for tables, waking the
//! expander) only the phase lock is held, for which no session waits; a scan may have to allocate a longer list under
//! the lock of a crowded bucket. Locks are taken in one order: phase, sessions' list, thread locks; a thread lock
//! before a bucket's; and one bucket at a time.
//!
//! # Memory orders
//!
//! A lock is taken with Acquire and released with Release; that orders the content of chains, and
//! the items that HASMOVED leads to. The tables' addresses are Relaxed under the thread locks.
//! `moved` is Release and Acquire (M4). Nothing is SeqCst.

#[cfg(any(loom, shuttle))]
mod at_rest;
mod chain;
mod engine;
mod expand;
mod locking;
mod scan;
mod table;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod workers;

pub use locking::{Locking, NoLock, OsMutex, TestAndSet};

use crate::settings::{Expander, MercuryConfig};
use expand::{Expansion, Mover};
use hotring_index::Index;
use hotring_index::sync::spin::is_over;
use hotring_index::sync::{Arc, AtomicPtr, AtomicU64, Ordering, TallyU64};
use hotring_index::toolkit::Kind;
use hotring_index::{Config, ConfigError, Growth};
use std::ptr::null_mut;
use table::Table;
use workers::{Entered, Workers};

/// Mercury's engine, with one of three ways to lock a bucket: [`TestAndSet`], [`OsMutex`], or
/// [`NoLock`] for one session at a time.
///
/// Its table doubles when it has more items than buckets, and never shrinks.
pub struct Mercury<L: Locking = TestAndSet> {
    state: State<L>,
    moved: Moved,
    workers: Arc<Workers>,
    expansion: Expansion<L>,
    /// Times that another session had a bucket's lock.
    lock_waits: TallyU64,
}

/// Read by every operation, written at a change of state (M1).
#[repr(align(128))]
struct State<L> {
    current: AtomicPtr<Table<L>>,
    /// The larger table, null while there is none.
    next: AtomicPtr<Table<L>>,
}

/// Read by every operation while the table grows, and written once for a batch of buckets (M4).
#[repr(align(128))]
struct Moved(AtomicU64);

/// The state as a session sees it inside of an operation.
pub(crate) struct Tables<'w, L> {
    pub(crate) current: &'w Table<L>,
    pub(crate) next: Option<&'w Table<L>>,
}

impl<L> Clone for Tables<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for Tables<'_, L> {}

impl<L: Locking> Mercury<L> {
    fn build(config: &Config) -> Result<Self, ConfigError> {
        let grows = match config.growth {
            None => true,
            Some(Growth::Fixed) => false,
            Some(Growth::Auto { .. } | Growth::BytesPerKey(_)) => {
                return Err(ConfigError::Unsupported(
                    "Mercury's table doubles at one item a bucket: leave growth unset, or Fixed; \
                     HotRing and Chaining Hash have other rules",
                ));
            }
        };
        let MercuryConfig { expander } = config.engine.get()?;
        if !L::IS_SHARED && expander == Expander::Thread {
            return Err(ConfigError::Unsupported(
                "without locks no second thread can move buckets: leave the expander to the \
                 sessions, or use the locking test-and-set",
            ));
        }
        let len = config.slots_initial.max(1).next_power_of_two() as u64;
        let table = Table::new(len, config.huge_pages).map_err(ConfigError::NoMemory)?;
        Ok(Self {
            expansion: Expansion::new(config, expander, grows, &table),
            state: State {
                current: AtomicPtr::new(Box::into_raw(table)),
                next: AtomicPtr::new(null_mut()),
            },
            moved: Moved(AtomicU64::new(0)),
            workers: Arc::new(Workers::default()),
            lock_waits: TallyU64::new(0),
        })
    }

    /// Moves buckets to a larger table on the calling thread, until `stop` returns true. Sleeps while there
    /// is nothing to move, so a change of `stop`'s answer must be followed by [`Mercury::wake`]. Returns at
    /// once if sessions do the work ([`Expander::Sessions`]), or another thread does it.
    pub fn maintain<K: Kind>(index: &Index<K, Self>, stop: impl Fn() -> bool) {
        Mover::run(&index.shared, stop);
    }

    /// Wakes the thread in [`Mercury::maintain`], so that it calls `stop` again.
    pub fn wake<K: Kind>(index: &Index<K, Self>) {
        index.shared.engine.expansion.bell.ring();
    }

    /// The tables, which do not change while the session is inside an operation.
    #[inline(always)]
    pub(crate) fn tables<'w>(&'w self, _inside: &'w Entered<'_, L>) -> Tables<'w, L> {
        // SAFETY: the session's thread lock is held, so the tables do not change meanwhile (M1).
        unsafe { self.tables_unchecked() }
    }

    /// # Safety
    /// The state does not change while the result is used: the caller has a thread lock, or the
    /// phase of the expansion, or is the last one.
    #[inline(always)]
    unsafe fn tables_unchecked<'w>(&self) -> Tables<'w, L> {
        // ORDERING: Relaxed, ordered by the lock that the caller has.
        let current = self.state.current.load(Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        let next = self.state.next.load(Ordering::Relaxed);
        // SAFETY: tables are freed by a change of state, and by the drop; the caller's promise.
        unsafe { Tables { current: &*current, next: next.as_ref() } }
    }
}

impl<L: Locking> Drop for Mercury<L> {
    fn drop(&mut self) {
        if is_over() {
            return;
        }
        for table in [&self.state.current, &self.state.next] {
            // ORDERING: Relaxed, no other thread is left.
            let table = table.load(Ordering::Relaxed);
            if !table.is_null() {
                // SAFETY: from `Box::into_raw`, and no other session has it any more.
                drop(unsafe { Box::from_raw(table) });
            }
        }
    }
}
