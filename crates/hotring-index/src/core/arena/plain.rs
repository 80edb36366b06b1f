//! Item memory for sanitizers: every item is a block of the process's allocator, freed as soon as the index
//! frees it. The arena keeps no list of blocks, so an item that the index loses is a leak: the arena reports
//! the leak, and a leak checker names the block.

use super::footprint;
use crate::core::memory::is_addressable;
use crate::core::sync::{Arc, Ordering, TallyU64};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

fn layout(size: usize) -> Layout {
    Layout::from_size_align(footprint(size), 8).expect("an item is shorter than the address space")
}

/// The state that all sessions share.
pub(crate) struct Arena {
    /// Bytes of the allocated blocks.
    bytes: TallyU64,
}

impl Arena {
    pub(crate) fn new(_huge_pages: bool, _whole_chunks: bool) -> Self {
        Self { bytes: TallyU64::new(0) }
    }

    /// Nothing is mapped.
    pub(crate) fn mapped_bytes(&self) -> usize {
        0
    }

    /// Bytes of all allocated blocks.
    pub(crate) fn held_bytes(&self) -> usize {
        // ORDERING: Relaxed, a sum that is exact when no other thread is left.
        self.bytes.load(Ordering::Relaxed) as usize
    }

    /// Whether any block would outlive the arena.
    pub(crate) fn has_large(&self) -> bool {
        self.held_bytes() != 0
    }

    /// Frees a block of any size: this arena frees none when it is dropped.
    ///
    /// # Safety
    /// As for [`LocalArena::free`].
    pub(crate) unsafe fn free_if_large(&self, block: NonNull<u8>, size: usize) {
        // SAFETY: allocated with this layout, by the caller's promise.
        unsafe { dealloc(block.as_ptr(), layout(size)) };
        // ORDERING: Relaxed, as in `held_bytes`.
        self.bytes.fetch_sub(footprint(size) as u64, Ordering::Relaxed);
    }
}

impl Arena {
    /// # Safety
    /// None is needed: there is no canary to check.
    #[allow(clippy::unused_self)]
    pub(crate) unsafe fn check_end(&self, _block: NonNull<u8>, _size: usize) {}
}

impl Drop for Arena {
    fn drop(&mut self) {
        let left = self.held_bytes();
        assert!(left == 0 || std::thread::panicking(), "{left} bytes of items were not found");
    }
}

/// The state of a survey; there are no chunks to survey.
#[derive(Default)]
pub(crate) struct Survey;

/// Compaction does nothing, because the overhead of the process's allocator is unknown.
#[allow(clippy::unused_self)]
impl Arena {
    pub(crate) fn waste(&self, _items: usize, _is_tight: bool) -> Option<usize> {
        None
    }

    pub(crate) fn survey(&self, _: &mut Survey, _count: usize, _items: usize, _: bool) -> bool {
        true
    }

    pub(crate) fn close(&self, _survey: Survey, _items: usize, _: bool) -> Option<usize> {
        None
    }

    pub(crate) fn has_gained(&self, _held: usize) -> bool {
        false
    }

    pub(crate) fn leaves(&self, _block: NonNull<u8>, _size: usize) -> bool {
        false
    }
}

/// A session's access to the arena.
pub(crate) struct LocalArena(Arc<Arena>);

#[allow(clippy::unused_self)]
impl LocalArena {
    pub(crate) fn new(shared: Arc<Arena>) -> Self {
        Self(shared)
    }

    /// Uninitialised memory for `size` bytes, 8-aligned.
    pub(crate) fn alloc(&mut self, size: usize) -> NonNull<u8> {
        debug_assert!(size > 0, "items have a header");
        // SAFETY: items have a header, so the layout is not empty.
        let block = NonNull::new(unsafe { alloc(layout(size)) });
        let Some(block) = block else { handle_alloc_error(layout(size)) };
        assert!(is_addressable(block, size), "memory at {block:p} does not fit into a link");
        // ORDERING: Relaxed, as in `held_bytes`.
        self.0.bytes.fetch_add(footprint(size) as u64, Ordering::Relaxed);
        block
    }

    /// # Safety
    /// `block` must come from `alloc(size)` of the same arena, and no session may use it any more.
    pub(crate) unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free_if_large(block, size) };
    }

    /// Nothing is cached.
    pub(crate) fn age(&mut self) {}

    /// Nothing is cached.
    pub(crate) fn give_back(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "24 bytes of items were not found")]
    fn an_item_that_is_not_found_is_complained_about() {
        let arena = Arc::new(Arena::new(false, false));
        let block = LocalArena::new(arena.clone()).alloc(20);
        // Bypass the arena's count, so that a leak checker finds no leak.
        let layout = std::alloc::Layout::from_size_align(24, 8).expect("a valid layout");
        // SAFETY: the block came from the process's allocator with this layout.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        drop(arena);
    }
}
