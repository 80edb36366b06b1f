//! How a session waits for keys that another one holds.

use std::task::Waker;

/// A session's way to wait for keys that another session holds; by itself it lets its thread sleep.
/// For threads with other work ([`crate::Session::set_wait`]).
pub trait Wait: Send {
    /// Whether the thread does something else during a wait, so that one that is short pays as well.
    fn is_beside(&self) -> bool {
        false
    }

    /// A waker for a wait that may be over. It must not use the store itself.
    fn waker(&mut self) -> Waker;

    /// Returns when that waker has been woken, or earlier. Nothing that this session does is in flight meanwhile.
    fn wait(&mut self);

    /// Called at each step of a long operation, whose keys are held and of which nothing is in flight: the thread may
    /// do something else for a while.
    fn rest(&mut self) {}
}
