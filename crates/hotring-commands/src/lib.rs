//! Implements the commands of Redis and memcached over a [`hotring_store::Store`]: request bytes in, reply bytes out.
//!
//! [`exec`] splits the input of a connection into requests and runs them through [`commands`]; [`memcached`] does so
//! for memcached's protocol, and [`script`] runs Lua scripts. All of them share [`state`]. This crate never opens a
//! socket or starts a thread: `hotring-server` does.
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
pub mod messages;
pub mod observe;
pub mod rdb;
pub mod script;
pub mod settings;
pub mod state;
pub mod table;

#[cfg(fuzzing)]
pub use exec::fuzzing;
