//! The model checker's side of `src/sync.rs`.

use std::cell::Cell;

pub(crate) use loom::sync::atomic::{AtomicU64, fence};
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};

pub(crate) const STRIPES: usize = 2;
pub(crate) const TRIES_BEFORE_RESERVING: u32 = 1;

pub(crate) fn pause(_round: u32) {
    loom::thread::yield_now();
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
