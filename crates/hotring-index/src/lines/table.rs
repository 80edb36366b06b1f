//! A table: its memory, and the mapping of hashes to lines.
//!
//! A table of `n` lines (any number from 64 on) maps a hash `h` to `h * n`, 128 bits: the high half is the home line,
//! the low half the quotient. The mapping is monotone, so that lines move on to a larger or smaller table in order.
//! The low bits of the quotient, as many as `n` has, are not needed to distinguish two hashes of a line.

use super::bits::{
    ACTIVE, EXPONENT_FULL, EXPONENT_MIN, FROZEN, HASH_BITS, HASH_MAX, LIVE, PROBE, PROBE_MAX,
    WORD_BITS,
};
use super::config::LinesConfig;
#[cfg(not(loom))]
use super::lane::LANES;
use super::lane::Line;
use super::memory::{Memory, WINDOW, Windows};
use super::relocate::Moves;
use super::stash::Stash;
use crate::core::sync::{AtomicPtr, AtomicU64, Ordering, TallyU64};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::ptr::{NonNull, null_mut};

/// The fewest lines of a table.
pub(super) const LINES_MIN: u64 = 1 << EXPONENT_MIN;

/// From this number of lines on, all four lanes of a line hold items.
pub(super) const LINES_FULL: u64 = 1 << EXPONENT_FULL;

/// The most lines of a table: 64 TiB.
pub(super) const LINES_MAX: u64 = 1 << 40;

/// The top bits of a quotient choose the distance between the lines of a home's sequence.
const STEP_SHIFT: u32 = WORD_BITS - 3;

/// The bit of a word at which a quotient begins, if all of its bits are needed.
const QUOTIENT_SHIFT: u32 = WORD_BITS - HASH_BITS;

/// The properties of a table that a lookup needs. A copy may be used as long as the table is kept.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    start: NonNull<Line>,
    lines: u64,
    /// The bits of a word that distinguish items of a line.
    mask: u64,
    /// Mask of those top bits of a quotient that choose the distance.
    steps: u64,
    /// Lanes that may have items, as bits `2 * lane`.
    lanes: u32,
    #[cfg(loom)]
    pub(super) fault: crate::core::faults::Fault,
}

/// The home line of a hash, and the word to look for, with PROBE 0. The word's control bits from LOCK on are not in
/// the mask and may have any value.
#[derive(Clone, Copy)]
pub(super) struct Home {
    pub(super) index: u64,
    pub(super) want: u64,
}

// SAFETY: the lines are shared by design: all accesses of them are those of `lane`.
unsafe impl Send for Shape {}
// SAFETY: as above.
unsafe impl Sync for Shape {}

impl Shape {
    fn new(start: NonNull<Line>, lines: u64, config: &LinesConfig) -> Self {
        let exponent = lines.ilog2();
        let quotient = u64::MAX >> (64 - WORD_BITS) & u64::MAX << (QUOTIENT_SHIFT + exponent);
        let mask = quotient | PROBE | LIVE;
        let lanes = if exponent >= EXPONENT_FULL { 0b101_0101 } else { 0b101_0100 };
        #[cfg(not(loom))]
        let _ = config;
        Self {
            start,
            lines,
            mask,
            steps: steps(exponent),
            lanes,
            #[cfg(loom)]
            fault: config.fault,
        }
    }

    #[inline(always)]
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    #[inline(always)]
    pub(super) fn mask(&self) -> &u64 {
        &self.mask
    }

    #[inline(always)]
    pub(super) fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Whether words have HEAT.
    pub(super) fn has_heat(&self) -> bool {
        self.lines >= LINES_FULL
    }

    /// The number of items that fit.
    pub(super) fn capacity(&self) -> u64 {
        self.lines * u64::from(self.lanes.count_ones())
    }

    /// The largest distance between two lines of a sequence.
    pub(super) fn steps_max(&self) -> u64 {
        self.steps + 1
    }

    /// A line by its number: below `lines`, or one of the spare ones behind.
    #[inline(always)]
    pub(super) fn line(&self, index: u64) -> &Line {
        debug_assert!(index < self.lines + spare(self.steps));
        // SAFETY: the index is in range, and the table is kept while the shape is in use.
        unsafe { self.start.add(index as usize).as_ref() }
    }

    /// The number of a line of this table.
    pub(super) fn index(&self, line: &Line) -> u64 {
        // SAFETY: both are in the memory of the table.
        unsafe { NonNull::from(line).offset_from(self.start) as u64 }
    }

    /// The home of a hash.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> Home {
        let product = u128::from(hash) * u128::from(self.lines);
        let index = (product >> HASH_BITS) as u64;
        let quotient = (product as u64 & HASH_MAX) << QUOTIENT_SHIFT;
        Home { index, want: quotient & !(LIVE | PROBE | FROZEN) | LIVE }
    }

    /// The distance between the lines of the sequence of a word's key.
    #[inline(always)]
    pub(super) fn step(&self, word: u64) -> u64 {
        1 + (word >> STEP_SHIFT & self.steps)
    }

    /// The bits of a word that choose the distance.
    pub(super) fn step_bits(&self) -> u64 {
        self.steps << STEP_SHIFT
    }

    /// The value of these bits that stands for this distance.
    pub(super) fn step_word(&self, step: u64) -> u64 {
        (step - 1) << STEP_SHIFT
    }

    /// Lines behind the last home.
    pub(super) fn spare(&self) -> u64 {
        spare(self.steps)
    }

    /// The word of an item of this home without control bits other than LIVE.
    #[inline(always)]
    pub(super) fn word(&self, home: Home) -> u64 {
        home.want & self.mask
    }

    /// The hash of an item with this home.
    pub(super) fn hash(&self, index: u64, word: u64) -> u64 {
        // hash * lines is at least this number and exceeds it by less than `lines`: the bits that the mask leaves out
        // are worth less than that.
        let quotient = word & self.mask & !(PROBE | LIVE);
        divide_up(index, quotient >> QUOTIENT_SHIFT, self.lines)
    }

    /// The hashes of a home.
    pub(super) fn hashes(&self, index: u64) -> RangeInclusive<u64> {
        let first = divide_up(index, 0, self.lines);
        let last = if index + 1 == self.lines {
            HASH_MAX
        } else {
            divide_up(index + 1, 0, self.lines) - 1
        };
        first..=last
    }
}

/// `(high * 2^HASH_BITS + low) / by`, rounded up. `high` must be less than `by`.
fn divide_up(high: u64, low: u64, by: u64) -> u64 {
    let number = u128::from(high) << HASH_BITS | u128::from(low);
    // Not `div_ceil`, which divides twice: 128 bits are divided by calls that the compiler does not merge.
    ((number + u128::from(by - 1)) / u128::from(by)) as u64
}

/// Small tables have short sequences: they would not stay within a few pages otherwise. All others have eight
/// distances. Whoever moves items of a home must look at the lines of all distances, and 32 of them made removals take
/// a third longer.
const fn steps(exponent: u32) -> u64 {
    if cfg!(loom) || exponent < 10 { 0 } else { 7 }
}

/// Lines behind the last home, so that no sequence wraps.
const fn spare(steps: u64) -> u64 {
    PROBE_MAX * (steps + 1)
}

/// A table.
pub(super) struct Table {
    pub(super) shape: Shape,
    /// Tables are numbered in order.
    pub(super) generation: u64,
    /// The table that homes move on to; null until growth or shrinking begins.
    next: AtomicPtr<Table>,
    /// Homes below this one were claimed by a thread that moves them.
    pub(super) claimed: AtomicU64,
    /// Homes that have moved on.
    pub(super) moved: AtomicU64,
    windows: Windows,
    moves: Moves,
    /// The home to tidy next, modulo the number of homes.
    tidied: TallyU64,
    /// The number of windows that were populated in advance, and of those that were made huge
    /// pages, both from the first on.
    populated: TallyU64,
    collapsed: TallyU64,
    pub(super) stash: Stash,
    memory: Memory,
    #[cfg(loom)]
    pub(super) fault: crate::core::faults::Fault,
    #[cfg(loom)]
    pub(super) life: Life,
}

/// The life of a table: loom reports a session that finds the table before it is made, or uses it after it is freed.
#[cfg(loom)]
#[derive(Default)]
pub(super) struct Life {
    made: loom::cell::UnsafeCell<()>,
    pub(super) is_freed: std::sync::atomic::AtomicBool,
}

#[cfg(loom)]
impl Life {
    fn make(self) -> Self {
        self.made.with_mut(|_| ());
        self
    }

    fn find(&self) {
        self.made.with(|_| ());
        self.check_alive();
    }

    fn check_alive(&self) {
        // ORDERING: Relaxed: under loom one thread runs at a time.
        assert!(!self.is_freed.load(Ordering::Relaxed), "a table is used after it was freed");
    }
}

impl Table {
    /// A table without items. Its lines are not homes yet.
    pub(super) fn new(lines: u64, generation: u64, config: &LinesConfig) -> io::Result<Box<Self>> {
        assert!((LINES_MIN..=LINES_MAX).contains(&lines), "a table of {lines} lines");
        let all = lines + spare(steps(lines.ilog2()));
        let memory = Memory::new(all, config.huge_pages)?;
        Ok(Box::new(Self {
            shape: Shape::new(memory.start(), lines, config),
            generation,
            next: AtomicPtr::new(null_mut()),
            claimed: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            windows: Windows::new(lines),
            moves: Moves::new(lines),
            tidied: TallyU64::new(0),
            populated: TallyU64::new(0),
            collapsed: TallyU64::new(0),
            stash: Stash::default(),
            memory,
            #[cfg(loom)]
            fault: config.fault,
            #[cfg(loom)]
            life: Life::default().make(),
        }))
    }

    /// Makes lines homes. Must be called before the table is published, or by the thread that has claimed those homes
    /// of the previous table whose keys belong to these lines.
    pub(super) fn open(&self, homes: Range<u64>) {
        for index in homes {
            let line = self.shape.line(index);
            if line.control() & ACTIVE == 0 {
                line.head().set(ACTIVE);
            }
        }
    }

    /// The next table, if there is one.
    #[inline(always)]
    pub(super) fn next(&self) -> Option<&Table> {
        // ORDERING: Acquire pairs with the Release in `set_next`.
        // SAFETY: a table is freed only when no session announces it or an earlier table, and after the earlier
        // tables.
        let next = unsafe { self.next.load(Ordering::Acquire).as_ref() };
        #[cfg(loom)]
        self.life.check_alive();
        #[cfg(loom)]
        next.inspect(|next: &&Self| next.life.find());
        next
    }

    /// The table that has the keys of a home that is not ACTIVE.
    #[inline(always)]
    pub(super) fn after(&self) -> &Table {
        self.next().expect("homes move on only to a next table")
    }

    /// Sets the table that homes move on to. Must be called only once.
    pub(super) fn set_next(&self, next: &Table) {
        // ORDERING: Release: a session that finds the table finds it complete.
        let order =
            if wrong!(self, LinesRelaxedNext) { Ordering::Relaxed } else { Ordering::Release };
        self.next.store(std::ptr::from_ref(next).cast_mut(), order);
    }

    /// Whether all homes have moved on.
    pub(super) fn is_left(&self) -> bool {
        // ORDERING: Acquire pairs with the AcqRel of the moves' count: all effects of the moves happen before.
        self.moved.load(Ordering::Acquire) == self.shape.lines()
    }

    /// The count of moves of a home. An acquire.
    #[inline(always)]
    pub(super) fn moves(&self, index: u64) -> u64 {
        #[cfg(loom)]
        self.life.check_alive();
        self.moves.of(index)
    }

    /// Counts a move. Must be called after the copy is in its lane and before the old lane is
    /// cleared.
    pub(super) fn count_move(&self, index: u64) {
        if !wrong!(self, LinesNoCount) {
            self.moves.raise(index);
        }
    }

    /// Claims homes that are to be tidied next, in order; returns the first one, modulo their number.
    pub(super) fn tidied(&self, homes: u64) -> u64 {
        // ORDERING: Relaxed: it decides which thread does it, and nothing is read through it.
        self.tidied.fetch_add(homes, Ordering::Relaxed)
    }

    /// Bytes of address space that the lines take.
    pub(super) fn bytes(&self) -> u64 {
        (self.shape.lines() + self.shape.spare()) * size_of::<Line>() as u64
    }

    /// Counts homes of one window as moved on, and gives back the pages that no home needs.
    pub(super) fn count_moved(&self, homes: Range<u64>) {
        let give_back = |window| self.memory.give_back(window);
        self.windows.count(&homes, wrong!(self, LinesOneWindow), give_back);
        // ORDERING: AcqRel: see `is_left`.
        self.moved.fetch_add(homes.end - homes.start, Ordering::AcqRel);
    }

    /// Populates the next window between line `from` and line `to` that has not been populated, in advance of the
    /// threads that move homes there. False: there is none.
    pub(super) fn populate(&self, from: u64, to: u64) -> bool {
        // ORDERING: Relaxed: it decides which thread does it, and nothing is read through it.
        self.populated.fetch_max(from / WINDOW, Ordering::Relaxed);
        self.maintain(&self.populated, to / WINDOW + 1, Memory::populate)
    }

    /// Makes the next window a huge page, if the system can. False: this was tried for all windows.
    pub(super) fn collapse(&self) -> bool {
        self.maintain(&self.collapsed, u64::MAX, Memory::collapse)
    }

    fn maintain(&self, done: &TallyU64, end: u64, f: impl Fn(&Memory, u64)) -> bool {
        let end = end.min(self.memory.windows());
        // ORDERING: Relaxed, as above.
        let window = done.load(Ordering::Relaxed);
        if window >= end {
            return false;
        }
        // ORDERING: Relaxed, as above.
        if done.compare_exchange(window, window + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            f(&self.memory, window);
        }
        true
    }
}

#[cfg(not(loom))]
const _: () = assert!(LANES == 4 && size_of::<Line>() == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_come_back_from_homes_and_words() {
        for lines in [64, 65, 100, 1023, 65_536, 65_537, 1_000_003] {
            let table = Table::new(lines, 0, &LinesConfig::default()).expect("memory");
            let shape = &table.shape;
            for i in 0..2_000u64 {
                let hash = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i & 1);
                let home = shape.home(hash);
                assert!(home.index < lines);
                assert_eq!(shape.hash(home.index, shape.word(home)), hash, "{lines} lines");
                assert!(shape.hashes(home.index).contains(&hash));
            }
            assert_eq!(*shape.hashes(0).start(), 0);
            let edges =
                (1..lines).all(|i| *shape.hashes(i).start() == shape.hashes(i - 1).end() + 1);
            assert!(edges, "{lines} lines");
            assert_eq!(shape.home(u64::MAX).index, lines - 1);
        }
    }
}
