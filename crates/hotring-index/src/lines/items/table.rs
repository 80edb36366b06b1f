//! A table: its memory, and the mapping of positions to lines.
//!
//! A *position* is a hash with its bits reversed, the order in which every engine is scanned. A table of `n` lines maps
//! a position `p` to `p * n`, 128 bits: the high half is the home line, the highest bits of the low half are the *tag*.
//! The mapping is monotone, so that homes are ranges of positions in every table, and move on in order.

use super::stash::{Count, Stash};
use crate::core::config::Config;
use crate::core::sync::{AtomicPtr, AtomicU64, Ordering, TallyU64};
use crate::lines::bits::{ACTIVE, LIVE, PROBE, PROBE_MAX, WORD_BITS, probe};
use crate::lines::lane::{Line, Search};
use crate::lines::lookup::{Found, each_match};
use crate::lines::memory::{Memory, WINDOW, Windows};
use crate::lines::relocate::Moves;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::ptr::{NonNull, null_mut};

/// The bits of a word that come from the hash. They do not identify a key: only its item does.
const TAG: u64 = u64::MAX >> (64 - WORD_BITS) & u64::MAX << TAG_SHIFT;
const TAG_SHIFT: u32 = 16;

/// A hash of so few bits comes back from a lane.
pub(super) const TAG_BITS: u32 = TAG.count_ones();

/// The bits of a word that a search compares: they determine the tag and the home of the lane's
/// item.
pub(super) const MASK: u64 = TAG | PROBE | LIVE;

/// The highest bits of a tag choose the distance between the lines of a sequence.
const STEP_SHIFT: u32 = WORD_BITS - 3;

/// All lanes of a line, as the forms of a search number them.
pub(super) const ALL_LANES: u32 = 0b101_0101;

/// Tables of at least this many lines have sequences with different distances. In a smaller table the spare lines that
/// these need would take too large a share.
const LINES_SPREAD: u64 = if cfg!(loom) { u64::MAX } else { 1 << 10 };

/// Lines of a page.
const PAGE: u64 = 64;

#[cfg(not(loom))]
const _: () = assert!(WINDOW > spare(LINES_SPREAD), "a sequence is shorter than a window");

/// The properties of a table that a lookup needs.
pub(super) struct Shape {
    start: NonNull<Line>,
    lines: u64,
    /// Mask of those highest bits of a tag that choose the distance: all three, or none.
    steps: u64,
}

/// The home line of a position, and the word to look for, with PROBE 0.
#[derive(Clone, Copy)]
pub(super) struct Home {
    pub(super) index: u64,
    pub(super) want: u64,
}

// SAFETY: the lines are shared by design: all accesses of them are those of `lane`.
unsafe impl Send for Shape {}
// SAFETY: as above.
unsafe impl Sync for Shape {}

const fn steps(lines: u64) -> u64 {
    if lines < LINES_SPREAD { 0 } else { 7 }
}

/// Lines behind the last home, so that no sequence wraps.
const fn spare(lines: u64) -> u64 {
    PROBE_MAX * (steps(lines) + 1)
}

/// Bytes of a table with this many homes.
pub(super) const fn bytes_for(lines: u64) -> u64 {
    (lines + spare(lines)) * size_of::<Line>() as u64
}

impl Shape {
    #[inline(always)]
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// A line by its number: below `lines`, or one of the spare ones behind.
    #[inline(always)]
    pub(super) fn line(&self, index: u64) -> &Line {
        debug_assert!(index < self.lines + spare(self.lines));
        // SAFETY: the index is in range, and the table is kept while the shape is borrowed.
        unsafe { self.start.add(index as usize).as_ref() }
    }

    /// The home of a position.
    #[inline(always)]
    pub(super) fn home(&self, position: u64) -> Home {
        let product = u128::from(position) * u128::from(self.lines);
        let quotient = product as u64 >> (64 - WORD_BITS);
        Home { index: (product >> 64) as u64, want: quotient & TAG | LIVE }
    }

    /// The distance between the lines of the sequence of a word's key.
    #[inline(always)]
    pub(super) fn step(&self, word: u64) -> u64 {
        1 + (word >> STEP_SHIFT & self.steps)
    }

    /// Whether a word has the tag of this home.
    pub(super) fn has_tag(&self, home: Home, word: u64) -> bool {
        (home.want ^ word) & TAG == 0
    }

    /// A position with this home and tag: the item's own if hashes have no more bits than tags.
    pub(super) fn position(&self, index: u64, word: u64) -> u64 {
        // The low bits of such a position are 0, and so are those of its product, which the tag leaves out.
        self.divide_up(index, (word & TAG) << (64 - WORD_BITS)).min(*self.positions(index).end())
    }

    /// The positions of a home.
    pub(super) fn positions(&self, index: u64) -> RangeInclusive<u64> {
        let is_last = index + 1 == self.lines;
        let last = if is_last { u64::MAX } else { self.divide_up(index + 1, 0) - 1 };
        self.divide_up(index, 0)..=last
    }

    /// The least position that is mapped to this product or a later one.
    fn divide_up(&self, high: u64, low: u64) -> u64 {
        let number = u128::from(high) << 64 | u128::from(low);
        // Not `div_ceil`, which divides twice: 128 bits are divided by calls that the compiler does not merge.
        ((number + u128::from(self.lines - 1)) / u128::from(self.lines)) as u64
    }

    /// The number of a line.
    pub(super) fn index(&self, line: &Line) -> u64 {
        // SAFETY: both are in the memory of the table.
        unsafe { NonNull::from(line).offset_from(self.start) as u64 }
    }

    /// The first item of a line that matches the word to look for and that `is_it` accepts by the lane's value.
    #[inline(always)]
    pub(super) fn find_in<'t, S: Search>(
        &self,
        line: &'t Line,
        want: u64,
        is_it: &mut impl FnMut(u64) -> bool,
    ) -> Option<Found<'t>> {
        for lane in S::matches(line, want, &MASK).each(line) {
            let pair = S::load(lane);
            if (pair.word ^ want) & MASK == 0 && is_it(pair.value) {
                return Some(Found { line, lane, pair });
            }
        }
        None
    }

    /// The first item with the tag of a home that `is_it` accepts by the lane's value, in the lines up to `reach`.
    /// Does not look in the stash.
    #[inline(always)]
    pub(super) fn find<S: Search>(
        &self,
        home: Home,
        reach: u64,
        mut is_it: impl FnMut(u64) -> bool,
    ) -> Option<Found<'_>> {
        let step = self.step(home.want);
        (0..=reach.min(PROBE_MAX)).find_map(|number| {
            let line = self.line(home.index + number * step);
            self.find_in::<S>(line, home.want | probe(number), &mut is_it)
        })
    }

    /// Calls `see` with each item of a home, except those in the stash.
    pub(super) fn each_item<'t, S: Search>(
        &'t self,
        index: u64,
        reach: u64,
        mut see: impl FnMut(Found<'t>),
    ) {
        let mut look = |line, want, mask| each_match::<S>(line, want, mask, &mut see);
        look(self.line(index), LIVE, LIVE | PROBE);
        // The position and the word of an item determine its home: the distance is part of the tag.
        let mask = LIVE | PROBE | self.steps << STEP_SHIFT;
        for number in 1..=reach.min(PROBE_MAX) {
            for step in 0..=self.steps {
                let want = LIVE | probe(number) | step << STEP_SHIFT;
                look(self.line(index + number * (step + 1)), want, mask);
            }
        }
    }
}

/// A table.
pub(super) struct Table {
    pub(super) shape: Shape,
    /// The table that homes move on to; null until growth or shrinking begins.
    next: AtomicPtr<Table>,
    /// Homes below this one were claimed by a session that moves them.
    claimed: TallyU64,
    /// Homes that have moved on.
    moved: AtomicU64,
    windows: Windows,
    /// Bytes that went back to the system while homes moved on.
    given_back: TallyU64,
    pub(super) moves: Moves,
    /// The home to tidy next, modulo the number of homes.
    pub(super) tidied: TallyU64,
    pub(super) stash: Stash,
    memory: Memory,
    /// The wrong variant to run, for checkers.
    #[cfg(loom)]
    pub(super) fault: crate::core::faults::Fault,
}

impl Table {
    /// A table without items. Its lines are not homes yet.
    pub(super) fn new(lines: u64, config: &Config, stashed: &Count) -> io::Result<Box<Self>> {
        let memory = Memory::new(lines + spare(lines), config.huge_pages)?;
        Ok(Box::new(Self {
            shape: Shape { start: memory.start(), lines, steps: steps(lines) },
            next: AtomicPtr::new(null_mut()),
            claimed: TallyU64::new(0),
            moved: AtomicU64::new(0),
            windows: Windows::new(lines),
            given_back: TallyU64::new(0),
            moves: Moves::new(lines),
            tidied: TallyU64::new(0),
            stash: Stash::new(stashed.clone()),
            memory,
            #[cfg(loom)]
            fault: config.fault,
        }))
    }

    /// Bytes of the lines that have not gone back to the system.
    pub(super) fn bytes(&self) -> u64 {
        // ORDERING: Relaxed, a sum.
        bytes_for(self.shape.lines) - self.given_back.load(Ordering::Relaxed)
    }

    /// The next table, if there is one.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<&Table> {
        // ORDERING: Acquire pairs with the Release in `set_next`.
        // SAFETY: tables are freed in order, after a grace period: this table is kept, so a later table is, too.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The table that has the keys of a home that is not ACTIVE.
    #[inline(always)]
    pub(super) fn after(&self) -> &Table {
        self.next().expect("homes move on only to a next table")
    }

    /// Sets the table that homes move on to. Must be called only once.
    pub(super) fn set_next(&self, next: Box<Table>) {
        // ORDERING: Release: a session that finds the table finds it complete.
        self.next.store(Box::into_raw(next), Ordering::Release);
    }

    /// As `next`, for the owner of the table.
    pub(super) fn take_next(&self) -> *mut Table {
        // ORDERING: Relaxed, no other thread is left.
        self.next.load(Ordering::Relaxed)
    }

    /// Claims the next `count` homes that have not been claimed, if there are any.
    pub(super) fn claim(&self, count: u64) -> Option<Range<u64>> {
        let lines = self.shape.lines;
        // ORDERING: Relaxed, a look that keeps the counter from running away.
        if self.claimed.load(Ordering::Relaxed) >= lines {
            return None;
        }
        // ORDERING: Relaxed: it decides which session moves what, and nothing is read through it.
        let start = self.claimed.fetch_add(count, Ordering::Relaxed);
        (start < lines).then(|| start..lines.min(start + count))
    }

    /// Counts homes as moved on, and gives back the pages that no home needs. Returns the bytes that went back, and
    /// whether these were the last homes.
    pub(super) fn count_moved(&self, homes: &Range<u64>) -> (u64, bool) {
        let mut bytes = 0;
        self.windows.count(homes, wrong!(self, LinesOneWindow), |window| {
            self.memory.give_back(window);
            bytes += WINDOW * size_of::<Line>() as u64;
        });
        // ORDERING: Relaxed, a sum.
        self.given_back.fetch_add(bytes, Ordering::Relaxed);
        let number = homes.end - homes.start;
        // ORDERING: AcqRel: the session that counts the last ones has all moves before it.
        let moved = self.moved.fetch_add(number, Ordering::AcqRel) + number;
        (bytes, moved == self.shape.lines)
    }

    /// Makes those lines homes that the positions of these homes of the previous table belong to. The lines cannot
    /// have moved on yet: that begins when the previous table has been left.
    pub(super) fn open(&self, before: &Shape, homes: Range<u64>) {
        let first = self.shape.home(*before.positions(homes.start).start()).index;
        let last = self.shape.home(*before.positions(homes.end - 1).end()).index;
        // Touches the pages that sequences reach, so that no page fault happens under a LOCK. Earlier pages were
        // touched with earlier homes.
        let spare = spare(self.shape.lines);
        let from = if homes.start == 0 { 0 } else { first + spare };
        for index in (from.next_multiple_of(PAGE)..=last + spare).step_by(PAGE as usize) {
            self.shape.line(index).head().touch();
        }
        for index in first..=last {
            let line = self.shape.line(index);
            if line.control() & ACTIVE == 0 {
                line.head().set(ACTIVE);
            }
        }
    }

    /// Makes all lines homes. No session may see the table yet.
    pub(super) fn open_all(&self) {
        (0..self.shape.lines).for_each(|index| self.shape.line(index).head().set(ACTIVE));
    }

    /// Calls `see` with the value of each lane, and of each item in the stash. No operation may be
    /// under way.
    pub(super) fn each_value<S: Search>(&self, mut see: impl FnMut(u64)) {
        for index in 0..self.shape.lines + spare(self.shape.lines) {
            let line = self.shape.line(index);
            S::matches(line, LIVE, &LIVE).each(line).for_each(|lane| see(lane.value()));
        }
        self.stash.each(0..=u64::MAX, see);
    }
}
