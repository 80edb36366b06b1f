//! Item memory by size classes, with a cache per session. Free chunks return to the system.
//!
//! ```text
//!  mapping   32 MiB of address space; never unmapped before the arena goes
//!   chunk     2 MiB, a huge page: in memory, or given back to the system
//!    span      of blocks of one class: 64 KiB, 256 KiB or a chunk, by the class
//!     block     an item
//! ```
//!
//! An item of up to `CLASSED_MAX` bytes comes from its class ([`classes`](super::classes)): from the
//! session's free blocks, else from the class's spans, else from a free span, else from a chunk that was
//! returned or never used. The fullest spans and chunks serve first, so that others become empty. All spans
//! of a chunk in use have one length. Longer items have pages of their own ([`Large`]).
//!
//! For each class a session caches less than two batches of the blocks that it freed (a batch is 256 blocks
//! or 32 KiB, whichever is less), plus its last supply from the class's spans: a run, or the free blocks of a
//! few spans. At two batches one batch goes back, each block to its span. A span without used blocks returns
//! to its chunk; a chunk without used spans returns to the system, except for one ([`pool`]).
//!
//! A cached block keeps its span, and so its chunk. Therefore a session returns its complete cache when it
//! ends or goes idle, and the cache of one class after each collection. So the free memory kept is bounded by
//! one chunk, plus one chunk for each block in the cache of a session that has not yet returned it.
//!
//! With [`Engine::PRIVATE_CHUNKS`](crate::Engine) a session that needs a span takes all free spans of a
//! chunk, or an entire chunk if none is partly used, and uses them without synchronization. The blocks of a
//! span all go to the session that began the span, until they are freed. The rest of the chunk is returned
//! with the session's cache, which costs one more chunk per session that does not go idle.
//!
//! There is one lock per class and one for the chunks. A session never holds two, takes none if its cache
//! has a block, makes no system call under one, and touches new memory only after releasing it.

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
    /// An empty arena. With `whole_chunks` a session takes one chunk at a time.
    pub(crate) fn new(huge_pages: bool, whole_chunks: bool) -> Self {
        Self {
            classes: (0..CLASSES).map(|_| Mutex::new(Class::EMPTY)).collect(),
            pool: Pool::new(huge_pages, whole_chunks),
            large: Large::new(),
        }
    }

    /// Bytes of address space mapped for items, in memory or not.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.pool.mapped_bytes() + self.large.bytes()
    }

    /// Mapped bytes that may be in memory: taken from the system and not returned.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pool.held_bytes() + self.large.bytes()
    }

    /// Frees the block if it is large: only classed blocks are freed with the arena.
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

    /// Checks, with debug assertions, that nothing was written past the end of an item.
    ///
    /// # Safety
    /// `block` must come from `alloc(size)` and must not be freed.
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

    /// Fills an empty list or run: from the spans of the class, else from a free span.
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

    /// Takes back lists and a run of a class from a session.
    ///
    /// # Safety
    /// They must be unused blocks of this class, owned by the caller.
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
            // SAFETY: the node is the first field of a span without used blocks, so it is ours alone until
            // the pool has it.
            unsafe {
                let span = node.cast::<Span>().as_ref();
                emptied.set_bin(&span.node, None);
                self.pool.give(span, width_of(class));
            }
        }
    }
}
