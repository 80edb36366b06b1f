//! A table: an array of buckets of fixed length, in zeroed memory from the system.

use crate::mercury::locking::Bucket;
#[cfg(not(any(loom, shuttle)))]
use hotring_index::toolkit::{HUGE_PAGE, Mapping};
use std::io;

pub(crate) struct Table<B> {
    /// The number of buckets, a power of two, minus one.
    mask: u64,
    buckets: Buckets<B>,
}

impl<B: Bucket> Table<B> {
    /// `len` empty buckets, a power of two. Only used ones become memory.
    pub(crate) fn new(len: u64, huge_pages: bool) -> io::Result<Box<Self>> {
        assert!(len.is_power_of_two(), "a hash is masked");
        Ok(Box::new(Self { mask: len - 1, buckets: Buckets::reserve(len as usize, huge_pages)? }))
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.mask + 1
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.len() * size_of::<B>() as u64
    }

    /// The number of the bucket of a hash.
    #[inline(always)]
    pub(crate) fn index(&self, hash: u64) -> u64 {
        hash & self.mask
    }

    #[inline(always)]
    pub(crate) fn bucket(&self, hash: u64) -> &B {
        self.buckets.at((hash & self.mask) as usize)
    }

    /// Gives the memory of the buckets from `from` up to `to` back to the system, in entire huge
    /// pages if there are any. These buckets must not be used again.
    pub(crate) fn give_back(&self, from: u64, to: u64) {
        self.buckets.give_back(from as usize, to as usize);
    }
}

#[cfg(not(any(loom, shuttle)))]
struct Buckets<B> {
    start: *const B,
    mapping: Mapping,
}

// SAFETY: buckets are shared between threads, in memory that this owns.
#[cfg(not(any(loom, shuttle)))]
unsafe impl<B: Send + Sync> Send for Buckets<B> {}
// SAFETY: as above.
#[cfg(not(any(loom, shuttle)))]
unsafe impl<B: Send + Sync> Sync for Buckets<B> {}

#[cfg(not(any(loom, shuttle)))]
impl<B: Bucket> Buckets<B> {
    fn reserve(len: usize, huge_pages: bool) -> io::Result<Self> {
        let bytes = (len * size_of::<B>()).next_multiple_of(HUGE_PAGE);
        let mapping = Mapping::reserve(bytes, huge_pages)?;
        Ok(Self { start: mapping.start().as_ptr().cast(), mapping })
    }

    #[inline(always)]
    fn at(&self, index: usize) -> &B {
        // SAFETY: the index is masked by the table; zeroed memory is a valid bucket.
        unsafe { &*self.start.add(index) }
    }

    fn give_back(&self, from: usize, to: usize) {
        // A part that is refused is freed with the mapping.
        let _ = self.mapping.give_back(from * size_of::<B>(), to * size_of::<B>());
    }
}

/// Buckets under a checker, which must know each bucket. Using one after the table was given back
/// is an error.
#[cfg(any(loom, shuttle))]
struct Buckets<B> {
    all: Box<[B]>,
    is_gone: std::sync::atomic::AtomicBool,
}

#[cfg(any(loom, shuttle))]
impl<B: Bucket> Buckets<B> {
    fn reserve(len: usize, _huge_pages: bool) -> io::Result<Self> {
        Ok(Self { all: (0..len).map(|_| B::empty()).collect(), is_gone: false.into() })
    }

    fn at(&self, index: usize) -> &B {
        // ORDERING: Relaxed, checkers run one thread at a time.
        let is_gone = self.is_gone.load(std::sync::atomic::Ordering::Relaxed);
        assert!(!is_gone, "a table is used that was given back");
        &self.all[index]
    }

    fn give_back(&self, _from: usize, _to: usize) {
        // ORDERING: Relaxed, as above.
        self.is_gone.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}
