//! Moves within a table: displaced items come nearer to their homes, hot ones first.
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
//! item are tidied at once, all other homes in order, some at a time.

use super::bits::{
    FROZEN, HEAT, LIVE, PROBE, PROBE_MAX, SPREAD, STASHED, probe, probe_of, reach_of, with_reach,
};
use super::lane::{Line, Pair, Search};
use super::lookup::Found;
use super::stash::Spare;
use super::sweep::freeze;
use super::table::{Home, Table};
use super::write::{lock, raise_reach, unlock};
use std::ops::RangeInclusive;

/// Tidies some homes from the table's cursor on.
#[cold]
#[inline(never)]
pub(super) fn tidy<S: Search>(table: &Table, homes: u64, spare: &mut Spare) {
    for _ in 0..homes {
        // If the table is being left, the move to the next table tidies all homes.
        if table.next().is_some() {
            return;
        }
        let index = table.tidied();
        if reach_of(table.shape.line(index).control()) != 0 {
            tidy_home::<S>(table, index, spare);
        }
    }
}

/// After the removal of an item from a line: tidies its home, if it was displaced, and that of the line, whose
/// displaced items have a free lane now.
#[cold]
#[inline(never)]
pub(super) fn tidy_after<S: Search>(table: &Table, removed: &Found<'_>, spare: &mut Spare) {
    let (shape, word) = (&table.shape, removed.pair.word);
    if table.next().is_some() {
        return;
    }
    let (line, number) = (shape.index(removed.line), probe_of(word));
    if number > 0 {
        tidy_home::<S>(table, line - number * shape.step(word), spare);
    }
    if line < shape.lines() && reach_of(removed.line.control()) != 0 {
        tidy_home::<S>(table, line, spare);
    }
}

fn tidy_home<S: Search>(table: &Table, index: u64, spare: &mut Spare) {
    let (shape, line) = (&table.shape, table.shape.line(index));
    let Some(control) = lock(line) else { return };
    let reach = reach_of(control);
    let mut needed = u64::from(control & SPREAD != 0);
    shape.each_item::<S>(index, reach, |found| {
        let number = probe_of(found.pair.word);
        if number > 0 {
            let at = relocate::<S>(table, index, &found, 0..=number - 1);
            needed = needed.max(at.unwrap_or(number));
        }
    });
    if reach == STASHED {
        needed = needed.max(unstash::<S>(table, index, spare));
    }
    if needed < reach {
        lower_reach(line, needed);
    }
    unlock(line);
}

/// Must be called under LOCK, so that no other thread changes REACH; lane 0's item may still change
/// meanwhile.
pub(super) fn lower_reach(line: &Line, reach: u64) {
    loop {
        let control = line.control();
        if line.head().swap_word(control, with_reach(control, reach)) {
            return;
        }
    }
}

/// Moves items of a home from the stash into free lanes; returns the REACH that these need, STASHED if some items are
/// left. Must be called under the home's LOCK.
#[cold]
fn unstash<S: Search>(table: &Table, index: u64, spare: &mut Spare) -> u64 {
    let (hashes, mut needed) = (table.shape.hashes(index), 0);
    while let Some((hash, item)) = table.stash.freeze(&hashes) {
        if item.is_frozen {
            return STASHED;
        }
        if wrong!(table, LinesStashUnfrozen) {
            table.stash.thaw(hash);
        }
        let home = table.shape.home(hash);
        let Some((number, copy)) = place::<S>(table, home, 0..=PROBE_MAX, item.value) else {
            table.stash.thaw(hash);
            return STASHED;
        };
        needed = needed.max(number);
        table.count_move(index);
        table.stash.remove(hash, spare);
        copy.thaw(table);
    }
    needed
}

/// Moves an item to the first free lane in these lines of its sequence; returns the number of the line. Must be called
/// under the LOCK of its home.
fn relocate<S: Search>(
    table: &Table,
    index: u64,
    found: &Found<'_>,
    numbers: RangeInclusive<u64>,
) -> Option<u64> {
    if found.pair.word & FROZEN != 0 {
        return None;
    }
    let shape = &table.shape;
    let word = freeze(found, shape.mask())?;
    let home = Home { index, want: word & shape.mask() & !PROBE };
    let Some((number, copy)) = place::<S>(table, home, numbers, found.lane.value()) else {
        found.thaw(table);
        return None;
    };
    if !wrong!(table, LinesNoCount) {
        table.count_move(index);
    }
    found.clear_moved::<S>(table);
    copy.thaw(table);
    Some(number)
}

/// Puts a frozen copy into the first free lane.
fn place<'t, S: Search>(
    table: &'t Table,
    home: Home,
    mut numbers: RangeInclusive<u64>,
    value: u64,
) -> Option<(u64, Found<'t>)> {
    let shape = &table.shape;
    let (word, step) = (shape.word(home) | FROZEN, shape.step(home.want));
    numbers.find_map(|number| {
        let line = shape.line(home.index + number * step);
        while let Some(free) = Found::free::<S>(line, shape.lanes()) {
            raise_reach(shape.line(home.index), number);
            let pair = Pair { word: free.line_bits() | word | probe(number), value };
            if free.lane.swap(free.pair, pair) {
                return Some((number, Found { pair, ..free }));
            }
        }
        None
    })
}

/// Notes a sampled read of a key. A hot item that is displaced moves into its home line, and a cold item of that line
/// moves further out.
#[cold]
#[inline(never)]
pub(super) fn warm<S: Search>(table: &Table, hash: u64) {
    let (shape, home) = (&table.shape, table.shape.home(hash));
    if !shape.has_heat() || table.next().is_some() {
        return;
    }
    let line = shape.line(home.index);
    let Some(found) = shape.find::<S>(home, reach_of(line.control())) else { return };
    let word = found.pair.word;
    if word & HEAT != HEAT {
        // If another thread changes the word first, the read is not noted, which is harmless in a
        // sample.
        let warmer = word + (HEAT & HEAT.wrapping_neg());
        let _ = word & FROZEN != 0 || found.lane.swap_word(word, warmer);
    } else if probe_of(word) > 0
        && !bring_home::<S>(table, home)
        && make_room::<S>(table, line, home.index)
    {
        bring_home::<S>(table, home);
    }
}

/// Moves a displaced item into its home line if there is a free lane.
fn bring_home<S: Search>(table: &Table, home: Home) -> bool {
    let line = table.shape.line(home.index);
    let Some(control) = lock(line) else { return false };
    let found = table.shape.find::<S>(home, reach_of(control));
    let is_displaced = |found: &Found<'_>| probe_of(found.pair.word) > 0;
    let moved = found
        .filter(is_displaced)
        .and_then(|found| relocate::<S>(table, home.index, &found, 0..=0));
    unlock(line);
    moved.is_some()
}

/// Moves a cold item of a line outward. If all items are warm, cools them instead.
fn make_room<S: Search>(table: &Table, line: &Line, index: u64) -> bool {
    let items = || S::matches(line, LIVE, LIVE | FROZEN).each(line);
    let Some(lane) = items().find(|lane| lane.word() & HEAT == 0) else {
        for lane in items() {
            let word = lane.word();
            if word & (LIVE | FROZEN) == LIVE && word & HEAT != 0 {
                lane.swap_word(word, word - (HEAT & HEAT.wrapping_neg()));
            }
        }
        return false;
    };
    let (shape, pair) = (&table.shape, S::load(lane));
    if pair.word & (LIVE | FROZEN) != LIVE {
        return false;
    }
    let number = probe_of(pair.word);
    // If the word has stopped being an item of this line, its distance means nothing.
    let Some(index) = index.checked_sub(number * shape.step(pair.word)) else { return false };
    let head = shape.line(index);
    let Some(control) = lock(head) else { return false };
    let found = Found { line, lane, pair };
    let is_moved = reach_of(control) != 0 && number < PROBE_MAX && {
        head.head().set(SPREAD);
        relocate::<S>(table, index, &found, number + 1..=PROBE_MAX).is_some()
    };
    unlock(head);
    is_moved
}
