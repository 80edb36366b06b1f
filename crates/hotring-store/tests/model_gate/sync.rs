//! The model checker's side of `src/sync.rs`.

use std::cell::Cell;
use std::task::{Wake, Waker};

pub(crate) use loom::sync::atomic::{AtomicU64, fence};
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

pub(crate) const STRIPES: usize = 2;
/// A session that waits for a hold sleeps at once.
pub(crate) const SLEEPS_AFTER: u32 = 0;

pub(crate) fn pause(_round: u32) {
    loom::thread::yield_now();
}

/// Sleeps as threads of the model do.
pub(crate) struct ThreadWait;

impl crate::wait::Wait for ThreadWait {
    fn waker(&mut self) -> Waker {
        struct Unpark(loom::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: std::sync::Arc<Self>) {
                self.0.unpark();
            }
        }
        std::sync::Arc::new(Unpark(loom::thread::current())).into()
    }

    fn wait(&mut self) {
        loom::thread::park();
    }
}

thread_local! {
    /// All of a model's threads run on the one that explores it.
    static LIGHT_LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// Whether the light barrier is to do nothing, in the models that this thread explores.
pub(crate) fn leave_light_out(left_out: bool) {
    LIGHT_LEFT_OUT.set(left_out);
}

/// Full fences for both sides: what `membarrier` amounts to.
pub(crate) mod barrier {
    use loom::sync::atomic::fence;
    use std::sync::atomic::Ordering::SeqCst;

    pub(crate) fn light() {
        if !super::LIGHT_LEFT_OUT.get() {
            fence(SeqCst);
        }
    }

    pub(crate) fn heavy() {
        fence(SeqCst);
    }
}
