//! Chunks: 2 MiB, a huge page, of 32 spans each, or 8, or one. Here a class gets a span, and what is free
//! goes back to the system.
//!
//! A chunk begins with the headers of its spans, so that an address leads to its span by masking. Of a
//! longer span's headers the first one is used.
//! Zeros are a valid header of a free chunk, so that one that was given back needs no other care.

use super::bins::{Bins, Node};
use super::span::{Figure, Span};
use crate::core::arena::classes::{CHUNK_HEADER, CHUNK_LEN, CLASSES, UNIT, Width};
use crate::core::memory::{self, Mapping};
use crate::core::sync::{AtomicBool, Mutex, Ordering, TallyU64};
use std::alloc::{Layout, handle_alloc_error};
use std::mem::offset_of;
use std::ptr::{NonNull, null};
use std::sync::MutexGuard;

/// Spans of a chunk, if they are narrow.
const SPANS: usize = CHUNK_LEN / UNIT;
/// Address space mapped at a time; touched piece by piece.
const MAPPING_LEN: usize = 16 * CHUNK_LEN;
/// Free chunks that stay in memory, so that a workload at the edge does not give back what it wants
/// again at once. All others go back.
pub(super) const FREE_CHUNKS_KEPT: usize = 1;

/// A chunk's header. The bins find it by its first field.
#[repr(C, align(64))]
struct Chunk {
    node: Node,
    /// A bit for each unit that is of a span that is not free; under the pool's lock.
    used: Figure,
    /// How long its spans are. Changes while all are free, under the pool's lock.
    width: Figure,
    /// Whether nothing is taken of it any more, so that it becomes free.
    closing: AtomicBool,
    /// Each under the lock of its class, or its owner's alone.
    spans: [Span; SPANS],
}

const _: () = assert!(SPANS == u32::BITS as usize && size_of::<Chunk>() == CHUNK_HEADER);

/// The header of the chunk that an address lies in.
fn chunk_at(address: usize) -> *const Chunk {
    std::ptr::with_exposed_provenance(address & !(CHUNK_LEN - 1))
}

impl Chunk {
    fn is_closing(&self) -> bool {
        // ORDERING: Relaxed, advice: what is taken nevertheless is moved later.
        self.closing.load(Ordering::Relaxed)
    }

    fn set_closing(&self, closing: bool) {
        // ORDERING: Relaxed, as above.
        self.closing.store(closing, Ordering::Relaxed);
    }

    /// Calls `f` with the width of each span and, of one that is used, its class and the bytes of its
    /// free blocks and of those in use. An estimate.
    fn each_span(&self, mut f: impl FnMut(Width, Option<(usize, usize, usize)>)) {
        let (used, width) = (self.used.get(), Width::ALL[self.width.get() as usize]);
        for at in (0..SPANS).step_by(width.units()) {
            f(width, (used & 1 << at != 0).then(|| self.spans[at].use_of()));
        }
    }
}

/// Whether nothing is to be taken of the span's chunk any more.
pub(super) fn is_closing(span: &Span) -> bool {
    // SAFETY: the header of the chunk that the span's is in.
    unsafe { &*chunk_at(std::ptr::from_ref(span).addr()) }.is_closing()
}

/// As `is_closing`, of the chunk that a block lies in.
///
/// # Safety
/// The block is out: its chunk is in memory.
pub(super) unsafe fn leaves(block: NonNull<u8>) -> bool {
    // SAFETY: the caller's promise.
    unsafe { &*chunk_at(block.as_ptr().addr()) }.is_closing()
}

/// The span of this width that a block lies in.
///
/// # Safety
/// The block came from `span_memory` of a span that is not free. The result is used while it is
/// not, and under the lock of its class or as its only owner.
#[inline]
pub(super) unsafe fn span_of<'a>(block: NonNull<u8>, width: Width) -> &'a Span {
    let address = block.as_ptr().addr();
    let first = (address / UNIT % SPANS) & !(width.units() - 1);
    // SAFETY: the chunk is not free, so it is in memory; its spans' headers are never moved, and
    // shared references are all that there are.
    unsafe { &(*chunk_at(address)).spans[first] }
}

/// The bytes that blocks of a span are made of; the first one of a chunk has the header before it.
pub(super) fn span_memory(span: &Span, width: Width) -> (*mut u8, usize) {
    let chunk = chunk_at(std::ptr::from_ref(span).addr());
    let from = index(span) * UNIT;
    let header = if from == 0 { CHUNK_HEADER } else { 0 };
    // SAFETY: from + header lies inside the chunk.
    (unsafe { chunk.cast::<u8>().add(from + header) }.cast_mut(), width.units() * UNIT - header)
}

/// The bits of a span's units, if it is the chunk's first one of this width.
fn units(width: Width) -> u32 {
    u32::MAX >> (SPANS - width.units())
}

/// A span's number in its chunk.
fn index(span: &Span) -> usize {
    let offset = std::ptr::from_ref(span).addr() % CHUNK_LEN - offset_of!(Chunk, spans);
    offset / size_of::<Span>()
}

/// Free spans of one chunk that a session has taken; no other session's until they are given back.
pub(super) struct Lot {
    chunk: *const Chunk,
    /// A bit for each.
    spans: u32,
}

impl Lot {
    pub(super) const EMPTY: Self = Self { chunk: null(), spans: 0 };

    /// Whether nothing is to be taken of their chunk any more.
    fn is_closing(&self) -> bool {
        // SAFETY: none of a lot's spans is free, so its chunk is in memory.
        self.spans != 0 && unsafe { &*self.chunk }.is_closing()
    }

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
    /// Bytes of address space, and of chunks in memory; changed under the lock, read without.
    mapped: TallyU64,
    held: TallyU64,
    huge_pages: bool,
    /// Whether whoever takes a span takes all that are free of its chunk.
    whole_chunks: bool,
}

struct State {
    mappings: Vec<Mapping>,
    /// Chunks without memory: given back, or never used.
    absent: Vec<NonNull<Chunk>>,
    /// Chunks in memory with spans that are free and others that are not, for each width, by the number
    /// of those that are not.
    partly: [Bins<SPANS>; 3],
    /// Chunks in memory of which all is free.
    free: Bins<1>,
    free_len: usize,
}

impl State {
    /// Takes a chunk from where it belongs.
    fn take_out(&mut self, chunk: &Chunk) {
        // SAFETY: a chunk in memory is in these bins or none, by what of it is free, and stays where it is.
        unsafe {
            if chunk.used.get() == 0 {
                self.free.place(&chunk.node, None);
                self.free_len -= 1;
            } else {
                self.partly[chunk.width.get() as usize].place(&chunk.node, None);
            }
        }
    }

    /// Puts a chunk that was taken out where it belongs now.
    fn put_back(&mut self, chunk: &Chunk) {
        let used = chunk.used.get().count_ones();
        // SAFETY: as in `take_out`; it is in none.
        unsafe {
            if used == 0 {
                self.free.place(&chunk.node, Some(0));
                self.free_len += 1;
            } else if used < SPANS as u32 && !chunk.is_closing() {
                self.partly[chunk.width.get() as usize].place(&chunk.node, Some(used));
            }
        }
    }

    /// The fullest chunk that has a free span of this width, or else one that is free.
    fn fullest<'a>(&self, width: Width) -> Option<&'a Chunk> {
        let node = self.partly[width as usize].fullest().or_else(|| self.free.fullest())?;
        // SAFETY: the node is the first field of a chunk in memory.
        Some(unsafe { node.cast::<Chunk>().as_ref() })
    }

    /// Hands out a span of such a chunk, or all that are free.
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

    /// A free span, the caller's from now on: of its lot if it is a narrow one, or else of the fullest
    /// chunk that has one. Aborts like any allocation failure when the system has no memory.
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
            // Outside of the lock, as the first touch may take the kernel a while.
            let chunk = chunk.or_else(|| self.map()).map(|chunk| {
                // SAFETY: the chunk's memory is mapped and zero, and it is ours alone by now.
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

    /// Takes note of a free chunk in memory.
    fn add_free(&self, chunk: &Chunk, state: &mut State) {
        // ORDERING: Relaxed, a report.
        self.held.fetch_add(CHUNK_LEN as u64, Ordering::Relaxed);
        state.put_back(chunk);
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
        // ORDERING: Relaxed, a report.
        self.mapped.fetch_add(MAPPING_LEN as u64, Ordering::Relaxed);
        state.absent.extend(chunks);
        state.absent.pop()
    }

    /// Takes a free span back.
    ///
    /// # Safety
    /// No session uses it or anything in it, and it is in no bins.
    pub(super) unsafe fn give(&self, span: &Span, width: Width) {
        let chunk = chunk_at(std::ptr::from_ref(span).addr());
        // SAFETY: the caller's promise.
        unsafe { self.release(chunk, units(width) << index(span)) };
    }

    /// Takes back what is left of a lot.
    pub(super) fn give_lot(&self, lot: &mut Lot) {
        let Lot { chunk, spans } = std::mem::replace(lot, Lot::EMPTY);
        if spans != 0 {
            // SAFETY: no session has used them since they were taken, and they are the caller's.
            unsafe { self.release(chunk, spans) };
        }
    }

    /// # Safety
    /// Spans of the chunk with these bits are not free; no session uses them or anything in them, and
    /// they are in no bins.
    unsafe fn release(&self, chunk: *const Chunk, spans: u32) {
        // SAFETY: a chunk is in memory as long as any span of it is not free.
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

    /// Gives a free chunk back, if one is kept.
    pub(super) fn trim(&self) {
        let state = self.state();
        if let Some(node) = state.free.fullest() {
            // SAFETY: the node is the first field of a chunk in memory.
            self.give_back(unsafe { node.cast::<Chunk>().as_ref() }, state);
        }
    }

    /// Gives the memory of a free chunk back to the system.
    fn give_back(&self, chunk: &Chunk, mut state: MutexGuard<'_, State>) {
        state.take_out(chunk);
        // ORDERING: Relaxed, a report.
        self.held.fetch_sub(CHUNK_LEN as u64, Ordering::Relaxed);
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
            self.add_free(unsafe { chunk.as_ref() }, &mut state);
        }
    }
}

/// A chunk as a survey has found it, which may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chosen {
    /// Bytes of its blocks that are out.
    pub(super) out: usize,
    address: usize,
}

impl Chosen {
    fn chunk<'a>(self) -> &'a Chunk {
        // SAFETY: of a survey, whose arena is there: a mapping stays, and what may change in a header are
        // atomics; where there is no memory zeros are read, which are a free chunk.
        unsafe { &*chunk_at(self.address) }
    }

    /// As [`Chunk::each_span`].
    pub(super) fn each_span(self, f: impl FnMut(Width, Option<(usize, usize, usize)>)) {
        self.chunk().each_span(f);
    }
}

/// What a survey has found so far.
#[derive(Default)]
pub(super) struct Found {
    /// Chunks that are in use, and not closing.
    pub(super) chunks: Vec<Chosen>,
    /// Of these, bytes that are free of each class's spans.
    pub(super) free: Vec<usize>,
    /// And of spans that are free, for each width.
    pub(super) unused: [usize; Width::ALL.len()],
    /// Bytes that are free in chunks that are closing already.
    pub(super) closing: usize,
}

impl Pool {
    /// Looks at `count` chunks from number `from` on. False: these were the last ones.
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
            // SAFETY: a mapping stays, and what may change in a header meanwhile are atomics; where there is
            // no memory zeros are read, which are a free chunk.
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

    /// Has nothing taken of a chunk any more until it is free.
    pub(super) fn close(&self, chosen: Chosen) {
        let mut state = self.state();
        let chunk = chosen.chunk();
        // One that became free meanwhile may have no memory.
        if chunk.used.get() != 0 && !chunk.is_closing() {
            state.take_out(chunk);
            chunk.set_closing(true);
        }
    }
}
