//! Free memory of one class owned by a session: linked blocks, and runs of unused blocks.

use std::ptr::{NonNull, null_mut};

/// A linked list through the blocks.
#[derive(Clone, Copy)]
pub(super) struct FreeList {
    head: *mut u8,
    len: u32,
    /// Blocks per batch, for callers that keep batches.
    batch: u32,
}

impl FreeList {
    pub(super) const EMPTY: Self = Self::of_batch(0);

    /// An empty list with this batch size.
    pub(super) const fn of_batch(batch: u32) -> Self {
        Self { head: null_mut(), len: 0, batch }
    }

    /// Returns all blocks and leaves the list empty.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::of_batch(self.batch))
    }

    /// Takes over the blocks of another list. This one must be empty.
    pub(super) fn fill(&mut self, from: Self) {
        debug_assert!(self.len == 0, "its blocks would be lost");
        (self.head, self.len) = (from.head, from.len);
    }

    pub(super) fn batch(&self) -> u32 {
        self.batch
    }

    /// Whether the list is a batch or longer.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len >= self.batch
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// # Safety
    /// `block` must be unused memory of the list's class, owned by the caller.
    #[inline]
    pub(super) unsafe fn push(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe { link(block.as_ptr(), self.head) };
        self.head = block.as_ptr();
        self.len += 1;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head)?;
        // SAFETY: a block in the list holds the next one's address (`link`), and the list owns it.
        self.head = unsafe { block.cast::<*mut u8>().read() };
        self.len -= 1;
        Some(block)
    }

    /// The first block, or null.
    pub(super) fn head(&self) -> *mut u8 {
        self.head
    }

    /// Prepends linked blocks from `head` to `tail`.
    ///
    /// # Safety
    /// They must be linked, `len` in number, of the list's class, and owned by the caller.
    pub(super) unsafe fn prepend(&mut self, head: *mut u8, tail: *mut u8, len: u32) {
        // SAFETY: the caller's promise.
        unsafe { link(tail, self.head) };
        self.head = head;
        self.len += len;
    }
}

/// # Safety
/// `block` must be unused memory of a class, owned by the caller.
#[inline]
pub(super) unsafe fn link(block: *mut u8, next: *mut u8) {
    // SAFETY: blocks are at least 8 bytes, 8-aligned, and the caller owns this one.
    unsafe { block.cast::<*mut u8>().write(next) };
}

/// Adjacent blocks that are unused since their span was last free. They are not written to, so memory is
/// touched only as it is used.
#[derive(Clone, Copy)]
pub(super) struct Run {
    at: *mut u8,
    bytes: u32,
    /// Bytes to request next time.
    pub(super) ask: u32,
}

impl Run {
    pub(super) const fn empty(ask: u32) -> Self {
        Self { at: null_mut(), bytes: 0, ask }
    }

    /// # Safety
    /// The `bytes` from `at` on must be blocks of one span, owned by the caller.
    pub(super) unsafe fn fill(&mut self, at: *mut u8, bytes: u32) {
        debug_assert!(self.bytes == 0, "what is left would be lost");
        (self.at, self.bytes) = (at, bytes);
    }

    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        if (self.bytes as usize) < len {
            return None;
        }
        let block = self.at;
        self.bytes -= len as u32;
        // SAFETY: len <= bytes, so the new position is inside the run or one past its end.
        self.at = unsafe { self.at.add(len) };
        NonNull::new(block)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the remainder and leaves the run empty.
    pub(super) fn empty_out(&mut self) -> Option<(NonNull<u8>, u32)> {
        let (at, bytes) = (NonNull::new(self.at)?, std::mem::take(&mut self.bytes));
        (bytes > 0).then_some((at, bytes))
    }
}
