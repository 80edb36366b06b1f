//! Item memory by size classes, cached per session, in memory that goes back to the system when it is
//! free.
//!
//! ```text
//!  mapping   32 MiB of address space; never unmapped before the arena goes
//!   chunk     2 MiB, a huge page: in memory, or given back to the system
//!    span      of blocks of one class: 64 KiB, 256 KiB or a chunk, by the class
//!     block     an item
//! ```
//!
//! An item of up to `CLASSED_MAX` bytes comes from its class ([`classes`](super::classes)): from the
//! session's own free blocks, else from the class's spans, else from a free span, else from a chunk that
//! was given back or never used. What is fullest serves first, spans and chunks alike, so that others
//! become empty. All spans of a chunk that is in use are of one length. Longer items have pages of their
//! own ([`Large`]).
//!
//! A session caches free blocks: less than two batches of what it freed (256 blocks or 32 KiB each), and what it last
//! took from the class's spans, which is a run, or the free blocks of a few spans. Beyond two batches a batch
//! goes back, each block to its own span. A span all of whose blocks are back goes to its chunk, a
//! chunk all of whose spans are back to the system, except for one ([`pool`]).
//!
//! A cached block keeps its span, hence its chunk. So a session gives back its whole cache when it
//! ends and when it is told that it goes idle, and that of one class each time it has collected
//! garbage. What is kept of memory that is free is thus bounded by one chunk, and one more for each
//! block that is cached by another session that has not come to that yet.
//!
//! Where an engine asks for it ([`Engine::PRIVATE_CHUNKS`](crate::Engine)), a session that wants a span
//! takes all that are free of a chunk, a whole one if none is in use in part, and has the next ones
//! without asking anybody; and a span's blocks all go to the session that began it, until they are
//! freed. What is left of the chunk goes back with the session's cache, so that is one chunk more
//! for each session that does not go idle.
//!
//! Locks: one a class and one for the chunks, never both at once, never on the path of an operation
//! that finds what it wants in the session's cache; no system call is made under one, and memory is
//! touched for the first time outside of them.

mod bins;
mod list;
mod local;
mod poison;
mod pool;
mod span;
mod sparse;
#[cfg(test)]
mod tests;

pub(crate) use local::LocalArena;
pub(crate) use sparse::Survey;

use super::classes::{CLASSED_MAX, CLASSES, footprint, width_of};
use super::large::Large;
use crate::core::sync::Mutex;
use list::{FreeList, Run};
use pool::{Lot, Pool};
use span::{Class, Emptied, Span};
use std::ptr::NonNull;

/// The memory that all sessions of an index share.
pub(crate) struct Arena {
    classes: Box<[Mutex<Class>]>,
    pool: Pool,
    large: Large,
}

// SAFETY: the raw pointers name memory that the arena owns; every access is under its mutexes.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// With `whole_chunks` a session takes a chunk at a time for itself.
    pub(crate) fn new(huge_pages: bool, whole_chunks: bool) -> Self {
        Self {
            classes: (0..CLASSES).map(|_| Mutex::new(Class::EMPTY)).collect(),
            pool: Pool::new(huge_pages, whole_chunks),
            large: Large::new(),
        }
    }

    /// Bytes of address space that are mapped for items (in memory or not).
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.pool.mapped_bytes() + self.large.bytes()
    }

    /// Of these, bytes that may be in memory: taken, and not given back.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pool.held_bytes() + self.large.bytes()
    }

    /// Frees a block if it is of those that do not go with the arena.
    ///
    /// # Safety
    /// As for [`LocalArena::free`].
    pub(crate) unsafe fn free_if_large(&self, block: NonNull<u8>, size: usize) {
        let len = footprint(size);
        if len > CLASSED_MAX {
            // SAFETY: the caller's promise.
            unsafe { self.large.free(block, len) };
        }
    }

    /// Looks, in a build with debug assertions, whether anybody wrote past the end of an item.
    ///
    /// # Safety
    /// `block` came from `alloc(size)` and is not freed.
    #[inline(always)]
    pub(crate) unsafe fn check_end(&self, block: NonNull<u8>, size: usize) {
        let len = footprint(size);
        if len <= CLASSED_MAX {
            // SAFETY: the caller's promise.
            unsafe { poison::check_end(block, size, len) };
        }
    }

    /// Whether any block would outlive the arena.
    pub(crate) fn has_large(&self) -> bool {
        self.large.bytes() > 0
    }

    fn class(&self, class: usize) -> std::sync::MutexGuard<'_, Class> {
        self.classes[class].lock().expect("no code panics under this lock")
    }

    /// Fills an empty list or an empty run: the spans of the class first, then a free one.
    fn take(&self, class: usize, list: &mut FreeList, run: &mut Run, lot: &mut Lot, enough: u32) {
        self.class(class).take(list, run, enough);
        if list.len() == 0 && run.is_empty() {
            let span = self.pool.take(lot, width_of(class));
            span.begin(class);
            span.carve(run);
            // SAFETY: the span is of this class since `begin`, and was ours alone.
            unsafe { self.class(class).adopt(span) };
        }
    }

    /// Takes back what a session gives up of a class: lists and a run.
    ///
    /// # Safety
    /// They are unused blocks of this class, owned by the caller.
    unsafe fn give(&self, class: usize, lists: &[FreeList], run: &mut Run) {
        let mut emptied = Emptied::EMPTY;
        let mut shared = self.class(class);
        for &list in lists {
            // SAFETY: the caller's promise.
            unsafe { shared.put(class, list, &mut emptied) };
        }
        // SAFETY: the caller's promise.
        unsafe { shared.put_run(class, run, &mut emptied) };
        drop(shared);
        while let Some(node) = emptied.fullest() {
            // SAFETY: the node is the first field of a span, all of whose blocks are back, so it is
            // ours alone until the pool has it.
            unsafe {
                let span = node.cast::<Span>().as_ref();
                emptied.place(&span.node, None);
                self.pool.give(span, width_of(class));
            }
        }
    }
}
