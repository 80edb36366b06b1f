//! The server around the HotRing store, for clients of Redis and of memcached.
//!
//! Bytes flow one way: `socket` reads them, `executor` cuts them into requests and runs these by
//! `commands`, which ask the store and write replies; `socket` sends the replies. One OS thread per
//! core does all of that for its own connections (`worker`), and any thread serves any key.
//! `listen` accepts, `expirer` removes what has expired, `background` does the other work that no client waits
//! for, `admin` tells by HTTP how it goes, `run` builds and ends everything. `clock` is the only reader of time, `settings` the only list of settings. `memcached` is the
//! other protocol.
//!
//! ```no_run
//! let config = hotring_server::Config { port: 0, ..Default::default() };
//! let running = hotring_server::start(config)?;
//! println!("redis-cli -p {}", running.addresses()[0].port());
//! running.stop();
//! running.wait().unwrap();
//! # Ok::<(), hotring_server::StartError>(())
//! ```
#![forbid(unsafe_code)]

mod acl;
mod admin;
mod ages;
mod answer;
mod background;
mod big_keys;
mod bound;
mod client;
mod clock;
mod commands;
mod config;
mod context;
mod counters;
mod deadline;
mod durability;
mod engine;
mod error_kinds;
mod executor;
mod expirer;
mod facts;
mod failure;
mod fiber;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod guard;
mod histogram;
mod hot_keys;
mod latency;
mod lent;
mod listen;
mod loading;
mod log;
mod memcached;
mod monitors;
mod notify;
mod pause;
mod pubsub;
mod random;
mod rates;
mod run;
mod script;
mod scripts;
mod scrub;
mod server;
mod settings;
mod slowlog;
mod snapshots;
mod socket;
mod subscriptions;
mod tls;
mod tracking;
mod transaction;
mod watchdog;
mod worker;

pub use acl::Secret;
pub use admin::markdown as metrics_markdown;
pub use config::{Config, Counterpart, LogFormat, LogLevel, StartError, counterpart, toml_value};
pub use durability::{LogSettings, OnError};
pub use files::{NewFile, Special};
pub use guard::Guard;
pub use run::{Running, run, start};
pub use settings::{Change, MemcachedSettings, Setting, find as find_setting, settings};
pub use snapshots::{SavePoint, SnapshotSettings};
pub use tls::{AuthClients, Protocols, TlsSettings};
