//! Networking: listeners, the event loop of a thread, and connections.

pub(crate) mod fabric;
pub(crate) mod listen;
pub(crate) mod socket;
pub(crate) mod worker;
