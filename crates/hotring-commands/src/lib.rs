//! The commands of Redis and memcached: requests as bytes in, replies as bytes out, over a [`hotring_store::Store`].
//!
//! [`exec`] cuts the bytes of a connection into requests and runs them by [`commands`]; all of them share
//! [`state`]. Nothing here opens a socket or starts a thread on its own: `hotring-server` does.
#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    clippy::new_without_default,
    clippy::len_without_is_empty,
    reason = "internal to the server: public items are public for hotring-server only"
)]

pub mod acl;
pub mod commands;
pub mod exec;
pub mod host;
pub mod memcached;
pub mod observe;
pub mod rdb;
pub mod script;
pub mod settings;
pub mod state;
pub mod table;

#[cfg(fuzzing)]
pub use exec::fuzzing;
