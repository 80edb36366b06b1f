//! Checks of an item's lifetime, under model checkers: it must be published before it is read, retired
//! once, and not be reached by a session that pinned after that.
//!
//! In ordinary builds this has no bytes and no instructions.

#[cfg(not(any(loom, shuttle)))]
mod kept {
    /// The checker's part of an item's header.
    pub struct Lifetime;

    #[allow(clippy::unused_self)]
    impl Lifetime {
        #[inline(always)]
        pub(crate) fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub fn check_access(&self, _pinned_at: u64) {}
        #[inline(always)]
        pub(crate) fn retire(&self, _now: u64) {}
        #[inline(always)]
        pub(crate) fn free(&self) {}
    }
}

#[cfg(any(loom, shuttle))]
mod kept {
    use crate::core::sync::{AtomicU64, Ordering, TallyU64};

    #[cfg(loom)]
    use loom::cell::UnsafeCell;
    #[cfg(shuttle)]
    type UnsafeCell<T> = std::marker::PhantomData<T>;

    const ALIVE: u64 = 0;
    const FREED: u64 = u64::MAX;

    /// The checker's part of an item's header.
    pub struct Lifetime {
        /// Written by the maker and the freeing thread, read by all others: loom complains where one
        /// of these does not happen before the other.
        contents: UnsafeCell<()>,
        /// ALIVE, the moment of the retirement, or FREED.
        state: TallyU64,
    }

    impl Lifetime {
        pub(crate) fn new() -> Self {
            #[cfg(loom)]
            let contents = UnsafeCell::new(());
            #[cfg(shuttle)]
            let contents = UnsafeCell::default();
            let lifetime = Self { contents, state: TallyU64::new(ALIVE) };
            lifetime.write();
            lifetime
        }

        #[cfg(loom)]
        fn write(&self) {
            self.contents.with_mut(|_| ());
        }

        #[cfg(shuttle)]
        fn write(&self) {
            let _ = self.contents;
        }

        /// The item is used by a thread that pinned at `pinned_at`.
        pub fn check_access(&self, pinned_at: u64) {
            // ORDERING: Relaxed, checkers run one thread at a time.
            let state = self.state.load(Ordering::Relaxed);
            assert!(state != FREED, "an item is used after it was freed");
            assert!(
                state == ALIVE || state > pinned_at,
                "an item is reached that was retired at {state}, before the pin at {pinned_at}"
            );
            #[cfg(loom)]
            self.contents.with(|_| ());
        }

        pub(crate) fn retire(&self, now: u64) {
            // ORDERING: Relaxed, as above.
            let before = self.state.swap(now, Ordering::Relaxed);
            assert!(before == ALIVE, "an item is retired twice");
        }

        pub(crate) fn free(&self) {
            // ORDERING: Relaxed, as above.
            let before = self.state.swap(FREED, Ordering::Relaxed);
            assert!(before != FREED, "an item is freed twice");
            self.write();
        }

        /// Whether the item has neither been retired nor freed.
        pub fn is_alive(&self) -> bool {
            // ORDERING: Relaxed, as above.
            self.state.load(Ordering::Relaxed) == ALIVE
        }
    }

    /// Stands for the epochs: a clock that pins and retirements tick. An item that is retired
    /// before a pin must not be reached under it, whatever the epochs would have made of it; this
    /// finds at once what takes two advances and a reuse of the memory to become a wrong answer.
    #[derive(Default)]
    pub(crate) struct Oracle(AtomicU64);

    impl Oracle {
        /// The next moment, after all earlier ones and what came before them.
        pub(crate) fn tick(&self) -> u64 {
            // ORDERING: AcqRel, the happens-before that the epochs' grace period would give.
            self.0.fetch_add(1, Ordering::AcqRel) + 1
        }
    }
}

pub(crate) use kept::*;
