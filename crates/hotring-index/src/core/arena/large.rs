//! Blocks of entire pages, mapped one by one and unmapped when freed. Their bytes are counted, so that an
//! index that is being dropped knows whether any are left.

use crate::core::memory::{map_pages, unmap_pages};
use crate::core::sync::{Ordering, TallyU64};
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// The allocated blocks.
pub(super) struct Large {
    bytes: TallyU64,
}

impl Large {
    pub(super) fn new() -> Self {
        Self { bytes: TallyU64::new(0) }
    }

    /// Zeroed memory of entire pages. Aborts like any failed allocation if the system has none.
    #[cold]
    pub(super) fn alloc(&self, len: usize) -> NonNull<u8> {
        let Ok(block) = map_pages(len) else {
            let layout = Layout::from_size_align(len, 8);
            handle_alloc_error(layout.expect("an item is shorter than the address space"))
        };
        // ORDERING: Relaxed, a sum that is exact when no other thread is left.
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        block
    }

    /// # Safety
    /// `block` must come from `alloc(len)`, and no session may use it any more.
    #[cold]
    pub(super) unsafe fn free(&self, block: NonNull<u8>, len: usize) {
        // SAFETY: mapped with this length, and the caller gives it up.
        unsafe { unmap_pages(block, len) };
        // ORDERING: Relaxed, as in `alloc`.
        self.bytes.fetch_sub(len as u64, Ordering::Relaxed);
    }

    /// Allocated bytes.
    pub(super) fn bytes(&self) -> usize {
        // ORDERING: Relaxed, as in `alloc`.
        self.bytes.load(Ordering::Relaxed) as usize
    }
}
