//! One session's cache of item memory: the path of every allocation.

use super::list::{FreeList, Run};
use super::pool::Lot;
use super::span::SPAN_LEN;
use super::{Arena, CLASSED_MAX, CLASSES, GRAIN, footprint};
use crate::sync::Arc;
use std::ptr::NonNull;

const RUN_LEN_MIN: u32 = 4 << 10;
/// Blocks that go back together.
pub(super) const BATCH: u32 = 256;
/// Blocks that are enough for a visit to the class's spans.
const ENOUGH: u32 = 64;

/// One session's cache of item memory.
pub(crate) struct LocalArena {
    shared: Arc<Arena>,
    classes: Box<[LocalClass]>,
    /// Spans that this session has taken and not begun.
    lot: Lot,
    /// The class whose cache is given back next (`age`).
    oldest: usize,
}

#[repr(align(64))]
#[derive(Clone, Copy)]
struct LocalClass {
    /// What was freed last.
    current: FreeList,
    /// What came from the spans; only taken from.
    stock: FreeList,
    run: Run,
    /// A batch of what was freed before, or nothing.
    spare: FreeList,
}

const _: () = assert!(size_of::<LocalClass>() == 64, "a line");

// SAFETY: the lists name memory that this cache alone owns.
unsafe impl Send for LocalArena {}

impl LocalArena {
    pub(crate) fn new(shared: Arc<Arena>) -> Self {
        let whole = shared.pool.takes_whole_chunks();
        let ask = if whole { SPAN_LEN as u32 } else { RUN_LEN_MIN };
        let class = LocalClass {
            current: FreeList::EMPTY,
            stock: FreeList::EMPTY,
            run: Run::empty(ask),
            spare: FreeList::EMPTY,
        };
        let classes = vec![class; CLASSES].into_boxed_slice();
        Self { shared, classes, lot: Lot::EMPTY, oldest: 0 }
    }

    /// Uninitialised memory for `size` bytes, 8-aligned.
    #[inline]
    pub(crate) fn alloc(&mut self, size: usize) -> NonNull<u8> {
        debug_assert!(size > 0, "items have a header");
        let len = footprint(size);
        if len > CLASSED_MAX {
            return self.shared.large.alloc(len);
        }
        let class = &mut self.classes[len / GRAIN];
        if let Some(block) = class.current.pop() {
            return block;
        }
        if let Some(block) = class.stock.pop() {
            return block;
        }
        if let Some(block) = class.run.take(len) {
            return block;
        }
        self.refill(len)
    }

    #[cold]
    fn refill(&mut self, len: usize) -> NonNull<u8> {
        let class = &mut self.classes[len / GRAIN];
        class.current = std::mem::replace(&mut class.spare, FreeList::EMPTY);
        if let Some(block) = class.current.pop() {
            return block;
        }
        let LocalClass { stock, run, .. } = class;
        self.shared.take(len / GRAIN, stock, run, &mut self.lot, ENOUGH);
        let block = class.stock.pop().or_else(|| class.run.take(len));
        block.expect("a span that has anything has a block")
    }

    /// # Safety
    /// `block` came from `alloc(size)` of a cache of the same arena, and nobody uses it any more.
    #[inline]
    pub(crate) unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        let len = footprint(size);
        if len > CLASSED_MAX {
            // SAFETY: the same length went to `alloc`.
            unsafe { self.shared.large.free(block, len) };
            return;
        }
        let class = &mut self.classes[len / GRAIN];
        // SAFETY: the caller gives up the block, which has this class's size.
        unsafe { class.current.push(block) };
        if class.current.len() >= BATCH {
            let full = std::mem::replace(&mut class.current, FreeList::EMPTY);
            let older = std::mem::replace(&mut class.spare, full);
            if older.len() > 0 {
                self.overflow(len / GRAIN, older);
            }
        }
    }

    #[cold]
    fn overflow(&self, class: usize, list: FreeList) {
        // SAFETY: the list is of this class, and ours.
        unsafe { self.shared.give(class, &[list], &mut Run::empty(0)) };
    }

    /// Called now and then, gives back the cache of one class after the other: what lies in it for
    /// long keeps its chunk from going back.
    pub(crate) fn age(&mut self) {
        self.give_back_class(self.oldest);
        self.oldest = (self.oldest + 1) % CLASSES;
    }

    /// Gives all of the cache back.
    pub(crate) fn give_back(&mut self) {
        (0..CLASSES).for_each(|class| self.give_back_class(class));
        self.shared.pool.give_lot(&mut self.lot);
    }

    fn give_back_class(&mut self, class: usize) {
        let local = &mut self.classes[class];
        let lists = [local.current, local.stock, local.spare];
        if lists.iter().all(|list| list.len() == 0) && local.run.is_empty() {
            return;
        }
        (local.current, local.stock, local.spare) =
            (FreeList::EMPTY, FreeList::EMPTY, FreeList::EMPTY);
        // SAFETY: the lists and the run are of this class, and ours.
        unsafe { self.shared.give(class, &lists, &mut local.run) };
    }
}

impl Drop for LocalArena {
    fn drop(&mut self) {
        self.give_back();
    }
}
