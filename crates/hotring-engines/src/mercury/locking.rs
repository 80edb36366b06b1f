//! The bucket: the address of its first item, its lock and its HASMOVED bit, in one cache line
//! (Mercury section 3, "Locks", figure 2(b)); and the choice of the lock.
//!
//! ```text
//!                   63 .. 48   47 ................. 3   2   1          0
//! test-and-set      -          address of first item   -   HASMOVED   LOCK      8 bytes
//! OS mutex          the same, without LOCK; and a mutex beside it               16 bytes
//! none              the same, without LOCK                                      8 bytes
//! ```

#[cfg(any(loom, shuttle))]
use hotring_index::sync::spin::SpinLock as RawMutex;
use hotring_index::sync::spin::SpinWait;
use hotring_index::sync::{AtomicU64, Ordering, TallyU64};
#[cfg(not(any(loom, shuttle)))]
use parking_lot::{RawMutex, lock_api::RawMutex as _};

/// The bucket is locked.
const LOCK: u64 = 1;
/// The bucket's items are in the larger table, and so is every later one.
pub(crate) const HASMOVED: u64 = 1 << 1;

/// How a bucket is locked; the schemes of the paper's figure 4. Sealed.
pub trait Locking: Bucket {
    /// Whether sessions of several threads may use the index at a time.
    #[doc(hidden)]
    const IS_SHARED: bool = true;
}

/// The lock is a bit of the word with the address of the bucket's first item, so that one fetch gets both. The
/// default, and the paper's choice.
pub struct TestAndSet(AtomicU64);

/// The lock is a mutex next to that word, in the same 16 bytes: a session that waits for long sleeps in the operating
/// system.
#[repr(C, align(16))]
pub struct OsMutex {
    mutex: RawMutex,
    word: AtomicU64,
}

/// No lock: the upper bound of any gain. For one session at a time; a second one is refused.
pub struct NoLock(AtomicU64);

impl Locking for TestAndSet {}
impl Locking for OsMutex {}
impl Locking for NoLock {
    const IS_SHARED: bool = false;
}

/// The operations of a bucket. A bucket of zeros must be empty and unlocked.
#[doc(hidden)]
pub trait Bucket: sealed::Bucket + Send + Sync + Sized + 'static {
    /// Takes the lock and returns the word; counts in `waits` if another session has it.
    fn lock(&self, waits: &TallyU64) -> u64;
    /// Unlocks, and sets the new word.
    fn unlock(&self, word: u64);
    /// The word at some moment, with or without LOCK.
    fn peek(&self) -> u64;
    /// Sets the word of a bucket that no other session can reach yet.
    fn fill(&self, word: u64);
    /// Makes an empty bucket; checkers must know each one.
    #[cfg(any(loom, shuttle))]
    fn empty() -> Self;
}

impl Bucket for TestAndSet {
    #[inline(always)]
    fn lock(&self, waits: &TallyU64) -> u64 {
        self.try_lock().unwrap_or_else(|| self.wait(waits))
    }

    #[inline(always)]
    fn unlock(&self, word: u64) {
        // ORDERING: Release, the next session to lock sees the chain as we leave it.
        self.0.store(word, Ordering::Release);
    }

    #[inline(always)]
    fn peek(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release of `unlock`: a scan that sees an empty or a moved bucket also sees
        // what happened before.
        self.0.load(Ordering::Acquire)
    }

    fn fill(&self, word: u64) {
        // ORDERING: Relaxed, published by the HASMOVED of the bucket that it was split from.
        self.0.store(word, Ordering::Relaxed);
    }

    #[cfg(any(loom, shuttle))]
    fn empty() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl TestAndSet {
    #[inline(always)]
    fn try_lock(&self) -> Option<u64> {
        // ORDERING: Relaxed, the exchange validates it.
        let word = self.0.load(Ordering::Relaxed);
        // ORDERING: Acquire pairs with the Release of `unlock`.
        let cas =
            || self.0.compare_exchange(word, word | LOCK, Ordering::Acquire, Ordering::Relaxed);
        (word & LOCK == 0 && cas().is_ok()).then_some(word)
    }

    #[cold]
    fn wait(&self, waits: &TallyU64) -> u64 {
        // ORDERING: Relaxed, statistics.
        waits.fetch_add(1, Ordering::Relaxed);
        let mut spin = SpinWait::default();
        loop {
            spin.wait();
            if let Some(word) = self.try_lock() {
                return word;
            }
        }
    }
}

// Zeroed memory is an array of empty buckets: an unlocked mutex is all zeros, too.
#[cfg(not(any(loom, shuttle)))]
const _: () = {
    assert!(size_of::<OsMutex>() == 16 && size_of::<TestAndSet>() == 8);
    // SAFETY: of the same size, or this is not compiled; an atomic byte is initialised.
    assert!(unsafe { std::mem::transmute::<RawMutex, u8>(RawMutex::INIT) } == 0);
};

impl Bucket for OsMutex {
    #[inline(always)]
    fn lock(&self, waits: &TallyU64) -> u64 {
        if !self.mutex.try_lock() {
            // ORDERING: Relaxed, statistics.
            waits.fetch_add(1, Ordering::Relaxed);
            self.mutex.lock();
        }
        // ORDERING: Relaxed, ordered by the mutex.
        self.word.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn unlock(&self, word: u64) {
        // ORDERING: Release, for `peek`; for locking sessions the mutex orders it.
        self.word.store(word, Ordering::Release);
        #[cfg(any(loom, shuttle))]
        self.mutex.unlock();
        // SAFETY: `unlock` follows a `lock` of the same thread (`Held`).
        #[cfg(not(any(loom, shuttle)))]
        unsafe {
            self.mutex.unlock();
        }
    }

    #[inline(always)]
    fn peek(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release of `unlock`.
        self.word.load(Ordering::Acquire)
    }

    fn fill(&self, word: u64) {
        // ORDERING: Relaxed, as for `TestAndSet`.
        self.word.store(word, Ordering::Relaxed);
    }

    #[cfg(any(loom, shuttle))]
    fn empty() -> Self {
        Self { mutex: RawMutex::default(), word: AtomicU64::new(0) }
    }
}

impl Bucket for NoLock {
    #[inline(always)]
    fn lock(&self, _waits: &TallyU64) -> u64 {
        self.peek()
    }

    #[inline(always)]
    fn unlock(&self, word: u64) {
        self.fill(word);
    }

    #[inline(always)]
    fn peek(&self) -> u64 {
        // ORDERING: Relaxed, as there is one session at a time; `Workers` orders one session after
        // the other.
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn fill(&self, word: u64) {
        // ORDERING: Relaxed, as in `peek`.
        self.0.store(word, Ordering::Relaxed);
    }

    #[cfg(any(loom, shuttle))]
    fn empty() -> Self {
        Self(AtomicU64::new(0))
    }
}

pub(crate) mod sealed {
    pub trait Bucket {}
    impl Bucket for super::TestAndSet {}
    impl Bucket for super::OsMutex {}
    impl Bucket for super::NoLock {}
}
