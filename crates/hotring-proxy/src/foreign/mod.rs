//! Pools of servers that know nothing of each other: which server has which slot, what requests and replies are in the
//! other protocol, which servers are fit to be asked, and copying keys when the pool changes.
//!
//! The file of the pool says which servers there are. The circle says which slots each of them has.

pub(crate) mod copy;
pub(crate) mod copying;
mod file;
mod item;
mod listing;
pub(crate) mod pool;
pub(crate) mod prepare;
pub(crate) mod probe;
mod rewrite;
pub(crate) mod server;
mod to_memcached;
mod to_redis;
pub(crate) mod translation;
