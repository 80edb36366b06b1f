//! The memory of a table. Pages are allocated when they are touched, and given back to the system
//! window by window.

use super::lane::Line;
use crate::core::memory::HUGE_PAGE;
#[cfg(not(loom))]
use crate::core::memory::Mapping;
use crate::core::sync::{AtomicU64, Ordering};
#[cfg(not(loom))]
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// Lines whose pages are given back together: 2 MiB, and under loom more than a sequence is long.
pub(super) const WINDOW: u64 = if cfg!(loom) { 2 } else { (HUGE_PAGE / size_of::<Line>()) as u64 };

/// Flag in the count of a window: its pages were given back.
const GIVEN_BACK: u64 = 1 << 32;

/// For each full window: the number of its homes that have moved on, and whether its pages were given back. They are
/// counted one by one, as later homes may move on before earlier ones.
pub(super) struct Windows(Box<[AtomicU64]>);

impl Windows {
    /// The windows of a table of this many lines.
    pub(super) fn new(lines: u64) -> Self {
        Self((0..lines / WINDOW).map(|_| AtomicU64::new(0)).collect())
    }

    /// Counts homes of one window as moved on. Calls `give_back` with each window whose pages no home needs any more:
    /// a window's lines have items of its own homes and of those of the window before, so both must have moved on.
    /// `alone` is a wrong variant: it does not look at the window before.
    pub(super) fn count(&self, homes: &Range<u64>, alone: bool, mut give_back: impl FnMut(u64)) {
        let (window, number) = ((homes.start / WINDOW) as usize, homes.end - homes.start);
        let Some(count) = self.0.get(window) else { return };
        // ORDERING: SeqCst: of two threads that end two windows, one must see both ended. It also is the AcqRel
        // that orders the movers' accesses before the pages are given back.
        if count.fetch_add(number, Ordering::SeqCst) + number == WINDOW {
            let both = [window, window + 1];
            both.into_iter().filter(|window| self.claim(*window, alone)).for_each(|window| {
                give_back(window as u64);
            });
        }
    }

    /// Whether this thread must give a window back.
    fn claim(&self, window: usize, alone: bool) -> bool {
        // ORDERING: SeqCst, as in `count`.
        let has_moved = |count: &AtomicU64| count.load(Ordering::SeqCst) & !GIVEN_BACK == WINDOW;
        let Some(count) = self.0.get(window).filter(|count| has_moved(count)) else {
            return false;
        };
        if window > 0 && !has_moved(&self.0[window - 1]) && !alone {
            return false;
        }
        // ORDERING: Relaxed: it only decides which thread does it.
        count.fetch_or(GIVEN_BACK, Ordering::Relaxed) & GIVEN_BACK == 0
    }
}

/// The memory of a table.
#[cfg(not(loom))]
pub(super) enum Memory {
    /// From the process's allocator.
    Block(NonNull<u8>, Layout),
    /// From the system.
    Pages(Mapping, u64),
}

/// Tables of up to this many bytes are blocks.
#[cfg(not(loom))]
const BLOCK_MAX: usize = 1 << 20;

#[cfg(not(loom))]
impl Memory {
    /// Lines of zeros.
    pub(super) fn new(lines: u64, huge_pages: bool) -> io::Result<Self> {
        let bytes = lines as usize * size_of::<Line>();
        if bytes > BLOCK_MAX {
            let bytes = bytes.next_multiple_of(HUGE_PAGE);
            return Ok(Self::Pages(
                Mapping::reserve(bytes, huge_pages)?,
                (bytes / HUGE_PAGE) as u64,
            ));
        }
        let layout = Layout::from_size_align(bytes, align_of::<Line>()).expect("a small block");
        // SAFETY: the layout is not empty.
        let start =
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::Block(start, layout))
    }

    pub(super) fn start(&self) -> NonNull<Line> {
        match self {
            Self::Block(start, _) => start.cast(),
            Self::Pages(mapping, _) => mapping.start().cast(),
        }
    }

    /// The number of windows for the functions below; the last window may have fewer lines.
    pub(super) fn windows(&self) -> u64 {
        match self {
            Self::Block(..) => 0,
            Self::Pages(_, windows) => *windows,
        }
    }

    /// Gives the pages of a window back to the system: they read as zeros afterwards.
    pub(super) fn give_back(&self, window: u64) {
        self.with(window, |mapping, from, to| _ = mapping.give_back(from, to));
    }

    /// Allocates the pages of a window before they are touched.
    pub(super) fn populate(&self, window: u64) {
        // Only advice: if it is refused, pages are allocated when they are touched.
        self.with(window, |mapping, from, to| _ = mapping.populate(from, to));
    }

    /// Makes the pages of a window a huge one.
    pub(super) fn collapse(&self, window: u64) {
        // Only advice: if it is refused, the pages stay small.
        self.with(window, |mapping, from, to| _ = mapping.collapse(from, to));
    }

    fn with(&self, window: u64, f: impl FnOnce(&Mapping, usize, usize)) {
        if let Self::Pages(mapping, _) = self {
            f(mapping, window as usize * HUGE_PAGE, (window as usize + 1) * HUGE_PAGE);
        }
    }
}

#[cfg(not(loom))]
impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Block(start, layout) = self {
            // SAFETY: the block was allocated with this layout, and the table that owns it is
            // dropped.
            unsafe { dealloc(start.as_ptr(), *layout) };
        }
    }
}

// SAFETY: a block is memory like a mapping, which is `Send` and `Sync`; all accesses go through
// `lane`.
#[cfg(not(loom))]
unsafe impl Send for Memory {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Memory {}

/// Under loom: lines that are never freed before the table.
#[cfg(loom)]
pub(super) struct Memory(Box<[Line]>);

#[cfg(loom)]
impl Memory {
    /// Lines of zeros.
    pub(super) fn new(lines: u64, _huge_pages: bool) -> io::Result<Self> {
        Ok(Self((0..lines).map(|_| Line::new()).collect()))
    }

    pub(super) fn start(&self) -> NonNull<Line> {
        NonNull::from(&self.0[0])
    }

    /// There are no pages.
    pub(super) fn windows(&self) -> u64 {
        0
    }

    /// Zeros.
    pub(super) fn give_back(&self, window: u64) {
        let window = window as usize * WINDOW as usize;
        self.0[window..window + WINDOW as usize].iter().for_each(Line::wipe);
    }

    pub(super) fn populate(&self, _window: u64) {}

    pub(super) fn collapse(&self, _window: u64) {}
}
