//! The state of a server: shared by all threads ([`server`]), of a thread ([`thread`]), of a connection ([`client`]),
//! and of one command ([`context`]).

pub mod batching;
pub mod blocked;
pub mod bound;
pub mod client;
pub mod context;
pub mod durability;
pub mod expirer;
pub mod facts;
pub mod failure;
pub mod hot_keys;
pub mod interpreter;
pub mod loading;
pub mod long_values;
pub mod memcached;
pub mod monitors;
pub mod notify;
pub mod observe;
pub mod pause;
pub mod persist;
pub mod process;
pub mod pubsub;
pub mod push;
pub mod scripts;
pub mod scrub;
pub mod server;
pub mod settings;
pub mod snapshots;
pub mod subscriptions;
pub mod tasks;
pub mod thread;
pub mod thread_shared;
pub mod tls;
mod totals;
pub mod tracking;
pub mod transaction;
pub mod warnings;
