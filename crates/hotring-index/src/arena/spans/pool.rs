//! Chunks: 2 MiB, a huge page, of 32 spans each. Here a class gets a span, and what is free goes
//! back to the system.
//!
//! A chunk begins with the headers of its spans, so that an address leads to its span by masking.
//! Zeros are a valid header of a free chunk, so that one that was given back needs no other care.

use super::bins::{Bins, Node};
use super::span::{SPAN_LEN, Span};
use crate::memory::{self, HUGE_PAGE, Mapping};
use crate::sync::Mutex;
use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::{NonNull, null};

const CHUNK_LEN: usize = HUGE_PAGE;
const SPANS: usize = CHUNK_LEN / SPAN_LEN;
/// Address space mapped at a time; touched piece by piece.
const MAPPING_LEN: usize = 16 * CHUNK_LEN;
/// Free chunks that stay in memory, so that a workload at the edge does not give back what it wants
/// again at once. All others go back.
pub(super) const FREE_CHUNKS_KEPT: usize = 1;

/// A chunk's header. The bins find it by its first field.
#[repr(C, align(64))]
struct Chunk {
    node: Node,
    /// A bit for each span that is not free; under the pool's lock.
    used: Cell<u32>,
    /// Each under the lock of its class, or its owner's alone.
    spans: [Span; SPANS],
}

const _: () = assert!(SPANS == u32::BITS as usize && size_of::<Chunk>() < SPAN_LEN / 2);

/// The header of the chunk that an address lies in.
fn chunk_at(address: usize) -> *const Chunk {
    std::ptr::with_exposed_provenance(address & !(CHUNK_LEN - 1))
}

/// The span that a block lies in.
///
/// # Safety
/// The block came from `span_memory` of a span that is not free. The result is used while it is
/// not, and under the lock of its class or as its only owner.
#[inline]
pub(super) unsafe fn span_of<'a>(block: NonNull<u8>) -> &'a Span {
    let address = block.as_ptr().addr();
    // SAFETY: the chunk is not free, so it is in memory; its spans' headers are never moved, and
    // shared references are all that there are.
    unsafe { &(*chunk_at(address)).spans[address / SPAN_LEN % SPANS] }
}

/// The bytes that blocks of a span are made of; the first one of a chunk has the header before it.
pub(super) fn span_memory(span: &Span) -> (*mut u8, usize) {
    let chunk = chunk_at(std::ptr::from_ref(span).addr());
    let from = index(span) * SPAN_LEN;
    let header = if from == 0 { size_of::<Chunk>() } else { 0 };
    // SAFETY: from + header lies inside the chunk.
    (unsafe { chunk.cast::<u8>().add(from + header) }.cast_mut(), SPAN_LEN - header)
}

/// A span's number in its chunk.
fn index(span: &Span) -> usize {
    let offset = std::ptr::from_ref(span).addr() % CHUNK_LEN - offset_of!(Chunk, spans);
    offset / size_of::<Span>()
}

/// Free spans of one chunk that somebody has taken; nobody else's until they are given back.
pub(super) struct Lot {
    chunk: *const Chunk,
    /// A bit for each.
    spans: u32,
}

impl Lot {
    pub(super) const EMPTY: Self = Self { chunk: null(), spans: 0 };

    /// One of them, the caller's from now on.
    fn pop<'a>(&mut self) -> Option<&'a Span> {
        let (span, others) = (self.spans.trailing_zeros(), self.spans.checked_sub(1)?);
        self.spans &= others;
        // SAFETY: none of a lot's spans is free, so its chunk is in memory; the pool outlives what
        // is taken from it.
        Some(unsafe { &(*self.chunk).spans[span as usize] })
    }
}

/// All chunks of an arena.
pub(super) struct Pool {
    state: Mutex<State>,
    huge_pages: bool,
    /// Whether whoever takes a span takes all that are free of its chunk.
    whole_chunks: bool,
}

struct State {
    mappings: Vec<Mapping>,
    /// Chunks without memory: given back, or never used.
    absent: Vec<NonNull<Chunk>>,
    /// Chunks in memory with a free span, by the number of those that are not.
    bins: Bins<SPANS>,
    /// Chunks in memory.
    held: usize,
    /// Of these, those of which all spans are free.
    free: usize,
}

impl State {
    /// Puts a chunk where it belongs now.
    fn settle(&mut self, chunk: &Chunk) {
        let used = chunk.used.get().count_ones();
        // SAFETY: a chunk with memory is in these bins or none, and stays where it is.
        unsafe { self.bins.place(&chunk.node, (used < SPANS as u32).then_some(used)) };
    }

    /// Hands out a span of a chunk that has a free one, or all of them.
    fn take_from(&mut self, chunk: &Chunk, all: bool) -> Lot {
        let used = chunk.used.get();
        if used == 0 {
            self.free -= 1;
        }
        let spans = if all { !used } else { 1 << used.trailing_ones() };
        chunk.used.set(used | spans);
        self.settle(chunk);
        Lot { chunk, spans }
    }

    /// Takes note of a free chunk in memory.
    fn add_free(&mut self, chunk: &Chunk) {
        self.held += 1;
        self.free += 1;
        self.settle(chunk);
    }
}

impl Pool {
    pub(super) fn new(huge_pages: bool, whole_chunks: bool) -> Self {
        let state =
            State { mappings: Vec::new(), absent: Vec::new(), bins: Bins::EMPTY, held: 0, free: 0 };
        Self { state: Mutex::new(state), huge_pages, whole_chunks }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no code panics under this lock")
    }

    pub(super) fn mapped_bytes(&self) -> usize {
        self.state().mappings.len() * MAPPING_LEN
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.state().held * CHUNK_LEN
    }

    pub(super) fn takes_whole_chunks(&self) -> bool {
        self.whole_chunks
    }

    /// A free span, the caller's from now on: of its lot, or else of the fullest chunk that has one.
    /// Aborts like any allocation failure when the system has no memory.
    pub(super) fn take<'a>(&'a self, lot: &mut Lot) -> &'a Span {
        if let Some(span) = lot.pop() {
            return span;
        }
        let mut state = self.state();
        while state.bins.fullest().is_none() {
            let chunk = state.absent.pop();
            drop(state);
            // Outside of the lock, as the first touch may take the kernel a while.
            let chunk = chunk.or_else(|| self.map()).map(|chunk| {
                // SAFETY: the chunk's memory is mapped and zero, and it is ours alone by now.
                let chunk = unsafe { chunk.as_ref() };
                chunk.used.set(0);
                chunk
            });
            state = self.state();
            if let Some(chunk) = chunk {
                state.add_free(chunk);
            }
        }
        let node = state.bins.fullest().expect("just seen");
        // SAFETY: the node is the first field of a chunk in memory.
        *lot = state.take_from(unsafe { node.cast::<Chunk>().as_ref() }, self.whole_chunks);
        drop(state);
        lot.pop().expect("it has a free one")
    }

    /// A new chunk; others go to those without memory.
    #[cold]
    fn map(&self) -> Option<NonNull<Chunk>> {
        let Ok(mapping) = Mapping::reserve(MAPPING_LEN, self.huge_pages) else {
            handle_alloc_error(Layout::new::<[u8; MAPPING_LEN]>());
        };
        let start = mapping.start().as_ptr();
        start.expose_provenance();
        let chunks = (0..MAPPING_LEN).step_by(CHUNK_LEN).rev();
        // SAFETY: the offset lies inside the mapping.
        let chunks = chunks.filter_map(|offset| NonNull::new(unsafe { start.add(offset) }.cast()));
        let mut state = self.state();
        state.mappings.push(mapping);
        state.absent.extend(chunks);
        state.absent.pop()
    }

    /// Takes a free span back.
    ///
    /// # Safety
    /// Nobody uses it or anything in it, and it is in no bins.
    pub(super) unsafe fn give(&self, span: &Span) {
        // SAFETY: the caller's promise.
        unsafe { self.release(chunk_at(std::ptr::from_ref(span).addr()), 1 << index(span)) };
    }

    /// Takes back what is left of a lot.
    pub(super) fn give_lot(&self, lot: &mut Lot) {
        let Lot { chunk, spans } = std::mem::replace(lot, Lot::EMPTY);
        if spans != 0 {
            // SAFETY: nobody has used them since they were taken, and they are the caller's.
            unsafe { self.release(chunk, spans) };
        }
    }

    /// # Safety
    /// Spans of the chunk with these bits are not free; nobody uses them or anything in them, and
    /// they are in no bins.
    unsafe fn release(&self, chunk: *const Chunk, spans: u32) {
        // SAFETY: a chunk is in memory as long as any span of it is not free.
        let chunk = unsafe { &*chunk };
        let mut state = self.state();
        chunk.used.set(chunk.used.get() & !spans);
        state.settle(chunk);
        if chunk.used.get() != 0 {
            return;
        }
        state.free += 1;
        if state.free <= FREE_CHUNKS_KEPT {
            return;
        }
        // SAFETY: as in `settle`.
        unsafe { state.bins.place(&chunk.node, None) };
        state.free -= 1;
        state.held -= 1;
        drop(state);
        let chunk = NonNull::from(chunk);
        // SAFETY: all of the chunk is free, and in no bins, so it is ours alone.
        let is_gone = unsafe { memory::give_back(chunk.cast(), CHUNK_LEN) };
        let mut state = self.state();
        if is_gone {
            state.absent.push(chunk);
        } else {
            // The process keeps its memory locked, perhaps.
            // SAFETY: the chunk is mapped; its header is as it was, or zeros, which say the same.
            state.add_free(unsafe { chunk.as_ref() });
        }
    }
}
