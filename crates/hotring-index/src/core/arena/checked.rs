//! Item memory under a model checker: one allocation per block, never reused, so that a late access meets
//! the old contents and the checker's record of them.

use super::footprint;
use crate::core::sync::{Arc, Mutex};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, 8).expect("an item is short")
}

/// All blocks of one checker run.
pub(crate) struct Arena {
    blocks: Mutex<Vec<(NonNull<u8>, usize)>>,
}

// SAFETY: the pointers name memory that the arena owns.
unsafe impl Send for Arena {}
// SAFETY: as above; the list is under a mutex.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(_huge_pages: bool, _whole_chunks: bool) -> Self {
        Self { blocks: Mutex::default() }
    }

    pub(crate) fn mapped_bytes(&self) -> usize {
        0
    }

    pub(crate) fn held_bytes(&self) -> usize {
        0
    }

    /// The addresses of all blocks, including freed ones.
    pub(crate) fn blocks(&self) -> Vec<u64> {
        let blocks = self.blocks.lock().expect("no code panics under this lock");
        blocks.iter().map(|(block, _)| block.as_ptr().expose_provenance() as u64).collect()
    }

    pub(crate) fn has_large(&self) -> bool {
        false
    }

    /// # Safety
    /// None is needed: nothing is freed.
    pub(crate) unsafe fn free_if_large(&self, _block: NonNull<u8>, _size: usize) {}
}

/// The state of a survey; there are no chunks to survey.
#[derive(Default)]
pub(crate) struct Survey;

/// Compaction moves every item, so that the checker explores moves.
#[allow(clippy::unused_self)]
impl Arena {
    pub(crate) fn waste(&self, _items: usize, _is_tight: bool) -> Option<usize> {
        Some(1)
    }

    pub(crate) fn survey(&self, _: &mut Survey, _count: usize, _items: usize, _: bool) -> bool {
        true
    }

    pub(crate) fn close(&self, _survey: Survey, _items: usize, _: bool) -> Option<usize> {
        Some(1)
    }

    pub(crate) fn has_gained(&self, _held: usize) -> bool {
        true
    }

    pub(crate) fn leaves(&self, _block: NonNull<u8>, _size: usize) -> bool {
        true
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
        for (block, len) in self.blocks.get_mut().expect("no code panics under this lock").drain(..)
        {
            // SAFETY: from `alloc` with this length; the run is over.
            unsafe { dealloc(block.as_ptr(), layout(len)) };
        }
    }
}

/// A session's access to the arena.
pub(crate) struct LocalArena(Arc<Arena>);

impl LocalArena {
    pub(crate) fn new(shared: Arc<Arena>) -> Self {
        Self(shared)
    }

    pub(crate) fn alloc(&mut self, size: usize) -> NonNull<u8> {
        let len = footprint(size);
        // SAFETY: items have a header, so the layout is not empty.
        let block = NonNull::new(unsafe { alloc(layout(len)) });
        let Some(block) = block else { handle_alloc_error(layout(len)) };
        self.0.blocks.lock().expect("no code panics under this lock").push((block, len));
        block
    }

    /// # Safety
    /// None is needed: blocks are kept until the run is over.
    pub(crate) unsafe fn free(&mut self, _block: NonNull<u8>, _size: usize) {}

    /// Nothing is cached.
    pub(crate) fn age(&mut self) {}

    /// Nothing is cached.
    pub(crate) fn give_back(&mut self) {}
}
