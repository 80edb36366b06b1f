//! Moving from one table to the next, larger or smaller, home by home.
//!
//! Threads claim homes in order, some at a time. The thread that has claimed a home is the only one that moves it:
//!
//! 1. It opens the lines of the new table to which the home's hashes belong.
//! 2. It takes the home's LOCK: no key of it is inserted from here on.
//! 3. It freezes each item, and puts a frozen copy into the new table.
//! 4. It clears ACTIVE: from now on readers that miss go on to the new table, where they find the copies.
//! 5. For each item: it clears the old lane, and then thaws the copy.
//! 6. It gives the LOCK back and counts the home.
//!
//! At no moment can one of two copies change, and at no moment is a key in neither table. A thread that takes a LOCK
//! in both tables must take that of the old table first; no thread may hold two of one table. A table begins to move
//! on only when the table before it has been left, so that its lines stay open until then.

use super::bits::{ACTIVE, FROZEN, STASHED, reach_of};
use super::lane::Search;
use super::lookup::Found;
use super::memory::WINDOW;
use super::stash::{Spare, Stashed};
use super::table::Table;
use super::write::{Put, lock, put_in, unlock};
use crate::core::sync::Ordering;
use std::ops::Range;

/// Homes that a thread moves at a time: about 12 items.
const CHUNK: u64 = if cfg!(loom) { 1 } else { 4 };
/// As many if the next table is less than a third larger: it would be full, or a smaller one's stash, before a sweep
/// by few homes ends.
const LARGE_CHUNK: u64 = if cfg!(loom) { 1 } else { 16 };
const _: () = assert!(WINDOW.is_multiple_of(CHUNK) && WINDOW.is_multiple_of(LARGE_CHUNK));

/// Lines of a page.
const PAGE: u64 = 64;

/// Moves some homes on. False: there are no homes left to claim.
pub(super) fn step<S: Search>(table: &Table, next: &Table, spare: &mut Spare) -> bool {
    let lines = table.shape.lines();
    let chunk = if 3 * next.shape.lines() >= 4 * lines { CHUNK } else { LARGE_CHUNK };
    // ORDERING: Relaxed, a look that keeps the counter from running away.
    if table.claimed.load(Ordering::Relaxed) >= lines {
        return false;
    }
    // ORDERING: Relaxed: it decides which thread moves what, and nothing is read through it.
    let start = table.claimed.fetch_add(chunk, Ordering::Relaxed);
    if start >= lines {
        return false;
    }
    let homes = start..lines.min(start + chunk);
    open(table, next, homes.clone());
    if wrong!(table, LinesCountedEarly) {
        table.count_moved(homes.clone());
    }
    for index in homes.clone() {
        while !move_home::<S>(table, next, index, spare) {
            spare.fill();
        }
    }
    if !wrong!(table, LinesCountedEarly) {
        table.count_moved(homes);
    }
    true
}

/// The line of the next table that the moving threads have reached.
pub(super) fn position(table: &Table, next: &Table) -> u64 {
    // ORDERING: Relaxed, advice.
    let home = table.claimed.load(Ordering::Relaxed).min(table.shape.lines() - 1);
    next.shape.home(*table.shape.hashes(home).start()).index
}

/// Makes those lines of the next table homes that the keys of these homes belong to. The lines cannot have moved on
/// already: that begins when this table has been left, which cannot be before these homes are counted.
fn open(table: &Table, next: &Table, homes: Range<u64>) {
    let first = next.shape.home(*table.shape.hashes(homes.start).start()).index;
    let last = next.shape.home(*table.shape.hashes(homes.end - 1).end()).index;
    // Touches the pages that sequences reach, so that no page fault happens under a LOCK. Earlier pages were touched
    // with earlier homes.
    let spare = next.shape.spare();
    let from = if homes.start == 0 { 0 } else { first + spare };
    for index in (from.next_multiple_of(PAGE)..=last + spare).step_by(PAGE as usize) {
        next.shape.line(index).head().touch();
    }
    next.open(first..last + 1);
}

/// Moves a home on. False: there were too few spare nodes for its items in the stash, and the home
/// is unchanged.
fn move_home<S: Search>(table: &Table, next: &Table, index: u64, spare: &mut Spare) -> bool {
    let shape = &table.shape;
    let line = shape.line(index);
    let Some(control) = lock(line) else {
        unreachable!("a home moves on once, by the thread that has claimed it")
    };
    let reach = reach_of(control);
    let mut copies = Copies::default();
    if !copy_home::<S>(table, next, index, reach, spare, &mut copies) {
        take_back::<S>(table, next, index, reach, spare);
        unlock(line);
        return false;
    }
    if wrong!(table, LinesThawFirst) {
        shape.each_item::<S>(index, reach, |found| {
            thaw::<S>(next, shape.hash(index, found.pair.word));
        });
    }
    line.head().clear(ACTIVE);
    if !copies.finish::<S>(table, next) {
        // The other items of a home that has more than `Copies` knows.
        shape.each_item::<S>(index, reach, |found| {
            found.clear_moved::<S>(table);
            thaw::<S>(next, shape.hash(index, found.pair.word));
        });
    }
    if reach == STASHED {
        let hashes = shape.hashes(index);
        while let Some(hash) = table.stash.first(&hashes) {
            table.stash.remove(hash, spare);
            thaw::<S>(next, hash);
        }
    }
    unlock(line);
    true
}

/// Items of a home and their copies in lanes of the next table: as many as most homes have, so that these are not
/// looked for again.
#[derive(Default)]
struct Copies<'t> {
    pairs: [Option<(Found<'t>, Found<'t>)>; 8],
    len: usize,
    /// Whether there are items that are not among these.
    are_others: bool,
}

impl<'t> Copies<'t> {
    fn add(&mut self, found: Found<'t>, copy: Found<'t>) {
        match self.pairs.get_mut(self.len) {
            Some(pair) => *pair = Some((found, copy)),
            None => self.are_others = true,
        }
        self.len += 1;
    }

    /// Empties the lanes of the known items, and then unfreezes their copies. False: there are others.
    fn finish<S: Search>(&self, table: &Table, next: &Table) -> bool {
        for (found, copy) in self.pairs.iter().map_while(Option::as_ref) {
            found.clear_moved::<S>(table);
            copy.thaw(next);
        }
        !self.are_others
    }
}

/// Freezes the items of a home and puts frozen copies into the next table. False: there was no spare node for one.
fn copy_home<'t, S: Search>(
    table: &'t Table,
    next: &'t Table,
    index: u64,
    reach: u64,
    spare: &mut Spare,
    copies: &mut Copies<'t>,
) -> bool {
    let (shape, mut is_whole) = (&table.shape, true);
    shape.each_item::<S>(index, reach, |found| {
        if !is_whole {
            return;
        }
        let word = match wrong!(table, LinesMoveUnfrozen) {
            true => Some(found.pair.word),
            false => freeze(&found, *shape.mask()),
        };
        if let Some(word) = word {
            let put = copy::<S>(next, shape.hash(index, word), found.lane.value(), spare);
            is_whole = !matches!(put, Put::Unprepared);
            match put {
                Put::Lane(copy) => copies.add(found, copy),
                Put::Stash => copies.are_others = true,
                Put::Unprepared => {}
            }
        }
    });
    is_whole && (reach != STASHED || copy_stash::<S>(table, next, index, spare))
}

/// Removes the copies of a home's items and lets the items change again, in this order. No reader has seen a copy, as
/// the home is ACTIVE.
#[cold]
fn take_back<S: Search>(table: &Table, next: &Table, index: u64, reach: u64, spare: &mut Spare) {
    let shape = &table.shape;
    shape.each_item::<S>(index, reach, |found| {
        if found.pair.word & FROZEN != 0 {
            remove_copy::<S>(next, shape.hash(index, found.pair.word), spare);
            found.thaw(table);
        }
    });
    each_stashed(table, index, |hash| {
        remove_copy::<S>(next, hash, spare);
        table.stash.thaw(hash);
        true
    });
}

fn remove_copy<S: Search>(next: &Table, hash: u64, spare: &mut Spare) {
    let home = next.shape.home(hash);
    let reach = reach_of(next.shape.line(home.index).control());
    match next.shape.find::<S>(home, reach) {
        Some(copy) => copy.clear_moved::<S>(next),
        None => next.stash.remove(hash, spare),
    }
}

/// Freezes an item; None if it was removed before. `mask` has the bits that identify the item and its line: another
/// item in the lane may be of another home. Must be called under the LOCK of the home, so that no equal item of the
/// home can be inserted.
pub(super) fn freeze(found: &Found<'_>, mask: u64) -> Option<u64> {
    let mut word = found.pair.word;
    while !found.lane.swap_word(word, word | FROZEN) {
        word = found.lane.word();
        if (word ^ found.pair.word) & mask != 0 {
            return None;
        }
    }
    Some(word)
}

/// Puts a frozen copy into the next table.
fn copy<'t, S: Search>(next: &'t Table, hash: u64, value: u64, spare: &mut Spare) -> Put<'t> {
    let home = next.shape.home(hash);
    let line = next.shape.line(home.index);
    lock(line).expect("the lines of the next table were opened before");
    let item = Stashed { value, is_frozen: true };
    let put = put_in::<S>(next, home, hash, item, spare);
    unlock(line);
    put
}

#[cold]
fn copy_stash<S: Search>(table: &Table, next: &Table, index: u64, spare: &mut Spare) -> bool {
    each_stashed(table, index, |hash| {
        let item = table.stash.freeze(&(hash..=hash));
        item.is_none_or(|(hash, item)| {
            !matches!(copy::<S>(next, hash, item.value, spare), Put::Unprepared)
        })
    })
}

/// Calls `f` with each hash of a home that is in the stash until it says false; returns what it said last.
fn each_stashed(table: &Table, index: u64, mut f: impl FnMut(u64) -> bool) -> bool {
    let hashes = table.shape.hashes(index);
    let mut from = Some(*hashes.start());
    while let Some(hash) = from.and_then(|from| table.stash.first(&(from..=*hashes.end()))) {
        if !f(hash) {
            return false;
        }
        from = hash.checked_add(1).filter(|next| hashes.contains(next));
    }
    true
}

/// Unfreezes a copy.
fn thaw<S: Search>(next: &Table, hash: u64) {
    let home = next.shape.home(hash);
    let reach = reach_of(next.shape.line(home.index).control());
    match next.shape.find::<S>(home, reach) {
        Some(found) => found.thaw(next),
        None => _ = next.stash.thaw(hash),
    }
}
