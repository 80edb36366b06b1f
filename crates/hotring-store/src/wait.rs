//! The interface by which a session waits for keys that another session holds.

use std::task::Waker;

/// A session's way to wait for keys that another session holds. The default blocks the thread; threads with other work
/// can set their own ([`crate::Session::set_wait`]).
pub trait Wait: Send {
    /// Whether the thread does other work during a wait, so that even a short wait pays.
    fn releases_thread(&self) -> bool {
        false
    }

    /// A waker that is called when a wait may be over. It must not use the store.
    fn waker(&mut self) -> Waker;

    /// Returns when the waker has been called, or earlier. No operation of this session is in flight meanwhile.
    fn wait(&mut self);

    /// Called between steps of a long operation that holds keys, when none of its reads or writes is in flight: the
    /// thread may do other work for a while.
    fn rest(&mut self) {}
}
