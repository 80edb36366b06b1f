//! Moving from one table to the next, larger or smaller, home by home; and the rules by which a
//! move begins.
//!
//! Sessions claim homes in order, some at a time. The session that has claimed a home is the only one that moves it:
//!
//! 1. It opens the lines of the new table to which the home's positions belong.
//! 2. It takes the home's LOCK: no key of it is inserted from here on.
//! 3. It freezes each item, and puts a frozen copy of the lane into the new table.
//! 4. It clears ACTIVE: from now on readers that miss go on to the new table, where they find the copies.
//! 5. For each item: it clears the old lane, and then thaws the copy.
//! 6. It gives the LOCK back and counts the home.
//!
//! Pages that no home needs any more go back to the system at once; they read as zeros, as homes that have moved on do.
//! The session that counts the last home makes the new table the current one, and leaves the old one to a grace period:
//! sessions that are pinned may still look there.

use super::ItemLines;
use super::table::{MASK, Shape, TAG_BITS, Table, bytes_for};
use super::write::Placed;
use crate::core::hooks::sometimes;
use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::engine::{RESIZE_INTERVAL, Sizing};
use crate::lines::bits::{ACTIVE, FROZEN, STASHED, reach_of};
use crate::lines::lane::{Form, Search, by_form};
use crate::lines::lookup::Found;
use crate::lines::memory::WINDOW;
use crate::lines::relocate;
use crate::lines::sweep::freeze;
use crate::lines::write::{lock, unlock};
use crate::session::Pinned;
use std::ptr::NonNull;

/// Homes that a session moves at a time: about 40 items.
pub(super) const CHUNK: u64 = if cfg!(loom) { 1 } else { 16 };

/// The share of taken lanes above which the table grows, and the share above which a crowded stash makes it grow.
const LOAD_MAX: f64 = 0.75;
const LOAD_CROWDED: f64 = 0.6;

/// Tables of at least this many lines, 4 MiB, grow by a quarter: items that come one by one fill them to two thirds on
/// average, and to 0.54 if tables double. An insert then moves three more items, but each in few instructions.
const LINES_LARGE: u64 = 1 << 16;

/// The share of taken lanes below which a table shrinks, and the highest share after it has shrunk.
const LOAD_MIN: f64 = 0.15;
const LOAD_SHRUNK: f64 = 0.4;

/// The stash may hold `STASHED_FEW` items, and one more for each `LINES_A_STASHED` lines, before it
/// is a reason to grow.
const STASHED_FEW: u64 = 16;
const LINES_A_STASHED: u64 = 4096;

/// Homes that a session tidies after `RESIZE_INTERVAL` removals. So each home is tidied once in the time in which all
/// items are removed about twice.
const TIDY_HOMES: u64 = 16;

/// Lanes of a line.
const LANES: f64 = 4.0;

const _: () = assert!(WINDOW.is_multiple_of(CHUNK));

/// A table that homes have moved on from.
pub(super) struct Left {
    /// Sessions may use the table until this grace period is over.
    tag: u64,
    /// The table, which this owns. No `Box`: that would claim that no session has a reference to it.
    table: NonNull<Table>,
}

// SAFETY: a table may be freed by another thread than the one that made it.
unsafe impl Send for Left {}

impl Left {
    fn table(&self) -> &Table {
        // SAFETY: this owns the table.
        unsafe { self.table.as_ref() }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and no session uses the table: the grace period is over, or no session is left.
        drop(unsafe { Box::from_raw(self.table.as_ptr()) });
    }
}

/// An item that is being moved.
struct Moving<'o, 'n> {
    /// Its lane in the old table; `None`: it is in the stash.
    from: Option<Found<'o>>,
    to: Placed<'n>,
    position: u64,
    value: u64,
}

impl ItemLines {
    /// Called after each insert.
    #[inline(always)]
    pub(super) fn after_insert<K: Kind>(p: &mut Pinned<'_, K, Self>, is_stashed: bool) {
        if is_stashed {
            // ORDERING: Relaxed, statistics.
            p.engine.stashed.fetch_add(1, Ordering::Relaxed);
        }
        p.local.inserts += 1;
        if u64::from(p.local.inserts) >= (p.engine.lines() / 16).clamp(1, RESIZE_INTERVAL.into())
            || is_stashed
        {
            p.local.inserts = 0;
            Self::grow_if_due(p);
            Self::free_some(p);
        }
        Self::move_some(p);
    }

    /// Called after each removal.
    #[inline(always)]
    pub(super) fn after_removal<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        p.local.removals += 1;
        if p.local.removals >= RESIZE_INTERVAL {
            p.local.removals = 0;
            by_form!(p.engine.form, S => {
                relocate::tidy_some(p.engine.table(), TIDY_HOMES, |index| {
                    relocate::tidy_home::<S, _>(p.engine.table(), index, &mut ());
                });
            });
            Self::shrink_if_due(p);
            Self::free_some(p);
        }
        Self::move_some(p);
    }

    #[cold]
    #[inline(never)]
    fn grow_if_due<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        let table = p.engine.table();
        if !p.engine.grows || table.next().is_some() {
            return;
        }
        let (items, lines) = (p.shared.items().max(0) as f64, table.shape.lines());
        let room = lines as f64 * LANES;
        let is_crowded = || table.stash.len() as u64 > STASHED_FEW + lines / LINES_A_STASHED;
        let is_due = items > room * LOAD_MAX || items > room * LOAD_CROWDED && is_crowded();
        if is_due {
            // Both tables take memory for a while. If the memory limit does not allow the largest
            // step, tries smaller ones.
            let sizes = [lines * 2, lines + lines / 2, lines + lines / 4];
            let is_large = lines >= LINES_LARGE;
            let mut sizes = sizes.into_iter().skip(if is_large { 2 } else { 0 });
            if let Some(lines) = sizes.find(|lines| p.shared.may_take(bytes_for(*lines))) {
                Self::begin(p, lines);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn shrink_if_due<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        let (items, lines) = (p.shared.items().max(0) as f64, p.engine.table().shape.lines());
        if p.engine.grows && items < lines as f64 * LANES * LOAD_MIN {
            Self::begin(p, (items / (LANES * LOAD_SHRUNK)).ceil() as u64);
        }
    }

    /// Whether this many items exceed the load at which the table grows.
    pub(super) fn is_full_with(&self, items: u64) -> bool {
        items as f64 > self.lines() as f64 * LANES * LOAD_MAX
    }

    /// Begins to move to a table of about this many lines. False: not now, or not at all.
    pub(super) fn begin<K: Kind>(p: &mut Pinned<'_, K, Self>, lines: u64) -> bool {
        let engine = p.engine;
        let lines = lines.clamp(engine.lines_min, engine.lines_max);
        let Some(_alone) = engine.left.try_lock() else { return false };
        let table = engine.table();
        if table.next().is_some() || lines == table.shape.lines() {
            return false;
        }
        // If there is no memory for the next table, the table stays as it is.
        let Ok(next) = Table::new(lines, &p.shared.config, &engine.in_stash) else { return false };
        // ORDERING: Relaxed, advice.
        engine.pending.fetch_add(1, Ordering::Relaxed);
        // ORDERING: Relaxed, reports.
        engine.bytes.fetch_add(next.bytes(), Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        engine.lines.store(lines, Ordering::Relaxed);
        let counts = if lines > table.shape.lines() { &engine.growths } else { &engine.shrinks };
        // ORDERING: Relaxed, statistics.
        counts.fetch_add(1, Ordering::Relaxed);
        table.set_next(next);
        sometimes!(Grown);
        true
    }

    /// Moves some homes if a sweep is under way. False: none is, or all homes are claimed.
    #[inline(always)]
    pub(super) fn move_some<K: Kind>(p: &mut Pinned<'_, K, Self>) -> bool {
        let table = p.engine.table();
        match table.next() {
            Some(next) => Self::move_chunk(p, table, next),
            None => false,
        }
    }

    #[cold]
    #[inline(never)]
    fn move_chunk<K: Kind>(p: &mut Pinned<'_, K, Self>, table: &Table, next: &Table) -> bool {
        let Some(homes) = table.claim(CHUNK) else { return false };
        next.open(&table.shape, homes.clone());
        let mut moving = Vec::with_capacity(64);
        for index in homes.clone() {
            by_form!(p.engine.form, S => Self::move_home::<S, K>(p, (table, next), index, &mut moving));
        }
        let count = homes.end - homes.start;
        // ORDERING: Relaxed, statistics.
        p.engine.homes_moved.fetch_add(count, Ordering::Relaxed);
        let (bytes, is_last) = table.count_moved(&homes);
        // ORDERING: Relaxed, a report.
        p.engine.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if is_last {
            Self::leave(p, table);
        }
        true
    }

    fn move_home<'o, 'n, S: Search, K: Kind>(
        p: &Pinned<'_, K, Self>,
        (table, next): (&'o Table, &'n Table),
        index: u64,
        moving: &mut Vec<Moving<'o, 'n>>,
    ) {
        let (shape, line) = (&table.shape, table.shape.line(index));
        let Some(control) = lock(line) else {
            unreachable!("a home moves on once, by the session that has claimed it")
        };
        let reach = reach_of(control);
        shape.each_item::<S>(index, reach, |found| {
            let word = match wrong!(table, LinesMoveUnfrozen) {
                true => Some(found.pair.word),
                false => freeze(&found, MASK),
            };
            if let Some(word) = word {
                let value = found.lane.value();
                let position = Self::position(p, shape, index, word, value);
                let to = next.put_copy::<S>(position, value);
                moving.push(Moving { from: Some(found), to, position, value });
            }
        });
        if reach == STASHED {
            let mut stashed = Vec::new();
            table.stash.freeze(shape.positions(index), |position, value| {
                stashed.push((position, value));
            });
            for (position, value) in stashed {
                let to = next.put_copy::<S>(position, value);
                moving.push(Moving { from: None, to, position, value });
            }
        }
        if wrong!(table, LinesThawFirst) {
            moving.iter().for_each(|moving| moving.thaw(next));
        }
        line.head().clear(ACTIVE);
        for moving in moving.drain(..) {
            match &moving.from {
                Some(found) => found.empty_frozen::<S>(),
                None => table.stash.remove(moving.position, moving.value),
            }
            moving.thaw(next);
        }
        unlock(line);
    }

    /// The position of an item of a home. The lane tells it for short hashes, so that the item's memory is not read. A
    /// longer hash is the item's; if the item is damaged, the lane tells its position roughly.
    fn position<K: Kind>(
        p: &Pinned<'_, K, Self>,
        shape: &Shape,
        index: u64,
        word: u64,
        value: u64,
    ) -> u64 {
        if K::HASH_BITS <= TAG_BITS {
            return shape.position(index, word);
        }
        let position = p.shared.kind.item_hash(Self::item(p, value)).reverse_bits();
        let home = shape.home(position);
        let is_sound = home.index == index && shape.has_tag(home, word);
        if is_sound { position } else { shape.position(index, word) }
    }

    /// Makes the next table the current one.
    fn leave<K: Kind>(p: &mut Pinned<'_, K, Self>, table: &Table) {
        let engine = p.engine;
        let mut left = engine.left.lock();
        // ORDERING: AcqRel: all moves come before it (`count_moved`), so a session that begins with the new table
        // finds them done.
        let next = std::ptr::from_ref(table.after()).cast_mut();
        // ORDERING: as above.
        let old = engine.current.0.swap(next, Ordering::AcqRel);
        let table = NonNull::new(old).expect("there is always a current table");
        left.push_back(Left { tag: p.local.participant.grace(), table });
    }

    /// Makes sure that a left table is freed even if sessions only insert, which gives the collector nothing to
    /// collect.
    fn free_some<K: Kind>(p: &mut Pinned<'_, K, Self>) {
        if p.engine.is_busy() && p.engine.table().next().is_none() && !Self::free_left(p) {
            p.local.participant.request_collection();
        }
    }

    /// Frees a left table if no session can use it: most of its memory went back while its homes moved on. False: there
    /// is nothing to free now.
    pub(super) fn free_left<K: Kind>(p: &Pinned<'_, K, Self>) -> bool {
        let engine = p.engine;
        let Some(mut all) = engine.left.try_lock() else { return false };
        let Some(left) = all.front() else { return false };
        if !p.shared.collector.is_over(left.tag) {
            return false;
        }
        // ORDERING: Relaxed, a report.
        engine.bytes.fetch_sub(left.table().bytes(), Ordering::Relaxed);
        // ORDERING: Relaxed, advice.
        engine.pending.fetch_sub(1, Ordering::Relaxed);
        all.pop_front();
        true
    }
}

impl Moving<'_, '_> {
    /// Unfreezes the copy, which is the only one left.
    fn thaw(&self, next: &Table) {
        match self.to {
            Placed::Lane(lane) => lane.clear(FROZEN),
            Placed::Stash => next.stash.thaw(self.position, self.value),
        }
    }
}

impl Table {
    /// Puts a frozen copy of a lane of the previous table into this table.
    fn put_copy<S: Search>(&self, position: u64, value: u64) -> Placed<'_> {
        let home = self.shape.home(position);
        let line = self.shape.line(home.index);
        lock(line).expect("the lines of the next table were opened before");
        let placed = self.put_in::<S>(home, position, value, FROZEN);
        unlock(line);
        placed
    }
}
