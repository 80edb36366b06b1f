//! Item memory: size classes of 8 bytes, carved from huge-page mappings, cached per session.
//!
//! An item of up to [`CLASSED_MAX`] bytes comes from its class: first from the session's own free
//! list, then from a list that another session gave back, then from a fresh run of a mapping. A
//! session keeps at most two batches a class and hands the rest to the others, so memory freed by
//! one thread serves all. Larger items go to the process's allocator.
//!
//! Classed memory returns to the system only with the arena; it is reused by class meanwhile.

use crate::memory::{HUGE_PAGE, Mapping};
use crate::sync::{Arc, AtomicU64, Mutex, Ordering};
use std::alloc::Layout;
use std::ptr::{NonNull, null_mut};

const GRAIN: usize = 8;
/// Largest size that is served from classes, in bytes.
pub(crate) const CLASSED_MAX: usize = 1024;
const CLASSES: usize = CLASSED_MAX / GRAIN + 1;
/// Address space mapped at a time; touched piece by piece.
const MAPPING_LEN: usize = 16 * HUGE_PAGE;
const RUN_LEN_MIN: usize = 4 << 10;
const RUN_LEN_MAX: usize = 64 << 10;
/// Items in a batch that moves between sessions.
const BATCH: u32 = 256;
/// User addresses must leave the top 16 bits of a word free.
const ADDRESS_BITS: u32 = 48;

/// Bytes that an item of `size` bytes occupies.
pub(crate) fn footprint(size: usize) -> usize {
    size.next_multiple_of(GRAIN)
}

/// A free block holds the address of the next one.
#[derive(Clone, Copy)]
struct FreeList {
    head: *mut u8,
    len: u32,
}

impl FreeList {
    const EMPTY: Self = Self { head: null_mut(), len: 0 };

    /// # Safety
    /// `block` is unused memory of the list's class, owned by the caller.
    unsafe fn push(&mut self, block: *mut u8) {
        // SAFETY: blocks are at least 8 bytes, 8-aligned, and the caller owns this one.
        unsafe { block.cast::<*mut u8>().write(self.head) };
        self.head = block;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head)?;
        // SAFETY: a block in the list holds the next one's address (`push`), and the list owns it.
        self.head = unsafe { block.cast::<*mut u8>().read() };
        self.len -= 1;
        Some(block)
    }
}

/// Memory of one class that no session holds.
#[derive(Default)]
struct SharedClass {
    lists: Vec<FreeList>,
    runs: Vec<Run>,
}

#[derive(Clone, Copy)]
struct Run {
    at: *mut u8,
    left: usize,
}

impl Run {
    const EMPTY: Self = Self { at: null_mut(), left: 0 };

    fn take(&mut self, len: usize) -> Option<NonNull<u8>> {
        if self.left < len {
            return None;
        }
        let block = self.at;
        self.left -= len;
        // SAFETY: len <= left, so the new position is inside the run or one past its end.
        self.at = unsafe { self.at.add(len) };
        NonNull::new(block)
    }
}

/// The memory that all sessions of an index share.
pub(crate) struct Arena {
    mappings: Mutex<Mappings>,
    classes: Box<[Mutex<SharedClass>]>,
    huge_pages: bool,
    /// Blocks that are out of the process's allocator.
    large: AtomicU64,
}

struct Mappings {
    all: Vec<Mapping>,
    free: Run,
}

// SAFETY: the raw pointers name memory that the arena owns; every access is under its mutexes.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(huge_pages: bool) -> Self {
        Self {
            mappings: Mutex::new(Mappings { all: Vec::new(), free: Run::EMPTY }),
            classes: (0..CLASSES).map(|_| Mutex::default()).collect(),
            huge_pages,
            large: AtomicU64::new(0),
        }
    }

    /// Bytes of address space that are mapped for items (touched or not).
    pub(crate) fn mapped_bytes(&self) -> usize {
        let mappings = self.mappings.lock().expect("no code panics under this lock");
        mappings.all.iter().map(Mapping::len).sum()
    }

    /// A fresh run; aborts like any allocation failure when the system has no memory.
    fn run(&self, len: usize) -> Run {
        let mut mappings = self.mappings.lock().expect("no code panics under this lock");
        if mappings.free.left < len {
            let Ok(mapping) = Mapping::reserve(MAPPING_LEN, self.huge_pages) else {
                std::alloc::handle_alloc_error(
                    Layout::from_size_align(len, GRAIN).expect("a run is small"),
                );
            };
            check_address(mapping.start().as_ptr(), mapping.len());
            mappings.free = Run { at: mapping.start().as_ptr(), left: mapping.len() };
            mappings.all.push(mapping);
        }
        let at = mappings.free.take(len).expect("the mapping is longer than a run");
        Run { at: at.as_ptr(), left: len }
    }
}

fn check_address(at: *mut u8, len: usize) {
    let end = (at as usize).wrapping_add(len);
    assert!(end >> ADDRESS_BITS == 0, "memory at {at:p} lies above the {ADDRESS_BITS}-bit range");
}

/// One session's cache of item memory.
pub(crate) struct LocalArena {
    shared: Arc<Arena>,
    classes: Box<[LocalClass]>,
}

#[derive(Clone, Copy)]
struct LocalClass {
    current: FreeList,
    spare: FreeList,
    run: Run,
    run_len_next: usize,
}

// SAFETY: the lists name memory that this cache alone owns.
unsafe impl Send for LocalArena {}

impl LocalArena {
    pub(crate) fn new(shared: Arc<Arena>) -> Self {
        let class = LocalClass {
            current: FreeList::EMPTY,
            spare: FreeList::EMPTY,
            run: Run::EMPTY,
            run_len_next: RUN_LEN_MIN,
        };
        Self { shared, classes: vec![class; CLASSES].into_boxed_slice() }
    }

    /// Uninitialised memory for `size` bytes, 8-aligned.
    #[inline]
    pub(crate) fn alloc(&mut self, size: usize) -> NonNull<u8> {
        debug_assert!(size > 0, "items have a header");
        let len = footprint(size);
        if len > CLASSED_MAX {
            return self.shared.alloc_large(len);
        }
        let class = &mut self.classes[len / GRAIN];
        if let Some(block) = class.current.pop() {
            return block;
        }
        if let Some(block) = class.run.take(len) {
            return block;
        }
        self.refill(len)
    }

    #[cold]
    fn refill(&mut self, len: usize) -> NonNull<u8> {
        let class = &mut self.classes[len / GRAIN];
        class.current = std::mem::replace(&mut class.spare, FreeList::EMPTY);
        if class.current.len == 0 {
            let mut shared =
                self.shared.classes[len / GRAIN].lock().expect("no code panics under this lock");
            if let Some(list) = shared.lists.pop() {
                class.current = list;
            } else if let Some(run) = shared.runs.pop() {
                class.run = run;
            }
        }
        if let Some(block) = class.current.pop().or_else(|| class.run.take(len)) {
            return block;
        }
        let run_len = class.run_len_next;
        class.run_len_next = (run_len * 2).min(RUN_LEN_MAX);
        class.run = self.shared.run(run_len);
        class.run.take(len).expect("a run holds at least one item")
    }

    /// # Safety
    /// `block` came from `alloc(size)` of a cache of the same arena, and nobody uses it any more.
    #[inline]
    pub(crate) unsafe fn free(&mut self, block: NonNull<u8>, size: usize) {
        let len = footprint(size);
        if len > CLASSED_MAX {
            // SAFETY: the same length went to `alloc_large`.
            unsafe { self.shared.free_large(block, len) };
            return;
        }
        let class = &mut self.classes[len / GRAIN];
        // SAFETY: the caller gives up the block, which has this class's size.
        unsafe { class.current.push(block.as_ptr()) };
        if class.current.len >= BATCH {
            let full = std::mem::replace(&mut class.current, FreeList::EMPTY);
            let older = std::mem::replace(&mut class.spare, full);
            if older.len > 0 {
                give_back(&self.shared, len / GRAIN, older, Run::EMPTY);
            }
        }
    }
}

#[cold]
fn give_back(arena: &Arena, class: usize, list: FreeList, run: Run) {
    let mut shared = arena.classes[class].lock().expect("no code panics under this lock");
    if list.len > 0 {
        shared.lists.push(list);
    }
    if run.left >= class * GRAIN {
        shared.runs.push(run);
    }
}

impl Drop for LocalArena {
    fn drop(&mut self) {
        for (index, class) in self.classes.iter().enumerate().skip(1) {
            give_back(&self.shared, index, class.current, class.run);
            give_back(&self.shared, index, class.spare, Run::EMPTY);
        }
    }
}

fn large_layout(len: usize) -> Layout {
    Layout::from_size_align(len, GRAIN).expect("an item is shorter than the address space")
}

impl Arena {
    #[cold]
    fn alloc_large(&self, len: usize) -> NonNull<u8> {
        let layout = large_layout(len);
        // SAFETY: len > CLASSED_MAX, so the layout is not empty.
        let raw = unsafe { std::alloc::alloc(layout) };
        let Some(block) = NonNull::new(raw) else { std::alloc::handle_alloc_error(layout) };
        check_address(raw, len);
        // ORDERING: Relaxed, a count that is read when no other thread is left.
        self.large.fetch_add(1, Ordering::Relaxed);
        block
    }

    /// Frees a block if it is of those that do not go with the arena.
    ///
    /// # Safety
    /// As for [`LocalArena::free`].
    pub(crate) unsafe fn free_if_large(&self, block: NonNull<u8>, size: usize) {
        let len = footprint(size);
        if len > CLASSED_MAX {
            // SAFETY: the caller's promise.
            unsafe { self.free_large(block, len) };
        }
    }

    /// # Safety
    /// `block` came from `alloc_large(len)` and is unused.
    #[cold]
    unsafe fn free_large(&self, block: NonNull<u8>, len: usize) {
        // SAFETY: same layout as at allocation, by the caller's promise.
        unsafe { std::alloc::dealloc(block.as_ptr(), large_layout(len)) };
        // ORDERING: Relaxed, as in `alloc_large`.
        self.large.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether any block would outlive the arena.
    pub(crate) fn has_large(&self) -> bool {
        // ORDERING: Relaxed, as in `alloc_large`.
        self.large.load(Ordering::Relaxed) != 0
    }
}
