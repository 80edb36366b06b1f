//! Finding items in one table, and following a key from table to table.
//!
//! A *hit* takes effect at the 16-byte load of its lane: word and value are of one moment. It needs no other check.
//! While an item has two copies, in two tables, both are frozen and so have the same value; the new one thaws only
//! when the old one is gone.
//!
//! A *miss* reads the control word of the home and its count of moves, then the lines as far as REACH says, then both
//! again. If the home was ACTIVE both times and the count is the same, no item of it has moved meanwhile. A key that
//! was there all the time would then have been in one lane all the time, within REACH, as REACH is raised before an
//! item gets there and is lowered only while there is none. So the key was absent at some moment in between: before
//! its insert, after its removal, or between two of them. A home with REACH 0 needs no count: see `relocate.rs`.

use super::bits::{ACTIVE, LIVE, PROBE, PROBE_MAX, REACH, STASHED, probe, reach_of};
use super::lane::{Lane, Line, Pair, Search};
use super::table::{Home, Shape, Table};
use crate::core::sync::{Ordering, fence};

/// An item's place, and what it had there.
#[derive(Clone, Copy)]
pub(super) struct Found<'t> {
    pub(super) line: &'t Line,
    pub(super) lane: &'t Lane,
    pub(super) pair: Pair,
}

/// What a home line tells of a key.
pub(super) enum AtHome {
    /// It is there, with this value.
    Hit(u64),
    /// It is nowhere.
    Miss,
    /// It may be elsewhere. What word 0 said.
    Further(u64),
}

impl Shape {
    /// What the home line alone can tell.
    #[inline(always)]
    pub(super) fn look_at_home<S: Search>(&self, line: &Line, want: u64) -> AtHome {
        // Before the lanes, and again behind them, as in every miss. A hit does not need it, but one lookup alone has
        // time for it while it waits, and a miss would have to search twice.
        let control = line.control();
        if let Some(found) = self.find_in::<S>(line, want) {
            return AtHome::Hit(found.pair.value);
        }
        if is_plain(control) && is_plain_still(line) {
            return AtHome::Miss;
        }
        AtHome::Further(control)
    }

    /// The same after a search of the line that found nothing. That proves nothing: word 0 was not read before it, and
    /// the item may have been in another line then, and in this one since.
    #[inline(always)]
    pub(super) fn look_again_at_home<S: Search>(&self, line: &Line, want: u64) -> AtHome {
        let control = line.control();
        if !is_plain(control) {
            return AtHome::Further(control);
        }
        if wrong!(self, LinesFirstLook) {
            return AtHome::Miss;
        }
        self.look_at_home::<S>(line, want)
    }

    /// The item in a line, by the word to look for.
    #[inline(always)]
    pub(super) fn find_in<'t, S: Search>(&self, line: &'t Line, want: u64) -> Option<Found<'t>> {
        let matches = S::matches(line, want, self.mask());
        if matches.is_empty() {
            return None;
        }
        let lane = matches.first(line);
        let pair = S::load(lane);
        ((pair.word ^ want) & self.mask() == 0).then_some(Found { line, lane, pair })
    }

    /// The item of a home, as far as `reach`. Not in the stash.
    #[inline(always)]
    pub(super) fn find<S: Search>(&self, home: Home, reach: u64) -> Option<Found<'_>> {
        let step = self.step(home.want);
        (0..=reach.min(PROBE_MAX)).find_map(|number| {
            let line = self.line(home.index + number * step);
            self.find_in::<S>(line, home.want | probe(number))
        })
    }

    /// Calls `see` with each item of a home that is there, except those in the stash.
    #[inline(always)]
    pub(super) fn each_item<'t, S: Search>(
        &'t self,
        index: u64,
        reach: u64,
        mut see: impl FnMut(Found<'t>),
    ) {
        let mut look = |line: &'t Line, want: u64, mask: u64| {
            for lane in S::matches(line, want, mask).each(line) {
                let pair = S::load(lane);
                if (pair.word ^ want) & mask == 0 {
                    see(Found { line, lane, pair });
                }
            }
        };
        look(self.line(index), LIVE, LIVE | PROBE);
        // What an item's word says of its place says where its home is: the distance is part of the quotient.
        let mask = LIVE | PROBE | self.step_bits();
        for number in 1..=reach.min(PROBE_MAX) {
            for step in 1..=self.steps_max() {
                let want = LIVE | probe(number) | self.step_word(step);
                look(self.line(index + number * step), want, mask);
            }
        }
    }
}

/// The value of a hash, from this table on.
#[inline(always)]
pub(super) fn look_up<S: Search>(mut table: &Table, hash: u64) -> Option<u64> {
    loop {
        let home = table.shape.home(hash);
        let Some(seen) = table.see(home.index) else {
            if wrong!(table, LinesStaleTable) {
                return None;
            }
            table = table.after();
            continue;
        };
        let reach = seen.reach;
        if let Some(found) = table.shape.find::<S>(home, reach) {
            return Some(found.pair.value);
        }
        if reach == STASHED
            && let Some(item) = table.stash.get(hash)
        {
            return Some(item.value);
        }
        if table.is_as(home.index, seen) {
            return None;
        }
    }
}

/// What a reader must see unchanged after it has looked at the lanes of a home in vain.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) reach: u64,
    moves: u64,
}

impl Table {
    /// Before a look at the lanes of a home. `None`: it has moved on.
    #[inline(always)]
    pub(super) fn see(&self, index: u64) -> Option<Seen> {
        let control = self.shape.line(index).control();
        (control & ACTIVE != 0).then(|| Seen { reach: reach_of(control), moves: self.moves(index) })
    }

    /// After it: whether no item of the home has moved meanwhile, to another lane or another table.
    #[inline(always)]
    pub(super) fn is_as(&self, index: u64, seen: Seen) -> bool {
        if wrong!(self, LinesNoSecondLook) {
            return true;
        }
        // ORDERING: Acquire: the lanes were read before. A lane that was seen empty because its item has moved was so
        // after ACTIVE was cleared, or the count of moves raised; that is seen then, too.
        fence(Ordering::Acquire);
        self.shape.line(index).control() & ACTIVE != 0 && self.moves(index) == seen.moves
    }
}

/// Whether a home that had only items in its line still has: no item moves outward from it then.
#[inline(always)]
pub(super) fn is_plain_still(line: &Line) -> bool {
    // ORDERING: Acquire, as in `is_as`: before an item moves out of such a line, its REACH is raised for good.
    fence(Ordering::Acquire);
    is_plain(line.control())
}

/// Whether a home has keys, and all of them in its line.
#[inline(always)]
pub(super) fn is_plain(control: u64) -> bool {
    control & (ACTIVE | REACH) == ACTIVE
}
