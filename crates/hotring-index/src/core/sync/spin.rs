//! Spin waits and spin locks, for events that are a few instructions of another thread away.
//!
//! A waiter spins, each time twice as long, and then yields the processor: on a machine with fewer
//! processors than threads the holder of a lock may not be running. Under a checker each wait yields to
//! another thread.

use super::{AtomicBool, Ordering};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// The number of waits before the first yield: 127 pauses in all, a few microseconds.
#[cfg(not(any(loom, shuttle)))]
const SPINS: u32 = 7;

/// Counts how often a thread has waited for the same event, to choose the length of the next wait.
#[derive(Default)]
pub struct SpinWait {
    #[cfg(not(any(loom, shuttle)))]
    waits: u32,
}

impl SpinWait {
    /// Waits briefly. The caller must check its condition again afterwards.
    #[cfg(not(any(loom, shuttle)))]
    pub fn wait(&mut self) {
        if self.waits < SPINS {
            (0..1 << self.waits).for_each(|_| std::hint::spin_loop());
            self.waits += 1;
        } else {
            std::thread::yield_now();
        }
    }

    /// Yields to another thread.
    #[cfg(any(loom, shuttle))]
    #[allow(clippy::unused_self)]
    pub fn wait(&mut self) {
        #[cfg(loom)]
        loom::thread::yield_now();
        #[cfg(shuttle)]
        shuttle::thread::yield_now();
    }
}

/// Whether a checker has found a fault: the run is over, and destructors must not add steps to it.
#[inline(always)]
pub fn is_over() -> bool {
    cfg!(any(loom, shuttle)) && std::thread::panicking()
}

/// A lock that is held for a few instructions.
#[derive(Default)]
pub struct SpinLock(AtomicBool);

impl SpinLock {
    /// Takes the lock if no session has it.
    #[inline(always)]
    pub fn try_lock(&self) -> bool {
        // Not a swap, which stores even if it fails: loom does not order such a store with the store of
        // `unlock`.
        // ORDERING: Acquire pairs with the Release in `unlock`.
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline(always)]
    pub fn lock(&self) {
        if !self.try_lock() {
            self.wait_and_lock();
        }
    }

    #[cold]
    fn wait_and_lock(&self) {
        let mut spin = SpinWait::default();
        loop {
            spin.wait();
            // ORDERING: Relaxed, a check that leaves the cache line with the holder; the exchange decides.
            if !self.0.load(Ordering::Relaxed) && self.try_lock() {
                return;
            }
        }
    }

    /// Releases the lock. Only the holder may call it.
    #[inline(always)]
    pub fn unlock(&self) {
        // ORDERING: Release, the holder's actions happen before those of the next holder.
        self.0.store(false, Ordering::Release);
    }
}

/// A value behind a [`SpinLock`]. Checkers explore this lock, unlike `Mutex`, which is always real.
#[derive(Default)]
pub struct SpinMutex<T> {
    lock: SpinLock,
    value: UnsafeCell<T>,
}

// SAFETY: only the holder of the lock uses the value.
unsafe impl<T: Send> Sync for SpinMutex<T> {}

impl<T> SpinMutex<T> {
    pub fn new(value: T) -> Self {
        Self { lock: SpinLock::default(), value: UnsafeCell::new(value) }
    }

    /// The value, without locking.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    pub fn lock(&self) -> SpinGuard<'_, T> {
        self.lock.lock();
        SpinGuard(self)
    }

    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.lock.try_lock().then(|| SpinGuard(self))
    }
}

/// Access to the value while the lock is held.
pub struct SpinGuard<'m, T>(&'m SpinMutex<T>);

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the lock is held while the guard lives.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held while the guard lives, and the guard is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    fn drop(&mut self) {
        if !is_over() {
            self.0.lock.unlock();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_one_thread_s_at_a_time() {
        let sum = SpinMutex::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| *sum.lock() += 1));
            }
        });
        let held = sum.lock();
        assert_eq!(*held, 40_000);
        assert!(sum.try_lock().is_none());
        drop(held);
        assert!(sum.try_lock().is_some());
    }
}
