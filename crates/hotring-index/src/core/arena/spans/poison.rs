//! What a build with debug assertions knows of blocks, so that tests of the index on its real memory notice who
//! uses it wrongly. Nothing in release builds.
//!
//! * A free block is filled with [`POISON`] behind its link to the next one. Who takes it looks: if that
//!   has changed, it was written to after it was free.
//! * Who frees a block that is poisoned frees it twice.
//! * What a block has beyond its item is [`CANARY`]: if that has changed when the item goes, a write went past
//!   its end. An item as long as its block has none; who writes past that one is noticed if the next
//!   block is free.
//! * A block that is given out is filled with [`STALE`], so that no session finds what it held.
//!
//! Of a long block only the first [`LOOKED_AT`] bytes are looked at.

use std::ptr::NonNull;

const STALE: u8 = 0xa5;
const CANARY: u8 = 0xc7;
/// Bytes of a block.
const LOOKED_AT: usize = 512;
/// Bytes behind an item.
const CANARIES: usize = 16;
/// The link to the next free block.
const LINK: usize = 8;

/// What no item has: no byte is as the one before.
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
/// The bytes are initialised, and no session writes to them now.
unsafe fn bytes<'a>(block: NonNull<u8>, from: usize, to: usize) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(block.as_ptr().add(from), to - from) }
}

/// Marks a block of `len` bytes as free.
///
/// # Safety
/// The caller gives it up.
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

/// As `free`, for a block that was never given out.
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

/// Takes a block of `len` bytes that was marked as free; `next` is what it linked to.
///
/// # Safety
/// It is marked so, and no other session's.
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

/// Marks a block of `len` bytes as given out for `size` of them.
///
/// # Safety
/// The caller owns the block.
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

/// Looks whether anybody wrote past the end of an item of `size` bytes.
///
/// # Safety
/// The block of `len` bytes was given out for that size and is still there.
#[inline(always)]
pub(super) unsafe fn check_end(block: NonNull<u8>, size: usize, len: usize) {
    if cfg!(debug_assertions) {
        let to = len.min(size + CANARIES);
        // SAFETY: written by `mark`; no session has a reason to write there.
        let is_whole = unsafe { bytes(block, size, to) } == &CANARY_BYTES[..to - size];
        assert!(is_whole, "somebody wrote past the end of the item of {size} bytes at {block:p}");
    }
}
