//! The state of a server: what all threads share, what a connection has, what one command sees.

pub mod batching;
pub mod bound;
pub mod client;
pub mod context;
pub mod durability;
pub mod expirer;
pub mod facts;
pub mod failure;
pub mod hot_keys;
pub mod interpreter;
pub mod lent;
pub mod loading;
pub mod memcached;
pub mod monitors;
pub mod notify;
pub mod pause;
pub mod pubsub;
pub mod scripts;
pub mod scrub;
pub mod server;
pub mod snapshots;
pub mod subscriptions;
pub mod thread_shared;
pub mod tls;
pub mod tracking;
pub mod transaction;
