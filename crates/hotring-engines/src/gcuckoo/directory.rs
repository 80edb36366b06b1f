//! The directory: maps hashes to pages (extendible hashing, Fagin 1979, by the low bits).
//!
//! ```text
//! front: mask 7    0   1   2   3   4   5   6   7        entry = hash & mask
//!                  |   |   |   |   |   |   |   |
//!                  A   B   C   B   D   B   C   B        A and D have depth 3, C 2, B 1
//! ```
//!
//! A page of depth d is in each entry whose low d bits are its prefix. Splitting it stores the two
//! halves in its entries, one after the other; as a hash has one entry, a single store moves it to
//! its half. If the page has only one entry, the front is doubled first: a copy with all entries
//! twice.
//!
//! A replaced page or front may still be read by sessions pinned before, and is freed after a grace period.
//! An old front may lead to a page that has been split since. Its contents are those at the split, and the
//! split came after the reader's pin.

use super::page::{DEPTH_MAX, Page};
use hotring_index::sync::spin::SpinMutex;
use hotring_index::sync::{AtomicPtr, Ordering, TallyU64};
use std::ptr::NonNull;

/// The most entries of the front per page. Without a limit, keys with equal low bits would make the
/// front grow without end. Two to four entries per page are usual.
const ENTRIES_PER_PAGE: usize = 64;
/// Replaced pages and fronts freed in one step.
const FREE_STEP: usize = 64;

struct Front<const S: usize> {
    mask: u64,
    pages: Box<[AtomicPtr<Page<S>>]>,
}

/// A replaced page or front that waits to be freed.
enum Replaced<const S: usize> {
    Page(NonNull<Page<S>>),
    Front(NonNull<Front<S>>),
}

impl<const S: usize> Replaced<S> {
    /// # Safety
    /// No other session may reach it any more, and it must be freed only once.
    unsafe fn free(self) {
        match self {
            // SAFETY: leaked from a box when it was made; the rest is the caller's promise.
            Self::Page(page) => drop(unsafe { Box::from_raw(page.as_ptr()) }),
            // SAFETY: as above.
            Self::Front(front) => drop(unsafe { Box::from_raw(front.as_ptr()) }),
        }
    }
}

/// State that only the holder of the directory's lock changes.
struct Structure<const S: usize> {
    /// Replaced pages and fronts, each with the tag of the grace period after which no session uses
    /// it.
    replaced: Vec<(u64, Replaced<S>)>,
}

// SAFETY: replaced pages and fronts belong to the directory.
unsafe impl<const S: usize> Send for Structure<S> {}
// SAFETY: it is not reached through a shared reference.
unsafe impl<const S: usize> Sync for Structure<S> {}

pub(crate) struct Directory<const S: usize> {
    front: AtomicPtr<Front<S>>,
    structure: SpinMutex<Structure<S>>,
    pages: TallyU64,
    pages_max: u64,
    waiting: TallyU64,
}

impl<const S: usize> Directory<S> {
    /// A directory of `pages` empty pages, a power of two, that may grow to `pages_max` pages.
    pub(crate) fn new(pages: usize, pages_max: usize, buckets: u32) -> Self {
        let depth = pages.trailing_zeros();
        let page = |prefix| leak(Page::new(depth, prefix as u64, buckets));
        let pages: Box<[_]> = (0..pages).map(|prefix| AtomicPtr::new(page(prefix))).collect();
        let (mask, n) = (pages.len() as u64 - 1, pages.len() as u64);
        Self {
            front: AtomicPtr::new(leak(Front { mask, pages })),
            structure: SpinMutex::new(Structure { replaced: Vec::new() }),
            pages: TallyU64::new(n),
            pages_max: pages_max as u64,
            waiting: TallyU64::new(0),
        }
    }

    #[inline(always)]
    fn front(&self) -> &Front<S> {
        // ORDERING: Acquire pairs with the Release in `widen`.
        let front = self.front.load(Ordering::Acquire);
        // SAFETY: a front is freed after a grace period, and the caller is pinned, or holds the
        // directory's lock, or is the last.
        unsafe { &*front }
    }

    /// The page of a hash. The caller must be pinned, or hold the directory's lock, while it uses
    /// the page.
    #[inline(always)]
    pub(crate) fn page(&self, hash: u64) -> &Page<S> {
        let front = self.front();
        // ORDERING: Acquire pairs with the Release in `publish`.
        let page = front.pages[(hash & front.mask) as usize].load(Ordering::Acquire);
        // SAFETY: as in `front`: a page, too, is freed after a grace period.
        unsafe { &*page }
    }

    pub(crate) fn pages(&self) -> u64 {
        // ORDERING: Relaxed, a count.
        self.pages.load(Ordering::Relaxed)
    }

    /// Whether a page of this depth may be split; if so, makes sure that the front has entries for
    /// both halves. `grace` begins a grace period.
    pub(crate) fn widen(&self, depth: u32, grace: impl FnOnce() -> u64) -> bool {
        let mut structure = self.structure.lock();
        if self.pages() >= self.pages_max || depth == DEPTH_MAX {
            return false;
        }
        let front = self.front();
        let entries = front.pages.len();
        if entries > 1 << depth {
            return true;
        }
        if entries * 2 > ENTRIES_PER_PAGE * self.pages() as usize {
            return false;
        }
        // ORDERING: Relaxed, entries change under the lock, which we hold.
        let entry = |i: usize| AtomicPtr::new(front.pages[i % entries].load(Ordering::Relaxed));
        let pages: Box<[_]> = (0..2 * entries).map(entry).collect();
        let wider = leak(Front { mask: 2 * entries as u64 - 1, pages });
        let old = NonNull::from(front);
        // ORDERING: Release publishes the entries.
        self.front.store(wider, Ordering::Release);
        self.retire(&mut structure, grace(), Replaced::Front(old));
        true
    }

    /// Replaces a frozen page by its halves. `grace` begins a grace period.
    pub(crate) fn publish(&self, old: &Page<S>, halves: [Page<S>; 2], grace: impl Fn() -> u64) {
        let mut structure = self.structure.lock();
        let halves = halves.map(leak);
        let front = self.front();
        for i in (old.prefix as usize..front.pages.len()).step_by(1 << old.depth) {
            // ORDERING: Release publishes the page. From here on these hashes belong to it.
            front.pages[i].store(halves[i >> old.depth & 1], Ordering::Release);
        }
        // ORDERING: Relaxed, a count.
        self.pages.fetch_add(1, Ordering::Relaxed);
        self.retire(&mut structure, grace(), Replaced::Page(NonNull::from(old)));
    }

    fn retire(&self, structure: &mut Structure<S>, tag: u64, replaced: Replaced<S>) {
        structure.replaced.push((tag, replaced));
        // ORDERING: Relaxed, advice.
        self.waiting.store(structure.replaced.len() as u64, Ordering::Relaxed);
    }

    /// Whether something waits to be freed.
    pub(crate) fn is_busy(&self) -> bool {
        // ORDERING: Relaxed, advice.
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Frees some memory that no session can reach any more, according to `is_over`.
    pub(crate) fn free(&self, is_over: impl Fn(u64) -> bool) {
        let Some(mut structure) = self.structure.try_lock() else { return };
        // The oldest come first, approximately.
        let n = structure.replaced.iter().take(FREE_STEP).take_while(|r| is_over(r.0)).count();
        let free: Vec<_> = structure.replaced.drain(..n).collect();
        // ORDERING: Relaxed, advice.
        self.waiting.store(structure.replaced.len() as u64, Ordering::Relaxed);
        drop(structure);
        for (_, replaced) in free {
            // SAFETY: out of the directory, and its grace period is over.
            unsafe { replaced.free() };
        }
    }

    /// Calls `f` with each page once. No page is split meanwhile.
    pub(crate) fn for_each(&self, f: impl FnMut(&Page<S>)) {
        let _structure = self.structure.lock();
        self.visit(f);
    }

    /// As `for_each`, for the holder of the lock or the last user.
    fn visit(&self, mut f: impl FnMut(&Page<S>)) {
        for hash in 0..=self.front().mask {
            let page = self.page(hash);
            if page.prefix == hash {
                f(page);
            }
        }
    }

    /// Bytes of front and pages.
    pub(crate) fn bytes(&self) -> u64 {
        let mut bytes = 0;
        let _structure = self.structure.lock();
        self.visit(|page| bytes += page.bytes());
        (bytes + size_of::<AtomicPtr<Page<S>>>() * self.front().pages.len()) as u64
    }
}

fn leak<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

impl<const S: usize> Drop for Directory<S> {
    fn drop(&mut self) {
        for (_, replaced) in self.structure.get_mut().replaced.drain(..) {
            // SAFETY: no session is left.
            unsafe { replaced.free() };
        }
        let mut pages = Vec::new();
        self.visit(|page| pages.push(NonNull::from(page)));
        // ORDERING: Relaxed, no session is left.
        let front = self.front.load(Ordering::Relaxed);
        pages.into_iter().map(Replaced::Page).for_each(|page| {
            // SAFETY: no session is left, and each page was met once.
            unsafe { page.free() };
        });
        // SAFETY: leaked when it was made; no session is left.
        drop(unsafe { Box::from_raw(front) });
    }
}
