//! Marks in blocks that let tests on real memory detect misuse, in builds with debug assertions. Release
//! builds have none.
//!
//! * A free block is filled with [`POISON`] behind its link. If that has changed at reuse, the block was
//!   written to after it was freed.
//! * A poisoned block that is freed was freed twice.
//! * The rest of a block behind its item is [`CANARY`]. If that has changed when the item is freed, a write
//!   went past its end. An item that fills its block has no canary; a write past it is detected if the next
//!   block is free.
//! * An allocated block is filled with [`STALE`], so that no session reads old contents.
//!
//! Only the first [`LOOKED_AT`] bytes of a long block are checked.

use std::ptr::NonNull;

const STALE: u8 = 0xa5;
const CANARY: u8 = 0xc7;
/// Bytes of a block that are checked.
const LOOKED_AT: usize = 512;
/// Bytes behind an item that are checked.
const CANARIES: usize = 16;
/// Length of the link to the next free block.
const LINK: usize = 8;

/// The fill of a free block. Every byte differs from the previous byte, a pattern that items hardly ever have.
static POISON: [u8; LOOKED_AT] = {
    let mut bytes = [0; LOOKED_AT];
    let mut at = 0;
    while at < LOOKED_AT {
        bytes[at] = (0xdb + 37 * at) as u8;
        at += 1;
    }
    bytes
};
static CANARY_BYTES: [u8; CANARIES] = [CANARY; CANARIES];

/// # Safety
/// The bytes must be initialised, and no session may write to them meanwhile.
unsafe fn bytes<'a>(block: NonNull<u8>, from: usize, to: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(block.as_ptr().add(from), to - from) }
}

/// Marks a block of `len` bytes as free.
///
/// # Safety
/// The caller gives up the block.
#[inline(always)]
pub(super) unsafe fn free(block: NonNull<u8>, len: usize) {
    if cfg!(debug_assertions) && len > LINK {
        let to = len.min(LOOKED_AT);
        // SAFETY: they are the block's bytes, no other session's, and written by `mark`.
        let is_free = unsafe { bytes(block, LINK, to) } == &POISON[LINK..to];
        assert!(!is_free, "the block of {len} bytes at {block:p} is freed twice");
        // SAFETY: the caller's promise.
        unsafe { fill(block, len) };
    }
}

/// As `free`, for a block that was never allocated.
///
/// # Safety
/// As for `free`.
#[inline(always)]
pub(super) unsafe fn fill(block: NonNull<u8>, len: usize) {
    if cfg!(debug_assertions) {
        // SAFETY: the caller's promise; blocks are not shorter than a link.
        unsafe {
            let poison = POISON.as_ptr().add(LINK);
            block.as_ptr().add(LINK).copy_from_nonoverlapping(poison, len.min(LOOKED_AT) - LINK);
        }
    }
}

/// Takes a free block of `len` bytes; `next` is its link.
///
/// # Safety
/// The block must be marked as free, and the caller must own it.
#[inline(always)]
pub(super) unsafe fn take(block: NonNull<u8>, len: usize, next: *mut u8) {
    if cfg!(debug_assertions) && len > LINK {
        let to = len.min(LOOKED_AT);
        // SAFETY: the caller's promise.
        let was_left = unsafe { bytes(block, LINK, to) } == &POISON[LINK..to];
        let is_link = next.addr().is_multiple_of(8) && next.addr() >> 47 == 0;
        assert!(
            was_left && is_link,
            "somebody wrote to the block of {len} bytes at {block:p} after it was freed"
        );
    }
}

/// Marks a block of `len` bytes as allocated for `size` of them.
///
/// # Safety
/// The caller must own the block.
#[inline(always)]
pub(super) unsafe fn mark(block: NonNull<u8>, size: usize, len: usize) {
    if cfg!(debug_assertions) {
        // SAFETY: the caller's promise.
        unsafe {
            block.as_ptr().write_bytes(STALE, size.min(LOOKED_AT));
            block.as_ptr().add(size).write_bytes(CANARY, (len - size).min(CANARIES));
        }
    }
}

/// Checks that nothing was written behind the end of an item of `size` bytes.
///
/// # Safety
/// The block of `len` bytes must be allocated for that size.
#[inline(always)]
pub(super) unsafe fn check_end(block: NonNull<u8>, size: usize, len: usize) {
    if cfg!(debug_assertions) {
        let to = len.min(size + CANARIES);
        // SAFETY: written by `mark`; no session has a reason to write there.
        let is_whole = unsafe { bytes(block, size, to) } == &CANARY_BYTES[..to - size];
        assert!(is_whole, "somebody wrote past the end of the item of {size} bytes at {block:p}");
    }
}
