//! One session's cache of item memory. Every allocation goes through it.

use super::Arena;
use super::list::{FreeList, Run};
use super::poison;
use super::pool::Lot;
use crate::core::arena::classes::{
    CLASSED_MAX, CLASSES, FINE_MAX, GRAIN, UNIT, class_of, footprint, len_of,
};
use crate::core::sync::Arc;
use std::ptr::NonNull;

const RUN_LEN_MIN: u32 = 4 << 10;
/// Blocks of a batch, and the bytes of a batch of longer blocks.
pub(super) const BATCH: u32 = 256;
const BATCH_BYTES: u32 = 32 << 10;
/// A visit to a class's spans takes the batch size divided by this.
const ENOUGH: u32 = 4;

/// The batch size for blocks of this length.
fn batch(len: usize) -> u32 {
    (BATCH_BYTES / len as u32).clamp(1, BATCH)
}

/// A block of `len` bytes.
#[inline(always)]
fn take(list: &mut FreeList, len: usize) -> Option<NonNull<u8>> {
    let block = list.pop()?;
    // SAFETY: the block was the list's.
    unsafe { poison::take(block, len, list.head()) };
    Some(block)
}

/// One session's cache of item memory.
pub(crate) struct LocalArena {
    shared: Arc<Arena>,
    classes: Box<[LocalClass; CLASSES]>,
    /// Spans that this session has taken and not yet used.
    lot: Lot,
    /// The next class whose cache is returned (`age`).
    oldest: usize,
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct LocalClass {
    /// Blocks freed last.
    current: FreeList,
    /// Blocks taken from the spans; none is added one by one.
    stock: FreeList,
    run: Run,
    /// A batch of blocks freed earlier, or none.
    spare: FreeList,
}

const _: () = assert!(size_of::<LocalClass>() == 64, "a line");

// SAFETY: the lists name memory that this cache alone owns.
unsafe impl Send for LocalArena {}

impl LocalArena {
    pub(crate) fn new(shared: Arc<Arena>) -> Self {
        let whole = shared.pool.has_private_chunks();
        let ask = if whole { UNIT as u32 } else { RUN_LEN_MIN };
        let class = |number: usize| LocalClass {
            // Class 0 has no blocks.
            current: FreeList::of_batch(batch(len_of(number).max(1))),
            stock: FreeList::EMPTY,
            run: Run::empty(ask),
            spare: FreeList::EMPTY,
        };
        let classes = Box::new(std::array::from_fn(class));
        Self { shared, classes, lot: Lot::EMPTY, oldest: 0 }
    }

    /// Uninitialised memory for `size` bytes, 8-aligned.
    #[inline]
    pub(crate) fn alloc(&mut self, size: usize) -> NonNull<u8> {
        debug_assert!(size > 0, "items have a header");
        if size > FINE_MAX {
            return self.alloc_coarse(size);
        }
        let number = class_of(size);
        let block = self.alloc_classed(number, number * GRAIN);
        // SAFETY: the caller owns the block, and no session has seen it yet.
        unsafe { poison::mark(block, size, number * GRAIN) };
        block
    }

    #[inline(never)]
    fn alloc_coarse(&mut self, size: usize) -> NonNull<u8> {
        if size > CLASSED_MAX {
            return self.shared.large.alloc(footprint(size));
        }
        let number = class_of(size);
        let block = self.alloc_classed(number, len_of(number));
        // SAFETY: as in `alloc`.
        unsafe { poison::mark(block, size, len_of(number)) };
        block
    }

    #[inline(always)]
    fn alloc_classed(&mut self, number: usize, len: usize) -> NonNull<u8> {
        let class = &mut self.classes[number];
        if let Some(block) = take(&mut class.current, len) {
            return block;
        }
        if let Some(block) = take(&mut class.stock, len) {
            return block;
        }
        if let Some(block) = class.run.take(len) {
            return block;
        }
        self.refill(number)
    }

    #[cold]
    fn refill(&mut self, number: usize) -> NonNull<u8> {
        let class = &mut self.classes[number];
        class.current.fill(class.spare.take());
        let len = len_of(number);
        if let Some(block) = take(&mut class.current, len) {
            return block;
        }
        let enough = (class.current.batch() / ENOUGH).max(1);
        let LocalClass { stock, run, .. } = class;
        self.shared.take(number, stock, run, &mut self.lot, enough);
        let block = take(&mut class.stock, len).or_else(|| class.run.take(len));
        block.expect("a span that has anything has a block")
    }

    /// # Safety
    /// `block` must come from `alloc(size)` of a cache of the same arena, and no session may use it any
    /// more.
    #[inline]
    pub(crate) unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if size > FINE_MAX {
                self.free_coarse(block, size);
            } else {
                self.free_classed(block, class_of(size));
            }
        }
    }

    /// # Safety
    /// As for `free`.
    #[inline(never)]
    unsafe fn free_coarse(&mut self, block: NonNull<u8>, size: usize) {
        // SAFETY: the caller's promise; the same length went to `alloc`.
        unsafe {
            if size > CLASSED_MAX {
                self.shared.large.free(block, footprint(size));
            } else {
                self.free_classed(block, class_of(size));
            }
        }
    }

    /// # Safety
    /// As for `free`, and `class` must be that of the size.
    #[inline(always)]
    unsafe fn free_classed(&mut self, block: NonNull<u8>, number: usize) {
        let class = &mut self.classes[number];
        // SAFETY: the caller gives up the block, which has this class's size.
        unsafe {
            poison::free(block, len_of(number));
            class.current.push(block);
        }
        if class.current.is_full() {
            let full = class.current.take();
            let older = std::mem::replace(&mut class.spare, full);
            if older.len() > 0 {
                self.overflow(number, older);
            }
        }
    }

    #[cold]
    fn overflow(&self, class: usize, list: FreeList) {
        // SAFETY: the list is of this class, and ours.
        unsafe { self.shared.give(class, &[list], &mut Run::empty(0)) };
    }

    /// Returns the cache of one class per call, in turn: a block that stays in a cache for long keeps its chunk
    /// in memory.
    pub(crate) fn age(&mut self) {
        self.give_back_class(self.oldest);
        self.oldest = (self.oldest + 1) % CLASSES;
    }

    /// Returns the complete cache.
    pub(crate) fn give_back(&mut self) {
        (0..CLASSES).for_each(|class| self.give_back_class(class));
        self.shared.pool.give_lot(&mut self.lot);
    }

    fn give_back_class(&mut self, class: usize) {
        let local = &mut self.classes[class];
        let lists = [local.current.take(), local.stock.take(), local.spare.take()];
        if lists.iter().all(|list| list.len() == 0) && local.run.is_empty() {
            return;
        }
        // SAFETY: the lists and the run are of this class, and ours.
        unsafe { self.shared.give(class, &lists, &mut local.run) };
    }
}

impl Drop for LocalArena {
    fn drop(&mut self) {
        self.give_back();
    }
}
