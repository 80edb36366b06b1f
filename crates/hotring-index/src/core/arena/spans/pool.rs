//! The pool of chunks: it supplies the classes with spans, and returns free chunks to the system. A chunk is
//! 2 MiB, a huge page, and has 32 spans, 8 spans or one span.
//!
//! A chunk begins with the headers of its spans, so that masking a block's address leads to its span. A
//! longer span uses the first of its headers. Zeros are a valid header of a free chunk, so a returned chunk
//! needs no initialisation.

use super::bins::{Bins, Node};
use super::span::{Figure, Span};
use crate::core::arena::classes::{CHUNK_HEADER, CHUNK_LEN, CLASSES, UNIT, Width};
use crate::core::memory::{self, Mapping};
use crate::core::sync::{AtomicBool, Mutex, Ordering, TallyU64};
use std::alloc::{Layout, handle_alloc_error};
use std::mem::offset_of;
use std::ptr::{NonNull, null};
use std::sync::MutexGuard;

/// Short spans per chunk.
const SPANS: usize = CHUNK_LEN / UNIT;
/// Address space per mapping, touched piece by piece.
const MAPPING_LEN: usize = 16 * CHUNK_LEN;
/// Free chunks that stay in memory, so that a workload at the edge of a chunk does not return and fetch it
/// again and again.
pub(super) const FREE_CHUNKS_KEPT: usize = 1;

/// A chunk's header. The bins find it by its first field.
#[repr(C, align(64))]
struct Chunk {
    node: Node,
    /// A bit for each unit of a used span; under the pool's lock.
    used: Figure,
    /// The length of its spans. Changes only while all are free, under the pool's lock.
    width: Figure,
    /// Whether the chunk is closing: nothing more is allocated from it, so that it becomes free.
    closing: AtomicBool,
    /// Each is under the lock of its class, or belongs to its owner.
    spans: [Span; SPANS],
}

const _: () = assert!(SPANS == u32::BITS as usize && size_of::<Chunk>() == CHUNK_HEADER);

/// The header of the chunk that contains an address.
fn chunk_at(address: usize) -> *const Chunk {
    std::ptr::with_exposed_provenance(address & !(CHUNK_LEN - 1))
}

impl Chunk {
    fn is_closing(&self) -> bool {
        // ORDERING: Relaxed, advice: a block that is allocated nevertheless is moved later.
        self.closing.load(Ordering::Relaxed)
    }

    fn set_closing(&self, closing: bool) {
        // ORDERING: Relaxed, as above.
        self.closing.store(closing, Ordering::Relaxed);
    }

    /// Calls `f` with the width of each span and, for a used one, with its class and the bytes of its free
    /// and its allocated blocks. An estimate.
    fn each_span(&self, mut f: impl FnMut(Width, Option<(usize, usize, usize)>)) {
        let (used, width) = (self.used.get(), Width::ALL[self.width.get() as usize]);
        for at in (0..SPANS).step_by(width.units()) {
            f(width, (used & 1 << at != 0).then(|| self.spans[at].use_of()));
        }
    }
}

/// Whether the span's chunk is closing.
pub(super) fn is_closing(span: &Span) -> bool {
    // SAFETY: the header of the chunk that contains the span.
    unsafe { &*chunk_at(std::ptr::from_ref(span).addr()) }.is_closing()
}

/// Whether the chunk of a block is closing.
///
/// # Safety
/// The block must be allocated: its chunk is then in memory.
pub(super) unsafe fn leaves(block: NonNull<u8>) -> bool {
    // SAFETY: the caller's promise.
    unsafe { &*chunk_at(block.as_ptr().addr()) }.is_closing()
}

/// The span of this width that contains a block.
///
/// # Safety
/// The block must come from `span_memory` of a span in use. The result may be used only while the span is
/// in use, and under the lock of its class or by its only owner.
#[inline]
pub(super) unsafe fn span_of<'a>(block: NonNull<u8>, width: Width) -> &'a Span {
    let address = block.as_ptr().addr();
    let first = (address / UNIT % SPANS) & !(width.units() - 1);
    // SAFETY: the span is in use, so its chunk is in memory; headers never move, and only shared references
    // to them exist.
    unsafe { &(*chunk_at(address)).spans[first] }
}

/// The bytes of a span that hold blocks. In the first span of a chunk the chunk's header lies before them.
pub(super) fn span_memory(span: &Span, width: Width) -> (*mut u8, usize) {
    let chunk = chunk_at(std::ptr::from_ref(span).addr());
    let from = index(span) * UNIT;
    let header = if from == 0 { CHUNK_HEADER } else { 0 };
    // SAFETY: from + header lies inside the chunk.
    (unsafe { chunk.cast::<u8>().add(from + header) }.cast_mut(), width.units() * UNIT - header)
}

/// The unit bits of a span that is the first one of this width.
fn units(width: Width) -> u32 {
    u32::MAX >> (SPANS - width.units())
}

/// The number of a span in its chunk.
fn index(span: &Span) -> usize {
    let offset = std::ptr::from_ref(span).addr() % CHUNK_LEN - offset_of!(Chunk, spans);
    offset / size_of::<Span>()
}

/// Free spans of one chunk that a session has reserved until it returns them.
pub(super) struct Lot {
    chunk: *const Chunk,
    /// A bit for each.
    spans: u32,
}

impl Lot {
    pub(super) const EMPTY: Self = Self { chunk: null(), spans: 0 };

    /// Whether their chunk is closing.
    fn is_closing(&self) -> bool {
        // SAFETY: the spans of a lot are in use, so the chunk is in memory.
        self.spans != 0 && unsafe { &*self.chunk }.is_closing()
    }

    /// Takes one of the spans.
    fn pop<'a>(&mut self) -> Option<&'a Span> {
        let (span, others) = (self.spans.trailing_zeros(), self.spans.checked_sub(1)?);
        self.spans &= others;
        // SAFETY: the spans of a lot are in use, so the chunk is in memory; the pool outlives everything
        // taken from it.
        Some(unsafe { &(*self.chunk).spans[span as usize] })
    }
}

/// All chunks of an arena.
pub(super) struct Pool {
    state: Mutex<State>,
    /// Bytes of address space, and of chunks in memory. Changed under the lock, read without it.
    mapped: TallyU64,
    held: TallyU64,
    huge_pages: bool,
    /// Whether a session takes all free spans of a chunk at a time.
    whole_chunks: bool,
}

struct State {
    mappings: Vec<Mapping>,
    /// Chunks without memory: returned, or never used.
    absent: Vec<NonNull<Chunk>>,
    /// Partly used chunks in memory by span width and by the number of used spans.
    partly: [Bins<SPANS>; 3],
    /// Free chunks in memory.
    free: Bins<1>,
    free_len: usize,
}

impl State {
    /// Takes a chunk out of its bin.
    fn take_out(&mut self, chunk: &Chunk) {
        // SAFETY: a chunk in memory is in none but these bins, by its free spans, and does not move.
        unsafe {
            if chunk.used.get() == 0 {
                self.free.set_bin(&chunk.node, None);
                self.free_len -= 1;
            } else {
                self.partly[chunk.width.get() as usize].set_bin(&chunk.node, None);
            }
        }
    }

    /// Puts a chunk into the bin for its present state.
    fn put_back(&mut self, chunk: &Chunk) {
        let used = chunk.used.get().count_ones();
        // SAFETY: as in `take_out`; it is in no bin.
        unsafe {
            if used == 0 {
                self.free.set_bin(&chunk.node, Some(0));
                self.free_len += 1;
            } else if used < SPANS as u32 && !chunk.is_closing() {
                self.partly[chunk.width.get() as usize].set_bin(&chunk.node, Some(used));
            }
        }
    }

    /// The fullest chunk with a free span of this width, or else a free chunk.
    fn fullest<'a>(&self, width: Width) -> Option<&'a Chunk> {
        let node = self.partly[width as usize].fullest().or_else(|| self.free.fullest())?;
        // SAFETY: the node is the first field of a chunk in memory.
        Some(unsafe { node.cast::<Chunk>().as_ref() })
    }

    /// Allocates one span of a chunk returned by `fullest`, or all its free spans.
    fn take_from(&mut self, chunk: &Chunk, width: Width, all: bool) -> Lot {
        self.take_out(chunk);
        let used = chunk.used.get();
        let (step, one) = (width.units(), units(width));
        let first = || (0..SPANS).step_by(step).map(|at| one << at).find(|span| used & span == 0);
        let spans = if all { !used } else { first().expect("it has a free one") };
        chunk.width.set(width as u32);
        chunk.used.set(used | spans);
        self.put_back(chunk);
        Lot { chunk, spans }
    }
}

impl Pool {
    pub(super) fn new(huge_pages: bool, whole_chunks: bool) -> Self {
        let state = State {
            mappings: Vec::new(),
            absent: Vec::new(),
            partly: [const { Bins::EMPTY }; 3],
            free: Bins::EMPTY,
            free_len: 0,
        };
        let (mapped, held) = (TallyU64::new(0), TallyU64::new(0));
        Self { state: Mutex::new(state), mapped, held, huge_pages, whole_chunks }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no code panics under this lock")
    }

    pub(super) fn mapped_bytes(&self) -> usize {
        // ORDERING: Relaxed, a report.
        self.mapped.load(Ordering::Relaxed) as usize
    }

    pub(super) fn held_bytes(&self) -> usize {
        // ORDERING: Relaxed, a report.
        self.held.load(Ordering::Relaxed) as usize
    }

    pub(super) fn has_private_chunks(&self) -> bool {
        self.whole_chunks
    }

    /// A free span for the caller: from its lot if the span is narrow, else from the fullest chunk that has
    /// one. Aborts like any failed allocation if the system has no memory.
    pub(super) fn take<'a>(&'a self, lot: &mut Lot, width: Width) -> &'a Span {
        let is_narrow = width == Width::Narrow;
        if lot.is_closing() {
            self.give_lot(lot);
        }
        if is_narrow && let Some(span) = lot.pop() {
            return span;
        }
        let mut state = self.state();
        while state.fullest(width).is_none() {
            let chunk = state.absent.pop();
            drop(state);
            // Outside the lock, because the kernel may take long for the first touch.
            let chunk = chunk.or_else(|| self.map()).map(|chunk| {
                // SAFETY: the chunk's memory is mapped and zero, and already ours alone.
                let chunk = unsafe { chunk.as_ref() };
                chunk.used.set(0);
                chunk
            });
            state = self.state();
            if let Some(chunk) = chunk {
                self.add_free(chunk, &mut state);
            }
        }
        let chunk = state.fullest(width).expect("just seen");
        let mut taken = state.take_from(chunk, width, is_narrow && self.whole_chunks);
        drop(state);
        let span = taken.pop().expect("it has a free one");
        if is_narrow {
            *lot = taken;
        }
        span
    }

    /// Records a free chunk in memory.
    fn add_free(&self, chunk: &Chunk, state: &mut State) {
        // ORDERING: Relaxed, a report.
        self.held.fetch_add(CHUNK_LEN as u64, Ordering::Relaxed);
        state.put_back(chunk);
    }

    /// Maps memory and returns one chunk of it; the others are recorded as chunks without memory.
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
        // ORDERING: Relaxed, a report.
        self.mapped.fetch_add(MAPPING_LEN as u64, Ordering::Relaxed);
        state.absent.extend(chunks);
        state.absent.pop()
    }

    /// Takes back a free span.
    ///
    /// # Safety
    /// No session may use the span or anything in it, and it must be in no bin.
    pub(super) unsafe fn give(&self, span: &Span, width: Width) {
        let chunk = chunk_at(std::ptr::from_ref(span).addr());
        // SAFETY: the caller's promise.
        unsafe { self.release(chunk, units(width) << index(span)) };
    }

    /// Takes back the remaining spans of a lot.
    pub(super) fn give_lot(&self, lot: &mut Lot) {
        let Lot { chunk, spans } = std::mem::replace(lot, Lot::EMPTY);
        if spans != 0 {
            // SAFETY: no session has used them since they were reserved, and the caller owns them.
            unsafe { self.release(chunk, spans) };
        }
    }

    /// # Safety
    /// The spans with these bits must be in use, but no session may use anything in them, and they must be
    /// in no bin.
    unsafe fn release(&self, chunk: *const Chunk, spans: u32) {
        // SAFETY: a chunk stays in memory while any of its spans is in use.
        let chunk = unsafe { &*chunk };
        let mut state = self.state();
        state.take_out(chunk);
        chunk.used.set(chunk.used.get() & !spans);
        if chunk.used.get() == 0 {
            chunk.set_closing(false);
        }
        state.put_back(chunk);
        if chunk.used.get() != 0 || state.free_len <= FREE_CHUNKS_KEPT {
            return;
        }
        self.give_back(chunk, state);
    }

    /// Returns a cached free chunk to the system, if there is one.
    pub(super) fn trim(&self) {
        let state = self.state();
        if let Some(node) = state.free.fullest() {
            // SAFETY: the node is the first field of a chunk in memory.
            self.give_back(unsafe { node.cast::<Chunk>().as_ref() }, state);
        }
    }

    /// Returns the memory of a free chunk to the system.
    fn give_back(&self, chunk: &Chunk, mut state: MutexGuard<'_, State>) {
        state.take_out(chunk);
        // ORDERING: Relaxed, a report.
        self.held.fetch_sub(CHUNK_LEN as u64, Ordering::Relaxed);
        drop(state);
        let chunk = NonNull::from(chunk);
        // SAFETY: the chunk is free and in no bin, so it is ours alone.
        let is_gone = unsafe { memory::give_back(chunk.cast(), CHUNK_LEN) };
        let mut state = self.state();
        if is_gone {
            state.absent.push(chunk);
        } else {
            // Refused, for example because the process locks its memory.
            // SAFETY: the chunk is mapped; its header is unchanged or zero, both of which mean a free
            // chunk.
            self.add_free(unsafe { chunk.as_ref() }, &mut state);
        }
    }
}

/// A surveyed chunk, a candidate for closing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chosen {
    /// Bytes of its allocated blocks.
    pub(super) out: usize,
    address: usize,
}

impl Chosen {
    fn chunk<'a>(self) -> &'a Chunk {
        // SAFETY: the arena of the survey still exists, mappings stay, and the fields of a header that may
        // change are atomics; without memory the header reads as zeros, a free chunk.
        unsafe { &*chunk_at(self.address) }
    }

    /// As [`Chunk::each_span`].
    pub(super) fn each_span(self, f: impl FnMut(Width, Option<(usize, usize, usize)>)) {
        self.chunk().each_span(f);
    }
}

/// The findings of a survey.
#[derive(Default)]
pub(super) struct Found {
    /// Chunks in use that are not closing.
    pub(super) chunks: Vec<Chosen>,
    /// Free bytes in their spans, by class.
    pub(super) free: Vec<usize>,
    /// Free bytes in their free spans, by width.
    pub(super) unused: [usize; Width::ALL.len()],
    /// Free bytes in chunks that are closing already.
    pub(super) closing: usize,
}

impl Pool {
    /// Surveys `count` chunks from number `from` on. False after the last one.
    pub(super) fn survey(&self, from: usize, count: usize, found: &mut Found) -> bool {
        const OF_MAPPING: usize = MAPPING_LEN / CHUNK_LEN;
        let state = self.state();
        let chunk = |number: usize| {
            let mapping = state.mappings.get(number / OF_MAPPING)?.start().as_ptr().addr();
            Some(chunk_at(mapping + number % OF_MAPPING * CHUNK_LEN))
        };
        let chunks: Vec<_> = (from..from + count).map_while(chunk).collect();
        drop(state);
        found.free.resize(CLASSES, 0);
        for &chunk in &chunks {
            // SAFETY: mappings stay, and the fields of a header that may change meanwhile are atomics;
            // without memory the header reads as zeros, a free chunk.
            let chunk = unsafe { &*chunk };
            if chunk.used.get() == 0 {
                continue;
            }
            let (closing, mut out_here) = (chunk.is_closing(), 0);
            chunk.each_span(|width, used| match used {
                Some((class, free, out)) => {
                    out_here += out;
                    found.free[class] += if closing { 0 } else { free };
                }
                None => found.unused[width as usize] += if closing { 0 } else { width.len() },
            });
            if closing {
                found.closing += CHUNK_LEN.saturating_sub(out_here);
            } else {
                let address = std::ptr::from_ref(chunk).addr();
                found.chunks.push(Chosen { out: out_here, address });
            }
        }
        chunks.len() == count
    }

    /// Closes a chunk: nothing more is allocated from it until it is free.
    pub(super) fn close(&self, chosen: Chosen) {
        let mut state = self.state();
        let chunk = chosen.chunk();
        // A chunk that became free meanwhile may have no memory.
        if chunk.used.get() != 0 && !chunk.is_closing() {
            state.take_out(chunk);
            chunk.set_closing(true);
        }
    }
}
