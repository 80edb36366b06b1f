//! The state of a server: what all threads share, what a connection has, what one command sees.

pub(crate) mod batching;
pub(crate) mod client;
pub(crate) mod context;
pub(crate) mod durability;
pub(crate) mod expirer;
pub(crate) mod facts;
pub(crate) mod failure;
pub(crate) mod hot_keys;
pub(crate) mod interpreter;
pub(crate) mod lent;
pub(crate) mod loading;
pub(crate) mod memcached;
pub(crate) mod monitors;
pub(crate) mod notify;
pub(crate) mod pause;
pub(crate) mod pubsub;
pub(crate) mod scripts;
pub(crate) mod scrub;
pub(crate) mod server;
pub(crate) mod snapshots;
pub(crate) mod subscriptions;
pub(crate) mod thread_shared;
pub(crate) mod tls;
pub(crate) mod tracking;
pub(crate) mod transaction;
