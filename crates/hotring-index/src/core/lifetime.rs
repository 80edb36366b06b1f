//! Checks of an item's lifetime under model checkers: an item must be published before it is read, must be
//! retired once, and must not be reached by a session that pinned later.
//!
//! In ordinary builds the checks take no bytes and no instructions.

#[cfg(not(any(loom, shuttle)))]
mod variant {
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
mod variant {
    use crate::core::sync::{AtomicU64, Ordering, TallyU64};

    #[cfg(loom)]
    use loom::cell::UnsafeCell;
    #[cfg(shuttle)]
    type UnsafeCell<T> = std::marker::PhantomData<T>;

    const ALIVE: u64 = 0;
    const FREED: u64 = u64::MAX;

    /// The checker's part of an item's header.
    pub struct Lifetime {
        /// Written by the thread that makes or frees the item, read by all others. loom reports any access
        /// that is not ordered with these.
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

        /// Checks an access by a thread that pinned at `pinned_at`.
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

        /// Whether the item is neither retired nor freed.
        pub fn is_alive(&self) -> bool {
            // ORDERING: Relaxed, as above.
            self.state.load(Ordering::Relaxed) == ALIVE
        }
    }

    /// A clock that pins and retirements advance, in place of the epochs. An item retired before a pin must
    /// not be reached under it, whatever the epochs would allow. So an error shows at once, not only after
    /// two advances and a reuse of the memory.
    #[derive(Default)]
    pub(crate) struct Oracle(AtomicU64);

    impl Oracle {
        /// The next moment, later than all earlier ones and the operations before them.
        pub(crate) fn tick(&self) -> u64 {
            // ORDERING: AcqRel, the happens-before that the epochs' grace period would give.
            self.0.fetch_add(1, Ordering::AcqRel) + 1
        }
    }
}

pub(crate) use variant::*;
