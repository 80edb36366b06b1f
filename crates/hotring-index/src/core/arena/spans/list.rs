//! Free memory of one class in a session's hands: lists of blocks, and runs that were never used.

use std::ptr::{NonNull, null_mut};

/// Blocks, each of which holds the address of the next one.
#[derive(Clone, Copy)]
pub(super) struct FreeList {
    head: *mut u8,
    len: u32,
    /// This many are a batch; for callers that keep batches.
    batch: u32,
}

impl FreeList {
    pub(super) const EMPTY: Self = Self::of_batch(0);

    /// No block, and a batch of this many.
    pub(super) const fn of_batch(batch: u32) -> Self {
        Self { head: null_mut(), len: 0, batch }
    }

    /// What there is, which the list gives up.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::of_batch(self.batch))
    }

    /// Takes over another list's blocks, having none.
    pub(super) fn fill(&mut self, from: Self) {
        debug_assert!(self.len == 0, "what is there would be lost");
        (self.head, self.len) = (from.head, from.len);
    }

    pub(super) fn batch(&self) -> u32 {
        self.batch
    }

    /// Whether it has a batch.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len >= self.batch
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// # Safety
    /// `block` is unused memory of the list's class, owned by the caller.
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

    /// Puts linked blocks in front, the first of which is `head` and the last `tail`.
    ///
    /// # Safety
    /// They are so linked, `len` in number, of the list's class, and owned by the caller.
    pub(super) unsafe fn prepend(&mut self, head: *mut u8, tail: *mut u8, len: u32) {
        // SAFETY: the caller's promise.
        unsafe { link(tail, self.head) };
        self.head = head;
        self.len += len;
    }
}

/// # Safety
/// `block` is unused memory of a class, owned by the caller.
#[inline]
pub(super) unsafe fn link(block: *mut u8, next: *mut u8) {
    // SAFETY: blocks are at least 8 bytes, 8-aligned, and the caller owns this one.
    unsafe { block.cast::<*mut u8>().write(next) };
}

/// Whole blocks in a row that were never used, or not since their span was free. Nothing is written
/// to them, so that memory is only touched as it is used.
#[derive(Clone, Copy)]
pub(super) struct Run {
    at: *mut u8,
    bytes: u32,
    /// Bytes to ask for the next time.
    pub(super) ask: u32,
}

impl Run {
    pub(super) const fn empty(ask: u32) -> Self {
        Self { at: null_mut(), bytes: 0, ask }
    }

    /// # Safety
    /// `bytes` from `at` on are blocks of one span, owned by the caller.
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

    /// What is left, which the run gives up.
    pub(super) fn empty_out(&mut self) -> Option<(NonNull<u8>, u32)> {
        let (at, bytes) = (NonNull::new(self.at)?, std::mem::take(&mut self.bytes));
        (bytes > 0).then_some((at, bytes))
    }
}
