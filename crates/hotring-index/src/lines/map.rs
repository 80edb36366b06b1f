//! The state that all sessions of a map share: settings, tables, and the number of items.

use super::config::LinesConfig;
use super::lane::Form;
use super::permutation::Permutation;
use super::queue::LinesQueue;
use super::session::LinesSession;
use super::table::{LINES_FULL, LINES_MAX, LINES_MIN, Table};
use crate::core::config::ConfigError;
use crate::core::sync::{Arc, AtomicU64, Mutex, Ordering, TallyI64};
use std::collections::VecDeque;
use std::ptr::NonNull;

/// The load of a table that is created for a given number of items, and the least load at which a crowded stash makes
/// the table grow.
pub(super) const LOAD_MADE: f64 = 0.6;

/// The load for which a smaller table is created on shrinking, so that it does not grow again soon.
const LOAD_SHRUNK: f64 = 0.4;

/// The load below which a table shrinks.
const LOAD_MIN: f64 = 0.15;

/// The stash may hold `STASHED_FEW` items, and one more for some number of lines, before it is a reason to grow.
const STASHED_FEW: u64 = 16;

/// The number of lines for which the stash may hold one item, at the highest load that the settings allow: somewhat
/// more than chance puts there. In 33,334 lines these were 3 items at a load of 0.75, 77 at 0.85, 347 at 0.9.
fn lines_per_stashed(load_max: f64) -> u64 {
    match load_max {
        ..=0.8 => 512,
        ..=0.85 => 256,
        _ => 64,
    }
}

/// A map of `u64` to `u64`. Cloning gives another handle to the same map.
#[derive(Clone)]
pub struct Lines {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) permutation: Permutation,
    pub(super) form: Form,
    config: LinesConfig,
    lines_min: u64,
    /// The number of items that sessions have reported.
    items: TallyI64,
    registry: Mutex<Registry>,
}

struct Registry {
    /// Tables in order. All but the last two have been left: all their homes have moved on, and
    /// they wait for sessions that still use them.
    tables: VecDeque<NonNull<Table>>,
    records: Vec<Arc<Record>>,
    #[cfg(loom)]
    freed: Vec<NonNull<Table>>,
}

/// The part of a session that other threads read.
#[derive(Default)]
pub(super) struct Record {
    /// The session uses no table with a lower number.
    generation: AtomicU64,
    /// The change of the number of items that the session has not reported yet. Only the session
    /// writes it.
    pending: TallyI64,
}

// SAFETY: tables may be used by all threads; the pointers own them.
unsafe impl Send for Registry {}

impl Lines {
    /// An empty map.
    ///
    /// # Errors
    /// Settings out of range, a processor without atomic accesses of 16 bytes, or no address space.
    pub fn new(config: LinesConfig) -> Result<Self, ConfigError> {
        let form = check(&config)?;
        let lines = lines_for(config.capacity, LOAD_MADE);
        let table = Table::new(lines, 0, &config).map_err(ConfigError::NoMemory)?;
        table.open(0..lines);
        let tables = VecDeque::from([NonNull::from(Box::leak(table))]);
        let registry = Registry {
            tables,
            records: Vec::new(),
            #[cfg(loom)]
            freed: Vec::new(),
        };
        let shared = Shared {
            permutation: Permutation::new(config.seed),
            form,
            config,
            lines_min: lines,
            items: TallyI64::new(0),
            registry: Mutex::new(registry),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A new session for the calling thread.
    pub fn session(&self) -> LinesSession {
        LinesSession::new(self.shared.clone())
    }

    /// A queue of operations in flight for the calling thread, with a session of its own.
    pub fn queue<T>(&self) -> LinesQueue<T> {
        LinesQueue::new(self.session())
    }

    /// Items present; exact when no operation is running. O(sessions).
    pub fn len(&self) -> u64 {
        let registry = self.shared.lock();
        // ORDERING: Relaxed, counts.
        let pending = registry.records.iter().map(|record| record.pending.load(Ordering::Relaxed));
        let items = self.shared.items.load(Ordering::Relaxed) + pending.sum::<i64>();
        items.max(0).cast_unsigned()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Statistics of the map. O(sessions).
    pub fn stats(&self) -> LinesStats {
        let registry = self.shared.lock();
        // SAFETY: the lock is held, so no table is freed.
        let tables = || registry.tables.iter().map(|table| unsafe { table.as_ref() });
        let newest = tables().next_back().expect("there is always one");
        LinesStats {
            lines: newest.shape.lines(),
            capacity: newest.shape.capacity(),
            tables: registry.tables.len() as u64,
            table_bytes: tables().filter(|table| !table.is_left()).map(Table::bytes).sum(),
            stashed: tables().map(|table| table.stash.len() as u64).sum(),
            growths: newest.generation,
        }
    }
}

/// Statistics of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinesStats {
    /// Lines of the newest table.
    pub lines: u64,
    /// Lanes of the newest table that may hold items.
    pub capacity: u64,
    /// Tables, including those that have been left and wait for sessions.
    pub tables: u64,
    /// Bytes of the tables in use. Only pages that were touched take memory.
    pub table_bytes: u64,
    /// Items in the stash.
    pub stashed: u64,
    /// Times that the table has grown or shrunk.
    pub growths: u64,
}

fn check(config: &LinesConfig) -> Result<Form, ConfigError> {
    if !(0.6..=0.9).contains(&config.load_max) {
        return Err(ConfigError::Unsupported("load_max must be from 0.6 to 0.9"));
    }
    if !(1.1..=8.0).contains(&config.factor) {
        return Err(ConfigError::Unsupported("factor must be from 1.1 to 8"));
    }
    if config.capacity > LINES_MAX {
        return Err(ConfigError::Unsupported("capacity must be at most 2^40 items"));
    }
    match config.form {
        Some(form) => Some(form).filter(|form| form.is_available()),
        None => Form::best(),
    }
    .ok_or(ConfigError::Unsupported(
        "this processor lacks the instructions: lines need cmpxchg16b, or casp on aarch64",
    ))
}

/// The number of lines at which this many items give this load. Small tables have three lanes a
/// line.
fn lines_for(items: u64, load: f64) -> u64 {
    let lines = |lanes: f64| (items as f64 / (lanes * load)).ceil() as u64;
    let (full, small) = (lines(4.0), lines(3.0));
    if small < LINES_FULL { small.max(LINES_MIN) } else { full.clamp(LINES_FULL, LINES_MAX) }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().expect("no code under this lock panics")
    }

    pub(super) fn huge_pages(&self) -> bool {
        self.config.huge_pages
    }

    /// A record for a session, and the table that it begins with.
    pub(super) fn enter(&self) -> (Arc<Record>, NonNull<Table>) {
        let mut registry = self.lock();
        // SAFETY: the lock is held, so no table is freed.
        let is_left = |table: &NonNull<Table>| unsafe { table.as_ref() }.is_left();
        let first = registry.tables.iter().find(|table| !is_left(table));
        let table = *first.expect("the last one is not left");
        let record = Arc::new(Record::default());
        // SAFETY: as above.
        record.announce(unsafe { table.as_ref() });
        registry.records.push(record.clone());
        (record, table)
    }

    /// Ends a session.
    pub(super) fn leave(&self, record: &Arc<Record>) {
        let mut registry = self.lock();
        registry.records.retain(|other| !Arc::ptr_eq(other, record));
        // ORDERING: Relaxed, counts.
        let pending = record.pending.load(Ordering::Relaxed);
        self.items.fetch_add(pending, Ordering::Relaxed);
        registry.free_left();
    }

    /// Adds a session's unreported change to the number of items; returns the sum.
    pub(super) fn count(&self, record: &Record, pending: i64) -> i64 {
        // ORDERING: Relaxed, counts.
        record.pending.store(0, Ordering::Relaxed);
        self.items.fetch_add(pending, Ordering::Relaxed) + pending
    }

    /// Begins to grow or to shrink if this number of items requires it. Does nothing while another resize is under
    /// way, while another thread holds the registry's lock, or if there is no memory.
    pub(super) fn fit(&self, items: i64, table: &Table) {
        let (items, capacity) = (items.max(0) as f64, table.shape.capacity() as f64);
        let is_high = items > capacity * self.config.load_max;
        if is_high {
            self.grow(table);
        } else if items < capacity * LOAD_MIN && self.config.shrinks {
            self.shrink(items as i64, table);
        }
    }

    /// Begins to shrink to the size that this many items need.
    pub(super) fn shrink(&self, items: i64, table: &Table) -> bool {
        let lines = lines_for(items.max(0).cast_unsigned(), LOAD_SHRUNK).max(self.lines_min);
        lines < table.shape.lines() && self.resize(table, lines)
    }

    /// Called when an item went to the stash, with this number of items: begins to grow if the stash holds more items
    /// than chance puts there and the load of the table is high enough, or if the number alone requires it.
    #[cold]
    pub(super) fn note_overflow(&self, items: i64, table: &Table) {
        let chance = table.shape.lines() / lines_per_stashed(self.config.load_max);
        let is_many = table.stash.len() as u64 > STASHED_FEW + chance;
        if is_many && items as f64 > table.shape.capacity() as f64 * LOAD_MADE {
            self.grow(table);
        } else {
            self.fit(items, table);
        }
    }

    /// Begins to grow by the factor.
    pub(super) fn grow(&self, table: &Table) -> bool {
        let capacity = (table.shape.capacity() as f64 * self.config.factor) as u64;
        self.resize(table, lines_for(capacity, 1.0))
    }

    /// Creates the table that follows `table`, which must be the newest one. False: not possible
    /// now.
    fn resize(&self, table: &Table, lines: u64) -> bool {
        let Ok(mut registry) = self.registry.try_lock() else { return false };
        let newest = *registry.tables.back().expect("there is always one");
        if !std::ptr::eq(newest.as_ptr(), table) || lines == table.shape.lines() {
            return false;
        }
        // SAFETY: the lock is held, so no table is freed.
        let is_left = |table: &NonNull<Table>| unsafe { table.as_ref() }.is_left();
        if registry.tables.iter().rev().nth(1).is_some_and(|before| !is_left(before)) {
            return false;
        }
        let Ok(next) = Table::new(lines, table.generation + 1, &self.config) else { return false };
        let next = NonNull::from(Box::leak(next));
        registry.tables.push_back(next);
        // SAFETY: it was just made.
        table.set_next(unsafe { next.as_ref() });
        true
    }

    /// Frees tables that no session can reach.
    pub(super) fn free_left(&self) {
        if let Ok(mut registry) = self.registry.try_lock() {
            registry.free_left();
        }
    }
}

impl Record {
    /// Declares that the session uses only this table and later ones.
    pub(super) fn announce(&self, table: &Table) {
        // ORDERING: Release: the session's accesses of earlier tables happen before those tables
        // are freed.
        self.generation.store(table.generation, Ordering::Release);
    }

    /// Publishes the change that the session has not reported yet.
    #[inline(always)]
    pub(super) fn note(&self, pending: i64) {
        // ORDERING: Relaxed, a count.
        self.pending.store(pending, Ordering::Relaxed);
    }
}

impl Registry {
    /// Frees left tables in order, up to the oldest table that a session announces: a session reaches only the table
    /// that it announces and later ones.
    fn free_left(&mut self) {
        // ORDERING: Acquire pairs with the Release in `announce`.
        let announced = self.records.iter().map(|record| record.generation.load(Ordering::Acquire));
        let oldest = announced.min().unwrap_or(u64::MAX);
        while self.tables.len() > 1 {
            let first = self.tables[0];
            // SAFETY: the lock is held, so no other thread frees it.
            let table = unsafe { first.as_ref() };
            let is_announced = table.generation >= oldest && !wrong!(table, LinesFreeEarly);
            if !table.is_left() || is_announced {
                return;
            }
            self.tables.pop_front();
            #[cfg(loom)]
            {
                // The table stays allocated, so that a late use fails an assertion instead of being undefined.
                // ORDERING: Relaxed: under loom one thread runs at a time.
                table.life.is_freed.store(true, Ordering::Relaxed);
                self.freed.push(first);
                continue;
            }
            // SAFETY: the table came from a box. No session uses it or an earlier table, and none can reach it: the
            // earlier tables are freed, and new sessions begin with a table that has not been left.
            #[cfg(not(loom))]
            drop(unsafe { Box::from_raw(first.as_ptr()) });
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        #[cfg(loom)]
        self.tables.extend(self.freed.drain(..));
        for table in self.tables.drain(..) {
            // SAFETY: the table came from a box, and sessions hold the map, so no session is left.
            drop(unsafe { Box::from_raw(table.as_ptr()) });
        }
    }
}
