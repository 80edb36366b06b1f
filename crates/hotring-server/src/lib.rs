//! The server around the HotRing store, for Redis and memcached clients.
//!
//! `net` accepts connections and moves bytes; `hotring_commands` decodes requests, runs them on the
//! store and writes replies. One OS thread per core does all of this for its own connections, and
//! every thread serves every key. `tasks` holds the threads that no client waits for: expiry,
//! loading, the write-ahead log, snapshots, upkeep. `admin` serves metrics and health checks over
//! HTTP. `run` builds, starts and ends everything.
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

mod admin;
mod net;
mod run;
mod tasks;

pub use admin::markdown as metrics_markdown;
#[cfg(fuzzing)]
pub use hotring_commands::fuzzing;
pub use hotring_commands::host::files::{NewFile, Special};
pub use hotring_commands::host::start_error::StartError;
pub use hotring_commands::settings::config::{
    AuthClients, ClusterSettings, Config, CoordinatorAddress, LogFormat, LogLevel, LogSettings,
    MemcachedSettings, OnError, Protocols, ReplicationSettings, SavePoint, Secret,
    SnapshotSettings, Source, TlsSettings,
};
pub use hotring_commands::settings::guard::Guard;
pub use hotring_commands::settings::{
    Change, Counterpart, Setting, counterpart, find as find_setting, is_for_research, settings,
    toml_value,
};
pub use run::{Running, log_to_stderr, run, start, start_in};
pub use tasks::cluster::connect::coordinator;
