//! Finding items in one table, and following a key from table to table.
//!
//! A *hit* takes effect at the 16-byte load of its lane, which reads word and value at one moment. It needs no other
//! check. While an item has two copies, in two tables, both are frozen and so have the same value; the new one thaws
//! only when the old one is gone.
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

/// An item's line and lane, and the content of the lane when it was read.
#[derive(Clone, Copy)]
pub(super) struct Found<'t> {
    pub(super) line: &'t Line,
    pub(super) lane: &'t Lane,
    pub(super) pair: Pair,
}

/// The result of a look at a key's home line.
pub(super) enum AtHome {
    /// The key is present, with this value.
    Hit(u64),
    /// The key is absent.
    Miss,
    /// The key may be in another line, the stash or another table.
    Further,
}

impl Shape {
    /// Looks for a key in the home line alone.
    #[inline(always)]
    pub(super) fn look_at_home<S: Search>(&self, line: &Line, want: u64) -> AtHome {
        let control = self.first_look(line);
        match self.find_in::<S>(line, want) {
            Some(found) => AtHome::Hit(found.pair.value),
            None if is_plain(control) && is_plain_still(line) => AtHome::Miss,
            None => AtHome::Further,
        }
    }

    /// The control word of a home. Must be read before the lanes: a search proves nothing without it, as the item may
    /// have moved from another line into this one meanwhile. A hit does not need it; the load costs a hit less than a
    /// second search would cost a miss.
    #[inline(always)]
    pub(super) fn first_look(&self, line: &Line) -> u64 {
        if wrong!(self, LinesFirstLook) {
            return ACTIVE;
        }
        line.control()
    }

    /// The item of a line that matches the word to look for.
    #[inline(always)]
    pub(super) fn find_in<'t, S: Search>(&self, line: &'t Line, want: u64) -> Option<Found<'t>> {
        let matches = S::matches(line, want, self.mask());
        if matches.is_empty() {
            return None;
        }
        let lane = matches.first(line);
        let pair = S::load(lane);
        ((pair.word ^ want) & *self.mask() == 0).then_some(Found { line, lane, pair })
    }

    /// The item of a home in the lines of its sequence up to `reach`. Does not look in the stash.
    #[inline(always)]
    pub(super) fn find<S: Search>(&self, home: Home, reach: u64) -> Option<Found<'_>> {
        let step = self.step(home.want);
        (0..=reach.min(PROBE_MAX)).find_map(|number| {
            let line = self.line(home.index + number * step);
            self.find_in::<S>(line, home.want | probe(number))
        })
    }

    /// Calls `see` with each item of a home, except those in the stash.
    #[inline(always)]
    pub(super) fn each_item<'t, S: Search>(
        &'t self,
        index: u64,
        reach: u64,
        mut see: impl FnMut(Found<'t>),
    ) {
        let mut search_line = |line, want, mask| each_match::<S>(line, want, mask, &mut see);
        search_line(self.line(index), LIVE, LIVE | PROBE);
        // The position and the word of an item determine its home: the distance is part of the quotient.
        let mask = LIVE | PROBE | self.step_bits();
        for number in 1..=reach.min(PROBE_MAX) {
            for step in 1..=self.steps_max() {
                let want = LIVE | probe(number) | self.step_word(step);
                search_line(self.line(index + number * step), want, mask);
            }
        }
    }
}

/// The value of a hash in this table or a later one.
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

/// The state of a home that must be unchanged after a reader has looked at its lanes in vain.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    pub(super) reach: u64,
    pub(super) moves: u64,
}

impl Table {
    /// Must be called before a look at the lanes of a home. `None`: the home has moved on.
    #[inline(always)]
    pub(super) fn see(&self, index: u64) -> Option<Seen> {
        let control = self.shape.line(index).control();
        (control & ACTIVE != 0).then(|| Seen { reach: reach_of(control), moves: self.moves(index) })
    }

    /// Must be called after the look: whether no item of the home has moved meanwhile, to another
    /// lane or another table.
    #[inline(always)]
    pub(super) fn is_as(&self, index: u64, seen: Seen) -> bool {
        if wrong!(self, LinesNoSecondLook) {
            return true;
        }
        // ORDERING: Acquire: the lanes were read before. If a lane was seen empty because its item has moved, it was
        // emptied after ACTIVE was cleared or the count of moves was raised; that is seen here, too.
        fence(Ordering::Acquire);
        self.shape.line(index).control() & ACTIVE != 0 && self.moves(index) == seen.moves
    }
}

/// Whether a home whose items were all in its line is still such a home: then no item has moved
/// outward from it.
#[inline(always)]
pub(super) fn is_plain_still(line: &Line) -> bool {
    // ORDERING: Acquire, as in `is_as`: before an item moves out of such a line, its REACH is raised for good.
    fence(Ordering::Acquire);
    is_plain(line.control())
}

/// Whether a home is ACTIVE and all of its items are in its line.
#[inline(always)]
pub(super) fn is_plain(control: u64) -> bool {
    control & (ACTIVE | REACH) == ACTIVE
}

/// Calls `see` with each item of a line whose word has these bits under the mask.
#[inline(always)]
pub(super) fn each_match<'t, S: Search>(
    line: &'t Line,
    want: u64,
    mask: u64,
    see: &mut impl FnMut(Found<'t>),
) {
    for lane in S::matches(line, want, &mask).each(line) {
        let pair = S::load(lane);
        if (pair.word ^ want) & mask == 0 {
            see(Found { line, lane, pair });
        }
    }
}
