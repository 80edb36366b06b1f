//! An asymmetric memory barrier: nearly free for the frequent side, a system call for the rare one.
//!
//! If two threads each store to one word and then load the other's, both need a full barrier, or both may
//! miss the other's store. Here the frequent side (a reader that pins itself) calls [`light`], and the
//! rare side (a thread that reclaims memory or stops writers) calls [`heavy`].
//!
//! *Guarantee.* For each call of `heavy` and each call of `light` on another thread, one is ordered
//! before the other: either the frequent thread's later loads see every store made before `heavy`,
//! or the rare thread's later loads see every store made before that `light`.
//!
//! On Linux `heavy` is `membarrier(PRIVATE_EXPEDITED)`, which runs a full barrier on every running
//! thread of the process, and `light` only keeps the compiler from moving code. If the kernel has no
//! membarrier, both are sequentially consistent fences. They are also fences under a checker, which cannot
//! see system calls.

pub use sides::{heavy, is_asymmetric, light};

pub(crate) use sides::init;

#[cfg(any(loom, shuttle))]
mod sides {
    use crate::core::sync::{Ordering, fence};

    pub(crate) fn init() {}

    /// A fence.
    pub fn light() {
        // ORDERING: SeqCst, pairs with `heavy`.
        fence(Ordering::SeqCst);
    }

    /// A fence.
    pub fn heavy() {
        // ORDERING: SeqCst, pairs with `light`.
        fence(Ordering::SeqCst);
    }

    /// Never here.
    pub fn is_asymmetric() -> bool {
        false
    }
}

#[cfg(not(any(loom, shuttle)))]
mod sides {
    use crate::core::sync::{AtomicU8, Ordering, compiler_fence, fence};

    const UNKNOWN: u8 = 0;
    const EXPEDITED: u8 = 1;
    const FENCES: u8 = 2;

    static MODE: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Registers the process with the kernel. Called before the first session exists.
    pub(crate) fn init() {
        // ORDERING: Relaxed, an idempotent once-flag that guards no other memory.
        if MODE.load(Ordering::Relaxed) != UNKNOWN {
            return;
        }
        let mode = if register() { EXPEDITED } else { FENCES };
        // The first answer is final, because sessions keep a copy of it: of two concurrent calls one may
        // succeed and the other fail.
        // ORDERING: SeqCst, once per process; `light` calls that still see UNKNOWN use a full fence,
        // which is stronger than either mode needs.
        let _ = MODE.compare_exchange(UNKNOWN, mode, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The barrier of the frequent side. Costs nothing if the kernel offers membarrier.
    #[inline(always)]
    pub fn light() {
        // ORDERING: Relaxed, any value that is seen is safe: both branches order at least the compiler,
        // and `heavy` pairs with either.
        if MODE.load(Ordering::Relaxed) == EXPEDITED {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// The barrier of the rare side. Takes about 0.2 to 2 microseconds, more with more running threads.
    ///
    /// # Panics
    /// The kernel refuses a barrier after a successful registration. Continuing would be unsound.
    pub fn heavy() {
        init();
        // ORDERING: SeqCst, the rare side's own full fence; pairs with the fence in `light`.
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed, see `light`.
        if MODE.load(Ordering::Relaxed) == EXPEDITED {
            let done = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
            assert!(done, "membarrier failed after its registration had succeeded");
            fence(Ordering::SeqCst);
        }
    }

    /// Whether `light` is free in this process.
    pub fn is_asymmetric() -> bool {
        init();
        // ORDERING: Relaxed, see `light`.
        MODE.load(Ordering::Relaxed) == EXPEDITED
    }

    #[cfg(target_os = "linux")]
    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes two integers (and ignores the third) and touches no user memory.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    #[cfg(target_os = "linux")]
    fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    #[cfg(not(target_os = "linux"))]
    fn membarrier(_: i32) -> bool {
        false
    }

    #[cfg(not(target_os = "linux"))]
    fn register() -> bool {
        false
    }
}
