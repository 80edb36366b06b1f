//! The allocator of unit tests: counts the bytes that a thread has allocated, and its calls under a
//! LOCK.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Watching;

#[global_allocator]
static ALLOCATOR: Watching = Watching;

thread_local! {
    static LOCKS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static CALLS_UNDER_LOCK: Cell<u64> = const { Cell::new(0) };
}

/// The thread has taken a LOCK, or not got it.
pub(super) fn locked(is_taken: bool) {
    LOCKS.set(LOCKS.get() + u64::from(is_taken));
}

/// The thread has given a LOCK back.
pub(super) fn unlocked() {
    LOCKS.set(LOCKS.get() - 1);
}

/// Bytes that the thread has allocated and not freed.
pub(super) fn bytes() -> i64 {
    BYTES.get()
}

/// The number of calls of the allocator that the thread has made while it had a LOCK.
pub(super) fn calls_under_lock() -> u64 {
    CALLS_UNDER_LOCK.get()
}

fn count(bytes: i64) {
    BYTES.set(BYTES.get() + bytes);
    CALLS_UNDER_LOCK.set(CALLS_UNDER_LOCK.get() + u64::from(LOCKS.get() > 0));
}

// SAFETY: it is the system's allocator; the counts allocate nothing.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size().cast_signed() as i64));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}
