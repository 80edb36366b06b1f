//! Item memory for sanitizers: every item is a block of the process's allocator, freed the moment
//! the index says so. Nothing here remembers a block: what the index does not find when it goes is
//! a leak, which the arena complains about and a leak checker names.

use super::footprint;
use super::large::Large;
use crate::sync::Arc;
use std::ptr::NonNull;

/// What all sessions share: a count.
pub(crate) struct Arena {
    blocks: Large,
}

impl Arena {
    pub(crate) fn new(_huge_pages: bool, _whole_chunks: bool) -> Self {
        Self { blocks: Large::new() }
    }

    /// Nothing is mapped.
    pub(crate) fn mapped_bytes(&self) -> usize {
        0
    }

    /// Bytes of all blocks that are out.
    pub(crate) fn held_bytes(&self) -> usize {
        self.blocks.bytes() as usize
    }

    /// Whether any block would outlive the arena.
    pub(crate) fn has_large(&self) -> bool {
        self.blocks.is_any()
    }

    /// Frees a block: none goes with the arena.
    ///
    /// # Safety
    /// As for [`LocalArena::free`].
    pub(crate) unsafe fn free_if_large(&self, block: NonNull<u8>, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.blocks.free(block, footprint(size)) };
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let left = self.blocks.bytes();
        assert!(left == 0 || std::thread::panicking(), "{left} bytes of items were not found");
    }
}

/// A session's way to the arena.
pub(crate) struct LocalArena(Arc<Arena>);

#[allow(clippy::unused_self)]
impl LocalArena {
    pub(crate) fn new(shared: Arc<Arena>) -> Self {
        Self(shared)
    }

    /// Uninitialised memory for `size` bytes, 8-aligned.
    pub(crate) fn alloc(&mut self, size: usize) -> NonNull<u8> {
        self.0.blocks.alloc(footprint(size))
    }

    /// # Safety
    /// `block` came from `alloc(size)` of the same arena, and nobody uses it any more.
    pub(crate) unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.blocks.free(block, footprint(size)) };
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
        // Freed behind the arena's back, so that a leak checker has nothing to say.
        let layout = std::alloc::Layout::from_size_align(24, 8).expect("a valid layout");
        // SAFETY: the block came from the process's allocator with this layout.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout) };
        drop(arena);
    }
}
