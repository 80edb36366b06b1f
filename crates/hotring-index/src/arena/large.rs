//! Blocks from the process's allocator, counted, so that the index knows whether to look for them
//! when it goes.

use super::GRAIN;
use crate::memory::is_addressable;
use crate::sync::{Ordering, TallyU64};
use std::alloc::Layout;
use std::ptr::NonNull;

/// The blocks that are out.
pub(super) struct Large {
    bytes: TallyU64,
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, GRAIN).expect("an item is shorter than the address space")
}

impl Large {
    pub(super) fn new() -> Self {
        Self { bytes: TallyU64::new(0) }
    }

    /// Uninitialised memory; aborts like any allocation failure when there is none.
    #[cold]
    pub(super) fn alloc(&self, len: usize) -> NonNull<u8> {
        assert!(len > 0, "items have a header");
        // SAFETY: len > 0, so the layout is not empty.
        let raw = unsafe { std::alloc::alloc(layout(len)) };
        let Some(block) = NonNull::new(raw) else { std::alloc::handle_alloc_error(layout(len)) };
        assert!(is_addressable(block, len), "memory at {block:p} does not fit into a link");
        // ORDERING: Relaxed, a sum that is exact when no other thread is left.
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        block
    }

    /// # Safety
    /// `block` came from `alloc(len)` and nobody uses it any more.
    #[cold]
    pub(super) unsafe fn free(&self, block: NonNull<u8>, len: usize) {
        // SAFETY: same layout as at allocation, by the caller's promise.
        unsafe { std::alloc::dealloc(block.as_ptr(), layout(len)) };
        // ORDERING: Relaxed, as in `alloc`.
        self.bytes.fetch_sub(len as u64, Ordering::Relaxed);
    }

    /// Whether any block is out.
    pub(super) fn is_any(&self) -> bool {
        self.bytes() != 0
    }

    /// Bytes of all that are out.
    pub(super) fn bytes(&self) -> u64 {
        // ORDERING: Relaxed, as in `alloc`.
        self.bytes.load(Ordering::Relaxed)
    }
}
