//! Guards of operations in flight. Dropping a guard tells the gate that the operation is over.

use std::sync::atomic::Ordering::{Acquire, Release};

use crate::sync::{AtomicU64, fence, pause};

/// Waits until an operation in flight is over.
pub(crate) fn wait_until(mut done: impl FnMut() -> bool) {
    let mut round = 0;
    while !done() {
        pause(round);
        round = round.saturating_add(1);
    }
}

/// Guard of a read in flight; None inside a hold, which excludes writers already.
pub(crate) struct Reading<'a>(pub(crate) Option<&'a AtomicU64>);

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(reading) = self.0 else { return };
        // ORDERING: the Acquire fence makes this session's later look at `held` see the bit of a
        // holder whose change was just read, whatever order the index read it with; it pairs with
        // the Release fence in `gate/acquire.rs`, `acquire`.
        fence(Acquire);
        // ORDERING: Release pairs with the Acquire in `drain`: the read is over.
        reading.store(0, Release);
    }
}

/// Guard of a write in flight, with its counter and the odd number that marks it; None inside a hold.
pub(crate) struct Writing<'a>(pub(crate) Option<(&'a AtomicU64, u64)>);

impl Writing<'_> {
    /// Whether the write is inside a hold of this session.
    pub(crate) fn is_held(&self) -> bool {
        self.0.is_none()
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some((counter, odd)) = self.0 else { return };
        // ORDERING: Acquire fence as in `Reading`: a write reads the old value, too.
        fence(Acquire);
        // ORDERING: Release pairs with the Acquire in `drain` and in `snapshot_begin`: a session that sees the even
        // number sees the write.
        counter.store(odd + 1, Release);
    }
}
