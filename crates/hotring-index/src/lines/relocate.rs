//! Moves within a table: displaced items come nearer to their homes, hot ones first. Both kinds of lines move items by
//! this code ([`Homes`]).
//!
//! A move takes place under the LOCK of the item's home, in this order: the item is frozen; a frozen copy is put into
//! a free lane of its sequence; the home's count of moves is raised; the old lane is cleared; the copy thaws. So a
//! reader that misses because it looked at the new lane before the move and at the old lane after it finds that the
//! count has changed, and looks again. The counts have 64 bits and never wrap. A frozen item is not touched: its table
//! is being filled by the threads that move homes, and the copy is theirs.
//!
//! Items move outward only from a home whose REACH is not 0, and REACH then never becomes 0 again (SPREAD). So a home
//! with REACH 0 has had no move since it was read, and its misses need no count.
//!
//! *Tidying* is paid for by removals: items of a home move inward where lanes have become free, those in the stash
//! included, and REACH falls to what is needed. The home whose line has got a free lane and the home of the removed
//! item are tidied soon ([`Untidied`]), all other homes in order, some at a time.

use super::bits::{
    FROZEN, HEAT, LIVE, PROBE, PROBE_MAX, SPREAD, STASHED, probe, probe_of, reach_of, with_reach,
};
use super::lane::{Line, Pair, Search};
use super::lookup::Found;
use super::stash::Spare;
use super::sweep::freeze;
use super::table::Table;
use super::write::{lock, raise_reach, unlock};
use crate::core::prefetch::prefetch;
use crate::core::sync::{AtomicU64, Ordering};
use std::ops::RangeInclusive;

/// The number of homes that wait: enough for their lines to arrive.
const WAITING: usize = if cfg!(loom) { 1 } else { 8 };

/// The lines of a sequence are fetched up to this number: few items are further out.
const FETCHED: u64 = 2;

/// A table within which items move.
pub(super) trait Homes {
    /// What a thread must have at hand to take an item out of the stash.
    type Spare;

    /// The number of homes.
    fn homes(&self) -> u64;

    /// A line by its number.
    fn line(&self, index: u64) -> &Line;

    /// The number of a line.
    fn index(&self, line: &Line) -> u64;

    /// The distance between the lines of the sequence of a word's key.
    fn step(&self, word: u64) -> u64;

    /// The bits of a word that determine the home and the PROBE of its item.
    fn mask(&self) -> u64;

    /// HEAT, or 0 in a table whose words have none.
    fn heat(&self) -> u64;

    /// Lanes that may have items, as bits `2 * lane`.
    fn lanes(&self) -> u32;

    /// Whether homes move on to a next table.
    fn is_moving_on(&self) -> bool;

    /// Claims homes that are to be tidied next, in order; returns the first one, modulo their number.
    fn tidied(&self, homes: u64) -> u64;

    /// Locks a home to tidy it; returns its control word. `None`: it has moved on.
    fn lock_to_tidy(&self, line: &Line) -> Option<u64> {
        lock(line)
    }

    /// Counts a move. Must be called after the copy is in its lane and before the old lane is cleared.
    fn count_move(&self, index: u64);

    /// Calls `see` with each item of a home, except those in the stash.
    fn each_item<'t, S: Search>(&'t self, index: u64, reach: u64, see: impl FnMut(Found<'t>));

    /// Moves items of a home from the stash into free lanes; returns the REACH that these need, STASHED if some items
    /// are left. Must be called under the home's LOCK.
    fn unstash<S: Search>(&self, index: u64, spare: &mut Self::Spare) -> u64;

    /// Empties the lane of an item that has moved.
    fn clear_moved<S: Search>(&self, found: &Found<'_>) {
        found.empty_frozen::<S>();
    }

    /// Unfreezes an item, which is the only copy left.
    fn thaw(&self, found: &Found<'_>) {
        found.lane.clear(FROZEN);
    }
}

/// Counters of the moves of items within a table. The low bits of a home's number select its counter.
pub(super) struct Moves(Box<[AtomicU64]>);

impl Moves {
    /// Counters for this number of lines: a power of two, small enough to stay in the cache.
    pub(super) fn new(lines: u64) -> Self {
        let counters = (lines / 256).min(1024).next_power_of_two();
        Self((0..counters).map(|_| AtomicU64::new(0)).collect())
    }

    fn counter(&self, index: u64) -> &AtomicU64 {
        &self.0[index as usize & (self.0.len() - 1)]
    }

    /// The count of moves of a home. An acquire.
    #[inline(always)]
    pub(super) fn of(&self, index: u64) -> u64 {
        // ORDERING: Acquire pairs with the AcqRel in `raise`: the copy of the item is seen, too.
        self.counter(index).load(Ordering::Acquire)
    }

    /// Counts a move of an item of a home.
    pub(super) fn raise(&self, index: u64) {
        // ORDERING: AcqRel: the copy comes before, the clearing after.
        self.counter(index).fetch_add(1, Ordering::AcqRel);
    }
}

/// Calls `tidy` with those homes that have items elsewhere, of some homes from the table's cursor on.
#[cold]
#[inline(never)]
pub(super) fn tidy_some<T: Homes>(table: &T, homes: u64, mut tidy: impl FnMut(u64)) {
    let first = table.tidied(homes);
    for index in (first..first + homes).map(|index| index % table.homes()) {
        // If the table is being left, the move to the next table tidies all homes.
        if table.is_moving_on() {
            return;
        }
        if reach_of(table.line(index).control()) != 0 {
            tidy(index);
        }
    }
}

/// After the removal of an item from a line: calls `tidy` with the home of the item, if it was displaced, and with that
/// of the line, whose displaced items have a free lane now.
#[inline(always)]
pub(super) fn after_removal<T: Homes>(table: &T, removed: &Found<'_>, mut tidy: impl FnMut(u64)) {
    let word = removed.pair.word;
    let (number, reach) = (probe_of(word), reach_of(removed.line.control()));
    if number == 0 && reach == 0 {
        return;
    }
    std::hint::cold_path();
    let line = table.index(removed.line);
    if number > 0 {
        tidy(line - number * table.step(word));
    }
    if reach > 0 && line < table.homes() {
        tidy(line);
    }
}

/// Tidies a home, unless the table is being left.
pub(super) fn tidy_home<S: Search, T: Homes>(table: &T, index: u64, spare: &mut T::Spare) {
    let line = table.line(index);
    if table.is_moving_on() {
        return;
    }
    let Some(control) = table.lock_to_tidy(line) else { return };
    let reach = reach_of(control);
    let mut needed = u64::from(control & SPREAD != 0);
    table.each_item::<S>(index, reach, |found| {
        let number = probe_of(found.pair.word);
        if number > 0 {
            let at = relocate::<S, T>(table, index, &found, 0..=number - 1);
            needed = needed.max(at.unwrap_or(number));
        }
    });
    if reach == STASHED {
        needed = needed.max(table.unstash::<S>(index, spare));
    }
    if needed < reach {
        lower_reach(line, needed);
    }
    unlock(line);
}

/// Must be called under LOCK, so that no other thread changes REACH; lane 0's item may still change
/// meanwhile.
fn lower_reach(line: &Line, reach: u64) {
    loop {
        let control = line.control();
        if line.head().swap_word(control, with_reach(control, reach)) {
            return;
        }
    }
}

/// Moves an item to the first free lane in these lines of its sequence; returns the number of the line. Must be called
/// under the LOCK of its home.
fn relocate<S: Search, T: Homes>(
    table: &T,
    index: u64,
    found: &Found<'_>,
    numbers: RangeInclusive<u64>,
) -> Option<u64> {
    if found.pair.word & FROZEN != 0 {
        return None;
    }
    let word = freeze(found, table.mask())?;
    let word = word & (table.mask() | table.heat()) & !PROBE;
    let Some((number, copy)) = place::<S, T>(table, index, word, numbers, found.lane.value())
    else {
        table.thaw(found);
        return None;
    };
    table.count_move(index);
    table.clear_moved::<S>(found);
    table.thaw(&copy);
    Some(number)
}

/// Puts a frozen copy of an item of this home into the first free lane. `word` is the item's, with PROBE 0.
pub(super) fn place<'t, S: Search, T: Homes>(
    table: &'t T,
    index: u64,
    word: u64,
    mut numbers: RangeInclusive<u64>,
    value: u64,
) -> Option<(u64, Found<'t>)> {
    let (word, step) = (word | FROZEN, table.step(word));
    numbers.find_map(|number| {
        let line = table.line(index + number * step);
        while let Some(free) = Found::free::<S>(line, table.lanes()) {
            raise_reach(table.line(index), number);
            let pair = Pair { word: free.line_bits() | word | probe(number), value };
            if free.lane.swap(free.pair, pair) {
                return Some((number, Found { pair, ..free }));
            }
        }
        None
    })
}

/// Notes a sampled read of an item of this home, which `find` finds in the lines up to a number. A hot item that is
/// displaced moves into its home line, and a cold item of that line moves further out.
#[cold]
#[inline(never)]
pub(super) fn warm<'t, S: Search, T: Homes>(
    table: &'t T,
    index: u64,
    find: impl Fn(u64) -> Option<Found<'t>>,
) {
    if table.heat() == 0 || table.is_moving_on() {
        return;
    }
    let line = table.line(index);
    let Some(found) = find(reach_of(line.control())) else { return };
    let word = found.pair.word;
    // Where a lane is free, displaced items come home anyway, and nothing must go out for them: heat decides nothing
    // there, and is not worth a write.
    if probe_of(word) == 0 && !line.is_full() {
        return;
    }
    if word & HEAT != HEAT {
        // If another thread changes the word first, the read is not noted, which is harmless in a
        // sample.
        let warmer = word + (HEAT & HEAT.wrapping_neg());
        let _ = word & FROZEN != 0 || found.lane.swap_word(word, warmer);
    } else if probe_of(word) > 0
        && !bring_home::<S, T>(table, index, &find)
        && make_room::<S, T>(table, line, index)
    {
        bring_home::<S, T>(table, index, &find);
    }
}

/// Moves a displaced item into its home line if there is a free lane.
fn bring_home<'t, S: Search, T: Homes>(
    table: &'t T,
    index: u64,
    find: &impl Fn(u64) -> Option<Found<'t>>,
) -> bool {
    let line = table.line(index);
    let Some(control) = lock(line) else { return false };
    let is_displaced = |found: &Found<'_>| probe_of(found.pair.word) > 0;
    let moved = find(reach_of(control))
        .filter(is_displaced)
        .and_then(|found| relocate::<S, T>(table, index, &found, 0..=0));
    unlock(line);
    moved.is_some()
}

/// Moves a cold item of a line outward. If all items are warm, cools them instead.
fn make_room<S: Search, T: Homes>(table: &T, line: &Line, index: u64) -> bool {
    let items = || S::matches(line, LIVE, &(LIVE | FROZEN)).each(line);
    let Some(lane) = items().find(|lane| lane.word() & HEAT == 0) else {
        for lane in items() {
            let word = lane.word();
            if word & (LIVE | FROZEN) == LIVE && word & HEAT != 0 {
                lane.swap_word(word, word - (HEAT & HEAT.wrapping_neg()));
            }
        }
        return false;
    };
    let pair = S::load(lane);
    if pair.word & (LIVE | FROZEN) != LIVE {
        return false;
    }
    let number = probe_of(pair.word);
    // If the word has stopped being an item of this line, its distance means nothing.
    let Some(index) = index.checked_sub(number * table.step(pair.word)) else { return false };
    let head = table.line(index);
    let Some(control) = lock(head) else { return false };
    let found = Found { line, lane, pair };
    let is_moved = reach_of(control) != 0 && number < PROBE_MAX && {
        head.head().set(SPREAD);
        relocate::<S, T>(table, index, &found, number + 1..=PROBE_MAX).is_some()
    };
    unlock(head);
    is_moved
}

impl Homes for Table {
    type Spare = Spare;

    fn homes(&self) -> u64 {
        self.shape.lines()
    }

    fn line(&self, index: u64) -> &Line {
        self.shape.line(index)
    }

    fn index(&self, line: &Line) -> u64 {
        self.shape.index(line)
    }

    fn step(&self, word: u64) -> u64 {
        self.shape.step(word)
    }

    fn mask(&self) -> u64 {
        *self.shape.mask()
    }

    fn heat(&self) -> u64 {
        if self.shape.has_heat() { HEAT } else { 0 }
    }

    fn lanes(&self) -> u32 {
        self.shape.lanes()
    }

    fn is_moving_on(&self) -> bool {
        self.next().is_some()
    }

    fn tidied(&self, homes: u64) -> u64 {
        self.tidied(homes)
    }

    fn lock_to_tidy(&self, line: &Line) -> Option<u64> {
        if wrong!(self, LinesTidyUnlocked) {
            return Some(line.control());
        }
        lock(line)
    }

    fn count_move(&self, index: u64) {
        self.count_move(index);
    }

    fn each_item<'t, S: Search>(&'t self, index: u64, reach: u64, see: impl FnMut(Found<'t>)) {
        self.shape.each_item::<S>(index, reach, see);
    }

    #[cold]
    fn unstash<S: Search>(&self, index: u64, spare: &mut Spare) -> u64 {
        let (hashes, mut needed) = (self.shape.hashes(index), 0);
        while let Some((hash, item)) = self.stash.freeze(&hashes) {
            if item.is_frozen {
                return STASHED;
            }
            if wrong!(self, LinesStashUnfrozen) {
                self.stash.thaw(hash);
            }
            let word = self.shape.word(self.shape.home(hash));
            let Some((number, copy)) =
                place::<S, Self>(self, index, word, 0..=PROBE_MAX, item.value)
            else {
                self.stash.thaw(hash);
                return STASHED;
            };
            needed = needed.max(number);
            self.count_move(index);
            self.stash.remove(hash, spare);
            self.thaw(&copy);
        }
        needed
    }

    fn clear_moved<S: Search>(&self, found: &Found<'_>) {
        found.clear_moved::<S>(self);
    }

    fn thaw(&self, found: &Found<'_>) {
        found.thaw(self);
    }
}

/// Homes that removals have left untidy, in one table. They are tidied some removals late, because all lines of their
/// sequences must be looked at: these are fetched meanwhile. What a session leaves untidy in the end is found by those
/// that tidy all homes in order.
pub(super) struct Untidied {
    /// The number of the table.
    generation: u64,
    homes: [Option<u64>; WAITING],
    /// The place of the home that has waited longest.
    first: usize,
}

impl Untidied {
    /// No home of this table.
    pub(super) fn of(table: &Table) -> Self {
        Self { generation: table.generation, homes: [None; WAITING], first: 0 }
    }

    /// Tidies a home, later if that can wait.
    pub(super) fn tidy<S: Search>(&mut self, table: &Table, index: u64, spare: &mut Spare) {
        let reach = reach_of(table.shape.line(index).control());
        if reach == STASHED || table.generation != self.generation {
            return tidy_home::<S, Table>(table, index, spare);
        }
        fetch(table, index, reach);
        let due = self.homes[self.first].replace(index);
        self.first = (self.first + 1) % WAITING;
        if let Some(due) = due {
            tidy_home::<S, Table>(table, due, spare);
        }
    }
}

/// Prefetches the lines in which items of a home may be.
fn fetch(table: &Table, index: u64, reach: u64) {
    for number in 1..=reach.min(FETCHED).min(PROBE_MAX) {
        for step in 1..=table.shape.steps_max() {
            let line = table.shape.line(index + number * step);
            prefetch(std::ptr::from_ref(line).cast());
        }
    }
}

/// Notes a sampled read of a hash.
#[cold]
#[inline(never)]
pub(super) fn warm_hash<S: Search>(table: &Table, hash: u64) {
    let home = table.shape.home(hash);
    warm::<S, Table>(table, home.index, |reach| table.shape.find::<S>(home, reach));
}
