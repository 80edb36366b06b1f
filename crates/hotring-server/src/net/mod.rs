//! Sockets: accepting them, one thread's event loop, one connection.

pub(crate) mod listen;
pub(crate) mod socket;
pub(crate) mod worker;
